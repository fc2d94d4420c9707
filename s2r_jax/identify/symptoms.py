"""Symptoms of what a good fit can hide: joints that never moved, structure that the model lacks."""

import numpy as np

from s2r_jax.identify import errors
from s2r_jax.identify.study import Replay
from s2r_jax.robot import Robot

#: A signal whose spread is at most this many times its error has hardly moved.
STILL = 2.0
#: Share of the error's power in one line of the spectrum that noise does not have, ...
LINE = 0.5
#: ... nor the motion itself, as a wrong gain would.
MOTION = 0.25
#: Fewest samples in a window whose spectrum tells lines apart.
SHORTEST = 64
#: Bins to either side that the line of a Hann window fills.
WIDTH = 2


def symptoms(robot: Robot, replay: Replay) -> list[str]:
    """Return sentences on scalar signals that a fit of few errors says too little about.

    Args:
        robot: Its signals.
        replay: The fitted logs at the values found.
    """
    weight, measured = (np.asarray(x) for x in (replay.segments.weight, replay.segments.measured))
    found: list[str] = errors.unexplained(robot.signals, replay.scores, replay.segments)
    start = 0
    for signal in robot.signals:
        at = start
        start += signal.size
        seen = weight[..., at] > 0
        if signal.size > 1 or signal.kind == "body" or not seen.any():
            continue
        spread = float(np.std(measured[..., at][seen]))
        error = float(np.sqrt(np.mean(replay.error[..., at][seen] ** 2)))
        floor = max(error, signal.noise, signal.quantum)
        if signal.kind == "joint" and 0 < spread <= STILL * floor:
            found.append(
                f"{signal.name} hardly moves: it varies by {spread:.2g}, its error is {floor:.2g}; "
                "a joint that does not break away shows neither friction, damping nor inertia"
            )
            continue
        whole = seen.all(1)
        if seen.shape[1] < SHORTEST or not whole.any():
            continue
        frequency, share = _line(replay.error[whole, :, at], robot.period)
        own = _share_at(measured[whole, :, at], frequency, robot.period)
        if share > LINE and own < MOTION and error > max(signal.noise, signal.quantum):
            found.append(
                f"{share:.0%} of the error of {signal.name} lies at {frequency:.2g} Hz, where the "
                f"motion has {own:.0%}: the model lacks something that oscillates there"
            )
    return found


def _power(values: np.ndarray) -> np.ndarray:
    """Return the mean spectrum of windows, without their means."""
    window = np.hanning(values.shape[1])
    centred = values - values.mean(1, keepdims=True)
    return (np.abs(np.fft.rfft(centred * window, axis=1)) ** 2).mean(0)


def _line(values: np.ndarray, period: float) -> tuple[float, float]:
    """Return the frequency [Hz] of the strongest line, and its share of the power."""
    power = _power(values)
    # What is slower than a few windows is drift, not a line.
    top = 2 * WIDTH + int(np.argmax(power[2 * WIDTH :]))
    frequency = top / (values.shape[1] * period)
    return frequency, _share_at(values, frequency, period)


def _share_at(values: np.ndarray, frequency: float, period: float) -> float:
    power = _power(values)
    at = round(frequency * values.shape[1] * period)
    return float(power[max(at - WIDTH, 0) : at + WIDTH + 1].sum() / max(power.sum(), 1e-300))
