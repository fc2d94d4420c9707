"""Small settings shared by the tests of adaptation: few compiled shapes."""

import jax.numpy as jnp
import pytest

from s2r_jax.adapt import shapes
from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.adapt.objective import Batch


@pytest.fixture
def small() -> AdaptConfig:
    return AdaptConfig(
        outputs=shapes.DIRECTIONS,
        image_shape=(shapes.SIZE, shapes.SIZE, 3),
        features=32,
        channels=(8, 16),
        steps=20,
        batch=16,
        report_every=10,
    )


@pytest.fixture
def batch() -> Batch:
    source, label = shapes.draw(0, 16, shifted=False)
    target, _ = shapes.draw(1, 16, shifted=True)
    return Batch(jnp.asarray(source), jnp.asarray(label, jnp.int32), jnp.asarray(target))
