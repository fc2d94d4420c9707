"""The contract: what policy and machine must agree on, as one value with one digest.

Joint order, sign, offset, limits, gains, period, signals and observation: most failures of first
deployments are a silent disagreement about one of them. The policy's bundle carries the contract,
the loop converts through it, and two contracts agree if their digests do. Units are SI; infinite
limits are `null` in JSON.

    machine = sign * (model - offset)
"""

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from s2r_jax.errors import BadValue, MissingKey, UnknownName
from s2r_jax.observation import Term, observe
from s2r_jax.types import Command

Target = Literal["angle", "speed", "effort"]
TARGETS: tuple[Target, ...] = ("angle", "speed", "effort")
FORMAT = 1


@dataclass(frozen=True)
class JointContract:
    """One joint and the motor that drives it, in the model's coordinates."""

    name: str
    actuator: str
    target: Target
    """What a command's target is: an `angle` [rad or m], a `speed`, or an `effort` [N m or N]."""
    sign: float
    offset: float
    """Model angle at the machine's zero [rad]."""
    low: float
    """Lowest target that may be commanded."""
    high: float
    """Highest target that may be commanded."""
    velocity: float
    """Fastest a commanded angle may move [rad/s]."""
    torque: float
    """Largest torque that may be commanded [N m]."""
    default: float
    """Target of action 0."""
    action_scale: float
    """Target per unit of action."""
    kp: float
    """Position gain, in the unit of the motor kind."""
    kd: float
    """Speed gain, in the unit of the motor kind."""


@dataclass(frozen=True)
class SignalContract:
    """One measured signal."""

    name: str
    size: int
    unit: str


@dataclass(frozen=True)
class Limits:
    """When the loop gives up and damps. An absent (`null`) limit is not watched."""

    acceleration: float | None = None
    """Fastest change of a commanded speed [rad/s²]."""
    temperature: float | None = None
    """Hottest motor [°C]."""
    voltage_low: float | None = None
    """Brown-out [V]."""
    voltage_high: float | None = None
    """Over-voltage, as from braking [V]."""
    tilt: float | None = None
    """Largest angle between the body's z axis and the vertical [rad]."""
    tilt_signal: str | None = None
    """The orientation to watch, a quaternion w x y z."""
    stale: float = 0.1
    """Longest time without a new report of the machine [s]."""


@dataclass(frozen=True)
class Contract:
    """Everything that policy and machine must agree on."""

    robot: str
    motor: str
    """Kind of the motors, see `motors.MOTOR_KINDS`."""
    period: float
    """Control period [s]."""
    joints: tuple[JointContract, ...]
    """In the order of actions and commands."""
    signals: tuple[SignalContract, ...]
    """In the order of the sensor vector."""
    observation: tuple[Term, ...]
    limits: Limits = Limits()

    @property
    def action_size(self) -> int:
        """Length of the action: one entry a joint."""
        return len(self.joints)

    @property
    def sensor_size(self) -> int:
        """Length of the sensor vector."""
        return sum(signal.size for signal in self.signals)

    @property
    def observation_size(self) -> int:
        """Length of the observation."""
        return sum(len(term.indices) for term in self.observation)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, in order."""
        return tuple(joint.name for joint in self.joints)

    @property
    def signal_sizes(self) -> tuple[tuple[str, int], ...]:
        """Names and sizes of the signals, in order."""
        return tuple((signal.name, signal.size) for signal in self.signals)

    @functools.cached_property
    def slices(self) -> dict[str, slice]:
        """Signal name -> its entries in the sensor vector."""
        found, start = {}, 0
        for signal in self.signals:
            found[signal.name] = slice(start, start + signal.size)
            start += signal.size
        return found

    @functools.cached_property
    def hash(self) -> str:
        """SHA-256 of the contract; it changes with every field."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @functools.cached_property
    def columns(self) -> dict[str, Float[np.ndarray, " nu"]]:
        """The numbers of all joints, by field."""
        first = self.joints[0]
        fields = [f.name for f in dataclasses.fields(first)]
        fields = [name for name in fields if not isinstance(getattr(first, name), str)]
        rows = {name: [getattr(joint, name) for joint in self.joints] for name in fields}
        return {name: np.array(row, dtype=float) for name, row in rows.items()}

    @functools.cached_property
    def is_target(self) -> dict[Target, Bool[np.ndarray, " nu"]]:
        """The joints whose target is of a kind, by kind."""
        targets = np.array([joint.target for joint in self.joints])
        return {kind: targets == kind for kind in TARGETS}

    def observe(
        self, sensors: Float[np.ndarray, " sensor"], action: Float[np.ndarray, " nu"]
    ) -> Float[np.ndarray, " obs"]:
        """Return the observation of the model's signals and the last action."""
        return observe(self.observation, sensors, action, np)

    def to_command(self, action: Float[np.ndarray, " nu"]) -> Command:
        """Return the command that an action in [-1, 1] means, in the model's coordinates.

        The same as in training: `default + action_scale * action`, within the joint's limits.
        """
        columns = self.columns
        target = columns["default"] + columns["action_scale"] * action
        return self.command(np.clip(target, columns["low"], columns["high"]))

    def command(self, target: Float[np.ndarray, " nu"]) -> Command:
        """Return the command for these targets with the contract's gains, torque on."""
        zero = np.zeros(self.action_size)
        kp, kd = self.columns["kp"], self.columns["kd"]
        rows: list[Any] = [target, zero, kp.copy(), kd.copy(), zero + 1, np.array(np.nan)]
        return Command(*rows)

    def to_machine(self, command: Command) -> Command:
        """Return a command of the model's coordinates in the machine's."""
        sign, offset = self.columns["sign"], self.columns["offset"]
        shift = np.where(self.is_target["angle"], offset, 0.0)
        target: Any = sign * (np.asarray(command.target) - shift)
        torque: Any = sign * np.asarray(command.torque)
        return command._replace(target=target, torque=torque)

    def from_machine(self, sensors: Float[np.ndarray, " sensor"]) -> Float[np.ndarray, " sensor"]:
        """Return the machine's signals in the model's coordinates."""
        scale, shift = self._sensor_frame
        return scale * sensors + shift

    @functools.cached_property
    def _sensor_frame(self) -> tuple[np.ndarray, np.ndarray]:
        scale, shift = np.ones(self.sensor_size), np.zeros(self.sensor_size)
        for joint in self.joints:
            for owner in (f"joint/{joint.name}", f"motor/{joint.actuator}"):
                for attribute in ("position", "velocity", "torque", "duty"):
                    entry = self.slices.get(f"{owner}/{attribute}")
                    if entry is not None:
                        scale[entry] = joint.sign
                        shift[entry] = joint.offset if attribute == "position" else 0.0
        return scale, shift

    def to_json(self) -> str:
        """Return the contract as JSON with sorted keys: equal contracts give equal text."""
        document = {"format": FORMAT, **dataclasses.asdict(self)}
        document["observation"] = [term._asdict() for term in self.observation]
        return json.dumps(_finite(document), sort_keys=True, indent=1, allow_nan=False) + "\n"


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
    for field in ("acceleration", "temperature", "voltage_low", "voltage_high", "tilt", "stale"):
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


#: Fields that may be infinite, and the value that JSON's `null` stands for.
UNLIMITED = {"low": -math.inf, "high": math.inf, "velocity": math.inf, "torque": math.inf}


def _finite(value: Any) -> Any:
    """Replace infinities by None, throughout."""
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and math.isinf(value) else value


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
    fields = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    given = dict(_mapping(value, list(fields), place))
    for key, entry in given.items():
        hint = fields[key]
        if entry is None and key in UNLIMITED:
            given[key] = UNLIMITED[key]
        elif entry is None and "None" in hint:
            continue
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
