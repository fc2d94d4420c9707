"""From what identification knows to the worlds worth training in.

An identified parameter varies around its estimate by max(k standard errors, floor), keeping the
correlations of the posterior; one about which the logs say nothing varies over its prior, or over
its bounds. The width beyond the posterior's is ignorance of another kind, so it is independent:
with d = k std / width the correlation becomes ρ_ij d_i d_j, a correlation matrix again.
"""

import numpy as np

from s2r_jax.errors import BadValue, UnknownName
from s2r_jax.parameters import ParameterSet
from s2r_jax.randomize.choice import Choice, bounds
from s2r_jax.randomize.config import RandomizeConfig
from s2r_jax.randomize.distribution import Distribution, Marginal, build
from s2r_jax.types import Posterior

#: An estimate on its bound may miss it by the rounding of its transform, not by more.
ROUNDING = 1e-6


def from_posterior(
    posterior: Posterior, parameters: ParameterSet, config: RandomizeConfig
) -> Distribution:
    """Return the distribution around an identified θ.

    Args:
        posterior: Of all parameters, or of some; the others count as not identifiable.
        parameters: What the distribution is over.
        config: Widths.

    Raises:
        UnknownName: The posterior is of a parameter that the robot does not have.
        BadValue: An estimate outside its bounds, or an identifiable parameter without a finite
            standard error.
    """
    choices = posterior_choices(posterior, parameters, config)
    size = len(parameters)
    correlation, kept = np.eye(size), np.zeros(size)
    order = [parameters.index(name) for name in posterior.names]
    covariance = np.where(np.outer(posterior.identifiable, posterior.identifiable),
                          posterior.covariance, 0.0)  # fmt: skip
    error = np.sqrt(np.where(posterior.identifiable, np.diagonal(covariance), 1.0))
    correlation[np.ix_(order, order)] = covariance / np.outer(error, error)
    for row, index in enumerate(order):
        if posterior.identifiable[row]:
            std = _standard_error(posterior, parameters, row)
            kept[index] = config.posterior_scale * std / choices[index].marginal.std
    correlation = correlation * np.outer(kept, kept)
    np.fill_diagonal(correlation, 1.0)
    return build(parameters, [choice.marginal for choice in choices], correlation)


def posterior_choices(
    posterior: Posterior, parameters: ParameterSet, config: RandomizeConfig
) -> list[Choice]:
    """Return the marginals of `from_posterior`, each with its reason."""
    for name in posterior.names:
        if name not in parameters.names:
            raise UnknownName("posterior", name, parameters.names, "parameter")
    rows = {name: row for row, name in enumerate(posterior.names)}
    choices = []
    for index, name in enumerate(parameters.names):
        row = rows.get(name)
        if row is not None and posterior.identifiable[row]:
            choices.append(_identified(posterior, parameters, config, row, index))
        else:
            is_at_bound = row is not None and bool(posterior.at_bound[row])
            why = (
                "the estimate stands on its bound" if is_at_bound else "the logs do not identify it"
            )
            choices.append(_unidentified(parameters, index, why))
    return choices


def _identified(
    posterior: Posterior, parameters: ParameterSet, config: RandomizeConfig, row: int, index: int
) -> Choice:
    name, value = parameters.names[index], float(posterior.value[row])
    low, high = parameters.low[index], parameters.high[index]
    slack = ROUNDING * (high - low)
    if not low - slack <= value <= high + slack:
        raise BadValue("posterior", f"value of {name}", value, f"a number in [{low:g}, {high:g}]")
    value = min(max(value, low), high)
    error = _standard_error(posterior, parameters, row)
    if not 0 < error < np.inf:
        expected = "a positive, finite number for an identifiable parameter"
        raise BadValue("posterior", f"standard error of {name}", error, expected)
    floor = config.friction_floor if "friction" in name else config.floor
    is_log = parameters.transforms[index] == "log"
    # Of an estimate near zero a percentage is nothing; then a tenth of the range stands for it.
    floor *= 1.0 if is_log else max(abs(value), 0.1 * (high - low))
    std = max(config.posterior_scale * error, floor)
    width = f"{config.posterior_scale:g} standard errors" if std > floor else "floor of the width"
    marginal = Marginal("lognormal" if is_log else "normal", low, high, value, std)
    return Choice(marginal, f"identified: {width}")


def _unidentified(parameters: ParameterSet, index: int, why: str) -> Choice:
    start, prior = parameters.start[index], parameters.prior_std[index]
    if not np.isfinite(prior):
        return bounds(parameters, index, why)
    is_log = parameters.transforms[index] == "log"
    low, high = parameters.low[index], parameters.high[index]
    std = prior / start if is_log else prior  # first order: d ln θ = dθ / θ
    marginal = Marginal("lognormal" if is_log else "normal", low, high, start, std)
    return Choice(marginal, f"prior: {why}")


def _standard_error(posterior: Posterior, parameters: ParameterSet, row: int) -> float:
    """Return the standard error in the marginal's coordinates: of ln θ for `log`, else of θ."""
    if parameters.transforms[parameters.index(posterior.names[row])] == "log":
        return float(np.sqrt(posterior.covariance[row, row]))
    return float(posterior.std[row])
