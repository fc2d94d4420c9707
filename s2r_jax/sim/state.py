"""What a simulated world is made of.

`World` holds what θ says of it and stays fixed within an episode; `State` is what a step changes.
"""

from typing import Any, NamedTuple

from jaxtyping import Array, Float, Int

from s2r_jax.sim import battery, latency, motor, push, sensors
from s2r_jax.sim.engines import Physics


class World(NamedTuple):
    """One world's physics, fixed within an episode."""

    theta: Float[Array, " param"]
    engine: Any
    """The engine's own form of θ."""
    motor: motor.Motor
    battery: battery.Battery
    latency: latency.Latency
    push: push.Push
    sensors: sensors.Sensors
    clock: Float[Array, ""]
    """How much later, on the clock of the measurements, commands were given than a log says [s].

    Only `as_logged` heeds it: a live robot has no log.
    """


class State(NamedTuple):
    """What a step changes."""

    physics: Physics
    line: Float[Array, "held 3 nu"]
    """Targets, feed-forward torques and enables, newest first."""
    lagged: Float[Array, " nu"]
    """Torque behind the motor's lag [N m]; of a `rotor` its throttle."""
    torque: Float[Array, " nu"]
    """Torque of the motors in the last physics step [N m]."""
    gap: Float[Array, " nu"]
    """Angle of the motor's side of the backlash minus that of the joint [rad]."""
    duty: Float[Array, " nu"]
    current: Float[Array, ""]
    """Drawn from the battery [A]."""
    charge: Float[Array, ""]
    """Taken from the battery since the start [C]."""
    voltage: Float[Array, ""]
    """Terminal voltage in the last physics step [V]."""
    history: Float[Array, "ticks sensor"]
    """True signals at the last control ticks, newest first."""
    drift: Float[Array, " sensor"]
    """Random-walk part of the bias."""
    tick: Int[Array, ""]
    """Control periods since the start."""
