"""The errors of a fit as a random process.

Size of each signal's noise, and how many independent samples it is worth.
"""

import numpy as np
from jaxtyping import Float

from s2r_jax.identify.segments import Segments
from s2r_jax.signals import Signal


def groups(signals: tuple[Signal, ...]) -> list[np.ndarray]:
    """Return the entries of the sensor vector that share a noise level.

    One group a signal kind and attribute.
    """
    found: dict[tuple[str, str], list[int]] = {}
    start = 0
    for signal in signals:
        key = (signal.kind, signal.attribute or signal.name)
        found.setdefault(key, []).extend(range(start, start + signal.size))
        start += signal.size
    return [np.array(entries) for entries in found.values()]


def first_precision(
    signals: tuple[Signal, ...], segments: Segments
) -> Float[np.ndarray, " sensor"]:
    """Return 1 / spread of each group: a first scale that makes units comparable."""
    weight = np.asarray(segments.weight)
    measured = np.asarray(segments.measured)
    precision = np.zeros(measured.shape[-1])
    for entries in groups(signals):
        seen = weight[..., entries] > 0
        count = seen.sum((0, 1))
        mean = (measured[..., entries] * seen).sum((0, 1)) / np.maximum(count, 1)
        spread = np.sqrt(
            (((measured[..., entries] - mean) * seen) ** 2).sum() / max(count.sum(), 1)
        )
        # Errors of a useful model are a small part of the spread; a constant signal says nothing
        # about scale.
        precision[entries] = 10.0 / spread if spread > 0 else 1.0
    return precision


def update_precision(
    signals: tuple[Signal, ...],
    residual: Float[np.ndarray, "segment time sensor"],
    precision: Float[np.ndarray, " sensor"],
    segments: Segments,
) -> Float[np.ndarray, " sensor"]:
    """Return 1 / standard deviation of each group, from whitened residuals."""
    weight = np.asarray(segments.weight) > 0
    updated = precision.copy()
    for entries in groups(signals):
        values = residual[..., entries][weight[..., entries]]
        rms = np.sqrt(np.mean(values**2)) if values.size else 0.0
        if rms > 0:
            updated[entries] = precision[entries] / rms
    return updated


def correlation_time(
    signals: tuple[Signal, ...],
    residual: Float[np.ndarray, "segment time sensor"],
    segments: Segments,
) -> Float[np.ndarray, " sensor"]:
    """Return τ of each signal: that many samples in a row are worth one independent sample.

    τ = 1 + 2 Σ ρ(k) up to the first pair of lags whose sum is negative (Geyer 1992), at least 1,
    over all windows.
    """
    weight = np.asarray(segments.weight)
    tau = np.ones(residual.shape[-1])
    for entries in groups(signals):
        values = (residual * weight)[..., entries]
        covariance = _autocovariance(values)
        if covariance[0] <= 0:
            continue
        rho = covariance / covariance[0]
        pairs = rho[1:-1:2] + rho[2::2] if rho.size > 2 else np.zeros(0)
        stop = np.argmax(pairs <= 0) if (pairs <= 0).any() else pairs.size
        tau[entries] = max(1.0, 1.0 + 2.0 * float(pairs[:stop].sum()))
    return tau


def _autocovariance(values: np.ndarray) -> np.ndarray:
    """Return the autocovariance along axis 1, pooled over the others (FFT, no wrap-around)."""
    length = values.shape[1]
    spectrum = np.fft.rfft(values, 2 * length, axis=1)
    return np.fft.irfft((np.abs(spectrum) ** 2).sum((0, 2)), 2 * length)[:length]
