"""Logs of real machines become trajectories; figures from the README of each data folder."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from s2r_jax import robot
from s2r_jax.logs.diagnose import diagnose
from s2r_jax.logs.read import read, read_all
from s2r_jax.logs.trajectory import state_estimate, trajectory
from tests.logs.robots import CUBE, PAIR, Maker

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

QUADCOPTER = """
<mujoco model="quadcopter">
  <option timestep="0.001"/>
  <worldbody>
    <body name="frame">
      <freejoint/>
      <geom type="box" size="0.04 0.04 0.01" mass="0.027"/>
      <site name="imu"/>
    </body>
  </worldbody>
  <actuator>
    <general name="m1" site="imu" gear="0 0 1 0 0 0"/>
    <general name="m2" site="imu" gear="0 0 1 0 0 0"/>
  </actuator>
  <sensor><accelerometer name="acc" site="imu"/><gyro name="gyro" site="imu"/></sensor>
</mujoco>
"""


def test_servo_bench(data_folder: Path):
    xl330 = robot.load(EXAMPLES / "xl330")
    logs = read_all(sorted((data_folder / "xl330").glob("*.npz")), xl330)
    for log in logs:
        made = trajectory(log, xl330)
        raw = np.load(log.name)
        steps = int((raw["time"][-1] - raw["time"][0]) / 0.005) + 1
        assert made.measured.shape == made.qpos.shape == made.command.target.shape == (steps, 1)
        assert set(np.unique(made.command.kp)) == {float(raw["kp"])}
        assert set(np.unique(made.command.enabled)) <= {0.0, 1.0}
        assert 5.5 < made.command.voltage.min() < made.command.voltage.max() < 9.5
        assert np.isfinite(made.qvel).all()
        assert np.abs(made.qpos - made.measured).max() < 0.02
        found = diagnose(log, xl330)
        assert found.suspicious == found.gaps == found.unmeasured == found.constant == ()
        assert 0.003 < found.median_step < 0.006 < 0.02 > found.max_step


def test_quadruped_legs(data_folder: Path, tmp_path: Path):
    folder = tmp_path / "go2"
    folder.mkdir()
    (folder / "go2.xml").write_bytes((data_folder / "go2" / "go2.xml").read_bytes())
    (folder / "robot.yaml").write_text(
        """
        name: go2
        model: go2.xml
        clamp: base
        control: {period: 0.004}
        motors: {kind: pd, kp: 20, kd: 1.5}
        logs:
          time: {column: time}
          columns:
            joint/*/position: {column: q, names: joint_names}
            command/*/target: {column: q_des, names: joint_names}
        """
    )
    go2 = robot.load(folder)
    path = data_folder / "go2" / "go2_air_dev.npz"
    (log,) = read(path, go2)
    raw = np.load(path)
    for index, name in enumerate(raw["joint_names"]):
        assert_array_equal(log.channels[f"joint/{name}/position"], raw["q"][:, index])
    made = trajectory(log, go2)
    assert made.command.target.shape[1] == 12
    # README: commanded against measured 94 mrad.
    error = np.stack([log.channels[f"joint/{j.name}/position"] for j in go2.joints], 1)
    error -= np.stack([log.channels[f"command/{a}/target"] for a in go2.actuators], 1)
    assert np.sqrt(np.mean(error**2)) == pytest.approx(0.094, abs=5e-4)
    found = diagnose(log, go2)
    assert found.suspicious == found.unmeasured == ()
    # The command is held for about 25 ms, and the legs follow it.
    assert all(0.0 <= lag.seconds < 0.15 and lag.correlation > 0.9 for lag in found.lags)
    assert len(found.lags) == 12


def test_cube_tosses(data_folder: Path, make_robot: Maker):
    columns = {
        "body/cube/position": "pos", "body/cube/orientation": "quat_wxyz",
        "body/cube/velocity": "vel_world", "body/cube/angular_velocity": "angvel_body",
    }  # fmt: skip
    logs = {"time": {"step": "dt"}, "split": "offsets"}
    signals = {name: {} for name in list(columns)[:2]}
    cube = make_robot(CUBE, columns, logs=logs, signals=signals)
    path = data_folder / "cube" / "tosses_000_299.npz"
    tosses = read(path, cube)
    raw = np.load(path)
    assert len(tosses) == 300
    assert {len(toss.time) for toss in tosses} <= set(range(85, 139))
    assert sum(len(toss.time) for toss in tosses) == 31674
    low, high = raw["offsets"][17:19]
    made = trajectory(tosses[17], cube)
    assert_allclose(made.qpos[:, :3], raw["pos"][low:high], atol=1e-9)
    assert_allclose(made.qvel[:, 3:], raw["angvel_body"][low:high], atol=1e-6)
    # README: vel_world is the backward difference of the position. A row more or less is seen.
    difference = np.diff(made.qpos[:, :3], axis=0) * 148
    assert np.median(np.abs(difference - made.qvel[1:, :3])) < 0.002
    assert np.median(np.abs(difference - made.qvel[:-1, :3])) > 0.004


def test_angular_velocity_of_the_cube_is_recorded_in_the_body_frame(
    data_folder: Path, make_robot: Maker
):
    columns = {"body/cube/position": "pos", "body/cube/orientation": "quat_wxyz"}
    logs = {"time": {"step": "dt"}, "split": "offsets"}
    cube = make_robot(CUBE, columns, logs=logs, signals={name: {} for name in columns})
    path = data_folder / "cube" / "tosses_000_299.npz"
    raw, errors, flipped = np.load(path), [], []
    for low, toss in zip(raw["offsets"], read(path, cube)[:40], strict=False):
        free_fall = slice(2, 12)
        found = state_estimate(toss, cube).qvel[free_fall, 3:]
        recorded = raw["angvel_body"][low:][free_fall]
        world = np.array([
            rotated(q, w) for q, w in zip(raw["quat_wxyz"][low:][free_fall], recorded, strict=True)
        ])  # fmt: skip
        errors.append(np.linalg.norm(found - recorded, axis=1).mean())
        flipped.append(np.linalg.norm(found - world, axis=1).mean())
    assert np.median(errors) < 0.2 < 5 * np.median(errors) < np.median(flipped)


def rotated(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    result = np.zeros(3)
    mujoco.mju_rotVecQuat(result, vector.astype(float), quaternion.astype(float))
    return result


def test_double_pendulum(data_folder: Path, make_robot: Maker):
    columns = {
        "joint/*/position": {"columns": ["pos_meas1", "pos_meas2"]},
        "joint/*/velocity": {"columns": ["vel_meas1", "vel_meas2"]},
        "motor/*/torque": {"columns": ["tau_meas1", "tau_meas2"]},
        "command/*/target": {"columns": ["tau_con1", "tau_con2"], "unit": "N m"},
    }
    pair = make_robot(PAIR, columns)
    logs = read_all(sorted((data_folder / "double_pendulum").glob("*/*.npz"))[-7:], pair)
    assert all(log.name.split("/")[-2] == "sysid" for log in logs)
    for log in logs:
        found = diagnose(log, pair)
        assert found.suspicious == found.gaps == ()
        assert found.max_step == pytest.approx(0.0026, abs=0.0012)  # README: at most 3.7 ms
        made = trajectory(log, pair)
        # The steps of 0.19 rad/s of vel_meas are not in the derivative of the angles.
        speed = np.interp(0.002 * np.arange(len(made.qvel)), log.time - log.time[0],
                          log.channels["joint/shoulder/velocity"])  # fmt: skip
        roughness = [np.abs(np.diff(v, 2)).mean() for v in (made.qvel[:, 0], speed)]
        assert roughness[0] < 0.2 * roughness[1]
        if np.std(speed) > 0.5:
            assert np.corrcoef(made.qvel[:, 0], speed)[0, 1] > 0.99
    # README: commanded is delivered 4 ms late with gain 0.85-0.94 in 154220.
    shoulder, elbow = found.lags
    assert 0.002 < shoulder.seconds < 0.006
    assert 0.002 < elbow.seconds < 0.006
    assert shoulder.measured == "motor/upper_motor/torque"


def test_crazyflie(data_folder: Path, make_robot: Maker):
    columns = {
        "sensor/acc": {"columns": ["acc.x", "acc.y", "acc.z"], "unit": "g"},
        "sensor/gyro": {"columns": ["gyro.x", "gyro.y", "gyro.z"], "unit": "deg/s"},
        "command/m1/target": {"column": "motor.m1", "scale": 1 / 65536},
        "command/m2/target": {"column": "motor.m2", "scale": 1 / 65536},
    }
    signals = {"sensor/acc": {}, "sensor/gyro": {}}
    flyer = make_robot(QUADCOPTER, columns, kind="native", period=0.001, signals=signals)
    (log,) = read(data_folder / "crazyflie" / "log10.npz", flyer, start=1.0, stop=3.0)
    made = trajectory(log, flyer)
    assert made.measured.shape == (2000, 6)
    # At rest: the reaction to gravity, and no rotation.
    assert_allclose(made.measured[:, :3].mean(axis=0), [-0.16, -0.16, 9.81], atol=0.05)
    assert np.abs(made.measured[:, 3:].mean(axis=0)).max() < 0.01
    assert state_estimate(log, flyer).unmeasured == (
        "body/frame/position",
        "body/frame/orientation",
    )
    (flight,) = read(data_folder / "crazyflie" / "log10.npz", flyer, start=10.0)
    assert 0.3 < np.max(flight.channels["command/m1/target"]) <= 1.0
