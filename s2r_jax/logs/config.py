"""Settings of what is made of a log."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LogsConfig:
    """How a log becomes a trajectory on the control grid."""

    max_gap: float = 5.0
    """Longest stretch without a sample that is bridged, in control periods or median steps of the
    log, whichever is longer; anything longer is masked."""
    smoothing: float = 0.035
    """Window of the zero-phase filter behind the state estimate [s]. Legs and arms move below
    10 Hz, whose cubic such a window follows, while encoder ticks and jitter above 30 Hz average
    out."""
