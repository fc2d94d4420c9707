"""Bring columns with clocks of their own onto the rows of the column of time."""

from __future__ import annotations

import warnings

import numpy as np

from s2r_jax.errors import BadLog
from s2r_jax.logs.columns import LogMap
from s2r_jax.logs.config import LogsConfig
from s2r_jax.logs.resample import interpolate, is_rotation
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
    clock = table.clocks[base]
    entries = dict(table.entries)
    begun, alive = np.ones(len(clock), bool), np.ones(len(clock), bool)
    for column in mapped.columns:
        if isinstance(column.names, str) and column.names in entries:
            entries[column.names] = _unchanged(table, column.names)
        # Counts that wrap cannot be interpolated before they are made signed.
        held = column.signed > 0 or any(channel.is_held for channel in column.channels)
        for name in (*column.sources, *column.stacked):
            if name not in table.entries or table.clocks[name] is clock:
                continue
            own, values = table.clocks[name], table.entries[name]
            if values.dtype.kind not in "fiub":
                continue  # convert names the column
            begun &= clock >= own[0]
            at = np.clip(np.searchsorted(own, clock, side="right") - 1, 0, len(own) - 1)
            if held:
                entries[name] = values[at]
            else:
                alive &= clock <= own[-1]
                steps = np.concatenate([np.diff(own), np.diff(clock)[:1]])
                longest = LogsConfig.max_gap * float(np.median(steps))
                entries[name] = interpolate(
                    own, values.astype(float), clock, longest, is_rotation(column.channels[0].name)
                )
    keep = begun & alive
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


def _unchanged(table: Table, name: str) -> np.ndarray:
    """Return the names that every message repeats."""
    names = table.entries[name]
    if names.ndim != 2:
        return names
    changed = np.flatnonzero((names != names[:1]).any(axis=1))
    if len(changed):
        raise BadLog(table.name, name, f"the names change at row {changed[0]}")
    return names[0]
