import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.errors import BadValue
from s2r_jax.hardware.emulator import Emulator, draw
from s2r_jax.sim import world
from s2r_jax.types import Command
from tests.hardware import bench


def command(target, kp=3.0):
    rows = (np.asarray(target), np.zeros(2), np.full(2, kp), np.full(2, 0.1), np.ones(2), np.nan)
    return Command(*rows)


@pytest.fixture(scope="module")
def emulator(robot):
    return Emulator(robot, seed=4)


def test_hidden_theta_is_uniform_in_the_central_share_of_the_search_coordinates(robot):
    drawn = np.array([draw(robot.parameters, seed, 0.8) for seed in range(400)])
    low, high = np.array(robot.parameters.low), np.array(robot.parameters.high)
    place = (drawn - low) / (high - low)
    # `damping` is searched on a log scale: 0.01 to 1 are two decades.
    place[:, 0] = np.log10(drawn[:, 0] / 0.01) / 2
    assert place.min() >= 0.1 - 1e-6
    assert place.max() <= 0.9 + 1e-6
    # Uniform on 0.8 of the unit interval: mean 1/2, standard deviation 0.8 / sqrt(12).
    assert_allclose(place.mean(axis=0), 0.5, atol=5 * 0.8 / np.sqrt(12 * 400))
    assert_allclose(place.std(axis=0), 0.8 / np.sqrt(12), atol=0.03)


def test_no_spread_hides_the_middle(robot):
    assert_allclose(draw(robot.parameters, 1, 0.0), [0.1, 0.3, 0.01], rtol=1e-6)


def test_spread_above_one_is_refused(tmp_path):
    robot = bench.load(tmp_path, bench.ROBOT + "driver: {hidden: {spread: 1.5}}\n")
    with pytest.raises(BadValue) as caught:
        Emulator(robot)
    place = tmp_path / "robot.yaml"
    assert str(caught.value) == f"{place}: driver: hidden: spread is 1.5, expected a number <= 1"


def test_reports_are_the_simulators_in_the_machines_coordinates(robot, emulator):
    # machine = sign * (model - offset), both ways; `left` has sign -1 and offset 0.3
    qpos = np.array([0.4, -0.2])
    first = emulator.reset(0, qpos)
    readings = [emulator.step(command([-1 * (0.7 - 0.3), 0.5])) for _ in range(30)]

    simulator = world.make(robot, "mujoco")
    hidden = simulator.world(jnp.asarray(emulator.theta, jnp.float32))
    state = simulator.init(hidden, *(jnp.asarray(x, jnp.float32) for x in (qpos, [0, 0], qpos)))
    step = jax.jit(simulator.step)
    target = jnp.asarray([0.7, 0.5], jnp.float32)
    truth = []
    for _ in range(30):
        state = step(hidden, state, simulator.nominal_command(target))
        truth.append(simulator.truth(state))
    truth = np.array(truth)
    got = np.array([reading.sensors for reading in readings])
    assert_allclose(first.sensors[[0, 2]], [-1 * (0.4 - 0.3), -0.2], atol=1e-3)  # the quantum
    assert_allclose(got[:, 1], -truth[:, 1], atol=1e-6)  # left's speed
    assert_allclose(got[:, 2], truth[:, 2], atol=1e-6)  # right's position
    assert_allclose(got[:, 3], -truth[:, 3], atol=1e-6)  # torque of left's motor
    noise = got[:, 0] + (truth[:, 0] - 0.3)
    assert 0.003 < noise.std() < 0.03  # declared: 0.01
    assert [reading.time for reading in readings] == pytest.approx(np.arange(1, 31) * 0.01)
    assert np.diff([reading.sequence for reading in readings]).tolist() == [1] * 29


def test_noise_and_quantum_are_as_declared(emulator):
    emulator.reset(1, np.zeros(2))
    reports, truths = [], []
    for _ in range(800):
        reports.append(-emulator.step(command([0.3, 0.0])).sensors[0] + 0.3)
        truths.append(emulator.truth()[0])
    steps = np.array(reports) / 0.001
    assert_allclose(steps, np.round(steps), atol=2e-3)  # single precision of 0.3
    error = np.array(reports) - np.array(truths)
    assert error.std() == pytest.approx(0.01, rel=5 / np.sqrt(2 * 800))  # 5 sigma
    assert abs(error.mean()) < 5 * 0.01 / np.sqrt(800)


def test_same_seed_gives_the_same_episode_and_another_seed_other_noise(emulator):
    def play(seed):
        emulator.reset(seed)
        return np.array([emulator.step(command([0.5, 0.5])).sensors for _ in range(5)])

    assert (play(3) == play(3)).all()
    assert not (play(3)[:, 0] == play(5)[:, 0]).all()
    assert (play(3)[:, 1:] == play(5)[:, 1:]).all()


def test_emergency_stop_lets_go_until_the_next_reset(emulator):
    emulator.reset(0, np.array([1.0, 1.0]))
    emulator.estop()
    torques = [emulator.step(command([0.0, 5.0])).sensors[3] for _ in range(20)]
    # Also a stop is late by the latency of the command path, at most two periods.
    assert torques[3:] == [0.0] * 17
    emulator.reset(0)
    # Longer than the action latency.
    assert abs([emulator.step(command([1.0, 1.0])).sensors[3] for _ in range(5)][-1]) > 0.1


def test_damping_brakes_but_holds_nothing(emulator):
    emulator.reset(0, np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    readings = [emulator.damp() for _ in range(10)]
    # kd = 0.1: torque = -0.1 * speed, both in the machine's sign.
    assert readings[3].sensors[3] == pytest.approx(-0.1 * readings[2].sensors[1], rel=0.2)
    assert readings[-1].sensors[2] < 1.0  # the right pendulum falls


@pytest.mark.parametrize("qpos", [[0.0], [0.0, np.nan]])
def test_reset_to_an_impossible_pose_is_refused(emulator, qpos):
    with pytest.raises(BadValue, match=r"reset: qpos is .*, expected 2 finite numbers"):
        emulator.reset(0, np.array(qpos))


def test_reveal_writes_the_hidden_theta(robot, emulator, tmp_path):
    emulator.reveal(tmp_path / "theta.json")
    revealed = json.loads((tmp_path / "theta.json").read_text())
    assert revealed == {
        "robot": "bench",
        "seed": 4,
        "theta": robot.parameters.named(draw(robot.parameters, 4, 0.8)),
    }
    assert [file.name for file in tmp_path.iterdir()] == ["theta.json"]
