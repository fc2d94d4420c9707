"""The evidence says 0 and 2 where the answer is known, and flags predictors that only look good."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.adapt import evidence
from s2r_jax.adapt.probe import a_distance


def _key():
    return jax.random.key(0)


def _samples(shift: float) -> list[jax.Array]:
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4, 500, 8)).astype(np.float32)
    draws[1::2, :, 0] += shift  # target fit and target test
    return [jnp.asarray(d) for d in draws]


def test_a_distance_of_identical_distributions_is_near_zero():
    # 1000 test samples: standard deviation of 2 (1 - 2 error) is 4 sqrt(0.25 / 1000) = 0.063.
    assert jax.jit(a_distance)(_key(), *_samples(0.0)) < 3 * 0.063


def test_a_distance_of_separable_distributions_is_two():
    assert jax.jit(a_distance)(_key(), *_samples(12.0)) == 2.0


def test_a_distance_sees_a_difference_that_no_mean_or_covariance_shows():
    rng = np.random.default_rng(1)
    angle = rng.uniform(0, 2 * np.pi, (2, 500))
    ring = np.stack([np.cos(angle), np.sin(angle)], -1).astype(np.float32)
    blob = (rng.normal(size=(2, 500, 2)) * 0.5**0.5).astype(np.float32)  # the same covariance
    parts = [jnp.asarray(x) for x in (ring[0], blob[0], ring[1], blob[1])]
    assert jax.jit(a_distance)(_key(), *parts) > 1.0


def test_a_distance_with_swapped_test_sets_is_clipped_at_zero():
    source_fit, target_fit, source_test, target_test = _samples(12.0)
    assert jax.jit(a_distance)(_key(), source_fit, target_fit, target_test, source_test) == 0.0


def test_constant_predictor_is_collapsed_and_a_perfect_one_is_not(small):
    label = np.arange(400) % 4
    perfect, constant = np.eye(4)[label], np.tile([0.0, 1.0, 0.0, 0.0], (400, 1))
    assert_allclose(evidence.richness(perfect, label, small), 1.0, rtol=1e-12)
    assert_allclose(evidence.richness(constant, label, small), 0.25, rtol=1e-12)
    assert evidence.richness(constant, label, small) < evidence.POOR


def test_constant_regression_is_collapsed_though_its_mae_wins(small):
    # Mostly straight driving: the constant's error is small, which is why it is never read alone.
    rng = np.random.default_rng(0)
    label = np.where(rng.uniform(size=(1000, 1)) < 0.9, 0.0, 1.0)
    noisy = label + rng.normal(0, 0.3, label.shape)
    constant = np.zeros_like(label)
    good, bad = evidence.score_regression(noisy, label), evidence.score_regression(constant, label)
    assert bad.mae < good.mae
    assert bad.mae == bad.constant_mae
    assert bad.correlation == 0.0
    assert_allclose(good.correlation, np.corrcoef(noisy[:, 0], label[:, 0])[0, 1], rtol=1e-9)
    assert_allclose(good.bias, (noisy - label).mean(), rtol=1e-9)
    regress = dataclasses.replace(small, task="regress", outputs=1)
    assert evidence.richness(constant, label, regress) < evidence.POOR
    assert evidence.richness(noisy, label, regress) > evidence.POOR


def test_balanced_accuracy_of_a_constant_is_one_over_the_classes():
    label = np.array([0] * 90 + [1] * 5 + [2] * 5)
    score = evidence.score_classes(np.tile([1.0, 0.0, 0.0], (100, 1)), label)
    assert score.accuracy == score.constant_accuracy == pytest.approx(0.9)
    assert score.balanced_accuracy == pytest.approx(1 / 3)


def test_class_that_never_occurs_does_not_count_in_balanced_accuracy():
    score = evidence.score_classes(np.eye(3)[[0, 0, 2]], np.array([0, 0, 2]))
    assert score.balanced_accuracy == 1.0
