"""What failures have in common: which parameters go with them, and in which direction."""

from typing import NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Bool, Float


class Influence(NamedTuple):
    """How one parameter goes with a result over all worlds."""

    name: str
    side: str
    """`high` or `low`; `extreme` or `middle` where the distance from the median tells more."""
    correlation: float
    """Spearman's rank correlation of the parameter, or of its distance from the median, with the
    result; in [-1, 1]."""
    pvalue: float
    """Of no correlation, times the number of comparisons made (Bonferroni), at most 1."""


def influences(
    names: tuple[str, ...],
    theta: Float[np.ndarray, "world param"],
    result: Float[np.ndarray, " world"] | Bool[np.ndarray, " world"],
) -> list[Influence]:
    """Return the influence of each parameter that varies, the strongest first.

    `high` means that high values go with a high result. Empty where the result, such as failure,
    is the same in all worlds.
    """
    rank = scipy.stats.rankdata(np.asarray(result, dtype=float))
    found = []
    for index, name in enumerate(names):
        values = np.asarray(theta[:, index], dtype=float)
        if np.ptp(values) == 0 or np.ptp(rank) == 0:
            continue
        linear = _correlation(values, rank)
        spread = _correlation(np.abs(values - np.median(values)), rank)
        if abs(linear) >= abs(spread):
            found.append((abs(linear), name, "high" if linear > 0 else "low", linear))
        elif spread > 0:
            found.append((spread, name, "extreme", spread))
        else:
            found.append((-spread, name, "middle", spread))
    comparisons = 2 * len(found)
    return [
        Influence(name, side, value, min(1.0, comparisons * _pvalue(value, len(rank))))
        for _, name, side, value in sorted(found, reverse=True)
    ]


def _correlation(values: np.ndarray, rank: np.ndarray) -> float:
    order = scipy.stats.rankdata(values)
    if np.ptp(order) == 0:
        return 0.0
    return float(np.corrcoef(order, rank)[0, 1])


def _pvalue(correlation: float, n: int) -> float:
    """Two-sided, by Student's t with n - 2 degrees of freedom, as scipy.stats.spearmanr."""
    if n < 3:
        return 1.0
    t = correlation * ((n - 2) / max(1 - correlation**2, np.finfo(float).tiny)) ** 0.5
    return float(2 * scipy.stats.t.sf(abs(t), n - 2))
