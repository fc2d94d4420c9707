import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from s2r_jax.identify import errors, noise
from s2r_jax.identify.jacobian import Linearization
from s2r_jax.identify.reduce import reduce
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
    precision = noise.update_precision(signals, values, np.ones(2), segments(values), np.zeros(2))
    assert_allclose(1 / precision, [0.01, 3.0], rtol=0.03)


def test_missing_samples_do_not_count():
    values = np.ones((1, 10, 1))
    weight = np.ones_like(values)
    weight[:, 5:] = 0
    values[:, 5:] = 1e9
    precision = noise.update_precision(
        (scalar("a"),), values * weight, np.ones(1), segments(values, weight), np.zeros(1)
    )
    assert precision[0] == pytest.approx(1.0)


#: Correlation of white noise at 30 lags of two signals.
WHITE = np.eye(30)[:, [0, 0]]


@pytest.fixture
def spent():
    """Random derivatives of 3 unknowns and, in each of 4 windows, of a start: 2 numbers."""
    rng = np.random.default_rng(2)
    windows, time, sensors, unknowns, start = 4, 30, 2, 3, 2
    forgotten = np.exp(-np.arange(time) / 15)[:, None, None]
    linear = Linearization(
        np.zeros((windows, time, sensors)),
        rng.standard_normal((windows, time, sensors, unknowns)),
        rng.uniform(0.5, 1.5, (windows, time, sensors, start)) * forgotten,
    )
    free = np.full(start, 1e6)
    return linear, reduce(linear, np.zeros((windows, start)), free)


def hat(linear):
    """Projection onto the columns of all unknowns, rows in the order window, time, sensor."""
    windows, start = len(linear.start), linear.start.shape[-1]
    own = np.zeros((*linear.residual.shape, windows * start))
    for s in range(windows):
        own[s, ..., s * start : (s + 1) * start] = linear.start[s]
    columns = np.concatenate([linear.jacobian, own], -1)
    columns = columns.reshape(-1, columns.shape[-1])
    return columns @ np.linalg.pinv(columns)


def test_white_noise_loses_one_sample_an_unknown(spent):
    linear, reduced = spent
    lost = noise.absorbed((scalar("a"), scalar("b", "velocity")), linear, reduced, WHITE)
    assert lost.sum() == pytest.approx(3 + 4 * 2, rel=1e-6)  # starts are all but free


def test_absorbed_noise_is_the_trace_of_projection_and_correlation(spent):
    linear, reduced = spent
    rho = np.stack([0.8 ** np.arange(30), 0.3 ** np.arange(30)], axis=1)
    lost = noise.absorbed((scalar("a"), scalar("b", "velocity")), linear, reduced, rho)
    projection = hat(linear).reshape(4, 30, 2, 4, 30, 2)
    for sensor in (0, 1):
        correlation = scipy.linalg.toeplitz(rho[:, sensor])
        expected = sum(np.sum(projection[s, :, sensor, s, :, sensor] * correlation)
                       for s in range(4))  # fmt: skip
        assert lost[sensor] == pytest.approx(expected, rel=1e-6)


def test_an_unknown_without_effect_absorbs_nothing(spent):
    linear, _ = spent
    linear = linear._replace(jacobian=linear.jacobian * [1.0, 1.0, 0.0])
    reduced = reduce(linear, np.zeros((4, 2)), np.full(2, 1e6))
    lost = noise.absorbed((scalar("a"), scalar("b", "velocity")), linear, reduced, WHITE)
    assert lost.sum() == pytest.approx(2 + 4 * 2, rel=1e-6)


def test_noise_is_found_although_starts_follow_it(spent):
    linear, reduced = spent
    signals = (scalar("a"), scalar("b", "velocity"))
    rho = np.stack([0.9 ** np.arange(30)] * 2, axis=1)
    left = np.eye(4 * 30 * 2) - hat(linear)
    found = []
    for seed in range(200):
        values = np.concatenate([ar1(0.9, (4, 30, 1), [seed, k]) for k in (0, 1)], axis=2)
        residual = (left @ values.ravel()).reshape(values.shape)
        lost = noise.absorbed(signals, linear, reduced, rho)
        found.append(noise.update_precision(signals, residual, np.ones(2), segments(values), lost))
    variance = np.mean(1 / np.square(found), axis=0)
    assert_allclose(variance, 1.0, atol=0.1)  # 3 sigma of 200 x 4 windows, a sample's worth each
    assert (1 - lost / 120 < 0.85).all()  # what is left would be taken for the noise


def test_correlation_of_short_windows_is_not_underestimated():
    values = ar1(0.9, (2000, 60, 1))
    rho = noise.autocorrelation((scalar("a"),), values, segments(values))
    assert_allclose(rho[:20, 0], 0.9 ** np.arange(20), atol=0.02)  # 1e5 samples, τ of 19


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
