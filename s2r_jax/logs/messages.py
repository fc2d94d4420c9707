"""Messages of several topics, each with its own clock, as the columns of a table.

A column is `topic.field.path`; a ROS time counts as one number in seconds, and `topic.log_time` is
when the recorder received the message [s].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from s2r_jax.errors import BadLog, S2RError
from s2r_jax.logs.table import Request, Table, flatten, stack

#: Messages of other topics that close before or after a window are kept too, for values that hold
#: and for interpolation: slower topics than 1 Hz say nothing of a motion [s].
MARGIN = 1.0

#: Column of every topic: when the recorder received the message [s].
LOG_TIME = "log_time"


class Message(NamedTuple):
    """One message, not decoded yet."""

    topic: str
    log_time: int
    """[ns]."""
    decode: Callable[[], Any]
    """Returns a mapping, or the object of a ROS decoder."""


def table_of(messages: Iterable[Message], file: str, request: Request) -> Table:
    """Return the messages within the window as one table, in the order of their log times.

    Raises:
        BadLog: No message at all, or one that cannot be decoded.
    """
    kept: dict[str, list[Message]] = {}
    fields: dict[str, Mapping[str, Any]] = {}
    bases: dict[str, bool | None] = {}
    first: int | None = None
    for message in messages:
        topic = message.topic
        if topic not in fields:
            is_wanted = _has(request.columns, topic)
            bases[topic] = _has(request.time, topic) if is_wanted else None
            try:
                fields[topic] = _fields(message, file, 0)
            except S2RError:
                if is_wanted:
                    raise
                fields[topic] = {LOG_TIME: message.log_time}  # an image, a map: nobody asked
        is_base = bases[topic]
        if is_base is None:
            continue
        if is_base and first is None:
            first = message.log_time
        margin = 0.0 if is_base else MARGIN
        late = 0.0 if first is None else (message.log_time - first) * 1e-9
        if request.start - margin <= late < request.stop + margin:
            kept.setdefault(topic, []).append(message)
    if not fields:
        raise BadLog(file, "", "the file is empty: it holds no message")
    available = tuple(f"{topic}.{name}" for topic, entry in fields.items() for name in entry)
    entries: dict[str, np.ndarray] = {}
    clocks: dict[str, np.ndarray] = {}
    for topic, found in kept.items():
        found.sort(key=lambda message: message.log_time)
        rows = [_fields(message, file, row) for row, message in enumerate(found)]
        start = found[0].log_time if first is None else first
        clock = np.array([message.log_time - start for message in found]) * 1e-9
        for name in fields[topic]:
            column = f"{topic}.{name}"
            if column in request.columns:
                entries[column] = stack([row.get(name) for row in rows], file, column)
                clocks[column] = clock
    return Table(file, entries, available, clocks=clocks, is_cut=True)


def _has(columns: Iterable[str], topic: str) -> bool:
    return any(name.startswith(f"{topic}.") for name in columns)


def _fields(message: Message, file: str, row: int) -> dict[str, Any]:
    try:
        decoded = message.decode()
    except S2RError:
        raise
    except Exception as error:  # whatever a decoder trips over is a damaged message
        problem = f"message {row} cannot be decoded: {type(error).__name__}: {error}"
        raise BadLog(file, message.topic, problem) from None
    plain = _plain(decoded)
    if not isinstance(plain, Mapping):
        plain = {"value": plain}
    return {LOG_TIME: message.log_time * 1e-9, **flatten(plain)}


def _plain(value: Any) -> Any:
    """Return a decoded message as mappings, lists and numbers; a time as seconds."""
    if not isinstance(value, Mapping | list | tuple | str | bytes) and hasattr(value, "__slots__"):
        value = {name: getattr(value, name) for name in value.__slots__}
    elif isinstance(value, SimpleNamespace):
        value = vars(value)
    if isinstance(value, Mapping):
        for part in ("nanosec", "nsec"):
            if value.keys() == {"sec", part}:
                return value["sec"] + value[part] * 1e-9
        return {str(name): _plain(entry) for name, entry in value.items()}
    return value
