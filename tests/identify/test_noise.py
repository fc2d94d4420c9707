import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.identify import errors, noise
from s2r_jax.identify.segments import Segments
from s2r_jax.signals import Signal


def scalar(name, attribute="position"):
    return Signal(name, "joint", name, attribute, (0,), 1)


def segments(measured, weight=None):
    weight = np.ones(measured.shape) if weight is None else weight
    count = len(measured)
    blank = np.zeros((count, 1))
    return Segments(None, blank, measured, weight, blank, blank, np.arange(count), np.zeros(count))


def ar1(rho, shape, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    for k in range(1, shape[1]):
        values[:, k] = rho * values[:, k - 1] + np.sqrt(1 - rho**2) * values[:, k]
    return values


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_correlation_time_of_an_autoregressive_process(rho):
    values = ar1(rho, (50, 2000, 1))
    tau = noise.correlation_time((scalar("a"),), values, segments(values))
    assert tau[0] == pytest.approx((1 + rho) / (1 - rho), rel=0.1)  # closed form; 1e5 samples


def test_noise_of_each_kind_of_signal_is_its_own():
    rng = np.random.default_rng(1)
    values = rng.standard_normal((4, 5000, 2)) * [0.01, 3.0]
    signals = (scalar("a"), scalar("b", "velocity"))
    precision = noise.update_precision(signals, values, np.ones(2), segments(values))
    assert_allclose(1 / precision, [0.01, 3.0], rtol=0.03)


def test_missing_samples_do_not_count():
    values = np.ones((1, 10, 1))
    weight = np.ones_like(values)
    weight[:, 5:] = 0
    values[:, 5:] = 1e9
    precision = noise.update_precision((scalar("a"),), values * weight, np.ones(1),
                                       segments(values, weight))  # fmt: skip
    assert precision[0] == pytest.approx(1.0)


def test_errors_of_scalars_are_pooled_and_of_bodies_averaged_over_trajectories():
    body = Signal("body/cube/position", "body", "cube", "position", (1,), 3)
    difference = np.zeros((2, 2, 4))
    difference[..., 0] = [[1, 1], [3, 3]]
    difference[0, :, 1:] = [3, 0, 4]  # 5 m off in every frame
    difference[1, :, 1:] = [0, 1, 0]
    weight = np.ones_like(difference)
    weight[1, 1] = 0  # the second toss is shorter
    scores = errors.score((scalar("j"), body), difference, segments(difference, weight))
    assert scores.signals["j"].mae == pytest.approx((1 + 1 + 3) / 3)
    assert scores.signals["j"].rmse == pytest.approx(np.sqrt((1 + 1 + 9) / 3))
    assert scores.kinds["body position [m]"].mae == pytest.approx((5 + 1) / 2)
