"""Which parameters the logs know least, and their profiles."""

import numpy as np
from jaxtyping import Float, Int

from s2r_jax.identify import levenberg, profile
from s2r_jax.parameters import ParameterSet, search_bounds
from s2r_jax.types import Posterior

#: Share of its range from a bound where a `logit` counts as on it.
EDGE = 0.005
#: A lower bound this small beside the upper one stands for "nothing": a friction that may be absent
#: is known, one that may be any larger is not.
VANISHING = 1e-3


def profiles(
    evaluate: profile.Evaluate,
    state: levenberg.State,
    parameters: ParameterSet,
    posterior: Posterior,
    dead: tuple[str, ...],
    redundancy: float,
    count: int,
) -> tuple[tuple[profile.Profile, ...], list[str]]:
    """Return the profiles of the weakest parameters, and what they tell of the fit.

    Args:
        evaluate: Normal equations at z.
        state: The optimum with its normal equations.
        parameters: Names and bounds.
        posterior: Its standard errors say which parameters are the weakest, and how far to go.
        dead: Parameters without effect, which have no profile.
        redundancy: Samples that are worth one independent sample.
        count: How many.
    """
    bounds = _box(parameters, state.z)
    found, notes = [], []
    for index in weakest(parameters, posterior, dead)[:count]:
        std = np.sqrt(posterior.covariance[index, index])
        if std == 0:  # on its bound, where the Gaussian has nothing to say
            std = np.sqrt(redundancy / state.normal.matrix[index, index])
        curve = profile.profile(evaluate, state, int(index), float(std), bounds, redundancy)
        curve = profile.in_units(curve, parameters, state.z, int(index))
        found.append(curve)
        limits = [(curve.is_open_low, "lower"), (curve.is_open_high, "upper")]
        open_ends = " and no ".join(word for is_open, word in limits if is_open)
        if open_ends:
            notes.append(f"the logs give {curve.name} no {open_ends} limit within its bounds")
        fall = -float(curve.rise.min())
        if fall > profile.LEVEL / 4:  # half a standard error
            at = curve.grid[int(curve.rise.argmin())]
            notes.append(
                f"the cost falls by {fall:.2g} where {curve.name} is {at:.4g}: the search ended "
                "before the bottom; raise --iterations or --starts"
            )
    return tuple(found), notes


def is_limited(curve: profile.Profile, low: float, high: float) -> bool:
    """Return whether a profile limits its parameter, whose bounds are given, on both sides.

    Below, a bound that stands for "nothing" is limit enough.
    """
    return not curve.is_open_high and (not curve.is_open_low or is_nothing(low, high))


def is_nothing(low: float, high: float) -> bool:
    """Return whether a lower bound stands for "nothing" beside the upper one."""
    return 0 <= low <= VANISHING * high


def weakest(
    parameters: ParameterSet, posterior: Posterior, dead: tuple[str, ...]
) -> Int[np.ndarray, " some"]:
    """Return the parameters that act, the least known share of its range first.

    Those on a bound, of which no standard error is known, come last.
    """
    low, high = _box(parameters, posterior.mean)
    share = np.sqrt(np.diag(posterior.covariance)) / (high - low)
    order = np.argsort(-share, kind="stable")
    return order[~np.isin(np.array(parameters.names)[order], dead)]


def _box(parameters: ParameterSet, z: Float[np.ndarray, " param"]) -> levenberg.Bounds:
    """Return finite bounds of z: a `logit` goes to half a per cent from its own."""
    low, high = search_bounds(parameters, EDGE)
    is_free = np.isinf(search_bounds(parameters)[0])  # it may have gone further
    low = np.where(is_free, np.minimum(z, low), low)
    return levenberg.Bounds(low, np.where(is_free, np.maximum(z, high), high))
