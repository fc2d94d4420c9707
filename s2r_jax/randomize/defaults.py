"""Ranges to start from when no log of the machine exists: six quantities, matched by target.

A range is used where it overlaps the bounds that robot.yaml declares, and only there; other
parameters vary over their bounds. Compare Tan et al. 2018, arXiv:1804.10332, table I.
"""

import fnmatch
from typing import NamedTuple

from s2r_jax.parameters import ParameterSet
from s2r_jax.randomize.choice import Choice, bounds
from s2r_jax.randomize.distribution import Distribution, Kind, Marginal, build


class Default(NamedTuple):
    """One row of the table."""

    pattern: str
    """Glob over parameter names."""
    kind: Kind
    low: float
    high: float
    is_relative: bool
    """Whether the numbers are factors on the nominal value, or values of the parameter itself."""
    reason: str
    mean: float | None = None
    std: float = 0.0


DEFAULTS = (
    Default("geom/*/friction", "uniform", 0.3, 1.2, False, "from wet tile to rubber on carpet"),
    Default("body/*/mass", "loguniform", 0.8, 1.25, True, "mass is a scale, 0.8 = 1 / 1.25"),
    Default("*/*/strength", "normal", 0.0, 2.0, True, "motors of one batch", 1.0, 0.08),
    Default("latency/action", "uniform", 0.0, 0.025, False, "bus, driver and scheduler [s]"),
    Default("terrain/roughness", "uniform", 0.0, 0.15, False, "flat floor to rubble [m]"),
    # 22 V to 25.2 V of a pack of nominally 24 V, carried over to packs of other voltages.
    Default("battery/voltage", "uniform", 22 / 24, 25.2 / 24, True, "nearly empty to full"),
)


def from_defaults(parameters: ParameterSet) -> Distribution:
    """Return the default ranges where the table has one, the bounds elsewhere."""
    return build(parameters, [choice.marginal for choice in default_choices(parameters)])


def default_choices(parameters: ParameterSet) -> list[Choice]:
    """Return the marginals of `from_defaults`, each with its reason."""
    return [_choose(parameters, index) for index in range(len(parameters))]


def _choose(parameters: ParameterSet, index: int) -> Choice:
    name, nominal = parameters.names[index], parameters.nominal[index]
    row = next((row for row in DEFAULTS if fnmatch.fnmatchcase(name, row.pattern)), None)
    if row is None:
        return bounds(parameters, index, "no default for this quantity")
    operations = {e.operation for e in parameters.effects if index in e.params}
    if "add" in operations or ("scale" in operations and not row.is_relative):
        return bounds(parameters, index, f"the default of {row.pattern} is no offset or factor")
    factor = nominal if row.is_relative else 1.0
    low = max(row.low * factor, parameters.low[index])
    high = min(row.high * factor, parameters.high[index])
    mean = None if row.mean is None else row.mean * factor
    if not low < high or not (mean is None or low <= mean <= high):
        text = f"[{row.low * factor:g}, {row.high * factor:g}]"
        return bounds(parameters, index, f"they do not overlap the default range {text}")
    marginal = Marginal(row.kind, low, high, mean, row.std * factor)
    return Choice(marginal, f"default: {row.reason}")
