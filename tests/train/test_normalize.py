"""Running statistics against numpy's over everything at once."""

import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

from s2r_jax.train import normalize


def test_statistics_of_batches_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    batches = [rng.normal(5.0, 0.3, (4, n, 3)).astype(np.float32) for n in (2, 7, 5)]
    found = normalize.init(3)
    for batch in batches:
        found = normalize.update(found, jnp.asarray(batch))
    rows = np.concatenate([batch.reshape(-1, 3) for batch in batches])
    assert found.count == 56
    assert_allclose(found.mean, rows.mean(axis=0), rtol=1e-6)
    assert_allclose(normalize.std(found), rows.std(axis=0), rtol=1e-4)  # float32


def test_entry_without_variation_is_only_centred():
    found = normalize.update(normalize.init(2), jnp.array([[3.0, 1.0], [3.0, 2.0]]))
    assert_allclose(normalize.std(found), [1.0, 0.5])
    assert_allclose(
        normalize.apply(jnp.array([4.0, 1.5]), found.mean, normalize.std(found)), [1, 0]
    )


def test_outlier_is_cut():
    one = jnp.ones(1)
    assert normalize.apply(1e6 * one, 0 * one, one) == normalize.CUT
