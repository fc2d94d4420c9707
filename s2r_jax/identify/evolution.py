"""A search over excitations: random ones first, then children of the best.

Evolution with recombination by actuator, since what moves one joint well mostly does so whatever
moves the others. Its step follows success, after Rechenberg's rule.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from s2r_jax.identify.excitation import LEAST

#: Step in the unit cube at first, and its factors after a generation with and without success.
STEP, LONGER, SHORTER = 0.25, 1.2, 0.8
#: Parents that have children; share of actuators that change, of genes in them, and of actuators
#: taken from another parent.
PARENTS, MOVED, CHANGED, SWAPPED = 4, 0.4, 0.35, 0.3


class Candidate(NamedTuple):
    """One excitation, and what is known of it."""

    family: str
    coefficients: Float[np.ndarray, "nu gene"]
    gain: float = -np.inf
    """Mean information over the drawn θ [nat]."""
    share: float = np.inf
    """Largest share of a limit that it uses."""


def first(
    families: tuple[str, ...], count: int, shape: tuple[int, int], rng: np.random.Generator
) -> list[Candidate]:
    """Return random candidates, all families alike.

    Args:
        families: To choose from.
        count: Candidates.
        shape: Actuators, and coefficients of each.
        rng: Of the coefficients.
    """
    found = []
    for index in range(count):
        coefficients = rng.random(shape)
        coefficients[:, 0] = rng.uniform(0.3, 1.0)
        found.append(Candidate(families[index % len(families)], coefficients))
    return found


def ranked(candidates: list[Candidate], most: float) -> list[Candidate]:
    """Return candidates, best first: within `most` of every limit by gain, then by violation."""
    return sorted(
        candidates, key=lambda c: (c.share > most, -c.gain if c.share <= most else c.share)
    )


def children(
    parents: list[Candidate], count: int, step: float, rng: np.random.Generator
) -> list[Candidate]:
    """Return candidates near the best ones.

    Args:
        parents: Best first.
        count: Children.
        step: Standard deviation of a change, in the unit cube.
        rng: Of all choices.
    """
    best = parents[:PARENTS]
    found = []
    for index in range(count):
        parent = best[min(int(rng.geometric(0.5)) - 1, len(best) - 1)] if index else best[0]
        coefficients = parent.coefficients.copy()
        others = [c for c in best if c.family == parent.family and c is not parent]
        if others:
            other = others[int(rng.integers(len(others)))]
            taken = rng.random(len(coefficients)) < SWAPPED
            coefficients[taken] = other.coefficients[taken]
        # A few joints at a time: what is good about the others should stay.
        few = rng.permutation(len(coefficients))[: max(1, round(MOVED * len(coefficients)))]
        changed = np.zeros(coefficients.shape, bool)
        changed[few] = rng.random((len(few), coefficients.shape[1])) < CHANGED
        moved = coefficients + changed * step * rng.standard_normal(coefficients.shape)
        # Reflected at the walls of the cube.
        moved = np.abs(moved)
        coefficients = np.clip(np.where(moved > 1, 2 - moved, moved), 0.0, 1.0)
        found.append(Candidate(parent.family, coefficients))
    return found


def shrunk(candidate: Candidate, factor: float) -> Candidate:
    """Return the candidate with all amplitudes, offsets included, nearer to the middle."""
    coefficients = candidate.coefficients.copy()
    level = coefficients[:, 0] + np.log(factor) / np.log(1 / LEAST)
    coefficients[:, 0] = np.maximum(level, 0.0)
    # The offset fills what the level leaves; it must shrink too.
    coefficients[:, 1] = 0.5 + factor ** (1 / 3) * (coefficients[:, 1] - 0.5)
    return candidate._replace(coefficients=coefficients)
