"""Resampling against closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from s2r_jax.errors import BadValue
from s2r_jax.logs.resample import gaps, resample
from s2r_jax.types import Log


def test_commands_hold_and_measurements_interpolate():
    time = np.array([1.0, 1.013, 1.02, 1.04])
    channels = {
        "command/servo/target": np.array([1.0, 2.0, 3.0, 4.0]),
        "battery/voltage": np.array([7.0, 8.0, 9.0, 6.0]),
        "joint/hinge/position": 10 * time,
    }
    even = resample(Log("a", time, channels), 0.01)
    assert_allclose(even.time, [1.0, 1.01, 1.02, 1.03, 1.04], rtol=1e-15)
    assert_array_equal(even.channels["command/servo/target"], [1, 1, 3, 3, 4])
    assert_array_equal(even.channels["battery/voltage"], [7, 7, 9, 9, 6])
    assert_allclose(even.channels["joint/hinge/position"], 10 * even.time, rtol=1e-14)


def test_rounded_clock_does_not_shift_a_command():
    # A grid time that rounding puts just before its row must still take that row.
    time = np.array([0.0, 0.1, 0.3 + 1e-10, 0.4])
    even = resample(Log("a", time, {"command/m/target": np.array([0.0, 1.0, 3.0, 4.0])}), 0.1)
    assert_array_equal(even.channels["command/m/target"], [0, 1, 1, 3, 4])


def test_resampling_on_its_own_grid_changes_nothing():
    time = 0.002 * np.arange(500)
    vectors = np.random.default_rng(0).normal(size=(500, 3))
    channels = {"joint/a/position": np.sin(time), "body/b/position": vectors}
    even = resample(Log("a", time, channels), 0.002)
    assert len(even.time) == 500
    for name, values in channels.items():
        assert_allclose(even.channels[name], values, atol=1e-9)  # of times rounded to 1e-16 s


def test_long_gaps_are_masked_and_reported():
    time = np.concatenate([np.arange(0, 10), np.arange(30, 40)]) * 0.01
    position = time.copy()
    position[12:18] = np.nan
    position[3] = np.nan
    log = Log("a", time, {"joint/a/position": position, "command/m/target": time})
    even = resample(log, 0.01)
    expected = 0.01 * np.arange(40)
    expected[10:30] = np.nan  # no rows
    expected[32:38] = np.nan  # rows without this sample; the single one at 3 is bridged
    assert_allclose(even.channels["joint/a/position"], expected, atol=1e-12)
    assert np.isfinite(even.channels["command/m/target"]).all()
    found = gaps(log, 0.05)
    assert [gap.channel for gap in found] == ["", "joint/a/position"]
    assert_allclose([gap[1:] for gap in found], [(0.09, 0.3), (0.31, 0.38)])


def test_quaternion_takes_the_shorter_way_and_stays_unit():
    angle = np.linspace(0, 3, 31)  # about z, 0.1 rad between rows
    q = np.stack([np.cos(angle / 2), 0 * angle, 0 * angle, np.sin(angle / 2)], axis=1)
    q[1::2] *= -1  # the same rotations
    even = resample(Log("a", 0.1 * np.arange(31), {"body/b/orientation": q}), 0.025)
    found = even.channels["body/b/orientation"]
    assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-14)
    # Normalised interpolation over 0.1 rad is off by less than 0.1^3 / 100.
    assert_allclose(2 * np.arctan2(found[:, 3], found[:, 0]), even.time, atol=1e-5)


def test_quaternions_of_sensors_are_known_by_their_length():
    q = np.array([[1.0, 0, 0, 0], [-1.0, 0, 0, 0], [1.0, 0, 0, 0]])
    even = resample(Log("a", 0.1 * np.arange(3), {"sensor/imu": q, "sensor/feet": 2 * q}), 0.05)
    assert_array_equal(np.abs(even.channels["sensor/imu"][:, 0]), np.ones(5))
    assert_allclose(even.channels["sensor/feet"][:, 0], [2, 0, -2, 0, 2], atol=1e-12)


def test_bad_period_is_refused():
    with pytest.raises(BadValue, match=r"a: period is 0\.0, expected a positive number of seconds"):
        resample(Log("a", np.array([0.0, 1.0]), {}), 0.0)
