"""The benchmark of a user's robot: what it prints, what it draws, how it ends on bad input."""

from pathlib import Path

import numpy as np
import pytest

from s2r_jax import robot
from s2r_jax.sim import bench, world

SERVO = Path(__file__).parents[2] / "examples" / "servo_pendulum"


def test_one_line_per_engine_and_batch_and_none_is_dropped_in_silence(capsys):
    bench.main([str(SERVO), "--engines", "mujoco", "--worlds", "2", "3", "--periods", "2"])
    _, _, first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:2] == ["mujoco", "2"]
    assert second.split()[:2] == ["mujoco", "3"]
    assert float(first.split()[2].replace(",", "")) > 0
    bench.main([str(SERVO), "--engines", "mujoco", "--worlds", "2", "--budget", "-1"])
    assert capsys.readouterr().out.splitlines()[-1].split() == ["mujoco", "2", "over", "budget"]


def test_steps_of_a_run_are_those_of_all_worlds_and_substeps():
    simulator = world.make(robot.load(SERVO), "mujoco")
    prepared = bench.ready(simulator, worlds=3, periods=2)
    assert prepared.steps == 3 * 2 * simulator.substeps
    states = prepared.run()
    assert states.physics.qpos.shape == (3, 1)
    # one period to begin with, then two
    assert np.asarray(states.physics.time) == pytest.approx(3 * simulator.robot.period, rel=1e-5)


def test_candidates_are_timed_in_turn():
    order = []
    candidates = [
        bench.Ready(1.0, 2.0, 10, lambda name=name: order.append(name)) for name in ("a", "b")
    ]
    rates = bench.rates(candidates, seconds=0.0)
    assert order == ["a", "b"] * 3  # once to warm up, twice to be timed
    assert [(rate.compile, rate.start) for rate in rates] == [(1.0, 2.0)] * 2


def test_draws_are_near_the_start_and_within_bounds():
    parameters = robot.load(SERVO).parameters
    thetas = bench.draw(parameters, 200, seed=0)
    low, high = np.array(parameters.low), np.array(parameters.high)
    assert ((thetas >= low) & (thetas <= high)).all()
    share = np.abs(thetas - np.array(parameters.start)) / (high - low)
    assert 0.25 < share.max() <= bench.SPREAD


def test_missing_robot_ends_with_status_2(capsys):
    with pytest.raises(SystemExit) as caught:
        bench.main(["nowhere"])
    assert caught.value.code == 2
    assert "nowhere: no such robot folder" in capsys.readouterr().err
