"""Estimate the state of the model from what was measured: where a simulation starts.

The filter is a Savitzky-Golay one (Analytical Chemistry 36, 1964): a local cubic, centred, so that
angle and speed come from the same fit and lag behind by nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import mujoco
import numpy as np
import scipy.signal
from jaxtyping import Float

from s2r_jax.logs.resample import continuous, finite_rows, interpolate, is_rotation
from s2r_jax.robot import Robot

#: Of the local polynomial: a cubic follows the acceleration of a swing.
ORDER = 3


class StateEstimate(NamedTuple):
    """The model's state at every row of a grid."""

    qpos: Float[np.ndarray, "time nq"]
    """NaN in gaps of the measurement [rad, m]."""
    qvel: Float[np.ndarray, "time nv"]
    unmeasured: tuple[str, ...]
    """Joints of which the log says nothing: they stand still at the model's qpos0."""


def estimate(
    channels: Mapping[str, np.ndarray], rows: int, robot: Robot, smoothing: float
) -> StateEstimate:
    """Return the state at every row of a grid of the robot's period.

    The nominal bias, scale and delay of the robot's sensors are undone first (a delay leaves the
    last rows unknown). Hinges and slides take their angle and speed from the measured position; a
    measured velocity counts only where there is no position, because the derivative of encoder
    angles without phase is the better speed. Free bodies take pose and velocity as recorded (an
    impact must stay an impact), and differentiate the pose where no velocity is.

    Args:
        channels: Of a resampled log.
        rows: Length of the grid.
        robot: The machine.
        smoothing: Window of the filter [s].
    """
    model = robot.model
    qpos = np.tile(model.qpos0, (rows, 1))
    qvel = np.zeros((rows, model.nv))
    corrected = _corrected(channels, robot)
    unmeasured = []
    for j in range(model.njnt):
        name = model.joint(j).name
        adr, dof = int(model.jnt_qposadr[j]), int(model.jnt_dofadr[j])
        if int(model.jnt_type[j]) >= int(mujoco.mjtJoint.mjJNT_SLIDE):
            position = corrected.get(f"joint/{name}/position")
            velocity = corrected.get(f"joint/{name}/velocity")
            if position is not None:
                qpos[:, adr], qvel[:, dof] = smooth(position, robot.period, smoothing)
            elif velocity is not None:
                qvel[:, dof], _ = smooth(velocity, robot.period, smoothing)
            if position is None:
                unmeasured.append(name)
        elif int(model.jnt_type[j]) == int(mujoco.mjtJoint.mjJNT_FREE):
            body = f"body/{model.body(model.jnt_bodyid[j]).name}"
            missing = _free(corrected, body, qpos[:, adr : adr + 7], qvel[:, dof : dof + 6],
                            robot.period, smoothing)  # fmt: skip
            unmeasured += missing
        else:
            unmeasured.append(name)
    return StateEstimate(qpos, qvel, tuple(unmeasured))


def smooth(
    values: Float[np.ndarray, " time *k"], period: float, window: float
) -> tuple[Float[np.ndarray, " time *k"], Float[np.ndarray, " time *k"]]:
    """Return a measured series and its derivative, both without phase; NaN where it is missing.

    Args:
        values: On a grid; NaN splits it.
        period: Of the grid [s].
        window: Of the filter [s]. A grid too coarse for it gets the raw values, and central
            differences as their derivative.
    """
    fitted, slope = np.full_like(values, np.nan), np.full_like(values, np.nan)
    for low, high in _runs(finite_rows(values)):
        part = values[low:high]
        length = 2 * (round(window / period) // 2) + 1
        length = min(length, len(part) - 1 + len(part) % 2)
        if length > ORDER:
            for target, derivative in ((fitted, 0), (slope, 1)):
                target[low:high] = scipy.signal.savgol_filter(
                    part, length, ORDER, deriv=derivative, delta=period, axis=0
                )
        else:
            fitted[low:high] = part
            slope[low:high] = np.gradient(part, period, axis=0) if len(part) > 1 else 0.0
    return fitted, slope


def angular_velocity(
    orientation: Float[np.ndarray, "time 4"], period: float, window: float
) -> Float[np.ndarray, "time 3"]:
    """Return the angular velocity in the body's frame [rad/s] of a series of quaternions w x y z.

    ω = 2 vec(q* q̇).
    """
    known = finite_rows(orientation)
    signed = orientation.copy()
    signed[known] = continuous(orientation[known])
    q, slope = smooth(signed, period, window)
    q = q / np.linalg.norm(q, axis=1, keepdims=True)
    w, v = q[:, :1], q[:, 1:]
    return 2.0 * (w * slope[:, 1:] - slope[:, :1] * v - np.cross(v, slope[:, 1:]))


def _free(
    channels: Mapping[str, np.ndarray],
    body: str,
    qpos: Float[np.ndarray, "time 7"],
    qvel: Float[np.ndarray, "time 6"],
    period: float,
    window: float,
) -> list[str]:
    """Fill the state of one free body; return what of it was not measured."""
    position, orientation = channels.get(f"{body}/position"), channels.get(f"{body}/orientation")
    velocity = channels.get(f"{body}/velocity")
    rotation = channels.get(f"{body}/angular_velocity")
    if position is not None:
        qpos[:, :3] = position
    if orientation is not None:
        qpos[:, 3:] = orientation
    if velocity is not None:
        qvel[:, :3] = velocity
    elif position is not None:
        qvel[:, :3] = smooth(position, period, window)[1]
    if rotation is not None:
        qvel[:, 3:] = rotation
    elif orientation is not None:
        qvel[:, 3:] = angular_velocity(orientation, period, window)
    parts = {"position": position, "orientation": orientation}
    return [f"{body}/{part}" for part, values in parts.items() if values is None]


def _corrected(channels: Mapping[str, np.ndarray], robot: Robot) -> dict[str, np.ndarray]:
    """Undo the nominal bias, scale and delay of the robot's sensors."""
    corrected = dict(channels)
    for signal in robot.signals:
        if signal.name not in corrected:
            continue
        values = (corrected[signal.name] - signal.bias) / signal.scale
        if signal.delay > 0:
            grid = robot.period * np.arange(len(values))
            turns = is_rotation(signal.name, values)
            values = interpolate(grid - signal.delay, values, grid, 1.5 * robot.period, turns)
        corrected[signal.name] = values
    return corrected


def _runs(known: np.ndarray) -> list[tuple[int, int]]:
    """Return the stretches of rows that are known."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    return [(int(low), int(high)) for low, high in edges.reshape(-1, 2)]
