import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose

from s2r_jax.identify import levenberg
from s2r_jax.identify.levenberg import Bounds, Normal

FREE = Bounds(np.full(2, -np.inf), np.full(2, np.inf))


def rosenbrock(z):
    residual = np.array([1 - z[0], 10 * (z[1] - z[0] ** 2)])
    jacobian = np.array([[-1.0, 0.0], [-20 * z[0], 10.0]])
    return Normal(0.5 * residual @ residual, jacobian.T @ residual, jacobian.T @ jacobian)


def descend(evaluate, z, bounds, steps=100):
    state = levenberg.init(np.array(z), evaluate(np.array(z)))
    for _ in range(steps):
        state, _ = levenberg.step(state, evaluate, bounds)
    return state


def test_minimum_of_rosenbrock_is_found():
    assert_allclose(descend(rosenbrock, [-1.2, 1.0], FREE).z, [1, 1], atol=1e-8)


@pytest.mark.parametrize("high", [0.5, 0.8])
def test_bounded_minimum_equals_that_of_scipy(high):
    bounds = Bounds(np.array([-2.0, -2.0]), np.array([high, 3.0]))

    def residual(z):
        return np.array([1 - z[0], 10 * (z[1] - z[0] ** 2)])

    expected = scipy.optimize.least_squares(residual, [-1.2, 1.0], bounds=bounds, xtol=1e-15)
    state = descend(rosenbrock, [-1.2, 1.0], bounds)
    assert_allclose(state.z, expected.x, atol=1e-6)
    assert levenberg.held_at_bounds(state.z, state.normal.slope, bounds).tolist() == [True, False]


def test_step_that_meets_a_bound_is_the_best_within_the_box():
    # Strongly coupled: cutting the free minimum [2.5, -1.5] to the box would raise the cost.
    matrix, target = np.array([[1.0, 0.98], [0.98, 1.0]]), np.array([2.5, -1.5])
    bounds = Bounds(np.full(2, -1.0), np.full(2, 1.0))

    def evaluate(z):
        off = z - target
        return Normal(0.5 * off @ matrix @ off, matrix @ off, matrix)

    factor = np.linalg.cholesky(matrix).T
    expected = scipy.optimize.lsq_linear(factor, factor @ target, (-1.0, 1.0)).x
    start = levenberg.init(np.zeros(2), evaluate(np.zeros(2)), damping=1e-12)
    state, info = levenberg.step(start, evaluate, bounds)
    assert info.accepted
    assert info.promised > 0
    assert_allclose(state.z, expected, atol=1e-8)


def test_cost_never_rises_and_a_refused_step_only_raises_the_damping():
    state = levenberg.init(np.array([-1.2, 1.0]), rosenbrock(np.array([-1.2, 1.0])))
    seen = set()
    for _ in range(20):  # before the cost is rounding
        new, info = levenberg.step(state, rosenbrock, FREE)
        seen.add(info.accepted)
        assert new.normal.cost <= state.normal.cost
        if not info.accepted:
            assert new.z is state.z
            assert new.damping > state.damping
        state = new
    assert seen == {True, False}


def test_promise_is_the_fall_of_a_quadratic_to_its_bounded_minimum():
    matrix, target = np.array([[1.0, 0.98], [0.98, 1.0]]), np.array([2.5, -1.5])

    def cost(z):
        return 1.0 + 0.5 * (z - target) @ matrix @ (z - target)

    state = levenberg.init(np.zeros(2), Normal(cost(0.0), -matrix @ target, matrix), damping=7.0)
    free = levenberg.promise(state, FREE)
    assert free == pytest.approx(1 - 1 / cost(0.0), rel=1e-9)  # whatever the damping
    factor = np.linalg.cholesky(matrix).T
    best = scipy.optimize.lsq_linear(factor, factor @ target, (-1.0, 1.0)).x
    boxed = levenberg.promise(state, Bounds(np.full(2, -1.0), np.full(2, 1.0)))
    assert boxed == pytest.approx(1 - cost(best) / cost(0.0), rel=1e-9)
    assert boxed < free


def test_unstable_simulation_is_a_refused_step():
    def evaluate(z):
        if z[0] > 0:
            return Normal(np.inf, np.zeros(2), np.eye(2))
        return Normal(0.5 * (z[0] - 1) ** 2, np.array([z[0] - 1, 0]), np.diag([1.0, 0.0]))

    start = np.array([-0.5, 2.0])
    state, info = levenberg.step(levenberg.init(start, evaluate(start)), evaluate, FREE)
    assert not info.accepted
    assert state.z[1] == 2.0  # a parameter without effect stays where it is


def test_what_has_no_effect_stays_exactly_where_it_is():
    dead = Normal(1.0, np.zeros(2), np.zeros((2, 2)))
    state, info = levenberg.step(levenberg.init(np.array([0.3, 0.7]), dead), lambda z: dead, FREE)
    assert state.z.tolist() == [0.3, 0.7]
    assert not info.accepted
