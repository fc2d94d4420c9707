"""What to know of a log before trusting a fit to it: its clock, its gaps, its units, its lag."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from s2r_jax.logs.channels import Channel, channels
from s2r_jax.logs.resample import Gap, finite_rows, gaps, longest_gap, resample
from s2r_jax.logs.state import estimate, smooth
from s2r_jax.robot import Robot
from s2r_jax.types import Log

#: No joint of a robot turns eight times around in a log; as degrees it is one radian [rad].
WIDEST_ANGLE = 50.0
#: Two series this similar measure the same thing, so their ratio is a unit.
SAME = 0.9
#: Two series at least this similar have to do with each other.
FAIR = 0.5
#: Ratios outside of this are no calibration error. Degrees for radians give 57 or 1/57.
RATIOS = (0.5, 2.0)
#: A motor follows its target by less or more than this only where one of the two has another unit.
FOLLOWING = (0.1, 10.0)
#: A joint bends its stops by no more than this share of its range.
BEYOND = 0.25
#: Longest lag searched; beyond, a robot cannot be controlled [s].
LONGEST_LAG = 0.25
#: Supplies of robots lie below [V]; above, it is millivolts.
HIGHEST_SUPPLY = 1000.0


class Lag(NamedTuple):
    """By how much a measurement follows a command."""

    command: str
    measured: str
    seconds: float
    """Positive when the measurement is later: delay and dynamics together."""
    correlation: float
    """At that lag, -1 to 1."""


class Diagnosis(NamedTuple):
    """What stands out in one log."""

    name: str
    rows: int
    duration: float
    """[s]."""
    median_step: float
    """[s]."""
    max_step: float
    """[s]."""
    jitter: float
    """Standard deviation of the steps [s]."""
    gaps: tuple[Gap, ...]
    """Stretches that `trajectory` masks."""
    constant: tuple[str, ...]
    """Measured channels that never change: a dead sensor, or nothing that moves it."""
    suspicious: tuple[str, ...]
    """Sentences on units, signs and wrapped angles that look wrong."""
    lags: tuple[Lag, ...]
    unmeasured: tuple[str, ...]
    """Joints of which the log says nothing."""


def diagnose(log: Log, robot: Robot) -> Diagnosis:
    """Return what stands out in a log."""
    steps = np.diff(log.time)
    even = resample(log, robot.period)
    known = channels(robot)
    lags = tuple(_lags(even, robot))
    return Diagnosis(
        name=log.name,
        rows=len(log.time),
        duration=float(log.time[-1] - log.time[0]),
        median_step=float(np.median(steps)),
        max_step=float(steps.max()),
        jitter=float(steps.std()),
        gaps=gaps(log, longest_gap(log, robot.period)),
        constant=tuple(
            name
            for name, values in log.channels.items()
            if not known[name].is_command
            and np.all(np.ptp(values[finite_rows(values)], axis=0) == 0)
        ),
        suspicious=(
            *_units(log, known),
            *_limits(log, robot),
            *_speeds(even, robot.period),
            *_signs(lags, robot),
            *_followed(even, lags),
        ),
        lags=lags,
        unmeasured=estimate(even.channels, len(even.time), robot, robot.period).unmeasured,
    )


def lag(
    earlier: Float[np.ndarray, " time"],
    later: Float[np.ndarray, " time"],
    period: float,
    longest: float = LONGEST_LAG,
) -> tuple[float, float]:
    """Return by how much one series follows another [s], and their correlation there.

    The peak of the normalised cross-correlation, refined by a parabola. NaN where either series
    never changes, or no peak lies within the longest lag.

    Args:
        earlier: The cause; no NaN.
        later: The effect.
        period: Of both [s].
        longest: Largest lag searched [s].
    """
    reach = min(round(longest / period), len(earlier) // 2)
    scores = []
    for shift in range(reach + 1):
        a, b = earlier[: len(earlier) - shift], later[shift:]
        both = np.isfinite(a) & np.isfinite(b)
        a, b = a[both], b[both]
        is_moving = len(a) > 2 and np.ptp(a) > 0 and np.ptp(b) > 0
        scores.append(float(np.corrcoef(a, b)[0, 1]) if is_moving else np.nan)
    if not np.isfinite(scores).all():
        return np.nan, np.nan
    # A reversed sign is the explanation only where none without it is good.
    sign = 1.0 if max(scores) >= min(FAIR, -min(scores)) else -1.0
    peak = int(np.argmax(sign * np.array(scores)))
    if peak == reach:
        return np.nan, np.nan
    at = float(peak)
    if peak:
        left, middle, right = scores[peak - 1 : peak + 2]
        at += 0.5 * (left - right) / (left - 2 * middle + right)
    return at * period, scores[peak]


def _lags(even: Log, robot: Robot) -> list[Lag]:
    """Compare each target with what the motor does about it: an angle, or a torque."""
    found = []
    for actuator, joint in zip(robot.actuators, robot.joints, strict=True):
        command = f"command/{actuator}/target"
        is_angle = robot.motors.kind in ("pd", "dc_servo")
        measured = f"joint/{joint.name}/position" if is_angle else f"motor/{actuator}/torque"
        if command in even.channels and measured in even.channels:
            enabled = even.channels.get(f"command/{actuator}/enabled", np.ones(len(even.time)))
            moved = np.where(enabled > 0, even.channels[measured], np.nan)
            seconds, score = lag(even.channels[command], moved, robot.period)
            if np.isfinite(score):
                found.append(Lag(command, measured, seconds, score))
    return found


def _units(log: Log, known: dict[str, Channel]) -> list[str]:
    found = []
    for name, values in log.channels.items():
        values = values[finite_rows(values)]
        if known[name].quantity == "angle":
            width = float(np.ptp(values))
            if width > WIDEST_ANGLE:
                found.append(f"{name} spans {width:.3g} rad: is it in degrees?")
            jumps = np.abs(np.diff(values))
            # Twice the half turn, give or take what a joint moves within a row.
            if jumps.size and 5.5 < jumps.max() < 7.0:
                found.append(f"{name} jumps by {jumps.max():.3g} rad in one row: is it wrapped?")
        if name == "battery/voltage" and np.median(values) > HIGHEST_SUPPLY:
            found.append(f"{name} is {np.median(values):.4g} V: is it in millivolts?")
    return found


def _limits(log: Log, robot: Robot) -> list[str]:
    """Compare recorded angles with the stops of the model, else with the limits of the contract."""
    found = []
    contract = {joint.name: (joint.low, joint.high) for joint in robot.joints}
    for j in range(robot.model.njnt):
        joint = robot.model.joint(j).name
        values = log.channels.get(f"joint/{joint}/position")
        is_limited = bool(robot.model.jnt_limited[j])
        low, high = robot.model.jnt_range[j] if is_limited else contract.get(joint, (0.0, np.inf))
        if values is None or not np.isfinite(high - low) or not np.isfinite(values).any():
            continue
        least, most = np.nanmin(values), np.nanmax(values)
        if least < low - BEYOND * (high - low) or most > high + BEYOND * (high - low):
            found.append(
                f"joint/{joint}/position goes from {least:.3g} to {most:.3g}, its limits are "
                f"{low:.3g} and {high:.3g}: wrong unit or offset?"
            )
    return found


def _followed(even: Log, lags: tuple[Lag, ...]) -> list[str]:
    """Compare how far a joint moves with how far it was told to."""
    found = []
    for entry in lags:
        told, moved = even.channels[entry.command], even.channels[entry.measured]
        ratio = float(np.nanstd(moved) / np.nanstd(told))
        if entry.correlation > SAME and not FOLLOWING[0] < ratio < FOLLOWING[1]:
            found.append(f"{entry.measured} moves {ratio:.3g} times as far as {entry.command}: "
                         "wrong unit?")  # fmt: skip
    return found


def _speeds(even: Log, period: float) -> list[str]:
    """Compare recorded speeds with the derivative of the recorded angles."""
    found = []
    for name, speed in even.channels.items():
        position = even.channels.get(name.replace("/velocity", "/position"))
        if not (name.startswith("joint/") and name.endswith("/velocity")) or position is None:
            continue
        slope = smooth(position, period, 7 * period)[1]
        both = np.isfinite(slope) & np.isfinite(speed)
        a, b = slope[both], speed[both]
        if len(a) < 3 or not np.ptp(a) or not np.ptp(b):
            continue
        score, ratio = float(np.corrcoef(a, b)[0, 1]), float(np.std(b) / np.std(a))
        if score < -SAME:
            found.append(f"{name} has the opposite sign of the derivative of the position")
        elif score > SAME and not RATIOS[0] < ratio < RATIOS[1]:
            found.append(f"{name} is {ratio:.3g} times the derivative of the position: wrong unit?")
    return found


def _signs(lags: tuple[Lag, ...], robot: Robot) -> list[str]:
    return [
        f"{entry.measured} moves against {entry.command} (correlation {entry.correlation:.2f}): "
        f"is the sign of the joint right in {robot.file}?"
        for entry in lags
        if entry.correlation < -SAME
    ]
