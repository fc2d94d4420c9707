"""rosbag2 folders: `metadata.yaml` beside MCAP files or SQLite databases."""

from __future__ import annotations

import functools
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from s2r_jax.errors import BadLog, MissingFile
from s2r_jax.logs.mcap_files import mcap_messages, ros_decoder
from s2r_jax.logs.messages import Message, table_of
from s2r_jax.logs.ros_types import definition
from s2r_jax.logs.table import Request, Table

METADATA = "metadata.yaml"


def read_rosbag(path: Path, request: Request) -> Iterator[Table]:
    """Yield the one recording of a rosbag2 folder, whose files follow each other.

    Raises:
        BadLog: A damaged folder, or messages that cannot be decoded.
        MissingFile: A file that the metadata names.
        Unsupported: The optional packages are not installed.
    """
    place = str(path / METADATA)
    try:
        document = yaml.safe_load((path / METADATA).read_text(encoding="utf-8"))
        information = document["rosbag2_bagfile_information"]
        files = [path / Path(str(name)).name for name in information["relative_file_paths"]]
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
        problem = f"no metadata of a rosbag2: {type(error).__name__} {error}"
        raise BadLog(place, "", " ".join(problem.split())) from None
    readers: dict[str, Callable[[Path], Iterator[Message]]] = {
        ".mcap": mcap_messages,
        ".db3": _database_messages,
    }
    for file in files:
        if not file.is_file():
            raise MissingFile(file, "file", f"named in {place}")
        if file.suffix not in readers:
            raise BadLog(place, "", f"'{file.name}' is neither {' nor '.join(readers)}")
    messages = itertools.chain.from_iterable(readers[file.suffix](file) for file in files)
    yield table_of(messages, str(path), request)


def _database_messages(path: Path) -> Iterator[Message]:
    try:
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as database:
            topics = _topics(database, path)
            rows = database.execute(
                "SELECT topic_id, timestamp, data FROM messages ORDER BY timestamp"
            )
            for topic_id, stamp, data in rows:
                topic, decode = topics[topic_id]
                yield Message(topic, stamp, functools.partial(decode, data))
    except sqlite3.DatabaseError as error:
        raise BadLog(str(path), "", f"no readable rosbag2 database: {error}") from None


def _topics(
    database: sqlite3.Connection, path: Path
) -> dict[int, tuple[str, Callable[[bytes], Any]]]:
    """Return topic id -> (name, decoder). Bags since ROS Iron hold the definitions themselves."""
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    stored: dict[str, tuple[str, bytes]] = {}
    if "message_definitions" in tables:
        query = "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
        stored = {kind: (coding, text.encode()) for kind, coding, text in database.execute(query)}
    topics = {}
    query = "SELECT id, name, type, serialization_format FROM topics"
    for topic_id, name, kind, coding in database.execute(query):
        if coding != "cdr":
            problem = f"is serialised as '{coding}'; cdr is read"
            topics[topic_id] = (name, _refusing(BadLog(str(path), name, problem)))
            continue
        language, text = stored.get(kind, ("ros2msg", b""))
        text = text or definition(kind)
        if not text:
            problem = f"holds {kind}, whose definition is not in the bag (recorded before ROS Iron)"
            topics[topic_id] = (name, _refusing(BadLog(str(path), name, problem)))
            continue
        topics[topic_id] = (name, ros_decoder(kind, language, text))
    return topics


def _refusing(error: BadLog) -> Callable[[bytes], Any]:
    def refuse(data: bytes) -> Any:
        raise error

    return refuse
