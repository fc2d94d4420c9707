"""The article's networks: an image encoder, a policy head and a domain head.

LayerNorm throughout. BatchNorm would mix the statistics of two domains in one batch, and lets the
domain head tell them apart by the batch alone.
"""

from collections.abc import Sequence
from typing import cast

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, PyTree, Shaped, UInt8


class Encoder(nn.Module):
    """Image to feature vector by strided convolutions; 128x128x3 to 256 as the article has it."""

    features: int = 256
    channels: Sequence[int] = (32, 64, 64, 128)

    @nn.compact
    def __call__(
        self, image: UInt8[Array, "*batch height width channel"]
    ) -> Float[Array, "*batch feature"]:
        """Return the features of images as a camera gives them, 0 to 255."""
        x = image.astype(jnp.float32) / 127.5 - 1.0
        for channels in self.channels:
            x = nn.Conv(channels, (3, 3), strides=2)(x)
            x = nn.relu(nn.LayerNorm()(x))
        x = x.reshape(*image.shape[:-3], -1)
        return nn.relu(nn.LayerNorm()(nn.Dense(self.features)(x)))


class PolicyHead(nn.Module):
    """Features to action logits, or to a regressed vector."""

    outputs: int = 12

    @nn.compact
    def __call__(self, features: Float[Array, "*batch feature"]) -> Float[Array, "*batch output"]:
        """Return one number per action, class or component."""
        return nn.Dense(self.outputs)(features)


class DomainHead(nn.Module):
    """Features to one logit: positive says source, negative target."""

    hidden: int = 128

    @nn.compact
    def __call__(self, features: Float[Array, "*batch feature"]) -> Float[Array, "*batch"]:
        """Return the logit of "this came from the source"."""
        x = nn.relu(nn.LayerNorm()(nn.Dense(self.hidden)(features)))
        return nn.Dense(1)(x)[..., 0]


def apply(network: nn.Module, parameters: PyTree, x: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Return the output of a network; flax types it as a union with mutable collections."""
    return cast(Array, network.apply(parameters, x))
