import pytest

from s2r_jax import robot
from s2r_jax.errors import BadModel, BadValue, UnknownName, UnknownTarget

XML = """<mujoco><worldbody><body name="base"><freejoint/><geom size=".1"/>
  <body name="arm"><joint name="elbow" axis="0 1 0"/><geom size=".05" pos="0 0 .2"/></body></body>
  </worldbody><actuator>{actuator}</actuator></mujoco>"""
MOTOR = '<motor name="elbow" joint="elbow"/>'


def load(folder, target, bounds, extra="", actuator=MOTOR):
    (folder / "m.xml").write_text(XML.format(actuator=actuator))
    (folder / "robot.yaml").write_text(
        f"name: m\nmodel: m.xml\ncontrol: {{period: 0.01}}\n{extra}\n"
        f"parameters:\n  - {{target: {target}, bounds: {bounds}, start: {bounds[1]}}}\n"
    )
    return robot.load(folder)


@pytest.mark.parametrize(
    ("target", "bounds", "domain"),
    [
        ("latency/action", [-0.01, 0.02], r"\[0, inf\]"),
        ("latency/drop", [0.0, 1.2], r"\[0, 1\]"),
        ("push/interval", [0.0, 5.0], r"\[1e-09, inf\]"),
        ("sensor/joint/elbow/position/rate", [0, 50], r"\[1e-09, inf\]"),
    ],
)
def test_bounds_without_meaning_are_refused(tmp_path, target, bounds, domain):
    with pytest.raises(BadValue, match=f"expected values of {target} within {domain}"):
        load(tmp_path, target, bounds)


@pytest.mark.parametrize("key", ["kp", "offset", "load_friction", "torque_constant"])
def test_what_native_motors_do_not_have_is_no_target(tmp_path, key):
    with pytest.raises(UnknownTarget, match=f"'motor/elbow/{key}' is not in"):
        load(tmp_path, f"motor/elbow/{key}", [0.0, 1.0])


def test_native_motors_have_no_battery(tmp_path):
    with pytest.raises(UnknownTarget, match="'battery/voltage' is not in"):
        load(tmp_path, "battery/voltage", [20.0, 25.0])


def test_motor_fields_of_another_kind_are_refused(tmp_path):
    with pytest.raises(UnknownName, match="unknown key for kind 'native' 'strength'"):
        load(tmp_path, "body/arm/mass", [0.1, 1.0], "motors: {kind: native, strength: 0.9}")


def test_friction_of_a_motor_without_a_joint_is_refused(tmp_path):
    actuator = '<motor name="pull" site="s"/>'
    (tmp_path / "m.xml").write_text(
        XML.format(actuator=actuator).replace("<freejoint/>", '<freejoint/><site name="s"/>')
    )
    (tmp_path / "robot.yaml").write_text(
        "name: m\nmodel: m.xml\ncontrol: {period: 0.01}\nmotors: {kind: native, friction: 0.1}\n"
    )
    with pytest.raises(BadModel, match="friction needs actuator 'pull' on one hinge or slide"):
        robot.load(tmp_path)


def test_push_needs_a_free_body(tmp_path):
    with pytest.raises(UnknownName, match="unknown free body 'arm'; available: base"):
        load(tmp_path, "body/arm/mass", [0.1, 1.0], "push: {body: arm, speed: 1}")
