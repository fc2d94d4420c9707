"""The gradient is minus weight times the identity's, and the schedule is the paper's."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.adapt.reversal import ramp, reverse_gradient

X = jnp.arange(6.0).reshape(2, 3) / 7


def test_forward_is_the_identity():
    assert_allclose(reverse_gradient(X, jnp.float32(0.3)), X, rtol=0)


@pytest.mark.parametrize("weight", [0.0, 0.3, 2.0])
def test_gradient_is_exactly_minus_weight_times_that_of_the_identity(weight):
    def f(x):
        return jnp.sum(jnp.sin(x) * x)

    def reversed_f(x):
        return f(reverse_gradient(x, jnp.float32(weight)))

    assert_allclose(jax.grad(reversed_f)(X), -np.float32(weight) * jax.grad(f)(X), rtol=0)


def test_weight_itself_gets_no_gradient():
    slope = jax.grad(lambda w: jnp.sum(reverse_gradient(X, w) ** 2))(jnp.float32(0.3))
    assert slope == 0.0


def test_reversal_works_under_vmap_and_jit():
    def slope(x, weight):
        return jax.grad(lambda y: jnp.sum(reverse_gradient(y, weight)))(x)

    slopes = jax.jit(jax.vmap(slope))(X, jnp.array([1.0, 2.0]))
    assert_allclose(slopes, [[-1.0] * 3, [-2.0] * 3], rtol=0)


def test_ramp_has_the_values_of_the_closed_form():
    progress = np.array([0.0, 0.1, 0.5, 1.0])
    # tanh(5 p) is the same function written differently.
    weight = jax.vmap(ramp, in_axes=(0, None))(jnp.asarray(progress), jnp.float32(0.7))
    assert_allclose(weight, 0.7 * np.tanh(5 * progress), rtol=1e-6)


def test_moving_along_the_ramp_does_not_recompile():
    @jax.jit
    @chex.assert_max_traces(n=1)
    def slope(x, progress, maximum):
        weight = ramp(progress, maximum)
        return jax.grad(lambda y: jnp.sum(reverse_gradient(y, weight)))(x)

    for progress in (0.0, 0.25, 1.0):
        for maximum in (0.1, 1.0):
            slope(X, jnp.float32(progress), jnp.float32(maximum))
