"""Correlation alignment: equal mean and covariance of the features in both domains.

The cheap rival of the adversarial method: no game, no discriminator, one penalty.
Source: Sun and Saenko, Deep CORAL, arXiv:1607.01719; the mean is added because a covariance alone
does not see a shift of all features.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from s2r_jax.adapt.config import AdaptConfig
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


class State(NamedTuple):
    """What the next step needs."""

    model: Model
    moments: optax.OptState


def init(key: Key[Array, ""], config: AdaptConfig) -> State:
    """Return the state before the first step."""
    # The split is that of the adversarial method: one seed starts both from the same model.
    key_model, _ = jax.random.split(key)
    model = init_model(key_model, config)
    return State(model, model_optimizer(config).init(model))


def step(
    state: State, batch: Batch, weight: Float[Array, ""], config: AdaptConfig
) -> tuple[State, Info]:
    """Move encoder and policy head one step down task loss + weight · distance.

    Args:
        state: Networks and moments.
        batch: Images of both domains.
        weight: Weight of the distance now; zero trains the source-only twin.
        config: Static choices.
    """

    def loss(model: Model) -> tuple[Float[Array, ""], tuple[Float[Array, ""], Float[Array, ""]]]:
        source = encode(model, batch.source, config)
        target = encode(model, batch.target, config)
        task = task_loss(decide(model, source, config), batch.label, config)
        apart = distance(source, target)
        return task + weight * apart, (task, apart)

    slope, (task, apart) = jax.grad(loss, has_aux=True)(state.model)
    update, moments = model_optimizer(config).update(slope, state.moments, state.model)
    stepped = State(jax.tree.map(jnp.add, state.model, update), moments)
    return stepped, Info(task, apart, weight, optax.tree.norm(slope))


def distance(
    source: Float[Array, "batch feature"], target: Float[Array, "batch feature"]
) -> Float[Array, ""]:
    """Return (|Δmean|² + |Δcovariance|²_F) / features of two samples."""
    shift = source.mean(axis=0) - target.mean(axis=0)
    warp = _covariance(source) - _covariance(target)
    return (jnp.sum(shift**2) + jnp.sum(warp**2)) / source.shape[-1]


def _covariance(x: Float[Array, "batch feature"]) -> Float[Array, "feature feature"]:
    centred = x - x.mean(axis=0)
    return centred.T @ centred / (x.shape[0] - 1)
