import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from s2r_jax.errors import BadValue
from s2r_jax.validate import statistics


def outcomes(successes, n):
    return np.arange(n) < successes


@pytest.mark.parametrize(("k", "n"), [(0, 20), (1, 20), (19, 20), (20, 20), (487, 512)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_success_interval_is_wilsons(k, n, confidence):
    found = statistics.success_rate(outcomes(k, n), confidence)
    expected = scipy.stats.binomtest(k, n).proportion_ci(confidence, "wilson")
    assert_allclose(found, (k / n, expected.low, expected.high, n), atol=1e-12)


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_success_intervals_of_95_percent_cover_the_truth(rate):
    draws = np.random.default_rng(0).random((1000, 200)) < rate
    intervals = [statistics.success_rate(row) for row in draws]
    covered = np.mean([i.low <= rate <= i.high for i in intervals])
    # 5 sigma of a binomial; a coverage between counts differs from 95 % by up to 1 % as well.
    assert abs(covered - 0.95) < 5 * (0.95 * 0.05 / 1000) ** 0.5 + 0.01


@pytest.mark.parametrize("rate", [0.5, 0.95, 0.99])
def test_least_n_is_the_first_that_is_enough(rate):
    n = statistics.least_n(rate)
    assert statistics.success_rate(outcomes(n, n)).low >= rate
    assert statistics.success_rate(outcomes(n - 1, n - 1)).low < rate


def test_worst_mean_counts_the_last_sample_in_part():
    values = np.random.default_rng(0).permutation(np.arange(50.0))
    assert statistics.worst_mean(values, 0.1) == pytest.approx(2.0)  # of 0 ... 4
    # 5 % of 50 are 2.5 samples: 0, 1 and half of 2.
    assert statistics.worst_mean(values, 0.05) == pytest.approx((0 + 1 + 0.5 * 2) / 2.5)
    assert statistics.worst_mean(values, 1.0) == pytest.approx(values.mean())
    assert statistics.worst_mean(np.array([3.0]), 0.05) == pytest.approx(3.0)


def test_worst_mean_of_a_normal_is_the_closed_form():
    n, tail = 200_000, 0.05
    quantile = scipy.stats.norm.ppf(tail)
    expected = 10 - 2 * scipy.stats.norm.pdf(quantile) / tail
    values = np.random.default_rng(1).normal(10, 2, n)
    assert statistics.worst_mean(values, tail) == pytest.approx(expected, abs=0.05)  # 5 sigma


def test_bootstrap_interval_has_the_asymptotic_width():
    n, tail = 2000, 0.05
    values = np.random.default_rng(2).normal(0, 1, n)
    found = statistics.worst_interval(values, tail)
    # Delta method: the error is the mean of min(x - q, 0) / tail, for n samples.
    shortfall = np.minimum(values - np.quantile(values, tail), 0) / tail
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * shortfall.std() / n**0.5, rel=0.15)
    assert found.low < found.value < found.high
    assert found == statistics.worst_interval(values, tail)  # the seed is the caller's


def test_paired_difference_is_scipys():
    rng = np.random.default_rng(3)
    world = rng.normal(0, 10, 100)  # what both policies share
    first, second = world + rng.normal(1, 1, 100), world + rng.normal(0, 1, 100)
    found = statistics.paired(first, second, 0.9)
    expected = scipy.stats.ttest_rel(first, second).confidence_interval(0.9)
    assert_allclose(found, ((first - second).mean(), expected.low, expected.high, 100), atol=1e-12)
    assert found.low > 0  # seen, though each mean alone varies by ten times the difference


def test_one_sample_has_no_width_to_speak_of():
    assert statistics.mean(np.array([2.0]))[:3] == (2.0, -np.inf, np.inf)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([]), "statistics: number of samples is 0, expected at least 1"),
        (np.array([1.0, np.nan]), "statistics: samples that are not finite is 1, expected none"),
    ],
)
@pytest.mark.parametrize("statistic", [statistics.mean, statistics.worst_mean])
def test_nothing_is_dropped_in_silence(statistic, values, message):
    with pytest.raises(BadValue) as error:
        statistic(values)
    assert str(error.value) == message


def test_pairs_must_match():
    with pytest.raises(BadValue) as error:
        statistics.paired(np.ones(3), np.ones(2))
    expected = "samples of the second policy is 2, expected as many as of the first, 3"
    assert str(error.value) == f"statistics: {expected}"
