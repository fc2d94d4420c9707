"""How far apart two sets of features still are, asked of a judge that did not train with them.

The discriminator of adversarial training says nothing here: its accuracy can sit at one half while
a fresh probe separates the domains perfectly. The probe has a hidden layer, because the features
of a moment-matching method look equal to every linear one.
Source of the measure: Ben-David et al., Analysis of Representations for Domain Adaptation, 2007.
"""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

from s2r_jax.adapt.networks import DomainHead, apply

# Enough for the loss of separable features to vanish; weight decay keeps equal ones near chance.
_STEPS, _RATE, _DECAY = 200, 1e-2, 1e-2


def a_distance(
    key: Key[Array, ""],
    source_fit: Float[Array, "fit_source feature"],
    target_fit: Float[Array, "fit_target feature"],
    source_test: Float[Array, "test_source feature"],
    target_test: Float[Array, "test_target feature"],
) -> Float[Array, ""]:
    """Return 2 (1 - 2 error) of a fresh probe, clipped at 0: 0 is mixed, 2 is separable.

    Args:
        key: Initial weights of the probe.
        source_fit: Features the probe learns from.
        target_fit: The same of the target.
        source_test: Features it is judged on; from other frames (other blocks of a video).
        target_test: The same of the target.
    """
    mean = jnp.concatenate([source_fit, target_fit]).mean(axis=0)
    scale = jnp.concatenate([source_fit, target_fit]).std(axis=0) + 1e-6  # dead features stay 0
    source_fit, target_fit = (source_fit - mean) / scale, (target_fit - mean) / scale
    optimizer = optax.adamw(_RATE, weight_decay=_DECAY)
    network = DomainHead(hidden=32)
    probe = network.init(key, mean)

    def loss(probe: PyTree) -> Float[Array, ""]:
        # Each domain counts one half, however many images it has.
        on_source = jax.nn.softplus(-apply(network, probe, source_fit)).mean()
        on_target = jax.nn.softplus(apply(network, probe, target_fit)).mean()
        return (on_source + on_target) / 2

    def descend(
        carry: tuple[PyTree, optax.OptState], _: None
    ) -> tuple[tuple[PyTree, optax.OptState], None]:
        probe, moments = carry
        update, moments = optimizer.update(jax.grad(loss)(probe), moments, probe)
        return (jax.tree.map(jnp.add, probe, update), moments), None

    (probe, _), _ = jax.lax.scan(descend, (probe, optimizer.init(probe)), length=_STEPS)
    miss_source = apply(network, probe, (source_test - mean) / scale) <= 0
    miss_target = apply(network, probe, (target_test - mean) / scale) > 0
    error = (miss_source.mean() + miss_target.mean()) / 2
    return jnp.maximum(2 * (1 - 2 * error), 0.0)
