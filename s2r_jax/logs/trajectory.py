"""From a log to what the simulator wants: commands, measurements and states on the control grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from s2r_jax.errors import BadLog
from s2r_jax.logs.config import LogsConfig
from s2r_jax.logs.resample import ON_GRID, longest_gap, resample
from s2r_jax.logs.state import StateEstimate, estimate
from s2r_jax.robot import Robot
from s2r_jax.types import Command, Log, Trajectory

#: Rows this many control periods apart say nothing of the motion: the time has another unit.
SPARSEST = 100


def trajectory(log: Log, robot: Robot, config: LogsConfig | None = None) -> Trajectory:
    """Return a log on the grid of the robot's control period.

    What a log does not say of a command takes the firmware's nominal value: gains of `motors`, no
    feed-forward torque, torque on, the supply of the battery model (NaN).

    Args:
        log: In SI units, with any clock.
        robot: The machine it was recorded on.
        config: Gaps and smoothing; the defaults where None.

    Raises:
        BadLog: A motor without target, a log of which no signal of the robot was measured, or a
            clock that cannot be in seconds: too short or too sparse for the control period.
    """
    config = LogsConfig() if config is None else config
    _check(log, robot)
    even = _even(log, robot, config)
    state = estimate(even.channels, len(even.time), robot, config.smoothing)
    measured = np.full((len(even.time), sum(s.size for s in robot.signals)), np.nan)
    for name, entries in robot.signal_slices.items():
        if name in even.channels:
            measured[:, list(entries)] = even.channels[name].reshape(len(even.time), -1)
    return Trajectory(log.name, _command(even, robot), measured, state.qpos, state.qvel)


def state_estimate(log: Log, robot: Robot, config: LogsConfig | None = None) -> StateEstimate:
    """Return the state of `trajectory`, with the joints of which the log says nothing."""
    config = LogsConfig() if config is None else config
    even = _even(log, robot, config)
    return estimate(even.channels, len(even.time), robot, config.smoothing)


def _even(log: Log, robot: Robot, config: LogsConfig) -> Log:
    return resample(log, robot.period, longest_gap(log, robot.period, config.max_gap))


def _check(log: Log, robot: Robot) -> None:
    step, length = float(np.median(np.diff(log.time))), float(log.time[-1] - log.time[0])
    hint = f"with a control period of {robot.period:g} s: is the unit of its time right?"
    if step > SPARSEST * robot.period:
        raise BadLog(log.name, "", f"has a row every {step:.3g} s, {hint}")
    if length < robot.period * (1 - ON_GRID):
        raise BadLog(log.name, "", f"lasts {length:.3g} s, {hint}")
    for actuator in robot.actuators:
        channel = f"command/{actuator}/target"
        if channel not in log.channels:
            problem = f"is missing; map it in {robot.file}: logs: columns"
            raise BadLog(log.name, channel, problem)
    if not any(signal.name in log.channels for signal in robot.signals):
        wanted = ", ".join(signal.name for signal in robot.signals)
        problem = f"no signal of the robot was recorded; {robot.file}: signals has {wanted}"
        raise BadLog(log.name, "", problem)


def _command(even: Log, robot: Robot) -> Command:
    rows, values = len(even.time), robot.motors.values
    nominal = {
        "target": np.full(robot.model.nu, np.nan),  # checked to be there
        "torque": np.zeros(robot.model.nu),
        "kp": values["kp"],
        "kd": values["kd"],
        "enabled": np.ones(robot.model.nu),
    }
    fields: dict[str, Any] = {}
    for attribute, default in nominal.items():
        fields[attribute] = np.tile(np.asarray(default, dtype=float), (rows, 1))
        for index, actuator in enumerate(robot.actuators):
            given = even.channels.get(f"command/{actuator}/{attribute}")
            if given is not None:
                fields[attribute][:, index] = given
    fields["voltage"] = even.channels.get("battery/voltage", np.full(rows, np.nan))
    return Command(**fields)
