"""Standard errors and what cannot be told apart, against linear regression in closed form."""

import jax
import numpy as np
import pytest

from s2r_jax.identify import uncertainty

A, B, C = "joint/x/stiffness", "joint/x/damping", "body/block/mass"


@pytest.fixture
def parameters(spring):
    lines = [f"target: {n}, bounds: [1, 100], transform: log, start: 10" for n in (A, B, C)]
    return spring(*lines).parameters


def regression(parameters, rho, noise, rows=1000):
    """The posterior of y = a x1 + b x2 + c x3 where x1 and x2 have correlation `rho` exactly."""
    gram = rows * np.array([[1, rho, 0], [rho, 1, 0], [0, 0, 1]])
    z = np.log(np.array([10.0, 20.0, 30.0]))
    with jax.enable_x64(True):
        return uncertainty.posterior(parameters, z, gram / noise**2, np.zeros(3, bool))


@pytest.mark.parametrize("rho", [0.0, -0.8, 0.99])
def test_inflation_of_two_columns_is_that_of_their_correlation(parameters, rho):
    estimate, _ = regression(parameters, rho, noise=0.1)
    expected = 1 / np.sqrt(1 - rho**2)  # textbook: VIF = 1 / (1 - R²)
    # 12 of 1e5 in units of the range: what the bounds add.
    assert uncertainty.inflation(estimate.covariance) == pytest.approx(
        [expected, expected, 1], rel=1e-3
    )


def test_collinear_columns_are_not_separately_identifiable_but_their_product_is_known(parameters):
    estimate, combinations = regression(parameters, rho=0.99, noise=0.3)
    # Each alone: 0.3 / sqrt(1000 (1 - 0.99²)) = 6.7 %, well within the range of a factor 100.
    assert estimate.std[:2] / estimate.value[:2] == pytest.approx([0.0672, 0.0672], rel=1e-2)
    assert estimate.identifiable.tolist() == [False, False, True]
    assert [set(c.names) for c in combinations] == [{A, B}]
    assert "not separately identifiable" in combinations[0].words
    (found,) = uncertainty.known(estimate)
    assert (found.names, found.power) == ((A, B), 1)
    assert found.value == pytest.approx(200)
    # var(a + b) = 2 noise² / (rows (1 + rho))
    assert found.std == pytest.approx(0.3 * np.sqrt(2 / (1000 * 1.99)), rel=1e-2)
    assert found.words.startswith(f"the product {A} x {B} is known: 200 ±")


def test_columns_that_fall_together_leave_the_ratio_known(parameters):
    estimate, _ = regression(parameters, rho=-0.99, noise=0.3)
    (found,) = uncertainty.known(estimate)
    assert (found.power, found.value) == (-1, pytest.approx(0.5))


def test_collinear_columns_known_to_a_thousandth_are_identifiable(parameters):
    estimate, combinations = regression(parameters, rho=0.99, noise=0.0045)
    assert estimate.std[:2] / estimate.value[:2] == pytest.approx([1e-3, 1e-3], rel=2e-2)
    assert estimate.identifiable.all()
    assert combinations == ()


def test_loose_columns_that_do_not_trade_are_identifiable(parameters):
    estimate, combinations = regression(parameters, rho=0.5, noise=2.0)
    assert estimate.std[0] / estimate.value[0] > 0.05
    assert estimate.identifiable.all()
    assert combinations == ()
