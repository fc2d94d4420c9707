"""What a policy sees.

One function for the simulator (JAX) and the robot (numpy), so that the two cannot drift apart.
"""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from s2r_jax.errors import BadValue, MissingKey, UnknownName

Kind = Literal["value", "cos", "sin", "action"]


class Term(NamedTuple):
    """One group of entries of the observation: `scale * (f(signals[indices]) - offset)`."""

    kind: Kind
    indices: tuple[int, ...]
    """Into the sensor vector, or into the previous action."""
    offset: float
    scale: float


def observe(terms: Sequence[Term], sensors: Any, action: Any, xp: ModuleType = np) -> Any:
    """Return the observation `[obs]` of the sensor vector and the previous action `[nu]`."""
    functions = {"value": lambda x: x, "cos": xp.cos, "sin": xp.sin, "action": lambda x: x}
    parts = []
    for term in terms:
        source = action if term.kind == "action" else sensors
        parts.append(
            (functions[term.kind](source[np.array(term.indices)]) - term.offset) * term.scale
        )
    return xp.concatenate(parts)


def parse(
    declared: Sequence[Mapping[str, Any]],
    signals: Mapping[str, tuple[int, ...]],
    nu: int,
    place: str,
) -> tuple[Term, ...]:
    """Return the terms of a list like `[{signal: joint/hinge/position, as: cos}]`.

    Args:
        declared: One mapping a term; `signal` may be a glob-free name, `as` one of value, cos, sin;
            `offset`, `scale`.
        signals: Signal name -> its entries in the sensor vector.
        nu: Number of actuators.
        place: File and key, for messages.

    Raises:
        UnknownName: An unknown key, signal or form.
        MissingKey: A term with neither `signal` nor `action`.
    """
    terms = []
    for entry in declared:
        if not isinstance(entry, Mapping):
            raise BadValue(place, "term", entry, "a mapping such as {signal: NAME, as: cos}")
        for key in entry:
            if key not in ("signal", "action", "as", "offset", "scale"):
                raise UnknownName(place, key, ("signal", "action", "as", "offset", "scale"), "key")
        offset, scale = float(entry.get("offset", 0.0)), float(entry.get("scale", 1.0))
        if "action" in entry:
            if entry["action"] != "previous":
                raise UnknownName(place, entry["action"], ("previous",), "action")
            terms.append(Term("action", tuple(range(nu)), offset, scale))
            continue
        if "signal" not in entry:
            raise MissingKey(place, "signal", entry)
        if entry["signal"] not in signals:
            raise UnknownName(place, entry["signal"], signals, "signal")
        form = entry.get("as", "value")
        if form not in ("value", "cos", "sin"):
            raise UnknownName(place, form, ("value", "cos", "sin"), "form")
        terms.append(Term(form, tuple(signals[entry["signal"]]), offset, scale))
    return tuple(terms)


def size(terms: Sequence[Term]) -> int:
    """Return the length of the observation."""
    return sum(len(term.indices) for term in terms)
