"""Checks of the content of a log: nothing wrong passes, and each message names the row."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from s2r_jax.errors import BadLog
from s2r_jax.logs.channels import Channel
from s2r_jax.logs.resample import UNIT_TOLERANCE, finite_rows

HINT = "; 'gaps: mask' in robot.yaml's logs allows missing samples of measured signals"


def check_time(file: str, column: str, time: Float[np.ndarray, " time"], first: int) -> None:
    """Check that time is there in every row, and increases.

    Args:
        file: For messages.
        column: For messages.
        time: Of consecutive rows [s].
        first: Number of the first of them in the file.

    Raises:
        BadLog: It does not.
    """
    bad = np.flatnonzero(~np.isfinite(time))
    if len(bad):
        raise BadLog(file, column, f"row {first + bad[0]} is {time[bad[0]]}, expected a time")
    back = np.flatnonzero(np.diff(time) <= 0)
    if len(back):
        row = int(back[0]) + 1
        how = "repeats" if time[row] == time[row - 1] else "goes back to"
        problem = f"row {first + row} {how} {time[row]:.9g} s after {time[row - 1]:.9g} s"
        raise BadLog(file, column, problem)


def check_values(
    file: str, column: str, channel: Channel, values: np.ndarray, first: int, is_masking: bool
) -> None:
    """Check that a channel holds what it may hold.

    Args:
        file: For messages.
        column: For messages.
        channel: What the values are.
        values: Of consecutive rows, in SI units.
        first: Number of the first of them in the file.
        is_masking: Whether measurements may be missing; commands never may.

    Raises:
        BadLog: A missing or infinite value, no quaternion, an `enabled` outside of 0 to 1.
    """
    finite = finite_rows(values)
    may_miss = is_masking and not channel.is_command
    bad = np.flatnonzero(~finite & (np.array(not may_miss) | _infinite_rows(values)))
    if len(bad):
        hint = "" if channel.is_command or is_masking else HINT
        problem = f"row {first + bad[0]} is {values[bad[0]]}, expected a number{hint}"
        raise BadLog(file, column, problem)
    if not finite.any():
        raise BadLog(file, column, "has not one number")
    if channel.name.startswith("body/") and channel.name.endswith("/orientation"):
        lengths = np.linalg.norm(values, axis=1)
        _refuse(file, column, values, np.abs(lengths - 1) > UNIT_TOLERANCE, first,
                "no unit quaternion")  # fmt: skip
    if channel.name.startswith("command/") and channel.name.endswith("/enabled"):
        _refuse(file, column, values, (values < 0) | (values > 1), first, "expected 0 to 1")


def _refuse(
    file: str, column: str, values: np.ndarray, bad: np.ndarray, first: int, expected: str
) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        raise BadLog(file, column, f"row {first + rows[0]} is {values[rows[0]]}, {expected}")


def _infinite_rows(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.isinf(values).any(axis=tuple(range(1, values.ndim))))
