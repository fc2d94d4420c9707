"""Play one episode of a policy in each of many worlds drawn from a distribution over θ."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt

from s2r_jax.errors import BadValue
from s2r_jax.randomize.distribution import Distribution, sample
from s2r_jax.train import policy as policies
from s2r_jax.train.environment import Environment, Episode, episode
from s2r_jax.validate.config import ValidateConfig

#: A policy as arrays and the pure function that acts by them.
Act = Callable[[Any, Float[Array, " obs"]], Float[Array, " nu"]]


class Outcome(NamedTuple):
    """What one episode in one world gave."""

    theta: Float[Array, " param"]
    reward: Float[Array, ""]
    """The return of the episode."""
    success: Bool[Array, ""]
    """False where the episode is not finite."""
    length: Int[Array, ""]
    """Control periods until it ended."""
    is_finite: Bool[Array, ""]
    """Return and all that the policy saw are finite; otherwise the simulation has diverged."""


class Sweep(NamedTuple):
    """The outcomes of many worlds, on the host; fields as in `Outcome`."""

    theta: Float[np.ndarray, "world param"]
    reward: Float[np.ndarray, " world"]
    success: Bool[np.ndarray, " world"]
    length: Int[np.ndarray, " world"]
    is_finite: Bool[np.ndarray, " world"]


def sweep(
    environment: Environment,
    policy: Any,
    distribution: Distribution,
    config: ValidateConfig,
    callback: Callable[[int, Sweep], None] = lambda step, info: None,
    act: Act = policies.act,
) -> Sweep:
    """Return the outcome of one episode in each of `config.worlds` worlds.

    World k and its episode depend on the seed and k alone: two policies meet the same worlds,
    starts and noise, whatever the batch, so their outcomes can be compared in pairs.

    Args:
        environment: Task and simulator.
        policy: Arrays that `act` takes; another policy of the same shapes does not recompile.
        distribution: Of θ.
        config: Number of worlds and batch.
        callback: Called after each batch with the number of worlds done and their outcomes.
        act: Deterministic; must be the same object at each call to be compiled once.

    Raises:
        BadValue: Fewer than one world or batch.
    """
    for name in ("worlds", "batch"):
        if getattr(config, name) < 1:
            raise BadValue("validation", name, getattr(config, name), "a whole number >= 1")
    play = _program(environment, act)
    batch = min(config.batch, config.worlds)
    key, done = jax.random.key(config.seed), []
    for start in range(0, config.worlds, batch):
        # The last batch is filled up with worlds that are not kept: one shape, one program.
        numbers = jnp.arange(start, start + batch, dtype=jnp.uint32)
        played = play(key, numbers, distribution, policy)
        kept = Sweep(*[np.asarray(x)[: config.worlds - start] for x in played])
        done.append(kept)
        callback(start + len(kept.reward), kept)
    return Sweep(*[np.concatenate(parts) for parts in zip(*done, strict=True)])


def outcome(played: Episode) -> Outcome:
    """Return what counts of an episode."""
    seen = jnp.isfinite(played.observation).all(axis=-1) & jnp.isfinite(played.signals).all(axis=-1)
    lived = jnp.arange(len(seen)) < played.length
    is_finite = jnp.isfinite(played.reward) & jnp.all(seen | ~lived)
    success = played.success & is_finite
    return Outcome(played.theta, played.reward, success, played.length, is_finite)


@functools.lru_cache(maxsize=4)
def _program(environment: Environment, act: Act) -> Callable[..., Outcome]:
    def one(
        key: PRNGKeyArray, number: UInt[Array, ""], distribution: Distribution, policy: Any
    ) -> Outcome:
        key_theta, key_episode = jax.random.split(jax.random.fold_in(key, number))
        world = environment.simulator.world(sample(key_theta, distribution))
        return outcome(episode(environment, functools.partial(act, policy), key_episode, world))

    return jax.jit(jax.vmap(one, (None, 0, None, None)))
