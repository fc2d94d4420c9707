"""Find what a parameter's target touches: fields of the MuJoCo model, or quantities outside it.

A target is `kind/name/attribute`, with globs in the name: `joint/*/damping`. Vector attributes take
a component after a colon (`geom/floor/friction:1`, `option/gravity:2`); friction and gear mean
their first component by default. What exists stands in `slots.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from s2r_jax.document import matching
from s2r_jax.errors import BadValue, UnknownTarget
from s2r_jax.parameters import INERTIAL, Effect, Parameter, ParameterSet
from s2r_jax.slots import Slot, model_field, of_model, of_quantities


def resolve(
    declared: Sequence[Parameter],
    model: mujoco.MjModel,
    quantities: Mapping[str, tuple[tuple[str, ...], np.ndarray]],
    file: str,
) -> ParameterSet:
    """Return the parameter set of what the user declared.

    Args:
        declared: Parameters in the order of θ.
        model: Compiled model whose values are the nominal ones.
        quantities: Nominal values outside the engine: field -> (targets, values), e.g.
            `motor.strength` ->
            (("motor/hip/strength", ...), values of the motors).
        file: Where the parameters were declared, for messages.

    Raises:
        UnknownTarget: A glob matches nothing; the message lists what exists.
        BadValue: Bounds that exclude the start or do not fit the transform, a name for several
            values.
    """
    slots = {slot.target: slot for slot in [*of_model(model), *of_quantities(quantities)]}
    columns: list[dict[str, Any]] = []
    effects: list[Effect] = []
    owners: dict[tuple[str, int], str] = {}
    for parameter in declared:
        matches = _matches(parameter.target, slots, file)
        groups = [matches] if parameter.share else [[match] for match in matches]
        if parameter.name and len(groups) > 1:
            expected = f"a target with one match or share: true, not {len(groups)} matches"
            raise BadValue(file, f"name of {parameter.target}", parameter.name, expected)
        for group in groups:
            name = parameter.name or (parameter.target if parameter.share else group[0].target)
            columns.append(_column(parameter, name, group, file))
            for slot in group:
                _check_domain(parameter, name, slot, file)
                _check_overwriting(parameter, name, slot, owners, file)
                owners |= {part[:2]: name for part in slot.touched}
                _add_effects(effects, parameter.operation, slot, len(columns) - 1)
    names = [column["names"] for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise BadValue(file, "parameters", name, "each target once")
    packed = {
        key: tuple(column[key] for column in columns) for key in (columns[0] if columns else ())
    }
    return ParameterSet(**packed, effects=tuple(effects))


def target_names(
    model: mujoco.MjModel, quantities: Mapping[str, tuple[tuple[str, ...], np.ndarray]]
) -> list[str]:
    """Return every target that exists for this model, without globs."""
    return [slot.target for slot in [*of_model(model), *of_quantities(quantities)]]


def _matches(target: str, slots: Mapping[str, Slot], file: str) -> list[Slot]:
    found = [slots[name] for name in matching(target, slots)]
    if not found:
        kind = target.split("/")[0]
        same_kind = [name for name in slots if name.split("/")[0] == kind]
        raise UnknownTarget(
            target, file, same_kind or sorted({s.split("/")[0] + "/..." for s in slots})
        )
    return found


def _column(parameter: Parameter, name: str, group: list[Slot], file: str) -> dict[str, Any]:
    """Return what the parameter set stores of one value of θ, checked."""
    neutral = {"scale": 1.0, "add": 0.0, "set": group[0].nominal}[parameter.operation]
    start = neutral if parameter.start is None else parameter.start
    low, high = parameter.low, parameter.high
    if not low < high:
        raise BadValue(file, f"bounds of {name}", [low, high], "low < high")
    if parameter.transform == "log" and low <= 0:
        raise BadValue(file, f"bounds of {name}", [low, high], "positive bounds for transform: log")
    if not low <= start <= high:
        hint = (
            "inside its bounds"
            if parameter.start is not None
            else "inside its bounds; give a start:"
        )
        raise BadValue(file, f"start of {name}", start, f"a value {hint} [{low:g}, {high:g}]")
    if parameter.transform == "logit" and start in (low, high):
        raise BadValue(
            file, f"start of {name}", start, "a value strictly inside the bounds (logit)"
        )
    if parameter.prior_std is not None and not parameter.prior_std > 0:
        raise BadValue(file, f"prior_std of {name}", parameter.prior_std, "a positive number")
    return {
        "names": name,
        "low": low,
        "high": high,
        "nominal": neutral,
        "start": start,
        "prior_std": float("inf") if parameter.prior_std is None else parameter.prior_std,
        "transforms": parameter.transform,
        "units": parameter.unit,
        "per_log": parameter.per_log,
    }


def _check_domain(parameter: Parameter, name: str, slot: Slot, file: str) -> None:
    """Refuse bounds that reach a value without meaning, such as a negative delay."""
    low, high = slot.domain
    for bound in (parameter.low, parameter.high):
        reached = {"set": bound, "scale": bound * slot.nominal, "add": bound + slot.nominal}
        if not low <= reached[parameter.operation] <= high:
            expected = f"values of {slot.target} within [{low:g}, {high:g}]"
            raise BadValue(file, f"bounds of {name}", [parameter.low, parameter.high], expected)


def _check_overwriting(
    parameter: Parameter,
    name: str,
    slot: Slot,
    owners: Mapping[tuple[str, int], str],
    file: str,
) -> None:
    """Refuse a `set` of what an earlier parameter moves: that one would have no effect."""
    for field, index, _ in slot.touched:
        owner = owners.get((field, index), name)
        if parameter.operation == "set" and owner != name:
            expected = f"scale or add, or to stand before '{owner}', whose value it overwrites"
            raise BadValue(file, f"operation of {name}", "set", expected)


def _add_effects(effects: list[Effect], operation: Any, slot: Slot, param: int) -> None:
    """Append the scatters of one slot; those of one field that commute become one."""
    for field, index, coefficient in slot.touched:
        last = next((i for i in reversed(range(len(effects))) if effects[i].field == field), None)
        same = last is not None and effects[last].operation == operation
        coefficient = 1.0 if operation == "scale" else coefficient
        if last is not None and same and index not in effects[last].indices:
            old = effects[last]
            effects[last] = old._replace(
                indices=(*old.indices, index),
                params=(*old.params, param),
                coefficients=(*old.coefficients, coefficient),
            )
        else:
            effects.append(Effect(field, operation, (index,), (param,), (coefficient,)))


def inertial_bodies(parameters: ParameterSet) -> set[int]:
    """Return the bodies whose inertial frame θ moves."""
    widths = INERTIAL | {"body_ipos": 3}
    return {
        index // widths[effect.field]
        for effect in parameters.effects
        if effect.field in widths
        for index in effect.indices
    }


__all__ = ["inertial_bodies", "model_field", "resolve", "target_names"]
