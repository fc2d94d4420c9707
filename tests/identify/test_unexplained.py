"""A fit that predicts a signal worse than its mean does is said to explain nothing."""

import numpy as np

from s2r_jax.identify import errors
from s2r_jax.identify.segments import Segments
from s2r_jax.signals import Signal
from s2r_jax.types import Command


def signal(name, noise=0.0):
    return Signal(name, "joint", name, "position", (0,), 1, noise=noise)


def told(simulated, measured, noise=0.0, weight=None):
    """Return the sentences on one signal, of one window."""
    measured = np.asarray(measured, dtype=float)[None, :, None]
    weight = np.ones_like(measured) if weight is None else np.asarray(weight)[None, :, None]
    no = np.empty(0)
    command = Command(no, no, no, no, no, no)
    segments = Segments(command, no, measured, weight, no, no, np.zeros(1), np.zeros(1))
    difference = np.asarray(simulated, dtype=float)[None, :, None] - measured
    signals = (signal("a", noise),)
    return errors.unexplained(signals, errors.score(signals, difference, segments), segments)


def test_good_bad_and_diverged():
    wave = np.sin(np.arange(200) * np.pi / 10)  # ten periods: its spread is sqrt(1/2)
    assert told(0.9 * wave, wave) == []
    assert told(0.01 * wave, wave) == []  # hardly better than the mean
    (word,) = told(-wave, wave)
    assert "a is simulated with an error of 1.41, but varies by 0.707 only" in word
    assert len(told(np.full(200, np.nan), wave)) == 1


def test_a_signal_at_rest_within_its_noise_is_explained():
    rest = np.zeros(50)
    assert told(rest + 0.009, rest, noise=0.01) == []
    assert len(told(rest + 0.011, rest, noise=0.01)) == 1


def test_what_was_not_measured_does_not_count():
    assert told([0.0, 1.0, 9.0], [0.0, 1.0, 0.0], weight=[1.0, 1.0, 0.0]) == []
