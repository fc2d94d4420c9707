"""The one residual that every method consumes.

Simulate the windows at θ, compare with what was measured.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from s2r_jax.identify.segments import Segments
from s2r_jax.identify.start import as_read
from s2r_jax.sim import sensors
from s2r_jax.sim.replay import replay
from s2r_jax.sim.world import Simulator


def simulate(
    simulator: Simulator, theta: Float[Array, " param"], segment: Segments
) -> Float[Array, "time sensor"]:
    """Return the noise-free signals of one window, from its measured start under its commands.

    Args:
        simulator: The robot on an engine.
        theta: Parameters.
        segment: One window: `Segments` without the leading axis.
    """
    world = simulator.as_logged(simulator.world(theta))
    segment = as_read(simulator, world.sensors, segment)
    world = world._replace(sensors=sensors.exact(world.sensors))
    dtype = theta.dtype
    qpos, qvel = jnp.asarray(segment.qpos, dtype), jnp.asarray(segment.qvel, dtype)
    state = simulator.init(world, qpos, qvel)
    state = state._replace(line=jnp.asarray(segment.past, dtype))

    commands = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), segment.command)
    state = simulator.settle(world, state, jax.tree.map(lambda leaf: leaf[0], commands))

    return replay(simulator, world, state, commands)


def residual(
    simulator: Simulator,
    theta: Float[Array, " param"],
    segment: Segments,
    precision: Float[Array, " sensor"],
) -> Float[Array, "time sensor"]:
    """Return the whitened error of one window, zero where nothing was measured.

    Args:
        simulator: The robot on an engine.
        theta: Parameters.
        segment: One window.
        precision: 1 / standard deviation of each signal's error; 0 leaves a signal out.

    An orientation's error is the rotation vector from measured to simulated [rad], in its first
    three entries.
    """
    simulated = simulate(simulator, theta, segment)
    error = difference(simulator, simulated, jnp.asarray(segment.measured, theta.dtype))
    return error * precision * jnp.asarray(segment.weight, theta.dtype)


def difference(
    simulator: Simulator,
    simulated: Float[Array, "*windows time sensor"],
    measured: Float[Array, "*windows time sensor"],
) -> Float[Array, "*windows time sensor"]:
    """Return simulated minus measured.

    For an orientation the rotation vector, and 0 in its fourth entry.
    """
    error = simulated - measured
    for signal in simulator.robot.signals:
        if signal.kind == "body" and signal.attribute == "orientation":
            at = np.array(simulator.robot.signal_slices[signal.name])
            turn = rotation_between(measured[..., at], simulated[..., at])
            error = error.at[..., at].set(
                jnp.concatenate([turn, jnp.zeros_like(turn[..., :1])], -1)
            )
    return error


def rotation_between(
    first: Float[Array, "*batch 4"], second: Float[Array, "*batch 4"]
) -> Float[Array, "*batch 3"]:
    """Return the rotation vector [rad], at most π long, from one quaternion (wxyz) to another."""
    w0, v0, w1, v1 = first[..., :1], first[..., 1:], second[..., :1], second[..., 1:]
    w = w0 * w1 + jnp.sum(v0 * v1, -1, keepdims=True)
    v = w0 * v1 - w1 * v0 - jnp.cross(v0, v1)
    sign = jnp.where(w < 0, -1.0, 1.0)
    w, v = sign * w, sign * v
    square = jnp.sum(v * v, -1, keepdims=True)
    is_small = square < 1e-16  # below this the angle is 2 |v| to double precision
    length = jnp.sqrt(jnp.where(is_small, 1.0, square))
    return v * jnp.where(is_small, 2.0, 2.0 * jnp.arctan2(length, w) / length)


def axis_of_windows(theta: Float[Array, "*segment param"]) -> int | None:
    """Return the axis along which windows have a θ of their own; None where they share one."""
    return 0 if theta.ndim > 1 else None


@functools.partial(jax.jit, static_argnums=0)
def _simulate_all(simulator: Simulator, theta: Array, segments: Segments) -> Array:
    one = functools.partial(simulate, simulator)
    return jax.vmap(one, in_axes=(axis_of_windows(theta), 0))(theta, segments)


def simulate_all(
    simulator: Simulator, theta: Float[Array, "*segment param"], segments: Segments
) -> Float[Array, "segment time sensor"]:
    """Return the signals of all windows at one θ, or each at its own.

    A driver, compiled once a shape.
    """
    return _simulate_all(simulator, theta, segments)
