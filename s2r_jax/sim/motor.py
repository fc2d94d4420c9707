"""From a command and the joint's motion to the motors' torque, friction and damping.

Kinds as in `motors.py`; `native` has only friction here. What is linear in speed (back-EMF, viscous
friction) goes to the engine as damping, which it integrates implicitly; Coulomb friction goes as
friction loss, which it solves as a constraint, so that joints really stick.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from s2r_jax.types import Command


class Motor(NamedTuple):
    """Numbers of the motors, each `[nu]`, seen from the joint; units in `motors.MOTOR_FIELDS`."""

    strength: Float[Array, " nu"]
    kp: Float[Array, " nu"]
    kd: Float[Array, " nu"]
    torque_limit: Float[Array, " nu"]
    torque_constant: Float[Array, " nu"]
    resistance: Float[Array, " nu"]
    saturation: Float[Array, " nu"]
    duty_gain: Float[Array, " nu"]
    lag: Float[Array, " nu"]
    thrust_constant: Float[Array, " nu"]
    thrust_linear: Float[Array, " nu"]
    thrust_quadratic: Float[Array, " nu"]
    friction: Float[Array, " nu"]
    viscous: Float[Array, " nu"]
    stribeck: Float[Array, " nu"]
    stribeck_speed: Float[Array, " nu"]
    load_friction: Float[Array, " nu"]
    stribeck_load: Float[Array, " nu"]
    offset: Float[Array, " nu"]
    backlash: Float[Array, " nu"]


class Output(NamedTuple):
    """What the motors do during one physics step, each `[nu]`."""

    torque: Float[Array, " nu"]
    """[N m], before friction and lag; of a `rotor` the throttle that it follows."""
    damping: Float[Array, " nu"]
    """Back-EMF and viscous friction [N m s/rad]."""
    duty: Float[Array, " nu"]
    """Duty cycle, -1 to 1; 0 where the kind has none."""
    current: Float[Array, " nu"]
    """Drawn from the supply [A]."""


def drive(
    kind: str,
    motor: Motor,
    command: Command,
    angle: Float[Array, " nu"],
    speed: Float[Array, " nu"],
    voltage: Float[Array, ""],
) -> Output:
    """Return what the motors do at this angle [rad], speed [rad/s] and supply voltage [V].

    Source: torque = k (u - k speed) / resistance with u = duty * voltage; BAM, arXiv:2410.08650.
    """
    zero = jnp.zeros_like(angle)
    if kind == "torque":
        asked = command.target + command.torque
        torque = _limit(motor, command.enabled * asked, speed, voltage)
        current = _current(motor, torque, speed, voltage)
        return Output(motor.strength * _reduction(motor, torque) * torque, zero, zero, current)
    if kind == "rotor":
        return Output(command.enabled * command.target, zero, zero, zero)
    error = command.target - (angle + motor.offset)
    if kind == "pd":
        asked = command.kp * error - command.kd * speed + command.torque
        torque = _limit(motor, command.enabled * asked, speed, voltage)
        current = _current(motor, torque, speed, voltage)
        return Output(motor.strength * _reduction(motor, torque) * torque, zero, zero, current)
    duty = jnp.clip(motor.duty_gain * (command.kp * error - command.kd * speed), -1.0, 1.0)
    duty = command.enabled * duty
    stall = motor.torque_constant / motor.resistance * voltage * duty
    # With the winding open neither the voltage nor the back-EMF drives a current.
    back_emf = command.enabled * motor.torque_constant**2 / motor.resistance
    current = duty * (duty * voltage - motor.torque_constant * speed) / motor.resistance
    left = _reduction(motor, stall - back_emf * speed)
    return Output(motor.strength * left * stall, left * back_emf, duty, current)


def friction(
    motor: Motor, speed: Float[Array, " nu"], transmitted: Float[Array, " nu"]
) -> Float[Array, " nu"]:
    """Return the Coulomb friction and stiction that the gear can hold, with and without load [N m].

    Args:
        motor: Numbers of the motors.
        speed: Joint speed [rad/s].
        transmitted: Torque through the gear [N m].

    Source: BAM's friction models M1 to M4, arXiv:2410.08650.
    """
    load = jnp.abs(transmitted)
    stiction = motor.stribeck + motor.stribeck_load * load
    standing = jnp.exp(-((speed / motor.stribeck_speed) ** 2))
    return motor.friction + motor.load_friction * load + stiction * standing


def follow(
    motor: Motor, asked: Float[Array, " nu"], lagged: Float[Array, " nu"], step: float
) -> Float[Array, " nu"]:
    """Return the torque of a first-order lag after one physics step [s], exact for a held input."""
    is_instant = motor.lag <= 0
    decay = jnp.exp(-step / jnp.where(is_instant, 1.0, motor.lag))
    return jnp.where(is_instant, asked, asked + (lagged - asked) * decay)


def behind_lag(kind: str, motor: Motor, lagged: Float[Array, " nu"]) -> Float[Array, " nu"]:
    """Return the torque [N m], or a rotor's thrust [N], of what `follow` says.

    Source: K0 + K1 w + K2 w² of the lagged throttle w; Eschmann, Albani, Loianno, "Data-Driven
    System Identification of Quadrotors Subject to Motor Delays".
    """
    if kind != "rotor":
        return lagged
    slopes = motor.thrust_linear + motor.thrust_quadratic * lagged
    return motor.strength * (motor.thrust_constant + slopes * lagged)


def slope(kind: str, motor: Motor, command: Command, output: Output) -> Float[Array, " nu"]:
    """Return the fall of the torque with the rotor's speed [N m s/rad], friction of it included.

    A `pd` law counts with its speed gain, also where the torque is at its limit.
    """
    law = motor.strength * command.enabled * command.kd if kind == "pd" else output.damping
    return law + motor.viscous


class Mesh(NamedTuple):
    """The gear with its play during one physics step, each `[nu]`."""

    gap: Float[Array, " nu"]
    """Angle of the motor's side minus that of the joint, at the end of the step [rad]."""
    engaged: Float[Array, " nu"]
    """Share of the step, 0 to 1, during which the teeth touch and torque reaches the joint."""


def mesh(
    motor: Motor,
    gap: Float[Array, " nu"],
    torque: Float[Array, " nu"],
    damping: Float[Array, " nu"],
    step: float,
) -> Mesh:
    """Return how the motor's side moves through the backlash in one physics step.

    The motor's side has no inertia of its own (the joint's armature holds it): in the gap it runs
    ahead of the joint at the relative speed torque / damping, at an end of the gap it drives the
    joint. Continuous and differentiable but for the corners of the dead zone; without backlash
    everything is engaged.

    Args:
        motor: Numbers of the motors; `backlash` is the full width of the gap [rad].
        gap: At the start of the step [rad].
        torque: At the joint's speed [N m].
        damping: Fall of the torque with the motor's speed [N m s/rad].
        step: [s].

    Source: the exact backlash model of Nordin, Galic and Gutman (Int. J. Adaptive Control and
    Signal Processing 11 (1997) 49) with a rigid shaft.
    """
    half = 0.5 * motor.backlash
    # A torque that no speed lowers crosses the gap at once.
    wanted = torque * step / jnp.maximum(damping, 1e-9)
    moved = jnp.clip(wanted, -half - gap, half - gap)
    is_pushed = wanted != 0
    share = 1.0 - moved / jnp.where(is_pushed, wanted, 1.0)
    is_rigid = motor.backlash <= 0
    return Mesh(gap + moved, jnp.where(is_rigid, 1.0, jnp.clip(share, 0.0, 1.0)))


def _limit(
    motor: Motor, torque: Float[Array, " nu"], speed: Float[Array, " nu"], voltage: Float[Array, ""]
) -> Float[Array, " nu"]:
    """Clip to the torque limit, and where one is declared to what the DC motor can give."""
    torque = jnp.clip(torque, -motor.torque_limit, motor.torque_limit)
    k = motor.torque_constant
    stall, drag = k * voltage / motor.resistance, k**2 * speed / motor.resistance
    return jnp.where(k > 0, jnp.clip(torque, -stall - drag, stall - drag), torque)


def _reduction(motor: Motor, torque: Float[Array, " nu"]) -> Float[Array, " nu"]:
    """Return the share of a torque [N m] that is left where the motor's iron saturates.

    The torque constant falls with the current: k / (1 + saturation |k i|), which never turns back.
    """
    return 1.0 / (1.0 + motor.saturation * jnp.abs(torque))


def _current(
    motor: Motor, torque: Float[Array, " nu"], speed: Float[Array, " nu"], voltage: Float[Array, ""]
) -> Float[Array, " nu"]:
    """Return the supply current of a torque [A].

    Electrical power over voltage, zero without a torque constant.
    """
    k = motor.torque_constant
    winding = torque / jnp.where(k > 0, k, 1.0)
    power = winding**2 * motor.resistance + torque * speed
    return jnp.where((k > 0) & (voltage > 0), power / jnp.where(voltage > 0, voltage, 1.0), 0.0)
