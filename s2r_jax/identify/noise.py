"""The errors of a fit as a random process.

Size of each signal's noise, and how many independent samples it is worth.
"""

import numpy as np
from jaxtyping import Float

from s2r_jax.identify.jacobian import Linearization
from s2r_jax.identify.reduce import Reduced
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
    absorbed: Float[np.ndarray, " sensor"],
) -> Float[np.ndarray, " sensor"]:
    """Return 1 / standard deviation of each group, from whitened residuals.

    Args:
        signals: The robot's signals.
        residual: Of all windows.
        precision: That they were whitened by.
        segments: The windows.
        absorbed: Samples' worth of noise that the unknowns have fitted away, see `absorbed`.
    """
    weight = np.asarray(segments.weight) > 0
    updated = precision.copy()
    for entries in groups(signals):
        values = residual[..., entries][weight[..., entries]]
        # With more unknowns than samples nothing is left to tell the noise from.
        left = max(values.size - float(absorbed[entries].sum()), 1.0)
        std = np.sqrt((values**2).sum() / left)
        if std > 0:
            updated[entries] = precision[entries] / std
    return updated


def autocorrelation(
    signals: tuple[Signal, ...],
    residual: Float[np.ndarray, "segment time sensor"],
    segments: Segments,
) -> Float[np.ndarray, "lag sensor"]:
    """Return ρ of each group over lags within a window; 0 from where it is no more than noise.

    That is the first pair of lags whose sum is negative (Geyer 1992). Each lag is a mean over the
    pairs of samples that were measured: long lags have few in short windows.
    """
    weight = np.asarray(segments.weight)
    rho = np.zeros(residual.shape[1:])
    rho[0] = 1.0
    for entries in groups(signals):
        pairs = _autocovariance(weight[..., entries])
        covariance = _autocovariance((residual * weight)[..., entries])
        covariance = np.where(pairs > 0.5, covariance, 0.0) / np.maximum(pairs, 1.0)
        if covariance[0] <= 0:
            continue
        found = covariance / covariance[0]
        sums = found[1:-1:2] + found[2::2] if found.size > 2 else np.zeros(0)
        stop = int(np.argmax(sums <= 0)) if (sums <= 0).any() else sums.size
        rho[1 : 1 + 2 * stop, entries] = found[1 : 1 + 2 * stop, None]
    return rho


def correlation_time(
    signals: tuple[Signal, ...],
    residual: Float[np.ndarray, "segment time sensor"],
    segments: Segments,
) -> Float[np.ndarray, " sensor"]:
    """Return τ of each signal: that many samples in a row are worth one independent sample.

    τ = 1 + 2 Σ ρ(k), at least 1.
    """
    rho = autocorrelation(signals, residual, segments)
    return np.maximum(1.0, 1.0 + 2.0 * rho[1:].sum(0))


def absorbed(
    signals: tuple[Signal, ...],
    linear: Linearization,
    reduced: Reduced,
    autocorrelation: Float[np.ndarray, "lag sensor"],
) -> Float[np.ndarray, " sensor"]:
    """Return how many samples' worth of each signal's noise the unknowns have fitted away.

    The trace of H R, where H projects onto the columns of θ and of the windows' starts, and R is
    the correlation of the noise: white noise loses one sample an unknown, noise that wanders
    slowly much more to a start that may follow it. (E |r|² = σ² (n - tr H R).)
    """
    count, time, sensors = linear.residual.shape
    gain = np.linalg.solve(reduced.block, reduced.coupling) if linear.start.shape[-1] else None
    own = linear.jacobian
    if gain is not None:
        own = own - np.einsum("stcd,sdp->stcp", linear.start, gain)
    columns = [own @ _inverse_root(reduced.matrix)]
    if gain is not None:
        columns.append(linear.start @ _inverse_root(reduced.block)[:, None])
    spread = np.concatenate(columns, axis=-1)
    lost = np.zeros(sensors)
    for entries in groups(signals):
        covariance = _autocovariance(spread[:, :, entries].reshape(count, time, -1))
        rho = autocorrelation[:, entries[0]]
        lost[entries] = (covariance[0] + 2 * rho[1:] @ covariance[1:]) / len(entries)
    return lost


def _inverse_root(
    matrix: Float[np.ndarray, "*batch n n"],
) -> Float[np.ndarray, "*batch n n"]:
    """Return S with S Sᵀ the inverse; directions without information count for nothing."""
    size = np.sqrt(np.maximum(np.diagonal(matrix, axis1=-2, axis2=-1), 1e-300))
    values, vectors = np.linalg.eigh(matrix / (size[..., :, None] * size[..., None, :]))
    is_seen = values > 1e-10 * np.max(values, axis=-1, keepdims=True)  # rounding, in float64
    scale = np.where(is_seen, 1 / np.sqrt(np.where(is_seen, values, 1.0)), 0.0)
    return vectors / size[..., :, None] * scale[..., None, :]


def _autocovariance(values: np.ndarray) -> np.ndarray:
    """Return the sum of products at each lag along axis 1, over the other axes.

    By FFT, without wrap-around.
    """
    length = values.shape[1]
    spectrum = np.fft.rfft(values, 2 * length, axis=1)
    return np.fft.irfft((np.abs(spectrum) ** 2).sum((0, 2)), 2 * length)[:length]
