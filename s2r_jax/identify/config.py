"""Settings of identification. Imports nothing heavy: the command line shows them as help."""

from dataclasses import dataclass
from typing import Literal

Method = Literal["auto", "lm", "fd", "adam", "cmaes", "bayes", "surrogate"]


@dataclass(frozen=True)
class IdentifyConfig:
    """How a fit is done."""

    method: Method = "auto"
    """`lm`: Levenberg-Marquardt with forward-mode derivatives through the physics (engine mjx).
    `fd`: the same with central differences on the C engine. `auto`: `lm` where its derivatives
    agree with differences, else `fd`. `adam`: reverse mode through the physics. `cmaes`, `bayes`,
    `surrogate`: without derivatives of the simulator, on the C engine."""
    window: float | None = None
    """Length of the simulated windows [s].

    0: whole logs. Default: robot.yaml's `identify: window`, else 1 s.
    """
    first_window: float = 1.0
    """Windows to fit first where the window is the whole log [s]: the error of a long simulation
    has many local minima. 0: none."""
    iterations: int = 40
    """Most steps: of Levenberg-Marquardt, Adam, or generations of the other methods."""
    step: float = 1e-5
    """Step of central differences, a share of each parameter (of 1 where that is larger).

    Small, for true derivatives. Where contact or chaos make the signals rough, slopes over 0.05 or
    so are those that the search and the uncertainty should see.
    """
    tolerance: float = 1e-6
    """Stop when the cost falls by less than this share in a step, or by less than noise explains.

    0: only when nothing moves.
    """
    starts: int = 1
    """Searches: the first from the start values, others from random points in the bounds."""
    robust: float | None = None
    """Residuals beyond this many standard deviations count linearly (pseudo-Huber).

    0: plain squares. Default: robot.yaml's `identify: robust`, else 0.
    """
    seed: int = 0
    """Of the random starts and of the derivative check."""
    holdout: float = 0.2
    """Share held out to count errors: whole logs, or the end of each when there are fewer than
    five. 0: none."""
    refit: bool = True
    """Fit the share that was held out too, once its errors are counted."""
    profile: int = 1
    """How many of the weakest parameters get a profile-likelihood interval: up to 16 evaluations
    each, after the last fit. 0: none."""
