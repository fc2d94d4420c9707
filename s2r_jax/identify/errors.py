"""Count errors of a replay, one way everywhere.

A scalar signal: rmse and mae over all samples of all logs; signals of one kind pooled. A free body:
`position` is the
Euclidean distance [m], `rotation` the angle of the relative rotation [rad], averaged in each
trajectory, then over
trajectories. Signals of different units are never averaged together.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from s2r_jax.identify.segments import Segments, select
from s2r_jax.signals import Signal


class Score(NamedTuple):
    """Errors of one signal, or of all signals of one kind."""

    rmse: float
    mae: float
    samples: int


class Scores(NamedTuple):
    """Errors of a replay."""

    signals: dict[str, Score]
    kinds: dict[str, Score]
    """By kind, e.g. `joint position [rad]`; the first is that of the robot's first signal."""


UNITS = {
    ("joint", "position"): "joint position [rad, m]",
    ("joint", "velocity"): "joint velocity [rad/s, m/s]",
    ("body", "position"): "body position [m]",
    ("body", "orientation"): "body rotation [rad]",
    ("body", "velocity"): "body velocity [m/s]",
    ("body", "angular_velocity"): "body angular velocity [rad/s]",
    ("motor", "duty"): "duty cycle [1]",
    ("motor", "torque"): "torque [N m]",
    ("battery", "voltage"): "voltage [V]",
}


def score(
    signals: tuple[Signal, ...],
    difference: Float[np.ndarray, "segment time sensor"],
    segments: Segments,
) -> Scores:
    """Return the errors of simulated minus measured signals.

    Args:
        signals: The robot's signals.
        difference: Of all windows, an orientation as a rotation vector in its first three entries.
        segments: The windows, for weights and for which trajectory each belongs to.
    """
    weight, logs = np.asarray(segments.weight) > 0, np.asarray(segments.log)
    by_signal: dict[str, Score] = {}
    pooled: dict[str, list[np.ndarray]] = {}
    start = 0
    for signal in signals:
        at = slice(start, start + signal.size)
        start += signal.size
        seen = weight[..., at].any(-1)
        if not seen.any():
            continue
        kind = UNITS.get((signal.kind, signal.attribute), signal.name)
        if signal.kind == "body":
            size = np.linalg.norm(difference[..., at], axis=-1)
            parts = [
                size[of_log & seen] for of_log in (logs[:, None] == log for log in np.unique(logs))
            ]
            by_signal[signal.name] = _over_trajectories([part for part in parts if part.size])
            pooled.setdefault(kind, []).extend(part for part in parts if part.size)
        else:
            values = difference[..., at][weight[..., at]]
            by_signal[signal.name] = _over_samples(values)
            pooled.setdefault(kind, []).append(values)
    kinds = {
        kind: _over_trajectories(parts)
        if kind.startswith("body")
        else _over_samples(np.concatenate(parts))
        for kind, parts in pooled.items()
    }
    return Scores(by_signal, kinds)


def of_log(
    signals: tuple[Signal, ...],
    difference: Float[np.ndarray, "segment time sensor"],
    segments: Segments,
    index: int,
) -> Scores:
    """Return the errors of one trajectory's windows; arguments as for `score`."""
    mine = np.asarray(segments.log) == index
    return score(signals, difference[mine], select(segments, mine))


def unexplained(signals: tuple[Signal, ...], scores: Scores, segments: Segments) -> list[str]:
    """Return a sentence on each scalar signal that its own mean would predict better."""
    found, start = [], 0
    for signal in signals:
        at = slice(start, start + signal.size)
        start += signal.size
        values = np.asarray(segments.measured)[..., at][np.asarray(segments.weight)[..., at] > 0]
        if signal.kind == "body" or signal.size > 1 or not values.size:
            continue
        error, spread = scores.signals[signal.name].rmse, float(np.std(values))
        if not error <= max(spread, signal.noise, signal.quantum):
            found.append(
                f"{signal.name} is simulated with an error of {error:.3g}, but varies by "
                f"{spread:.3g} only: the model explains nothing of it"
            )
    return found


def _over_samples(values: np.ndarray) -> Score:
    return Score(float(np.sqrt(np.mean(values**2))), float(np.mean(np.abs(values))), values.size)


def _over_trajectories(parts: list[np.ndarray]) -> Score:
    rmse = float(np.mean([np.sqrt(np.mean(part**2)) for part in parts]))
    return Score(
        rmse, float(np.mean([np.mean(part) for part in parts])), sum(p.size for p in parts)
    )
