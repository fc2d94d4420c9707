"""Sensors.

From the state of a world to what the machine would report, late, biased, noisy and quantised.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from s2r_jax.signals import Signal
from s2r_jax.sim.engines import Physics


class Sensors(NamedTuple):
    """Error model, each entry `[sensor]`; units in `signals.Signal`.

    Reading = quantise(scale * truth + bias + drift + noise), delay late, rate times a second.
    """

    bias: Float[Array, " sensor"]
    scale: Float[Array, " sensor"]
    noise: Float[Array, " sensor"]
    drift: Float[Array, " sensor"]
    quantum: Float[Array, " sensor"]
    delay: Float[Array, " sensor"]
    rate: Float[Array, " sensor"]


def exact(sensors: Sensors) -> Sensors:
    """Return sensors of infinite resolution, the mean of what they would report.

    A staircase has no slope that differences could see.
    """
    return sensors._replace(quantum=jnp.zeros_like(sensors.quantum))


def truth(
    signals: tuple[Signal, ...],
    joints: dict[int, tuple[int, int]],
    physics: Physics,
    duty: Float[Array, " nu"],
    torque: Float[Array, " nu"],
    voltage: Float[Array, ""],
) -> Float[Array, " sensor"]:
    """Return the true value of every signal, in the robot's order.

    Args:
        signals: The robot's signals.
        joints: Body id -> (qpos, qvel address) of its free joint.
        physics: The engine's state.
        duty: Duty cycle of the motors.
        torque: Torque of the motors [N m].
        voltage: Supply [V].
    """
    if not signals:
        return jnp.zeros(0, physics.qpos.dtype)
    return jnp.concatenate([
        _one(signal, joints, physics, duty, torque, voltage) for signal in signals
    ]).astype(physics.qpos.dtype)  # fmt: skip


def read(
    sensors: Sensors,
    history: Float[Array, "held sensor"],
    drift: Float[Array, " sensor"],
    tick: Int[Array, ""],
    period: float,
    key: PRNGKeyArray | None,
) -> Float[Array, " sensor"]:
    """Return the reading at the newest control tick; without a key there is no noise.

    Args:
        sensors: Error model.
        history: True values at the last control ticks, newest first.
        drift: Present random-walk bias.
        tick: Number of the newest control tick.
        period: Control period [s].
        key: Of the white noise of a whole episode; a sample's noise follows from the key and the
            sample's number, so that a held sample keeps its noise.
    """
    sample, age = _held(sensors.rate, tick, period)
    value = sensors.scale * _delayed(history, sensors.delay / period + age) + sensors.bias + drift
    if key is not None:
        value = value + sensors.noise * _white(key, sample, value.dtype)
    quantum = jnp.where(sensors.quantum > 0, sensors.quantum, 1.0)
    # Straight through: the staircase has no useful derivative.
    stairs = value + jax.lax.stop_gradient(jnp.round(value / quantum) * quantum - value)
    return jnp.where(sensors.quantum > 0, stairs, value)


def wander(
    sensors: Sensors, drift: Float[Array, " sensor"], period: float, key: PRNGKeyArray
) -> Float[Array, " sensor"]:
    """Return the random-walk bias one control period [s] later.

    Source: rate random walk of IEEE Std 952, variance drift^2 per second.
    """
    return drift + sensors.drift * period**0.5 * jax.random.normal(key, drift.shape, drift.dtype)


def _held(
    rate: Float[Array, " sensor"], tick: Int[Array, ""], period: float
) -> tuple[Int[Array, " sensor"], Float[Array, " sensor"]]:
    """Return the number of the last sample and its age in ticks; samples are taken at k / rate."""
    is_slower = rate > 0
    ticks = 1.0 / (period * jnp.where(is_slower, rate, 1.0 / period))  # between samples
    now = tick.astype(rate.dtype)
    # A sample due at this very tick counts, however its time was rounded.
    number = jax.lax.stop_gradient(jnp.floor(now / ticks + 1e-4))
    age = jnp.where(is_slower, jnp.maximum(now - number * ticks, 0.0), 0.0)
    return jnp.where(is_slower, number.astype(tick.dtype), tick), age


def _white(key: PRNGKeyArray, sample: Int[Array, " sensor"], dtype: Any) -> Array:
    """Return standard normal noise, a function of the key, the entry and its sample's number."""

    def one(entry: Array, number: Array) -> Array:
        folded = jax.random.fold_in(jax.random.fold_in(key, entry), number)
        return jax.random.normal(folded, (), dtype)

    return jax.vmap(one)(jnp.arange(sample.size), sample)


def _delayed(
    history: Float[Array, "held sensor"], ticks: Float[Array, " sensor"]
) -> Float[Array, " sensor"]:
    """Interpolate linearly between control ticks."""
    if history.shape[0] == 1:
        return history[0]
    at = jnp.arange(history.shape[0], dtype=history.dtype)[:, None]
    weight = jnp.clip(1.0 - jnp.abs(at - jnp.clip(ticks, 0.0, history.shape[0] - 1)), 0.0, 1.0)
    return jnp.sum(weight * history, axis=0)


def _one(
    signal: Signal,
    joints: dict[int, tuple[int, int]],
    physics: Physics,
    duty: Any,
    torque: Any,
    voltage: Any,
) -> Array:
    if signal.kind == "joint":
        source = physics.qpos if signal.attribute == "position" else physics.qvel
        return source[signal.address[0]][None]
    if signal.kind == "sensor":
        return physics.sensordata[jnp.array(signal.address)]
    if signal.kind == "motor":
        return (duty if signal.attribute == "duty" else torque)[signal.address[0]][None]
    if signal.kind == "battery":
        return voltage[None]
    qpos, qvel = joints[signal.address[0]]
    start, size = {
        "position": (qpos, 3),
        "orientation": (qpos + 3, 4),
        "velocity": (qvel, 3),
        "angular_velocity": (qvel + 3, 3),
    }[signal.attribute]
    source = physics.qpos if signal.attribute in ("position", "orientation") else physics.qvel
    return source[start : start + size]
