import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from s2r_jax.errors import BadValue, UnknownName
from s2r_jax.parameters import ParameterSet
from s2r_jax.randomize import distribution as d
from tests.randomize.cases import CORRELATION, MARGINALS, PARAMETERS

COUNT = 20000


def draw(distribution, count=COUNT):
    keys = jax.random.split(jax.random.key(3), count)
    return np.asarray(jax.vmap(d.sample, (0, None))(keys, distribution), dtype=float)


def scipy_marginals():
    def truncated(mean, std, low, high):
        return scipy.stats.truncnorm((low - mean) / std, (high - mean) / std, mean, std)

    return {
        0: scipy.stats.uniform(0.3, 0.9),
        1: truncated(np.log(2.0), 0.3, np.log(1.5), np.log(5.0)),  # of ln θ
        2: truncated(1.0, 0.08, 0.9, 1.3),
        4: scipy.stats.loguniform(0.01, 10.0),
    }


@pytest.mark.parametrize("correlation", [None, CORRELATION], ids=["independent", "correlated"])
def test_marginals_are_those_of_scipy(correlation):
    theta = draw(d.build(PARAMETERS, MARGINALS, correlation))
    theta[:, 1] = np.log(theta[:, 1])
    for index, marginal in scipy_marginals().items():
        # Fixed seed; a wrong truncation gives p below 1e-12.
        assert scipy.stats.kstest(theta[:, index], marginal.cdf).pvalue > 1e-3
    assert (theta[:, 3] == np.float32(0.004)).all()


@pytest.mark.parametrize("correlation", [None, CORRELATION], ids=["independent", "correlated"])
def test_no_draw_leaves_its_range_and_none_piles_up_at_its_ends(correlation):
    distribution = d.build(PARAMETERS, MARGINALS, correlation)
    theta = draw(distribution)
    low, high = (np.asarray(x, dtype=float) for x in distribution[1:3])
    assert ((theta >= low) & (theta <= high)).all()
    at_end = ((theta == low) | (theta == high)).mean(axis=0)
    assert (np.delete(at_end, 3) < 1e-3).all()


def test_draws_over_the_bounds_pass_the_check_of_the_parameters():
    # 0.1 and 0.3 lie outside their float32 neighbours; the check is in float64.
    theta = draw(d.from_bounds(PARAMETERS), 500)
    for row in theta:
        PARAMETERS.check(row, "draw")
    edges = [d.nominal(PARAMETERS, np.array(edge)) for edge in (PARAMETERS.low, PARAMETERS.high)]
    for distribution in edges:
        PARAMETERS.check(draw(distribution, 1)[0], "draw")


def test_normals_that_nothing_cuts_have_the_covariance_that_was_asked_for():
    marginals = [*MARGINALS[:1], d.Marginal("lognormal", 0.1, 5.0, 0.7, 0.2)]
    marginals += [d.Marginal("normal", 0.3, 1.3, 0.8, 0.05), *MARGINALS[3:]]
    theta = draw(d.build(PARAMETERS, marginals, CORRELATION))
    x = np.stack([np.log(theta[:, 1]), theta[:, 2]])
    expected = np.array([[0.04, -0.8 * 0.2 * 0.05], [-0.8 * 0.2 * 0.05, 0.0025]])
    assert_allclose(x.mean(axis=1), [np.log(0.7), 0.8], atol=5 * 0.2 / COUNT**0.5)  # 5 sigma
    assert_allclose(np.cov(x), expected, rtol=0.04)  # relative error of a variance: sqrt(2 / n)


def test_density_is_that_of_scipy():
    theta = draw(d.build(PARAMETERS, MARGINALS), 50)
    found = jax.vmap(d.log_density, (0, None))(jnp.asarray(theta), d.build(PARAMETERS, MARGINALS))
    known = scipy_marginals()
    expected = known[0].logpdf(theta[:, 0]) + known[2].logpdf(theta[:, 2])
    expected += known[1].logpdf(np.log(theta[:, 1])) - np.log(theta[:, 1])
    expected += known[4].logpdf(theta[:, 4])
    assert_allclose(found, expected, atol=1e-4)  # float32
    outside = jnp.asarray(theta[0]).at[0].set(1.3)
    assert d.log_density(outside, d.build(PARAMETERS, MARGINALS)) == -jnp.inf


def test_density_of_correlated_normals_is_the_multivariate_one():
    marginals = [*MARGINALS[:1], d.Marginal("normal", 0.1, 5.0, 2.0, 0.1)]
    marginals += [d.Marginal("normal", 0.3, 1.3, 0.8, 0.05), *MARGINALS[3:]]
    correlation = np.eye(5)
    correlation[1, 2] = correlation[2, 1] = -0.8
    distribution = d.build(PARAMETERS, marginals, correlation)
    theta = draw(distribution, 50)
    found = jax.vmap(d.log_density, (0, None))(jnp.asarray(theta), distribution)
    covariance = [[0.01, -0.8 * 0.005], [-0.8 * 0.005, 0.0025]]
    expected = scipy.stats.multivariate_normal([2.0, 0.8], covariance).logpdf(theta[:, 1:3])
    expected += scipy.stats.uniform(0.3, 0.9).logpdf(theta[:, 0])
    expected += scipy.stats.loguniform(0.01, 10.0).logpdf(theta[:, 4])
    assert_allclose(found, expected, atol=2e-3)  # float32 through the quantile function


def test_density_of_a_correlated_truncated_pair_integrates_to_one():
    marginals = [d.Marginal("uniform", 0.3, 1.2), d.Marginal("lognormal", 1.5, 5.0, 2.0, 0.3)]
    marginals += [d.Marginal("fixed", x, x) for x in (1.0, 0.01, 0.5)]
    distribution = d.build(PARAMETERS, marginals, CORRELATION)
    x, y = (np.linspace(a, b, 401)[:-1] + (b - a) / 800 for a, b in ((0.3, 1.2), (1.5, 5.0)))
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    theta = np.concatenate([grid, np.tile([1.0, 0.01, 0.5], (len(grid), 1))], axis=1)
    density = jnp.exp(jax.vmap(d.log_density, (0, None))(jnp.asarray(theta), distribution))
    assert density.sum() * (0.9 / 400) * (3.5 / 400) == pytest.approx(1.0, abs=2e-3)  # midpoint


def test_other_ranges_do_not_recompile():
    sample = jax.jit(chex.assert_max_traces(d.sample, n=1))
    for distribution in (
        d.nominal(PARAMETERS),
        d.from_bounds(PARAMETERS),
        d.build(PARAMETERS, MARGINALS, CORRELATION),
    ):
        assert sample(jax.random.key(3), distribution).shape == (5,)


def test_nominal_gives_the_nominal_theta():
    assert_allclose(draw(d.nominal(PARAMETERS), 3), [PARAMETERS.nominal] * 3, rtol=1e-7)


def test_perfect_correlation_is_drawn():
    correlation = np.eye(5)
    correlation[1, 2] = correlation[2, 1] = 1.0
    theta = draw(d.build(PARAMETERS, MARGINALS, correlation))
    assert scipy.stats.spearmanr(theta[:, 1], theta[:, 2]).statistic > 0.999


def test_no_parameters_are_a_distribution_too():
    assert draw(d.from_bounds(ParameterSet()), 2).shape == (2, 0)


@pytest.mark.parametrize(
    ("index", "marginal", "message"),
    [
        (0, ("uniform", 0.01, 1.0), "range of geom/floor/friction is [0.01, 1.0], expected low <= "
         "high, inside the parameter's bounds [0.05, 1.7]"),
        (0, ("uniform", 0.5, 0.5), "range of geom/floor/friction is [0.5, 0.5], expected low < "
         "high for kind 'uniform'"),
        (1, ("fixed", 0.5, 0.6), "range of body/arm/mass is [0.5, 0.6], expected low = high for "
         "kind 'fixed'"),
        (3, ("loguniform", 0.0, 0.01), "low of latency/action is 0.0, expected a positive number "
         "for kind 'loguniform'"),
        (2, ("normal", 0.3, 1.3, 1.4, 0.1), "mean of motor/hip/strength is 1.4, expected a number "
         "in [0.3, 1.3]"),
        (2, ("normal", 0.3, 1.3, 1.0, 0.0), "std of motor/hip/strength is 0.0, expected a positive "
         "number"),
        (2, ("uniform", 0.3, 1.3, 1.0), "kind of motor/hip/strength is 'uniform', expected normal "
         "or lognormal to have mean and std"),
    ],
)  # fmt: skip
def test_bad_marginals_are_named(index, marginal, message):
    marginals = [*MARGINALS]
    marginals[index] = d.Marginal(*marginal)
    with pytest.raises(BadValue) as error:
        d.build(PARAMETERS, marginals)
    assert str(error.value) == f"distribution: {message}"


def test_unknown_kinds_are_named():
    with pytest.raises(UnknownName) as error:
        d.build(PARAMETERS, [d.Marginal("gauss", 0.3, 1.0), *MARGINALS[1:]])
    assert str(error.value) == (
        "distribution: geom/floor/friction: unknown kind 'gauss'; available: fixed, lognormal, "
        "loguniform, normal, uniform"
    )


def test_a_matrix_that_is_no_correlation_is_refused():
    correlation = CORRELATION.copy()
    correlation[0, 2] = correlation[2, 0] = 0.9  # with 0.3 and -0.8 impossible
    with pytest.raises(BadValue, match="symmetric, ones on the diagonal, no negative eigenvalue"):
        d.build(PARAMETERS, MARGINALS, correlation)
