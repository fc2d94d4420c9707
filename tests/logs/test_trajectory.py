"""From logs to trajectories: commands, measurements, and states against motions known exactly."""

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from s2r_jax.errors import BadLog
from s2r_jax.logs.config import LogsConfig
from s2r_jax.logs.state import smooth
from s2r_jax.logs.trajectory import state_estimate, trajectory
from s2r_jax.types import Log
from tests.logs.robots import CUBE, PAIR, SERVO, Maker


def test_commands_are_in_the_order_of_the_actuators(make_robot: Maker):
    signals = {"joint/elbow/position": {}, "joint/shoulder/velocity": {}}
    pair = make_robot(PAIR, kind="pd", signals=signals)
    time = 0.002 * np.arange(100)
    channels = {
        "command/lower_motor/target": time,
        "command/upper_motor/target": -time,
        "command/lower_motor/kd": np.full(100, 0.5),
        "joint/elbow/position": 2 * time,
    }
    made = trajectory(Log("a", time, channels), pair)
    assert made.name == "a"
    assert_allclose(made.command.target, np.stack([-time, time], axis=1), atol=1e-12)
    assert_array_equal(made.command.kp, np.full((100, 2), 10.0))  # of robot.yaml
    assert_array_equal(made.command.kd, np.tile([0.0, 0.5], (100, 1)))
    assert_array_equal(made.command.torque, np.zeros((100, 2)))
    assert_array_equal(made.command.enabled, np.ones((100, 2)))
    assert_array_equal(made.command.voltage, np.full(100, np.nan))
    assert_allclose(made.measured[:, 0], 2 * time, atol=1e-12)
    assert np.isnan(made.measured[:, 1]).all()


def test_speed_of_a_swing_has_no_phase_and_little_noise(make_robot: Maker):
    servo = make_robot(SERVO, signals={"joint/hinge/position": {"bias": 0.1, "scale": 2.0}})
    time = 0.005 * np.arange(1000)
    angle, speed = np.sin(8 * time), 8 * np.cos(8 * time)
    tick = 0.0015
    reading = tick * np.round((0.1 + 2.0 * angle) / tick)
    log = Log("a", time, {"joint/hinge/position": reading, "command/servo/target": time})
    state = state_estimate(log, servo)
    assert state.unmeasured == ()
    inner = slice(10, -10)
    # A tick of 0.00075 rad on the angle is 0.15 rad/s between two rows.
    assert np.sqrt(np.mean((state.qvel[inner, 0] - speed[inner]) ** 2)) < 0.03
    assert np.max(np.abs(state.qpos[:, 0] - angle)) < 0.00075
    # Where the speed is steepest, a lag of 1 ms would show as 0.064 rad/s.
    phase = np.polyfit(-64 * np.sin(8 * time[inner]), state.qvel[inner, 0] - speed[inner], 1)[0]
    assert abs(phase) < 1e-4  # s


def test_delay_of_a_sensor_is_undone_in_the_state_only(make_robot: Maker):
    servo = make_robot(SERVO, signals={"joint/hinge/position": {"delay": 0.012}})
    time = 0.005 * np.arange(1000)
    reading = np.sin(2 * (time - 0.012))
    log = Log("a", time, {"joint/hinge/position": reading, "command/servo/target": time})
    made = trajectory(log, servo)
    assert_allclose(made.measured[:, 0], reading, atol=1e-9)
    # Linear interpolation of sin 2t over 5 ms is off by less than 1.3e-5.
    assert_allclose(made.qpos[:-3, 0], np.sin(2 * time[:-3]), atol=2e-5)
    assert np.isnan(made.qpos[-2:, 0]).all()


def test_filter_is_exact_for_a_cubic_and_silent_in_gaps():
    time = 0.01 * np.arange(40)
    values = 1 + 2 * time - 3 * time**2 + 4 * time**3
    values[15:20] = np.nan
    fitted, slope = smooth(values, 0.01, 0.07)
    truth = np.where(np.isnan(values), np.nan, 2 - 6 * time + 12 * time**2)
    assert_allclose(fitted, values, atol=1e-13)
    assert_allclose(slope, truth, atol=1e-11)


def tumble(seconds: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Throw the cube in C MuJoCo, with unequal inertias so that it tumbles."""
    model = mujoco.MjModel.from_xml_string(CUBE.replace("0.05 0.05 0.05", "0.02 0.05 0.09"))
    data = mujoco.MjData(model)
    data.qvel[:] = [1.0, -0.5, 2.0, 3.0, 6.0, 1.0]
    states = []
    for step in range(round(seconds / model.opt.timestep)):
        if step % 10 == 0:
            states.append((data.qpos.copy(), data.qvel.copy()))
        mujoco.mj_step(model, data)
    return np.array([qpos for qpos, _ in states]), np.array([qvel for _, qvel in states])


def test_velocity_of_a_tumbling_body_from_its_pose(make_robot: Maker):
    qpos, qvel = tumble()
    cube = make_robot(CUBE, signals={"body/cube/position": {}, "body/cube/orientation": {}})
    orientation = qpos[:, 3:] * np.where(np.arange(len(qpos)) % 3, 1, -1)[:, None]  # same rotation
    channels = {"body/cube/position": qpos[:, :3], "body/cube/orientation": orientation}
    log = Log("a", cube.period * np.arange(len(qpos)), channels)
    made = trajectory(log, cube, LogsConfig(smoothing=5 * cube.period))
    assert made.command.target.shape == (len(qpos), 0)
    assert_allclose(made.qpos[:, :3], qpos[:, :3], atol=1e-9)
    # The cubic's remainder over five rows of 1/148 s, at 7 rad/s.
    assert_allclose(made.qvel[3:-3], qvel[3:-3], atol=0.02)


def test_recorded_velocity_of_a_body_is_taken_as_it_is(make_robot: Maker):
    qpos, qvel = tumble()
    names = ["position", "orientation", "velocity", "angular_velocity"]
    parts = [qpos[:, :3], qpos[:, 3:], qvel[:, :3], qvel[:, 3:]]
    channels = {f"body/cube/{name}": part for name, part in zip(names, parts, strict=True)}
    cube = make_robot(CUBE, signals={name: {} for name in channels})
    made = trajectory(Log("a", cube.period * np.arange(len(qpos)), channels), cube)
    assert_allclose(made.qvel, qvel, atol=1e-9)
    assert_allclose(made.measured, np.concatenate(parts, axis=1), atol=1e-9)


def test_joints_without_measurement_stand_still_and_are_listed(make_robot: Maker):
    pair = make_robot(PAIR.replace('name="elbow"', 'name="elbow" ref="30"'))
    time = 0.002 * np.arange(100)
    commands = {f"command/{name}/target": time for name in pair.actuators}
    log = Log("a", time, commands | {"joint/shoulder/position": time})
    state = state_estimate(log, pair)
    assert state.unmeasured == ("elbow",)
    assert_array_equal(state.qpos[:, 1], np.full(100, np.pi / 6))
    assert_array_equal(state.qvel[:, 1], np.zeros(100))
    assert_allclose(state.qvel[:, 0], 1.0, rtol=1e-9)


def test_state_is_unknown_in_gaps(make_robot: Maker):
    servo = make_robot(SERVO)
    time = np.concatenate([np.arange(100), np.arange(200, 300)]) * 0.005
    channels = {"joint/hinge/position": time, "command/servo/target": time}
    made = trajectory(Log("a", time, channels), servo)
    assert len(made.qpos) == 300
    assert_array_equal(np.isnan(made.qpos[:, 0]), np.isnan(made.measured[:, 0]))
    assert_array_equal(np.flatnonzero(np.isnan(made.qvel[:, 0])), np.arange(100, 200))
    assert np.isfinite(made.command.target).all()


def test_what_cannot_become_a_trajectory_is_named(make_robot: Maker):
    pair = make_robot(PAIR)
    time = 0.002 * np.arange(100)
    channels = {"joint/elbow/position": time, "command/upper_motor/target": time}
    with pytest.raises(BadLog) as caught:
        trajectory(Log("a.csv", time, channels), pair)
    problem = f"is missing; map it in {pair.file}: logs: columns"
    assert str(caught.value) == f"a.csv: column 'command/lower_motor/target': {problem}"
    channels = {f"command/{name}/target": time for name in pair.actuators}
    with pytest.raises(BadLog, match=r"a\.csv: no signal of the robot was recorded; .*joint/elbow"):
        trajectory(Log("a.csv", time, channels), pair)
