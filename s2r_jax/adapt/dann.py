"""Domain-adversarial training: the encoder makes features that do the task and hide the domain.

Departures from the paper that made it work here: the discriminator has an optimiser of its own
with a faster rate and less momentum, and nothing is normalised over a batch.
Source: Ganin et al., arXiv:1505.07818.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.adapt.networks import DomainHead, apply
from s2r_jax.adapt.objective import (
    Batch,
    Info,
    Model,
    decide,
    encode,
    init_model,
    model_optimizer,
    task_loss,
)
from s2r_jax.adapt.reversal import reverse_gradient


class State(NamedTuple):
    """What the next step needs."""

    model: Model
    domain: PyTree
    model_moments: optax.OptState
    domain_moments: optax.OptState


def init(key: Key[Array, ""], config: AdaptConfig) -> State:
    """Return the state before the first step."""
    key_model, key_domain = jax.random.split(key)
    model = init_model(key_model, config)
    domain = DomainHead().init(key_domain, jnp.zeros(config.features))
    return State(
        model,
        domain,
        model_optimizer(config).init(model),
        _domain_optimizer(config).init(domain),
    )


def step(
    state: State, batch: Batch, weight: Float[Array, ""], config: AdaptConfig
) -> tuple[State, Info]:
    """Move all three networks one step; one backward pass serves both sides of the game.

    Args:
        state: Networks and moments.
        batch: Images of both domains.
        weight: The paper's λ now; zero trains the source-only twin.
        config: Static choices.
    """

    def loss(
        model: Model, domain: PyTree
    ) -> tuple[Float[Array, ""], tuple[Float[Array, ""], Float[Array, ""]]]:
        count = batch.source.shape[0]
        features = encode(model, jnp.concatenate([batch.source, batch.target]), config)
        task = task_loss(decide(model, features[:count], config), batch.label, config)
        logit = apply(DomainHead(), domain, reverse_gradient(features, weight))
        is_source = jnp.arange(logit.shape[0]) < count
        confusion = optax.sigmoid_binary_cross_entropy(logit, is_source.astype(logit.dtype)).mean()
        return task + confusion, (task, confusion)

    slopes, (task, confusion) = jax.grad(loss, argnums=(0, 1), has_aux=True)(
        state.model, state.domain
    )
    model_update, model_moments = model_optimizer(config).update(
        slopes[0], state.model_moments, state.model
    )
    domain_update, domain_moments = _domain_optimizer(config).update(
        slopes[1], state.domain_moments, state.domain
    )
    stepped = State(
        jax.tree.map(jnp.add, state.model, model_update),
        jax.tree.map(jnp.add, state.domain, domain_update),
        model_moments,
        domain_moments,
    )
    return stepped, Info(task, confusion, weight, optax.tree.norm(slopes[0]))


def _domain_optimizer(config: AdaptConfig) -> optax.GradientTransformation:
    return optax.adamw(config.discriminator_rate, b1=config.discriminator_b1)
