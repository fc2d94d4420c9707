"""Profile likelihood against closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.identify import levenberg
from s2r_jax.identify.profile import EVALUATIONS, LEVEL, Profile, in_units, profile
from s2r_jax.parameters import ParameterSet


def least_squares(model, slopes, measured):
    """Normal equations of 0.5 |model(z) - measured|², and how often they were asked for."""
    asked = []

    def evaluate(z):
        asked.append(z)
        residual, jacobian = model(z) - measured, slopes(z)
        square = 0.5 * float(residual @ residual)
        return levenberg.Normal(square, jacobian.T @ residual, jacobian.T @ jacobian)

    return evaluate, asked


def box(low, high):
    return levenberg.Bounds(np.array(low, dtype=float), np.array(high, dtype=float))


def test_linear_gaussian_interval_is_196_standard_errors():
    # Correlated unknowns: without a refit of the others the interval would be 2.3 times too short.
    keys = np.random.default_rng(0)
    matrix = keys.standard_normal((30, 3)) @ np.array([[1.0, 0.9, 0], [0, 0.4, 0], [0, 0, 1]])
    evaluate, asked = least_squares(lambda z: matrix @ z, lambda z: matrix, np.ones(30))
    best = np.linalg.lstsq(matrix, np.ones(30))[0]
    std = np.sqrt(np.diag(np.linalg.inv(matrix.T @ matrix)))
    for index in range(3):
        state = levenberg.init(best, evaluate(best))
        asked.clear()
        found = profile(evaluate, state, index, std[index], box([-9] * 3, [9] * 3))
        assert_allclose(found.low, best[index] - 1.96 * std[index], rtol=1e-6)
        assert_allclose(found.high, best[index] + 1.96 * std[index], rtol=1e-6)
        assert (found.is_open_low, found.is_open_high) == (False, False)
        expected = 0.5 * ((found.grid - best[index]) / std[index]) ** 2
        assert_allclose(found.rise, expected, atol=1e-6)
        assert len(asked) <= 4


def test_samples_that_repeat_each_other_widen_the_interval():
    evaluate, _ = least_squares(lambda z: z * np.ones(16), lambda z: np.ones((16, 1)), np.zeros(16))
    state = levenberg.init(np.zeros(1), evaluate(np.zeros(1)))
    found = profile(evaluate, state, 0, 0.25, box([-9], [9]), redundancy=9.0)
    assert_allclose(found.high, 3 * 1.96 / 4, rtol=1e-6)


def saturating(rate, noise=0.05):
    """1 - exp(-z t) at late times: a fast rate looks like any faster one."""
    t = np.linspace(0.5, 2.0, 10)

    def model(z):
        return (1 - np.exp(-z[0] * t)) / noise

    def slopes(z):
        return (t * np.exp(-z[0] * t))[:, None] / noise

    return model, *least_squares(model, slopes, model(np.array([rate])))


def test_interval_of_a_saturating_model_is_open_on_one_side():
    model, evaluate, asked = saturating(8.0)
    state = levenberg.init(np.array([8.0]), evaluate(np.array([8.0])))
    scale = min(float(state.normal.matrix[0, 0] ** -0.5), 20 / 12**0.5)
    asked.clear()
    found = profile(evaluate, state, 0, scale, box([0.1], [20.0]))
    assert len(asked) <= 2 * EVALUATIONS
    assert (found.is_open_low, found.is_open_high) == (False, True)
    assert found.high == 20.0
    rise = 0.5 * np.sum((model(np.array([found.low])) - model(np.array([8.0]))) ** 2)
    assert rise == pytest.approx(LEVEL, rel=0.05)  # interpolated between points nearby
    assert found.rise[-1] < LEVEL
    assert found.grid[-1] == 20.0


def test_simulation_that_breaks_down_ends_the_interval():
    evaluate, _ = least_squares(lambda z: 0.1 * z, lambda z: np.full((1, 1), 0.1), np.zeros(1))

    def breaking(z):
        return evaluate(z) if z[0] < 3.05 else levenberg.Normal(np.inf, 0 * z, np.eye(1))

    state = levenberg.init(np.zeros(1), breaking(np.zeros(1)))
    found = profile(breaking, state, 0, 2.9, box([-9], [9]))
    assert (found.is_open_low, found.is_open_high) == (True, False)
    assert 3.05 <= found.high < 3.2
    assert np.isfinite(found.rise).all()


def test_no_side_is_open_that_was_not_tried_to_the_bound():
    # The cost is flat up to z = 8; strides from a far too small one would not get there in time.
    evaluate, asked = least_squares(
        lambda z: np.maximum(abs(z) - 8.0, 0) * 10,
        lambda z: np.array([[10.0 * np.sign(z[0]) * (abs(z[0]) > 8)]]),
        np.zeros(1),
    )
    state = levenberg.init(np.zeros(1), evaluate(np.zeros(1)))
    asked.clear()
    found = profile(evaluate, state, 0, 1e-6, box([-9], [8]))
    assert (found.is_open_low, found.is_open_high) == (False, True)
    assert -9.0 <= found.low <= -8.0  # rather too wide than too narrow
    assert (found.grid[-1], found.rise[-1]) == (8.0, 0.0)
    assert len(asked) <= 2 * EVALUATIONS


def test_banana_is_followed_round_the_bend():
    # r = (z1 - z0², z0 / 3): fixed z0 leaves z1 = z0², so the profile is that of z0 / 3 alone.
    def model(z):
        return np.array([10 * (z[1] - z[0] ** 2), z[0] / 3])

    def slopes(z):
        return np.array([[-20 * z[0], 10], [1 / 3, 0]])

    evaluate, asked = least_squares(model, slopes, np.zeros(2))
    state = levenberg.init(np.zeros(2), evaluate(np.zeros(2)))
    asked.clear()
    found = profile(evaluate, state, 0, 3.0, box([-20, -100], [20, 100]))
    assert_allclose([found.low, found.high], [-1.96 * 3, 1.96 * 3], rtol=0.01)
    assert len(asked) <= 2 * EVALUATIONS


def test_other_parameters_stay_within_their_bounds():
    evaluate, asked = least_squares(
        lambda z: np.array([z[0] + z[1], 0.1 * z[0]]),
        lambda z: np.array([[1.0, 1.0], [0.1, 0.0]]),
        np.zeros(2),
    )
    state = levenberg.init(np.zeros(2), evaluate(np.zeros(2)))
    found = profile(evaluate, state, 0, 10.0, box([-50, -1], [50, 1]))
    assert all(abs(z[1]) <= 1 for z in asked)
    # Beyond z0 = 1 the other is used up: 0.5 (z0 - 1)² + 0.5 (z0 / 10)² = LEVEL.
    assert found.high == pytest.approx(2.95, rel=0.02)


def test_profile_in_the_unit_of_a_logarithmic_parameter():
    parameters = ParameterSet(("mass",), (0.1,), (10.0,), (1.0,), (1.0,), (np.inf,), ("log",),
                              ("kg",))  # fmt: skip
    grid, edge = np.log([0.1, 1.0, 2.0]), float(np.log(0.1))
    inside = Profile("", grid, np.array([1.0, 0.0, 2.5]), edge, float(np.log(1.7)), True, False)
    found = in_units(inside, parameters, np.zeros(1), 0)
    assert found.name == "mass"
    assert_allclose(found.grid, [0.1, 1.0, 2.0])
    assert (found.low, found.is_open_low, found.is_open_high) == (0.1, True, False)
    assert found.high == pytest.approx(1.7)
