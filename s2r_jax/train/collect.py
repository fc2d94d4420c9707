"""Experience: every world plays on, and restarts with a new θ where an episode ends."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from s2r_jax.randomize import distribution as distributions
from s2r_jax.randomize.distribution import Distribution
from s2r_jax.train import networks, normalize
from s2r_jax.train.environment import Environment, EnvState
from s2r_jax.train.networks import MLP


class Learned(NamedTuple):
    """What gradient descent changes."""

    actor: Any
    """Flax parameters."""
    log_std: Float[Array, " nu"]
    critic: Any
    """Flax parameters."""


class Statistics(NamedTuple):
    """What experience changes."""

    observation: normalize.Normalizer
    critic: normalize.Normalizer


class Batch(NamedTuple):
    """Experience of one update."""

    observation: Float[Array, "time world obs"]
    critic: Float[Array, "time world critic"]
    action: Float[Array, "time world nu"]
    """As drawn, before the environment clips it."""
    mean: Float[Array, "time world nu"]
    log_density: Float[Array, "time world"]
    reward: Float[Array, "time world"]
    done: Bool[Array, "time world"]
    truncated: Bool[Array, "time world"]
    value: Float[Array, "time world"]
    next_value: Float[Array, "time world"]
    """Of the state that the action led to, before a restart."""


class Outcome(NamedTuple):
    """The last whole episode that each world ended during an update."""

    ended: Bool[Array, " world"]
    theta: Float[Array, "world param"]
    reward: Float[Array, " world"]
    """The return."""
    success: Bool[Array, " world"]


def mean_action(
    environment: Environment,
    hidden: tuple[int, ...],
    learned: Learned,
    statistics: Statistics,
    observation: Float[Array, " obs"],
) -> Float[Array, " nu"]:
    """Return the centre of the actor's Gaussian."""
    inputs = normalize.apply(
        observation, statistics.observation.mean, normalize.std(statistics.observation)
    )
    network = MLP((*hidden, environment.action_size))
    return jnp.asarray(network.apply({"params": learned.actor}, inputs))


def value(
    hidden: tuple[int, ...],
    learned: Learned,
    statistics: Statistics,
    critic: Float[Array, " critic"],
) -> Float[Array, ""]:
    """Return the critic's value of what it sees."""
    inputs = normalize.apply(critic, statistics.critic.mean, normalize.std(statistics.critic))
    return jnp.asarray(MLP((*hidden, 1)).apply({"params": learned.critic}, inputs))[0]


def start(
    environment: Environment,
    key: PRNGKeyArray,
    distribution: Distribution,
    worlds: int,
    unroll: int,
) -> EnvState:
    """Return worlds at the beginning of their first episodes, whose ends are spread in time.

    Ends that fall on ends of unrolls need only one restart in an update.
    """
    key_theta, key_reset, key_tick = jax.random.split(key, 3)
    theta = jax.vmap(distributions.sample, (0, None))(
        jax.random.split(key_theta, worlds), distribution
    )
    built = jax.vmap(environment.simulator.world)(theta)
    state = jax.vmap(environment.reset)(jax.random.split(key_reset, worlds), built)
    parts = max(environment.task.steps // unroll, 1)
    tick = unroll * jax.random.randint(key_tick, (worlds,), 0, parts)
    return state._replace(tick=tick.astype(state.tick.dtype))


def collect(
    environment: Environment,
    hidden: tuple[int, ...],
    unroll: int,
    key: PRNGKeyArray,
    state: EnvState,
    returns: Float[Array, " world"],
    learned: Learned,
    statistics: Statistics,
    distribution: Distribution,
) -> tuple[EnvState, Float[Array, " world"], Batch, Outcome]:
    """Let every world act for `unroll` control periods.

    Args:
        environment: Environment of one world.
        hidden: Widths of the hidden layers.
        unroll: Control periods.
        key: Of exploration and restarts.
        state: Worlds `[world]`.
        returns: Reward so far in the episodes under way; NaN in one that did not begin at its
            beginning, and so is not reported.
        learned: Networks.
        statistics: Normalisers, fixed meanwhile.
        distribution: Of the θ of new episodes; its values may change without recompiling.
    """
    worlds = returns.shape[0]
    critic = jax.vmap(lambda x: value(hidden, learned, statistics, x))
    centre = jax.vmap(lambda x: mean_action(environment, hidden, learned, statistics, x))
    density = jax.vmap(networks.log_density, (0, 0, None))

    def restart(key: Array, state: EnvState) -> EnvState:
        keys = jax.random.split(key, worlds)
        return jax.vmap(environment.restart, (0, 0, None))(keys, state, distribution)

    def advance(carry: Any, key: Array) -> tuple[Any, Batch]:
        state, returns, outcome = carry
        key_noise, key_restart = jax.random.split(key)
        mean = centre(state.observation)
        noise = jax.random.normal(key_noise, mean.shape, mean.dtype)
        action = mean + jnp.exp(learned.log_std) * noise
        after = jax.vmap(environment.step)(state, action)
        row = Batch(
            state.observation,
            state.critic,
            action,
            mean,
            density(action, mean, learned.log_std),
            after.reward,
            after.done,
            after.truncated,
            critic(state.critic),
            critic(after.critic),
        )
        returns = returns + after.reward
        ended = after.done & ~jnp.isnan(returns)
        now = Outcome(ended, after.world.theta, returns, after.success)
        outcome = jax.tree.map(
            lambda new, old: jnp.where(ended.reshape(-1, *[1] * (new.ndim - 1)), new, old),
            now,
            outcome,
        )
        returns = jnp.where(after.done, 0.0, returns)
        # Building worlds is dear, and needed only where an episode ended.
        state = jax.lax.cond(jnp.any(after.done), restart, lambda _, s: s, key_restart, after)
        return (state, returns, outcome), row

    nothing = jnp.zeros(worlds, bool)
    outcome = Outcome(nothing, state.world.theta, jnp.zeros_like(returns), nothing)
    keys = jax.random.split(key, unroll)
    (state, returns, outcome), batch = jax.lax.scan(advance, (state, returns, outcome), keys)
    return state, returns, batch, outcome
