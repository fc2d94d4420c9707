"""Generalised advantage estimation. Source: arXiv:1506.02438; time limits: arXiv:1712.00378."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def advantages(
    reward: Float[Array, " time"],
    value: Float[Array, " time"],
    next_value: Float[Array, " time"],
    done: Bool[Array, " time"],
    truncated: Bool[Array, " time"],
    discount: float,
    trace: float,
) -> Float[Array, " time"]:
    """Return A_t = δ_t + γλ A_{t+1} within episodes, with δ_t = r_t + γ V(s_{t+1}) - V(s_t).

    Args:
        reward: Of the step from s_t.
        value: V(s_t).
        next_value: V of the state that the step led to, before any restart.
        done: The episode ended with this step; nothing later counts.
        truncated: It ended only because its time was over, so the value beyond still counts.
        discount: γ.
        trace: λ.
    """
    beyond = jnp.where(done & ~truncated, 0.0, next_value)
    delta = reward + discount * beyond - value

    def back(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        error, over = now
        advantage = error + discount * trace * jnp.where(over, 0.0, later)
        return advantage, advantage

    _, found = jax.lax.scan(back, jnp.zeros_like(reward[0]), (delta, done), reverse=True)
    return found
