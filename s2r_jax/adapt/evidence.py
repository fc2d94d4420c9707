"""What an adaptation run may claim, and the signs that it broke the policy.

Without target labels: how far apart the domains still are, whether the source task survived, and
whether predictions on the target have collapsed or shifted. With labels of a locked set: accuracy
that a constant cannot win, correlation and bias beside the constant's error.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key, Num, UInt8

from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.adapt.objective import Model, decide, encode
from s2r_jax.adapt.probe import a_distance

# Images encoded at once: bounds the memory, and gives every data set the same compiled shape.
_CHUNK = 256
# A prediction this much poorer than the source's labels is called collapsed. Healthy runs stay
# above 0.7 of it even under a strong shift; a constant has 1 / classes, or 0 when regressing.
POOR = 0.5


class Evidence(NamedTuple):
    """What can be said of a model without a single target label, on held-out images."""

    a_distance: float
    """Of the features, 0 (mixed) to 2 (separable), from a fresh probe."""
    source_score: float
    """Balanced accuracy, or correlation, on the source: the price of aligning."""
    richness: float
    """Variety of predictions on the target relative to the source's labels, see `richness`."""
    label_shift: float
    """Total variation between predicted actions on the target and labels of the source, 0 to 1.
    Large after aligning: the domains act differently, and forcing them to look alike does harm.
    When regressing, the shift of the mean in standard deviations of the source's labels."""
    collapsed: bool
    """Whether the predictions on the target are so poor in variety that no score can be trusted."""


class ClassScore(NamedTuple):
    """Classification against labels."""

    accuracy: float
    balanced_accuracy: float
    """Mean of the recalls of the classes that occur; a constant gets one over their number."""
    constant_accuracy: float
    """Accuracy of always naming the most frequent class."""


class RegressionScore(NamedTuple):
    """Regression against labels, one number per component."""

    correlation: Float[np.ndarray, " output"]
    """Pearson's; 0 where the prediction is constant."""
    bias: Float[np.ndarray, " output"]
    """Mean of prediction - label, in the label's unit."""
    mae: Float[np.ndarray, " output"]
    """Mean absolute error, in the label's unit. Never read it without the next line."""
    constant_mae: Float[np.ndarray, " output"]
    """The same of the best constant, the median of the labels."""


def features_of(
    model: Model, images: UInt8[np.ndarray, "count height width channel"], config: AdaptConfig
) -> Float[np.ndarray, "count feature"]:
    """Return the features of any number of images."""
    return _chunked(model, images, config)[0]


def outputs_of(
    model: Model, images: UInt8[np.ndarray, "count height width channel"], config: AdaptConfig
) -> Float[np.ndarray, "count output"]:
    """Return the logits, or regressed values, of any number of images."""
    return _chunked(model, images, config)[1]


def collect(
    key: Key[Array, ""],
    model: Model,
    source: UInt8[np.ndarray, "count_source height width channel"],
    label: Num[np.ndarray, "count_source ..."],
    target: UInt8[np.ndarray, "count_target height width channel"],
    config: AdaptConfig,
) -> Evidence:
    """Return the evidence on held-out images; the probe learns on their first half.

    Args:
        key: Of the probe.
        model: What to judge.
        source: Held-out source images; blocks in random order, so that halves share no block.
        label: Their labels, in the model's unit.
        target: Held-out target images, ordered in the same way.
        config: Static choices.
    """
    source_features, source_output = _chunked(model, source, config)
    target_features, target_output = _chunked(model, target, config)
    half_s, half_t = len(source) // 2, len(target) // 2
    apart = jax.jit(a_distance)(
        key,
        source_features[:half_s],
        target_features[:half_t],
        source_features[half_s:],
        target_features[half_t:],
    )
    if config.task == "classify":
        kept = score_classes(source_output, label).balanced_accuracy
        histogram = class_histogram(target_output.argmax(axis=-1), config.outputs)
        shift = float(np.abs(histogram - class_histogram(label, config.outputs)).sum() / 2)
    else:
        kept = float(score_regression(source_output, label).correlation.mean())
        spread = label.std(axis=0) + 1e-12
        shift = float(np.abs((target_output.mean(axis=0) - label.mean(axis=0)) / spread).max())
    rich = richness(target_output, label, config)
    return Evidence(float(apart), kept, rich, shift, rich < POOR)


def richness(
    output: Float[np.ndarray, "count output"], label: Num[np.ndarray, "*label"], config: AdaptConfig
) -> float:
    """Return the variety of predictions relative to that of the source's labels.

    Classes: ratio of the effective numbers exp(entropy) of named classes, so a constant has
    1 / effective classes. Regression: the smallest ratio of standard deviations.
    """
    if config.task == "classify":
        named = class_histogram(output.argmax(axis=-1), config.outputs)
        return _effective(named) / _effective(class_histogram(label, config.outputs))
    return float((output.std(axis=0) / (label.std(axis=0) + 1e-12)).min())


def score_classes(
    output: Float[np.ndarray, "count output"], label: Int[np.ndarray, " count"]
) -> ClassScore:
    """Return accuracy, balanced accuracy and the constant's accuracy."""
    hit = output.argmax(axis=-1) == label
    classes, counts = np.unique(label, return_counts=True)
    recall = [hit[label == c].mean() for c in classes]
    return ClassScore(float(hit.mean()), float(np.mean(recall)), float(counts.max() / len(label)))


def score_regression(
    output: Float[np.ndarray, "count output"], label: Float[np.ndarray, "count output"]
) -> RegressionScore:
    """Return correlation, bias and absolute errors per component."""
    error = output - label
    a, b = output - output.mean(axis=0), label - label.mean(axis=0)
    norm = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
    correlation = np.where(norm > 1e-12, (a * b).sum(axis=0) / np.maximum(norm, 1e-12), 0.0)
    constant = np.abs(label - np.median(label, axis=0)).mean(axis=0)
    return RegressionScore(correlation, error.mean(axis=0), np.abs(error).mean(axis=0), constant)


def class_histogram(
    label: Int[np.ndarray, " count"], classes: int
) -> Float[np.ndarray, " classes"]:
    """Return the fraction of each class."""
    return np.bincount(label, minlength=classes) / len(label)


def _effective(histogram: Float[np.ndarray, " classes"]) -> float:
    positive = histogram[histogram > 0]
    return float(np.exp(-(positive * np.log(positive)).sum()))


def _chunked(
    model: Model, images: UInt8[np.ndarray, "count height width channel"], config: AdaptConfig
) -> tuple[Float[np.ndarray, "count feature"], Float[np.ndarray, "count output"]]:
    pad = -len(images) % _CHUNK
    padded = np.concatenate([images, np.zeros((pad, *images.shape[1:]), np.uint8)])
    parts = [_apply(model, c, config) for c in padded.reshape(-1, _CHUNK, *images.shape[1:])]
    features, outputs = (np.concatenate([np.asarray(p[i]) for p in parts]) for i in (0, 1))
    return features[: len(images)], outputs[: len(images)]


def _forward(
    model: Model, images: UInt8[Array, "chunk height width channel"], config: AdaptConfig
) -> tuple[Float[Array, "chunk feature"], Float[Array, "chunk output"]]:
    features = encode(model, images, config)
    return features, decide(model, features, config)


_apply = jax.jit(_forward, static_argnames="config")
