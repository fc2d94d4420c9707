"""The training loop: a fixed budget, the last state, no target labels anywhere."""

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, Num, UInt8

from s2r_jax.adapt import coral, dann
from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.adapt.objective import Batch, Info, Model
from s2r_jax.adapt.reversal import ramp
from s2r_jax.errors import BadValue

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
    static = static_part(config)
    state = METHODS[config.method].init(key_init, static)
    weight_max = jnp.asarray(config.weight_max, jnp.float32)
    infos: list[Info] = []
    reported: list[Info] = []
    for count in range(config.steps):
        state, info = _advance(state, key_batch, jnp.int32(count), weight_max, domains, static)
        infos.append(info)
        if len(infos) == config.report_every:
            reported.append(_stack(infos))
            _refuse_divergence(reported[-1], count + 1 - config.report_every)
            infos.clear()
            if callback is not None:
                callback(count + 1, reported[-1])
    return state.model, Info(*(jnp.concatenate(field) for field in zip(*reported, strict=True)))


def static_part(config: AdaptConfig) -> AdaptConfig:
    """Return the config without what is traced, so that seeds and twins share compilations."""
    return dataclasses.replace(config, seed=0, weight_max=0.0)


def _draw_and_step(
    state: Any,
    key: Key[Array, ""],
    count: Int[Array, ""],
    weight_max: Float[Array, ""],
    domains: Domains,
    config: AdaptConfig,
) -> tuple[Any, Info]:
    batch = _draw(jax.random.fold_in(key, count), domains, config.batch)
    weight = ramp(count / config.steps, weight_max)
    return METHODS[config.method].step(state, batch, weight, config)


# One jitted step, not a scan over them: inside a loop XLA's CPU backend leaves its fast convolution
# (0.66 s against 0.046 s a step of a 28x28 network on two cores, jaxlib 0.10.2).
_advance = jax.jit(_draw_and_step, static_argnames="config", donate_argnames="state")


def _stack(infos: list[Info]) -> Info:
    return Info(*(jnp.stack(field) for field in zip(*infos, strict=True)))


def _refuse_divergence(info: Info, first: int) -> None:
    bad = ~np.isfinite(np.asarray(info.task_loss + info.alignment_loss + info.slope_norm))
    if bad.any():
        step = first + int(bad.argmax())
        loss = float(info.task_loss[bad.argmax()])
        hope = "finite losses and slopes; lower learning_rate or weight_max"
        raise BadValue(f"adapt: step {step}", "task_loss", loss, hope)


def _draw(key: Key[Array, ""], domains: Domains, batch: int) -> Batch:
    key_source, key_target = jax.random.split(key)
    source = jax.random.randint(key_source, (batch,), 0, len(domains.source))
    target = jax.random.randint(key_target, (batch,), 0, len(domains.target))
    return Batch(domains.source[source], domains.label[source], domains.target[target])
