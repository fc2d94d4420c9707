"""A task in a simulated world, as pure functions: `reset`, `step`, and the `episode` of a policy.

θ belongs to the world that `reset` is given; `restart` draws a new one wherever an episode has
ended. A batch is `jax.vmap`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from s2r_jax import observation
from s2r_jax.randomize import distribution as distributions
from s2r_jax.randomize.distribution import Distribution
from s2r_jax.sim import sensors
from s2r_jax.sim.world import Simulator, State, World
from s2r_jax.train import task as tasks
from s2r_jax.train.reward import error, reward
from s2r_jax.train.task import Task

#: A deterministic policy: observation -> action.
Act = Callable[[Float[Array, " obs"]], Float[Array, " nu"]]


class EnvState(NamedTuple):
    """One episode under way."""

    world: World
    """Its physics; `world.theta` is the θ that was drawn."""
    simulation: State
    seed: UInt32[Array, " words"]
    """Key data of what is random in the episode, one key for the control periods and one for the
    sensor noise. Plain words, because the check for keys that are used twice cannot follow a key
    through `where`."""
    action: Float[Array, " nu"]
    """The last one, in [-1, 1]; zero at the start."""
    sensors: Float[Array, " sensor"]
    """What the robot has measured at this control tick."""
    observation: Float[Array, " obs"]
    critic: Float[Array, " critic"]
    """Privileged: the observation without sensor errors, and θ in [-1, 1] within its bounds."""
    reward: Float[Array, ""]
    """Of the last step: reward per second times the control period."""
    done: Bool[Array, ""]
    """The episode is over, for whatever reason."""
    truncated: Bool[Array, ""]
    """It is over because its time is."""
    success: Bool[Array, ""]
    """It is over and has succeeded."""
    tick: Int[Array, ""]
    """Control periods since the start."""
    held: Int[Array, ""]
    """Control periods that the success signal has been within tolerance, without a break."""


class Episode(NamedTuple):
    """One whole episode; rows after an early end repeat nothing and count for nothing."""

    reward: Float[Array, ""]
    """The return: sum of the rewards."""
    success: Bool[Array, ""]
    length: Int[Array, ""]
    """Control periods until it ended."""
    theta: Float[Array, " param"]
    observation: Float[Array, "time obs"]
    """Before each action."""
    action: Float[Array, "time nu"]
    sensors: Float[Array, "time sensor"]
    """Measured before each action."""
    signals: Float[Array, "time signal"]
    """True values of the task's signals after each action."""


@dataclasses.dataclass(frozen=True, eq=False)
class Environment:
    """A task on a simulator. Methods are pure and of one world, for the caller to vmap and jit."""

    simulator: Simulator
    task: Task

    @property
    def observation_size(self) -> int:
        """Length of the observation."""
        return observation.size(self.task.observation)

    @property
    def critic_size(self) -> int:
        """Length of the critic's observation."""
        return self.observation_size + len(self.simulator.parameters)

    @property
    def action_size(self) -> int:
        """Number of actuators."""
        return int(self.simulator.robot.model.nu)

    def target(self, action: Float[Array, " nu"]) -> Float[Array, " nu"]:
        """Return the motors' target of an action in [-1, 1], within the joints' limits."""
        rows = [(j.default, j.action_scale, j.low, j.high) for j in self.simulator.robot.joints]
        default, scale, low, high = np.array(rows, dtype=np.float32).T
        return jnp.clip(default + scale * action, low, high)

    def reset(self, key: PRNGKeyArray, world: World) -> EnvState:
        """Return the beginning of an episode in this world."""
        key_qpos, key_qvel, key_chance = jax.random.split(key, 3)
        place, dtype = self.task.reset, world.theta.dtype
        qpos = _uniform(key_qpos, place.qpos, place.qpos_spread, dtype)
        qvel = _uniform(key_qvel, place.qvel, place.qvel_spread, dtype)
        action = jnp.zeros(self.action_size, dtype)
        simulation = self.simulator.init(world, qpos, qvel, self.target(action))
        return self._look(
            world,
            simulation,
            jax.random.key_data(key_chance),
            action,
            reward=jnp.zeros((), dtype),
            over=jnp.zeros((), bool),
            tick=jnp.zeros((), jnp.int32),
            held=jnp.zeros((), jnp.int32),
        )

    def step(self, state: EnvState, action: Float[Array, " nu"]) -> EnvState:
        """Advance one control period; an action beyond [-1, 1] is clipped, as on the robot."""
        action = jnp.clip(action, -1.0, 1.0).astype(state.action.dtype)
        command = self.simulator.nominal_command(self.target(action))
        key_periods, _ = jax.random.split(jax.random.wrap_key_data(state.seed))
        key = jax.random.fold_in(key_periods, state.tick)
        simulation = self.simulator.step(state.world, state.simulation, command, key)
        signals = self.signals(simulation)
        earned = reward(self.task.rewards, signals, action, state.action, jnp)
        over = jnp.zeros((), bool)
        for limit in self.task.limits:
            value = signals[limit.entry]
            over = over | (value < limit.low) | (value > limit.high)
        goal = self.task.success
        wrong = error(signals[goal.entry], goal.target, goal.period, jnp)
        held = jnp.where(jnp.abs(wrong) <= goal.tolerance, state.held + 1, 0)
        return self._look(
            state.world,
            simulation,
            state.seed,
            action,
            reward=(earned * self.simulator.robot.period).astype(state.reward.dtype),
            over=over,
            tick=state.tick + 1,
            held=held.astype(state.held.dtype),
        )

    def restart(self, key: PRNGKeyArray, state: EnvState, distribution: Distribution) -> EnvState:
        """Return the state, or where its episode is over a new one in a newly drawn world."""
        key_theta, key_reset = jax.random.split(key)
        theta = distributions.sample(key_theta, distribution).astype(state.world.theta.dtype)
        fresh = self.reset(key_reset, self.simulator.world(theta))
        return jax.tree.map(lambda new, old: jnp.where(state.done, new, old), fresh, state)

    def signals(self, simulation: State) -> Float[Array, " signal"]:
        """Return the true values of the task's signals."""
        return sensors.truth(
            self.task.signals,
            self.simulator.free_joints,
            simulation.physics,
            simulation.duty,
            simulation.torque,
            simulation.voltage,
        )

    def _look(
        self,
        world: World,
        simulation: State,
        seed: Array,
        action: Array,
        *,
        reward: Array,
        over: Array,
        tick: Array,
        held: Array,
    ) -> EnvState:
        """Return the state with what policy and critic see of it."""
        _, key_noise = jax.random.split(jax.random.wrap_key_data(seed))
        read = self.simulator.read(world, simulation, key_noise)
        truth = self.simulator.truth(simulation)
        terms = self.task.observation
        parameters = self.simulator.parameters
        low = jnp.asarray(parameters.low, world.theta.dtype)
        high = jnp.asarray(parameters.high, world.theta.dtype)
        place = 2.0 * (world.theta - low) / (high - low) - 1.0
        truncated = ~over & (tick >= self.task.steps)
        return EnvState(
            world,
            simulation,
            seed,
            action,
            read,
            observation.observe(terms, read, action, jnp),
            jnp.concatenate([observation.observe(terms, truth, action, jnp), place]),
            reward,
            over | truncated,
            truncated,
            truncated & (held >= self.task.success.last),
            tick,
            held,
        )


def make(simulator: Simulator, task: str) -> Environment:
    """Return the environment of a task that the simulator's robot declares."""
    return Environment(simulator, tasks.parse(simulator.robot, task))


def episode(environment: Environment, act: Act, key: PRNGKeyArray, world: World) -> Episode:
    """Play one episode in a world, from a random start, without restarting."""
    state = environment.reset(key, world)

    def advance(carry: tuple[EnvState, Array], _: None) -> tuple[tuple[EnvState, Array], Any]:
        state, alive = carry
        action = jnp.clip(act(state.observation), -1.0, 1.0)
        after = environment.step(state, action)
        row = (
            jnp.where(alive, after.reward, 0.0),
            alive & after.success,
            alive,
            state.observation,
            action,
            state.sensors,
            environment.signals(after.simulation),
        )
        return (after, alive & ~after.done), row

    alive = jnp.ones((), bool)
    _, rows = jax.lax.scan(advance, (state, alive), length=environment.task.steps)
    rewards, successes, lived, *trajectory = rows
    length = jnp.sum(lived, dtype=jnp.int32)
    return Episode(jnp.sum(rewards), jnp.any(successes), length, world.theta, *trajectory)


def _uniform(key: PRNGKeyArray, value: Any, spread: Any, dtype: Any) -> Array:
    middle = jnp.asarray(value, dtype)
    noise = jax.random.uniform(key, middle.shape, dtype, -1.0, 1.0)
    return middle + jnp.asarray(spread, dtype) * noise
