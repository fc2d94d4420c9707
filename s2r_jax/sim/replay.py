"""What the sensors report while a log's commands are given again."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from s2r_jax.sim import latency, motor, sensors
from s2r_jax.sim.engines import Motion
from s2r_jax.sim.world import Simulator, State, World
from s2r_jax.types import Command

#: Fields by which the torque of a `torque` motor depends on the motion or on what was before.
FED_BACK = frozenset({"torque_constant", "lag"})


def replay(
    simulator: Simulator, world: World, state: State, commands: Command
) -> Float[Array, "time sensor"]:
    """Return what `Simulator.step` and `read` give in turn, without anything random.

    Where nothing around the engine depends on the motion, the controls of all periods are known
    before the first: the engine then gets them at once.

    Args:
        simulator: The robot on an engine.
        world: Its physics.
        state: Before the first period.
        commands: Of each control period, every leaf `[time, ...]`.
    """
    if is_known_ahead(simulator):
        return _at_once(simulator, world, state, commands)

    def advance(state: State, command: Command) -> tuple[State, Array]:
        return _advance(simulator, world, state, command)

    return jax.lax.scan(advance, state, commands)[1]


def is_known_ahead(simulator: Simulator) -> bool:
    """Return whether commands alone say what drives the engine: MuJoCo's actuators, or torques."""
    if simulator.is_open_loop:
        return True
    robot = simulator.robot
    is_plain = not robot.motors.has_friction and not robot.motors.declared & FED_BACK
    is_seen = any(signal.kind in ("motor", "battery") for signal in robot.signals)
    return robot.motors.kind == "torque" and is_plain and not is_seen


def _at_once(
    simulator: Simulator, world: World, state: State, commands: Command
) -> Float[Array, "time sensor"]:
    newest = jnp.stack([commands.target, commands.torque, commands.enabled], 1)
    lines = latency.lines(state.line, newest.astype(state.line.dtype))
    ctrl = jax.vmap(lambda line, command: _controls(simulator, world, line, command))(
        lines, commands
    )
    periods, each, nu = ctrl.shape
    steps = simulator.substeps // each
    motion = simulator.engine.roll(
        world.engine, state.physics, ctrl.reshape(periods * each, nu), steps
    )
    motion = jax.tree.map(lambda leaf: leaf[each - 1 :: each], motion)

    def truth(now: Motion) -> Array:
        return simulator.truth(state._replace(physics=state.physics._replace(**now._asdict())))

    history = latency.lines(state.history, jax.vmap(truth)(motion))
    ticks = state.tick + 1 + jnp.arange(periods, dtype=state.tick.dtype)
    period = simulator.robot.period
    return jax.vmap(
        lambda held, tick: sensors.read(world.sensors, held, state.drift, tick, period, None)
    )(history, ticks)


def _controls(
    simulator: Simulator, world: World, line: Float[Array, "held 3 nu"], command: Command
) -> Float[Array, "each nu"]:
    """Return the ctrl of a control period: one, or one for each of its physics steps."""
    delay = world.latency.action
    if simulator.is_open_loop:
        return simulator.controls(line, delay)[None]
    step, period = simulator.timestep, simulator.robot.period
    starts = step * jnp.arange(simulator.substeps, dtype=line.dtype)
    acting = jax.vmap(lambda start: latency.read(line, delay, start, step, period))(starts)
    still = jnp.zeros_like(acting[0, 0])

    def one(acting: Array) -> Array:
        told = command._replace(target=acting[0], torque=acting[1], enabled=acting[2])
        output = motor.drive("torque", world.motor, told, still, still, jnp.ones_like(still[0]))
        return output.torque / simulator.gears

    return jax.vmap(one)(acting)


# Tracing the physics takes seconds: jitted on its own it is traced once, not once for each number
# of windows and periods.
@functools.partial(jax.jit, static_argnums=0)
def _advance(
    simulator: Simulator, world: World, state: State, command: Command
) -> tuple[State, Array]:
    state = simulator.step(world, state, command)
    return state, simulator.read(world, state)
