"""JSON files: records, a list of records among constants, or an object of arrays."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from s2r_jax.errors import BadLog
from s2r_jax.logs.table import Request, Table, flatten, stack


def read_json(path: Path, request: Request) -> Iterator[Table]:
    """Yield the one recording of a JSON file; a nested field has a dotted path.

    Raises:
        BadLog: No JSON, or none of the three layouts.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError, RecursionError) as error:
        raise BadLog(
            str(path), "", f"no readable JSON file: {' '.join(str(error).split())}"
        ) from None
    rows, others = _layout(document, str(path))
    constants, arrays = {}, {}
    for key, value in flatten(others).items():
        (arrays if isinstance(value, list) else constants)[key] = value
    if rows is not None and arrays:
        # A list beside the records: names of joints, gains. Strings and numbers pass as they are.
        constants |= arrays
        arrays = {}
    entries: dict[str, np.ndarray] = {}
    available = set(constants) | set(arrays)
    flat = [flatten(row) for row in rows] if rows is not None else []
    keys = dict.fromkeys(key for row in flat for key in row)
    clash = available & set(keys)
    if clash:
        raise BadLog(str(path), sorted(clash)[0], "both a constant and a field of the records")
    available |= set(keys)
    for key in request.columns & available:
        if key in keys:
            entries[key] = stack([row.get(key) for row in flat], str(path), key)
        elif key in arrays:
            entries[key] = stack(arrays[key], str(path), key)
        else:
            value = constants[key]
            entries[key] = (
                stack(value, str(path), key) if isinstance(value, list)
                else np.array(np.nan if value is None else value)
            )  # fmt: skip
    yield Table(str(path), entries, tuple(sorted(available)))


def _layout(document: Any, file: str) -> tuple[list[Mapping[str, Any]] | None, Mapping[str, Any]]:
    """Return the records, if the file has any, and what stands beside them."""
    if isinstance(document, list):
        document = {"": document}
    if not isinstance(document, Mapping):
        raise BadLog(file, "", f"holds {type(document).__name__}, expected an object or a list")
    lists = [k for k, v in document.items() if isinstance(v, list) and _has_records(v)]
    if len(lists) > 1:
        raise BadLog(file, "", f"holds several lists of records: {', '.join(lists)}; expected one")
    if not lists:
        if "" in document:
            raise BadLog(file, "", "holds no records, expected a list of objects")
        return None, document
    rows = document[lists[0]]
    for row, record in enumerate(rows):
        if not isinstance(record, Mapping):
            raise BadLog(file, lists[0], f"row {row} is {record!r}, expected an object")
    return rows, {key: value for key, value in document.items() if key != lists[0]}


def _has_records(values: list[Any]) -> bool:
    return any(isinstance(value, Mapping) for value in values)
