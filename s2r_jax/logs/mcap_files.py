"""MCAP files with JSON or ROS 2 (CDR) messages; a damaged tail is left out, with a warning."""

from __future__ import annotations

import functools
import json
import struct
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from s2r_jax.errors import BadLog, Unsupported
from s2r_jax.logs.messages import Message, table_of
from s2r_jax.logs.table import LogWarning, Request, Table


def read_mcap(path: Path, request: Request) -> Iterator[Table]:
    """Yield the one recording of an MCAP file.

    Raises:
        BadLog: No MCAP file, no message before the damage, or messages of another encoding.
        Unsupported: The optional packages are not installed.
    """
    yield table_of(mcap_messages(path), str(path), request)


def mcap_messages(path: Path) -> Iterator[Message]:
    """Yield the messages of an MCAP file in the order of the file, as far as it is whole.

    Raises:
        BadLog: No MCAP file, or no message before the damage.
        Unsupported: The optional packages are not installed.
    """
    try:
        from mcap.exceptions import InvalidMagic, McapError
        from mcap.records import Channel, Schema
        from mcap.records import Message as Record
        from mcap.stream_reader import StreamReader
    except ImportError:
        raise missing("MCAP files", "mcap") from None
    damage: tuple[type[Exception], ...] = (
        McapError,
        struct.error,
        ValueError,
        RuntimeError,
        OSError,
    )
    try:
        import zstandard

        damage += (zstandard.ZstdError,)
    except ImportError:
        pass  # then a compressed chunk raises McapError
    schemas: dict[int, Schema] = {}
    channels: dict[int, tuple[str, Callable[[bytes], Any]]] = {}
    count = 0
    with path.open("rb") as stream:
        reader = StreamReader(stream, validate_crcs=True)
        try:
            for record in reader.records:
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel):
                    decode = _decoder(record, schemas.get(record.schema_id), str(path))
                    channels[record.id] = (record.topic, decode)
                elif isinstance(record, Record):
                    topic, decode = channels[record.channel_id]
                    count += 1
                    yield Message(topic, record.log_time, functools.partial(decode, record.data))
        except BadLog:
            raise
        except InvalidMagic as error:
            if count == 0:
                raise BadLog(str(path), "", f"no readable MCAP file: {error}") from None
            _warn(path, count, error)
        except damage as error:
            if count == 0:
                problem = f"damaged before its first message: {type(error).__name__} {error}"
                raise BadLog(str(path), "", problem) from None
            _warn(path, count, error)


def ros_decoder(name: str, encoding: str, definition: bytes) -> Callable[[bytes], Any]:
    """Return the decoder of a ROS 2 message type.

    It is built when first called, so that a topic which nobody wants cannot be in the way. The call
    raises Unsupported without the optional package, ValueError for a foreign kind of definition.
    """

    @functools.cache
    def built() -> Callable[[bytes], Any]:
        try:
            from mcap.records import Schema
            from mcap_ros2.decoder import DecoderFactory
        except ImportError:
            raise missing("ROS 2 messages", "mcap-ros2-support") from None
        schema = Schema(id=1, name=name, encoding=encoding, data=definition)
        decoder = DecoderFactory().decoder_for("cdr", schema)
        if decoder is None:
            raise ValueError(f"its definition is '{encoding}'; 'ros2msg' is read")
        return decoder

    return lambda data: built()(data)


def missing(what: str, package: str) -> Unsupported:
    """Return the error of an optional package that is not installed."""
    return Unsupported("logs", f"{what} without the package '{package}'",
                       "install it with: pip install 's2r_jax[logs]'")  # fmt: skip


def _decoder(channel: Any, schema: Any, file: str) -> Callable[[bytes], Any]:
    """Return a decoder; that of a foreign encoding complains when a message is really wanted."""
    if channel.message_encoding == "json":
        return json.loads
    if channel.message_encoding == "cdr" and schema is not None and schema.encoding == "ros2msg":
        return ros_decoder(schema.name, schema.encoding, schema.data)
    coding = f"'{channel.message_encoding}' ({schema.encoding if schema else 'no schema'})"

    def refuse(data: bytes) -> Any:
        raise BadLog(file, channel.topic, f"is encoded as {coding}; json and ROS 2 cdr are read")

    return refuse


def _warn(path: Path, count: int, error: Exception) -> None:
    text = f"{path}: damaged after {count} messages, which were read ({type(error).__name__})"
    warnings.warn(text, LogWarning, stacklevel=2)
