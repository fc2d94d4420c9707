"""Read recordings of any known format into logs, through the robot's column map."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from s2r_jax.errors import BadLog, BadValue, MissingFile
from s2r_jax.logs import arrays, columns, lerobot, records, rosbag, tabular
from s2r_jax.logs.align import align
from s2r_jax.logs.columns import LogMap
from s2r_jax.logs.convert import convert, own_map
from s2r_jax.logs.mcap_files import read_mcap
from s2r_jax.logs.table import Reader, Request, Table
from s2r_jax.robot import Robot
from s2r_jax.types import Log

#: Ending of the file's name -> reader.
READERS: dict[str, Reader] = {
    ".csv": tabular.read_csv,
    ".parquet": tabular.read_parquet,
    ".npz": arrays.read_npz,
    ".json": records.read_json,
    ".mcap": read_mcap,
}
#: File that marks a folder -> (what the folder is, reader).
FOLDERS: dict[str, tuple[str, Reader]] = {
    rosbag.METADATA: ("rosbag2", rosbag.read_rosbag),
    str(lerobot.INFO): ("LeRobot", lerobot.read_lerobot),
}


def read(path: str | Path, robot: Robot, start: float = 0.0, stop: float = math.inf) -> list[Log]:
    """Read every recording of one file or folder.

    CSV, Parquet and MCAP files are read in pieces, so that a window of a file larger than memory
    needs memory for the window only.

    Args:
        path: A file (.csv, .parquet, .npz, .json, .mcap), a rosbag2 or a LeRobot v3 folder.
        robot: Its `logs` entry maps columns to channels. Not needed for what `logs/write.py` wrote.
        start: Rows earlier than this after a recording's first row are left out [s].
        stop: Rows from here on after a recording's first row are left out [s].

    Raises:
        MissingFile: No such file.
        BadValue: An ending that is not known, or an empty window.
        BadLog: Content that cannot be used; the message names file, column and row.
    """
    path = Path(path)
    if not start < stop:
        raise BadValue(str(path), "start", start, f"a time before stop ({stop:g} s)")
    reader = _reader(path)
    mapped = columns.parse(robot) if robot.logs else None
    wanted, time = (mapped.wanted, mapped.time) if mapped else (frozenset(), ())
    request = Request(wanted, time, start, stop)
    found: list[Log] = []
    for table, extent in _joined(reader(path, request), mapped, request):
        used = own_map(table, robot) if table.is_own else mapped
        if used is None:
            used = columns.parse(robot)  # says what is missing
        found += convert(align(table, used), used, request, extent)
    if not found:
        raise BadLog(str(path), "", "holds no recording: the file is empty")
    return found


def read_all(
    paths: Iterable[str | Path], robot: Robot, start: float = 0.0, stop: float = math.inf
) -> list[Log]:
    """Read the recordings of several files, in their order.

    Raises:
        MissingFile: No path at all, or a file that is not there.
        BadValue: See `read`.
        BadLog: See `read`.
    """
    paths = list(paths)
    if not paths:
        raise MissingFile("LOG", "log", "name at least one file")
    return [log for path in paths for log in read(path, robot, start, stop)]


def _reader(path: Path) -> Reader:
    if not path.exists():
        raise MissingFile(path, "log")
    if path.is_dir():
        for marker, (_, reader) in FOLDERS.items():
            if (path / marker).is_file():
                return reader
        known = " or ".join(f"{marker} ({what})" for marker, (what, _) in FOLDERS.items())
        raise BadLog(str(path), "", f"a folder of logs must hold {known}")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise BadValue(str(path), "ending", path.suffix, f"one of {', '.join(READERS)}")
    return reader


class _Joint(NamedTuple):
    """The pieces of one recording."""

    tables: list[Table]
    first: float
    """Time of the first row of the recording [s]; NaN where there is no time column."""
    last: float
    """Of the last row that was looked at [s]."""


def _joined(
    pieces: Iterable[Table], mapped: LogMap | None, request: Request
) -> Iterator[tuple[Table, tuple[float, float]]]:
    """Join consecutive pieces of one name, keeping only rows within the window."""
    current: _Joint | None = None
    row = 0
    for piece in pieces:
        if current is not None and piece.name != current.tables[0].name:
            yield _concatenated(current)
            current, row = None, 0
        time = _time(piece, mapped)
        has_time = time is not None and len(time) > 0
        if current is None:
            current = _Joint([], float(time[0]) if has_time else math.nan, math.nan)
        if time is not None and not piece.is_cut:
            current = current._replace(last=float(time[-1]) if has_time else current.last)
            late = time - current.first
            # Written so that a NaN stays in, for the check that names its row.
            keep = ~((late < request.start) | (late >= request.stop))
            entries = {
                name: values[keep] if values.shape[:1] == time.shape else values
                for name, values in piece.entries.items()
            }
            first_row = row + (int(np.argmax(keep)) if keep.any() else 0)
            piece = piece._replace(entries=entries, row=first_row)
            row += len(time)
            if current.tables and not keep.any():
                if len(late) and late[0] >= request.stop:
                    break  # the rest of a large file need not be read
                continue
        current.tables.append(piece)
    if current is not None:
        yield _concatenated(current)


def _time(piece: Table, mapped: LogMap | None) -> np.ndarray | None:
    """Return the time column [s] of a piece that has one of numbers."""
    names, factor = ("time",), 1.0
    if not piece.is_own:
        if mapped is None or mapped.split:
            return None
        names, factor = mapped.time, mapped.time_factor
    for name in names:
        values = piece.entries.get(name)
        if values is not None:
            return values * factor if values.ndim == 1 and values.dtype.kind in "fiu" else None
    return None


def _concatenated(joint: _Joint) -> tuple[Table, tuple[float, float]]:
    # The first piece stays even when it lies before the window: it says which columns there are.
    first, rest = joint.tables[0], joint.tables[1:]
    entries = dict(first.entries)
    if rest:
        for name in entries:
            entries[name] = np.concatenate([table.entries[name] for table in joint.tables])
        if not any(len(values) for values in first.entries.values()):
            first = first._replace(row=rest[0].row)
    return first._replace(entries=entries), (joint.first, joint.last)
