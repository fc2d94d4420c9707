"""Motors: from a command and the joint's motion to torque, friction and damping for the physics
engine.

Kinds as in `motors.py`. What is linear in speed (back-EMF, viscous friction) goes to the engine as
damping, which it
integrates implicitly; Coulomb friction goes as friction loss, which it solves as a constraint, so
that joints really stick.
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
    duty_gain: Float[Array, " nu"]
    lag: Float[Array, " nu"]
    friction: Float[Array, " nu"]
    viscous: Float[Array, " nu"]
    stribeck: Float[Array, " nu"]
    stribeck_speed: Float[Array, " nu"]
    load_friction: Float[Array, " nu"]
    offset: Float[Array, " nu"]
    backlash: Float[Array, " nu"]


class Output(NamedTuple):
    """What the motors do during one physics step, each `[nu]`."""

    torque: Float[Array, " nu"]
    """[N m], before friction."""
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
        return Output(motor.strength * torque, zero, zero, _current(motor, torque, speed, voltage))
    error = command.target - (angle + motor.offset)
    if kind == "pd":
        asked = command.kp * error - command.kd * speed + command.torque
        torque = _limit(motor, command.enabled * asked, speed, voltage)
        return Output(motor.strength * torque, zero, zero, _current(motor, torque, speed, voltage))
    duty = jnp.clip(motor.duty_gain * (command.kp * error - command.kd * speed), -1.0, 1.0)
    duty = command.enabled * duty
    stall = motor.torque_constant / motor.resistance * voltage * duty
    # With the winding open neither the voltage nor the back-EMF drives a current.
    back_emf = command.enabled * motor.torque_constant**2 / motor.resistance
    current = duty * (duty * voltage - motor.torque_constant * speed) / motor.resistance
    return Output(motor.strength * stall, back_emf, duty, current)


def friction(
    motor: Motor, speed: Float[Array, " nu"], transmitted: Float[Array, " nu"]
) -> Float[Array, " nu"]:
    """Return the friction torque that the gear can hold [N m]: Coulomb, Stribeck and load-
    dependent.

    Args:
        motor: Numbers of the motors.
        speed: Joint speed [rad/s].
        transmitted: Torque through the gear [N m].

    Source: BAM's friction models M1 to M4, arXiv:2410.08650.
    """
    stiction = motor.stribeck * jnp.exp(-((speed / motor.stribeck_speed) ** 2))
    return motor.friction + stiction + motor.load_friction * jnp.abs(transmitted)


def follow(
    motor: Motor, asked: Float[Array, " nu"], lagged: Float[Array, " nu"], step: float
) -> Float[Array, " nu"]:
    """Return the torque of a first-order lag after one physics step [s], exact for a held input."""
    is_instant = motor.lag <= 0
    decay = jnp.exp(-step / jnp.where(is_instant, 1.0, motor.lag))
    return jnp.where(is_instant, asked, asked + (lagged - asked) * decay)


def _limit(
    motor: Motor, torque: Float[Array, " nu"], speed: Float[Array, " nu"], voltage: Float[Array, ""]
) -> Float[Array, " nu"]:
    """Clip to the torque limit, and to what a DC motor can give at this speed and voltage where one is declared."""
    torque = jnp.clip(torque, -motor.torque_limit, motor.torque_limit)
    k = motor.torque_constant
    stall, drag = k * voltage / motor.resistance, k**2 * speed / motor.resistance
    return jnp.where(k > 0, jnp.clip(torque, -stall - drag, stall - drag), torque)


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
