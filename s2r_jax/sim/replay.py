"""What the sensors report while a log's commands are given again."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from s2r_jax.sim import latency, sensors
from s2r_jax.sim.engines import Motion
from s2r_jax.sim.world import Simulator, State, World
from s2r_jax.types import Command


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
    if simulator.is_open_loop:
        return _at_once(simulator, world, state, commands)

    def advance(state: State, command: Command) -> tuple[State, Array]:
        return _advance(simulator, world, state, command)

    return jax.lax.scan(advance, state, commands)[1]


def _at_once(
    simulator: Simulator, world: World, state: State, commands: Command
) -> Float[Array, "time sensor"]:
    newest = jnp.stack([commands.target, commands.torque, commands.enabled], 1)
    lines = latency.lines(state.line, newest.astype(state.line.dtype))
    ctrl = jax.vmap(lambda line: simulator.controls(line, world.latency.action))(lines)
    motion = simulator.engine.roll(world.engine, state.physics, ctrl, simulator.substeps)

    def truth(now: Motion) -> Array:
        return simulator.truth(state._replace(physics=state.physics._replace(**now._asdict())))

    history = latency.lines(state.history, jax.vmap(truth)(motion))
    ticks = state.tick + 1 + jnp.arange(len(ctrl), dtype=state.tick.dtype)
    period = simulator.robot.period
    return jax.vmap(
        lambda held, tick: sensors.read(world.sensors, held, state.drift, tick, period, None)
    )(history, ticks)


# Tracing the physics takes seconds: jitted on its own it is traced once, not once for each number
# of windows and periods.
@functools.partial(jax.jit, static_argnums=0)
def _advance(
    simulator: Simulator, world: World, state: State, command: Command
) -> tuple[State, Array]:
    state = simulator.step(world, state, command)
    return state, simulator.read(world, state)
