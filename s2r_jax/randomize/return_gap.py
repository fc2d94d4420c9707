"""Adapt the width of a distribution to the return that training reaches.

gap = (R - R*) / |R*| of the mean return R and the target R*: where training is ahead of its target
the worlds spread further, where it falls behind they come closer, and in between they stay. The
width is one factor on a reference, so widening is undone by narrowing.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from s2r_jax.errors import BadValue
from s2r_jax.parameters import ParameterSet
from s2r_jax.randomize.config import ReturnGapConfig
from s2r_jax.randomize.distribution import LOGUNIFORM, UNIFORM, Distribution, from_bounds


class State(NamedTuple):
    """The distribution to draw from now, and what it is a multiple of."""

    distribution: Distribution
    width: Float[Array, ""]
    """Factor on the half-ranges and standard deviations of the reference."""
    reference: Distribution
    low: Float[Array, " param"]
    high: Float[Array, " param"]
    """Bounds of the parameters, where widening ends."""
    target: Float[Array, ""]
    """R*, in the unit of the return."""


class Info(NamedTuple):
    """What a person or a log wants to see."""

    gap: Float[Array, ""]
    """Relative distance of the return from its target."""
    width: Float[Array, ""]


def init(parameters: ParameterSet, reference: Distribution, target_return: float) -> State:
    """Start at the reference.

    Args:
        parameters: Whose bounds end the widening.
        reference: Distribution of width 1.
        target_return: R*, in the unit of the return; not 0, the gap is relative to it.

    Raises:
        BadValue: The target is 0 or not finite.
    """
    if not 0 < abs(target_return) < float("inf"):
        raise BadValue("return gap", "target return", target_return, "a finite number but 0")
    limits, dtype = from_bounds(parameters), reference.low.dtype
    width, target = jnp.ones((), dtype), jnp.asarray(target_return, dtype)
    return State(reference, width, reference, limits.low, limits.high, target)


def step(
    state: State, mean_return: Float[Array, ""], config: ReturnGapConfig
) -> tuple[State, Info]:
    """Widen, narrow or keep the distribution; a return of NaN keeps it."""
    gap = (mean_return - state.target) / jnp.abs(state.target)
    grown, shrunk = state.width * (1 + config.rate), state.width / (1 + config.rate)
    width = jnp.where(gap > config.widen_above, grown, state.width)
    width = jnp.where(gap < config.narrow_below, shrunk, width)
    width = jnp.clip(width, config.min_width, config.max_width)
    distribution = _scaled(state.reference, width, state.low, state.high)
    return state._replace(distribution=distribution, width=width), Info(gap, width)


def _scaled(
    reference: Distribution,
    width: Float[Array, ""],
    low: Float[Array, " param"],
    high: Float[Array, " param"],
) -> Distribution:
    """Return the reference with its spread times `width`, inside [low, high]; centres stay."""
    is_log = reference.kind == LOGUNIFORM
    is_range = is_log | (reference.kind == UNIFORM)
    a, b = (jnp.log(jnp.where(is_log, x, 1.0)) for x in (reference.low, reference.high))
    a, b = jnp.where(is_log, a, reference.low), jnp.where(is_log, b, reference.high)
    middle, half = (a + b) / 2, width * (b - a) / 2
    lower, upper = (jnp.where(is_log, jnp.exp(x), x) for x in (middle - half, middle + half))
    # At width 1 the reference itself, not its image through exp and log.
    is_moved = is_range & (width != 1)
    return reference._replace(
        low=jnp.where(is_moved, jnp.clip(lower, low, high), reference.low),
        high=jnp.where(is_moved, jnp.clip(upper, low, high), reference.high),
        std=reference.std * width,
    )
