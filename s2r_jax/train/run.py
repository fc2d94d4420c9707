"""The driver of training: compiles an update once, repeats it, watches it, evaluates the result."""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from s2r_jax.errors import BadValue, S2RError
from s2r_jax.randomize import distribution as distributions
from s2r_jax.randomize.distribution import Distribution
from s2r_jax.train import mesh, ppo
from s2r_jax.train import policy as policies
from s2r_jax.train.config import PPOConfig
from s2r_jax.train.environment import Environment, Episode, episode
from s2r_jax.train.policy import Policy


class NotFinite(S2RError, FloatingPointError):
    """Training that has met a number which is not finite."""

    def __init__(self, update: int, names: list[str]):
        super().__init__(
            f"training: not finite since update {update}: {', '.join(names)}; the state before it "
            "is kept. A diverging world or a learning rate that is too high are the usual causes"
        )


class Progress(NamedTuple):
    """Clock of a run, beside each update's `Info`."""

    update: int
    """Updates done."""
    updates: int
    """Updates in all."""
    steps: int
    """Control periods simulated, over all worlds."""
    seconds: float
    """Of updates, without compiling."""
    compile_seconds: float

    @property
    def rate(self) -> float:
        """Control periods simulated a second, learning included and compiling not [1/s]."""
        return self.steps / self.seconds if self.seconds > 0 else 0.0


class Result(NamedTuple):
    """What training gives."""

    policy: Policy
    state: ppo.State
    """To resume from."""
    history: list[ppo.Info]
    """One an update, on the host."""
    evaluation: Episode
    """Deterministic episodes `[episode]` on newly drawn worlds."""
    progress: Progress


Callback = Callable[[Progress, ppo.Info, ppo.State], None]


def train(
    environment: Environment,
    distribution: Distribution,
    config: PPOConfig,
    callback: Callback = lambda progress, info, state: None,
    state: ppo.State | None = None,
) -> Result:
    """Train a policy on worlds drawn from a distribution.

    Args:
        environment: Task and simulator.
        distribution: Of the θ of each episode.
        config: Settings.
        callback: Called after every update, with everything on the host but the state.
        state: Where to go on; a fresh one when absent.

    Raises:
        BadValue: Settings that do not fit each other.
        NotFinite: Names the update where it began.
    """
    check(config)
    began = time.perf_counter()
    # What stays on the host must not select another program.
    traced = dataclasses.replace(config, updates=1, episodes=1, seed=0)
    first, update = _programs(environment, traced)
    if state is None:
        state = first(jax.random.key(config.seed), distribution)
        jax.block_until_ready(state)
    compile_seconds = time.perf_counter() - began
    history: list[ppo.Info] = []
    start, began = int(state.update), time.perf_counter()
    progress = Progress(start, config.updates, 0, 0.0, compile_seconds)
    for number in range(start + 1, config.updates + 1):
        later, info = update(state, distribution)
        info = jax.tree.map(np.asarray, info)
        if not info.is_finite:
            raise NotFinite(number, _broken(later, info))
        state = later
        history.append(info)
        steps = (number - start) * config.worlds * config.unroll
        seconds = time.perf_counter() - began
        progress = Progress(number, config.updates, steps, seconds, compile_seconds)
        callback(progress, info, state)
    key = jax.random.fold_in(jax.random.key(config.seed), config.updates)
    policy = ppo.policy(state)
    evaluation = evaluate(environment, distribution, policy, key, config.episodes)
    return Result(policy, state, history, evaluation, progress)


def evaluate(
    environment: Environment,
    distribution: Distribution,
    policy: Policy,
    key: PRNGKeyArray,
    episodes: int,
) -> Episode:
    """Play deterministic episodes `[episode]` on worlds drawn from a distribution."""
    keys = jax.random.split(key, episodes)
    return _evaluation(environment)(keys, distribution, policy)


def check(config: PPOConfig) -> None:
    """Refuse settings that do not fit each other.

    Raises:
        BadValue: Names the first one.
    """
    place = "training"
    for name in ("updates", "worlds", "unroll", "epochs", "minibatches", "episodes"):
        if getattr(config, name) < 1:
            raise BadValue(place, name, getattr(config, name), "a whole number >= 1")
    if config.worlds * config.unroll % config.minibatches:
        expected = f"a divisor of worlds * unroll = {config.worlds * config.unroll}"
        raise BadValue(place, "minibatches", config.minibatches, expected)
    if config.worlds % jax.device_count():
        expected = f"a multiple of the number of devices, {jax.device_count()}"
        raise BadValue(place, "worlds", config.worlds, expected)
    for name in ("discount", "trace"):
        if not 0 <= getattr(config, name) <= 1:
            raise BadValue(place, name, getattr(config, name), "a number in [0, 1]")
    for name in ("clip", "learning_rate", "max_gradient", "initial_std"):
        if not getattr(config, name) > 0:
            raise BadValue(place, name, getattr(config, name), "a positive number")


@functools.lru_cache(maxsize=4)
def _programs(
    environment: Environment, config: PPOConfig
) -> tuple[
    Callable[[PRNGKeyArray, Distribution], ppo.State],
    Callable[[ppo.State, Distribution], tuple[ppo.State, ppo.Info]],
]:
    """Return compiled `init` and `step`; another distribution or seed needs no other program."""
    distribution = distributions.from_bounds(environment.simulator.parameters)
    key = jax.random.key(0)
    placed = mesh.shardings(
        jax.eval_shape(lambda key: ppo.init(key, distribution, environment, config), key)
    )
    first = jax.jit(
        lambda key, drawn: ppo.init(key, drawn, environment, config), out_shardings=placed
    )
    update = jax.jit(
        lambda state, drawn: ppo.step(state, drawn, environment, config),
        in_shardings=(placed, None),
        out_shardings=(placed, None),
    )
    state = jax.eval_shape(first, key, distribution)
    return first.lower(key, distribution).compile(), update.lower(state, distribution).compile()


@functools.lru_cache(maxsize=4)
def _evaluation(environment: Environment) -> Callable[..., Episode]:
    def one(key: PRNGKeyArray, distribution: Distribution, policy: Policy) -> Episode:
        key_theta, key_episode = jax.random.split(key)
        world = environment.simulator.world(distributions.sample(key_theta, distribution))
        act = functools.partial(policies.act, policy)
        return episode(environment, act, key_episode, world)

    return jax.jit(jax.vmap(one, (0, None, None)))


def _broken(state: ppo.State, info: ppo.Info) -> list[str]:
    """Return the names of what is not finite."""
    named = {"networks": state.learned, "normalisers": state.statistics, "reward": info.reward}
    return [
        name
        for name, tree in named.items()
        if not all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(tree))
    ]
