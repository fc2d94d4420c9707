import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from s2r_jax.deploy import safety
from s2r_jax.deploy.contract import Limits, SignalContract
from tests.deploy import cases

CONTRACT = cases.contract()
MEMORY = safety.start(CONTRACT, cases.UPRIGHT)
COOL = np.full(2, 30.0)


def limited(asked, contract=CONTRACT, memory=MEMORY, **fields):
    command = contract.command(np.asarray(asked, dtype=float))._replace(**fields)
    return safety.limit(contract, command, cases.UPRIGHT, memory)


def test_command_within_the_limits_passes_unchanged():
    command, status, memory = limited([0.3, 1.0])
    assert status.is_safe
    assert not status.is_clipped.any()
    assert command.target.tolist() == pytest.approx([0.3, 1.0], abs=1e-15)
    # From the measured 0.2 rad.
    assert memory.step.tolist() == pytest.approx([0.1, 0.0])


def test_targets_torques_and_speeds_are_held_within_their_limits():
    command, status, _ = limited([5.0, -9.0], torque=np.array([1e9, -3.0]))
    assert command.target.tolist() == [2.0, -2.0]
    assert command.torque.tolist() == [1e9, -2.0]  # left has no torque limit
    assert status.is_safe
    assert status.is_clipped.all()
    slow, _, _ = limited([5.0, 0.0], cases.contract(limits=Limits(slew=50.0)))
    assert slow.target[0] == pytest.approx(0.2 + 50 * 0.01)
    speed = dataclasses.replace(cases.LEFT, target="speed", low=-99.0, high=99.0)
    command, _, _ = limited([80.0, 0.0], cases.contract(joints=(speed, CONTRACT.joints[1])))
    assert command.target[0] == 50.0


def test_speed_of_the_target_changes_no_faster_than_the_acceleration_limit():
    contract = cases.contract(limits=Limits(acceleration=100.0))
    memory, angles = MEMORY, [0.2]
    for _ in range(40):
        command, _, memory = limited([1.5, 0.0], contract, memory)
        angles.append(command.target[0])
    speeds = np.diff(angles) / 0.01
    assert abs(np.diff(speeds, prepend=0.0)).max() <= 100 * 0.01 + 1e-9
    assert speeds[:3] == pytest.approx([1.0, 2.0, 3.0])
    assert max(angles) <= 1.5 + 1e-12
    assert angles[-1] == pytest.approx(1.5)
    assert speeds[-1] == pytest.approx(0.0, abs=1e-6)


def test_joint_that_starts_outside_its_limits_comes_back_at_its_own_pace():
    memory = safety.Memory(np.array([2.8, 0.0]), np.zeros(2))
    contract = cases.contract(limits=Limits(slew=50.0))
    angles = []
    for asked in (5.0, 0.0, 0.0):
        command, _, memory = limited([asked, 0.0], contract, memory)
        angles.append(command.target[0])
    assert angles == pytest.approx([2.3, 1.8, 1.3])


def test_pd_target_stays_where_its_law_keeps_the_torque_limit():
    strong = dataclasses.replace(cases.LEFT, torque=0.6)
    contract = cases.contract(joints=(strong, CONTRACT.joints[1]), motor="pd")
    # |kp * (target - 0.2)| <= 0.6 with kp = 3
    assert limited([1.5, 0.0], contract)[0].target[0] == pytest.approx(0.4)
    assert limited([-1.5, 0.0], contract)[0].target[0] == pytest.approx(0.0)
    other = dataclasses.replace(contract, motor="dc_servo")
    assert limited([1.5, 0.0], other)[0].target[0] == 1.5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["target", "torque", "kp", "kd", "enabled"])
def test_what_is_not_finite_is_refused_and_named(field, bad):
    command, status, memory = limited([0.3, 0.0], **{field: np.array([0.1, bad])})
    assert status.reasons == (f"command: {field} of wheel is not finite",)
    assert memory is MEMORY
    assert not np.isfinite(getattr(command, field)).all()


def test_missing_joint_is_refused_and_not_filled():
    _, status, _ = limited([0.3])
    assert status.reasons == ("command: target has shape (1,)",)


@pytest.mark.parametrize("field", ["low", "high", "velocity", "torque"])
def test_limit_that_is_no_number_is_refused(field):
    broken = dataclasses.replace(cases.LEFT, **{field: np.nan})
    _, status, _ = limited([0.3, 0.0], cases.contract(joints=(broken, CONTRACT.joints[1])))
    assert status.reasons == (f"contract: {field} is not a number",)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.floats(width=64), min_size=4, max_size=4), st.integers(1, 20))
def test_no_command_whatsoever_leaves_the_limits(values, repeats):
    contract = cases.contract(limits=Limits(slew=50.0, acceleration=200.0))
    memory = MEMORY
    for _ in range(repeats):
        command, status, after = limited(
            values[:2], contract, memory, torque=np.asarray(values[2:])
        )
        if not np.isfinite(values).all():
            assert not status.is_safe
            return
        assert abs(command.target[0]) <= 2.0
        assert abs(command.target[1]) <= 2.0
        assert abs(command.torque[1]) <= 2.0
        if status.is_safe:
            assert abs(after.target[0] - memory.target[0]) <= 50 * 0.01 + 1e-9
        memory = after


LIMITS = Limits(
    temperature=70.0,
    voltage_low=20.0,
    voltage_high=26.0,
    tilt=1.0,
    tilt_signal="body/trunk/orientation",
)


def inspect(sensors=cases.UPRIGHT, voltage=24.0, temperature=COOL, age=0.0, limits=LIMITS):
    return safety.inspect(cases.contract(limits=limits), sensors, voltage, temperature, age)


def lying(angle):
    # A turn about x by `angle`, wxyz.
    return np.array([0.2, 0.0, np.cos(angle / 2), np.sin(angle / 2), 0.0, 0.0])


def test_healthy_report_gives_no_reason():
    assert inspect() == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"age": 0.2}, "stale: no new report for 0.200 s (limit 0.1 s)"),
        ({"age": np.nan}, "stale: no new report for nan s (limit 0.1 s)"),
        (
            {"sensors": np.array([0.2, -51.0, 1, 0, 0, 0])},
            "speed: left -51.0 rad/s (limit 50 rad/s)",
        ),
        ({"voltage": 19.0}, "voltage: 19.00 V (lowest 20 V)"),
        ({"voltage": 27.0}, "voltage: 27.00 V (highest 26 V)"),
        ({"temperature": np.array([30.0, 80.0])}, "temperature: wheel 80.0 °C"),
        ({"temperature": np.array([np.nan, 30.0])}, "temperature: left nan °C"),
        ({"sensors": lying(1.2)}, "tilt: 1.20 rad (limit 1 rad)"),
        ({"sensors": lying(np.pi)}, "tilt: 3.14 rad (limit 1 rad)"),
        ({"sensors": np.array([0.2, 0, 0, 0, 0, 0])}, "tilt: nan rad (limit 1 rad)"),
    ],
)
def test_each_danger_is_a_reason(change, reason):
    assert inspect(**change) == (reason,)


def test_signal_that_is_not_finite_is_named_first():
    reasons = inspect(np.array([0.2, np.nan, 1, 0, 0, 0]))
    assert reasons[0] == "sensor: joint/left/velocity is not finite"
    # One limit is not passed by a speed that nobody knows.
    assert reasons[1] == "speed: left nan rad/s (limit 50 rad/s)"


def test_voltage_that_should_be_watched_and_is_missing_is_a_reason():
    assert inspect(voltage=np.nan) == (
        "voltage: nan V (lowest 20 V)",
        "voltage: nan V (highest 26 V)",
    )


def test_what_has_no_limit_is_not_watched():
    nothing = np.full(2, np.nan)
    assert inspect(lying(3.0), np.nan, nothing, limits=Limits()) == ()


def test_tilt_is_the_angle_of_the_z_axis_whatever_the_heading():
    # Yaw by 2 rad, then roll by 0.4 rad: the quaternion product in closed form.
    yaw, roll = 1.0, 0.2
    quaternion = np.array([
        np.cos(yaw) * np.cos(roll),
        np.cos(yaw) * np.sin(roll),
        np.sin(yaw) * np.sin(roll),
        np.sin(yaw) * np.cos(roll),
    ])  # fmt: skip
    assert safety.tilt(quaternion) == pytest.approx(0.4)
    assert safety.tilt(3 * quaternion) == pytest.approx(0.4)


def test_memory_starts_at_the_measured_angle():
    assert_allclose(MEMORY.target, [0.2, 0.0])
    blind = cases.contract(
        signals=(SignalContract("body/trunk/orientation", 4, "1"),), observation=()
    )
    assert_allclose(safety.start(blind, np.array([1.0, 0, 0, 0])).target, [0.1, 0.0])
