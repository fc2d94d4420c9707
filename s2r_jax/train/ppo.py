"""Proximal policy optimisation with a critic that sees θ, many worlds at once.

One update collects experience and takes some epochs of minibatch steps on it; all of it is one pure
function, `step`, for the driver in `run.py` to compile once.

Sources: PPO, arXiv:1707.06347; a learning rate steered by the KL divergence, arXiv:2109.11978; an
asymmetric critic, arXiv:1710.06542.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from s2r_jax.randomize.distribution import Distribution
from s2r_jax.train import collect as experience
from s2r_jax.train import networks, normalize
from s2r_jax.train.collect import Batch, Learned, Outcome, Statistics
from s2r_jax.train.config import PPOConfig
from s2r_jax.train.environment import Environment, EnvState
from s2r_jax.train.gae import advantages
from s2r_jax.train.networks import MLP
from s2r_jax.train.policy import Policy

#: The steered learning rate stays within these.
RATES = (1e-5, 1e-2)
#: Factor by which one minibatch step may change it.
RATE_CHANGE = 1.5


class State(NamedTuple):
    """What the next update needs."""

    update: Int[Array, ""]
    key: PRNGKeyArray
    learned: Learned
    statistics: Statistics
    moments: optax.OptState
    rate: Float[Array, ""]
    """Learning rate."""
    worlds: EnvState
    """`[world]`."""
    returns: Float[Array, " world"]
    """Reward so far in the episodes under way; NaN where one began in its middle."""


class Info(NamedTuple):
    """What a person or a log wants to see of an update."""

    reward: Float[Array, ""]
    """Mean per control period."""
    mean_return: Float[Array, ""]
    """Of the episodes that ended; NaN without any."""
    success_rate: Float[Array, ""]
    """Of the episodes that ended; NaN without any."""
    episodes: Int[Array, ""]
    """That ended."""
    policy_loss: Float[Array, ""]
    value_loss: Float[Array, ""]
    entropy: Float[Array, ""]
    """[nat]."""
    divergence: Float[Array, ""]
    """KL of the policy after the update to the one before it, mean over minibatch steps [nat]."""
    gradient: Float[Array, ""]
    """Norm before it is cut."""
    rate: Float[Array, ""]
    explained: Float[Array, ""]
    """Share of the variance of the returns that the critic foresaw."""
    is_finite: Bool[Array, ""]
    outcome: Outcome


class Samples(NamedTuple):
    """One minibatch."""

    observation: Float[Array, "sample obs"]
    critic: Float[Array, "sample critic"]
    action: Float[Array, "sample nu"]
    mean: Float[Array, "sample nu"]
    log_density: Float[Array, " sample"]
    advantage: Float[Array, " sample"]
    target: Float[Array, " sample"]
    """Of the critic."""


def init(
    key: PRNGKeyArray, distribution: Distribution, environment: Environment, config: PPOConfig
) -> State:
    """Return fresh networks, and worlds drawn from the distribution."""
    key_actor, key_critic, key_worlds, key_later = jax.random.split(key, 4)
    dtype = jnp.zeros(()).dtype
    actor = MLP((*config.hidden, environment.action_size), final_scale=0.01)
    critic = MLP((*config.hidden, 1))
    learned = Learned(
        actor.init(key_actor, jnp.zeros(environment.observation_size))["params"],
        jnp.full(environment.action_size, math.log(config.initial_std), dtype),
        critic.init(key_critic, jnp.zeros(environment.critic_size))["params"],
    )
    statistics = Statistics(
        normalize.init(environment.observation_size), normalize.init(environment.critic_size)
    )
    worlds = experience.start(environment, key_worlds, distribution, config.worlds, config.unroll)
    return State(
        jnp.zeros((), jnp.int32),
        key_later,
        learned,
        statistics,
        _optimizer(config).init(learned),
        jnp.full((), config.learning_rate, dtype),
        worlds,
        jnp.where(worlds.tick == 0, 0.0, jnp.nan).astype(dtype),
    )


def step(
    state: State, distribution: Distribution, environment: Environment, config: PPOConfig
) -> tuple[State, Info]:
    """Collect experience in the worlds and improve the policy on it."""
    key_collect, key_epochs, key_later = jax.random.split(state.key, 3)
    worlds, returns, batch, outcome = experience.collect(
        environment,
        config.hidden,
        config.unroll,
        key_collect,
        state.worlds,
        state.returns,
        state.learned,
        state.statistics,
        distribution,
    )
    statistics = Statistics(
        normalize.update(state.statistics.observation, batch.observation),
        normalize.update(state.statistics.critic, batch.critic),
    )
    samples = _samples(batch, config)
    # Gradients are taken with the normalisers that acted, so that the ratio starts at 1.
    learned, moments, rate, losses = _epochs(key_epochs, state, samples, environment, config)
    later = State(state.update + 1, key_later, learned, statistics, moments, rate, worlds, returns)
    count = jnp.sum(outcome.ended)
    leaves = jax.tree.leaves((learned, batch.reward, statistics))
    explained = 1 - jnp.var(samples.target - batch.value.reshape(-1)) / jnp.var(samples.target)
    info = Info(
        jnp.mean(batch.reward),
        jnp.sum(jnp.where(outcome.ended, outcome.reward, 0.0)) / count,
        jnp.sum(outcome.ended & outcome.success) / count,
        count,
        **losses,
        entropy=networks.entropy(learned.log_std),
        rate=rate,
        explained=explained,
        is_finite=jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves])),
        outcome=outcome,
    )
    return later, info


def policy(state: State) -> Policy:
    """Return the policy of a state."""
    observed = state.statistics.observation
    return Policy(state.learned.actor, observed.mean, normalize.std(observed))


def loss(
    learned: Learned,
    statistics: Statistics,
    samples: Samples,
    environment: Environment,
    config: PPOConfig,
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """Return PPO's clipped loss of a minibatch, and its parts."""

    def one(observation: Array, critic: Array) -> tuple[Array, Array]:
        mean = experience.mean_action(environment, config.hidden, learned, statistics, observation)
        return mean, experience.value(config.hidden, learned, statistics, critic)

    mean, value = jax.vmap(one)(samples.observation, samples.critic)
    density = jax.vmap(networks.log_density, (0, 0, None))(samples.action, mean, learned.log_std)
    log_ratio = density - samples.log_density
    ratio = jnp.exp(log_ratio)
    cut = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
    gain = jnp.minimum(ratio * samples.advantage, cut * samples.advantage)
    policy_loss, value_loss = -jnp.mean(gain), jnp.mean((value - samples.target) ** 2)
    total = policy_loss + config.value_weight * value_loss
    total = total - config.entropy_weight * networks.entropy(learned.log_std)
    # Unbiased and never negative: http://joschu.net/blog/kl-approx.html
    divergence = jnp.mean(ratio - 1 - log_ratio)
    parts = {"policy_loss": policy_loss, "value_loss": value_loss, "divergence": divergence}
    return total, parts


def _samples(batch: Batch, config: PPOConfig) -> Samples:
    """Return the experience as independent samples, with normalised advantages."""
    found = jax.vmap(advantages, in_axes=(1, 1, 1, 1, 1, None, None), out_axes=1)(
        batch.reward,
        batch.value,
        batch.next_value,
        batch.done,
        batch.truncated,
        config.discount,
        config.trace,
    )
    scaled = (found - jnp.mean(found)) / (jnp.std(found) + 1e-8)
    rows = (batch.observation, batch.critic, batch.action, batch.mean, batch.log_density)
    rows = (*rows, scaled, found + batch.value)
    return Samples(*[row.reshape(-1, *row.shape[2:]) for row in rows])


def _epochs(
    key: PRNGKeyArray,
    state: State,
    samples: Samples,
    environment: Environment,
    config: PPOConfig,
) -> tuple[Learned, optax.OptState, Array, dict[str, Array]]:
    """Take `epochs` passes of minibatch steps over the samples."""
    optimizer = _optimizer(config)
    count = samples.advantage.shape[0]

    def descend(carry: Any, rows: Array) -> tuple[Any, dict[str, Array]]:
        learned, moments, rate = carry
        part = jax.tree.map(lambda x: x[rows], samples)
        slope, parts = jax.grad(loss, has_aux=True)(
            learned, state.statistics, part, environment, config
        )
        if config.kl_target > 0:
            high, low = 2 * config.kl_target, 0.5 * config.kl_target
            change = jnp.where(parts["divergence"] > high, 1 / RATE_CHANGE, 1.0)
            change = jnp.where(parts["divergence"] < low, RATE_CHANGE, change)
            rate = jnp.clip(rate * change, *RATES)
        direction, moments = optimizer.update(slope, moments)
        learned = jax.tree.map(lambda x, d: x - rate * d, learned, direction)
        return (learned, moments, rate), parts | {"gradient": optax.tree.norm(slope)}

    def epoch(carry: Any, key: Array) -> tuple[Any, dict[str, Array]]:
        rows = jax.random.permutation(key, count).reshape(config.minibatches, -1)
        return jax.lax.scan(descend, carry, rows)

    carry = (state.learned, state.moments, state.rate)
    keys = jax.random.split(key, config.epochs)
    (learned, moments, rate), parts = jax.lax.scan(epoch, carry, keys)
    return learned, moments, rate, jax.tree.map(jnp.mean, parts)


def _optimizer(config: PPOConfig) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(config.max_gradient), optax.scale_by_adam())
