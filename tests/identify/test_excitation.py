"""Excitations: shapes known in closed form, within their band, at rest at both ends."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import robot
from s2r_jax.errors import BadModel, BadValue, UnknownName
from s2r_jax.identify import excitation
from s2r_jax.identify.plan_config import PlanConfig

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG = PlanConfig()


@pytest.fixture(scope="module")
def servo():
    return robot.load(EXAMPLES / "servo_pendulum")


@pytest.fixture(scope="module")
def go2():
    return robot.load(EXAMPLES / "go2")


def random_commands(machine, family, seed, **options):
    qpos, _ = excitation.pose(machine, CONFIG.margin)
    band, grid = excitation.band(machine, qpos, CONFIG), excitation.grid(machine, CONFIG)
    shape = (machine.model.nu, excitation.genes(CONFIG))
    coefficients = np.random.default_rng(seed).random(shape)
    return excitation.commands(family, coefficients, grid, band, **options), band, grid


@pytest.mark.parametrize("family", excitation.FAMILIES)
def test_commands_stay_in_their_band_and_begin_and_end_at_rest(servo, go2, family):
    for machine in (servo, go2):
        for seed in range(5):
            told, band, _ = random_commands(machine, family, seed)
            assert told.shape == (round(10 / machine.period), machine.model.nu)
            assert (told >= band.low - 1e-12).all()
            assert (told <= band.high + 1e-12).all()
            assert_allclose(told[[0, -1]], np.broadcast_to(band.rest, (2, len(band.rest))))
            assert np.ptp(told, axis=0).min() > 0


def test_margin_leaves_half_of_itself_at_either_end(servo):
    band = excitation.band(servo, np.zeros(1), PlanConfig(margin=0.2))
    assert_allclose([band.low, band.high], [[-0.8 * 4.7], [0.8 * 4.7]])


def test_sum_of_sines_has_only_its_harmonics_in_the_weights_asked_for(servo):
    grid = excitation.grid(servo, CONFIG)
    rng = np.random.default_rng(0)
    row = rng.uniform(0.3, 1, excitation.genes(CONFIG) - 2)
    shape = excitation.multisine(row, grid)
    power = np.abs(np.fft.rfft(shape)) ** 2
    found = np.flatnonzero(power > 1e-9 * power.max())
    assert_allclose(found, grid.frequencies * 10)  # multiples of 1 / 10 s
    assert np.abs(shape).max() == pytest.approx(1)
    amplitude = np.sqrt(power[found])
    assert_allclose(amplitude / amplitude[0], (row[1:9] / row[1]) ** 2)


def test_chirp_goes_from_one_end_of_the_band_to_the_other(servo):
    grid = excitation.grid(servo, CONFIG)
    row = np.zeros(excitation.genes(CONFIG) - 2)
    row[2] = 1.0  # from the lowest to the highest frequency
    shape = excitation.chirp(row, grid)
    first, last, span = grid.frequencies[0], grid.frequencies[-1], grid.time[-1]
    # Turns of an exponential sweep: (last - first) span / ln(last / first).
    turns = (last - first) * span / np.log(last / first)
    assert np.sum(np.diff(np.sign(shape[1:])) != 0) == pytest.approx(2 * turns, abs=1)
    row[2] = 0.0
    assert_allclose(excitation.chirp(row, grid), np.sin(2 * np.pi * first * grid.time), atol=1e-9)


def test_ramps_hold_their_levels_or_join_them(servo):
    grid = excitation.grid(servo, CONFIG)
    levels = np.linspace(-1, 1, 2 * CONFIG.harmonics)
    turn = len(grid.time) // len(levels)
    steps = excitation.ramps(np.concatenate([[1.0], (levels + 1) / 2]), grid)
    assert_allclose(steps[5 * turn + turn // 2], levels[5])
    slow = excitation.ramps(np.concatenate([[0.0], (levels + 1) / 2]), grid)
    inner = slow[2 * turn : -2 * turn]
    assert np.abs(np.diff(inner)).max() == pytest.approx(np.diff(levels)[0] / turn, rel=0.02)


def test_commands_keep_a_limit_on_their_rate(servo):
    for seed in range(5):
        told, band, grid = random_commands(servo, "ramps", seed, slew=3.0)
        assert np.abs(np.diff(told, axis=0)).max() <= 3.0 * grid.time[1] + 1e-12
        assert_allclose(told[[0, -1], 0], band.rest[0])


def test_joints_that_are_not_excited_hold_their_pose(go2):
    qpos, _ = excitation.pose(go2, 0.1)
    config = PlanConfig(excite=("FL_calf_joint",))
    band = excitation.band(go2, qpos, config)
    assert np.flatnonzero(band.high > band.low).tolist() == [2]
    assert_allclose(np.delete(band.rest, 2), np.delete(band.low, 2))


def test_pose_is_moved_into_limits_that_exclude_the_default_and_says_so(go2):
    qpos, notes = excitation.pose(go2, 0.1)
    assert_allclose(qpos[2], (-2.7227 - 0.83776) / 2)
    expected = "FL_calf_joint starts at -1.78, inside its limits; its default 0 is not"
    assert notes[0] == expected
    assert len(notes) == 4


def test_robot_without_actuators_is_refused():
    cube = robot.load(EXAMPLES / "cube")
    with pytest.raises(BadModel) as caught:
        excitation.band(cube, cube.model.qpos0, CONFIG)
    assert str(caught.value) == (
        f"{EXAMPLES / 'cube' / 'robot.yaml'}: the model has no actuators, so there is nothing to "
        "command; move the machine by hand or throw it, and record that"
    )


def test_motor_that_nothing_bounds_is_refused():
    machine = robot.load(EXAMPLES / "double_pendulum")
    limited = machine.model.actuator_ctrllimited.any()
    assert not limited
    with pytest.raises(BadValue, match=r"joints/shoulder: torque is .* nothing says how hard"):
        excitation.band(machine, machine.model.qpos0, CONFIG)


def test_unknown_joint_to_excite_is_refused(servo):
    with pytest.raises(UnknownName, match="--excite: unknown actuated joint 'hing'; did you mean"):
        excitation.band(servo, np.zeros(1), dataclasses.replace(CONFIG, excite=("hing",)))


def test_too_short_a_plan_is_refused(servo):
    with pytest.raises(BadValue, match=r"duration is 0.1, expected at least 0.64 s"):
        excitation.grid(servo, PlanConfig(duration=0.1))
