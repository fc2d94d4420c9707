"""What a file holds before the column map gives it a meaning."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from s2r_jax.errors import BadLog

#: Marks a file that `write.py` wrote: its columns are channels in SI units, in the model's frame.
OWN_FORMAT = "s2r_jax.log/1"


#: Metadata key of a Parquet file's schema that holds it.
PARQUET_KEY = "format"


class LogWarning(UserWarning):
    """A log that was read, but not all of it."""


class Table(NamedTuple):
    """A piece of one recording: consecutive pieces of the same name belong together."""

    name: str
    """File and, where it holds several trajectories, the index."""
    entries: Mapping[str, np.ndarray]
    """Column -> `[row]` or `[row, k]`; a constant of the file is 0-d, or `[k]`."""
    available: tuple[str, ...]
    """Every column of the file, read or not, for messages."""
    clocks: Mapping[str, np.ndarray] | None = None
    """Column -> arrival times of its messages [s], where columns do not share their rows."""
    row: int = 0
    """Number of the first row in the file, for messages."""
    is_own: bool = False
    """Whether the columns are channels already."""
    is_cut: bool = False
    """Whether the reader has applied the time window."""


class Request(NamedTuple):
    """What is wanted of a file; a reader may return more."""

    columns: frozenset[str]
    time: tuple[str, ...]
    """Alternatives for the column of time."""
    start: float
    """Seconds after the first row."""
    stop: float


#: Reads one format: yields the recordings of a file, piece by piece.
Reader = Callable[[Path, Request], Iterator[Table]]


def flatten(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested record with dotted paths as keys; lists stay values."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def stack(values: Sequence[Any], file: str, column: str) -> np.ndarray:
    """Return one column from the values of its rows; None counts as missing (NaN).

    Raises:
        BadLog: Values that do not make an array of numbers or of strings.
    """
    if any(isinstance(value, str) for value in values):
        for row, value in enumerate(values):
            if not isinstance(value, str):
                raise BadLog(file, column, f"row {row} is {value!r} among strings")
        return np.array(values, dtype=str)
    widths = [len(value) if isinstance(value, list | tuple | np.ndarray) else -1
              for value in values if value is not None]  # fmt: skip
    if widths and min(widths) != max(widths):
        row = next(i for i, width in enumerate(widths) if width != widths[0])
        raise BadLog(file, column, f"row {row} has another length than row 0")
    width = widths[0] if widths else -1
    missing = np.nan if width < 0 else [np.nan] * width
    filled = [missing if value is None else value for value in values]
    try:
        array = np.array(filled)
    except ValueError:
        raise BadLog(file, column, "rows of different shape") from None
    if array.dtype.kind == "O":
        array = _numbers(filled, file, column)
    return array


def _numbers(values: Sequence[Any], file: str, column: str) -> np.ndarray:
    """Convert row by row, so that the message can name the row."""
    for row, value in enumerate(values):
        try:
            np.array(value, dtype=float)
        except (TypeError, ValueError):
            raise BadLog(file, column, f"row {row} is {value!r}, expected a number") from None
    return np.array(values, dtype=float)
