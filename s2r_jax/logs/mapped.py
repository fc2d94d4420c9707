"""Write logs in the machine's own columns: the inverse of reading through robot.yaml's `logs`.

What a machine would have recorded, so that it is read like its recordings. Where the map cannot
hold a log (a column that the log lacks, an array in a CSV), the own layout of `write.py` is used,
which `read` knows without a map.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from s2r_jax.errors import BadValue
from s2r_jax.logs import columns
from s2r_jax.logs.columns import Column, LogMap
from s2r_jax.logs.write import write_csv, write_npz, write_whole
from s2r_jax.robot import Robot
from s2r_jax.types import Log

ENDINGS = (".npz", ".csv")


def write(path: str | Path, log: Log, robot: Robot) -> bool:
    """Write a log; tell whether it is in the robot's own columns.

    Raises:
        BadValue: An ending that is not .npz or .csv.
    """
    path = Path(path)
    check_ending(path)
    table = to_columns(log, robot) if robot.logs else None
    is_npz = path.suffix == ".npz"
    if table is None or (not is_npz and not _is_flat(table, len(log.time))):
        (write_npz if is_npz else write_csv)(path, log)
        return False
    if is_npz:
        write_whole(path, lambda stream: np.savez_compressed(stream, allow_pickle=False, **table))
    else:
        write_whole(path, lambda stream: pa.csv.write_csv(pa.table(table), stream))
    return True


def check_ending(path: Path) -> None:
    """Refuse a file that `write` could not write.

    Raises:
        BadValue: An ending that is not known.
    """
    if path.suffix not in ENDINGS:
        raise BadValue(str(path), "ending", path.suffix, f"one of {', '.join(ENDINGS)}")


def to_columns(log: Log, robot: Robot) -> dict[str, np.ndarray] | None:
    """Return a log's arrays by the names of the robot's columns; None if one cannot be filled.

    What the log does not say of a command is what reading would assume: the firmware's gains, no
    feed-forward torque, torque on; of the supply, the battery's nominal voltage.
    """
    mapped = columns.parse(robot)
    rows = len(log.time)
    table = _clock(mapped, log.time - log.time[0])
    for column in mapped.columns:
        parts = [_values(channel.name, log, robot) for channel in column.channels]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            if column.is_optional:
                continue
            return None
        shaped = [
            channel.sign * (part.reshape(rows, -1) - channel.zero)
            for channel, part in zip(column.channels, known, strict=True)
        ]
        _fill(table, column, np.concatenate(shaped, axis=1))
    return table


def _clock(mapped: LogMap, time: np.ndarray) -> dict[str, np.ndarray]:
    table: dict[str, np.ndarray] = {}
    if mapped.time:
        table[mapped.time[0]] = time / mapped.time_factor
    elif isinstance(mapped.step, str):
        table[mapped.step] = np.array((time[-1] - time[0]) / (len(time) - 1) / mapped.time_factor)
    if mapped.split:
        table[mapped.split] = np.array([0, len(time)])
    return table


def _values(name: str, log: Log, robot: Robot) -> np.ndarray | None:
    if name in log.channels:
        return np.asarray(log.channels[name], dtype=float)
    rows = len(log.time)
    if name == "battery/voltage" and robot.battery["voltage"] > 0:
        return np.full(rows, robot.battery["voltage"])
    kind, actuator, attribute = (*name.split("/"), "", "")[:3]
    if kind != "command" or attribute == "target":
        return None
    if attribute in ("kp", "kd"):
        return np.full(rows, robot.motors.values[attribute][robot.actuators.index(actuator)])
    return np.full(rows, float(attribute == "enabled"))


def _fill(table: dict[str, np.ndarray], column: Column, values: np.ndarray) -> None:
    """Put `[row, width]` in SI and the machine's frame under the names of a file's columns."""
    if column.order == "xyzw":
        values = values[:, [1, 2, 3, 0]]
    values = (values / column.factor - column.offset) / column.scale
    if column.signed:
        values = np.round(values) % 2.0**column.signed
    if column.stacked:
        table.update({name: values[:, k] for k, name in enumerate(column.stacked)})
        return
    if column.names:
        aliases = [channel.aliases[0] for channel in column.channels]
        if isinstance(column.names, str):
            if column.names in table:
                aliases = [str(name) for name in table[column.names]]
            table[column.names] = np.array(aliases)
        else:
            aliases = list(column.names)
        order = [
            next(i for i, c in enumerate(column.channels) if alias in c.aliases)
            for alias in aliases
        ]
        values = values[:, order]
    table[column.sources[0]] = values if column.width > 1 or column.names else values[:, 0]


def _is_flat(table: dict[str, np.ndarray], rows: int) -> bool:
    """Whether every array is one column of numbers, as a CSV has them."""
    return all(a.shape == (rows,) and a.dtype.kind in "fi" for a in table.values())
