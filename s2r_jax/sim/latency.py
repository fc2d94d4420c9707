"""Continuous latency of the command path: a line of held commands, read at a real-valued delay.

A command is held for one control period. What acts during a physics step is the mean of the
delayed, held signal over that step: exact to first order in the step, continuous and differentiable
in the delay although the signal jumps. Jitter and loss are drawn once a control period.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray


class Latency(NamedTuple):
    """What happens to a command on its way."""

    action: Float[Array, ""]
    """Least delay [s]."""
    jitter: Float[Array, ""]
    """Width of the uniform delay on top, drawn anew each control period [s]."""
    drop: Float[Array, ""]
    """Probability that a command is lost and the one before it stands; its derivative is 0."""


def draw(latency: Latency, key: PRNGKeyArray | None) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """Return the delay of one control period [s], and whether its command is lost.

    Without a key: the least delay, nothing lost.
    """
    if key is None:
        return latency.action, jnp.zeros((), bool)
    key_jitter, key_drop = jax.random.split(key)
    late = jax.random.uniform(key_jitter, (), latency.jitter.dtype)
    is_lost = jax.random.uniform(key_drop, (), latency.drop.dtype) < latency.drop
    return latency.action + latency.jitter * late, is_lost


def line_length(max_delay: float, period: float) -> int:
    """Return how many commands, the newest included, a delay up to `max_delay` [s] can reach."""
    return 1 if max_delay <= 0 else math.ceil(max_delay / period - 1e-9) + 1


def push(
    line: Float[Array, " held *channels"], value: Float[Array, " *channels"]
) -> Float[Array, " held *channels"]:
    """Put the newest value first; the oldest falls out."""
    return jnp.concatenate([value[None], line[:-1]])


def lines(
    line: Float[Array, " held *channels"], values: Float[Array, " time *channels"]
) -> Float[Array, " time held *channels"]:
    """Return the line after each of many a `push`."""
    count, held = values.shape[0], line.shape[0]
    every = jnp.concatenate([line[::-1], values])  # oldest first
    newest = held + np.arange(count)[:, None]
    return every[newest - np.arange(held)]


def read(
    line: Float[Array, " held *channels"],
    delay: Float[Array, ""],
    start: Float[Array, ""],
    step: float,
    period: float,
) -> Float[Array, " *channels"]:
    """Return the mean of the delayed signal over one physics step.

    Args:
        line: Held values, newest first; entry j was given j periods before the present period
            began.
        delay: [s], at most the length of the line allows; beyond it the oldest value stands.
        start: Beginning of the physics step within the control period [s].
        step: Length of the physics step [s].
        period: Control period [s].
    """
    if line.shape[0] == 1:
        return line[0]
    opened = -period * jnp.arange(line.shape[0], dtype=line.dtype)
    closed = opened + period
    # The newest value is held beyond its period and the oldest before its own.
    opened = opened.at[-1].set(-jnp.inf)
    closed = closed.at[0].set(jnp.inf)
    first, last = start - delay, start - delay + step
    overlap = jnp.minimum(last, closed) - jnp.maximum(first, opened)
    weight = jnp.clip(overlap / step, 0.0, 1.0)
    return jnp.tensordot(weight, line, axes=1)
