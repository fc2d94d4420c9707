"""Turn a table into logs: units, frames, and every check of the content."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from s2r_jax.errors import BadLog, UnknownName
from s2r_jax.logs.channels import Channel, channels
from s2r_jax.logs.check import check_time, check_values
from s2r_jax.logs.columns import Column, LogMap
from s2r_jax.logs.table import Request, Table
from s2r_jax.robot import Robot
from s2r_jax.types import Log


def convert(
    table: Table, mapped: LogMap, request: Request, extent: tuple[float, float]
) -> list[Log]:
    """Return the recordings of a table as logs.

    Args:
        table: What the file holds.
        mapped: The column map.
        request: The time window.
        extent: Times of the recording's first and last row [s], of which the table may hold but a
            window; NaN if unknown.

    Raises:
        BadLog: Content that cannot be used.
    """
    time_name, time = _time(table, mapped)
    rows = len(time) if time is not None else _rows(table, mapped)
    first, last = extent
    if rows < 2 and last > first and not mapped.split:
        raise _too_short(table.name, rows, request, last - first)
    found: dict[str, np.ndarray] = {}
    kinds: dict[str, tuple[Channel, str]] = {}
    for column in mapped.columns:
        values, source = _values(table, column, rows)
        if values is None:
            continue
        start = 0
        for channel in column.channels:
            part = values[:, start : start + channel.size]
            start += channel.size
            part = part if channel.size > 1 else part[:, 0]
            found[channel.name] = channel.sign * part + channel.zero
            kinds[channel.name] = (channel, source)
    logs = []
    for index, (low, high) in enumerate(_spans(table, mapped, rows)):
        name = f"{table.name}[{index}]" if mapped.split else table.name
        if time is None:
            clock = np.arange(high - low) * _step(table, mapped)
        else:
            clock = time[low:high]
            check_time(table.name, time_name, clock, table.row + low)
        for channel, (kind, source) in kinds.items():
            part = found[channel][low:high]
            check_values(table.name, source, kind, part, table.row + low, mapped.is_masking)
        begin = clock[0] if mapped.split or time is None or math.isnan(first) else first
        late = clock - begin
        keep = (late >= request.start) & (late < request.stop)
        keep = slice(None) if table.is_cut else keep
        parts = {channel: values[low:high][keep] for channel, values in found.items()}
        if len(clock[keep]) < 2:
            raise _too_short(name, len(clock[keep]), request, late[-1])
        logs.append(Log(name, clock[keep], parts))
    return logs


def own_map(table: Table, robot: Robot) -> LogMap:
    """Return the map of a file of our own: columns are channels, in SI and the model's frame.

    Raises:
        UnknownName: A column that is no channel of this robot.
    """
    known = channels(robot)
    mapped: dict[str, list[str]] = {}
    for name in table.entries:
        channel = name if name in known else name.rsplit(":", 1)[0]
        if channel != "time":
            if channel not in known:
                raise UnknownName(table.name, channel, known, "channel")
            mapped.setdefault(channel, []).append(name)
    columns = []
    for name, sources in mapped.items():
        is_vector = sources != [name]
        channel = replace(known[name], sign=1.0, zero=0.0)
        columns.append(Column(
            place=table.name, channels=(channel,), sources=() if is_vector else (name,),
            stacked=tuple(sources) if is_vector else (), factor=1.0, scale=1.0, offset=0.0,
            signed=0, is_optional=False, names="", order="wxyz",
        ))  # fmt: skip
    # What was measured may be masked: the writer knew.
    return LogMap(table.name, ("time",), "", 1.0, "", True, tuple(columns))


def _time(table: Table, mapped: LogMap) -> tuple[str, np.ndarray | None]:
    if not mapped.time:
        return "", None
    for name in mapped.time:
        if name in table.entries:
            values = _numbers(table, name)
            if values.ndim != 1:
                raise BadLog(table.name, name, f"has shape {values.shape}, expected one time a row")
            return name, values * mapped.time_factor
    raise _missing(table, mapped.time)


def _rows(table: Table, mapped: LogMap) -> int:
    """Return the number of rows of a table without a time column: that of the first array."""
    for column in mapped.columns:
        for name in (*column.sources, *column.stacked):
            values = table.entries.get(name)
            if values is not None and values.ndim:
                return len(values)
    raise _missing(table, [name for c in mapped.columns for name in (*c.sources, *c.stacked)])


def _step(table: Table, mapped: LogMap) -> float:
    if not isinstance(mapped.step, str):
        return mapped.step * mapped.time_factor
    if mapped.step not in table.entries:
        raise _missing(table, [mapped.step])
    step = _numbers(table, mapped.step)
    if step.ndim or not np.isfinite(step) or step <= 0:
        raise BadLog(table.name, mapped.step, f"is {step}, expected one positive number")
    return float(step) * mapped.time_factor


def _spans(table: Table, mapped: LogMap, rows: int) -> list[tuple[int, int]]:
    """Return the rows of each trajectory."""
    if not mapped.split:
        if rows < 2:
            problem = "the file is empty" if rows == 0 else "a single row, expected at least 2"
            raise BadLog(table.name, "", problem)
        return [(0, rows)]
    if mapped.split not in table.entries:
        raise _missing(table, [mapped.split])
    offsets = table.entries[mapped.split]
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or len(offsets) < 2:
        raise BadLog(table.name, mapped.split, "expected at least 2 whole numbers")
    if offsets[0] != 0 or offsets[-1] != rows:
        problem = f"goes from {offsets[0]} to {offsets[-1]}, but the rows from 0 to {rows}"
        raise BadLog(table.name, mapped.split, problem)
    short = np.flatnonzero(np.diff(offsets.astype(np.int64)) < 2)
    if len(short):
        i = int(short[0])
        problem = f"trajectory {i} is rows {offsets[i]}:{offsets[i + 1]}, expected at least 2 rows"
        raise BadLog(table.name, mapped.split, problem)
    return [(int(low), int(high)) for low, high in itertools.pairwise(offsets)]


def _values(table: Table, column: Column, rows: int) -> tuple[np.ndarray | None, str]:
    """Return the array `[row, width]` of one entry of the map, in SI and the machine's frame."""
    if column.stacked:
        gone = [name for name in column.stacked if name not in table.entries]
        if gone and column.is_optional and len(gone) == len(column.stacked):
            return None, ""
        if gone:
            raise _missing(table, gone[:1])
        source = column.stacked[0] if column.width == 1 else ", ".join(column.stacked)
        parts = [_raw(table, name, column, rows, 1) for name in column.stacked]
        values = np.concatenate(parts, axis=1)
    else:
        present = [name for name in column.sources if name in table.entries]
        if not present:
            if column.is_optional:
                return None, ""
            raise _missing(table, column.sources)
        source = present[0]
        order = _order(table, column, source)
        width = column.width if order is None else len(order)
        values = _raw(table, source, column, rows, width)
        values = values if order is None else values[:, _picked(table, column, source, order)]
    if column.order == "xyzw":
        values = values[:, [3, 0, 1, 2]]
    return column.factor * (column.scale * values + column.offset), source


def _raw(table: Table, name: str, column: Column, rows: int, width: int) -> np.ndarray:
    """Return a column as `[row, width]`, a constant repeated, counts made signed."""
    values = _numbers(table, name)
    if values.ndim == 0 or (values.shape == (width,) and width != rows):
        values = np.broadcast_to(values, (rows, width))
    elif values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[0] != rows:
        problem = f"has shape {table.entries[name].shape}, but there are {rows} rows"
        raise BadLog(table.name, name, problem)
    if values.shape[1] != width:
        channels_ = ", ".join(channel.name for channel in column.channels)
        problem = f"has {values.shape[1]} entries a row, expected {width} ({channels_})"
        raise BadLog(table.name, name, problem)
    if column.signed:
        full = 2.0**column.signed
        bad = ~(np.isnan(values) | ((values >= 0) & (values < full) & (values % 1 == 0)))
        if bad.any():
            row, k = (int(i) for i in np.argwhere(bad)[0])
            problem = f"row {row} is {values[row, k]:g}, no unsigned count of {column.signed} bits"
            raise BadLog(table.name, name, problem)
        values = np.where(values >= full / 2, values - full, values)
    return values


def _order(table: Table, column: Column, source: str) -> Sequence[str] | None:
    """Return the names of an array's columns, where the map says where they stand."""
    if not isinstance(column.names, str):
        return column.names
    if not column.names:
        return None
    if column.names not in table.entries:
        raise _missing(table, [column.names])
    names = table.entries[column.names]
    if names.dtype.kind != "U":
        raise BadLog(
            table.name, column.names, f"holds {names.dtype}, expected names for '{source}'"
        )
    if names.ndim == 2:
        changed = np.flatnonzero((names != names[:1]).any(axis=1))
        if len(changed):
            raise BadLog(table.name, column.names, f"the names change at row {changed[0]}")
        names = names[0]
    return [str(name) for name in np.atleast_1d(names)]


def _picked(table: Table, column: Column, source: str, names: Sequence[str]) -> list[int]:
    """Return the array's column of each channel, by name."""
    picked = []
    for channel in column.channels:
        hits = [i for i, name in enumerate(names) if name in channel.aliases]
        if len(hits) != 1:
            how = "none" if not hits else "several"
            problem = f"{how} of its columns is named {' or '.join(dict.fromkeys(channel.aliases))}"
            raise BadLog(table.name, source, f"{problem}; the names are {', '.join(names)}")
        picked.append(hits[0])
    return picked


def _numbers(table: Table, name: str) -> np.ndarray:
    values = table.entries[name]
    if values.dtype.kind == "M":
        return values.astype("datetime64[ns]").astype(np.int64) / 1e9
    if values.dtype.kind not in "fiub":
        first = f", e.g. {values.flat[0]!s:.40}" if values.size else ""
        raise BadLog(table.name, name, f"holds {values.dtype}{first}; expected numbers")
    return values.astype(float)


def _too_short(name: str, rows: int, request: Request, length: float) -> BadLog:
    have = f"{rows} rows from {request.start:g} s to {request.stop:g} s"
    return BadLog(name, "", f"{have}, expected at least 2; the recording lasts {length:g} s")


def _missing(table: Table, names: Sequence[str]) -> BadLog:
    available = ", ".join(sorted(table.available)) or "(none)"
    return BadLog(table.name, " or ".join(names), f"is missing; the file has {available}")


__all__ = ["convert", "own_map"]
