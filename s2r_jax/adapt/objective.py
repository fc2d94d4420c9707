"""What the alignment methods share: model, batch, task loss and optimiser."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree, Shaped, UInt8

from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.adapt.networks import Encoder, PolicyHead, apply


class Model(NamedTuple):
    """What goes to the robot: parameters of encoder and policy head."""

    encoder: PyTree
    policy: PyTree


class Batch(NamedTuple):
    """Equally many images of both domains; only the source has labels."""

    source: UInt8[Array, "batch height width channel"]
    label: Shaped[Array, "batch ..."]
    target: UInt8[Array, "batch height width channel"]


class Info(NamedTuple):
    """What a person or a log wants to see of a step."""

    task_loss: Float[Array, "*time"]
    alignment_loss: Float[Array, "*time"]
    weight: Float[Array, "*time"]
    slope_norm: Float[Array, "*time"]


def init_model(key: Key[Array, ""], config: AdaptConfig) -> Model:
    """Return freshly initialised parameters."""
    key_encoder, key_policy = jax.random.split(key)
    image = jnp.zeros(config.image_shape, jnp.uint8)
    features = jnp.zeros(config.features)
    return Model(
        Encoder(config.features, config.channels).init(key_encoder, image),
        PolicyHead(config.outputs).init(key_policy, features),
    )


def encode(
    model: Model, images: UInt8[Array, "*batch height width channel"], config: AdaptConfig
) -> Float[Array, "*batch feature"]:
    """Return the features of images."""
    return apply(Encoder(config.features, config.channels), model.encoder, images)


def decide(
    model: Model, features: Float[Array, "*batch feature"], config: AdaptConfig
) -> Float[Array, "*batch output"]:
    """Return logits or regressed values of features."""
    return apply(PolicyHead(config.outputs), model.policy, features)


def task_loss(
    output: Float[Array, "batch output"], label: Shaped[Array, "batch ..."], config: AdaptConfig
) -> Float[Array, ""]:
    """Return the mean cross-entropy against class numbers, or the mean Huber loss."""
    if config.task == "classify":
        return optax.softmax_cross_entropy_with_integer_labels(output, label).mean()
    return optax.huber_loss(output, label, delta=config.huber_delta).mean()


def model_optimizer(config: AdaptConfig) -> optax.GradientTransformation:
    """Return AdamW for encoder and policy head, its rate falling by (1 + 10 p)^-0.75.

    Source of the schedule: arXiv:1505.07818, section 5.2.
    """

    def rate(count: ArrayLike) -> Array:
        progress = jnp.asarray(count) / config.steps
        return config.learning_rate * (1.0 + 10.0 * progress) ** -0.75

    return optax.adamw(rate)
