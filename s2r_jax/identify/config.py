"""Settings of identification. Imports nothing heavy: the command line shows them as help."""

from dataclasses import dataclass
from typing import Literal

METHODS = ("auto", "lm", "fd")
Method = Literal["auto", "lm", "fd"]


@dataclass(frozen=True)
class IdentifyConfig:
    """How a fit is done."""

    method: Method = "auto"
    """`lm`: forward-mode derivatives through the physics (engine mjx). `fd`: central differences on
    the C engine.
    `auto`: the cheaper one whose derivatives pass the check."""
    window: float | None = None
    """Length of the simulated windows [s].

    0: whole logs. Default: robot.yaml's `identify: window`, else 1 s.
    """
    iterations: int = 40
    """Most Levenberg-Marquardt steps."""
    tolerance: float = 1e-6
    """Stop when the cost falls by less than this share in a step."""
    starts: int = 1
    """Searches: the first from the start values, others from random points in the bounds."""
    robust: float = 0.0
    """Residuals beyond this many standard deviations count linearly (pseudo-Huber).

    0: plain squares.
    """
    seed: int = 0
    """Of the random starts and of the derivative check."""
    holdout: float = 0.2
    """Share held out to count errors, then fitted too: whole logs, or the end of each when there
    are fewer than five. 0: none."""
