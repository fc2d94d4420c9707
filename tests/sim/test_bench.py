"""The benchmark of a user's robot: what it prints, what it draws, how it ends on bad input."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import throughput
from s2r_jax import robot
from s2r_jax.sim import bench, world

SERVO = Path(__file__).parents[2] / "examples" / "servo_pendulum"


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only where a test says so, and who ran."""
    now = SimpleNamespace(seconds=0.0, order="")
    monkeypatch.setattr(bench.time, "perf_counter", lambda: now.seconds)
    return now


def candidate(clock, name, seconds):
    """A rollout of 10 steps a period, which takes the next of `seconds`; it starts in 5 s."""
    seconds = iter(seconds)

    def run(periods):
        clock.order += name
        clock.seconds += periods * next(seconds)

    def start(seed):
        clock.seconds += 5.0

    return bench.Ready(1.0, start, run, 10)


def test_one_line_per_engine_and_batch_and_none_is_dropped_in_silence(capsys):
    given = [str(SERVO), "--engines", "mujoco", "--worlds"]
    bench.main([*given, "2", "3", "--seconds", "0"])
    _, _, first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:2] == ["mujoco", "2"]
    assert second.split()[:2] == ["mujoco", "3"]
    assert float(first.split()[2].replace(",", "")) > 0
    bench.main([*given, "2", "--budget", "-1"])
    assert capsys.readouterr().out.splitlines()[-1].split() == ["mujoco", "2", "over", "budget"]


def test_steps_of_a_period_are_those_of_all_worlds_and_substeps():
    simulator = world.make(robot.load(SERVO), "mujoco")
    prepared = bench.ready(simulator, worlds=3)
    assert prepared.steps == 3 * simulator.substeps
    for periods in (1, 4):  # compiled once for any number
        states = prepared.run(periods)
        assert states.physics.qpos.shape == (3, 1)
        spent = periods * simulator.robot.period
        assert np.asarray(states.physics.time) == pytest.approx(spent, rel=1e-5)
    start = [np.asarray(prepared.start(seed).physics.qpos) for seed in (1, 2)]
    assert np.abs(start[0] - start[1]).max() > 0  # another θ


def test_candidates_are_timed_in_turn_forwards_and_backwards(clock):
    candidates = [candidate(clock, name, [1.0] * 8) for name in ("a", "b")]
    bench.rates(candidates, seconds=0.0)
    assert clock.order == "aaabbb" + "ab" + "ba" + "ab" + "ba" + "ab"


def test_median_and_quartiles_of_the_runs_count(clock):
    runs = [1.0, 0.5, 0.25, 1.0, 2.0]  # 10 steps in each: 10, 20, 40, 10 and 5 steps/s
    (rate,) = bench.rates([candidate(clock, "a", [9.0, 9.0, 9.0, *runs])], seconds=0.0)
    assert (rate.compile, rate.start) == (1.0, 5.0)
    assert rate.steps == pytest.approx(10)
    assert rate.spread == pytest.approx((20 - 10) / 2 / 10)
    assert rate.seconds == pytest.approx([r / 10 for r in runs])


def test_short_periods_are_timed_many_at_once(clock):
    (rate,) = bench.rates([candidate(clock, "a", [0.01] * 30)], seconds=15.0)
    assert len(rate.seconds) == bench.REPEATS[1]
    assert clock.seconds == pytest.approx(3 * 0.01 + 3 * 5.0 + 15.0, rel=0.02)
    assert rate.steps == pytest.approx(1000)


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


def test_randomising_is_compared_turn_by_turn():
    # the machine is twice as slow in the second half, for both: 2 % stay 2 %
    plain = bench.Rate(0, 0.5, 1, 0, (1.0, 1.0, 2.0, 2.0))
    random = bench.Rate(0, 1.5, 1, 0, (1.02, 1.02, 2.04, 2.04))
    cost, spread = throughput.overhead(plain, random, worlds=1)
    episode = 1.5 * throughput.EPISODE
    assert cost == pytest.approx((1.5 + 1.02 * episode) / (0.5 + episode) - 1)
    assert spread == pytest.approx(0, abs=1e-12)


def test_rows_for_which_too_little_time_is_left_are_named(monkeypatch, capsys, clock):
    rate = bench.Rate(1.0, 0.0, 2e6, 0.01, (1.0, 1.0))

    def measure(row, folder, seconds):
        clock.seconds += 400.0
        return [rate] * 3

    monkeypatch.setattr(throughput, "measure", measure)
    throughput.main(["--models", "ant", "--engines", "mujoco"])
    throughput.main(["--models", "ant", "--engines", "warp", "--gpu"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:3] for line in lines if line[0] == "ant"] == [
        ["ant", "mujoco", "64"], ["ant", "mujoco", "1024"], ["ant", "mujoco", "8192"],
        ["ant", "warp", "1024"], ["ant", "warp", "8192"], ["ant", "warp", "32768"],
    ]  # fmt: skip
    assert [line[3:5] == ["over", "budget"] for line in lines if line[0] == "ant"] == [
        False, False, True, False, True, True]  # of 900 s, then of 300 s  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", [[], ["--gpu"]])
def test_every_kind_of_every_engine_runs(capsys, mode, monkeypatch):
    monkeypatch.setattr(bench, "REPEATS", (2, 2))
    for platform, plan in throughput.PLANS.items():
        monkeypatch.setitem(throughput.PLANS, platform, plan._replace(seconds=0.0))
    throughput.main([*mode, "--models", "pendulum", "--worlds", "2"])
    _, _, *lines = capsys.readouterr().out.splitlines()
    expected = ["warp", "mjx"] if mode else ["mujoco", "mjx", "warp"]
    assert [line.split()[:3] for line in lines] == [["pendulum", e, "2"] for e in expected]
    assert not any("over" in line for line in lines)
