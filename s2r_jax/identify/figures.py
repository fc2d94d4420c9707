"""Pictures of an identification; matplotlib is imported where something is drawn."""

from typing import Any

import numpy as np

from s2r_jax.identify.study import Study
from s2r_jax.robot import Robot
from s2r_jax.types import Posterior

#: More panels than this hide what they show.
MOST_PANELS = 6
MEASURED, NOMINAL, IDENTIFIED = "#222222", "#c98500", "#0065bd"


def traces(robot: Robot, study: Study) -> Any:
    """Draw measured, nominal and identified signals, worst windows first."""
    from matplotlib import pyplot

    fitted, nominal = study.fitted, study.fitted_nominal
    if study.holdout is not None and study.holdout_nominal is not None:
        fitted, nominal = study.holdout, study.holdout_nominal
    names = study.names_holdout if study.holdout is not None else study.names
    panels = _worst_windows(robot, fitted)
    figure, axes = pyplot.subplots(len(panels), 2, figsize=(11, 2.1 * len(panels)), squeeze=False)
    for row, (segment, entry, label) in zip(axes, panels, strict=True):
        seen = np.asarray(fitted.segments.weight)[segment, :, entry] > 0
        time = (np.arange(seen.size) + 1) * robot.period
        measured = np.where(seen, np.asarray(fitted.segments.measured)[segment, :, entry], np.nan)
        start = float(fitted.segments.start[segment]) * robot.period
        row[0].plot(time, measured, color=MEASURED, lw=1.6, label="measured")
        for source, colour, name in (
            (nominal, NOMINAL, "nominal"),
            (fitted, IDENTIFIED, "identified"),
        ):
            value = np.where(seen, source.simulated[segment, :, entry], np.nan)
            row[0].plot(time, value, color=colour, lw=1.0, label=name)
            row[1].plot(time, value - measured, color=colour, lw=0.9)
        row[1].axhline(0, color="#bbbbbb", lw=0.6)
        log = names[int(fitted.segments.log[segment])]
        row[0].set_title(f"{log}, from {start:.2f} s", fontsize=8)
        row[0].set_ylabel(label, fontsize=8)
        row[1].set_title("error", fontsize=8)
    axes[0, 0].legend(fontsize=7, loc="best")
    for axis in axes[-1]:
        axis.set_xlabel("time [s]")
    figure.tight_layout()
    return figure


def spectrum(robot: Robot, study: Study) -> Any:
    """Draw the spectra of the errors: a peak is structure that the model lacks."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 3))
    sources = ((study.fitted_nominal, NOMINAL, "nominal"), (study.fitted, IDENTIFIED, "identified"))
    weight, measured = (
        np.asarray(x) for x in (study.fitted.segments.weight, study.fitted.segments.measured)
    )
    scale = ((sources[0][0].simulated - measured) * weight).std((0, 1))
    for source, colour, name in sources:
        error = (source.simulated - measured) * weight / np.where(scale > 0, scale, 1.0)
        power = (np.abs(np.fft.rfft(error, axis=1)) ** 2).mean((0, 2)) / error.shape[1]
        frequency = np.fft.rfftfreq(error.shape[1], robot.period)
        axis.loglog(frequency[1:], power[1:], color=colour, lw=1, label=name)
    axis.set_xlabel("frequency [Hz]")
    axis.set_ylabel("power of the error\n(nominal rms = 1)")
    axis.legend(fontsize=8)
    figure.tight_layout()
    return figure


def correlations(posterior: Posterior) -> Any:
    """Draw how strongly the estimates hang together."""
    from matplotlib import pyplot

    std = np.sqrt(np.diag(posterior.covariance))
    safe = np.where(std > 0, std, 1.0)
    matrix = np.where(np.outer(std, std) > 0, posterior.covariance / np.outer(safe, safe), np.nan)
    size = min(10.0, 2.5 + 0.35 * len(posterior.names))
    figure, axis = pyplot.subplots(figsize=(size + 1.5, size))
    image = axis.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    axis.set_xticks(range(len(std)), posterior.names, rotation=90, fontsize=7)
    axis.set_yticks(range(len(std)), posterior.names, fontsize=7)
    figure.colorbar(image, ax=axis, label="correlation", shrink=0.8)
    figure.tight_layout()
    return figure


def _worst_windows(robot: Robot, replay: Any) -> list[tuple[int, int, str]]:
    """Return (window, sensor entry, label) of the panels.

    The worst window of each log, its worst signals first.
    """
    weight = np.asarray(replay.segments.weight)
    error = np.abs(replay.simulated - np.asarray(replay.segments.measured)) * weight
    labels = [
        name if len(entries) == 1 else f"{name}:{k}"
        for name, entries in robot.signal_slices.items()
        for k in range(len(entries))
    ]
    spread = np.asarray(replay.segments.measured).std((0, 1))
    size = error.mean(1) / np.where(spread > 0, spread, 1.0)
    panels: list[tuple[int, int, str]] = []
    for flat in np.argsort(-size, axis=None):
        segment, entry = np.unravel_index(flat, size.shape)
        log = replay.segments.log[segment]
        taken = [(replay.segments.log[s], e) for s, e, _ in panels]
        if (log, entry) not in taken and weight[segment, :, entry].any():
            panels.append((int(segment), int(entry), labels[entry]))
        if len(panels) == MOST_PANELS:
            break
    return panels
