"""Profile likelihood: the interval of one parameter without the assumption of a parabola.

The parameter is fixed at values beside its estimate and all others are fitted again. Where the cost
has risen by half a χ² quantile over that of the optimum, the 95 % interval ends; if it never rises
so far within the bounds, the logs give no limit on that side, which no standard error can say.
Source: Raue et al. 2009, Bioinformatics 25:1923.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from s2r_jax.identify import levenberg
from s2r_jax.parameters import ParameterSet, constrain

#: Rise of the cost at the ends of a 95 % interval: 1.96² / 2, the cost being half a sum of squares.
LEVEL = 0.5 * 1.96**2
#: Most evaluations on either side of the optimum.
EVALUATIONS = 8
#: Most steps of the other parameters at one value.
REFITS = 2
#: Promised fall of the cost, as a share of LEVEL, that a step of the other parameters is worth.
WORTH = 0.05
#: Rise in LEVELs beyond which a point is on the other side whatever a refit may gain.
FAR = 4.0
#: Most that a stride grows over the one before; where the cost is flat it does.
GROWTH = 4.0
#: Evaluations kept for what lies between a flat stretch and the bound.
LAST = 4
#: Beyond this rise from point to point, in standard errors, an interpolation means nothing.
CLIFF = 3.0
#: The end is interpolated between two points that are this many standard errors apart at most, or
#: of which one is within a fifth of that from the end.
NEAR = 0.5


class Profile(NamedTuple):
    """Cost along one parameter, the others fitted at each value."""

    name: str
    grid: Float[np.ndarray, " point"]
    """Values of the parameter in its unit, rising; the estimate is among them."""
    rise: Float[np.ndarray, " point"]
    """Cost above that of the estimate, in independent samples; the interval ends at `LEVEL`."""
    low: float
    """Lower end of the 95 % interval, the bound where it is open."""
    high: float
    is_open_low: bool
    """Whether the logs give no lower limit within the bounds."""
    is_open_high: bool


Evaluate = Callable[[np.ndarray], levenberg.Normal]


def profile(
    evaluate: Evaluate,
    state: levenberg.State,
    index: int,
    scale: float,
    bounds: levenberg.Bounds,
    redundancy: float = 1.0,
) -> Profile:
    """Return the profile of one coordinate, in search coordinates: see `in_units`.

    Args:
        evaluate: Normal equations at z.
        state: The optimum with its normal equations.
        index: The coordinate.
        scale: Its standard error, the first stride.
        bounds: Box of z, finite in this coordinate.
        redundancy: Samples that are worth one independent sample; the cost is divided by it.
    """
    below, low, is_open_low = _walk(evaluate, state, index, -scale, bounds, redundancy)
    above, high, is_open_high = _walk(evaluate, state, index, scale, bounds, redundancy)
    points = [*below[::-1], _Point(state.z, state.normal, 0.0), *above]
    grid = np.array([point.z[index] for point in points])
    rise = np.array([point.rise for point in points])
    return Profile("", grid, rise, low, high, is_open_low, is_open_high)


def in_units(
    found: Profile, parameters: ParameterSet, z: Float[np.ndarray, " param"], index: int
) -> Profile:
    """Return a profile in search coordinates as that of the named parameter, in its unit."""

    def value(coordinate: float) -> float:
        moved = z.copy()
        moved[index] = coordinate
        return float(constrain(parameters, jnp.asarray(moved))[index])

    return Profile(
        parameters.names[index],
        np.array([value(coordinate) for coordinate in found.grid]),
        found.rise,
        parameters.low[index] if found.is_open_low else value(found.low),
        parameters.high[index] if found.is_open_high else value(found.high),
        found.is_open_low,
        found.is_open_high,
    )


class _Point(NamedTuple):
    z: np.ndarray
    normal: levenberg.Normal
    rise: float

    @property
    def root(self) -> float:
        """Signed root of the likelihood ratio: in standard errors, linear where a fit is."""
        return float(np.sqrt(2 * max(self.rise, 0.0)))


def _walk(
    evaluate: Evaluate,
    state: levenberg.State,
    index: int,
    stride: float,
    bounds: levenberg.Bounds,
    redundancy: float,
) -> tuple[list[_Point], float, bool]:
    """Go to one side until the cost has risen by `LEVEL` or the bound is met.

    Returns the points outward, the end of the interval, and whether that is the bound.
    """
    edge = float(bounds.high[index] if stride > 0 else bounds.low[index])
    inner, outer = [_Point(state.z, state.normal, 0.0)], None
    left, base = EVALUATIONS, state.normal.cost
    while left > 0:
        if outer is None:
            if inner[-1].z[index] == edge:
                break
            # Nothing may be called open that was not tried to the end.
            is_last = _strides(inner) > (1.0 if left <= 2 else GROWTH) and left <= LAST
            at = edge if is_last else _stride(inner, index, stride, edge)
        elif _is_found(inner[-1], outer):
            break
        elif outer.root - inner[-1].root < CLIFF:
            at = _crossing(inner[-1], outer, index)
        else:
            middle = 0.5 * (inner[-1].z[index] + outer.z[index])
            at = _stride(inner, index, stride, middle)
        point, spent = _refit(evaluate, inner[-1], index, at, bounds, redundancy, base, left)
        point = point._replace(rise=(point.normal.cost - base) / redundancy)
        left -= spent
        if point.rise < LEVEL:
            inner.append(point)
        else:
            outer = point
    if outer is None:
        return inner[1:], edge, bool(inner[-1].z[index] == edge)
    # Short of that, rather too wide an interval than too narrow a one.
    is_found = _is_found(inner[-1], outer)
    end = _crossing(inner[-1], outer, index) if is_found else float(outer.z[index])
    return [*inner[1:], *([outer] if np.isfinite(outer.rise) else [])], end, False


def _stride(inner: list[_Point], index: int, first: float, limit: float) -> float:
    """Return where the level should be passed if the root goes on as it did, short of a limit."""
    if len(inner) == 1:
        at = inner[0].z[index] + first
    else:
        before, here = inner[-2].z[index], inner[-1].z[index]
        at = here + min(_strides(inner), GROWTH) * (here - before)
    return float(min(at, limit) if first > 0 else max(at, limit))


def _strides(inner: list[_Point]) -> float:
    """Return how many strides like the last one lead a little beyond the level."""
    if len(inner) < 2 or inner[-1].root <= inner[-2].root:
        return np.inf
    wanted = 1.05 * np.sqrt(2 * LEVEL) - inner[-1].root
    return float(wanted / (inner[-1].root - inner[-2].root))


def _is_found(inner: _Point, outer: _Point) -> bool:
    misses = np.abs(np.sqrt(2 * LEVEL) - np.array([inner.root, outer.root]))
    return bool(misses.sum() < NEAR or (misses.min() < NEAR / 5 and misses.sum() < CLIFF))


def _crossing(inner: _Point, outer: _Point, index: int) -> float:
    """Return where the level lies between two points."""
    share = (np.sqrt(2 * LEVEL) - inner.root) / (outer.root - inner.root)
    return float(inner.z[index] + share * (outer.z[index] - inner.z[index]))


def _refit(
    evaluate: Evaluate,
    near: _Point,
    index: int,
    at: float,
    bounds: levenberg.Bounds,
    redundancy: float,
    base: float,
    most: int,
) -> tuple[_Point, int]:
    """Return the best point whose coordinate is `at`, and how many evaluations that took.

    `base` is the cost of the optimum; the rise is left to the caller. The quadratic model of a
    neighbour says how the others follow.
    """
    z = near.z.copy()
    z[index] = at
    others = np.arange(z.size) != index
    pull = near.normal.matrix[:, index] * (at - near.z[index])
    z = np.clip(z - _solve(near.normal, pull, others), bounds.low, bounds.high)
    seen = [evaluate(z)]

    def fixed(z: np.ndarray) -> levenberg.Normal:
        seen.append(evaluate(z))
        return levenberg.without(seen[-1], ~others)

    # Hardly damped: a weak direction must follow too, or the cost rises for want of that.
    state, kept = levenberg.init(z, levenberg.without(seen[0], ~others), 1e-6), seen[0]
    while len(seen) < min(most, 1 + REFITS) and np.isfinite(kept.cost):
        free = others & ~levenberg.held_at_bounds(state.z, kept.slope, bounds)
        promised = 0.5 * kept.slope @ _solve(kept, kept.slope, free)
        rise = kept.cost - promised - base
        if promised < WORTH * LEVEL * redundancy or rise > FAR * LEVEL * redundancy:
            break
        state, info = levenberg.step(state, fixed, bounds)
        kept = seen[-1] if info.accepted else kept
    return _Point(state.z, kept, np.nan), len(seen)


def _solve(normal: levenberg.Normal, right: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Return the solution in the free coordinates that have an effect, 0 elsewhere."""
    solved = np.zeros_like(right)
    free = free & (np.diag(normal.matrix) > 0)
    unit = np.sqrt(np.diag(normal.matrix)[free])
    scaled = normal.matrix[np.ix_(free, free)] / np.outer(unit, unit)
    # What even a relative 1e-9 of information cannot tell apart stays together.
    solved[free] = np.linalg.solve(scaled + 1e-9 * np.eye(unit.size), right[free] / unit) / unit
    return solved
