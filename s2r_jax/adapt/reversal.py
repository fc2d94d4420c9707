"""Gradient reversal: identity forwards, minus a weight times the gradient backwards.

Source: Ganin et al., Domain-Adversarial Training of Neural Networks, arXiv:1505.07818.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# The paper's γ: the weight has reached 99 % of its maximum after half of the training.
_STEEPNESS = 10.0


@jax.custom_vjp
def reverse_gradient(x: Float[Array, "*shape"], weight: Float[Array, ""]) -> Float[Array, "*shape"]:
    """Return x unchanged; its cotangent is multiplied by -weight.

    Args:
        x: Features on their way to the domain head.
        weight: The paper's λ. Traced, so a schedule does not recompile; its own gradient is zero.
    """
    del weight
    return x


def _forward(
    x: Float[Array, "*shape"], weight: Float[Array, ""]
) -> tuple[Float[Array, "*shape"], Float[Array, ""]]:
    return x, weight


def _backward(
    weight: Float[Array, ""], cotangent: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, ""]]:
    return -weight * cotangent, jnp.zeros_like(weight)


reverse_gradient.defvjp(_forward, _backward)


def ramp(progress: Float[Array, ""], maximum: Float[Array, ""]) -> Float[Array, ""]:
    """Return the alignment weight λ(p) = maximum (2 / (1 + exp(-10 p)) - 1).

    It starts at zero: features that cannot do the task yet would be aligned to a constant.

    Args:
        progress: Fraction p of the training that is done, 0 to 1.
        maximum: Weight approached at the end.
    """
    return maximum * (2.0 / (1.0 + jnp.exp(-_STEEPNESS * progress)) - 1.0)
