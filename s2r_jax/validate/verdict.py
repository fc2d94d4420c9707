"""The verdict: GO where a policy has shown in simulation what the thresholds ask, else NO-GO."""

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from s2r_jax.errors import BadValue
from s2r_jax.parameters import ParameterSet
from s2r_jax.validate import statistics
from s2r_jax.validate.config import ValidateConfig
from s2r_jax.validate.influence import influences
from s2r_jax.validate.statistics import Interval
from s2r_jax.validate.sweep import Sweep

#: Chance of naming a parameter that has nothing to do with the failures.
SIGNIFICANCE = 0.01


class Validation(NamedTuple):
    """The result of a validation; the fields are those of validation.json."""

    dr_mean_return: float
    """Mean over the worlds; NaN where none was finite."""
    dr_worst5_return: float
    """Mean of the worst 5 %, or of the tail that was configured."""
    success_rate: Interval
    device_hours: float
    """Hours of computing devices that training and validation have taken [h]."""
    verdict: Literal["GO", "NO-GO"]
    reasons: tuple[str, ...]
    """Sentences: for NO-GO what failed, with its number, and what the failures share; for GO what
    was met."""


def validate(
    sweep: Sweep, parameters: ParameterSet, config: ValidateConfig, device_hours: float
) -> Validation:
    """Return the verdict on a sweep.

    A world that is not finite counts as a failure, stays out of the returns and forbids GO: its
    simulation says nothing of the machine.

    Args:
        sweep: Of at least one world.
        parameters: Names of θ.
        config: Thresholds.
        device_hours: Spent so far, for the record [h].
    """
    check(config)
    returns = np.asarray(sweep.reward, dtype=float)[sweep.is_finite]
    success = statistics.success_rate(sweep.success, config.confidence)
    average = float(returns.mean()) if returns.size else math.nan
    worst = statistics.worst_mean(returns, config.tail) if returns.size else math.nan
    failed = judge(success, worst, int((~sweep.is_finite).sum()), config)
    if failed:
        reasons = (*failed, *_broken(sweep, parameters), *_shared(sweep, parameters))
        return Validation(average, worst, success, device_hours, "NO-GO", reasons)
    return Validation(average, worst, success, device_hours, "GO", _met(success, worst, config))


def judge(
    success: Interval, worst_return: float, not_finite: int, config: ValidateConfig
) -> tuple[str, ...]:
    """Return a sentence for each criterion that is not met; none means GO."""
    failed = []
    if not_finite:
        failed.append(
            f"{not_finite} of {success.n} worlds are not finite: their simulation diverged, and "
            "they count as failures."
        )
    if not success.low >= config.min_success:
        failed.append(f"{_success(success, config)}, below the {config.min_success:.1%} required.")
        least = statistics.least_n(config.min_success, config.confidence)
        if success.n < least:
            failed.append(
                f"{success.n} worlds are too few: even without a failure {config.min_success:.1%} "
                f"takes at least {least}."
            )
    threshold = config.min_worst5_return
    if threshold is not None and not worst_return >= threshold:
        failed.append(
            f"Mean return of the worst {config.tail:.1%} of the worlds is {worst_return:.4g}, "
            f"below the {threshold:.4g} required."
        )
    return tuple(failed)


def check(config: ValidateConfig) -> None:
    """Refuse thresholds that make no sense.

    Raises:
        BadValue: Names the first one.
    """
    for name in ("min_success", "confidence"):
        if not 0 < getattr(config, name) < 1:
            value = getattr(config, name)
            raise BadValue("validation", name, value, "a fraction between 0 and 1")
    if not 0 < config.tail <= 1:
        raise BadValue("validation", "tail", config.tail, "a fraction in (0, 1]")


def document(validation: Validation) -> dict[str, Any]:
    """Return what validation.json holds; a number that is not finite becomes null."""
    plain = validation._asdict() | {
        "success_rate": validation.success_rate._asdict(),
        "reasons": list(validation.reasons),
    }
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in plain.items()
    }


def _success(success: Interval, config: ValidateConfig) -> str:
    succeeded = round(success.value * success.n)
    return (
        f"Success in {succeeded} of {success.n} worlds is {success.value:.1%}, with "
        f"{config.confidence:.0%} confidence at least {success.low:.1%}"
    )


def _met(success: Interval, worst_return: float, config: ValidateConfig) -> tuple[str, ...]:
    met = [f"{_success(success, config)}; {config.min_success:.1%} is required."]
    if config.min_worst5_return is not None:
        met.append(
            f"Mean return of the worst {config.tail:.1%} of the worlds is {worst_return:.4g}; "
            f"{config.min_worst5_return:.4g} is required."
        )
    return tuple(met)


def _broken(sweep: Sweep, parameters: ParameterSet) -> list[str]:
    """Name the first world that is not finite, so that it can be simulated again."""
    broken = np.flatnonzero(~sweep.is_finite)
    if not broken.size:
        return []
    theta = parameters.named(sweep.theta[broken[0]])
    listed = ", ".join(f"{name} = {value:.6g}" for name, value in theta.items())
    return [f"The first world that is not finite is number {broken[0]}, with {listed}."]


def _shared(sweep: Sweep, parameters: ParameterSet) -> list[str]:
    """Say which values the failures share."""
    found = influences(parameters.names, sweep.theta, ~sweep.success)
    words = {
        "high": "a high",
        "low": "a low",
        "extreme": "an extreme, high or low,",
        "middle": "a middling",
    }
    return [
        f"Failures share {words[influence.side]} {influence.name} (rank correlation "
        f"{influence.correlation:+.2f})."
        for influence in found
        if influence.pvalue < SIGNIFICANCE
    ]
