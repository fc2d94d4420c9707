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
    """Fastest the joint may move [rad/s]; beyond it the motors brake, where speed is measured."""
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

    slew: float | None = None
    """Fastest a commanded angle may move [rad/s]. Training knows no such limit: choose it so that
    it bites on nothing that the policy does in simulation."""
    acceleration: float | None = None
    """Fastest change of the speed of a commanded angle [rad/s²]; the same caution."""
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


def _finite(value: Any) -> Any:
    """Replace infinities by None, throughout."""
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and math.isinf(value) else value
