"""Read a contract strictly, refuse one that contradicts itself, and tell two apart."""

import dataclasses
import json
import math
import typing
from typing import Any

from s2r_jax.deploy.contract import (
    FORMAT,
    TARGETS,
    Contract,
    JointContract,
    Limits,
    SignalContract,
)
from s2r_jax.errors import BadValue, MissingKey, UnknownName
from s2r_jax.observation import Term

#: Fields that may be infinite, and the value that JSON's `null` stands for.
UNLIMITED = {"low": -math.inf, "high": math.inf, "velocity": math.inf, "torque": math.inf}


def from_json(text: str, place: str) -> Contract:
    """Read a contract strictly.

    Args:
        text: JSON.
        place: File, for messages.

    Raises:
        BadValue: No JSON, or a value of the wrong type or range.
        MissingKey: An absent key.
        UnknownName: A key that is not known.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadValue(place, "content", text[:40], f"JSON ({error})") from None
    keys = ["format", *(field.name for field in dataclasses.fields(Contract))]
    document = _mapping(document, keys, place)
    if document["format"] != FORMAT:
        raise BadValue(place, "format", document["format"], str(FORMAT))
    joints = _read_all(JointContract, document["joints"], f"{place}: joints")
    signals = _read_all(SignalContract, document["signals"], f"{place}: signals")
    contract = Contract(
        robot=_text(document["robot"], f"{place}", "robot"),
        motor=_text(document["motor"], f"{place}", "motor"),
        period=_positive(document["period"], place, "period"),
        joints=joints,
        signals=signals,
        observation=_terms(document["observation"], f"{place}: observation"),
        limits=_read(Limits, document["limits"], f"{place}: limits"),
    )
    check(contract, place)
    return contract


def check(contract: Contract, place: str) -> None:
    """Refuse a contract that contradicts itself.

    Raises:
        BadValue: Names the field.
        UnknownName: A tilt signal that does not exist.
    """
    _positive(contract.period, place, "period")
    if not contract.joints:
        raise BadValue(place, "joints", [], "at least one joint")
    for names, field in ((contract.joint_names, "joints"), (list(contract.slices), "signals")):
        if len(set(names)) != len(names):
            raise BadValue(place, field, list(names), "different names")
    if len(contract.slices) != len(contract.signals):
        raise BadValue(place, "signals", [s.name for s in contract.signals], "different names")
    for signal in contract.signals:
        if signal.size < 1:
            raise BadValue(f"{place}: signals", signal.name, signal.size, "a size of at least 1")
    for joint in contract.joints:
        here = f"{place}: joints/{joint.name}"
        if joint.target not in TARGETS:
            raise UnknownName(here, joint.target, TARGETS, "target")
        if joint.sign not in (1, -1):
            raise BadValue(here, "sign", joint.sign, "1 or -1")
        # Written so that NaN fails each of them.
        if not joint.low < joint.high:
            raise BadValue(here, "low", joint.low, f"a number below high ({joint.high:g})")
        for field in ("velocity", "torque"):
            if not getattr(joint, field) > 0:
                raise BadValue(here, field, getattr(joint, field), "a positive number")
        for field in ("offset", "default", "action_scale", "kp", "kd"):
            if not math.isfinite(getattr(joint, field)):
                raise BadValue(here, field, getattr(joint, field), "a finite number")
        if not joint.low <= joint.default <= joint.high:
            expected = f"a number in [{joint.low:g}, {joint.high:g}]"
            raise BadValue(here, "default", joint.default, expected)
    for index, term in enumerate(contract.observation):
        size = contract.action_size if term.kind == "action" else contract.sensor_size
        if not term.indices or not all(0 <= i < size for i in term.indices):
            raise BadValue(
                f"{place}: observation/{index}", "indices", term.indices, f"0..{size - 1}"
            )
    _check_limits(contract, f"{place}: limits")


def _check_limits(contract: Contract, place: str) -> None:
    limits = contract.limits
    for field in (
        "slew",
        "acceleration",
        "temperature",
        "voltage_low",
        "voltage_high",
        "tilt",
        "stale",
    ):
        value = getattr(limits, field)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise BadValue(place, field, value, "a positive number")
    if (limits.tilt is None) != (limits.tilt_signal is None):
        raise BadValue(place, "tilt", limits.tilt, "given together with tilt_signal")
    if limits.tilt_signal is not None:
        if limits.tilt_signal not in contract.slices:
            raise UnknownName(place, limits.tilt_signal, contract.slices, "signal")
        size = dict(contract.signal_sizes)[limits.tilt_signal]
        if size != 4:
            raise BadValue(place, "tilt_signal", limits.tilt_signal, "a quaternion (4 entries)")


def differences(ours: Contract, theirs: Contract) -> list[str]:
    """Return what two contracts disagree about, one line a field; empty if their digests agree."""
    return _differences(json.loads(ours.to_json()), json.loads(theirs.to_json()), "")


def _differences(ours: Any, theirs: Any, place: str) -> list[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            line for key in ours for line in _differences(ours[key], theirs[key], f"{place}/{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [line for i, (a, b) in pairs for line in _differences(a, b, f"{place}/{i}")]
    return [] if ours == theirs else [f"{place[1:]}: {ours!r} against {theirs!r}"]


def _mapping(value: Any, keys: list[str], place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadValue(place, "content", value, "an object")
    for key in value:
        if key not in keys:
            raise UnknownName(place, key, keys, "key")
    for key in keys:
        if key not in value:
            raise MissingKey(place, key, value)
    return value


def _read_all(kind: Any, values: Any, place: str) -> Any:
    if not isinstance(values, list):
        raise BadValue(place, "content", values, "a list")
    return tuple(_read(kind, value, f"{place}/{i}") for i, value in enumerate(values))


def _read(kind: Any, value: Any, place: str) -> Any:
    """Build a flat dataclass from an object with exactly its keys."""
    types = {field.name: field.type for field in dataclasses.fields(kind)}
    fields = {name: str(hint) for name, hint in types.items()}
    given = dict(_mapping(value, list(fields), place))
    for key, entry in given.items():
        hint, choices = fields[key], typing.get_args(types[key])
        if entry is None and key in UNLIMITED:
            given[key] = UNLIMITED[key]
        elif entry is None and "None" in hint:
            continue
        elif "Literal" in hint:
            if entry not in choices:
                raise UnknownName(place, entry, choices, key)
        elif "float" in hint:
            given[key] = _number(entry, place, key)
        elif "int" in hint:
            if isinstance(entry, bool) or not isinstance(entry, int):
                raise BadValue(place, key, entry, "a whole number")
        else:
            given[key] = _text(entry, place, key)
    return kind(**given)


def _terms(values: Any, place: str) -> tuple[Term, ...]:
    if not isinstance(values, list):
        raise BadValue(place, "content", values, "a list")
    terms = []
    for i, value in enumerate(values):
        entry, here = _mapping(value, list(Term._fields), f"{place}/{i}"), f"{place}/{i}"
        indices = entry["indices"]
        if not isinstance(indices, list) or not all(type(k) is int for k in indices):
            raise BadValue(here, "indices", indices, "a list of whole numbers")
        if entry["kind"] not in ("value", "cos", "sin", "action"):
            raise UnknownName(here, entry["kind"], ("value", "cos", "sin", "action"), "kind")
        offset, scale = (_number(entry[key], here, key) for key in ("offset", "scale"))
        terms.append(Term(entry["kind"], tuple(indices), offset, scale))
    return tuple(terms)


def _number(value: Any, place: str, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadValue(place, key, value, "a finite number")
    return float(value)


def _positive(value: Any, place: str, key: str) -> float:
    if not _number(value, place, key) > 0:
        raise BadValue(place, key, value, "a positive number")
    return float(value)


def _text(value: Any, place: str, key: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadValue(place, key, value, "a text")
    return value
