"""MCAP files, rosbag2 folders and LeRobot folders, written here by their own libraries."""

import json
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml
from mcap.writer import CompressionType, Writer
from mcap_ros2.writer import Writer as RosWriter
from numpy.testing import assert_allclose, assert_array_equal

from s2r_jax import robot
from s2r_jax.errors import BadLog, MissingFile, Unsupported
from s2r_jax.logs import ros_types
from s2r_jax.logs.read import read
from s2r_jax.logs.table import LogWarning
from tests.logs.robots import CUBE, PAIR, SERVO, Maker

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
JOINT_STATE = ros_types.definition("sensor_msgs/msg/JointState")
COMMAND = ros_types.definition("std_msgs/msg/Float64MultiArray")
COLUMNS = {
    "joint/*/position": {"column": "/joint_states.position", "names": "/joint_states.name"},
    "command/*/target": "/command.data",
}
STAMP = {"time": {"column": "/joint_states.header.stamp"}}


def json_file(path: Path, rows: int = 100, **options: Any) -> Path:
    """Write q = row at 100 Hz, and u = row of the command at 50 Hz, 4 ms earlier."""
    with path.open("wb") as stream:
        writer = Writer(stream, **options)
        writer.start()
        schema = writer.register_schema("any", "jsonschema", b"{}")
        ids = [writer.register_channel(topic, "json", schema) for topic in ("/q", "/u")]
        for row in range(rows):
            late = START + row * SECOND // 100
            if row % 2 == 0:
                add(writer, ids[1], late - 4_000_000, {"tau": row})
            add(writer, ids[0], late, {"t": row / 100, "pos": {"deg": float(row)}})
        writer.finish()
    return path


def add(writer: Writer, channel: int, late: int, content: dict) -> None:
    data = json.dumps(content).encode()
    writer.add_message(channel, log_time=late, publish_time=late, data=data)


@pytest.fixture
def servo(make_robot: Maker) -> robot.Robot:
    columns = {"joint/hinge/position": {"column": "/q.pos.deg", "unit": "deg"},
               "command/servo/target": "/u.tau"}  # fmt: skip
    return make_robot(SERVO, columns, logs={"time": {"column": "/q.t"}})


def test_json_messages_of_topics_with_their_own_rates(servo: robot.Robot, tmp_path: Path):
    (log,) = read(json_file(tmp_path / "a.mcap"), servo)
    rows = np.arange(100)
    assert_allclose(log.time, rows / 100)
    assert_allclose(log.channels["joint/hinge/position"], np.deg2rad(rows))
    assert_array_equal(log.channels["command/servo/target"], rows // 2 * 2)


def test_window_of_messages(servo: robot.Robot, tmp_path: Path):
    (log,) = read(json_file(tmp_path / "a.mcap"), servo, start=0.298, stop=0.495)
    assert_allclose(log.time, np.arange(30, 50) / 100)
    assert_array_equal(log.channels["command/servo/target"], np.arange(30, 50) // 2 * 2)


@pytest.mark.parametrize("compression", [CompressionType.ZSTD, CompressionType.NONE])
def test_truncated_file_gives_what_is_there(
    compression: CompressionType, servo: robot.Robot, tmp_path: Path
):
    path = json_file(tmp_path / "a.mcap", 2000, chunk_size=4096, compression=compression)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(LogWarning, match=r"a\.mcap: damaged after \d+ messages, which were read"):
        (log,) = read(path, servo)
    assert 500 < len(log.time) < 1500
    assert_allclose(log.channels["joint/hinge/position"], np.deg2rad(100 * log.time), atol=1e-12)


def test_flipped_bit_ends_the_reading(servo: robot.Robot, tmp_path: Path):
    path = json_file(tmp_path / "a.mcap", 2000, chunk_size=4096, compression=CompressionType.NONE)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)
    with pytest.warns(LogWarning, match="damaged after"):
        (log,) = read(path, servo)
    assert_allclose(log.channels["joint/hinge/position"], np.deg2rad(100 * log.time), atol=1e-12)


@pytest.mark.parametrize("content", [b"", b"no MCAP at all", b"\x89MCAP0\r\n"])
def test_what_is_no_mcap_is_named(content: bytes, servo: robot.Robot, tmp_path: Path):
    (tmp_path / "a.mcap").write_bytes(content)
    with pytest.raises(BadLog, match=r"a\.mcap: (no readable MCAP|damaged before its first)"):
        read(tmp_path / "a.mcap", servo)


def test_missing_topic_lists_what_there_is(make_robot: Maker, tmp_path: Path):
    path = json_file(tmp_path / "a.mcap")
    columns = {"joint/hinge/position": "/q.angle"}
    servo = make_robot(SERVO, columns, logs={"time": {"column": "/q.log_time"}})
    with pytest.raises(BadLog) as caught:
        read(path, servo)
    names = "/q.log_time, /q.pos.deg, /q.t, /u.log_time, /u.tau"
    assert str(caught.value) == f"{path}: column '/q.angle': is missing; the file has {names}"


def test_topics_that_begin_late_cost_rows_and_say_so(make_robot: Maker, tmp_path: Path):
    path = tmp_path / "a.mcap"
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        ids = [writer.register_channel(topic, "json", 0) for topic in ("/q", "/v", "/u")]
        for row in range(20):
            add(writer, ids[0], START + row * SECOND // 10, {"t": row / 10})
        for row in range(3, 20):  # half a row later, ends before
            add(writer, ids[1], START + (2 * row - 1) * SECOND // 20, {"v": row - 0.5})
        add(writer, ids[2], START + SECOND // 2, {"u": 7})
        writer.finish()
    columns = {"joint/hinge/position": "/v.v", "command/servo/target": "/u.u"}
    servo = make_robot(SERVO, columns, logs={"time": {"column": "/q.t"}})
    with pytest.warns(LogWarning, match="6 of 20 rows left out, where not every topic has"):
        (log,) = read(path, servo)
    assert_allclose(log.time, np.arange(5, 19) / 10)
    assert_allclose(log.channels["joint/hinge/position"], np.arange(5, 19))
    assert_array_equal(log.channels["command/servo/target"], np.full(14, 7.0))


def test_quaternion_of_another_topic_takes_the_shorter_way(make_robot: Maker, tmp_path: Path):
    path = tmp_path / "a.mcap"
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        ids = [writer.register_channel(topic, "json", 0) for topic in ("/p", "/o")]
        for row in range(41):
            late = row * SECOND // 40
            add(writer, ids[0], START + late, {"t": row / 40, "p": [row, 0, 0]})
            if row % 4 == 0:
                half = row / 80
                sign = -1 if row % 8 else 1  # the same rotation
                q = {"w": sign * np.cos(half), "z": sign * np.sin(half), "x": 0.0, "y": 0.0}
                add(writer, ids[1], START + late, {"q": q})
        writer.finish()
    parts = [f"/o.q.{k}" for k in "xyzw"]
    columns = {"body/cube/orientation": {"columns": parts, "order": "xyzw"},
               "body/cube/position": "/p.p"}  # fmt: skip
    cube = make_robot(CUBE, columns, logs={"time": {"column": "/p.t"}})
    (log,) = read(path, cube)
    q = log.channels["body/cube/orientation"]
    assert_allclose(np.linalg.norm(q, axis=1), 1, rtol=1e-12)
    # About z by 1 rad/s; normalised interpolation over 0.1 rad is off by less than 1e-5.
    assert_allclose(2 * np.arctan2(q[:, 3], q[:, 0]), np.arange(41) / 40, atol=1e-5)


def joint_state(row: int) -> Struct:
    late = START + row * SECOND // 100
    stamp = Struct(sec=late // SECOND, nanosec=late % SECOND)
    return Struct(
        header=Struct(stamp=stamp, frame_id="base"), name=["elbow", "shoulder"],
        position=[float(row), -float(row)], velocity=[], effort=[],
    )  # fmt: skip


def command(row: int) -> Struct:
    return Struct(layout=Struct(dim=[], data_offset=0), data=[0.5 * row, 0.25 * row])


def ros_file(path: Path, rows: range) -> Path:
    with path.open("wb") as stream:
        writer = RosWriter(stream)
        state = writer.register_msgdef("sensor_msgs/msg/JointState", JOINT_STATE.decode())
        target = writer.register_msgdef("std_msgs/msg/Float64MultiArray", COMMAND.decode())
        for row in rows:
            late = START + row * SECOND // 100
            writer.write_message("/command", target, command(row), late)
            writer.write_message("/joint_states", state, joint_state(row), late)
        writer.finish()
    return path


def check_pair(log: Any, rows: int) -> None:
    row = np.arange(rows)
    # A time since 1970 in float64 is good to 0.24 µs.
    assert_allclose(log.time - log.time[0], row / 100, atol=5e-7)
    assert_array_equal(log.channels["joint/shoulder/position"], -row)
    assert_array_equal(log.channels["joint/elbow/position"], row)
    assert_array_equal(log.channels["command/lower_motor/target"], 0.25 * row)


def test_ros_messages(make_robot: Maker, tmp_path: Path):
    pair = make_robot(PAIR, COLUMNS, logs=STAMP)
    (log,) = read(ros_file(tmp_path / "a.mcap", range(50)), pair)
    check_pair(log, 50)


def metadata(folder: Path, *files: str) -> Path:
    folder.mkdir(exist_ok=True)
    information = {"version": 5, "relative_file_paths": list(files)}
    text = yaml.safe_dump({"rosbag2_bagfile_information": information})
    (folder / "metadata.yaml").write_text(text)
    return folder


def test_rosbag_of_several_mcap_files(make_robot: Maker, tmp_path: Path):
    folder = metadata(tmp_path / "bag", "bag_0.mcap", "bag_1.mcap")
    ros_file(folder / "bag_0.mcap", range(30))
    pair = make_robot(PAIR, COLUMNS, logs=STAMP)
    with pytest.raises(MissingFile, match=r"bag_1\.mcap: no such file; named in .*metadata\.yaml"):
        read(folder, pair)
    ros_file(folder / "bag_1.mcap", range(30, 50))
    (log,) = read(folder, pair)
    check_pair(log, 50)


@pytest.mark.parametrize("has_definitions", [True, False], ids=["iron", "humble"])
def test_rosbag_database(has_definitions: bool, make_robot: Maker, tmp_path: Path):
    folder = metadata(tmp_path / "bag", "bag_0.db3")
    encode: list[tuple[str, str, bytes, Callable[[int], Struct]]] = [
        ("/joint_states", "sensor_msgs/msg/JointState", JOINT_STATE, joint_state),
        ("/command", "std_msgs/msg/Float64MultiArray", COMMAND, command),
        ("/other", "my_msgs/msg/Odd", b"", command),
    ]
    with sqlite3.connect(folder / "bag_0.db3") as database:
        database.execute("CREATE TABLE topics(id, name, type, serialization_format)")
        database.execute("CREATE TABLE messages(id, topic_id, timestamp, data)")
        if has_definitions:
            columns = "topic_type, encoding, encoded_message_definition, type_description_hash"
            database.execute(f"CREATE TABLE message_definitions({columns})")
        for index, (topic, kind, text, make) in enumerate(encode):
            database.execute("INSERT INTO topics VALUES (?, ?, ?, 'cdr')", (index, topic, kind))
            if has_definitions and text:
                values = (kind, "ros2msg", text.decode())
                database.execute("INSERT INTO message_definitions VALUES (?, ?, ?, '')", values)
            for row in reversed(range(50)):  # recorders do not keep the order
                stamp = START + row * SECOND // 100
                data = cdr(make(row)) if text else b""
                database.execute("INSERT INTO messages VALUES (0, ?, ?, ?)", (index, stamp, data))
    database.close()
    (log,) = read(folder, make_robot(PAIR, COLUMNS, logs=STAMP))
    check_pair(log, 50)
    (part,) = read(folder, make_robot(PAIR, COLUMNS, logs=STAMP), start=0.095, stop=0.195)
    assert_array_equal(part.channels["joint/elbow/position"], np.arange(10, 20))
    odd = make_robot(PAIR, {"joint/elbow/position": "/other.data"}, logs=STAMP)
    with pytest.raises(BadLog, match="column '/other': holds my_msgs/msg/Odd, whose definition is"):
        read(folder, odd)


def cdr(message: Struct) -> bytes:
    """Encode by hand, after the rules of OMG's CDR: little endian, aligned from the header on."""
    body = b""

    def put(code: str, *values: Any) -> None:
        nonlocal body
        size = struct.calcsize(f"<{code}")
        body += b"\0" * (-len(body) % size)
        body += b"".join(struct.pack(f"<{code}", value) for value in values)

    def text(value: str) -> None:
        nonlocal body
        put("I", len(value) + 1)
        body += value.encode() + b"\0"

    if hasattr(message, "header"):
        put("I", message.header.stamp.sec, message.header.stamp.nanosec)
        text(message.header.frame_id)
        put("I", len(message.name))
        for name in message.name:
            text(name)
        for values in (message.position, message.velocity, message.effort):
            put("I", len(values))
            if values:
                put("d", *values)
    else:
        put("I", 0, 0, len(message.data))
        put("d", *message.data)
    return b"\0\1\0\0" + body


def test_without_the_extra_the_message_says_how_to_get_it(
    servo: robot.Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = json_file(tmp_path / "a.mcap")
    monkeypatch.setitem(__import__("sys").modules, "mcap.stream_reader", None)
    with pytest.raises(Unsupported) as caught:
        read(path, servo)
    assert "MCAP files without the package 'mcap'" in str(caught.value)
    assert "pip install 's2r_jax[logs]'" in str(caught.value)


def lerobot(folder: Path, version: str = "v3.0") -> Path:
    (folder / "meta").mkdir(parents=True)
    names = ["elbow", "shoulder"]
    features = {"observation.state": {"dtype": "float32", "names": names},
                "action": {"dtype": "float32", "names": {"motors": names}},
                "timestamp": {"names": None}}  # fmt: skip
    info = {"codebase_version": version, "fps": 50, "features": features}
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    row = np.arange(60)
    episode = np.repeat([0, 1, 2], [10, 30, 20])
    within = np.concatenate([np.arange(10), np.arange(30), np.arange(20)])
    state = np.stack([row, -row], axis=1).astype(np.float32)
    for index, part in enumerate([slice(0, 25), slice(25, 60)]):  # cuts episode 1
        table = pa.table({
            "observation.state": list(state[part]), "action": list(2 * state[part]),
            "timestamp": (within[part] / 50).astype(np.float32), "episode_index": episode[part],
        })  # fmt: skip
        file = folder / "data" / "chunk-000" / f"file-{index:03d}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pa.parquet.write_table(table, file)
    return folder


def test_lerobot_episodes(make_robot: Maker, tmp_path: Path):
    columns = {
        "joint/*/position": {"column": "observation.state", "names": "observation.state.names",
                             "unit": "deg"},
        "command/*/target": {"column": "action", "names": "action.names"},
    }  # fmt: skip
    pair = make_robot(PAIR, columns, logs={"time": {"column": "timestamp"}})
    folder = lerobot(tmp_path / "set")
    logs = read(folder, pair)
    assert [log.name for log in logs] == [f"{folder}[{index}]" for index in range(3)]
    assert [len(log.time) for log in logs] == [10, 30, 20]
    assert_allclose(logs[1].time, np.arange(30) / 50, rtol=1e-6)  # recorded in float32
    assert_allclose(logs[1].channels["joint/elbow/position"], np.deg2rad(np.arange(10, 40)))
    assert_array_equal(logs[1].channels["command/upper_motor/target"], -2 * np.arange(10, 40))
    (folder / "data" / "chunk-000" / "file-000.parquet").unlink()
    with pytest.raises(BadLog, match=r"codebase_version.*is 'v2.1', expected one of v3.0"):
        read(lerobot(tmp_path / "old", "v2.1"), pair)


def test_other_folders_are_refused(servo: robot.Robot, tmp_path: Path):
    with pytest.raises(BadLog) as caught:
        read(tmp_path, servo)
    assert "must hold metadata.yaml (rosbag2) or meta/info.json (LeRobot)" in str(caught.value)
