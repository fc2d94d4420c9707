import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.errors import BadValue, UnknownName
from s2r_jax.randomize import distribution as d
from s2r_jax.randomize.config import RandomizeConfig
from s2r_jax.randomize.posterior import from_posterior, posterior_choices
from s2r_jax.types import Posterior
from tests.randomize.cases import PARAMETERS

CONFIG = RandomizeConfig(posterior_scale=2.0, floor=0.05, friction_floor=0.15)
#: Of friction, ln mass, strength, latency and ln damping.
ERROR = np.array([0.2, 0.1, 0.001, np.inf, np.inf])
#: Mass and friction tied; the other two say nothing.
CORRELATION = np.eye(5)
CORRELATION[0, 1] = CORRELATION[1, 0] = 0.9
CORRELATION[1, 2] = CORRELATION[2, 1] = 0.3


def posterior(**changes):
    value = np.array([0.8, 2.0, 0.9, 0.02, 0.1])
    known = np.isfinite(ERROR)
    error = np.where(known, ERROR, 1e3)
    std = np.where(known, ERROR * np.array([1, 2.0, 1, 1, 1]), np.inf)  # of mass: m * std(ln m)
    mean = np.array([0.8, np.log(2.0), 0.9, 0.02, np.log(0.1)])
    covariance = CORRELATION * np.outer(error, error)
    names = PARAMETERS.names
    fields = (names, value, std, mean, covariance, known, np.zeros(5, dtype=bool))
    return Posterior(*fields)._replace(**changes)


def test_identified_parameters_vary_by_the_posterior_or_the_floor():
    distribution = from_posterior(posterior(), PARAMETERS, CONFIG)
    kinds = [d.KINDS[k] for k in distribution.kind]
    assert kinds == ["normal", "lognormal", "normal", "uniform", "lognormal"]
    assert_allclose(distribution.mean[:3], [0.8, 2.0, 0.9], rtol=1e-6)
    # 2 x 0.2 above the floor 0.15 x 0.8; 2 x 0.1 of ln mass; floor 0.05 x 0.9 above 2 x 0.001.
    assert_allclose(distribution.std[:3], [0.4, 0.2, 0.045], rtol=1e-6)


def test_what_the_logs_do_not_say_comes_from_prior_or_bounds():
    distribution = from_posterior(posterior(), PARAMETERS, CONFIG)
    assert_allclose([distribution.low[3], distribution.high[3]], [0.0, 0.03], rtol=1e-6)
    # The prior of damping: 0.5 with standard deviation 0.1, a fifth of it in ln.
    assert_allclose([distribution.mean[4], distribution.std[4]], [0.5, 0.2], rtol=1e-6)


def test_width_beyond_the_posterior_is_independent():
    distribution = from_posterior(posterior(), PARAMETERS, CONFIG)
    found = np.asarray(distribution.cholesky) @ np.asarray(distribution.cholesky).T
    expected = np.eye(5)
    expected[0, 1] = expected[1, 0] = 0.9
    expected[1, 2] = expected[2, 1] = 0.3 * 0.002 / 0.045
    assert_allclose(found, expected, atol=1e-6)


def test_draws_keep_the_correlation_of_the_posterior():
    narrow = posterior(covariance=posterior().covariance / 100, std=posterior().std / 10)
    # Widths far from the bounds, so that nothing is cut: θ and ln θ are jointly Gaussian.
    config = RandomizeConfig(posterior_scale=2.0, floor=1e-6, friction_floor=1e-6)
    distribution = from_posterior(narrow, PARAMETERS, config)
    keys = jax.random.split(jax.random.key(0), 20000)
    theta = np.asarray(jax.vmap(d.sample, (0, None))(keys, distribution), dtype=float)
    x = np.stack([theta[:, 0], np.log(theta[:, 1]), theta[:, 2]])
    expected = np.array([0.04, 0.02, 0.0002])
    found = np.cov(x) / np.outer(expected, expected)
    assert_allclose(found, CORRELATION[:3, :3], atol=5 * (2 / 20000) ** 0.5)  # 5 sigma


def test_parameters_that_were_not_identified_count_as_unknown():
    whole = posterior()
    vectors = {
        field: getattr(whole, field)[1:3] for field in whole._fields if field != "covariance"
    }
    part = Posterior(**vectors, covariance=whole.covariance[1:3, 1:3])
    distribution = from_posterior(part, PARAMETERS, CONFIG)
    assert [d.KINDS[k] for k in distribution.kind[:3]] == ["uniform", "lognormal", "normal"]
    assert [choice.reason for choice in posterior_choices(part, PARAMETERS, CONFIG)] == [
        "bounds: the logs do not identify it",
        "identified: 2 standard errors",
        "identified: floor of the width",
        "bounds: the logs do not identify it",
        "prior: the logs do not identify it",
    ]


def test_an_estimate_on_its_bound_says_only_that_much():
    at_bound = posterior(at_bound=np.array([False, False, False, True, False]))
    choice = posterior_choices(at_bound, PARAMETERS, CONFIG)[3]
    assert choice.marginal == d.Marginal("uniform", 0.0, 0.03)
    assert choice.reason == "bounds: the estimate stands on its bound"


def test_an_estimate_at_zero_keeps_a_width():
    known = np.array([True, True, True, True, False])
    value = np.array([0.8, 2.0, 0.9, 0.0, 0.1])
    std = np.array([0.2, 0.2, 0.001, 1e-9, np.inf])
    covariance = posterior().covariance.copy()
    covariance[3, 3] = 1e-18
    at_zero = posterior(value=value, std=std, covariance=covariance, identifiable=known)
    distribution = from_posterior(at_zero, PARAMETERS, CONFIG)
    assert_allclose(distribution.std[3], 0.05 * 0.1 * 0.03, rtol=1e-6)  # a tenth of the range


def test_a_posterior_of_another_robot_is_refused():
    names = ("geom/floor/friction", "body/leg/mass", *PARAMETERS.names[2:])
    with pytest.raises(UnknownName) as error:
        from_posterior(posterior(names=names), PARAMETERS, CONFIG)
    assert str(error.value).startswith(
        "posterior: unknown parameter 'body/leg/mass'; did you mean 'body/arm/mass'? available: "
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": np.array([2.0, 2.0, 0.9, 0.02, 0.1])},
         "posterior: value of geom/floor/friction is 2.0, expected a number in [0.05, 1.7]"),
        ({"std": np.array([np.inf, 0.2, 0.001, np.inf, np.inf])},
         "posterior: standard error of geom/floor/friction is inf, expected a positive, finite "
         "number for an identifiable parameter"),
    ],
)  # fmt: skip
def test_impossible_estimates_are_named(changes, message):
    with pytest.raises(BadValue) as error:
        from_posterior(posterior(**changes), PARAMETERS, CONFIG)
    assert str(error.value) == message
