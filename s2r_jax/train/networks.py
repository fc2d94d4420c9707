"""The networks: one MLP for actor and critic."""

import math

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

#: Between layers, and what a policy file says.
ACTIVATION = "elu"


class MLP(nn.Module):
    """Layers of these widths with ELU between them; the last is linear and starts small."""

    widths: tuple[int, ...]
    final_scale: float = 1.0
    """Of the last layer's initial weights; small for an actor that starts near zero."""

    @nn.compact
    def __call__(self, x: Float[Array, " input"]) -> Float[Array, " output"]:
        """Return the last layer's values.

        Source: orthogonal weights and a small last layer, arXiv:2006.05990.
        """
        for width in self.widths[:-1]:
            x = nn.elu(nn.Dense(width, kernel_init=nn.initializers.orthogonal(math.sqrt(2)))(x))
        final = nn.initializers.orthogonal(self.final_scale)
        return nn.Dense(self.widths[-1], kernel_init=final)(x)


def log_density(
    action: Float[Array, " nu"], mean: Float[Array, " nu"], log_std: Float[Array, " nu"]
) -> Float[Array, ""]:
    """Return the log density of a diagonal Gaussian."""
    white = (action - mean) * jnp.exp(-log_std)
    return jnp.sum(-0.5 * white**2 - log_std - 0.5 * math.log(2 * math.pi))


def entropy(log_std: Float[Array, " nu"]) -> Float[Array, ""]:
    """Return the entropy of a diagonal Gaussian [nat]."""
    return jnp.sum(log_std + 0.5 * math.log(2 * math.pi * math.e))


def divergence(
    mean_old: Float[Array, " nu"],
    log_std_old: Float[Array, " nu"],
    mean: Float[Array, " nu"],
    log_std: Float[Array, " nu"],
) -> Float[Array, ""]:
    """Return KL(old ‖ new) of diagonal Gaussians [nat]."""
    ratio = jnp.exp(2 * (log_std_old - log_std))
    shift = (mean_old - mean) ** 2 * jnp.exp(-2 * log_std)
    return jnp.sum(log_std - log_std_old + 0.5 * (ratio + shift - 1))
