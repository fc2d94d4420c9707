import dataclasses
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.deploy import contract_file
from s2r_jax.deploy.contract import Limits
from s2r_jax.deploy.describe import contract_of
from s2r_jax.errors import BadValue, MissingKey, S2RError, UnknownName
from s2r_jax.hardware.emulator import Frame
from s2r_jax.observation import Term
from tests.deploy import cases
from tests.hardware import bench

LIMITS = Limits(
    acceleration=9.0,
    temperature=70.0,
    voltage_low=20.0,
    voltage_high=26.0,
    tilt=1.0,
    tilt_signal="body/trunk/orientation",
    stale=0.2,
)


def test_json_gives_back_the_same_contract():
    contract = cases.contract(limits=LIMITS)
    text = contract.to_json()
    assert contract_file.from_json(text, "contract.json") == contract
    assert contract_file.from_json(text, "contract.json").to_json() == text
    # Infinite limits are null: Infinity is no JSON.
    assert json.loads(text, parse_constant=pytest.fail)["joints"][0]["torque"] is None


def changed(value):
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, tuple):
        return value[::-1] if len(value) > 1 and value[::-1] != value else value[:-1]
    if value is None or value == float("inf"):
        return 12345.0
    return -value if value else value + 1


def variants(contract):
    """Every contract that differs in one field, at any depth."""
    for field in dataclasses.fields(contract):
        value = getattr(contract, field.name)
        if field.name in ("joints", "signals"):
            for i, entry in enumerate(value):
                for inner in dataclasses.fields(entry):
                    value_now = getattr(entry, inner.name)
                    is_kind = inner.name == "target"
                    changes = {inner.name: "speed" if is_kind else changed(value_now)}
                    other = dataclasses.replace(entry, **changes)
                    row = (*value[:i], other, *value[i + 1 :])
                    yield f"{field.name}/{i}/{inner.name}", {field.name: row}
        elif field.name == "observation":
            for i, term in enumerate(value):
                for inner in Term._fields:
                    other = term._replace(**{inner: changed(getattr(term, inner))})
                    row = (*value[:i], other, *value[i + 1 :])
                    yield f"{field.name}/{i}/{inner}", {field.name: row}
        elif field.name == "limits":
            for inner in dataclasses.fields(value):
                is_name = inner.name == "tilt_signal"
                other = {inner.name: "x" if is_name else changed(getattr(value, inner.name))}
                yield f"limits/{inner.name}", {"limits": dataclasses.replace(value, **other)}
        if field.name not in ("limits",):
            yield field.name, {field.name: changed(value)}


def test_hash_changes_with_every_field():
    contract = cases.contract()
    hashes = {"": contract.hash}
    for name, change in variants(contract):
        hashes[name] = dataclasses.replace(contract, **change).hash
    assert len(hashes) > 40
    assert len(set(hashes.values())) == len(hashes)
    assert cases.contract().hash == contract.hash


def test_differences_name_the_fields():
    other = dataclasses.replace(cases.LEFT, sign=1.0)
    contract = cases.contract()
    theirs = dataclasses.replace(contract, joints=(other, *contract.joints[1:]), period=0.02)
    assert contract_file.differences(contract, theirs) == [
        "joints/0/sign: -1.0 against 1.0",
        "period: 0.01 against 0.02",
    ]
    assert contract_file.differences(contract, cases.contract()) == []


def test_action_means_what_it_means_in_training():
    # target = clip(default + action_scale * action, low, high)
    command = cases.contract().to_command(np.array([0.4, -1.0]))
    assert command.target.tolist() == pytest.approx([0.1 + 0.5 * 0.4, -4.0])
    assert command.torque.tolist() == [0.0, 0.0]
    assert command.kp.tolist() == [3.0, 0.0]
    assert command.kd.tolist() == [0.1, 0.0]
    assert command.enabled.tolist() == [1.0, 1.0]
    narrow = dataclasses.replace(cases.LEFT, high=0.2)
    contract = cases.contract(joints=(narrow, cases.contract().joints[1]))
    assert contract.to_command(np.array([1.0, 0.0])).target[0] == 0.2


def test_machine_coordinates_are_sign_times_model_minus_offset():
    contract = cases.contract()
    command = contract.to_machine(contract.command(np.array([0.7, 1.5])))
    # The wheel takes a torque: an offset of the angle must not reach it.
    assert_allclose(command.target, [-(0.7 - 0.3), 1.5])
    sensors = contract.from_machine(np.array([-(0.7 - 0.3), -2.0, 1.0, 0.0, 0.0, 0.0]))
    assert_allclose(sensors, [0.7, 2.0, 1.0, 0.0, 0.0, 0.0])


def test_contract_of_a_folder_agrees_with_the_emulated_machine(tmp_path):
    robot = bench.load(tmp_path)
    contract = contract_of(robot, [Term("value", (0, 1, 2), 0.0, 1.0)])
    frame = Frame(robot)
    command = contract.command(np.array([0.6, -0.9]))._replace(torque=np.array([0.2, 0.3]))
    back = frame.to_model(contract.to_machine(command))
    assert_allclose(back.target, command.target, rtol=1e-6)
    assert_allclose(back.torque, command.torque, rtol=1e-6)
    model = np.array([0.5, -1.0, 0.25, 0.125])
    assert_allclose(contract.from_machine(frame.from_model(model)), model)
    assert [(s.name, s.unit) for s in contract.signals] == [
        ("joint/left/position", "rad"),
        ("joint/left/velocity", "rad/s"),
        ("joint/right/position", "rad"),
        ("motor/a/torque", "N m"),
    ]
    assert contract.joints[0].action_scale == 0.5
    assert contract_file.from_json(contract.to_json(), "contract.json") == contract


@pytest.mark.parametrize(
    ("actuator", "target"),
    [
        ('<position joint="left" kp="5" kv="1"/>', "angle"),
        ('<velocity joint="left" kv="1"/>', "speed"),
        ('<motor joint="left"/>', "effort"),
    ],
)
def test_target_of_mujocos_own_actuators(tmp_path, actuator, target):
    robot = bench.load(tmp_path, "name: one\nmodel: one.xml\ncontrol: {period: 0.01}\n", actuator)
    assert robot.motors.targets == (target,)
    assert contract_of(robot).joints[0].target == target


def edited(path, value):
    document = json.loads(cases.contract().to_json())
    *folders, last = path
    place = document
    for folder in folders:
        place = place[folder]
    if value is KeyError:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("path", "value", "error", "message"),
    [
        (["period"], 0, BadValue, "contract.json: period is 0, expected a positive number"),
        (["period"], float("nan"), BadValue, "contract.json: period is nan, expected a finite"),
        (["period"], True, BadValue, "contract.json: period is True, expected a finite number"),
        (["period"], KeyError, MissingKey, "contract.json: the key 'period' is required"),
        (["speed"], 1, UnknownName, "contract.json: unknown key 'speed'; "),
        (["format"], 2, BadValue, "contract.json: format is 2, expected 1"),
        (["robot"], "", BadValue, "contract.json: robot is '', expected a text"),
        (["joints"], [], BadValue, "contract.json: joints is [], expected at least one joint"),
        (["joints", 0, "sign"], 0.5, BadValue, "joints/left: sign is 0.5, expected 1 or -1"),
        (["joints", 0, "low"], 3.0, BadValue, "joints/left: low is 3.0, expected a number below"),
        (["joints", 0, "velocity"], -1, BadValue, "joints/left: velocity is -1.0, expected a posi"),
        (["joints", 0, "kp"], None, BadValue, "joints/0: kp is None, expected a finite number"),
        (["joints", 0, "default"], 2.5, BadValue, "default is 2.5, expected a number in [-2, 2]"),
        (["joints", 0, "target"], "volt", UnknownName, "unknown target 'volt'; available: angle, "),
        (["joints", 0, "gain"], 1, UnknownName, "contract.json: joints/0: unknown key 'gain'"),
        (["joints", 1, "name"], "left", BadValue, "joints is ['left', 'left'], expected differ"),
        (["signals", 0, "size"], 0, BadValue, "signals: joint/left/position is 0, expected a size"),
        (["signals", 0, "size"], 1.5, BadValue, "signals/0: size is 1.5, expected a whole number"),
        (["observation", 0, "indices"], [99], BadValue, "observation/0: indices is (99,), expect"),
        (["observation", 0, "indices"], [-1], BadValue, "observation/0: indices is (-1,), expect"),
        (["observation", 0, "kind"], "tan", UnknownName, "unknown kind 'tan'; available: action"),
        (["limits", "tilt"], 1.0, BadValue, "limits: tilt is 1.0, expected given together with"),
        (["limits", "stale"], -1.0, BadValue, "limits: stale is -1.0, expected a positive number"),
        (["limits", "stale"], None, BadValue, "limits: stale is None, expected a finite number"),
    ],
)
def test_contract_is_read_strictly(path, value, error, message):
    with pytest.raises(error) as caught:
        contract_file.from_json(edited(path, value), "contract.json")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100_000])
def test_what_is_no_contract_is_refused(text):
    with pytest.raises(S2RError, match=r"^contract\.json: "):
        contract_file.from_json(text, "contract.json")
