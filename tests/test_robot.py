from pathlib import Path

import numpy as np
import pytest

from s2r_jax import robot
from s2r_jax.errors import BadModel, BadValue, MissingFile, MissingKey, UnknownName, UnknownTarget

XML = """
<mujoco><option timestep="0.002"/><worldbody><body name="base"><freejoint/><geom size=".1"/>
<body name="arm"><joint name="elbow" axis="0 1 0"/><geom size=".05" pos="0 0 .2"/></body></body>
</worldbody>
<actuator><motor name="elbow" joint="elbow"/></actuator>
<keyframe><key name="home" qpos="0 0 0 1 0 0 0 0.5"/></keyframe></mujoco>"""
YAML = """
name: arm
model: arm.xml
control: {period: 0.01}
motors: {kind: pd, kp: 20, kd: 0.5}
joints: {elbow: {low: -1, high: 1, sign: -1}}
parameters:
  - {target: joint/elbow/damping, bounds: [0, 1]}
"""
ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "arm.xml").write_text(XML)
    (tmp_path / "robot.yaml").write_text(YAML)
    return tmp_path


def edit(folder, old, new):
    path = folder / "robot.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_folder_is_read(folder):
    r = robot.load(folder)
    assert (r.name, r.period, r.actuators) == ("arm", 0.01, ("elbow",))
    assert r.joints[0].sign == -1
    assert list(r.signal_slices) == ["joint/elbow/position", "joint/elbow/velocity"]
    assert r.parameters.names == ("joint/elbow/damping",)


def test_a_signal_glob_stands_for_each_match(folder):
    xml = (folder / "arm.xml").read_text()
    hand = '<body name="hand"><joint name="wrist"/><geom size=".02" pos="0 0 .1"/></body></body>\n'
    (folder / "arm.xml").write_text(xml.replace("</body>\n", hand, 1).replace(" 0.5", " 0.5 0"))
    edit(folder, "joints:", "signals: {joint/*/position: {noise: 0.1}}\njoints:")
    found = robot.load(folder).signals
    assert [s.name for s in found] == ["joint/elbow/position", "joint/wrist/position"]
    assert [s.noise for s in found] == [0.1, 0.1]
    edit(folder, "signals: {", "signals: {joint/wrist/position: {}, ")
    with pytest.raises(BadValue, match="each signal declared once"):
        robot.load(folder)


def test_clamp_removes_the_free_joint(folder):
    edit(folder, "model: arm.xml", "model: arm.xml\nclamp: base")
    assert (robot.load(folder).model.nq, robot.load(folder).model.nv) == (1, 1)


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        ("name: arm", "nam: arm", UnknownName, r"unknown key 'nam'; did you mean 'name'\?"),
        ("name: arm", "", MissingKey, "the key 'name' is required"),
        ("arm.xml", "leg.xml", MissingFile, "leg.xml: no such MJCF"),
        (
            "elbow: {low",
            "knee: {low",
            UnknownName,
            "unknown actuated joint 'knee'; available: elbow",
        ),
        (
            "joint/elbow/damping",
            "joint/knee/damping",
            UnknownTarget,
            "'joint/knee/damping' is not in",
        ),
        (
            "period: 0.01",
            "period: 0.0033",
            BadValue,
            "a whole multiple of the model's timestep 0.002",
        ),
        ("period: 0.01", "period: fast", BadValue, "period is 'fast', expected a finite number"),
        ("kind: pd", "kind: servo", UnknownName, "unknown kind 'servo'"),
        ("kp: 20", "kpp: 20", UnknownName, "did you mean 'kp'"),
        ("kp: 20, ", "", MissingKey, "the key 'kp' is required"),
        ("kp: 20", "kp: .nan", BadValue, "a finite number"),
        ("sign: -1", "sign: 2", BadValue, "sign is 2.0, expected 1 or -1"),
        ("low: -1, high: 1", "low: 1, high: -1", BadValue, "a number below high"),
        ("bounds: [0, 1]", "bounds: 1", BadValue, r"expected \[low, high\]"),
        (
            "bounds: [0, 1]",
            "bounds: [0, 1], transform: exp",
            UnknownName,
            "unknown transform 'exp'",
        ),
        ("name: arm", "name: [", BadValue, "valid YAML"),
        (
            "motors:",
            "driver: {kind: foo}\nmotors:",
            UnknownName,
            "robot.yaml: driver: unknown driver 'foo'; available: udp",
        ),
        ("motors:", "driver: {knd: udp}\nmotors:", UnknownName, "did you mean 'kind'"),
        (
            "motors:",
            "latency: {action: 1e9}\nmotors:",
            BadValue,
            r"latency \(action \+ jitter\) is 1000000000.0, expected 100 s at most, 10000 control "
            "periods, within all bounds",
        ),
        (
            "motors:",
            "latency: {jitter: 1e9}\nmotors:",
            BadValue,
            r"\(action \+ jitter\) is 1000000000.0, expected 100 s",
        ),
        (
            "  - {target: joint/elbow/damping, bounds: [0, 1]}",
            "  - {target: latency/action, bounds: [0, 1e9]}",
            BadValue,
            r"latency \(action \+ jitter\) is 1000000000.0, expected 100 s",
        ),
        (
            "motors:",
            "signals: {joint/elbow/position: {delay: 1e9}}\nmotors:",
            BadValue,
            r"latency/joint/elbow/position \(delay \+ 1 / rate\) is 1000000000.0, expected 100 s",
        ),
        (
            "motors:",
            "signals: {joint/elbow/position: {rate: 1e-9}}\nmotors:",
            BadValue,
            r"latency/joint/elbow/position \(delay \+ 1 / rate\) is 9+.*, expected 100 s",
        ),
    ],
)
def test_mistakes_name_the_place_and_the_choices(folder, old, new, kind, message):
    edit(folder, old, new)
    with pytest.raises(kind, match=message) as error:
        robot.load(folder)
    assert str(folder) in str(error.value)


def test_model_that_does_not_compile_is_named(folder):
    (folder / "arm.xml").write_text("<mujoco><worldbody><geom/></worldbody></mujoco>")
    with pytest.raises(BadModel, match=r"arm\.xml: "):
        robot.load(folder)


def test_folder_without_robot_yaml(tmp_path):
    with pytest.raises(MissingFile, match=r"robot\.yaml: no such file"):
        robot.load(tmp_path)
    with pytest.raises(MissingFile, match="no such robot folder"):
        robot.load(tmp_path / "nothing")


def test_motor_friction_is_built_in_where_a_parameter_may_move_it(folder):
    edit(folder, "parameters:", "parameters:\n  - {target: motor/elbow/friction, bounds: [0, 1]}")
    assert robot.load(folder).model.dof_frictionloss[-1] > 0


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*/robot.yaml")), ids=lambda p: p.parent.name
)
def test_examples_load_and_their_start_lies_in_the_bounds(path):
    r = robot.load(path.parent)
    r.parameters.check(np.array(r.parameters.start), str(path))
