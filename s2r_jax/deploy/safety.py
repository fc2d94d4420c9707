"""What stands between a policy and the motors: pure functions, called before every send.

`inspect` judges the machine's report, `limit` the command. Finite is checked first and by itself,
as NaN passes through every min and max. What cannot be repaired is a reason to damp; nothing that
is missing is replaced by zero, which would mean "drive to zero".
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from s2r_jax.deploy.contract import Contract
from s2r_jax.types import Command


class Status(NamedTuple):
    """The verdict on one tick."""

    reasons: tuple[str, ...]
    """Why the motors must damp; empty if they need not."""
    is_clipped: Bool[np.ndarray, " nu"]
    """Joints whose command was reduced to a limit."""

    @property
    def is_safe(self) -> bool:
        """Whether the command may be sent."""
        return not self.reasons


class Memory(NamedTuple):
    """What was last commanded, in the model's coordinates."""

    target: Float[np.ndarray, " nu"]
    """Angles; where the target is no angle it is not used."""
    step: Float[np.ndarray, " nu"]
    """How far the commanded angle moved in the last control period [rad]."""


def start(contract: Contract, sensors: Float[np.ndarray, " sensor"]) -> Memory:
    """Return the memory before the first command: the commanded angle starts where the joint is.

    A joint whose position is not measured starts at its default.
    """
    target = np.array([
        sensors[contract.slices[f"joint/{joint.name}/position"]][0]
        if f"joint/{joint.name}/position" in contract.slices
        else joint.default
        for joint in contract.joints
    ])  # fmt: skip
    return Memory(target, np.zeros(contract.action_size))


def inspect(
    contract: Contract,
    sensors: Float[np.ndarray, " sensor"],
    voltage: float,
    temperature: Float[np.ndarray, " nu"],
    age: float,
) -> tuple[str, ...]:
    """Return why the machine's report forbids to go on; empty if it does not.

    Args:
        contract: Its limits are applied.
        sensors: Signals in the model's coordinates.
        voltage: Supply [V]; looked at only where a limit is set.
        temperature: Of the motors [°C]; looked at only where a limit is set.
        age: Time since the last new report [s], on the monotonic clock.
    """
    limits, reasons = contract.limits, []
    if not age <= limits.stale:
        reasons.append(f"stale: no new report for {age:.3f} s (limit {limits.stale:g} s)")
    for name, entry in contract.slices.items():
        if not np.isfinite(sensors[entry]).all():
            reasons.append(f"sensor: {name} is not finite")
    # Each test is written so that NaN fails it.
    for joint in contract.joints:
        entry = contract.slices.get(f"joint/{joint.name}/velocity")
        if entry is not None and not abs(sensors[entry][0]) <= joint.velocity:
            speed = f"{sensors[entry][0]:.1f} rad/s (limit {joint.velocity:g} rad/s)"
            reasons.append(f"speed: {joint.name} {speed}")
    if limits.temperature is not None:
        for joint, value in zip(contract.joints, temperature, strict=True):
            if not value <= limits.temperature:
                reasons.append(f"temperature: {joint.name} {value:.1f} °C")
    if limits.voltage_low is not None and not voltage >= limits.voltage_low:
        reasons.append(f"voltage: {voltage:.2f} V (lowest {limits.voltage_low:g} V)")
    if limits.voltage_high is not None and not voltage <= limits.voltage_high:
        reasons.append(f"voltage: {voltage:.2f} V (highest {limits.voltage_high:g} V)")
    if limits.tilt is not None and limits.tilt_signal is not None:
        angle = tilt(sensors[contract.slices[limits.tilt_signal]])
        if not angle <= limits.tilt:
            reasons.append(f"tilt: {angle:.2f} rad (limit {limits.tilt:g} rad)")
    return tuple(reasons)


def tilt(quaternion: Float[np.ndarray, " 4"]) -> float:
    """Return the angle between a body's z axis and the vertical [rad]; NaN for no rotation at all.

    Args:
        quaternion: Orientation w x y z, of any length but 0.
    """
    w, x, y, z = quaternion
    square = float(w * w + x * x + y * y + z * z)
    if not square > 0:
        return float("nan")
    return float(np.arccos(np.clip((w * w - x * x - y * y + z * z) / square, -1.0, 1.0)))


def limit(
    contract: Contract,
    command: Command,
    sensors: Float[np.ndarray, " sensor"],
    memory: Memory,
) -> tuple[Command, Status, Memory]:
    """Return the command within the contract's limits, the verdict, and the next memory.

    Targets are held within the joint's limits. Angles move no faster than the slew limit and
    change their speed no faster than the acceleration limit; speeds are held within the speed
    limit, efforts and feed-forward torques within the torque limit. Where the firmware is a PD law
    in SI units (`pd`) and the position is measured, the target is also held so close to the joint
    that the law asks for no more than the torque limit.

    Args:
        contract: The limits.
        command: In the model's coordinates.
        sensors: Signals in the model's coordinates.
        memory: Of the last tick.
    """
    nothing = np.zeros(contract.action_size, bool)
    reasons = _not_finite(contract, command)
    if reasons:
        return command, Status(reasons, nothing), memory
    asked = np.asarray(command.target, dtype=float)
    low, high = contract.columns["low"], contract.columns["high"]
    fastest, strongest = contract.columns["velocity"], contract.columns["torque"]
    is_angle, is_effort = contract.is_target["angle"], contract.is_target["effort"]

    # A joint that starts outside its limits may come back at its own pace, but go no further.
    nearest, farthest = np.minimum(low, memory.target), np.maximum(high, memory.target)
    step = _step(contract, _clip(asked, low, high) - memory.target, memory.step)
    angle = _clip(memory.target + step, nearest, farthest)
    effort = _clip(asked, -strongest, strongest)
    rate = _clip(asked, -fastest, fastest)
    within = _clip(np.where(is_effort, effort, rate), low, high)
    target: Any = _within_torque(
        contract, np.where(is_angle, angle, within), np.asarray(command.kp), sensors
    )
    torque: Any = _clip(np.asarray(command.torque, dtype=float), -strongest, strongest)

    # Adding a difference rounds by a few units in the last place; that is no limit at work.
    is_moved = (abs(target - asked) > 1e-9 * (1 + abs(asked))) | (torque != command.torque)
    limited = command._replace(target=target, torque=torque)
    reasons = _not_finite(contract, limited)
    moved = np.where(is_angle, target - memory.target, 0.0)
    return limited, Status(reasons, is_moved), Memory(np.where(is_angle, target, 0.0), moved)


def _step(
    contract: Contract, distance: Float[np.ndarray, " nu"], last: Float[np.ndarray, " nu"]
) -> Float[np.ndarray, " nu"]:
    """Return how far the commanded angles move now, given how far they are from where to go.

    Under an acceleration limit a the step is the longest from which the angle can still stop
    there: n steps that shrink by c = a period² each, from s on, cover n s - n (n - 1) c / 2.
    """
    step = distance
    if contract.limits.slew is not None:
        farthest = np.full_like(distance, contract.limits.slew * contract.period)
        step = _clip(distance, -farthest, farthest)
    if contract.limits.acceleration is None:
        return step
    change = contract.limits.acceleration * contract.period**2
    steps = np.maximum(np.ceil((np.sqrt(1 + 8 * abs(distance) / change) - 1) / 2), 1)
    stopping = abs(distance) / steps + (steps - 1) * change / 2
    return _clip(_clip(step, -stopping, stopping), last - change, last + change)


def _clip(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Clip finite values; a third of the time of `np.clip` for a handful of joints."""
    return np.minimum(np.maximum(value, low), high)


def _not_finite(contract: Contract, command: Command) -> tuple[str, ...]:
    reasons = []
    for field in ("target", "torque", "kp", "kd", "enabled"):
        values = np.asarray(getattr(command, field), dtype=float)
        if values.shape != (contract.action_size,):
            reasons.append(f"command: {field} has shape {values.shape}")
            continue
        reasons += [
            f"command: {field} of {contract.joints[i].name} is not finite"
            for i in np.flatnonzero(~np.isfinite(values))
        ]
    for field in ("low", "high", "velocity", "torque"):
        if np.isnan(contract.columns[field]).any():
            reasons.append(f"contract: {field} is not a number")
    return tuple(reasons)


def _within_torque(
    contract: Contract,
    target: Float[np.ndarray, " nu"],
    kp: Float[np.ndarray, " nu"],
    sensors: Float[np.ndarray, " sensor"],
) -> Float[np.ndarray, " nu"]:
    """Hold the targets of a PD law within torque / kp of the measured angle."""
    if contract.motor != "pd":
        return target
    held = target.copy()
    for i, joint in enumerate(contract.joints):
        entry = contract.slices.get(f"joint/{joint.name}/position")
        if entry is not None and kp[i] > 0 and np.isfinite(joint.torque):
            reach = joint.torque / kp[i]
            position = sensors[entry][0]
            held[i] = np.clip(held[i], position - reach, position + reach)
    return held
