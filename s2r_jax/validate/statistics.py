"""Numbers with their uncertainty: success rates, tail means, and differences of two policies."""

from typing import NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Bool, Float

from s2r_jax.errors import BadValue

#: Of the bootstrap; the end of a 95 % interval then varies by a few per cent of its width.
RESAMPLES = 2000


class Interval(NamedTuple):
    """An estimate and the interval that covers the truth with the confidence asked for."""

    value: float
    low: float
    high: float
    n: int
    """Samples it rests on."""


def success_rate(success: Bool[np.ndarray, " n"], confidence: float = 0.95) -> Interval:
    """Return the rate of successes with Wilson's interval.

    Unlike mean ± z σ it stays inside [0, 1] and keeps a width when all succeed.

    Source: Wilson 1927; recommended by Brown, Cai, DasGupta 2001, doi:10.1214/ss/1009213286.
    """
    _check(success, confidence)
    n, rate = len(success), float(np.mean(success))
    z2 = float(scipy.stats.norm.ppf((1 + confidence) / 2)) ** 2
    middle = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = (z2 * (rate * (1 - rate) / n + z2 / (4 * n**2))) ** 0.5 / (1 + z2 / n)
    # At 0 and 1 the end is the rate itself; rounding must not push it beyond.
    low, high = min(max(middle - half, 0.0), rate), max(min(middle + half, 1.0), rate)
    return Interval(rate, low, high, n)


def least_n(rate: float, confidence: float = 0.95) -> int:
    """Return how many successes in a row lift the lower end of Wilson's interval to `rate`."""
    z2 = float(scipy.stats.norm.ppf((1 + confidence) / 2)) ** 2
    return int(np.ceil(z2 * rate / (1 - rate)))  # the lower end after n of n is n / (n + z²)


def mean(values: Float[np.ndarray, " n"], confidence: float = 0.95) -> Interval:
    """Return the mean with Student's interval; infinitely wide for one sample."""
    _check(values, confidence)
    n, middle = len(values), float(np.mean(values))
    if n == 1:
        return Interval(middle, -np.inf, np.inf, 1)
    quantile = float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1))
    half = quantile * float(np.std(values, ddof=1)) / n**0.5
    return Interval(middle, middle - half, middle + half, n)


def worst_mean(values: Float[np.ndarray, " n"], tail: float = 0.05) -> float:
    """Return the mean of the worst `tail` of the values: CVaR, or expected shortfall.

    The worst `tail n` samples; where that is no whole number the last one counts in part.

    Source: Rockafellar, Uryasev 2002, doi:10.1016/S0378-4266(02)00271-6, for a discrete
    distribution.
    """
    _check(values, 0.95)
    if not 0 < tail <= 1:
        raise BadValue("statistics", "tail", tail, "a fraction in (0, 1]")
    return float(np.sort(values) @ _tail_weights(len(values), tail))


def worst_interval(
    values: Float[np.ndarray, " n"], tail: float = 0.05, confidence: float = 0.95, seed: int = 0
) -> Interval:
    """Return `worst_mean` with its bootstrap interval (percentiles).

    It rests on `tail n` samples: with fewer than about 20 of those the interval is too narrow.
    """
    value, n = worst_mean(values, tail), len(values)
    weights, rng = _tail_weights(n, tail), np.random.default_rng(seed)
    again = [np.sort(rng.choice(values, n)) @ weights for _ in range(RESAMPLES)]
    low, high = np.quantile(again, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(value, float(low), float(high), n)


def paired(
    first: Float[np.ndarray, " n"], second: Float[np.ndarray, " m"], confidence: float = 0.95
) -> Interval:
    """Return the mean of first - second, of two policies on the same worlds and seeds.

    What the worlds have in common cancels, so far fewer are needed than for two separate means.

    Raises:
        BadValue: n is not m, or a sample is not finite.
    """
    if first.shape != second.shape:
        expected = f"as many as of the first, {len(first)}"
        raise BadValue("statistics", "samples of the second policy", len(second), expected)
    return mean(first - second, confidence)


def _tail_weights(n: int, tail: float) -> np.ndarray:
    """Return the weight of each of n sorted samples in the mean of the lowest `tail`."""
    return np.clip(tail * n - np.arange(n), 0.0, 1.0) / (tail * n)


def _check(values: np.ndarray, confidence: float) -> None:
    if len(values) == 0:
        raise BadValue("statistics", "number of samples", 0, "at least 1")
    if not np.isfinite(values).all():
        count = int((~np.isfinite(values)).sum())
        raise BadValue("statistics", "samples that are not finite", count, "none")
    if not 0 < confidence < 1:
        raise BadValue("statistics", "confidence", confidence, "a fraction in (0, 1)")
