"""A marginal together with the sentence that says where it comes from."""

from typing import NamedTuple

from s2r_jax.parameters import ParameterSet
from s2r_jax.randomize.distribution import Marginal, over_bounds


class Choice(NamedTuple):
    """One parameter's marginal and its reason, for reports and for the file."""

    marginal: Marginal
    reason: str


def bounds(parameters: ParameterSet, index: int, why: str) -> Choice:
    """Return the choice of someone who knows nothing but the bounds."""
    return Choice(over_bounds(parameters, index), f"bounds: {why}")
