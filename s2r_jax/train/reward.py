"""Reward terms in the field's words, over named signals; one function for JAX and numpy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

#: Term -> (what it is, the keys that it takes besides `term` and `weight`).
TERMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cosine": ("1 at the target, 0 half a period away", ("signal", "target", "period")),
    "near": ("exp(-(error / width)^2)", ("signal", "target", "period", "width")),
    "square": ("squared error", ("signal", "target", "period")),
    "absolute": ("absolute error", ("signal", "target", "period")),
    "value": ("the signal itself", ("signal",)),
    "action": ("squared action", ()),
    "action_rate": ("squared change of the action since the last control period", ()),
    "alive": ("1", ()),
}


@dataclass(frozen=True)
class Reward:
    """One weighted term of the reward; vector signals are summed over their entries."""

    kind: str
    """One of `TERMS`."""
    weight: float
    """Reward per second."""
    entries: tuple[int, ...] = ()
    """Into the vector of the task's signals."""
    target: float = 0.0
    """In the signal's unit."""
    period: float = math.inf
    """Of an angle [rad]: the error is the shortest way round. inf for none."""
    width: float = 1.0
    """Error at which `near` has fallen to 1/e, in the signal's unit."""


def error(value: Any, target: float, period: float, xp: ModuleType) -> Any:
    """Return value - target, the shortest way round where there is a period."""
    difference = value - target
    if math.isinf(period):
        return difference
    return difference - period * xp.round(difference / period)


def reward(
    terms: Sequence[Reward], signals: Any, action: Any, previous: Any, xp: ModuleType
) -> Any:
    """Return the reward per second `[]`, the weighted sum of the terms.

    Args:
        terms: The task's terms.
        signals: True values of the task's signals `[signal]`, after the action.
        action: The action that led here `[nu]`.
        previous: The one before.
        xp: `jax.numpy` or `numpy`.
    """
    total = 0.0 * xp.sum(action)
    for term in terms:
        total = total + term.weight * _value(term, signals, action, previous, xp)
    return total


def _value(term: Reward, signals: Any, action: Any, previous: Any, xp: ModuleType) -> Any:
    if term.kind == "alive":
        return 1.0
    if term.kind == "action":
        return xp.sum(action**2)
    if term.kind == "action_rate":
        return xp.sum((action - previous) ** 2)
    values = xp.stack([signals[i] for i in term.entries])
    if term.kind == "value":
        return xp.sum(values)
    wrong = error(values, term.target, term.period, xp)
    if term.kind == "cosine":
        return xp.sum(0.5 + 0.5 * xp.cos(2 * math.pi / term.period * wrong))
    if term.kind == "near":
        return xp.sum(xp.exp(-((wrong / term.width) ** 2)))
    if term.kind == "square":
        return xp.sum(wrong**2)
    return xp.sum(xp.abs(wrong))
