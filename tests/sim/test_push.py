import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.sim import push

PERIOD = 0.02


def kicks(speed, interval, count):
    keys = jax.random.split(jax.random.key(0), count)
    pushes = push.Push(jnp.array(speed), jnp.array(interval))
    return np.asarray(jax.vmap(lambda k: push.kick(pushes, k, PERIOD))(keys))


def test_pushes_come_as_often_as_declared():
    count, chance = 20000, 1 - np.exp(-PERIOD / 0.5)
    comes = (kicks(0.8, 0.5, count) != 0).any(axis=1)
    # 5 sigma of a binomial
    assert abs(comes.mean() - chance) < 5 * np.sqrt(chance * (1 - chance) / count)


def test_push_has_its_speed_and_any_direction():
    found = kicks(0.8, 1e-4, 4000)
    assert_allclose(np.linalg.norm(found, axis=1), 0.8, rtol=1e-5)
    # the mean of a unit vector of uniform direction: variance 1/2 a component; 5 sigma
    assert np.abs(found.mean(axis=0) / 0.8).max() < 5 * np.sqrt(0.5 / 4000)


def test_slope_in_speed_is_that_of_the_pushes_that_came():
    def norm(speed):
        kick = push.kick(push.Push(speed, jnp.array(1e-4)), jax.random.key(3), PERIOD)
        return jnp.linalg.norm(kick)

    assert float(jax.grad(norm)(0.5)) == pytest.approx(1.0, rel=1e-5)
