"""Refuse data and settings that cannot be trained on, before anything is compiled."""

import numpy as np
from jaxtyping import Num, Shaped

from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.errors import BadValue


def check(
    source_images: Shaped[np.ndarray, "..."],
    source_labels: Num[np.ndarray, "..."],
    target_images: Shaped[np.ndarray, "..."],
    config: AdaptConfig,
) -> None:
    """Raise BadValue for the first thing that does not fit; return nothing."""
    _check_config(config)
    for name, images in (("source_images", source_images), ("target_images", target_images)):
        if images.dtype != np.uint8:
            raise BadValue("adapt", f"dtype of {name}", str(images.dtype), "uint8, 0 to 255")
        if images.shape[1:] != tuple(config.image_shape):
            raise BadValue(
                "adapt",
                f"shape of {name}",
                images.shape,
                f"(count, {', '.join(map(str, config.image_shape))})",
            )
        # Two blocks are held out, and at least as many are needed to train on.
        if len(images) < 4 * config.block:
            raise BadValue("adapt", f"number of {name}", len(images), f">= {4 * config.block}")
    _check_labels(source_labels, len(source_images), config)


def _check_config(config: AdaptConfig) -> None:
    def require(field: str, is_good: bool, expected: str) -> None:
        if not is_good:
            raise BadValue("adapt", field, getattr(config, field), expected)

    require("method", config.method in ("dann", "coral"), "dann or coral")
    require("task", config.task in ("classify", "regress"), "classify or regress")
    for field in ("outputs", "features", "steps", "batch", "block", "report_every"):
        require(field, getattr(config, field) >= 1, ">= 1")
    require("batch", config.batch >= 2, ">= 2, a covariance needs two images")
    require("report_every", config.steps % config.report_every == 0, f"a divisor of {config.steps}")
    require("weight_max", 0 <= config.weight_max < np.inf, ">= 0 and finite")
    require("holdout", 0 < config.holdout <= 0.5, "in (0, 0.5]")


def _check_labels(labels: Num[np.ndarray, "..."], count: int, config: AdaptConfig) -> None:
    shape = (count,) if config.task == "classify" else (count, config.outputs)
    if labels.shape != shape:
        raise BadValue("adapt", "shape of source_labels", labels.shape, str(shape))
    if config.task == "classify":
        if labels.dtype.kind not in "iu":
            raise BadValue("adapt", "dtype of source_labels", str(labels.dtype), "an integer type")
        if labels.min() < 0 or labels.max() >= config.outputs:
            span = (int(labels.min()), int(labels.max()))
            raise BadValue(
                "adapt", "range of source_labels", span, f"within 0 to {config.outputs - 1}"
            )
    elif not np.isfinite(labels).all():
        row = int(np.argwhere(~np.isfinite(labels))[0, 0])
        raise BadValue("adapt", f"source_labels[{row}]", labels[row].tolist(), "finite numbers")
    elif (labels.std(axis=0) == 0).any():
        raise BadValue(
            "adapt", "spread of source_labels", labels.std(axis=0).tolist(), "> 0 in each column"
        )
