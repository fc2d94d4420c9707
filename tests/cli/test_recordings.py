"""Logs that are wrong without an error: counted twice, in another unit, of another robot."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from s2r_jax import robot
from s2r_jax.cli import recordings
from s2r_jax.cli.deploy import parse_address
from s2r_jax.errors import BadValue
from tests.cli.refusals import fails

SERVO = Path(__file__).parents[2] / "examples" / "servo_pendulum"


@pytest.fixture
def log(tmp_path):
    def write(name, step=0.02, **factors):
        time = step * np.arange(300)
        swing = 0.3 * np.sin(2 * time) + 0.1 * np.sin(7 * time)
        columns = {"time": time, "position": swing, "velocity": np.gradient(swing, step)}
        columns["goal_position"] = swing
        table = np.stack([v * factors.get(k, 1.0) for k, v in columns.items()], axis=1)
        path = tmp_path / name
        np.savetxt(path, table, delimiter=",", header=",".join(columns), comments="")
        return path

    return write


@pytest.fixture(scope="module")
def servo():
    return robot.load(SERVO)


def test_a_good_log_raises_no_warning(log, servo):
    assert recordings.load([log("a.csv")], servo)[1] == []


@pytest.mark.parametrize(
    ("periods", "word"), [(1.3, "so that a delay comes out"), (3.0, "what lies between is interp")]
)
def test_rows_further_apart_than_commands_are_said(log, servo, periods, word):
    words = recordings.load([log("a.csv", step=periods * servo.period)], servo)[1]
    assert [w for w in words if "a row every" in w and word in w]


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"velocity": 57.3}, "joint/hinge/velocity is 57.* times the derivative of the position"),
        ({"position": 57.3, "velocity": 57.3}, "position moves 57.* times as far as command/hinge"),
        ({"position": 57.3, "velocity": 57.3, "goal_position": 57.3},
         "position goes from .* to .*, its limits are -4.7 and 4.7: wrong unit"),
        ({"velocity": 0.0}, "joint/hinge/velocity never changes"),
    ],
)  # fmt: skip
def test_a_wrong_unit_is_said(log, servo, capsys, factors, message):
    words = recordings.load([log("a.csv", **factors)], servo)[1]
    assert all("a.csv: " in word for word in words)
    assert re.search(message, "; ".join(words))
    assert "warning: " in capsys.readouterr().err


def test_sparse_rows_are_said(log, servo):
    (word,) = recordings.load([log("a.csv", step=0.06)], servo)[1]
    assert "a row every 0.06 s, with a control period of 0.02 s" in word


def test_a_log_counts_once(log, servo):
    first, copy = log("a.csv"), log("b.csv")
    with pytest.raises(BadValue, match="each log once"):
        recordings.load([first, first.parent / "." / "a.csv"], servo)
    logs = recordings.load([first, copy], servo)[0]
    with pytest.raises(BadValue, match=r"b\.csv', expected another recording than .*a\.csv"):
        recordings.check_apart(logs)
    recordings.check_apart(recordings.load([first, log("c.csv", position=1.01)], servo)[0])


def test_nothing_left_to_fit(capsys, tmp_path, log):
    path = log("a.csv")
    message = fails(
        capsys, "identify", SERVO, path, "--holdout-logs", path, "--out", tmp_path / "r"
    )
    assert "expected at least one of LOGS left to fit" in message
    assert not (tmp_path / "r").exists()


def test_identified_of_another_robot_or_without_a_parameter(capsys, tmp_path, log, servo):
    path, names = tmp_path / "identified.json", servo.parameters.names
    entries = [{"name": n, "value": v} for n, v in zip(names, servo.parameters.start, strict=True)]
    arguments = ("replay", SERVO, log("a.csv"), "--identified", path, "--out", tmp_path / "r")
    path.write_text(json.dumps({"robot": "xl330", "parameters": entries}))
    message = fails(capsys, *arguments)
    assert "identified.json: robot is 'xl330', expected 'servo_pendulum', the robot of" in message
    path.write_text(json.dumps({"robot": "servo_pendulum", "parameters": entries[1:]}))
    assert f"the key '{names[0]}' is required" in fails(capsys, *arguments)
    path.write_text(json.dumps({"robot": "servo_pendulum", "parameters": ["a", 3]}))
    assert "expected a list of parameters with a name and a value" in fails(capsys, *arguments)


@pytest.mark.parametrize("window", ["0.001", "-1", "nan"])
def test_a_window_that_is_none(capsys, tmp_path, log, window):
    arguments = ("replay", SERVO, log("a.csv"), "--window", window, "--out", tmp_path / "r")
    assert "0 for whole logs, or at least a control period (0.02 s)" in fails(capsys, *arguments)


def test_a_file_that_cannot_be_read_is_named(capsys, tmp_path, log, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "secret.csv")

    monkeypatch.setattr(Path, "open", refuse)
    message = fails(capsys, "replay", SERVO, log("a.csv"), "--out", tmp_path / "r")
    assert message.endswith("s2r replay: secret.csv: Permission denied")


@pytest.mark.parametrize(
    ("step", "what"), [(20.0, "has a row every 20 s"), (2e-5, "lasts 0.00598")]
)
def test_time_in_another_unit(capsys, tmp_path, log, step, what):
    message = fails(capsys, "replay", SERVO, log("a.csv", step=step), "--out", tmp_path / "r")
    assert what in message
    assert "with a control period of 0.02 s: is the unit of its time right?" in message


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:²", ":9870", "x"])
def test_an_address_that_is_none(address):
    with pytest.raises(BadValue, match="expected HOST:PORT"):
        parse_address(address)


@pytest.mark.parametrize("port", [-1, 99999])
def test_a_port_that_is_none(capsys, port):
    message = fails(capsys, "emulate", SERVO, f"--port={port}")
    assert f"port is {port}, expected a port in [0, 65535]" in message


@pytest.mark.parametrize("command", ["validate", "export"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"robot": "xl330", "task": "swing_up"}', "robot is 'xl330', expected 'servo_pendulum'"),
        ("[1]", r"content is [1], expected what `s2r train` writes"),
    ],
)
def test_a_policy_of_another_robot(capsys, tmp_path, command, content, message):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "train.json").write_text(content)
    found = fails(capsys, command, SERVO, tmp_path / "run", "--out", tmp_path / "o")
    assert f"train.json: {message}" in found
    assert not (tmp_path / "o").exists()
