"""`s2r plan`, and `s2r emulate --play` of what it writes."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import cli, robot
from s2r_jax.hardware.emulator import draw
from s2r_jax.logs import read
from tests.cli.refusals import fails

ROOT = Path(__file__).parents[2]
SERVO = ROOT / "examples" / "servo_pendulum"
#: Least effort.
QUICK = ("--duration", "3", "--population", "4", "--generations", "1", "--draws", "1",
         "--checks", "4", "--harmonics", "4")  # fmt: skip


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A plan with least effort."""
    folder = tmp_path_factory.mktemp("plan") / "run"
    cli.main(["plan", str(SERVO), *QUICK, "--out", str(folder)])
    return folder


def test_plan_says_what_it_will_make_identifiable_and_how_near_the_limits_it_comes(planned):
    result = json.loads((planned / "plan.json").read_text())
    machine = robot.load(SERVO)
    assert [p["name"] for p in result["parameters"]] == list(machine.parameters.names)
    for parameter in result["parameters"]:
        assert 0 < parameter["std"] <= parameter["worst_std"]
        assert set(parameter["baselines"]) == {"chirp", "random multisine"}
    # Three seconds of an uncluttered servo show all of it but, perhaps, friction beside the rest.
    missing = [n for n in machine.parameters.names if n not in result["identifiable"]]
    assert missing in ([], ["motor/hinge/friction"])
    for name in missing:
        assert any(name in words for words in result["stays_unknown"])
    assert [limit["name"] for limit in result["limits"]] == [
        "position of hinge", "speed of hinge", "torque of hinge",
    ]  # fmt: skip
    for limit in result["limits"]:
        assert limit["used"] <= 0.9
        assert limit["low"] <= limit["reached"][0] + 0.0
        assert limit["reached"][1] <= limit["high"]
    assert result["limits_checked_at"] == 5
    page = (planned / "report.html").read_text()
    assert page.count("<img") == 2
    assert "http" not in page.replace("http-equiv", "")


def test_excitation_is_read_through_the_robots_own_map_and_ends_at_rest(planned):
    machine = robot.load(SERVO)
    for name in ("excitation.csv", "excitation.npz"):
        (log,) = read.read(planned / name, machine)
        target = log.channels["command/hinge/target"]
        assert target.shape == (150,)
        assert_allclose(target[[0, -1]], 0.0, atol=1e-12)
        assert np.ptp(target) > 0.1
    header = (planned / "excitation.csv").read_text().splitlines()[0]
    assert header == '"time","position","velocity","goal_position"'


def test_emulator_plays_the_plan_and_records_what_identify_reads(planned, tmp_path, capsys):
    recorded, hidden = tmp_path / "log.csv", tmp_path / "hidden.json"
    played = planned / "excitation.csv"
    cli.main(["emulate", str(SERVO), "--play", str(played), "--record", str(recorded),
              "--seed", "2", "--reveal", str(hidden)])  # fmt: skip
    assert "150 rows in" in " ".join(capsys.readouterr().err.split())
    machine = robot.load(SERVO)
    (log,), (told,) = read.read(recorded, machine), read.read(played, machine)
    target = log.channels["command/hinge/target"]
    assert_allclose(target, told.channels["command/hinge/target"], atol=1e-6)
    # Encoder ticks, and a motion that is not the one that was expected.
    ticks = log.channels["joint/hinge/position"] / 0.00153398
    assert_allclose(ticks, np.round(ticks), atol=1e-2)
    error = log.channels["joint/hinge/position"] - told.channels["joint/hinge/position"]
    assert np.abs(error).max() > 0.05
    theta = json.loads(hidden.read_text())["theta"]
    assert theta == machine.parameters.named(draw(machine.parameters, 2, 0.8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--play", "a.csv"), "--play is 'a.csv', expected --record beside it"),
        (("--record", "b.csv"), "--record is 'b.csv', expected --play beside it"),
        (("--play", "a.csv", "--record", "b.csv", "--lockstep"), "no --port, --host or --lockstep"),
        (("--play", "a.csv", "--record", "b.mcap"), "ending is '.mcap', expected one of .npz"),
        (("--play", "a.csv", "--record", "none/b.csv"), "expected a file in a folder that exists"),
        (("--play", "a.csv", "--record", "b.csv"), "a.csv: no such log"),
    ],
)
def test_what_cannot_be_played_is_refused(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in fails(capsys, "emulate", SERVO, *arguments)
    assert not list(tmp_path.iterdir())


def test_gains_of_a_log_that_the_machine_does_not_have_are_refused(capsys, tmp_path):
    xl330 = ROOT / "examples" / "xl330"
    time = np.arange(200) * 0.005
    columns = {"time": time, "position": np.sin(time), "goal_position": np.sin(time),
               "kp": np.full(200, 400.0), "torque_enable": np.ones(200),
               "input_volts": np.full(200, 7.4)}  # fmt: skip
    path = tmp_path / "log.csv"
    np.savetxt(path, np.stack(list(columns.values()), 1), delimiter=",",
               header=",".join(columns), comments="")  # fmt: skip
    message = fails(capsys, "emulate", xl330, "--play", path, "--record", tmp_path / "new.npz")
    assert "command/hinge/kp is 400.0, expected 200: only targets are played" in message


def test_robot_that_cannot_be_commanded_is_told_so(capsys, tmp_path):
    message = fails(capsys, "plan", ROOT / "examples" / "cube", "--out", tmp_path / "run")
    assert "cube/robot.yaml: the model has no actuators, so there is nothing to command" in message
    assert not list(tmp_path.iterdir())


def test_identified_file_of_another_robot_is_refused(capsys, tmp_path):
    path = tmp_path / "identified.json"
    path.write_text(json.dumps({"robot": "other", "parameters": []}))
    message = fails(capsys, "plan", SERVO, "--identified", path, "--out", tmp_path / "run")
    assert "robot is 'other', expected 'servo_pendulum'" in message
