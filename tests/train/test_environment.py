"""The environment against the closed form of a pushed block, and as a pure function."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import slider
from numpy.testing import assert_allclose
from slider import FORCE, MASS, PERIOD, POSITION, VELOCITY

from s2r_jax.randomize import distribution
from s2r_jax.train import environment


def key():
    return jax.random.key(0)


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    return slider.make(tmp_path_factory.mktemp("slider"))


def world(env, mass=MASS, bias=0.0):
    return env.simulator.world(jnp.array([mass, bias]))


def pushes(position, actions, mass=MASS):
    """Positions after each action, by MuJoCo's semi-implicit Euler steps of 0.01 s."""
    velocity, found = 0.0, []
    for action in np.clip(actions, -1, 1):
        for _ in range(2):
            velocity += np.clip(FORCE * action, -6.0, 6.0) / mass * 0.01
            position += velocity * 0.01
        found.append(position)
    return np.array(found)


@pytest.mark.parametrize("engine", ["mujoco", "mjx"])
def test_reward_agrees_with_numpy(tmp_path, engine):
    env = slider.make(tmp_path, engine)
    actions = np.array([0.3, -0.5, 2.0, -3.0, 0.1], np.float32)
    state = env.reset(key(), world(env))
    start = float(state.simulation.physics.qpos[0])
    assert abs(start) <= 0.1
    step = jax.jit(env.step)
    rewards = []
    for action in actions:
        state = step(state, jnp.full(1, action))
        rewards.append(float(state.reward))
    played = np.clip(actions, -1, 1)
    change = np.diff(played, prepend=0.0)
    squares = (pushes(start, actions) - 0.2) ** 2
    assert_allclose(rewards, PERIOD * (-3.0 * squares - 0.5 * change**2), rtol=1e-4)  # float32


def test_observation_has_sensor_errors_and_critic_has_theta(env):
    state = env.reset(key(), world(env, mass=4.0, bias=0.25))
    truth = state.simulation.physics.qpos[0]
    assert_allclose(state.sensors, [truth + 0.25, 0.0], atol=1e-6)
    assert_allclose(state.observation, [truth + 0.25, 0.0, 0.0], atol=1e-6)
    # mass 4 kg is the end of [1, 4], bias 0.25 lies at 0.75 of [-0.1, 0.3] seen from -1 to 1
    assert_allclose(state.critic, [truth, 0.0, 0.0, 1.0, 0.75], atol=1e-6)
    pushed = env.step(state, jnp.ones(1))
    velocity = 2 * 0.01 * 6.0 / 4.0
    assert_allclose(pushed.observation[1:], [0.5 * velocity, 1.0], rtol=1e-5)


def test_target_stays_within_joint_limits(env):
    assert_allclose(env.target(jnp.array([0.5])), [4.0])
    assert_allclose(env.target(jnp.array([1.0])), [6.0])


def test_time_limit_truncates_and_holding_succeeds(env):
    state = env.reset(key(), world(env))
    for tick in range(env.task.steps):
        assert not state.done, tick
        state = env.step(state, jnp.zeros(1))
    assert (bool(state.done), bool(state.truncated), bool(state.success)) == (True, True, True)


def test_leaving_the_limits_ends_the_episode_without_success(tmp_path):
    env = slider.make(tmp_path, termination=[{"signal": VELOCITY, "high": 0.1}])
    state = env.step(env.reset(key(), world(env)), jnp.ones(1))
    assert not state.done  # 0.06 m/s
    state = env.step(state, jnp.ones(1))
    assert (bool(state.done), bool(state.truncated), bool(state.success)) == (True, False, False)


def test_failure_in_the_last_control_period_is_no_truncation(tmp_path):
    env = slider.make(tmp_path, seconds=0.06, termination=[{"signal": VELOCITY, "high": 0.15}])
    state = env.reset(key(), world(env))
    for _ in range(3):
        assert not state.done
        state = env.step(state, jnp.ones(1))  # 0.06, 0.12, 0.18 m/s
    assert (bool(state.done), bool(state.truncated), bool(state.success)) == (True, False, False)


def test_failure_at_the_end_of_the_hold_is_no_success(tmp_path):
    goal = {"signal": VELOCITY, "target": 0.0, "tolerance": 0.01, "last": 0.06}
    env = slider.make(tmp_path, success=goal)
    episodes = {}
    for name, late in (("rests", 99), ("moves", 9)):
        state = env.reset(key(), world(env))
        for tick in range(env.task.steps):
            state = env.step(state, jnp.full(1, float(tick >= late)))
        episodes[name] = bool(state.success)
    assert episodes == {"rests": True, "moves": False}


def test_restart_draws_new_theta_only_where_the_episode_is_over(env):
    drawn = distribution.from_bounds(env.simulator.parameters)
    keys = jax.random.split(key(), 4)
    states = jax.vmap(env.reset, (0, None))(keys, world(env))
    states = states._replace(done=jnp.array([False, True, True, False]), tick=states.tick + 7)
    after = jax.vmap(env.restart, (0, 0, None))(
        jax.random.split(jax.random.key(1), 4), states, drawn
    )
    mass = np.asarray(after.world.theta[:, 0])
    assert_allclose(mass[[0, 3]], MASS)
    assert len({MASS, *mass[1:3].tolist()}) == 3
    assert after.tick.tolist() == [7, 0, 0, 7]
    assert not after.done[1:3].any()


def test_step_keeps_shapes_and_dtypes_under_jit_and_vmap(env):
    keys = jax.random.split(key(), 3)
    states = jax.vmap(env.reset, (0, None))(keys, world(env))
    stepped = jax.eval_shape(jax.jit(jax.vmap(env.step)), states, jnp.zeros((3, 1)))
    assert stepped == jax.eval_shape(lambda s: s, states)
    drawn = distribution.from_bounds(env.simulator.parameters)
    again = jax.eval_shape(jax.vmap(env.restart, (0, 0, None)), keys, states, drawn)
    assert again == stepped


def test_other_worlds_and_distributions_do_not_recompile(env):
    parameters = env.simulator.parameters

    @jax.jit
    @chex.assert_max_traces(n=1)
    def restarted(key, state, drawn):
        return env.restart(key, state._replace(done=~state.done), drawn).world.theta

    state = env.reset(key(), world(env))
    ranges = [distribution.from_bounds(parameters), distribution.nominal(parameters)]
    masses = [float(restarted(key(), state, drawn)[0]) for drawn in ranges]
    assert masses[0] != masses[1] == MASS


@pytest.mark.parametrize("engine", ["mujoco", "mjx"])
def test_episode_is_the_sum_of_its_steps(tmp_path, engine):
    env = slider.make(tmp_path, engine)
    played = jax.jit(lambda w: environment.episode(env, lambda o: -2 * o[:1], key(), w))(world(env))
    state, total = env.reset(key(), world(env)), 0.0
    for row in range(env.task.steps):
        assert_allclose(played.observation[row], state.observation, atol=1e-6)
        state = env.step(state, -2 * state.observation[:1])
        total += float(state.reward)
        assert_allclose(played.signals[row, 0], state.simulation.physics.qpos[0], atol=1e-6)
    assert_allclose(played.reward, total, rtol=1e-5)
    assert int(played.length) == env.task.steps


def test_nothing_counts_after_the_end_of_an_episode(tmp_path):
    env = slider.make(
        tmp_path,
        reward=[{"term": "alive", "weight": 1.0}],
        termination=[{"signal": VELOCITY, "high": 0.1}],
    )
    played = environment.episode(env, lambda o: jnp.ones(1), key(), world(env))
    assert int(played.length) == 2
    assert_allclose(played.reward, 2 * PERIOD, rtol=1e-6)
    assert not played.success


def test_success_of_an_episode_agrees_with_task_succeeded(tmp_path):
    from s2r_jax.train import task

    goal = {"signal": POSITION, "target": 0.05, "tolerance": 0.04, "last": 0.06}
    env = slider.make(tmp_path, success=goal)
    keys = jax.random.split(key(), 32)
    play = jax.vmap(lambda k: environment.episode(env, lambda o: 0 * o[:1], k, world(env)))
    played = play(keys)
    expected = [task.succeeded(env.task.success, row) for row in np.asarray(played.signals[..., 0])]
    assert played.success.tolist() == expected
    assert 0 < sum(expected) < 32


def test_sensor_noise_differs_between_ticks_and_episodes(tmp_path):
    noise = 0.01
    env = slider.make(tmp_path, signals={POSITION: {"noise": noise}, VELOCITY: {}}, reset={})
    play = jax.vmap(lambda k: environment.episode(env, lambda o: 0 * o[:1], k, world(env)))
    errors = np.asarray(play(jax.random.split(key(), 200)).sensors[..., 0])
    # 5 standard errors of the deviation of 2000 readings, and of the correlation of 1800 pairs
    assert errors.std() == pytest.approx(noise, rel=5 / (2 * 2000) ** 0.5)
    between_ticks = np.corrcoef(errors[:, 1:].ravel(), errors[:, :-1].ravel())[0, 1]
    between_episodes = np.corrcoef(errors[1:].ravel(), errors[:-1].ravel())[0, 1]
    assert abs(between_ticks) < 5 / 1800**0.5
    assert abs(between_episodes) < 5 / 1990**0.5


def test_chance_of_the_command_path_acts(tmp_path):
    # Half of the commands are lost; the last one that arrived, action 0 at the start, holds on.
    env = slider.make(tmp_path, latency={"drop": 0.5}, reset={})
    step = jax.jit(jax.vmap(env.step))
    states = jax.vmap(env.reset, (0, None))(jax.random.split(key(), 400), world(env))
    first = step(states, jnp.ones((400, 1)))
    second = step(first, jnp.ones((400, 1)))
    pushes = np.rint(second.simulation.physics.qvel[:, 0] / 0.06)  # each gives 0.06 m/s
    # Lost twice, lost once at first, never lost at first: 5 sigma of a binomial
    for count, share in ((0, 0.25), (1, 0.25), (2, 0.5)):
        sigma = (share * (1 - share) / 400) ** 0.5
        assert np.mean(pushes == count) == pytest.approx(share, abs=5 * sigma)
