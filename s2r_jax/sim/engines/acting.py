"""A model in which every parameter acts, on every engine alike.

Some numbers do nothing because of a flag beside them, or because they are 0 when the model is built
(`check.cannot_act`). Where such a gate opens without moving the robot, it is opened here, once for
all engines, so that they agree; where it does not, the parameter is an error, never a silent no-op.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from s2r_jax import targets
from s2r_jax.errors import Unsupported
from s2r_jax.parameters import DERIVED, ParameterSet, is_model_field
from s2r_jax.sim import check, elements, gates

#: Change of a nominal value that opening a gate may bring: that of a friction loss of 0.
NEUTRAL = gates.SMALLEST_FRICTIONLOSS


class Dead(NamedTuple):
    """A parameter that moves nothing."""

    name: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.message}; {self.remedy}"


class Opened(NamedTuple):
    """The model with its gates opened, and the parameters that still cannot act."""

    model: mujoco.MjModel
    dead: tuple[Dead, ...]


def promoted(engine: str, model: mujoco.MjModel, parameters: ParameterSet) -> mujoco.MjModel:
    """Return the model in which all parameters act; itself where they do already.

    Args:
        engine: Name of the engine, for messages.
        model: Compiled model with the nominal values; it is left alone.
        parameters: What θ touches; fields outside the engine are no concern of this function.

    Raises:
        Unsupported: Names every parameter that cannot act, why, and what to do.
    """
    opened = open_gates(model, parameters)
    if opened.dead:
        causes = "; ".join(f"{dead.name} ({dead.message})" for dead in opened.dead)
        remedies = dict.fromkeys(dead.remedy for dead in opened.dead)
        raise Unsupported(engine, f"a parameter that moves nothing: {causes}", "; ".join(remedies))
    return opened.model


def open_gates(model: mujoco.MjModel, parameters: ParameterSet) -> Opened:
    """Open what opens without moving the robot, and tell which parameters stay without effect."""
    touched = _touched_rows(model, parameters)
    given = model
    for field, rows in touched.items():
        if any(gate.open and field in gate.fields for gate in gates.GATES):
            model = _open(model, field, rows)
    closed = {
        (finding.field, name): finding
        for finding in check.cannot_act(model, touched)
        for name in finding.where
    }
    causes: list[list[tuple[str, str] | None]] = [[] for _ in parameters.names]
    for effect in parameters.effects:
        if effect.field in DERIVED or not is_model_field(effect.field):
            for param in effect.params:
                causes[param].append(None)
            continue
        names, width = _names(model, effect.field), _width(model, effect.field)
        nominal = np.ravel(targets.model_field(given, effect.field))
        for index, param in zip(effect.indices, effect.params, strict=True):
            finding = closed.get((effect.field, names[index // width]))
            if finding is not None:
                causes[param].append((finding.message, finding.remedy))
            elif effect.operation == "scale" and nominal[index] == 0:
                causes[param].append(("it scales a 0", "use the operation `set` or `add`"))
            else:
                causes[param].append(None)
    dead = [
        Dead(name, *(reasons[0] or ("", "")))
        for name, reasons in zip(parameters.names, causes, strict=True)
        if reasons and None not in reasons
    ]
    return Opened(model, tuple(dead))


def _open(model: mujoco.MjModel, field: str, rows: Sequence[int]) -> mujoco.MjModel:
    """Return the model with those rows opened that open without a change of their value."""
    closed = {name for found in check.cannot_act(model, {field: rows}) for name in found.where}
    names = _names(model, field)
    for row in rows:
        if names[row] not in closed:
            continue
        try:
            candidate = check.promote(model, {field: [] if field[:4] == "opt." else [row]})
        except Unsupported:
            continue
        old, new = (np.atleast_1d(targets.model_field(m, field)) for m in (model, candidate))
        change = new - old if field[:4] == "opt." else new[row] - old[row]
        # a limit from nowhere, or the friction of another geom, would be another robot
        if np.abs(change).max() <= NEUTRAL:
            model = candidate
    return model


def _touched_rows(model: mujoco.MjModel, parameters: ParameterSet) -> dict[str, list[int]]:
    rows: dict[str, set[int]] = {}
    for effect in parameters.effects:
        if effect.field not in DERIVED and is_model_field(effect.field):
            width = _width(model, effect.field)
            rows.setdefault(effect.field, set()).update(i // width for i in effect.indices)
    return {field: sorted(found) for field, found in rows.items()}


def _width(model: mujoco.MjModel, field: str) -> int:
    """Return how many entries of the flat field belong to one element."""
    values = targets.model_field(model, field)
    return max(values.size, 1) if field[:4] == "opt." else int(np.prod(values.shape[1:]))


def _names(model: mujoco.MjModel, field: str) -> list[str]:
    return elements.element_names(model, elements.kind_of(field))
