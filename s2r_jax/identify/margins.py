"""Whether a machine stays within its limits under an excitation, in simulation, whatever its θ.

Every physics step counts, not only the control ticks at which a sensor would look: a torque peaks
within a period. Simulated is the same world as everywhere, at a control period of one physics step.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Bool, Float

from s2r_jax.document import mapping, number
from s2r_jax.errors import BadValue
from s2r_jax.parameters import ParameterSet, apply, is_model_field
from s2r_jax.robot import Robot
from s2r_jax.sim import latency, world
from s2r_jax.sim.world import Simulator, State, World
from s2r_jax.types import Array

#: Fields that MuJoCo's own actuators make their force of.
FORCE_FIELDS = ("actuator_gainprm", "actuator_biasprm", "actuator_gear")


class Limits(NamedTuple):
    """What must not be exceeded; inf where nothing is said."""

    joints: tuple[str, ...]
    """Hinges and slides, in the model's order."""
    low: Float[np.ndarray, " joint"]
    """Position [rad, m]."""
    high: Float[np.ndarray, " joint"]
    speed: Float[np.ndarray, " joint"]
    """[rad/s, m/s]."""
    torque: Float[np.ndarray, " nu"]
    """Of the motors [N m, N]."""
    rate: float
    """Of a commanded angle [rad/s]; `driver: limits: slew`."""
    acceleration: float
    """Of a commanded angle [rad/s^2]."""


class Extremes(NamedTuple):
    """What was reached; leaves may have leading axes of excitations and θ."""

    low: Float[Array, "*batch joint"]
    high: Float[Array, "*batch joint"]
    speed: Float[Array, "*batch joint"]
    torque: Float[Array, "*batch nu"]


def limits(robot: Robot) -> Limits:
    """Return the limits of the model's joints and of robot.yaml, whichever is narrower.

    Raises:
        BadValue: A torque limit on an actuator whose force cannot be told from its state.
    """
    model = robot.model
    scalar = [
        j for j in range(model.njnt) if int(model.jnt_type[j]) >= int(mujoco.mjtJoint.mjJNT_SLIDE)
    ]
    low, high, speed = (np.full(len(scalar), value) for value in (-np.inf, np.inf, np.inf))
    torque = np.array([joint.torque for joint in robot.joints], dtype=float)
    for row, j in enumerate(scalar):
        if model.jnt_limited[j]:
            low[row], high[row] = model.jnt_range[j]
    rows = {model.joint(j).name: row for row, j in enumerate(scalar)}
    for i, joint in enumerate(robot.joints):
        row = rows.get(joint.name)
        if row is None:
            continue
        speed[row] = joint.velocity
        if robot.motors.targets[i] == "angle":
            low[row], high[row] = max(low[row], joint.low), min(high[row], joint.high)
        if robot.motors.kind == "native" and np.isfinite(torque[i]) and not _is_plain(model, i):
            expected = "an actuator on one joint without dynamics, whose force can be checked"
            raise BadValue(f"{robot.file}: joints/{joint.name}", "torque", torque[i], expected)
    names = ("slew", "acceleration", "temperature", "voltage_low", "voltage_high", "tilt", "stale",
             "tilt_signal")  # fmt: skip
    place = f"{robot.file}: driver: limits"
    given = mapping(robot.driver.get("limits"), place, names)
    rate, acceleration = (
        number(given, key, place) if key in given else np.inf for key in ("slew", "acceleration")
    )
    return Limits(tuple(rows), low, high, speed, torque, rate, acceleration)


def _is_plain(model: mujoco.MjModel, i: int) -> bool:
    kinds = ("trntype", "gaintype", "biastype", "dyntype")
    found = [int(getattr(model, f"actuator_{kind}")[i]) for kind in kinds]
    plain = [mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtGain.mjGAIN_FIXED, found[2],
             mujoco.mjtDyn.mjDYN_NONE]  # fmt: skip
    biases = (int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtBias.mjBIAS_AFFINE))
    return found == [int(kind) for kind in plain] and found[2] in biases


def used(limits: Limits, extremes: Extremes) -> Float[np.ndarray, "*batch limit"]:
    """Return the share of each limit that was used: positions, then speeds, then torques.

    1 is at the limit, 0.9 within a margin of a tenth; of a position limit the distance from the
    middle counts. Unlimited is 0, a simulation that diverged is inf.
    """
    reached = [np.asarray(leaf, dtype=float) for leaf in extremes]
    low, high, speed, torque = reached
    is_range = np.isfinite(limits.high - limits.low)
    ends = [np.where(is_range, end, width) for end, width in ((limits.low, -1), (limits.high, 1))]
    middle, half = 0.5 * (ends[0] + ends[1]), 0.5 * (ends[1] - ends[0])
    position = np.maximum(high - middle, middle - low) / half
    # With one end there is no width to take a share of: the end itself is the limit.
    beyond = (high > limits.high) | (low < limits.low)
    position = np.where(is_range, position, np.where(beyond, np.inf, 0.0))
    with np.errstate(invalid="ignore"):
        parts = (position, speed / limits.speed, torque / limits.torque)
        shares = np.concatenate(parts, axis=-1)
    finite = np.concatenate([np.isfinite(low + high), np.isfinite(speed), np.isfinite(torque)], -1)
    return np.where(finite, shares, np.inf)


def used_by_commands(
    limits: Limits,
    targets: Float[np.ndarray, "*batch time nu"],
    is_angle: np.ndarray,
    period: float,
) -> Float[np.ndarray, " *batch"]:
    """Return the largest share of the limits on how commanded angles move that was used."""
    moved = np.diff(np.where(is_angle, targets, 0.0), axis=-2) / period
    bent = np.diff(moved, axis=-2) / period
    return np.maximum(
        np.abs(moved).max((-1, -2)) / limits.rate, np.abs(bent).max((-1, -2)) / limits.acceleration
    )


class Response:
    """How the machine moves under excitations: extremes over every physics step.

    Compiled once for each number of excitations and of θ.
    """

    def __init__(
        self, robot: Robot, qpos: Float[np.ndarray, " nq"], rest: Float[np.ndarray, " nu"]
    ):
        """Prepare the simulation from a pose at rest."""
        fine = dataclasses.replace(robot, period=float(robot.model.opt.timestep))
        self._simulator = world.make(fine, "mujoco")
        self._substeps = round(robot.period / fine.period)
        self._start = (jnp.asarray(qpos, jnp.float32), jnp.asarray(rest, jnp.float32))
        over_theta = jax.vmap(self._one, in_axes=(0, None))
        self._all = jax.jit(jax.vmap(over_theta, in_axes=(None, 0)))

    def __call__(
        self,
        thetas: Float[np.ndarray, "draw param"],
        targets: Float[np.ndarray, "excitation time nu"],
    ) -> Extremes:
        """Return what is reached, `[excitation, draw, ...]`."""
        given = jnp.asarray(thetas, jnp.float32), jnp.asarray(targets, jnp.float32)
        return Extremes(*[np.asarray(leaf) for leaf in self._all(*given)])

    def _one(self, theta: Array, targets: Array) -> Extremes:
        simulator = self._simulator
        physics = simulator.world(theta)
        qpos, rest = self._start
        state = simulator.init(physics, qpos, jnp.zeros(simulator.robot.model.nv), rest)
        force = native_force(simulator, theta)
        q, v = _addresses(simulator.robot.model)
        driven = np.array(simulator.robot.motors.qposes, int)
        extremes = Extremes(qpos[q], qpos[q], jnp.zeros(len(v)), jnp.zeros(rest.size))

        def substep(carry: Any, _: None, command: Any) -> tuple[Any, None]:
            before, reached = carry
            state = simulator.step(physics, before, command)
            # What acted during the step: the state before it, under the commands of now.
            acted = before._replace(line=state.line)
            torque = state.torque if force is None else force(physics, acted)
            at, speed = state.physics.qpos[q], jnp.abs(state.physics.qvel[v])
            # NaN passes through both, so that divergence shows.
            low, high = jnp.minimum(reached.low, at), jnp.maximum(reached.high, at)
            most = jnp.maximum(reached.torque, jnp.abs(torque))
            return (state, Extremes(low, high, jnp.maximum(reached.speed, speed), most)), None

        def period(carry: Any, target: Array) -> tuple[Any, None]:
            command = simulator.nominal_command(target)
            if simulator.robot.motors.kind == "pd":
                # A safety filter judges a PD law by its position error, before the motion damps it.
                before, reached = carry
                asked = command.kp * (target - before.physics.qpos[driven])
                most = jnp.maximum(reached.torque, jnp.abs(asked))
                carry = before, reached._replace(torque=most)
            carry, _ = jax.lax.scan(
                lambda c, x: substep(c, x, command), carry, None, length=self._substeps
            )
            return carry, None

        (_, reached), _ = jax.lax.scan(period, (state, extremes), targets)
        return reached


def native_force(simulator: Simulator, theta: Float[Array, " param"]) -> Any:
    """Return a function of world and state for the force of MuJoCo's own actuators at θ.

    None where the motors are ours, whose torque the state holds. Source: MuJoCo's computation
    chapter, force = gain * ctrl + bias0 + bias1 * length + bias2 * velocity, then its range.
    """
    robot = simulator.robot
    if robot.motors.kind != "native":
        return None
    inside = ParameterSet(
        effects=tuple(
            e
            for e in simulator.parameters.effects
            if is_model_field(e.field) and e.field in FORCE_FIELDS
        )
    )
    nominal = {name: robot.nominal(name) for name in FORCE_FIELDS}
    fields = nominal | apply(inside, theta, nominal)
    gain, bias, gear = (jnp.asarray(fields[name], theta.dtype) for name in FORCE_FIELDS)
    model, period = robot.model, robot.period
    plain = np.array([_is_plain(model, i) for i in range(model.nu)], bool)
    q, v = np.array(robot.motors.qposes, int), np.array(robot.motors.dofs, int)
    is_ranged = model.actuator_forcelimited.astype(bool)
    low = np.where(is_ranged, model.actuator_forcerange[:, 0], -np.inf)
    high = np.where(is_ranged, model.actuator_forcerange[:, 1], np.inf)
    is_told = model.actuator_ctrllimited.astype(bool)
    least = np.where(is_told, model.actuator_ctrlrange[:, 0], -np.inf)
    most = np.where(is_told, model.actuator_ctrlrange[:, 1], np.inf)

    def force(physics: World, state: State) -> Array:
        acting = latency.read(state.line, physics.latency.action, jnp.zeros(()), period, period)
        ctrl = jnp.clip(acting[0] * acting[2], least, most)
        length = gear[:, 0] * state.physics.qpos[q]
        speed = gear[:, 0] * state.physics.qvel[v]
        pushed = gain[:, 0] * ctrl + bias[:, 0] + bias[:, 1] * length + bias[:, 2] * speed
        return jnp.where(plain, gear[:, 0] * jnp.clip(pushed, low, high), 0.0)

    return force


def _addresses(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    scalar = model.jnt_type >= int(mujoco.mjtJoint.mjJNT_SLIDE)
    return model.jnt_qposadr[scalar], model.jnt_dofadr[scalar]


def is_within(shares: Float[np.ndarray, "*batch limit"], margin: float) -> Bool[np.ndarray, "..."]:
    """Tell whether every share keeps the margin."""
    return shares.max(-1, initial=0.0) <= 1 - margin
