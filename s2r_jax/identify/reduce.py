"""Normal equations of θ with the starts of the windows eliminated.

Each window's start concerns only its own rows, so the full system is an arrow: one small block a
window beside the columns of θ. Eliminating the blocks (Schur complement) leaves a system of the
size
of θ; `back_substitute` gives the starts that belong to a step of θ.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from s2r_jax.identify.jacobian import Linearization


class Reduced(NamedTuple):
    """Slope and Gauss-Newton matrix of θ, and what recovers the starts."""

    cost: float
    slope: Float[np.ndarray, " param"]
    matrix: Float[np.ndarray, "param param"]
    block: Float[np.ndarray, "segment start start"]
    coupling: Float[np.ndarray, "segment start param"]
    start_slope: Float[np.ndarray, "segment start"]


def reduce(
    linear: Linearization,
    starts: Float[np.ndarray, "segment start"],
    std: Float[np.ndarray, " start"],
    robust: float = 0.0,
    weight: Float[np.ndarray, " sensor"] | None = None,
) -> Reduced:
    """Return the reduced normal equations.

    Args:
        linear: Residual and derivatives of all windows.
        starts: Present displacements of the starts.
        std: Their standard deviations.
        robust: Width of the pseudo-Huber loss in standard deviations; 0 for squares.
        weight: Of each signal's rows, 1 by default.
    """
    count, time, sensor = linear.residual.shape
    r = linear.residual.reshape(count, time * sensor)
    j = linear.jacobian.reshape(count, time * sensor, linear.jacobian.shape[-1])
    k = linear.start.reshape(count, time * sensor, starts.shape[-1])
    rows, cost = loss(r, robust)
    if weight is not None:
        rows = rows * np.broadcast_to(weight, linear.residual.shape).reshape(count, -1)
    jw = j * rows[..., None]
    slope = np.einsum("snp,sn->p", jw, r)
    matrix = np.einsum("snp,snq->pq", jw, j)
    kw = k * rows[..., None]
    block = np.einsum("snd,sne->sde", kw, k) + np.diag(std**-2.0)
    coupling = np.einsum("snd,snp->sdp", kw, j)
    start_slope = np.einsum("snd,sn->sd", kw, r) + starts / std**2
    if starts.shape[-1]:
        solved = np.linalg.solve(block, np.concatenate([coupling, start_slope[..., None]], -1))
        matrix = matrix - np.einsum("sdp,sdq->pq", coupling, solved[..., :-1])
        slope = slope - np.einsum("sdp,sd->p", coupling, solved[..., -1])
        cost = cost + 0.5 * float(((starts / std) ** 2).sum())
    return Reduced(cost, slope, matrix, block, coupling, start_slope)


def back_substitute(
    reduced: Reduced, move: Float[np.ndarray, " param"]
) -> Float[np.ndarray, "segment start"]:
    """Return the best moves of the starts for a move of z."""
    if not reduced.start_slope.size:
        return np.zeros_like(reduced.start_slope)
    right = reduced.start_slope + reduced.coupling @ move
    return -np.linalg.solve(reduced.block, right[..., None])[..., 0]


def loss(values: np.ndarray, width: float) -> tuple[np.ndarray, float]:
    """Return row weights and cost of plain squares (width 0) or of the pseudo-Huber loss."""
    if width <= 0:
        return np.ones_like(values), 0.5 * float((values**2).sum())
    root = np.sqrt(1 + (values / width) ** 2)
    return 1 / root, float(width**2 * (root - 1).sum())
