"""Advantages against a table computed by hand and the defining sums."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

from s2r_jax.train.gae import advantages


def test_advantages_agree_with_table():
    # γ = 0.5, λ = 0.5. Step 1 ends by failure, step 3 by its time limit, step 4 goes on.
    # δ4 = 1 + 0.5*4 - 2 = 1           A4 = 1
    # δ3 = 2 + 0.5*6 - 1 = 4           A3 = 4            (the episode ends: A4 does not count)
    # δ2 = 0 + 0.5*1 - 3 = -2.5        A2 = -2.5 + 0.25*4 = -1.5
    # δ1 = 5 - 2 = 3 (no value beyond) A1 = 3
    # δ0 = 1 + 0.5*2 - 4 = -2          A0 = -2 + 0.25*3 = -1.25
    found = advantages(
        jnp.array([1.0, 5.0, 0.0, 2.0, 1.0]),
        jnp.array([4.0, 2.0, 3.0, 1.0, 2.0]),
        jnp.array([2.0, 7.0, 1.0, 6.0, 4.0]),
        jnp.array([False, True, False, True, False]),
        jnp.array([False, False, False, True, False]),
        0.5,
        0.5,
    )
    assert_allclose(found, [-1.25, 3.0, -1.5, 4.0, 1.0], rtol=1e-6)


def test_advantage_with_trace_1_is_discounted_return_minus_value():
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 20)).astype(np.float32)
    following = np.append(value[1:], np.float32(0.7))
    never = jnp.zeros(20, bool)
    found = advantages(
        jnp.asarray(reward), jnp.asarray(value), jnp.asarray(following), never, never, 0.9, 1.0
    )
    powers = 0.9 ** np.arange(21)
    returns = [np.append(reward[k:], 0.7) @ powers[: 21 - k] for k in range(20)]
    assert_allclose(found, np.array(returns) - value, atol=1e-5)  # float32


def test_advantages_map_over_worlds():
    ones = jnp.ones((6, 3))
    never = jnp.zeros((6, 3), bool)
    mapped = jax.vmap(advantages, in_axes=(1, 1, 1, 1, 1, None, None), out_axes=1)
    assert mapped(ones, ones, ones, never, never, 0.9, 0.9).shape == (6, 3)
