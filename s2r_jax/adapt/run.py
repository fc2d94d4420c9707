"""One adaptation run: check, hold out, train the adapted model and its source-only twin, judge."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Num, UInt8

from s2r_jax.adapt import evidence
from s2r_jax.adapt.check import check
from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.adapt.evidence import Evidence
from s2r_jax.adapt.fit import Callback, Domains, fit, static_part
from s2r_jax.adapt.objective import Info, Model

# The probe's key: its own, so that judging never depends on how training drew its numbers.
_PROBE_SEED = 20070


class Policy(NamedTuple):
    """A trained model with what turns its outputs into labels."""

    model: Model
    offset: Float[np.ndarray, "*output"]
    """Mean of the source's regression labels; 0 for classes."""
    scale: Float[np.ndarray, "*output"]
    """Their standard deviation; 1 for classes."""


class Trained(NamedTuple):
    """One training run and what may be said of it."""

    policy: Policy
    evidence: Evidence
    """On held-out images, without target labels."""
    info: Info
    """All steps."""


class Result(NamedTuple):
    """An adapted policy, and what it would have been without adaptation."""

    adapted: Trained
    source_only: Trained
    """Twin: same seed, batches and budget, alignment weight 0."""


def adapt(
    source_images: UInt8[np.ndarray, "count_source height width channel"],
    source_labels: Num[np.ndarray, "count_source ..."],
    target_images: UInt8[np.ndarray, "count_target height width channel"],
    config: AdaptConfig,
    callback: Callback | None = None,
) -> Result:
    """Train an encoder and policy head on labelled source and unlabelled target images.

    Args:
        source_images: From simulation, in time order if they are a video.
        source_labels: Action or class numbers (count,), or real values (count, outputs).
        target_images: From the real camera, in time order if they are a video.
        config: Settings.
        callback: Called with the steps done and their infos, first for the adapted run (1 to
            `steps`), then for its twin (`steps` + 1 to 2 `steps`).
    """

    def twin_callback(step: int, info: Info) -> None:
        if callback is not None:
            callback(config.steps + step, info)

    data = source_images, source_labels, target_images
    return Result(
        train(*data, config, callback),
        train(*data, dataclasses.replace(config, weight_max=0.0), twin_callback),
    )


def train(
    source_images: UInt8[np.ndarray, "count_source height width channel"],
    source_labels: Num[np.ndarray, "count_source ..."],
    target_images: UInt8[np.ndarray, "count_target height width channel"],
    config: AdaptConfig,
    callback: Callback | None = None,
) -> Trained:
    """Train one policy and collect its evidence; arguments as those of `adapt`."""
    check(source_images, source_labels, target_images, config)
    source_train, source_held = hold_out(len(source_images), config)
    target_train, target_held = hold_out(len(target_images), config)
    offset, scale = _standardise(source_labels[source_train], config)
    labels = _as_trained(source_labels, offset, scale, config)
    domains = Domains(
        jnp.asarray(source_images[source_train]),
        jnp.asarray(labels[source_train]),
        jnp.asarray(target_images[target_train]),
    )
    model, info = fit(domains, config, callback)
    held = source_images[source_held], labels[source_held], target_images[target_held]
    found = evidence.collect(jax.random.key(_PROBE_SEED), model, *held, static_part(config))
    return Trained(Policy(model, offset, scale), found, info)


def predict(
    policy: Policy,
    images: UInt8[np.ndarray, "count height width channel"],
    config: AdaptConfig,
) -> Float[np.ndarray, "count output"]:
    """Return logits, or regressed values in the unit of the labels, of any number of images."""
    output = evidence.outputs_of(policy.model, images, static_part(config))
    return output * policy.scale + policy.offset


def hold_out(
    count: int, config: AdaptConfig
) -> tuple[Num[np.ndarray, " train"], Num[np.ndarray, " held"]]:
    """Return indices to train on and indices held out, whole blocks of neighbours each.

    Blocks come in random order, so any cut of the held-out indices is a cut between blocks or
    within one, never a cut in time order.
    """
    blocks = -(-count // config.block)
    order = np.random.default_rng(config.seed).permutation(blocks)
    held = max(2, round(config.holdout * blocks))
    members = [np.arange(b * config.block, min((b + 1) * config.block, count)) for b in order]
    return np.sort(np.concatenate(members[held:])), np.concatenate(members[:held])


def _standardise(
    labels: Num[np.ndarray, "count ..."], config: AdaptConfig
) -> tuple[Float[np.ndarray, "*output"], Float[np.ndarray, "*output"]]:
    if config.task == "classify":
        return np.zeros((), np.float32), np.ones((), np.float32)
    return labels.mean(axis=0).astype(np.float32), labels.std(axis=0).astype(np.float32)


def _as_trained(
    labels: Num[np.ndarray, "count ..."],
    offset: Float[np.ndarray, "*output"],
    scale: Float[np.ndarray, "*output"],
    config: AdaptConfig,
) -> Num[np.ndarray, "count ..."]:
    if config.task == "classify":
        return labels.astype(np.int32)
    return ((labels - offset) / scale).astype(np.float32)
