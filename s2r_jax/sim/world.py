"""One simulated world: a physics engine, and around it the command path, the motors, the battery
and the sensors.

    command -> latency line -> motor (strength, battery sag, torque-speed, friction) -> physics
    substeps -> sensors

Everything is pure and takes one world; a batch is `jax.vmap`. `World` holds what θ says of one
world and stays fixed
within an episode; `State` is what a step changes.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from s2r_jax.errors import BadModel
from s2r_jax.parameters import ParameterSet, apply, is_model_field
from s2r_jax.robot import Robot
from s2r_jax.sim import engines, latency, motor, sensors
from s2r_jax.sim.engines import Drive, Physics
from s2r_jax.types import Command


class World(NamedTuple):
    """One world's physics, fixed within an episode."""

    theta: Float[Array, " param"]
    engine: Any
    """The engine's own form of θ."""
    motor: motor.Motor
    battery: "Battery"
    delay: Float[Array, ""]
    """Of the command path [s]."""
    sensors: sensors.Sensors


class Battery(NamedTuple):
    """Supply: terminal voltage = open circuit - resistance * current."""

    voltage: Float[Array, ""]
    """Open circuit, fully charged [V]."""
    resistance: Float[Array, ""]
    """[Ω]."""
    capacity: Float[Array, ""]
    """Charge at which the open-circuit voltage has fallen by a fifth [C]."""


class State(NamedTuple):
    """What a step changes."""

    physics: Physics
    line: Float[Array, "held 3 nu"]
    """Targets, feed-forward torques and enables, newest first."""
    lagged: Float[Array, " nu"]
    """Torque behind the motor's lag [N m]."""
    torque: Float[Array, " nu"]
    """Torque of the motors in the last physics step [N m]."""
    duty: Float[Array, " nu"]
    current: Float[Array, ""]
    """Drawn from the battery [A]."""
    charge: Float[Array, ""]
    """Taken from the battery since the start [C]."""
    voltage: Float[Array, ""]
    """Terminal voltage in the last physics step [V]."""
    history: Float[Array, "ticks sensor"]
    """True signals at the last control ticks, newest first."""
    drift: Float[Array, " sensor"]


#: Share of the open-circuit voltage that a lithium cell loses between full and empty (4.2 V to 3.4
#: V).
VOLTAGE_FALL = 0.2


@dataclasses.dataclass(frozen=True, eq=False)
class Simulator:
    """A robot on an engine.

    Methods are pure functions of one world, left for the caller to jit, vmap, differentiate.
    """

    robot: Robot
    engine: engines.Engine
    parameters: ParameterSet

    @property
    def timestep(self) -> float:
        """Physics step [s]."""
        return float(self.robot.model.opt.timestep)

    @property
    def substeps(self) -> int:
        """Physics steps in a control period."""
        return round(self.robot.period / self.timestep)

    @functools.cached_property
    def held(self) -> int:
        """Length of the command line."""
        return latency.line_length(
            self._longest("latency.action", self.robot.action_latency), self.robot.period
        )

    @functools.cached_property
    def ticks(self) -> int:
        """Length of the sensor history."""
        nominal = self.robot.quantities["sensor.delay"][1]
        longest = self._longest("sensor.delay", float(np.max(nominal, initial=0.0)))
        return latency.line_length(longest, self.robot.period)

    def _longest(self, field: str, nominal: float) -> float:
        """Return the largest value that θ can give a delay, so that lines are long enough once and for all."""
        longest = nominal
        for effect in self.parameters.effects:
            if effect.field == field:
                for index, param in zip(effect.indices, effect.params, strict=True):
                    base = float(np.ravel(self.robot.nominal(field))[index])
                    high = self.parameters.high[param]
                    reach = {"set": high, "add": base + high, "scale": base * high}[
                        effect.operation
                    ]
                    longest = max(longest, reach)
        return longest

    @functools.cached_property
    def free_joints(self) -> dict[int, tuple[int, int]]:
        """Body id -> (qpos, qvel address) of its free joint."""
        model = self.robot.model
        return {
            int(model.jnt_bodyid[j]): (int(model.jnt_qposadr[j]), int(model.jnt_dofadr[j]))
            for j in range(model.njnt)
            if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE
        }

    def nominal_command(self, target: Float[Array, " nu"]) -> Command:
        """Return the command that asks for `target` with the firmware's own gains."""
        values = self.robot.motors.values
        dtype = target.dtype
        zero = jnp.zeros_like(target)
        kp, kd = jnp.asarray(values["kp"], dtype), jnp.asarray(values["kd"], dtype)
        return Command(target, zero, kp, kd, zero + 1, jnp.full((), jnp.nan, dtype))

    def world(self, theta: Float[Array, " param"]) -> World:
        """Return the world that θ describes."""
        outer = ParameterSet(
            effects=tuple(e for e in self.parameters.effects if not is_model_field(e.field))
        )
        quantities = self.robot.quantities
        moved = apply(outer, theta, {name: value for name, (_, value) in quantities.items()})

        def value(name: str) -> Array:
            given = moved.get(name, quantities[name][1])
            return jnp.asarray(given, theta.dtype)

        return World(
            theta,
            self.engine.prepare(theta),
            motor.Motor(*[value(f"motor.{key}") for key in motor.Motor._fields]),
            Battery(*[value(f"battery.{key}") for key in Battery._fields]),
            value("latency.action"),
            sensors.Sensors(*[value(f"sensor.{key}") for key in sensors.Sensors._fields]),
        )

    def init(
        self,
        world: World,
        qpos: Float[Array, " nq"],
        qvel: Float[Array, " nv"],
        target: Float[Array, " nu"] | None = None,
    ) -> State:
        """Return a world at rest at this pose.

        The command line is filled with `target` (default: zero, torque on).
        """
        nu, dtype = self.robot.model.nu, qpos.dtype
        zero = jnp.zeros(nu, dtype)
        first = jnp.stack([zero if target is None else target, zero, zero + 1])
        line = jnp.broadcast_to(first, (self.held, 3, nu))
        still = jnp.zeros((), dtype)
        physics = self.engine.init(world.engine, qpos, qvel)
        state = State(
            physics,
            line,
            zero,
            zero,
            zero,
            still,
            still,
            world.battery.voltage,
            jnp.zeros((0, 0), dtype),
            zero,
        )
        truth = self.truth(state)
        return state._replace(
            history=jnp.broadcast_to(truth, (self.ticks, truth.size)), drift=jnp.zeros_like(truth)
        )

    def step(self, world: World, state: State, command: Command) -> State:
        """Advance one control period under a command."""
        newest = jnp.stack([command.target, command.torque, command.enabled])
        line = latency.push(state.line, newest.astype(state.line.dtype))
        state = state._replace(line=line)

        def substep(state: State, index: Array) -> tuple[State, None]:
            start = index.astype(state.line.dtype) * self.timestep
            acting = latency.read(line, world.delay, start, self.timestep, self.robot.period)
            return self._substep(world, state, command, acting), None

        if self._is_open_loop:
            acting = latency.read(
                line, world.delay, jnp.zeros((), line.dtype), self.robot.period, self.robot.period
            )
            state = self._open_loop(world, state, acting)
        else:
            state, _ = jax.lax.scan(substep, state, jnp.arange(self.substeps))
        return state._replace(history=latency.push(state.history, self.truth(state)))

    def truth(self, state: State) -> Float[Array, " sensor"]:
        """Return the true value of every signal."""
        return sensors.truth(
            self.robot.signals,
            self.free_joints,
            state.physics,
            state.duty,
            state.torque,
            state.voltage,
        )

    def read(
        self, world: World, state: State, key: PRNGKeyArray | None = None
    ) -> Float[Array, " sensor"]:
        """Return what the sensors report at this control tick; without a key there is no noise."""
        return sensors.read(world.sensors, state.history, state.drift, self.robot.period, key)

    @property
    def _is_open_loop(self) -> bool:
        """Whether nothing around the engine depends on the motion within a control period."""
        return self.robot.motors.kind == "native" and not self.robot.motors.has_friction

    def _open_loop(self, world: World, state: State, acting: Float[Array, "3 nu"]) -> State:
        still = jnp.zeros_like(state.physics.qvel)
        drive = Drive(world.motor.strength * acting[0] * acting[2], still, still, still)
        physics = self.engine.step(world.engine, state.physics, drive, self.substeps)
        return state._replace(physics=physics)

    def _substep(
        self, world: World, state: State, command: Command, acting: Float[Array, "3 nu"]
    ) -> State:
        """Advance one physics step: battery, motor, friction, engine."""
        table = self.robot.motors
        dofs, qposes = np.array(table.dofs, int), np.array(table.qposes, int)
        command = command._replace(target=acting[0], torque=acting[1], enabled=acting[2])
        angle, speed = state.physics.qpos[qposes], state.physics.qvel[dofs]
        fresh = 1.0 - VOLTAGE_FALL * state.charge / world.battery.capacity
        loaded = world.battery.voltage * fresh - world.battery.resistance * state.current
        voltage = jnp.where(jnp.isnan(command.voltage), loaded, command.voltage).astype(angle.dtype)
        output = motor.drive(table.kind, world.motor, command, angle, speed, voltage)
        torque = motor.follow(world.motor, output.torque, state.lagged, self.timestep)
        still = jnp.zeros_like(state.physics.qvel)
        friction = still
        if table.has_friction:
            # The gear transmits the motor's torque against gravity and the rest of the arm.
            transmitted = torque - output.damping * speed + state.physics.bias[dofs]
            friction = still.at[dofs].add(motor.friction(world.motor, speed, transmitted))
        damping = still.at[dofs].add(output.damping + world.motor.viscous)
        drive = Drive(torque / self._gears, still, friction, damping)
        physics = self.engine.step(world.engine, state.physics, drive, 1)
        current = jnp.sum(output.current)
        return state._replace(
            physics=physics,
            lagged=torque,
            torque=torque - output.damping * speed,
            duty=output.duty,
            current=current,
            charge=state.charge + current * self.timestep,
            voltage=voltage,
        )

    @functools.cached_property
    def _gears(self) -> np.ndarray:
        """Torque per unit of ctrl of each `<motor>`."""
        model = self.robot.model
        return model.actuator_gear[:, 0] * model.actuator_gainprm[:, 0]


def make(robot: Robot, engine: str, parameters: ParameterSet | None = None) -> Simulator:
    """Return the simulator of a robot on an engine (`mujoco`, `mjx`, `warp`).

    Raises:
        UnknownName: No such engine.
        Unsupported: The model has a feature that the engine ignores or lacks.
        BadModel: A signal of a body that has no free joint.
    """
    chosen = robot.parameters if parameters is None else parameters
    wants_sensors = any(signal.kind == "sensor" for signal in robot.signals)
    built = engines.make(engine, robot.model, chosen, wants_sensors)
    simulator = Simulator(robot, built, chosen)
    for signal in robot.signals:
        if signal.kind == "body" and signal.address[0] not in simulator.free_joints:
            remedy = "only free bodies have these signals; use a MuJoCo frame sensor"
            raise BadModel(
                robot.file,
                f"signals: {signal.name}: body '{signal.element}' has no free joint; {remedy}",
            )
    return simulator


__all__ = ["Battery", "Simulator", "State", "World", "make"]
