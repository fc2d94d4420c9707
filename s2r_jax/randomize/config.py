"""What a person may choose about randomization. Imports no JAX."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RandomizeConfig:
    """How wide the worlds vary around what identification found.

    The article starts at ±30 % of the estimate for everything; `floor = 0.15` gives that.
    """

    posterior_scale: float = 2.0
    """Standard deviation of a draw, in standard errors of the estimate. Above 1, because standard
    errors assume that the simulator has the right structure, which no simulator has."""
    floor: float = 0.05
    """Smallest relative standard deviation of an identified parameter: ±10 % at two deviations, the
    article's width for masses. Machines of one make differ, and one machine wears."""
    friction_floor: float = 0.15
    """The same for parameters whose name contains "friction": ±30 %, because friction moves with
    temperature, load and floor more than any other quantity."""


@dataclass(frozen=True)
class ReturnGapConfig:
    """Adaptation of the width to the return that training reaches; the article's numbers."""

    rate: float = 0.05
    """Relative change of the width at each adaptation."""
    widen_above: float = 0.1
    """Relative gap (return - target) / |target| above which the width grows."""
    narrow_below: float = -0.2
    """Relative gap below which the width shrinks."""
    min_width: float = 0.1
    """Smallest factor on the reference width; at 0 the policy would see a single world."""
    max_width: float = 10.0
    """Largest factor on the reference width; ranges end at the parameter's bounds anyway, and a
    normal of ten times its width is nearly uniform between them."""
