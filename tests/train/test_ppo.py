"""PPO on problems whose optimum is known in closed form, and as a pure function."""

import dataclasses
import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import slider
from numpy.testing import assert_allclose
from slider import FORCE, MASS, VELOCITY

from s2r_jax.errors import BadValue
from s2r_jax.randomize import distribution
from s2r_jax.train import networks, policy, ppo, run
from s2r_jax.train.config import PPOConfig

#: Speed after one push is PUSH * action / mass.
PUSH = FORCE * 0.02
WANTED = 0.05
SMALL = PPOConfig(updates=3, worlds=8, unroll=5, minibatches=2, epochs=2, hidden=(8,), episodes=4)


@pytest.fixture(scope="module")
def bandit(tmp_path_factory):
    """One push, rewarded for the speed that it gives: a bandit with a quadratic optimum."""
    return slider.make(
        tmp_path_factory.mktemp("bandit"),
        seconds=0.02,
        reward=[{"term": "square", "signal": VELOCITY, "target": WANTED, "weight": -2e4}],
        success={"signal": VELOCITY, "target": WANTED, "tolerance": 0.01, "last": 0.02},
    )


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    return slider.make(tmp_path_factory.mktemp("slider"))


def test_ppo_finds_the_optimum_of_a_bandit_under_randomisation(bandit):
    parameters = bandit.simulator.parameters
    # One push is the whole problem: discount 0, for a time limit is otherwise bootstrapped.
    config = PPOConfig(
        updates=100, worlds=256, unroll=8, minibatches=8, epochs=2, hidden=(16,), episodes=64,
        initial_std=0.3, entropy_weight=0.0, learning_rate=1e-3, kl_target=0.0, discount=0.0,
    )  # fmt: skip
    # The push that fits all masses U(1, 4) best: wanted E[c/m] / E[(c/m)^2], c = PUSH.
    mean, square = math.log(4) / 3, (1 - 1 / 4) / 3
    expected = {"bounds": WANTED * mean / square / PUSH, "nominal": WANTED * MASS / PUSH}
    for name, drawn in (
        ("bounds", distribution.from_bounds(parameters)),
        ("nominal", distribution.nominal(parameters)),
    ):
        result = run.train(bandit, drawn, config)
        found = float(result.evaluation.action.mean())
        assert found == pytest.approx(expected[name], abs=0.02), name  # of 0.58 and 0.62
        if name == "bounds":  # mass, which the critic sees, decides most of the return
            assert result.history[-1].explained > 0.2
    assert result.evaluation.success.all()


def test_update_keeps_shapes_and_dtypes_and_traces_once(env):
    parameters = env.simulator.parameters

    @jax.jit
    @chex.assert_max_traces(n=1)
    def update(state, drawn):
        return ppo.step(state, drawn, env, SMALL)

    drawn = distribution.from_bounds(parameters)
    state = ppo.init(jax.random.key(0), drawn, env, SMALL)
    later, info = update(state, drawn)
    assert jax.eval_shape(lambda s: s, later) == jax.eval_shape(lambda s: s, state)
    chex.assert_tree_all_finite(later.learned)
    assert bool(info.is_finite)
    for _ in range(3):
        later, info = update(later, distribution.nominal(parameters))
    # 20 control periods hold at least one whole episode of every world, in the new distribution.
    assert_allclose(later.worlds.world.theta[:, 0], MASS)


def test_outcome_reports_theta_and_return_of_whole_episodes(env):
    drawn = distribution.from_bounds(env.simulator.parameters)
    update = jax.jit(lambda s: ppo.step(s, drawn, env, SMALL))
    state = ppo.init(jax.random.key(0), drawn, env, SMALL)
    halves = np.asarray(state.worlds.tick) == 5
    assert 0 < halves.sum() < 8
    first, info = update(state)
    assert not info.outcome.ended.any()  # those that ended had begun in the middle
    _, info = update(first)
    assert info.outcome.ended.tolist() == (~halves).tolist()
    begun = np.asarray(state.worlds.world.theta)[~halves]
    assert_allclose(info.outcome.theta[~halves], begun)
    assert (info.outcome.reward[~halves] < 0).all()
    assert_allclose(info.mean_return, info.outcome.reward[~halves].mean(), rtol=1e-6)


def test_return_counts_from_the_start_of_each_episode(tmp_path):
    env = slider.make(tmp_path, reward=[{"term": "alive", "weight": 1.0}])
    drawn = distribution.from_bounds(env.simulator.parameters)
    result = run.train(env, drawn, dataclasses.replace(SMALL, updates=6))
    outcomes = [info.outcome for info in result.history]
    returns = np.concatenate([outcome.reward[outcome.ended] for outcome in outcomes])
    assert returns.size > 16
    assert_allclose(returns, 0.2, rtol=1e-5)  # 1 a second, for the 0.2 s of an episode


def test_gradient_of_loss_is_the_policy_gradient_at_the_start(env):
    """Where new and old policy agree, the slope of the clipped loss is -E[A ∇ log π]."""
    config = dataclasses.replace(SMALL, entropy_weight=0.0, value_weight=0.0)
    drawn = distribution.nominal(env.simulator.parameters)
    state = ppo.init(jax.random.key(0), drawn, env, config)
    keys = jax.random.split(jax.random.key(1), 5)
    rows = [jax.random.normal(key, (16, size)) for key, size in zip(keys, (3, 5, 1), strict=False)]
    advantage = jax.random.normal(keys[3], (16,))

    def density(learned):
        centre = lambda o: ppo.experience.mean_action(  # noqa: E731
            env, config.hidden, learned, state.statistics, o
        )
        mean = jax.vmap(centre)(rows[0])
        return jax.vmap(networks.log_density, (0, 0, None))(rows[2], mean, learned.log_std)

    samples = ppo.Samples(*rows[:3], rows[2], density(state.learned), advantage, advantage)
    slope, _ = jax.grad(ppo.loss, has_aux=True)(
        state.learned, state.statistics, samples, env, config
    )
    expected = jax.grad(lambda learned: -jnp.mean(density(learned) * advantage))(state.learned)
    chex.assert_trees_all_close(slope.actor, expected.actor, rtol=1e-4, atol=1e-6)  # float32
    assert_allclose(slope.log_std, expected.log_std, rtol=1e-4)


def test_gaussian_formulas_agree_with_sampling():
    key = jax.random.key(0)
    mean, log_std = jnp.array([0.3, -1.0]), jnp.array([-0.5, 0.2])
    other, log_other = jnp.array([0.0, -0.7]), jnp.array([-0.2, 0.1])
    draws = mean + jnp.exp(log_std) * jax.random.normal(key, (200_000, 2))
    density = jax.vmap(networks.log_density, (0, None, None))
    own, its = density(draws, mean, log_std), density(draws, other, log_other)
    # 5 standard errors of the mean of 200 000 draws
    assert_allclose(networks.entropy(log_std), -own.mean(), atol=5 * float(own.std()) / 447)
    gap = own - its
    expected = networks.divergence(mean, log_std, other, log_other)
    assert_allclose(expected, gap.mean(), atol=5 * float(gap.std()) / 447)


def test_resumed_run_ends_where_the_whole_run_ends(env):
    drawn = distribution.from_bounds(env.simulator.parameters)
    states = []
    whole = run.train(env, drawn, SMALL, lambda progress, info, state: states.append(state))
    resumed = run.train(env, drawn, SMALL, state=states[0])
    assert resumed.progress.steps == 2 * 8 * 5
    chex.assert_trees_all_equal(resumed.policy, whole.policy)


def test_seed_and_length_share_one_program(env):
    drawn = distribution.from_bounds(env.simulator.parameters)
    run.train(env, drawn, SMALL)
    before = run._programs.cache_info().misses
    run.train(env, drawn, dataclasses.replace(SMALL, seed=5, updates=1, episodes=2))
    assert run._programs.cache_info().misses == before


def test_run_stops_at_the_update_that_was_not_finite(env):
    drawn = distribution.from_bounds(env.simulator.parameters)
    kept = []

    def callback(progress, info, state):
        kept.append(state)
        if progress.update == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train(env, drawn, SMALL, callback)
    broken = kept[-1]._replace(rate=jnp.full((), jnp.nan))
    with pytest.raises(run.NotFinite, match="not finite since update 3: networks; the state"):
        run.train(env, drawn, SMALL, state=broken)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"updates": 0}, "training: updates is 0, expected a whole number >= 1"),
        (
            {"minibatches": 3},
            "training: minibatches is 3, expected a divisor of worlds * unroll = 40",
        ),
        ({"discount": 1.5}, "training: discount is 1.5, expected a number in [0, 1]"),
        ({"clip": float("nan")}, "training: clip is nan, expected a positive number"),
    ],
)
def test_setting_that_does_not_fit_is_named(change, message):
    with pytest.raises(BadValue) as caught:
        run.check(dataclasses.replace(SMALL, **change))
    assert str(caught.value) == message


def test_policy_of_a_state_is_the_centre_of_its_actor(env):
    drawn = distribution.from_bounds(env.simulator.parameters)
    result = run.train(env, drawn, SMALL)
    observation = jnp.array([0.05, -0.1, 0.4])
    centre = ppo.experience.mean_action(
        env, SMALL.hidden, result.state.learned, result.state.statistics, observation
    )
    assert_allclose(policy.act(result.policy, observation), jnp.clip(centre, -1, 1))
