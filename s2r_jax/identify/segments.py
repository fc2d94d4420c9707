"""Cut trajectories into windows of one length, the shape that a fit simulates all at once.

Short windows, each from the measured state, keep the problem well conditioned (multiple shooting);
one window of the whole
log is the other end. Shorter remainders are padded and weigh nothing there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from s2r_jax.types import Array, Command, Trajectory


class Segments(NamedTuple):
    """Windows of trajectories; every leaf has a leading `segment` axis, arrays are numpy or JAX."""

    command: Command
    """`[segment, time, nu]`, `voltage` `[segment, time]`; target, torque and enable run ahead."""
    past: Float[Array, "segment held 3 nu"]
    """Target, torque and enable given before the window, newest first.

    What the latency line holds at its start.
    """
    measured: Float[Array, "segment time sensor"]
    """Row k is the measurement after k + 1 control periods; 0 where missing."""
    weight: Float[Array, "segment time sensor"]
    """1 where there is a measurement, else 0."""
    qpos: Float[Array, "segment nq"]
    """State at the start of the window."""
    qvel: Float[Array, "segment nv"]
    log: np.ndarray
    """Index of the trajectory `[segment]`."""
    start: np.ndarray
    """First row of the window in its trajectory `[segment]`."""


def cut(trajectories: Sequence[Trajectory], length: int, held: int, ahead: int = 0) -> Segments:
    """Return windows of `length` control periods covering every trajectory once.

    Args:
        trajectories: Logs on the control grid.
        length: Control periods in a window; 0 for the longest whole log.
        held: Length of the simulator's command line.
        ahead: Control periods that commands run ahead, see `Simulator.ahead`.
    """
    longest = max(len(t.measured) - 1 for t in trajectories)
    length = longest if length <= 0 else min(length, longest)
    pieces = []
    for index, trajectory in enumerate(trajectories):
        steps = len(trajectory.measured) - 1
        for start in _starts(trajectory, length):
            pieces.append(
                _piece(trajectory, index, start, min(length, steps - start), length, held, ahead)
            )
    return jax.tree.map(lambda *leaves: np.stack(leaves), *pieces)


def select(segments: Segments, keep: np.ndarray) -> Segments:
    """Return the windows of a mask or of indices."""
    return jax.tree.map(lambda leaf: leaf[keep], segments)


def beginning(segments: Segments, periods: int) -> Segments:
    """Return the first control periods of each window."""
    command, measured, weight = jax.tree.map(
        lambda leaf: leaf[:, :periods], (segments.command, segments.measured, segments.weight)
    )
    return segments._replace(command=command, measured=measured, weight=weight)


def _starts(t: Trajectory, length: int) -> list[int]:
    """Return the first rows of the windows; a window that would start in a gap starts behind it."""
    is_known = np.isfinite(t.qpos).all(1) & np.isfinite(t.qvel).all(1)
    starts, row, last = [], 0, len(t.measured) - 1
    while row < last:
        if is_known[row]:
            starts.append(row)
            row += length
        else:
            row += 1  # nothing was measured here that a window could be compared with
    return starts


def _piece(
    t: Trajectory, index: int, start: int, steps: int, length: int, held: int, ahead: int
) -> Segments:
    # Beyond the end the last command is repeated; the weights there are zero.
    rows = np.minimum(np.arange(start, start + length), start + steps - 1)
    command = Command(*[np.asarray(leaf)[rows] for leaf in t.command])
    last = len(t.measured) - 1
    later = np.minimum(np.arange(start, start + length) + ahead, last)
    told = {key: np.asarray(getattr(t.command, key)) for key in ("target", "torque", "enabled")}
    command = command._replace(**{key: leaf[later] for key, leaf in told.items()})
    before = np.clip(start - 1 + ahead - np.arange(held), 0, last)
    past = np.stack(
        [leaf[before] for leaf in told.values()],
        axis=1,
    )
    measured = np.asarray(t.measured)[np.minimum(rows + 1, start + steps)]
    weight = np.isfinite(measured) & (np.arange(length) < steps)[:, None]
    return Segments(
        command,
        past,
        np.where(weight, measured, 0.0),
        weight.astype(float),
        np.asarray(t.qpos)[start],
        np.asarray(t.qvel)[start],
        np.array(index),
        np.array(start),
    )
