import functools
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from s2r_jax import robot
from s2r_jax.errors import BadValue
from s2r_jax.randomize import distribution as d
from s2r_jax.sim import world
from s2r_jax.train import environment as e
from s2r_jax.validate.config import ValidateConfig
from s2r_jax.validate.sweep import outcome, sweep

FOLDER = Path(__file__).parents[2] / "examples" / "servo_pendulum"


@functools.cache
def environment():
    """A swing-up of one second, by the C engine: no long compilation."""
    pendulum = robot.load(FOLDER)
    pendulum.tasks["swing_up"]["seconds"] = 1.0
    pendulum.tasks["swing_up"]["success"]["last"] = 0.1
    return e.make(world.make(pendulum, "mujoco"), "swing_up")


@chex.assert_max_traces(n=1)
def push(gain, observation):
    """Push along the speed: the classical swing-up."""
    return jnp.where(observation[3] >= 0, gain, -gain)[None]


@functools.cache
def played(worlds=10, batch=4, gain=0.5):
    wide = d.from_bounds(environment().simulator.parameters)
    config = ValidateConfig(worlds=worlds, batch=batch, seed=3)
    return sweep(environment(), jnp.float32(gain), wide, config, act=push)


def test_a_world_is_the_episode_of_its_key():
    parameters = environment().simulator.parameters
    key_theta, key = jax.random.split(jax.random.fold_in(jax.random.key(3), 9))
    theta = d.sample(key_theta, d.from_bounds(parameters))
    act = functools.partial(push.__wrapped__, jnp.float32(0.5))
    run = jax.jit(lambda theta: e.episode(
        environment(), act, key, environment().simulator.world(theta)))  # fmt: skip
    assert_allclose(played().theta[9], theta, rtol=1e-6)
    assert_allclose(played().reward[9], run(theta).reward, rtol=1e-4)  # float32, other batch
    assert played().length[9] == 50


def test_worlds_do_not_depend_on_batch_or_policy_nor_recompile():
    # `push` may be traced once: another gain, another distribution and a last batch that is not
    # full reuse the program.
    assert_array_equal(played().theta, played(gain=-0.5).theta)
    assert_array_equal(played().theta[:6], played(worlds=6).theta)
    assert_allclose(played().reward[:6], played(worlds=6).reward)
    assert (played().reward != played(gain=-0.5).reward).all()
    nominal = d.nominal(environment().simulator.parameters)
    same = sweep(environment(), jnp.float32(0.5), nominal, ValidateConfig(4, 4), act=push)
    assert (same.theta == same.theta[0]).all()


def test_progress_is_told_and_everything_kept():
    told = []
    wide = d.from_bounds(environment().simulator.parameters)
    config = ValidateConfig(worlds=10, batch=4, seed=3)
    found = sweep(
        environment(), jnp.float32(0.5), wide, config, lambda n, part: told.append((n, part)), push
    )
    assert [n for n, _ in told] == [4, 8, 10]
    assert_array_equal(np.concatenate([part.reward for _, part in told]), found.reward)


def test_a_policy_that_diverges_is_counted():
    found = played(gain=float("nan"))
    assert not found.is_finite.any()
    assert not found.success.any()
    assert len(found.reward) == 10


def test_what_comes_after_the_end_of_an_episode_does_not_count():
    ended = e.Episode(
        jnp.float32(1.0), jnp.bool_(True), jnp.int32(2), jnp.zeros(1), jnp.zeros((4, 3)),
        jnp.zeros((4, 1)), jnp.zeros((4, 2)), jnp.zeros((4, 2)),
    )  # fmt: skip
    late = ended._replace(signals=ended.signals.at[2].set(jnp.inf))
    early = ended._replace(signals=ended.signals.at[1, 0].set(jnp.nan))
    lost = ended._replace(reward=jnp.float32(jnp.nan))
    assert [bool(outcome(x).is_finite) for x in (ended, late, early, lost)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert [bool(outcome(x).success) for x in (ended, late, early, lost)] == [
        True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("field", ["worlds", "batch"])
def test_no_worlds_are_refused(field):
    nominal = d.nominal(environment().simulator.parameters)
    with pytest.raises(BadValue) as error:
        sweep(environment(), 0.0, nominal, ValidateConfig(**{field: 0}), act=push)
    assert str(error.value) == f"validation: {field} is 0, expected a whole number >= 1"
