"""Pushes: sudden horizontal changes of velocity of a free body, at random times."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class Push(NamedTuple):
    """How hard and how often a body is pushed."""

    speed: Float[Array, ""]
    """Change of horizontal velocity at each push [m/s]."""
    interval: Float[Array, ""]
    """Mean time between pushes [s]."""


def kick(push: Push, key: PRNGKeyArray, period: float) -> Float[Array, "2"]:
    """Return the change of horizontal velocity at the start of one control period [m/s].

    Pushes are a Poisson process, so they need no memory; directions are uniform. The derivative in
    `speed` is that of the pushes that came, in `interval` it is 0.

    Args:
        push: How hard and how often.
        key: Of this control period.
        period: Control period [s].
    """
    key_time, key_angle = jax.random.split(key)
    dtype = push.speed.dtype
    chance = 1.0 - jnp.exp(-period / push.interval)
    comes = jax.random.uniform(key_time, (), dtype) < chance
    angle = jax.random.uniform(key_angle, (), dtype, 0.0, 2.0 * jnp.pi)
    direction = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    return jnp.where(comes, push.speed * direction, 0.0)
