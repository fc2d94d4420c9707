"""Residual and Jacobian over all windows: forward mode through the physics, or differences.

Both search in the unconstrained coordinates z of the parameter set, and in the displacements of the
windows' starts where those are unknown too. Unknowns of independent parts of the machine share one
direction (`coloring.py`).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from s2r_jax.identify.coloring import coloring, expand
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.residual import axis_of_windows, residual
from s2r_jax.identify.segments import Segments
from s2r_jax.identify.start import displaced
from s2r_jax.parameters import constrain
from s2r_jax.sim.world import Simulator

Precision = Float[Array, " sensor"]


class Linearization(NamedTuple):
    """The whitened residual of all windows and its derivatives."""

    residual: Float[Any, "segment time sensor"]
    jacobian: Float[Any, "segment time sensor param"]
    """With respect to z."""
    start: Float[Any, "segment time sensor start"]
    """With respect to the displacement of the window's own start."""


Linearize = Callable[
    [Float[Array, "*segment param"], Float[Array, "segment start"], Segments, Precision],
    Linearization,
]


def linearize_forward(
    simulator: Simulator,
    z: Float[Array, "*segment param"],
    starts: Float[Array, "segment start"],
    segments: Segments,
    precision: Precision,
) -> Linearization:
    """Differentiate the simulation itself, in forward mode: θ is short, the signals are long.

    Args:
        simulator: The robot on an engine.
        z: θ in search coordinates, one for all windows or one for each.
        starts: Displacements of the windows' starts.
        segments: The windows.
        precision: See `residual.residual`.
    """
    colors = coloring(simulator, starts.shape[-1])
    seeds = jnp.asarray(colors.seeds, z.dtype)

    def one(z: Array, segment: Segments, start: Array) -> tuple[Array, Array]:
        def along(seed: Array) -> tuple[Array, Array]:
            x = jnp.concatenate([z, start])
            return jax.jvp(
                lambda x: _residual(simulator, x, z.size, segment, precision), [x], [seed]
            )

        return jax.vmap(along, out_axes=(None, -1))(seeds)

    out, slope = jax.vmap(one, in_axes=(axis_of_windows(z), 0, 0))(z, segments, starts)
    slope, count = expand(slope, colors), z.shape[-1]
    return Linearization(out, slope[..., :count], slope[..., count:])


def linearize_fd(
    simulator: Simulator,
    z: Float[Array, "*segment param"],
    starts: Float[Array, "segment start"],
    segments: Segments,
    precision: Precision,
    step: float = IdentifyConfig.step,
) -> Linearization:
    """Central differences, all directions and windows in one wide batch; works on every engine.

    `step` is that of θ, see `IdentifyConfig.step`; starts are moved by the default one.
    """
    count = z.shape[-1]
    size = count + starts.shape[-1]
    of_starts = jnp.full(size - count, IdentifyConfig.step, z.dtype)
    largest = jnp.max(jnp.abs(jnp.atleast_2d(z)), axis=0)
    steps = jnp.concatenate([step * jnp.maximum(1.0, largest), of_starts])
    colors = coloring(simulator, starts.shape[-1])
    moves = jnp.asarray(colors.seeds, z.dtype) * steps
    offsets = jnp.concatenate([jnp.zeros((1, size), z.dtype), moves, -moves])

    def one(offset: Array, z: Array, segment: Segments, start: Array) -> Array:
        x = jnp.concatenate([z, start]) + offset
        return _residual(simulator, x, count, segment, precision)

    over_segments = jax.vmap(one, in_axes=(None, axis_of_windows(z), 0, 0))
    values = jax.vmap(over_segments, in_axes=(0, None, None, None))(offsets, z, segments, starts)
    rise = values[1 : len(moves) + 1] - values[len(moves) + 1 :]
    slope = expand(jnp.moveaxis(rise, 0, -1), colors) / (2 * steps)
    return Linearization(values[0], slope[..., :count], slope[..., count:])


@functools.lru_cache(maxsize=8)
def compile_linearization(
    simulator: Simulator, method: str, step: float = IdentifyConfig.step
) -> Linearize:
    """Return the jitted linearisation of a method (`lm`: forward mode, `fd`: differences).

    The same function for the same simulator, so that a second fit finds it traced and compiled.
    """
    if method == "lm":
        return jax.jit(lambda *given: linearize_forward(simulator, *given))
    return jax.jit(lambda *given: linearize_fd(simulator, *given, step=step))


def agreement(exact: np.ndarray, difference: np.ndarray) -> Float[np.ndarray, " param"]:
    """Return the cosine between the columns of two Jacobians; 1 for two zero columns."""
    first = np.reshape(exact, (-1, exact.shape[-1]))
    second = np.reshape(difference, (-1, difference.shape[-1]))
    inner = (first * second).sum(0)
    size = np.linalg.norm(first, axis=0) * np.linalg.norm(second, axis=0)
    return np.where(size > 0, inner / np.where(size > 0, size, 1.0), (first == second).all(0))


def _residual(
    simulator: Simulator, x: Array, count: int, segment: Segments, precision: Precision
) -> Array:
    theta = constrain(simulator.parameters, x[:count])
    moved = displaced(simulator.robot.model, segment, x[count:])
    return residual(simulator, theta, moved, precision)
