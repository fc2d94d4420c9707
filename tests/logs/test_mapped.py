"""Logs in the machine's own columns: what is written is read back, through the robot's map."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import robot
from s2r_jax.errors import BadValue
from s2r_jax.logs import mapped, read
from s2r_jax.types import Log

EXAMPLES = Path(__file__).parents[2] / "examples"
XML = """
<mujoco><worldbody><body name="base"><freejoint name="free"/><geom size=".1"/>
<body name="arm"><joint name="lift" axis="0 1 0"/><geom size=".05"/></body></body></worldbody>
<actuator><motor name="winch" joint="lift"/></actuator></mujoco>"""
#: Sign, offset, degrees, counts, a quaternion of another order, a clock in milliseconds.
YAML = """
name: crane
model: model.xml
control: {period: 0.01}
motors: {kind: pd, kp: 5, kd: 0.1}
joints: {lift: {sign: -1, offset: 0.4}}
signals:
  joint/lift/position: {}
  body/base/orientation: {}
logs:
  time: {column: [ms, t], unit: ms}
  columns:
    joint/lift/position: {column: angle, unit: deg, scale: 2.0, offset: 1.0}
    command/winch/target: {column: goal, unit: rev, scale: 0.000244140625, signed: 16}
    command/winch/kp: {column: gain, unit: "1"}
    battery/voltage: {column: volts, unit: mV, optional: true}
    body/base/orientation: {columns: [x, y, z, w], order: xyzw, unit: "1"}
"""


@pytest.fixture
def crane(tmp_path):
    (tmp_path / "model.xml").write_text(XML)
    (tmp_path / "robot.yaml").write_text(YAML)
    return robot.load(tmp_path)


def some_log(machine, rows=40):
    rng = np.random.default_rng(0)
    channels = {}
    for signal in machine.signals:
        values = rng.uniform(-1, 1, (rows, signal.size))
        if signal.attribute == "orientation":
            values /= np.linalg.norm(values, axis=1, keepdims=True)
        channels[signal.name] = values if signal.size > 1 else values[:, 0]
    for actuator in machine.actuators:
        channels[f"command/{actuator}/target"] = rng.uniform(-1, 1, rows)
    return Log("some", np.arange(rows) * machine.period, channels)


@pytest.mark.parametrize("ending", mapped.ENDINGS)
@pytest.mark.parametrize("name", ["servo_pendulum", "xl330", "go2", "double_pendulum"])
def test_what_is_written_is_read_back_through_the_robots_map(name, ending, tmp_path):
    machine = robot.load(EXAMPLES / name)
    log = some_log(machine)
    path = tmp_path / f"log{ending}"
    is_own = mapped.write(path, log, machine)
    # An array with its names is more than a CSV holds.
    assert is_own == (name != "go2" or ending == ".npz")
    (found,) = read.read(path, machine)
    assert_allclose(found.time, log.time, atol=1e-12)
    for channel, values in log.channels.items():
        assert_allclose(found.channels[channel], values, atol=1e-12)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_columns_of_the_example_are_those_of_its_map(tmp_path):
    machine = robot.load(EXAMPLES / "servo_pendulum")
    mapped.write(tmp_path / "log.csv", some_log(machine), machine)
    header = (tmp_path / "log.csv").read_text().splitlines()[0]
    assert header == '"time","position","velocity","goal_position"'


def test_units_frames_counts_and_orders_are_undone(crane, tmp_path):
    log = some_log(crane)
    table = mapped.to_columns(log, crane)
    assert table is not None
    position = log.channels["joint/lift/position"]
    # machine = -(model - 0.4) rad; in degrees; column = (degrees - 1) / 2
    assert_allclose(table["angle"], (np.rad2deg(-(position - 0.4)) - 1.0) / 2.0)
    goal = -(log.channels["command/winch/target"] - 0.4) / (2 * np.pi) * 4096
    assert_allclose(table["goal"], np.round(goal) % 65536)
    assert_allclose(table["ms"], 10.0 * np.arange(40), atol=1e-9)
    assert_allclose(table["gain"], 5.0)
    assert_allclose(table["w"], log.channels["body/base/orientation"][:, 0])
    assert mapped.write(tmp_path / "log.csv", log, crane)
    (found,) = read.read(tmp_path / "log.csv", crane)
    assert_allclose(found.channels["joint/lift/position"], position, atol=1e-12)
    target = log.channels["command/winch/target"]
    assert_allclose(found.channels["command/winch/target"], target, atol=np.pi / 4096 + 1e-9)
    for channel in ("body/base/orientation",):
        assert_allclose(found.channels[channel], log.channels[channel], atol=1e-12)


def test_a_log_that_lacks_a_column_keeps_our_own_layout(crane, tmp_path):
    log = some_log(crane)
    channels = {k: v for k, v in log.channels.items() if not k.startswith("body/")}
    assert not mapped.write(tmp_path / "log.npz", log._replace(channels=channels), crane)
    (found,) = read.read(tmp_path / "log.npz", crane)
    assert set(found.channels) == set(channels)


def test_another_ending_is_refused(crane, tmp_path):
    with pytest.raises(BadValue, match=r"ending is '.mcap', expected one of .npz, .csv"):
        mapped.write(tmp_path / "log.mcap", some_log(crane), crane)
