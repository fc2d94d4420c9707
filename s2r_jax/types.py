"""The values that stages exchange. No JAX import here: the robot side uses this file too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

#: numpy on the robot and in logs, JAX in the simulator.
Array = Any


class Log(NamedTuple):
    """One recording of a machine, in SI units; each channel is a column of the robot's map.

    A channel is `[time]`, or `[time, k]` for a vector (a position, a quaternion); NaN where nothing
    was recorded.
    Channel names: `joint/<joint>/position|velocity`,
    `body/<body>/position|orientation|velocity|angular_velocity`,
    `sensor/<sensor>`, `motor/<actuator>/duty|torque`, `battery/voltage`,
    `command/<actuator>/target|torque|kp|kd|enabled`.
    """

    name: str
    """File and, where a file holds several trajectories, the index."""
    time: Float[np.ndarray, " time"]
    """[s], strictly increasing."""
    channels: Mapping[str, np.ndarray]


class Command(NamedTuple):
    """What the motors are told for one control period; every array is `[nu]` but the voltage.

    The meaning of `target` is the motor's: an angle [rad] for `pd` and `dc_servo`, a torque [N m]
    for `torque`, MuJoCo's
    ctrl for `native`.
    """

    target: Float[Array, " nu"]
    torque: Float[Array, " nu"]
    """Feed-forward torque [N m]."""
    kp: Float[Array, " nu"]
    """Position gain, in the unit of the motor's `kp`."""
    kd: Float[Array, " nu"]
    """Speed gain, in the unit of the motor's `kd`."""
    enabled: Float[Array, " nu"]
    """1 with torque on, 0 with the winding open."""
    voltage: Float[Array, ""]
    """Measured supply [V]; NaN leaves it to the battery model."""


class Trajectory(NamedTuple):
    """A log on the uniform grid of the control period, as the simulator wants it."""

    name: str
    command: Command
    """Leaves `[time, nu]`, `voltage` `[time]`; row k is held from grid time k to k + 1."""
    measured: Float[Array, "time sensor"]
    """The robot's signals in its order; NaN where missing."""
    qpos: Float[Array, "time nq"]
    """Estimated from the measurement, smoothed: the start of a window [rad, m]."""
    qvel: Float[Array, "time nv"]


class Posterior(NamedTuple):
    """What identification knows of θ.

    A Gaussian in the unconstrained coordinates of the parameter set.
    """

    names: tuple[str, ...]
    value: Float[np.ndarray, " param"]
    """Estimate, in each parameter's own unit."""
    std: Float[np.ndarray, " param"]
    """Standard error, in each parameter's own unit; inf where the logs say nothing."""
    mean: Float[np.ndarray, " param"]
    """Mean in unconstrained coordinates."""
    covariance: Float[np.ndarray, "param param"]
    """In unconstrained coordinates."""
    identifiable: Bool[np.ndarray, " param"]
    at_bound: Bool[np.ndarray, " param"]
