"""Excitations: from a few coefficients in the unit cube to commands on the control grid.

Every family gives a shape in [-1, 1] for each actuator; it is laid into the band of what may be
commanded, and fades in and out from a pose at rest. The same coefficients serve all families, so
that a search can move between them. Sequences of ramps and holds break stiction and show gravity.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from s2r_jax.errors import BadModel, BadValue, UnknownName
from s2r_jax.identify.plan_config import PlanConfig
from s2r_jax.robot import Robot

#: Coefficients before those of the shape: level, offset, and how steep or how logarithmic.
HEAD = 3
#: Part of the band at level 0; level 1 is all of it.
LEAST = 0.02
#: Shares of the duration, and seconds, that a fade takes; the shorter one counts.
FADE = (0.1, 0.5)
#: Part of the control rate above which a sine of commands is a staircase.
FASTEST = 0.2


class Band(NamedTuple):
    """What may be commanded, each `[nu]`, in the unit of the motor's target."""

    rest: Float[np.ndarray, " nu"]
    """Asks for no motion at the pose."""
    low: Float[np.ndarray, " nu"]
    high: Float[np.ndarray, " nu"]


def pose(robot: Robot, margin: float) -> tuple[Float[np.ndarray, " nq"], tuple[str, ...]]:
    """Return where the machine stands at the start and the end, and what was decided about it.

    Joints that are told an angle stand at their `default`, or in the middle of their limits where
    that lies outside; all others at the model's own pose.
    """
    qpos, notes = np.array(robot.model.qpos0, dtype=float), []
    for i, joint in enumerate(robot.joints):
        if robot.motors.targets[i] != "angle" or robot.motors.qposes[i] < 0:
            continue
        low, high = _angles(robot, i)
        edge = 0.5 * margin * (high - low) if np.isfinite(high - low) else 0.0
        value = joint.default
        if not low + edge <= value <= high - edge:
            value = 0.5 * (low + high) if np.isfinite(high - low) else np.clip(value, low, high)
            notes.append(
                f"{joint.name} starts at {value:.3g}, inside its limits; its default "
                f"{joint.default:g} is not"
            )
        qpos[robot.motors.qposes[i]] = value
    return qpos, tuple(notes)


def band(robot: Robot, qpos: Float[np.ndarray, " nq"], config: PlanConfig) -> Band:
    """Return what may be commanded from a pose; actuators that are not excited only their rest.

    Raises:
        BadModel: The robot has no actuators.
        UnknownName: A joint to excite that the robot does not have.
        BadValue: Nothing says how hard a motor may be driven, or its rest lies outside.
    """
    if not robot.model.nu:
        raise BadModel(
            robot.file,
            "the model has no actuators, so there is nothing to command; move the machine by hand "
            "or throw it, and record that",
        )
    names = [joint.name for joint in robot.joints]
    for name in config.excite:
        if name not in names:
            raise UnknownName("--excite", name, names, "actuated joint")
    rest, low, high = (np.zeros(robot.model.nu) for _ in range(3))
    for i, name in enumerate(names):
        low[i], high[i] = _limits(robot, i, config.margin)
        if robot.motors.targets[i] == "angle":
            rest[i] = qpos[robot.motors.qposes[i]] if robot.motors.qposes[i] >= 0 else 0.0
        if config.excite and name not in config.excite:
            low[i] = high[i] = rest[i]
        if not low[i] <= rest[i] <= high[i]:
            expected = f"limits around the command {rest[i]:g}, which asks for no motion"
            raise BadValue(f"{robot.file}: joints", name, [low[i], high[i]], expected)
    return Band(rest, low, high)


def _limits(robot: Robot, i: int, margin: float) -> tuple[float, float]:
    """Return the range of commands of one actuator, less the margin."""
    joint, model, kind = robot.joints[i], robot.model, robot.motors.targets[i]
    low, high = joint.low, joint.high
    if kind == "angle":
        low, high = _angles(robot, i)
        if not np.isfinite(high - low):
            # Nothing bounds it: as far as a policy's actions of ±1 reach.
            low = max(low, joint.default - joint.action_scale)
            high = min(high, joint.default + joint.action_scale)
    elif kind == "throttle":
        low, high = max(low, 0.0), min(high, 1.0)
    if robot.motors.kind == "torque":
        most = min(joint.torque, float(robot.motors.values["torque_limit"][i]))
        low, high = max(low, -most), min(high, most)
    elif kind == "speed":
        low, high = max(low, -joint.velocity), min(high, joint.velocity)
    if robot.motors.kind in ("native", "torque") and model.actuator_ctrllimited[i]:
        scale = 1.0 if robot.motors.kind == "native" else _gear(robot, i)
        ends = model.actuator_ctrlrange[i] * scale
        low, high = max(low, ends.min()), min(high, ends.max())
    if not np.isfinite(high - low):
        given = "torque" if robot.motors.kind == "torque" else "low and high"
        raise BadValue(
            f"{robot.file}: joints/{joint.name}",
            given,
            [float(low), float(high)],
            "a finite limit: nothing says how hard this motor may be driven",
        )
    edge = 0.5 * margin * (high - low)
    return (low, high - 2 * edge) if kind == "throttle" else (low + edge, high - edge)


def _gear(robot: Robot, i: int) -> float:
    return float(robot.model.actuator_gear[i, 0] * robot.model.actuator_gainprm[i, 0])


def _angles(robot: Robot, i: int) -> tuple[float, float]:
    """Return the limits of a commanded angle: of robot.yaml, and of the model's joint."""
    joint, model = robot.joints[i], robot.model
    low, high = joint.low, joint.high
    index = int(model.actuator_trnid[i, 0]) if robot.motors.qposes[i] >= 0 else -1
    if index >= 0 and model.jnt_limited[index]:
        low, high = max(low, model.jnt_range[index, 0]), min(high, model.jnt_range[index, 1])
    return float(low), float(high)


class Grid(NamedTuple):
    """When commands are given, and which sines fit."""

    time: Float[np.ndarray, " time"]
    """[s]."""
    frequencies: Float[np.ndarray, " harmonic"]
    """Whole multiples of 1 / duration, spread evenly over the octaves [Hz]."""
    fade: Float[np.ndarray, " time"]
    """0 at both ends, 1 between."""


def grid(robot: Robot, config: PlanConfig) -> Grid:
    """Return the control grid of an excitation.

    Raises:
        BadValue: A duration of fewer periods than sines need.
    """
    rows = round(config.duration / robot.period)
    shortest = 4 * config.harmonics
    if rows < shortest:
        expected = f"at least {shortest * robot.period:g} s, {shortest} control periods"
        raise BadValue("plan", "duration", config.duration, expected)
    time = np.arange(rows) * robot.period
    span = rows * robot.period
    first = max(config.lowest, 1.0 / span)
    last = max(min(config.highest, FASTEST / robot.period), first)
    harmonics = np.maximum(1, np.round(np.geomspace(first, last, config.harmonics) * span))
    for k in range(1, len(harmonics)):  # distinct
        harmonics[k] = max(harmonics[k], harmonics[k - 1] + 1)
    length = min(FADE[0] * span, FADE[1])
    edge = np.clip(np.minimum(time, time[-1] - time) / length, 0.0, 1.0)
    return Grid(time, harmonics / span, 0.5 - 0.5 * np.cos(np.pi * edge))


def genes(config: PlanConfig) -> int:
    """Return the number of coefficients of one actuator."""
    return HEAD + 2 * config.harmonics


def commands(
    family: str,
    coefficients: Float[np.ndarray, "nu gene"],
    grid: Grid,
    band: Band,
    slew: float = np.inf,
) -> Float[np.ndarray, "time nu"]:
    """Return the commands of an excitation, at rest at both ends.

    Args:
        family: A key of `FAMILIES`.
        coefficients: In the unit cube: how much of the band, where in it, then the shape.
        grid: Of the control periods.
        band: What may be commanded.
        slew: Fastest change of a command [its unit / s].
    """
    # By factors, and mostly about the middle: what a machine bears may be a small part of its band.
    level, offset = LEAST ** (1 - coefficients[:, 0]), (2 * coefficients[:, 1] - 1) ** 3
    half, centre = 0.5 * (band.high - band.low), 0.5 * (band.high + band.low)
    shape = np.stack([FAMILIES[family](row[2:], grid) for row in coefficients], axis=1)
    aim = centre + half * (level * shape + (1 - level) * offset)
    told = band.rest + grid.fade[:, None] * (aim - band.rest)
    return told if np.isinf(slew) else _slowed(told, slew * (grid.time[1] - grid.time[0]))


def multisine(row: Float[np.ndarray, " gene"], grid: Grid) -> Float[np.ndarray, " time"]:
    """Return a sum of sines, its peak 1.

    Schroeder's phases keep the peak low only where every harmonic is there; these are searched.
    """
    count = grid.frequencies.size
    weight, turns = row[1 : 1 + count] ** 2, row[1 + count : 1 + 2 * count]
    angle = 2 * np.pi * (grid.frequencies * grid.time[:, None] + turns)
    return _normed(np.sin(angle) @ weight)


def chirp(row: Float[np.ndarray, " gene"], grid: Grid) -> Float[np.ndarray, " time"]:
    """Return a sine whose frequency goes exponentially from one value in the band to another."""
    low, high = np.log(grid.frequencies[0]), np.log(grid.frequencies[-1])
    ends = np.exp(low + (high - low) * row[1:3])
    span = grid.time[-1]
    ratio = ends[1] / ends[0]
    share = grid.time / span
    is_flat = abs(np.log(ratio)) < 1e-6  # a constant frequency
    turns = share if is_flat else (ratio**share - 1) / np.log(ratio)
    return np.sin(2 * np.pi * (ends[0] * span * turns + row[3]))


def ramps(row: Float[np.ndarray, " gene"], grid: Grid) -> Float[np.ndarray, " time"]:
    """Return a sequence of levels, held and joined by ramps: from steps to one slow zigzag."""
    steepness, levels = row[0], 2 * row[1:] - 1
    count = levels.size
    at = grid.time / grid.time[-1] * count
    place = np.minimum(at.astype(int), count - 1)
    before = np.concatenate([[0.0], levels[:-1]])
    # A ramp takes the first part of its turn; a step one thousandth of it.
    part = np.clip((at - place) / max(1 - steepness, 1e-3), 0.0, 1.0)
    return before[place] + part * (levels - before)[place]


def mixed(row: Float[np.ndarray, " gene"], grid: Grid) -> Float[np.ndarray, " time"]:
    """Return steps with a sum of sines on top: large motions that keep moving."""
    return 0.6 * ramps(row, grid) + 0.4 * multisine(row, grid)


FAMILIES: dict[str, Callable[[np.ndarray, Grid], np.ndarray]] = {
    "multisine": multisine,
    "chirp": chirp,
    "ramps": ramps,
    "mixed": mixed,
}


def _normed(shape: np.ndarray) -> np.ndarray:
    peak = np.abs(shape).max()
    return shape / peak if peak > 0 else shape


def _slowed(told: np.ndarray, most: float) -> np.ndarray:
    """Return commands that follow at a limited rate, and still end at rest.

    Limited from both ends: what lies within reach of the first row and of the last.
    """
    forward = told.copy()
    for k in range(1, len(forward)):
        forward[k] = forward[k - 1] + np.clip(told[k] - forward[k - 1], -most, most)
    backward = forward.copy()
    backward[-1] = told[-1]
    for k in range(len(backward) - 2, -1, -1):
        backward[k] = backward[k + 1] + np.clip(forward[k] - backward[k + 1], -most, most)
    return backward
