"""Bring columns with clocks of their own onto the rows of the column of time."""

from __future__ import annotations

import warnings

import numpy as np

from s2r_jax.errors import BadLog
from s2r_jax.logs.columns import Column, LogMap
from s2r_jax.logs.config import LogsConfig
from s2r_jax.logs.resample import interpolate, is_held, is_rotation
from s2r_jax.logs.table import LogWarning, Table


def align(table: Table, mapped: LogMap) -> Table:
    """Return the table with one clock: that of the topic which holds the time.

    Commands hold their most recent message, measurements are interpolated between messages. Rows
    before every topic has begun, or after a measured one has ended, are left out with a warning.

    Raises:
        BadLog: No column of time, or topics that do not overlap.
    """
    if table.clocks is None:
        return table
    base = next((name for name in mapped.time if name in table.entries), None)
    if base is None:
        if mapped.time:
            return table._replace(clocks=None)  # convert names the missing column
        raise BadLog(table.name, "", "topics have clocks of their own; logs: time needs a 'column'")
    clocks, clock = table.clocks, table.clocks[base]
    entries = dict(table.entries)
    keep = np.ones(len(clock), bool)
    for column in mapped.columns:
        for names in _groups(table, column, clock):
            own = clocks[names[0]]
            values = np.column_stack([table.entries[name] for name in names])
            keep &= clock >= own[0]
            # Counts that wrap cannot be interpolated before they are made signed.
            if column.signed or is_held(column.channels[0].name):
                values = values[np.clip(np.searchsorted(own, clock, "right") - 1, 0, None)]
            else:
                keep &= clock <= own[-1]
                steps = [float(np.median(np.diff(c))) for c in (own, clock) if len(c) > 1]
                longest = LogsConfig.max_gap * max(steps, default=0.0)
                turns = is_rotation(column.channels[0].name, values)
                values = interpolate(own, values.astype(float), clock, longest, turns)
            for name, part in zip(names, np.split(values, len(names), axis=1), strict=True):
                entries[name] = part if table.entries[name].ndim > 1 else part[:, 0]
    if not keep.any():
        raise BadLog(table.name, base, "its topic does not overlap with the others in time")
    if not keep.all():
        text = f"{table.name}: {np.sum(~keep)} of {len(keep)} rows left out, where not every topic"
        warnings.warn(f"{text} has a message", LogWarning, stacklevel=2)
    entries = {
        name: values[keep] if values.ndim and len(values) == len(clock) else values
        for name, values in entries.items()
    }
    return table._replace(entries=entries, clocks=None)


def _groups(table: Table, column: Column, clock: np.ndarray) -> list[tuple[str, ...]]:
    """Return the columns of an entry that have another clock; those of one vector together."""
    clocks = table.clocks or {}
    found: dict[int, list[str]] = {}
    for name in (*column.sources, *column.stacked):
        values = table.entries.get(name)
        if values is None or values.dtype.kind not in "fiub" or clocks[name] is clock:
            continue  # what is wrong with a column, `convert` says
        key = id(clocks[name]) if name in column.stacked else -1 - len(found)
        found.setdefault(key, []).append(name)
    return [tuple(names) for names in found.values()]
