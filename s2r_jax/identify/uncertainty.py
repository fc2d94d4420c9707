"""From the linearised fit to standard errors, and to what cannot be told apart, in words."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from s2r_jax.parameters import ParameterSet, constrain, search_bounds
from s2r_jax.types import Posterior

#: A parameter counts as identifiable when its ±2 standard errors span less than this share of its
#: range.
LARGEST_SPAN = 0.4
#: Weights below this share of the largest are left out of the words for a weak combination.
SMALLEST_PART = 0.3
#: A combination is weak when its standard error exceeds this share of the range of the parameters
#: in it.
WEAK = 0.1


class Combination(NamedTuple):
    """A direction of θ that the logs hardly see, while its parts cannot be told apart."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    """Share of each parameter's range, largest 1; the sign says whether they move together."""
    std: float
    """Standard error along it, as a share of the range."""
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
    covariance = np.zeros_like(information)
    std_z = np.full(z.size, np.inf)
    combinations: tuple[Combination, ...] = ()
    if live.any():
        # In units of each parameter's range. The bounds are knowledge too: a uniform density over
        # the range has variance 1/12; what the logs say nothing of keeps that, not infinity.
        scaled = information[np.ix_(live, live)] * np.outer(span[live], span[live])
        values, vectors = np.linalg.eigh(scaled)
        values = np.maximum(values, 0.0) + 12.0
        inverse = (vectors / values) @ vectors.T
        covariance[np.ix_(live, live)] = inverse * np.outer(span[live], span[live])
        std_z[live] = np.sqrt(np.diag(covariance)[live])
        names = [name for name, keep in zip(parameters.names, live, strict=True) if keep]
        combinations = _combinations(names, values, vectors)
    slope = np.asarray(jax.vmap(jax.grad(lambda z, i: constrain(parameters, z)[i]), (None, 0))(
        jnp.asarray(z), jnp.arange(z.size)))  # fmt: skip
    with np.errstate(invalid="ignore"):
        std = np.where(np.isfinite(std_z), np.abs(np.diag(slope)) * std_z, np.inf)
    identifiable = live & (4 * std_z < LARGEST_SPAN * span)
    value = np.asarray(constrain(parameters, jnp.asarray(z)))
    result = Posterior(parameters.names, value, std, z, covariance, identifiable, at_bound)
    return result, combinations


def _range(parameters: ParameterSet) -> np.ndarray:
    """Return the width of the bounds in z; for `logit` the middle 98 %."""
    low, high = search_bounds(parameters)
    edge = float(np.log(0.99 / 0.01))
    return np.where(np.isfinite(high), high, edge) - np.where(np.isfinite(low), low, -edge)


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
