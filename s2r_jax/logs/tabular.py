"""CSV and Parquet files, read in pieces so that a file may be larger than memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from s2r_jax.errors import BadLog
from s2r_jax.logs.table import OWN_FORMAT, PARQUET_KEY, Request, Table

# Made at import, so unknown to type checkers.
pc: Any = pyarrow.compute

#: Bytes of a CSV file that are parsed at once.
BLOCK = 1 << 24


def read_csv(path: Path, request: Request) -> Iterator[Table]:
    """Yield the pieces of a CSV file with one header line.

    The separator is the comma, semicolon or tab that the header has most of. An empty cell is a
    missing value (NaN), `true` and `false` are 1 and 0.

    Raises:
        BadLog: A header without or with repeated names, a row of another length, no number.
    """
    file = str(path)
    header, own = _header(path)
    separator = max(",;\t", key=header.count)
    names = [name.strip().strip('"') for name in header.split(separator)]
    for name in names:
        if not name or names.count(name) > 1:
            problem = f"the header has {'a nameless column' if not name else 'this column twice'}"
            raise BadLog(file, name, problem)
    wanted = [name for name in names if own or name in request.columns]
    options = {
        "read_options": pa.csv.ReadOptions(
            column_names=names, skip_rows=2 if own else 1, block_size=BLOCK
        ),
        "parse_options": pa.csv.ParseOptions(delimiter=separator),
        # As text first: only so can a message quote what stands in the cell.
        "convert_options": pa.csv.ConvertOptions(
            include_columns=wanted, column_types=dict.fromkeys(names, pa.string())
        ),
    }
    row = 0
    try:
        with pa.csv.open_csv(path, **options) as reader:
            for batch in reader:
                entries = {name: _parsed(batch.column(name), file, name, row) for name in wanted}
                row += batch.num_rows
                yield Table(file, entries, tuple(names), is_own=own)
    except pa.ArrowInvalid as error:
        text = " ".join(str(error).split())
        if row == 0 and "Empty CSV" in text:
            return
        raise BadLog(file, "", f"after {row} rows: {text}") from None


def read_parquet(path: Path, request: Request) -> Iterator[Table]:
    """Yield the pieces of a Parquet file; a list column becomes `[row, k]`.

    Raises:
        BadLog: No Parquet file, or a damaged one.
    """
    file = str(path)
    try:
        with pa.parquet.ParquetFile(path) as parquet:
            schema = parquet.schema_arrow
            names = tuple(schema.names)
            own = (schema.metadata or {}).get(PARQUET_KEY.encode()) == OWN_FORMAT.encode()
            wanted = [name for name in names if own or name in request.columns]
            for batch in parquet.iter_batches(columns=wanted):
                entries = {name: from_arrow(batch.column(name), file, name) for name in wanted}
                yield Table(file, entries, names, is_own=own)
    except (pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split())
        raise BadLog(file, "", f"no readable Parquet file: {text}") from None


def from_arrow(array: pa.Array, file: str, column: str) -> np.ndarray:
    """Return an Arrow column as numpy: missing values NaN, lists as `[row, k]`, times in seconds.

    Raises:
        BadLog: A type that is neither a number, a time, a string nor a list of numbers.
    """
    kind = array.type
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = pc.unique(pc.list_value_length(array))
        if array.null_count or len(lengths) > 1:
            raise BadLog(file, column, "lists that are missing or differ in length")
        return from_arrow(pc.list_flatten(array), file, column).reshape(len(array), -1)
    if pa.types.is_timestamp(kind):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return from_arrow(array.cast(pa.int64()), file, column) / per_second
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return np.array(array.to_pylist(), dtype=str)
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        array = array.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise BadLog(file, column, f"holds {kind}, expected numbers")
    if array.null_count:
        array = pc.fill_null(array.cast(pa.float64()), float("nan"))
    return array.to_numpy(zero_copy_only=False)


def _header(path: Path) -> tuple[str, bool]:
    with path.open(encoding="utf-8-sig", errors="replace") as stream:
        first = stream.readline().strip()
        own = first == f"# {OWN_FORMAT}"
        header = stream.readline().strip() if own else first
    if not header:
        raise BadLog(str(path), "", "the file is empty, or its first line is")
    return header, own


def _parsed(cells: pa.Array, file: str, column: str, first: int) -> np.ndarray:
    """Return the numbers in text cells."""
    cells = pc.utf8_trim_whitespace(cells)
    cells = pc.replace_with_mask(cells, pc.equal(cells, ""), pa.scalar("nan", pa.string()))
    lowered = pc.utf8_lower(cells)
    cells = pc.if_else(pc.equal(lowered, "true"), "1", cells)
    cells = pc.if_else(pc.equal(lowered, "false"), "0", cells)
    try:
        return pc.cast(cells, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        for row, cell in enumerate(cells.to_pylist()):
            try:
                float(cell)
            except ValueError:
                problem = f"row {first + row} is {cell!r}, expected a number"
                raise BadLog(file, column, problem) from None
        raise
