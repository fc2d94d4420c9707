"""Bounded Levenberg-Marquardt on normal equations, small and dense: `init` and `step` in numpy.

The damping follows the gain ratio (Nielsen 1999); the damped quadratic model is minimised within
the bounds (BVLS, Stark and Parker 1995). Priors are residual rows.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.optimize
from jaxtyping import Bool, Float

#: Keeps directions apart that rounding alone tells apart.
LEAST_DAMPING = 1e-12


class Normal(NamedTuple):
    """A cost 0.5 |r|² with its slope and Gauss-Newton matrix, prior included."""

    cost: float
    slope: Float[np.ndarray, " param"]
    matrix: Float[np.ndarray, "param param"]


class State(NamedTuple):
    """What the next step needs."""

    z: Float[np.ndarray, " param"]
    normal: Normal
    damping: float
    """λ of Nielsen's method, relative to the diagonal."""
    growth: float
    """ν: factor of the next rejection."""


class Info(NamedTuple):
    """What a person or a log wants to see of one step."""

    cost: float
    accepted: bool
    damping: float
    move: float
    """Largest change of a coordinate."""
    decrease: float
    """Relative fall of the cost; 0 for a rejected step."""
    promised: float
    """Relative fall that the quadratic model promised."""


class Bounds(NamedTuple):
    """Box of z; infinite where there is none."""

    low: Float[np.ndarray, " param"]
    high: Float[np.ndarray, " param"]


def init(z: Float[np.ndarray, " param"], normal: Normal, damping: float = 1e-3) -> State:
    """Start at z with its normal equations."""
    return State(z, normal, damping, 2.0)


def step(
    state: State, evaluate: Callable[[np.ndarray], Normal], bounds: Bounds
) -> tuple[State, Info]:
    """Try one damped step; a step that does not lower the cost only raises the damping."""
    z = np.clip(state.z + _damped_step(state, bounds), bounds.low, bounds.high)
    move = z - state.z
    predicted = _predicted(state.normal, move)
    normal = evaluate(z)
    gain = (state.normal.cost - normal.cost) / predicted if predicted > 0 else -1.0
    is_better = bool(np.isfinite(normal.cost) and gain > 0)
    size = float(np.max(np.abs(move), initial=0.0))
    promised = float(predicted / max(state.normal.cost, 1e-300))
    if is_better:
        # A gain beyond 2 says no more than 2: the damping falls to a third at most.
        damping = max(state.damping * max(1 / 3, 1 - (2 * min(gain, 2.0) - 1) ** 3), LEAST_DAMPING)
        decrease = (state.normal.cost - normal.cost) / max(state.normal.cost, 1e-300)
        return State(z, normal, damping, 2.0), Info(
            normal.cost, True, damping, size, decrease, promised
        )
    damping = min(state.damping * state.growth, 1e30)
    info = Info(state.normal.cost, False, damping, size, 0.0, promised)
    return state._replace(damping=damping, growth=min(state.growth * 2, 1e30)), info


def promise(state: State, bounds: Bounds) -> float:
    """Return the relative fall of the cost that the quadratic model promises without damping."""
    move = _damped_step(state._replace(damping=LEAST_DAMPING), bounds)
    return float(_predicted(state.normal, move) / max(state.normal.cost, 1e-300))


def _predicted(normal: Normal, move: np.ndarray) -> float:
    """Return by how much the quadratic model falls along a move."""
    return -float(normal.slope @ move + 0.5 * move @ normal.matrix @ move)


def _damped_step(state: State, bounds: Bounds) -> Float[np.ndarray, " param"]:
    """Return the damped step that is best within the box.

    Merely cutting a step at the bounds would spoil what the quadratic model promised: coordinates
    that hang together must know of each other's bounds.
    """
    live = np.diag(state.normal.matrix) > 0  # what has no effect stays where it is
    if not live.any():
        return np.zeros_like(state.z)
    slope, matrix = state.normal.slope[live], state.normal.matrix[np.ix_(live, live)]
    # Marquardt's scaling, with a floor for what has next to no effect.
    diagonal = np.diag(matrix)
    unit = np.sqrt(np.maximum(diagonal, 1e-12 * np.max(diagonal, initial=0.0)))
    values, vectors = np.linalg.eigh(matrix / np.outer(unit, unit))
    size = np.sqrt(np.maximum(values, 0.0) + state.damping)
    low = (bounds.low - state.z)[live] * unit
    high = (bounds.high - state.z)[live] * unit
    wanted = -(vectors.T @ (slope / unit)) / size
    found = scipy.optimize.lsq_linear(size[:, None] * vectors.T, wanted, (low, high), "bvls")
    move = np.zeros_like(state.z)
    move[live] = found.x / unit
    return move


def held_at_bounds(
    z: Float[np.ndarray, " param"], slope: Float[np.ndarray, " param"], bounds: Bounds
) -> Bool[np.ndarray, " param"]:
    """Return which coordinates sit on a bound with the cost falling outward."""
    return ((z <= bounds.low) & (slope > 0)) | ((z >= bounds.high) & (slope < 0))


def without(normal: Normal, held: Bool[np.ndarray, " param"]) -> Normal:
    """Return normal equations that leave the held coordinates alone: there they have no effect."""
    slope = np.where(held, 0.0, normal.slope)
    return Normal(normal.cost, slope, np.where(np.outer(~held, ~held), normal.matrix, 0.0))
