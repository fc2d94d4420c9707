"""`s2r check`: the result that others rely on; refusals do not stop it, bad input does."""

import json
from pathlib import Path

import pytest

from s2r_jax import cli

SERVO = Path(__file__).parents[2] / "examples" / "servo_pendulum"
XML = """
<mujoco><option timestep="0.005"><flag energy="enable"/></option><worldbody>
<body name="pole"><joint name="hinge" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" mass="0.4"/></body></worldbody>
<actuator><motor name="drive" joint="hinge" {damping}/></actuator></mujoco>
"""
YAML = """
name: pole
model: pole.xml
control: {period: 0.01}
parameters:
  - {target: body/pole/mass, bounds: [0.3, 0.5], unit: kg}
  - {target: "joint/hinge/range:1", bounds: [-1, 1], unit: rad}
"""


@pytest.fixture
def pole(tmp_path):
    def make(damping=""):
        (tmp_path / "pole.xml").write_text(XML.format(damping=damping))
        (tmp_path / "robot.yaml").write_text(YAML)
        return tmp_path

    return make


def check(capsys, folder, out, *options):
    cli.main(["check", str(folder), "--out", str(out), "--json", *options])
    return json.loads(capsys.readouterr().out)


def test_result_names_effects_deviation_and_what_looks_alike(capsys, tmp_path):
    out = tmp_path / "run"
    found = check(capsys, SERVO, out, "--engine", "mujoco")
    assert found == json.loads((out / "check.json").read_text())
    assert {"config.json", "versions.json", "report.html"} <= {f.name for f in out.iterdir()}
    assert found["findings"] == []
    assert found["engines"] == {"mujoco": None}
    assert found["deviation"]["largest"] < 1e-9  # one hinge, float64
    assert list(found["deviation"]["joints"]) == ["hinge"]
    assert [p["name"] for p in found["parameters"]][-1] == "latency/action"
    for entry in found["parameters"]:
        assert entry["acts"]
        assert entry["engine"] == "mujoco"
        assert set(entry["effect"]) == {"joint position", "joint velocity"}
    assert isinstance(found["cannot_be_told_apart"], list)
    assert "body/load/mass" in found["targets"]


def test_parameter_that_cannot_act_is_listed_beside_those_that_do(capsys, pole, tmp_path):
    found = check(capsys, pole(), tmp_path / "run", "--engine", "mujoco")
    mass, limit = found["parameters"]
    assert (mass["acts"], limit["acts"]) == (True, False)
    assert "jnt_limited is off" in limit["reason"]
    assert [f["effect"] for f in found["findings"]] == ["cleared"]  # the flag `energy`


def test_engine_that_refuses_the_model_is_named_and_the_others_are_probed(capsys, pole, tmp_path):
    found = check(capsys, pole('damping="0.1"'), tmp_path / "run", "--seconds", "0.2")
    assert "actuator_damping of drive is ignored" in found["engines"]["mjx"]
    assert found["engines"]["mujoco"] is None
    assert {p["engine"] for p in found["parameters"]} == {"mujoco"}
    assert found["deviation"]["largest"] > 1e-5  # the damping that MJX ignores
    assert "actuator_damping" in (tmp_path / "run" / "report.html").read_text()


def test_bad_robot_and_bad_engine_end_with_status_2_and_leave_nothing(capsys, pole, tmp_path):
    out = tmp_path / "out"
    for arguments, words in (
        ([str(tmp_path / "none")], "none: no such robot folder"),
        ([str(pole()), "--engine", "bullet"], "unknown engine 'bullet'; available: mjx, mujoco"),
        ([str(pole()), "--seconds", "-1"], "--seconds: length is -1.0, expected a positive"),
    ):
        with pytest.raises(SystemExit) as caught:
            cli.main(["check", *arguments, "--out", str(out)])
        assert caught.value.code == 2
        assert words in capsys.readouterr().err
        assert not out.exists()
