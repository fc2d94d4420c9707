"""Residual and Jacobian over all windows: forward mode through the physics, or differences.

Both search in the unconstrained coordinates z of the parameter set.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from s2r_jax.identify.residual import residual
from s2r_jax.identify.segments import Segments
from s2r_jax.parameters import constrain
from s2r_jax.sim.world import Simulator

#: Relative step of central differences in float64: with contact a step of 1e-3 is itself wrong by
#: 10-90 %.
STEP = 1e-5

Precision = Float[Array, " sensor"]


class Linearization(NamedTuple):
    """The whitened residual of all windows and its derivative with respect to z."""

    residual: Float[Any, "segment time sensor"]
    jacobian: Float[Any, "segment time sensor param"]


def linearize_forward(
    simulator: Simulator, z: Float[Array, " param"], segments: Segments, precision: Precision
) -> Linearization:
    """Differentiate the simulation itself, in forward mode: θ is short, the signals are long."""

    def one(segment: Segments) -> tuple[Array, Array]:
        def value(z: Array) -> tuple[Array, Array]:
            out = residual(simulator, constrain(simulator.parameters, z), segment, precision)
            return out, out

        slope, out = jax.jacfwd(value, has_aux=True)(z)
        return out, slope

    return Linearization(*jax.vmap(one)(segments))


def linearize_fd(
    simulator: Simulator, z: Float[Array, " param"], segments: Segments, precision: Precision
) -> Linearization:
    """Central differences, all columns and windows in one wide batch; works on every engine."""
    step = STEP * jnp.maximum(1.0, jnp.abs(z))
    offsets = jnp.concatenate([jnp.zeros((1, z.size), z.dtype), jnp.diag(step), -jnp.diag(step)])

    def one(z: Array, segment: Segments) -> Array:
        return residual(simulator, constrain(simulator.parameters, z), segment, precision)

    over_segments = jax.vmap(one, in_axes=(None, 0))
    values = jax.vmap(over_segments, in_axes=(0, None))(z + offsets, segments)
    count = z.size
    slope = (values[1 : count + 1] - values[count + 1 :]) / (2 * step[:, None, None, None])
    return Linearization(values[0], jnp.moveaxis(slope, 0, -1))


Linearize = Callable[[Float[Array, " param"], Segments, Precision], Linearization]


def compile_linearization(simulator: Simulator, method: str) -> Linearize:
    """Return the jitted linearisation of a method (`lm`: forward mode, `fd`: differences)."""
    function = {"lm": linearize_forward, "fd": linearize_fd}[method]
    return jax.jit(lambda z, segments, precision: function(simulator, z, segments, precision))


def agreement(exact: np.ndarray, difference: np.ndarray) -> Float[np.ndarray, " param"]:
    """Return the cosine between the columns of two Jacobians; 1 for two zero columns."""
    first = np.reshape(exact, (-1, exact.shape[-1]))
    second = np.reshape(difference, (-1, difference.shape[-1]))
    inner = (first * second).sum(0)
    size = np.linalg.norm(first, axis=0) * np.linalg.norm(second, axis=0)
    return np.where(size > 0, inner / np.where(size > 0, size, 1.0), (first == second).all(0))
