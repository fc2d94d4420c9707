"""The cost of θ as a plain number: for populations on the C engine, and its slope by reverse mode.

The same residual as everywhere, without the windows' starts as unknowns: 0.5 |r|², or the
pseudo-Huber loss, plus the priors.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from s2r_jax.identify.residual import residual
from s2r_jax.identify.segments import Segments
from s2r_jax.parameters import constrain
from s2r_jax.sim.world import Simulator


def cost(
    simulator: Simulator,
    z: Float[Array, " param"],
    segments: Segments,
    precision: Float[Array, " sensor"],
    robust: float,
) -> Float[Array, ""]:
    """Return the cost of one θ over all windows, without priors."""

    @jax.checkpoint
    def one(segment: Segments) -> Array:
        r = residual(simulator, constrain(simulator.parameters, z), segment, precision)
        if robust <= 0:
            return 0.5 * jnp.sum(r**2)
        return robust**2 * jnp.sum(jnp.sqrt(1 + (r / robust) ** 2) - 1)

    return jnp.sum(jax.vmap(one)(segments))


def prior_cost(
    z: Float[Array, " param"], start: Float[Array, " param"], precision: Float[Array, " param"]
) -> Float[Array, ""]:
    """Return the cost of the Gaussian priors in search coordinates."""
    return 0.5 * jnp.sum(((z - start) * precision) ** 2)


Costs = Callable[[Float[Array, "population param"]], Float[Array, " population"]]
Slope = Callable[[Float[Array, " param"]], tuple[Float[Array, ""], Float[Array, " param"]]]


Objective = Callable[[Float[Array, " param"]], Float[Array, ""]]


def objective(
    simulator: Simulator,
    segments: Segments,
    precision: Float[Array, " sensor"],
    robust: float,
    start: Float[Array, " param"],
    prior: Float[Array, " param"],
) -> Objective:
    """Return the cost with priors as a function of z alone."""
    return lambda z: cost(simulator, z, segments, precision, robust) + prior_cost(z, start, prior)


def compile_costs(function: Objective) -> Costs:
    """Return the jitted cost of a population: all members and windows in one wide batch."""
    return jax.jit(jax.vmap(function))


def compile_slope(function: Objective) -> Slope:
    """Return the jitted cost and its slope, by reverse mode through the physics."""
    return jax.jit(jax.value_and_grad(function))
