"""One simulated world: a physics engine and all that surrounds it on a machine.

    command -> latency line -> motor (strength, battery sag, torque-speed, friction) -> physics
    substeps -> sensors

Everything is pure and takes one world; a batch is `jax.vmap`. What is random (jitter, loss, pushes,
drift, noise) happens only where a key is given.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from s2r_jax.errors import BadModel
from s2r_jax.parameters import ParameterSet, apply, is_model_field
from s2r_jax.robot import Robot
from s2r_jax.sim import battery, engines, latency, motor, push, sensors
from s2r_jax.sim.engines import Drive, by_controls
from s2r_jax.sim.state import State, World
from s2r_jax.types import Command


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
        longest = self._reach("latency.action")[1] + self._reach("latency.jitter")[1]
        longest += max(0.0, float(self._reach("clock.command")[1])) + self.ahead * self.robot.period
        return latency.line_length(float(longest), self.robot.period)

    @functools.cached_property
    def ahead(self) -> int:
        """Control periods that logged commands run ahead, so that no clock offset looks back."""
        earliest = min(0.0, float(self._reach("clock.command")[0]))
        return math.ceil(-earliest / self.robot.period)

    def as_logged(self, world: World) -> World:
        """Return the world as a log shows it, with commands that run `ahead`.

        The offset between the clocks of commands and measurements looks like latency.
        """
        action = world.latency.action + world.clock + self.ahead * self.robot.period
        return world._replace(latency=world.latency._replace(action=action))

    @functools.cached_property
    def ticks(self) -> int:
        """Length of the sensor history."""
        delay, (rate, _) = self._reach("sensor.delay")[1], self._reach("sensor.rate")
        age = np.divide(1.0, rate, out=np.zeros_like(rate), where=rate > 0)
        longest = float(np.max(delay + age, initial=0.0))
        return latency.line_length(longest, self.robot.period)

    def _reach(self, field: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest value that a quantity >= 0 has within θ's bounds.

        Lines are long enough once and for all.
        """
        outer = self._outer
        nominal = {name: self.robot.nominal(name) for name in outer.fields}
        values = [np.asarray(self.robot.nominal(field), dtype=float)]
        if field in nominal:
            corners = (np.array(bound, dtype=float) for bound in (outer.low, outer.high))
            values = [apply(outer, corner, nominal, xp=np)[field] for corner in corners]
        return np.asarray(np.min(values, axis=0)), np.asarray(np.max(values, axis=0))

    @functools.cached_property
    def _outer(self) -> ParameterSet:
        """Return what θ moves outside the engine."""
        effects = tuple(e for e in self.parameters.effects if not is_model_field(e.field))
        return dataclasses.replace(self.parameters, effects=effects)

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
        quantities = self.robot.quantities
        moved = apply(self._outer, theta, {name: value for name, (_, value) in quantities.items()})

        def value(name: str) -> Array:
            given = moved.get(name, quantities[name][1])
            return jnp.asarray(given, theta.dtype)

        return World(
            theta,
            self.engine.prepare(theta),
            motor.Motor(*[value(f"motor.{key}") for key in motor.Motor._fields]),
            battery.Battery(*[value(f"battery.{key}") for key in battery.Battery._fields]),
            latency.Latency(*[value(f"latency.{key}") for key in latency.Latency._fields]),
            push.Push(*[value(f"push.{key}") for key in push.Push._fields]),
            sensors.Sensors(*[value(f"sensor.{key}") for key in sensors.Sensors._fields]),
            value("clock.command"),
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
            lagged=zero,
            torque=zero,
            gap=zero,
            duty=zero,
            current=still,
            charge=still,
            voltage=battery.open_circuit(world.battery, still),
            history=jnp.zeros((0, 0), dtype),
            drift=zero,
            tick=jnp.zeros((), jnp.int32),
        )
        truth = self.truth(state)
        return state._replace(
            history=jnp.broadcast_to(truth, (self.ticks, truth.size)), drift=jnp.zeros_like(truth)
        )

    def settle(self, world: World, state: State, command: Command) -> State:
        """Return the state with the motors' lag where the commands given before would hold it.

        Args:
            world: Its physics.
            state: At a control tick; its line says what was asked for.
            command: The first to come: gains and supply.
        """
        table, period = self.robot.motors, self.robot.period
        if table.kind == "native":
            return state
        before = period - self.timestep  # the last physics step before now
        acting = latency.read(
            state.line, world.latency.action, jnp.asarray(before), self.timestep, period
        )
        command = command._replace(target=acting[0], torque=acting[1], enabled=acting[2])
        dofs, qposes = np.array(table.dofs, int), np.array(table.qposes, int)
        angle, speed = state.physics.qpos[qposes], state.physics.qvel[dofs]
        voltage = jnp.where(jnp.isnan(command.voltage), state.voltage, command.voltage)
        voltage = voltage.astype(angle.dtype)
        output = motor.drive(table.kind, world.motor, command, angle, speed, voltage)
        return state._replace(lagged=output.torque.astype(state.lagged.dtype))

    def step(
        self, world: World, state: State, command: Command, key: PRNGKeyArray | None = None
    ) -> State:
        """Advance one control period under a command.

        Args:
            world: Its physics.
            state: Before the period.
            command: What the motors are told; it arrives late.
            key: Of jitter, loss, pushes and drift in this period; without one there are none.
        """
        delay, is_lost = world.latency.action, False
        newest = jnp.stack([command.target, command.torque, command.enabled])
        if key is not None:
            key_latency, key_push, key_drift = jax.random.split(key, 3)
            delay, is_lost = latency.draw(world.latency, key_latency)
            state = self._pushed(world, state, key_push)
            drift = sensors.wander(world.sensors, state.drift, self.robot.period, key_drift)
            state = state._replace(drift=drift)
        newest = jnp.where(is_lost, state.line[0], newest.astype(state.line.dtype))
        line = latency.push(state.line, newest)
        state = state._replace(line=line)

        def substep(state: State, index: Array) -> tuple[State, None]:
            start = index.astype(state.line.dtype) * self.timestep
            acting = latency.read(line, delay, start, self.timestep, self.robot.period)
            return self._substep(world, state, command, acting), None

        if self.is_open_loop:
            drive = by_controls(self.controls(line, delay), state.physics)
            physics = self.engine.step(world.engine, state.physics, drive, self.substeps)
            state = state._replace(physics=physics)
        else:
            state, _ = jax.lax.scan(substep, state, jnp.arange(self.substeps))
        history = latency.push(state.history, self.truth(state))
        return state._replace(history=history, tick=state.tick + 1)

    def _pushed(self, world: World, state: State, key: PRNGKeyArray) -> State:
        if self.robot.pushed is None:
            return state
        dof = self.free_joints[self.robot.pushed][1]
        kick = push.kick(world.push, key, self.robot.period).astype(state.physics.qvel.dtype)
        qvel = state.physics.qvel.at[dof : dof + 2].add(kick)
        return state._replace(physics=state.physics._replace(qvel=qvel))

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
        """Return what the sensors report at this control tick; without a key there is no noise.

        Args:
            world: Its physics.
            state: At a control tick.
            key: Of the noise of a whole episode, the same at each tick; see `sensors.read`.
        """
        period = self.robot.period
        return sensors.read(world.sensors, state.history, state.drift, state.tick, period, key)

    @property
    def is_open_loop(self) -> bool:
        """Whether nothing around the engine depends on the motion within a control period."""
        return self.robot.motors.kind == "native" and not self.robot.motors.has_friction

    def controls(
        self, line: Float[Array, "held 3 nu"], delay: Float[Array, ""]
    ) -> Float[Array, " nu"]:
        """Return what reaches the actuators in a control period, without a motor model.

        Args:
            line: Commands at its beginning, see `State.line`.
            delay: Of the command path [s].
        """
        period, start = self.robot.period, jnp.zeros((), line.dtype)
        target, _, enabled = latency.read(line, delay, start, period, period)
        return target * enabled

    def _substep(
        self, world: World, state: State, command: Command, acting: Float[Array, "3 nu"]
    ) -> State:
        """Advance one physics step: battery, motor, friction, engine."""
        table = self.robot.motors
        dofs, qposes = np.array(table.dofs, int), np.array(table.qposes, int)
        command = command._replace(target=acting[0], torque=acting[1], enabled=acting[2])
        angle, speed = state.physics.qpos[qposes], state.physics.qvel[dofs]
        still = jnp.zeros_like(state.physics.qvel)
        if table.kind == "native":
            friction = still.at[dofs].add(motor.friction(world.motor, speed, jnp.zeros_like(speed)))
            damping = still.at[dofs].add(world.motor.viscous)
            drive = Drive(acting[0] * acting[2], still, friction, damping)
            return state._replace(physics=self.engine.step(world.engine, state.physics, drive, 1))
        loaded = battery.terminal(world.battery, state.charge, state.current)
        voltage = jnp.where(jnp.isnan(command.voltage), loaded, command.voltage).astype(angle.dtype)
        output = motor.drive(table.kind, world.motor, command, angle + state.gap, speed, voltage)
        lagged = motor.follow(world.motor, output.torque, state.lagged, self.timestep)
        driven = motor.behind_lag(table.kind, world.motor, lagged)
        torque = driven - output.damping * speed
        teeth = motor.mesh(
            world.motor,
            state.gap,
            torque,
            motor.slope(table.kind, world.motor, command, output),
            self.timestep,
        )
        friction = still
        if table.has_friction:
            # The gear transmits the motor's torque against gravity and the rest of the arm.
            transmitted = teeth.engaged * torque + state.physics.bias[dofs]
            friction = still.at[dofs].add(motor.friction(world.motor, speed, transmitted))
        damping = still.at[dofs].add(teeth.engaged * output.damping + world.motor.viscous)
        drive = Drive(teeth.engaged * driven / self.gears, still, friction, damping)
        physics = self.engine.step(world.engine, state.physics, drive, 1)
        current = jnp.sum(output.current)
        return state._replace(
            physics=physics,
            lagged=lagged,
            torque=torque,
            gap=teeth.gap,
            duty=output.duty,
            current=current,
            charge=state.charge + current * self.timestep,
            voltage=voltage,
        )

    @functools.cached_property
    def gears(self) -> np.ndarray:
        """Torque per unit of ctrl of each `<motor>`; a rotor's gear says where its thrust acts."""
        model = self.robot.model
        if self.robot.motors.kind == "rotor":
            return model.actuator_gainprm[:, 0]
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


__all__ = ["Simulator", "State", "World", "make"]
