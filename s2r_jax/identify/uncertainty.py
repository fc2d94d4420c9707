"""From the linearised fit to standard errors, and to what cannot be told apart, in words."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from s2r_jax.parameters import ParameterSet, constrain, constrain_slope, search_bounds
from s2r_jax.types import Posterior

#: A parameter counts as identifiable when its ±2 standard errors span less than this share of its
#: range.
LARGEST_SPAN = 0.4
#: Weights below this share of the largest are left out of the words for a weak combination.
SMALLEST_PART = 0.3
#: A combination is weak when its standard error exceeds this share of the range of the parameters
#: in it.
WEAK = 0.1
#: A parameter is entangled when freeing the others multiplies its standard error by this: a
#: variance inflation of five, the stricter of the two customary limits (Belsley et al. 1980).
ENTANGLED = 5**0.5
#: What is known to this share of its value stands however entangled it is (±4 % at 95 %).
KNOWN = 0.02
#: A ratio or product is worth saying when its standard error is less than this share of those of
#: its parts.
SHARPER = 0.5


class Combination(NamedTuple):
    """A direction of θ that the logs hardly see, while its parts cannot be told apart."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    """Share of each parameter's range, largest 1; the sign says whether they move together."""
    std: float
    """Standard error along it, as a share of the range."""
    words: str


class Known(NamedTuple):
    """A ratio or product that the logs tell although they do not tell its two parts apart."""

    names: tuple[str, str]
    power: int
    """-1: first / second; 1: first x second."""
    value: float
    std: float
    """Standard error, as a share of the value."""
    words: str


def posterior(
    parameters: ParameterSet,
    z: Float[np.ndarray, " param"],
    information: Float[np.ndarray, "param param"],
    is_dead: Bool[np.ndarray, " param"],
) -> tuple[Posterior, tuple[Combination, ...]]:
    """Return the Gaussian at the optimum, and its weak combinations.

    Args:
        parameters: Names, bounds and transforms.
        z: Optimum in search coordinates.
        information: Inverse covariance there (data and priors), `[param, param]`.
        is_dead: Parameters that moved no signal.
    """
    low, high = search_bounds(parameters)
    # Bounds are met exactly by the projection; half a millionth of the range is rounding.
    margin = 5e-7 * np.where(np.isfinite(high - low), high - low, 1.0)
    at_bound = (z <= low + margin) | (z >= high - margin)
    # A logit never reaches its bounds; within half a per cent of one it has given up.
    is_logit = ~np.isfinite(low)
    at_bound |= is_logit & (np.abs(z) > np.log(0.995 / 0.005))
    span = _range(parameters)
    live = ~at_bound & ~is_dead
    slope = constrain_slope(parameters, z)
    covariance = np.zeros_like(information)
    std_z = np.full(z.size, np.inf)
    combinations: tuple[Combination, ...] = ()
    if live.any():
        # In units of each parameter's range. The bounds are knowledge too: a uniform density over
        # the range has variance 1/12; what the logs say nothing of keeps that, not infinity. Low in
        # the range of a `log`, where its slope all but vanishes, the range of the value itself is
        # the wider one: there a parameter that cannot be seen could still be large.
        scaled = information[np.ix_(live, live)] * np.outer(span[live], span[live])
        width = np.array(parameters.high) - np.array(parameters.low)
        wide = np.maximum(span, width / np.maximum(slope, 1e-300))
        scaled = scaled + np.diag(12.0 * (span / wide)[live] ** 2)
        values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
        values = np.maximum(values, np.finfo(float).eps * values[-1])
        inverse = (vectors / values) @ vectors.T
        covariance[np.ix_(live, live)] = inverse * np.outer(span[live], span[live])
        std_z[live] = np.sqrt(np.diag(covariance)[live])
        names = [name for name, keep in zip(parameters.names, live, strict=True) if keep]
        combinations = _combinations(names, values, vectors)
    with np.errstate(invalid="ignore"):
        std = np.where(np.isfinite(std_z), slope * std_z, np.inf)
    value = np.asarray(constrain(parameters, jnp.asarray(z)))
    entangled = (inflation(covariance) >= ENTANGLED) & (relative(parameters, value, std) > KNOWN)
    identifiable = live & (4 * std_z < LARGEST_SPAN * span) & ~entangled
    combinations += _entanglements(parameters.names, covariance, entangled, combinations, span)
    result = Posterior(parameters.names, value, std, z, covariance, identifiable, at_bound)
    return result, combinations


def inflation(covariance: Float[np.ndarray, "param param"]) -> Float[np.ndarray, " param"]:
    """Return by how much not knowing the others raises each standard error; 1 where not estimated.

    The square root of the variance inflation factor: marginal over conditional standard error, the
    measure of collinearity of Belsley, Kuh and Welsch (1980) and, for models of dynamics, of Brun,
    Reichert and Künsch (2001), doi:10.1029/2000WR900350.
    """
    live = np.diag(covariance) > 0
    found = np.ones(len(covariance))
    inner = covariance[np.ix_(live, live)]
    # In units of the standard errors, so that the inverse is as good as it can be.
    unit = np.sqrt(np.diag(inner))
    found[live] = np.sqrt(np.diag(np.linalg.inv(inner / np.outer(unit, unit))))
    return found


def relative(
    parameters: ParameterSet,
    value: Float[np.ndarray, " param"],
    std: Float[np.ndarray, " param"],
) -> Float[np.ndarray, " param"]:
    """Return standard errors as shares of the values; of the range where zero lies within it."""
    low, high = np.array(parameters.low), np.array(parameters.high)
    is_signed = (low < 0) & (high > 0)
    size = np.where(is_signed, high - low, np.abs(value))
    return std / np.maximum(size, np.finfo(float).tiny)


def known(estimate: Posterior) -> tuple[Known, ...]:
    """Return the ratios and products that are known better than both their parts.

    Of pairs that cannot be told apart alone, sharpest first, each parameter once.
    """
    spread, found = np.diag(estimate.covariance), []
    loose = np.flatnonzero((spread > 0) & ~estimate.identifiable & (estimate.value > 0))
    correlation = estimate.covariance[np.ix_(loose, loose)]
    correlation = correlation / np.sqrt(np.outer(spread[loose], spread[loose]))
    share = estimate.std[loose] / estimate.value[loose]
    for a in range(len(loose)):
        for b in range(a + 1, len(loose)):
            power = -1 if correlation[a, b] > 0 else 1
            cross = 2 * power * correlation[a, b] * share[a] * share[b]
            std = float(np.sqrt(max(share[a] ** 2 + share[b] ** 2 + cross, 0.0)))
            if std < SHARPER * min(share[a], share[b]):
                i, j = loose[a], loose[b]
                names = (estimate.names[i], estimate.names[j])
                value = float(estimate.value[i] * estimate.value[j] ** power)
                sign = "/" if power < 0 else "x"
                kind = "ratio" if power < 0 else "product"
                words = (
                    f"the {kind} {names[0]} {sign} {names[1]} is known: {value:.4g} ± "
                    f"{196 * std:.2g} %"
                )
                found.append(Known(names, power, value, std, words))
    kept: list[Known] = []
    for item in sorted(found, key=lambda item: item.std):
        if not any(set(item.names) & set(other.names) for other in kept):
            kept.append(item)
    return tuple(kept)


def _entanglements(
    names: tuple[str, ...],
    covariance: np.ndarray,
    entangled: np.ndarray,
    named: tuple[Combination, ...],
    span: np.ndarray,
) -> tuple[Combination, ...]:
    """Return one combination for each entangled parameter that none names yet.

    Its direction is how the best values of the others follow when it alone is moved: the
    regression on it, in standard errors.
    """
    found, said = [], {name for combination in named for name in combination.names}
    spread = np.sqrt(np.where(np.diag(covariance) > 0, np.diag(covariance), 1.0))
    correlation = covariance / np.outer(spread, spread)
    order = np.argsort(-np.where(entangled, inflation(covariance), 0.0), kind="stable")
    for i in order[: entangled.sum()]:
        if names[i] in said:
            continue
        follows = np.flatnonzero(np.abs(correlation[i]) >= 0.5)  # a quarter of the variance
        partners = [j for j in follows if j != i]
        if not partners:
            partners = [int(np.argsort(-np.abs(correlation[i]))[1])]
        parts = [int(i), *sorted(partners, key=lambda j: -abs(correlation[i, j]))]
        weights = [float(correlation[i, j]) for j in parts]
        together = [names[j] for j, w in zip(parts, weights, strict=True) if w > 0]
        against = [names[j] for j, w in zip(parts, weights, strict=True) if w <= 0]
        words = f"{' and '.join(together)} are not separately identifiable: they rise together"
        if against:
            falling = " and ".join(against)
            words = (
                f"{' and '.join([*together, *against])} are not separately identifiable: "
                f"{' and '.join(together)} can rise while {falling} falls"
            )
        share = float(spread[i] / span[i])
        found.append(Combination(tuple(names[j] for j in parts), tuple(weights), share, words))
        said.update(names[j] for j in parts)
    return tuple(found)


def prior_precision(
    parameters: ParameterSet, z: Float[np.ndarray, " param"]
) -> Float[np.ndarray, " param"]:
    """Return 1 / standard deviation of each prior in search coordinates at z; 0 without one."""
    return constrain_slope(parameters, z) / np.array(parameters.prior_std)


def _range(parameters: ParameterSet) -> np.ndarray:
    """Return the width of the bounds in z; for `logit` the middle 98 %."""
    low, high = search_bounds(parameters, 0.01)
    return high - low


def _combinations(
    names: list[str], values: np.ndarray, vectors: np.ndarray
) -> tuple[Combination, ...]:
    found = []
    for value, vector in zip(values, vectors.T, strict=True):
        std = 1.0 / np.sqrt(value)
        if std < WEAK:
            continue
        weights = vector / vector[np.argmax(np.abs(vector))]
        parts = np.flatnonzero(np.abs(weights) >= SMALLEST_PART)
        parts = parts[np.argsort(-np.abs(weights[parts]), kind="stable")]
        together = [names[i] for i in parts if weights[i] > 0]
        against = [names[i] for i in parts if weights[i] < 0]
        if len(parts) == 1:
            words = f"the logs say little about {names[parts[0]]}"
        elif not against:
            words = f"{' and '.join(together)} can rise together unseen"
        else:
            words = f"{' and '.join(together)} can rise while {' and '.join(against)} falls, unseen"
        found.append(
            Combination(
                tuple(names[i] for i in parts),
                tuple(float(weights[i]) for i in parts),
                float(std),
                words,
            )
        )
    return tuple(found)
