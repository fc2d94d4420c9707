"""What every alignment method keeps to, and what each of them is on paper."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose

from s2r_jax.adapt import coral, dann
from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.adapt.fit import METHODS
from s2r_jax.adapt.objective import init_model, task_loss


def _key():
    return jax.random.key(0)


methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


@methods
def test_step_keeps_shape_and_dtype_of_state(method, small, batch):
    state = jax.eval_shape(lambda: method.init(_key(), small))
    stepped, _ = jax.eval_shape(lambda s: method.step(s, batch, jnp.float32(0.1), small), state)
    assert stepped == state


@methods
def test_changing_the_weight_does_not_retrace_the_step(method, small, batch):
    chex.clear_trace_counter()

    @jax.jit
    @chex.assert_max_traces(n=1)
    def step(state, weight):
        return method.step(state, batch, weight, small)

    state = method.init(_key(), small)
    for weight in (0.0, 0.1, 1.0):
        state, info = step(state, jnp.float32(weight))
        assert info.weight == np.float32(weight)


@methods
def test_without_weight_the_target_has_no_influence_on_the_model(method, small, batch):
    step = jax.jit(lambda s, b, w: method.step(s, b, w, small)[0].model)
    state = method.init(_key(), small)
    other = batch._replace(target=255 - batch.target)
    zero, some = jnp.float32(0.0), jnp.float32(0.5)
    chex.assert_trees_all_close(
        step(state, batch, zero),
        step(state, other, zero),
        rtol=0,
        atol=1e-6,  # float32 rounding
    )
    moved = jax.tree.map(
        lambda a, b: jnp.abs(a - b).max(), step(state, batch, some), step(state, other, some)
    )
    assert max(jax.tree.leaves(moved.encoder)) > 1e-5  # the learning rate is 1e-3


def test_encoder_of_the_article_turns_128x128x3_into_256_and_12_actions():
    config = AdaptConfig()
    model = jax.eval_shape(lambda: init_model(_key(), config))
    dense = model.encoder["params"]["Dense_0"]["kernel"].shape
    assert dense == (8 * 8 * 128, 256)
    assert model.policy["params"]["Dense_0"]["kernel"].shape == (256, 12)


def test_adversarial_slope_opposes_the_discriminator(small, batch):
    # With λ = 1 the encoder's slope of (task + confusion) is that of (task - confusion) without
    # reversal: both sides of the game in one backward pass, checked against two.
    state = dann.init(_key(), small)

    def parts(model, reverse):
        features = dann.encode(model, jnp.concatenate([batch.source, batch.target]), small)
        task = task_loss(dann.decide(model, features[:16], small), batch.label, small)
        logit = dann.DomainHead().apply(state.domain, features)
        truth = jnp.repeat(jnp.array([1.0, 0.0]), 16)
        return task + reverse * optax.sigmoid_binary_cross_entropy(logit, truth).mean()

    slope = jax.jit(jax.grad(lambda m: parts(m, -1.0)))(state.model)
    _, info = jax.jit(lambda: dann.step(state, batch, jnp.float32(1.0), small))()
    assert_allclose(info.slope_norm, optax.tree.norm(slope), rtol=1e-4)  # float32 sums


def test_coral_distance_is_that_of_numpy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(50, 3)), rng.normal(size=(50, 3)) * [1, 2, 3] + 0.5
    expected = np.sum((a.mean(0) - b.mean(0)) ** 2) + np.sum((np.cov(a.T) - np.cov(b.T)) ** 2)
    assert_allclose(coral.distance(jnp.asarray(a), jnp.asarray(b)), expected / 3, rtol=1e-5)
    assert coral.distance(jnp.asarray(a), jnp.asarray(a)) == 0.0


def test_losses_have_their_closed_forms(small):
    logits = jnp.log(jnp.array([[0.1, 0.2, 0.3, 0.4]]))
    assert_allclose(task_loss(logits, jnp.array([2]), small), -np.log(0.3), rtol=1e-6)
    regress = dataclasses.replace(small, task="regress", outputs=2, huber_delta=1.0)
    loss = task_loss(jnp.array([[0.5, 3.0]]), jnp.zeros((1, 2)), regress)
    assert_allclose(loss, (0.5 * 0.5**2 + (3.0 - 0.5)) / 2, rtol=1e-6)
