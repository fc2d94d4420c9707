"""A diagnosis finds what was put into a log, and nothing in a clean one."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.logs.diagnose import diagnose, lag
from s2r_jax.types import Log
from tests.logs.robots import PAIR, SERVO, Maker

TIME = 0.005 * np.arange(2000)


def slow_noise(seed: int) -> np.ndarray:
    """Return a random signal without anything faster than a few hertz."""
    white = np.random.default_rng(seed).normal(size=len(TIME) + 200)
    return np.convolve(white, np.hanning(101) / 20, mode="same")[100:-100]


def clean(delay: float = 0.0) -> Log:
    target = slow_noise(1)
    position = np.interp(TIME - delay, TIME, target)
    channels = {
        "command/servo/target": target,
        "joint/hinge/position": position,
        "joint/hinge/velocity": np.gradient(position, 0.005),
        "battery/voltage": 7.4 + 0.01 * slow_noise(2),
    }
    return Log("a", TIME, channels)


def changed(name: str, values: np.ndarray) -> Log:
    log = clean()
    return log._replace(channels={**log.channels, name: values})


def test_clean_log_shows_nothing(make_robot: Maker):
    found = diagnose(clean(), make_robot(SERVO, kind="pd"))
    assert found.suspicious == () == found.constant == found.gaps == found.unmeasured
    assert (found.rows, found.name) == (2000, "a")
    figures = (found.duration, found.median_step, found.max_step, found.jitter)
    assert_allclose(figures, (9.995, 0.005, 0.005, 0.0), atol=1e-12)


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.0323])
def test_lag_between_command_and_measurement(delay: float, make_robot: Maker):
    (found,) = diagnose(clean(delay), make_robot(SERVO, kind="pd")).lags
    assert (found.command, found.measured) == ("command/servo/target", "joint/hinge/position")
    assert found.seconds == pytest.approx(delay, abs=2e-4)  # a tenth of a step: the parabola's
    assert found.correlation > 0.99


def test_lag_counts_only_while_the_motor_is_on(make_robot: Maker):
    log = clean(0.02)
    off = TIME > 5
    position = np.where(off, slow_noise(9), log.channels["joint/hinge/position"])
    channels = {**log.channels, "command/servo/enabled": 1.0 - off}
    log = log._replace(channels={**channels, "joint/hinge/position": position})
    (found,) = diagnose(log, make_robot(SERVO, kind="pd")).lags
    assert found.seconds == pytest.approx(0.02, abs=2e-4)


def test_unrelated_and_constant_series_have_no_lag():
    assert np.isnan(lag(slow_noise(1), np.zeros(2000), 0.005)).all()
    rising = np.arange(100.0)
    assert np.isnan(lag(np.exp(-rising), np.sin(rising / 80), 0.005, longest=0.01)[0])


@pytest.mark.parametrize(
    ("name", "factor", "message"),
    [
        ("joint/hinge/velocity", 180 / np.pi, r"velocity is 57\.\d times the derivative"),
        ("joint/hinge/velocity", np.pi / 180, r"velocity is 0\.017\d times the derivative"),
        ("joint/hinge/velocity", -1.0, "velocity has the opposite sign"),
        ("joint/hinge/position", 180 / np.pi, r"position spans .* rad: is it in degrees\?"),
        ("joint/hinge/position", -1.0, "position moves against command/servo/target"),
        ("battery/voltage", 1000.0, r"voltage is 7\d\d\d V: is it in millivolts\?"),
    ],
)
def test_wrong_units_and_signs_are_suspected(
    name: str, factor: float, message: str, make_robot: Maker
):
    log = changed(name, factor * clean().channels[name])
    found = diagnose(log, make_robot(SERVO, kind="pd")).suspicious
    assert any(re.search(message, sentence) for sentence in found), found


def test_wrapped_angles_are_suspected(make_robot: Maker):
    angle = (2 * TIME + np.pi) % (2 * np.pi) - np.pi
    found = diagnose(changed("joint/hinge/position", angle), make_robot(SERVO, kind="pd"))
    assert any("jumps by 6.27 rad in one row: is it wrapped?" in s for s in found.suspicious)


def test_dead_sensors_gaps_and_unmeasured_joints_are_listed(make_robot: Maker):
    keep = (TIME < 3) | (TIME > 4)
    channels = {"joint/elbow/velocity": np.zeros(keep.sum())}
    found = diagnose(Log("a", TIME[keep], channels), make_robot(PAIR))
    assert found.constant == ("joint/elbow/velocity",)
    assert found.unmeasured == ("shoulder", "elbow")
    (gap,) = found.gaps
    assert_allclose(gap[1:], (2.995, 4.005))
    assert found.max_step == pytest.approx(1.01)
