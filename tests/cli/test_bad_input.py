"""What a new user gets wrong: one clear message, exit status 2, nothing lost or half written."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.refusals import fails

ROOT = Path(__file__).parents[2]
SERVO = ROOT / "examples" / "servo_pendulum"


@pytest.fixture
def log(tmp_path):
    """A short log that is good, written as CSV."""

    def write(name="log.csv", rows=60, **changes):
        time = np.arange(rows) * 0.02
        columns = {"time": time, "position": 0.1 * np.sin(time), "velocity": 0.1 * np.cos(time)}
        columns["goal_position"] = 0.1 * np.sin(time)
        for key, change in changes.items():
            columns[key] = change(columns[key].copy())
        path = tmp_path / name
        table = np.stack(list(columns.values()), axis=1)
        np.savetxt(path, table, delimiter=",", header=",".join(columns), comments="")
        return path

    return write


def test_empty_log(capsys, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    message = fails(capsys, "identify", SERVO, empty, "--out", tmp_path / "run")
    assert "empty.csv" in message
    assert list(tmp_path.iterdir()) == [empty]


def test_log_with_nan(capsys, tmp_path, log):
    def spoil(values):
        values[7] = np.nan
        return values

    message = fails(capsys, "identify", SERVO, log(position=spoil), "--out", tmp_path / "run")
    assert "log.csv: column 'position'" in message
    assert "row 7" in message
    assert not (tmp_path / "run").exists()


def test_log_with_time_going_backwards(capsys, tmp_path, log):
    def spoil(values):
        values[9] = values[5]
        return values

    message = fails(capsys, "identify", SERVO, log(time=spoil), "--out", tmp_path / "run")
    assert "log.csv: column 'time'" in message
    assert "row 9" in message


def test_log_without_a_column_lists_what_there_is(capsys, tmp_path, log):
    path = log()
    path.write_text(path.read_text().replace("goal_position", "target"))
    message = fails(capsys, "identify", SERVO, path, "--out", tmp_path / "run")
    assert "goal_position" in message
    assert "target" in message


def test_missing_log_and_missing_robot(capsys, tmp_path):
    message = fails(capsys, "identify", SERVO, tmp_path / "no.csv", "--out", tmp_path / "run")
    assert "no.csv" in message
    message = fails(capsys, "identify", tmp_path / "robot", "x.csv", "--out", tmp_path / "run")
    assert "robot: no such robot folder; it must hold robot.yaml and an MJCF" in message


def test_robot_whose_joint_does_not_exist(capsys, tmp_path, log):
    folder = tmp_path / "robot"
    folder.mkdir()
    for path in SERVO.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    text = (folder / "robot.yaml").read_text().replace("hinge: {low", "hinges: {low")
    (folder / "robot.yaml").write_text(text)
    message = fails(capsys, "identify", folder, log(), "--out", tmp_path / "run")
    assert "robot.yaml: joints: unknown actuated joint 'hinges'; did you mean 'hinge'?" in message


def test_out_on_an_existing_run_keeps_it(capsys, tmp_path, log):
    out = tmp_path / "run"
    out.mkdir()
    (out / "identified.json").write_text("precious")
    message = fails(capsys, "identify", SERVO, log(), "--out", out)
    assert "already exists and is not empty" in message
    assert (out / "identified.json").read_text() == "precious"
    assert [p.name for p in out.iterdir()] == ["identified.json"]


def test_bundle_cut_in_half(capsys, tmp_path):
    import zipfile

    whole = tmp_path / "whole.s2r"
    with zipfile.ZipFile(whole, "w") as file:
        file.writestr("manifest.json", "{}" * 2000)
    half = tmp_path / "policy.s2r"
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    message = fails(capsys, "deploy", half, "--out", tmp_path / "run")
    assert "policy.s2r: " in message
    assert not (tmp_path / "run").exists()


def test_unknown_command_and_unknown_task(capsys, tmp_path):
    assert "unknown command 'idenfity'; did you mean 'identify'?" in fails(capsys, "idenfity")
    message = fails(capsys, "train", SERVO, "--task", "fly", "--out", tmp_path / "run")
    assert "unknown task 'fly'; available: swing_up" in message
    assert not (tmp_path / "run").exists()


def test_identified_file_of_something_else(capsys, tmp_path, log):
    other = tmp_path / "identified.json"
    other.write_text('{"a": 1}')
    message = fails(capsys, "replay", SERVO, log(), "--identified", other, "--out", tmp_path / "r")
    assert "identified.json: the key 'parameters' is required; given: a" in message


def test_time_slice_without_rows(capsys, tmp_path, log):
    path, out = log(), tmp_path / "run"
    for command in ("identify", "replay"):
        message = fails(capsys, command, SERVO, path, "--start", 5, "--stop", 6, "--out", out)
        assert "log.csv: 0 rows from 5 s to 6 s, expected at least 2" in message
        message = fails(capsys, command, SERVO, path, "--start", 1, "--stop", 1, "--out", out)
        assert "expected a time before stop (1 s)" in message
        assert not out.exists()


@pytest.mark.parametrize("arguments", [["--help"], ["identify", "--help"], ["train", "--hlep"]])
def test_help_and_argument_errors_import_no_jax(arguments):
    code = (
        "import sys\nfrom s2r_jax import cli\n"
        f"try:\n    cli.main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print('jax' in sys.modules, 'mujoco' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split()[-2:] == ["False", "False"]
