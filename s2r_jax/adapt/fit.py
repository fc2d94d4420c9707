"""The training loop: a fixed budget, the last state, no target labels anywhere."""

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Num, UInt8

from s2r_jax.adapt import coral, dann
from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.adapt.objective import Batch, Info, Model
from s2r_jax.adapt.reversal import ramp

METHODS: dict[str, ModuleType] = {"dann": dann, "coral": coral}

Callback = Callable[[int, Info], None]


class Domains(NamedTuple):
    """Training images of both domains on the device, and the source's labels."""

    source: UInt8[Array, "count_source height width channel"]
    label: Num[Array, "count_source ..."]
    target: UInt8[Array, "count_target height width channel"]


def fit(
    domains: Domains, config: AdaptConfig, callback: Callback | None = None
) -> tuple[Model, Info]:
    """Train for the whole budget and return the last model and the log of all steps.

    Args:
        domains: Training data; labels in the unit of the loss.
        config: Settings; `weight_max` 0 trains the source-only twin, on the same batches.
        callback: Called with the number of steps done and the last `report_every` infos.
    """
    key_init, key_batch = jax.random.split(jax.random.key(config.seed))
    # Seeds and weights are traced: one compilation serves all twins and repetitions.
    static = dataclasses.replace(config, seed=0, weight_max=0.0)
    state = METHODS[config.method].init(key_init, static)
    weight_max = jnp.asarray(config.weight_max, jnp.float32)
    infos = []
    for first in range(0, config.steps, config.report_every):
        start = jnp.asarray(first, jnp.int32)
        state, info = _advance(state, key_batch, start, weight_max, domains, static)
        infos.append(info)
        if callback is not None:
            callback(first + config.report_every, infos[-1])
    return state.model, Info(*(jnp.concatenate(field) for field in zip(*infos, strict=True)))


def _scan(
    state: Any,
    key: Key[Array, ""],
    start: Int[Array, ""],
    weight_max: Float[Array, ""],
    domains: Domains,
    config: AdaptConfig,
) -> tuple[Any, Info]:
    def advance(state: Any, count: Int[Array, ""]) -> tuple[Any, Info]:
        batch = _draw(jax.random.fold_in(key, count), domains, config.batch)
        weight = ramp(count / config.steps, weight_max)
        return METHODS[config.method].step(state, batch, weight, config)

    return jax.lax.scan(advance, state, start + jnp.arange(config.report_every))


_advance = jax.jit(_scan, static_argnames="config")


def _draw(key: Key[Array, ""], domains: Domains, batch: int) -> Batch:
    key_source, key_target = jax.random.split(key)
    source = jax.random.randint(key_source, (batch,), 0, len(domains.source))
    target = jax.random.randint(key_target, (batch,), 0, len(domains.target))
    return Batch(domains.source[source], domains.label[source], domains.target[target])
