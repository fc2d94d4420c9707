"""Running mean and variance of observations.

Source: Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample
variances, 1979.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

#: Observations are cut at so many standard deviations: an outlier must not blow up a gradient.
CUT = 10.0
#: Below this standard deviation an entry counts as constant and is only centred.
MIN_STD = 1e-4


class Normalizer(NamedTuple):
    """Statistics of all observations so far."""

    count: Float[Array, ""]
    mean: Float[Array, " obs"]
    squares: Float[Array, " obs"]
    """Sum of squared deviations from the mean."""


def init(size: int) -> Normalizer:
    """Return statistics of nothing: mean 0, standard deviation 1."""
    return Normalizer(jnp.zeros(()), jnp.zeros(size), jnp.zeros(size))


def update(normalizer: Normalizer, batch: Float[Array, "*batch obs"]) -> Normalizer:
    """Return the statistics with a batch added."""
    rows = batch.reshape(-1, batch.shape[-1])
    added, mean = rows.shape[0], jnp.mean(rows, axis=0)
    squares = jnp.sum((rows - mean) ** 2, axis=0)
    count = normalizer.count + added
    step = mean - normalizer.mean
    weight = normalizer.count * added / count
    return Normalizer(
        count,
        normalizer.mean + step * added / count,
        normalizer.squares + squares + step**2 * weight,
    )


def std(normalizer: Normalizer) -> Float[Array, " obs"]:
    """Return the standard deviation; 1 where there is no variation yet."""
    found = jnp.sqrt(normalizer.squares / jnp.maximum(normalizer.count, 1.0))
    return jnp.where(found > MIN_STD, found, 1.0)


def apply(
    observation: Float[Array, " obs"], mean: Float[Array, " obs"], std: Float[Array, " obs"]
) -> Float[Array, " obs"]:
    """Return the observation in standard deviations from the mean, cut at ±`CUT`."""
    return jnp.clip((observation - mean) / std, -CUT, CUT)
