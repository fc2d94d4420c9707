"""Compare the errors of two models on the same windows, so that "better" is not noise.

Errors next to each other in time go together; windows are cut into blocks longer than that, and
whole blocks are drawn again (block bootstrap: Künsch, Annals of Statistics 17, 1989). Both models
are counted on the same blocks: what is hard for both cancels.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from s2r_jax.identify.noise import groups
from s2r_jax.identify.segments import Segments
from s2r_jax.signals import Signal

#: Correlation times that a block lasts: beyond three little is left of the correlation.
BLOCK = 3.0
#: Draws; the ends of a 95 % interval then rest on 50 draws each.
DRAWS = 2000
#: Blocks below which an interval would itself be noise.
FEWEST_BLOCKS = 5


class Interval(NamedTuple):
    """A ratio of errors with its 95 % interval."""

    value: float
    low: float
    high: float
    blocks: int
    """Stretches of the logs that count as independent."""


def squares(
    signals: tuple[Signal, ...],
    error: Float[np.ndarray, "segment time sensor"],
    segments: Segments,
    correlation_time: Float[np.ndarray, " sensor"],
) -> Float[np.ndarray, "block group"]:
    """Return the sum of squared errors of each block, by kind of signal.

    Args:
        signals: The robot's signals.
        error: Simulated minus measured.
        segments: The windows.
        correlation_time: Control periods worth one independent sample, of each signal.
    """
    weight = np.asarray(segments.weight) > 0
    found = []
    for window in range(error.shape[0]):
        seen = np.flatnonzero(weight[window].any(-1))
        if not seen.size:
            continue
        length = max(1, int(np.ceil(BLOCK * float(np.max(correlation_time, initial=1.0)))))
        count = max(1, (int(seen[-1]) + 1) // length)
        for rows in np.array_split(np.arange(seen[-1] + 1), count):
            square = np.where(weight[window, rows], error[window, rows], 0.0) ** 2
            found.append([square[:, entries].sum() for entries in groups(signals)])
    return np.array(found, dtype=float).reshape(-1, len(groups(signals)))


def ratio(
    first: Float[np.ndarray, "block group"], second: Float[np.ndarray, "block group"]
) -> Interval:
    """Return the rms error of the first model as a share of the second's, over all signals.

    Each kind of signal counts by its share of the second model's error: units do not mix.
    """
    ours, theirs = _relative(first, second)
    if not theirs.sum() > 0:
        return Interval(np.nan, np.nan, np.nan, ours.size)
    chosen = draws(ours.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.sqrt(ours[chosen].sum(1) / theirs[chosen].sum(1))
    low, high = np.nanquantile(drawn, (0.025, 0.975))
    value = float(np.sqrt(ours.sum() / theirs.sum()))
    return Interval(value, float(low), float(high), ours.size)


def spread(
    errors: Float[np.ndarray, "block group"], scale: Float[np.ndarray, "block group"]
) -> Float[np.ndarray, " block"]:
    """Return each block's squared error, relative to the whole of `scale` for each kind."""
    return _relative(errors, scale)[0]


def draws(blocks: int) -> Int[np.ndarray, "draw block"]:
    """Return which blocks each draw takes; always the same ones, so that draws are paired."""
    return np.random.default_rng(0).integers(0, blocks, (DRAWS, blocks))


def _relative(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = second.sum(0)
    used = total > 0
    return (first[:, used] / total[used]).sum(1), (second[:, used] / total[used]).sum(1)
