"""Put a log on the uniform grid of a control period.

Commands and the supply hold the value of the most recent row, as the machine did; what was measured
is interpolated linearly, quaternions along the shorter way. A stretch without samples is masked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from s2r_jax.errors import BadValue
from s2r_jax.logs.config import LogsConfig
from s2r_jax.types import Log

#: Rows this close to a grid time count as on it, as a share of the period: clocks are rounded.
ON_GRID = 1e-6


#: A recorded quaternion may be this far from unit length: float16 has 3 digits.
UNIT_TOLERANCE = 1e-2


class Gap(NamedTuple):
    """A stretch of a log without samples."""

    channel: str
    """Empty where the whole log has no row."""
    start: float
    """Time of the last sample before [s]."""
    stop: float
    """Time of the next sample [s]."""


def resample(log: Log, period: float, max_gap: float | None = None) -> Log:
    """Return the log on a uniform grid that starts at its first row.

    Args:
        log: Any log.
        period: Step of the grid [s].
        max_gap: Longest stretch without a sample that is interpolated [s]; beyond, what was
            measured is NaN. Default: `LogsConfig.max_gap` periods or median steps of the log,
            whichever is longer.

    Raises:
        BadValue: A period or gap that is not positive.
    """
    if not period > 0:
        raise BadValue(log.name, "period", period, "a positive number of seconds")
    max_gap = longest_gap(log, period) if max_gap is None else max_gap
    if not max_gap > 0:
        raise BadValue(log.name, "max_gap", max_gap, "a positive number of seconds")
    length = log.time[-1] - log.time[0]
    grid = log.time[0] + period * np.arange(int(np.floor(length / period + ON_GRID)) + 1)
    channels = {}
    for name, values in log.channels.items():
        if is_held(name):
            at = np.searchsorted(log.time, grid + ON_GRID * period, side="right") - 1
            channels[name] = values[at]
        else:
            turns = is_rotation(name, values)
            channels[name] = interpolate(log.time, values, grid, max_gap, turns)
    return Log(log.name, grid, channels)


def longest_gap(log: Log, period: float, steps: float = LogsConfig.max_gap) -> float:
    """Return the longest stretch that is bridged [s]: steps of the grid or of the log."""
    return steps * max(period, float(np.median(np.diff(log.time))))


def is_held(channel: str) -> bool:
    """Whether the value of a row holds until the next row, rather than being interpolated."""
    return channel.startswith("command/") or channel == "battery/voltage"


def is_rotation(channel: str, values: np.ndarray) -> bool:
    """Whether a channel is a quaternion: an orientation, or a sensor's four entries of length 1."""
    if channel.startswith("body/"):
        return channel.endswith("/orientation")
    if not channel.startswith("sensor/") or values.shape[1:] != (4,):
        return False
    lengths = np.linalg.norm(values[finite_rows(values)], axis=1)
    return bool(np.all(np.abs(lengths - 1) < UNIT_TOLERANCE))


def gaps(log: Log, max_gap: float) -> tuple[Gap, ...]:
    """Return every stretch longer than `max_gap` [s] without a row, or without a measurement."""
    found = [Gap("", *pair) for pair in _stretches(log.time, max_gap)]
    whole = {gap[1:] for gap in found}
    for name, values in log.channels.items():
        times = log.time[finite_rows(values)]
        edges = [log.time[:1], times, log.time[-1:]]
        for pair in _stretches(np.concatenate(edges), max_gap):
            if pair not in whole:
                found.append(Gap(name, *pair))
    return tuple(found)


def finite_rows(values: np.ndarray) -> np.ndarray:
    """Return which rows of a channel were recorded."""
    return np.asarray(np.isfinite(values).all(axis=tuple(range(1, values.ndim))))


def interpolate(
    time: Float[np.ndarray, " row"],
    values: np.ndarray,
    grid: Float[np.ndarray, " time"],
    max_gap: float,
    is_quaternion: bool = False,
) -> np.ndarray:
    """Return a channel at other times; NaN outside its samples and inside gaps.

    Args:
        time: Of the rows [s].
        values: `[row]` or `[row, k]`; NaN where missing.
        grid: Times wanted [s].
        max_gap: Longest stretch without a sample that is bridged [s].
        is_quaternion: Whether rows are unit quaternions, of which q and -q are the same rotation.
    """
    known = finite_rows(values)
    result = np.full((len(grid), *values.shape[1:]), np.nan)
    if not known.any():
        return result
    time, values = time[known], values[known]
    if is_quaternion:
        values = continuous(values)
    slack = ON_GRID * (grid[1] - grid[0] if len(grid) > 1 else 1.0)
    left = np.clip(np.searchsorted(time, grid + slack, side="right") - 1, 0, len(time) - 1)
    right = np.minimum(left + 1, len(time) - 1)
    width = time[right] - time[left]
    share = np.clip((grid - time[left]) / np.where(width > 0, width, 1.0), 0.0, 1.0)
    inside = (grid >= time[0] - slack) & (grid <= time[-1] + slack)
    inside &= (width <= max_gap) | (np.abs(grid - time[left]) <= slack)
    weight = share.reshape(-1, *[1] * (values.ndim - 1))
    mixed = (1.0 - weight) * values[left] + weight * values[right]
    if is_quaternion:
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
    result[inside] = mixed[inside]
    return result


def continuous(quaternions: Float[np.ndarray, "row 4"]) -> Float[np.ndarray, "row 4"]:
    """Return the same rotations without sign jumps between neighbouring rows."""
    dots = np.sum(quaternions[1:] * quaternions[:-1], axis=1)
    signs = np.cumprod(np.concatenate([[1.0], np.where(dots < 0, -1.0, 1.0)]))
    return quaternions * signs[:, None]


def _stretches(times: np.ndarray, longest: float) -> list[tuple[float, float]]:
    # A step that equals the limit but for rounding is none.
    wide = np.flatnonzero(np.diff(times) > longest * (1 + ON_GRID))
    return [(float(times[i]), float(times[i + 1])) for i in wide]
