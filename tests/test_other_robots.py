"""Models that are unlike the examples: nameless elements, shared joints, brackets in names."""

import pytest

from s2r_jax import robot
from s2r_jax.errors import BadModel, BadValue

BODY = '<body{0}><joint{1} axis="0 1 0"/><geom size=".1"/></body>'
HEAD = "name: r\nmodel: m.xml\ncontrol: {period: 0.02}\n"


def load(folder, bodies, actuators, extra=""):
    (folder / "m.xml").write_text(
        f"<mujoco><worldbody>{bodies}</worldbody><actuator>{actuators}</actuator></mujoco>"
    )
    (folder / "robot.yaml").write_text(HEAD + extra)
    return robot.load(folder)


def body(name="", joint=""):
    return BODY.format(*[f' name="{word}"' if word else "" for word in (name, joint)])


def test_nameless_elements_are_told_apart_by_their_index(tmp_path):
    found = load(tmp_path, body() + body(), "")
    assert [s.name for s in found.signals] == [
        f"joint/{j}/{kind}" for j in (0, 1) for kind in ("position", "velocity")
    ]
    assert [s.address for s in found.signals] == [(0,), (0,), (1,), (1,)]
    assert found.model.body(1).name == "1"


def test_a_nameless_actuator_beside_one_called_by_its_index_is_refused(tmp_path):
    actuators = '<motor name="1" joint="a"/><motor joint="b"/>'
    with pytest.raises(BadModel, match="would be called 1, which another one is called"):
        load(tmp_path, body("", "a") + body("", "b"), actuators)


def test_actuators_that_share_a_joint_go_by_their_own_names(tmp_path):
    bodies = body("", "a") + body("", "b")
    actuators = "".join(
        f'<motor name="{name}" joint="{joint}"/>' for name, joint in ("ma", "na", "ob")
    )
    found = load(tmp_path, bodies, actuators, "joints: {m: {sign: -1}, b: {low: -2}}\n")
    assert [(j.name, j.sign) for j in found.joints] == [("m", -1), ("n", 1), ("b", 1)]
    with pytest.raises(BadModel, match="an actuator is called 'b', as a joint that another drives"):
        load(tmp_path, bodies, actuators.replace('"n"', '"b"'))


def test_names_with_brackets(tmp_path):
    extra = (
        "motors: {kind: pd, kp: {'m[0]': 3, '*': 5}}\n"
        "signals: {'joint/h[0]/position': {}}\n"
        "parameters: [{target: 'joint/h[0]/damping', bounds: [0, 1]}]\n"
    )
    bodies = body("", "h[0]") + body("", "h0")
    actuators = '<motor name="m[0]" joint="h[0]"/><motor name="m0" joint="h0"/>'
    found = load(tmp_path, bodies, actuators, extra)
    assert [s.name for s in found.signals] == ["joint/h[0]/position"]
    assert found.parameters.names == ("joint/h[0]/damping",)
    assert found.motors.values["kp"].tolist() == [3, 5]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("clamp: 3\n", "clamp is 3, expected a body"),
        ("clamp: b\n", "clamp is 'b', expected a body with a free joint"),
        ("signals: {joint/h/position: {noise: .nan}}\n", "noise is nan, expected a finite number"),
        ("signals: {joint/h/position: {scale: 0}}\n", "scale is 0, expected a number other than 0"),
        ("motors: {kind: [pd]}\n", r"unknown kind '\['pd'\]'"),
        ("name: q\n", "the key .*name.* stands twice"),
    ],
)
def test_entries_without_meaning_are_refused(tmp_path, extra, message):
    with pytest.raises(ValueError, match=message):
        load(tmp_path, body("b", "h"), '<motor name="m" joint="h"/>', extra)


@pytest.mark.parametrize(
    ("target", "domain"),
    [("body/b/mass", "1e-09"), ("joint/h/damping", "0"), ("geom/0/friction:1", "0")],
)
def test_negative_mass_damping_and_friction_are_refused(tmp_path, target, domain):
    extra = f'parameters: [{{target: "{target}", bounds: [-1, 9000]}}]\n'
    with pytest.raises(BadValue, match=rf"expected values of {target} within \[{domain}, inf\]"):
        load(tmp_path, body("b", "h"), "", extra)


def test_a_parameter_that_overwrites_another_is_refused(tmp_path):
    first = "parameters:\n- {target: joint/*/damping, bounds: [0, 1], share: true}\n"
    second = "- {target: joint/h/damping, bounds: [0.5, 2], start: 1, operation: OP}\n"
    with pytest.raises(BadValue, match=r"to stand before 'joint/\*/damping', whose value it over"):
        load(tmp_path, body("b", "h"), "", first + second.replace("OP", "set"))
    found = load(tmp_path, body("b", "h"), "", first + second.replace("OP", "scale"))
    assert found.parameters.names == ("joint/*/damping", "joint/h/damping")
