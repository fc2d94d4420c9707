"""Write logs in our own layout: columns are channels, in SI units and the model's frame.

`read` takes such a file without a column map. Every file appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from s2r_jax import files
from s2r_jax.errors import BadValue
from s2r_jax.logs.table import OWN_FORMAT, PARQUET_KEY
from s2r_jax.types import Log


def write_npz(path: str | Path, log: Log) -> None:
    """Write a log as NPZ, one array a channel.

    Raises:
        BadValue: A channel of another length than the time.
    """
    _check(path, log)
    arrays: dict[str, Any] = {"format": np.array(OWN_FORMAT), "name": np.array(log.name)}
    arrays |= {"time": log.time, **log.channels}
    write_whole(Path(path), lambda stream: np.savez_compressed(stream, **arrays))


def write_csv(path: str | Path, log: Log) -> None:
    """Write a log as CSV; component k of a vector is the column `channel:k`.

    Raises:
        BadValue: A channel of another length than the time.
    """
    table = _table(path, log)

    def fill(stream: IO[bytes]) -> None:
        stream.write(f"# {OWN_FORMAT}\n".encode())
        pa.csv.write_csv(table, stream)

    write_whole(Path(path), fill)


def write_parquet(path: str | Path, log: Log) -> None:
    """Write a log as Parquet; component k of a vector is the column `channel:k`.

    Raises:
        BadValue: A channel of another length than the time.
    """
    table = _table(path, log).replace_schema_metadata({PARQUET_KEY: OWN_FORMAT})
    write_whole(Path(path), lambda stream: pa.parquet.write_table(table, stream))


def _check(path: str | Path, log: Log) -> None:
    for name, values in log.channels.items():
        if values.shape[:1] != log.time.shape:
            expected = f"one entry for each of the {len(log.time)} times"
            raise BadValue(str(path), name, f"shape {values.shape}", expected)


def _table(path: str | Path, log: Log) -> pa.Table:
    _check(path, log)
    columns = {"time": log.time}
    for name, values in log.channels.items():
        if values.ndim == 1:
            columns[name] = values
        else:
            columns |= {f"{name}:{k}": values[:, k] for k in range(values.shape[1])}
    return pa.table(columns)


def write_whole(path: Path, fill: Callable[[IO[bytes]], None]) -> None:
    """Write what `fill` does to a stream, whole or not at all."""
    with files.whole(path) as beside, beside.open("wb") as stream:
        fill(stream)
