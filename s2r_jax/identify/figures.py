"""Pictures of an identification; matplotlib is imported where something is drawn."""

from collections.abc import Callable
from typing import Any

import numpy as np

from s2r_jax.identify import profile
from s2r_jax.identify.compare import Comparison
from s2r_jax.identify.fit import Fit
from s2r_jax.identify.study import Study
from s2r_jax.parameters import ParameterSet
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


def intervals(parameters: ParameterSet, fit: Fit) -> Any:
    """Draw what was known of each parameter, and what the logs have made of it.

    One row each: the bounds as a bar, the prior in it, start, estimate and 95 % interval. The place
    along the bar is linear, or logarithmic for `log`.
    """
    from matplotlib import pyplot

    posterior, count = fit.posterior, len(parameters)
    figure, axis = pyplot.subplots(figsize=(9, 1.0 + 0.26 * count))
    axis.barh(range(count), np.ones(count), height=0.62, color="#e8e8e8", label="bounds")
    half = 1.96 * np.asarray(posterior.std)
    for i in range(count):
        place = _place(parameters, i)
        start, prior = parameters.start[i], 1.96 * parameters.prior_std[i]
        if np.isfinite(prior):
            left, right = place(start - prior), place(start + prior)
            axis.barh(i, right - left, left=left, height=0.62, color="#f3d9a4")
        axis.plot([place(start)] * 2, [i - 0.31, i + 0.31], color=NOMINAL, lw=1.6)
        value = float(posterior.value[i])
        is_known = bool(posterior.identifiable[i])
        colour = IDENTIFIED if is_known else "#999999"
        if np.isfinite(half[i]):
            axis.plot([place(value - half[i]), place(value + half[i])], [i, i], color=colour, lw=2)
        face = colour if is_known else "white"
        axis.plot(place(value), i, "o", ms=5, color=colour, markerfacecolor=face)
        text = f"{value:.4g}" + (f" ± {half[i]:.2g}" if np.isfinite(half[i]) else "")
        unit = "" if parameters.units[i] == "1" else parameters.units[i]
        axis.text(1.02, i, f"{text} {unit}", va="center", fontsize=7)
        for edge, bound in enumerate((parameters.low[i], parameters.high[i])):
            axis.text(edge, i + 0.42, f"{bound:.3g}", ha="right" if edge else "left", va="center",
                      fontsize=5, color="#888888")  # fmt: skip
    axis.set_yticks(range(count), parameters.names, fontsize=7)
    axis.set_ylim(count - 0.4, -0.6)
    axis.set_xlim(-0.01, 1.01)
    axis.set_xticks([])
    for spine in axis.spines.values():
        spine.set_visible(False)
    figure.legend(handles=_legend(), fontsize=7, ncol=5, loc="lower center", frameon=False)
    figure.tight_layout(rect=(0, min(0.3, 0.35 / figure.get_figheight()), 1, 1))
    return figure


def profiles(parameters: ParameterSet, fit: Fit) -> Any:
    """Draw how the cost rises beside the estimate, the other parameters fitted at each value.

    The interval ends where it meets the line. Many decades have a logarithmic axis.
    """
    from matplotlib import pyplot

    found = fit.profiles
    figure, axes = pyplot.subplots(1, len(found), figsize=(3.6 * len(found), 2.6), squeeze=False)
    for axis, curve in zip(axes[0], found, strict=True):
        i = parameters.names.index(curve.name)
        is_log, value = parameters.transforms[i] == "log", float(fit.posterior.value[i])
        # A spread of values between the ends: what is far beyond the level is of no interest.
        seen = (curve.rise <= 2 * profile.LEVEL) | (curve.grid == value)
        left, right = min(curve.low, *curve.grid[seen]), max(curve.high, *curve.grid[seen])
        axis.axvspan(curve.low, curve.high, color="#e8e8e8", lw=0)
        axis.axhline(profile.LEVEL, color=NOMINAL, lw=1, label="95 %")
        std = float(fit.posterior.std[i])
        if np.isfinite(std) and std > 0:
            values = np.geomspace(left, right, 100) if is_log else np.linspace(left, right, 100)
            off = np.log(values / value) * value if is_log else values - value
            parabola = 0.5 * (off / std) ** 2
            axis.plot(values, parabola, "--", color="#999999", lw=1, label="by standard error")
        axis.plot(curve.grid, curve.rise, "o-", color=IDENTIFIED, lw=1.2, ms=4, label="profile")
        axis.set_xlim(left, right)
        axis.set_ylim(min(-0.1, *curve.rise), 2 * profile.LEVEL)
        if is_log and right > 10 * left:
            axis.set_xscale("log")
        ends = [name for name, is_open in (("low", curve.is_open_low), ("high", curve.is_open_high))
                if is_open]  # fmt: skip
        said = f", open {' and '.join(ends)}" if ends else ""
        axis.set_title(f"{curve.low:.4g} to {curve.high:.4g}{said}", fontsize=8)
        unit = parameters.units[i]
        axis.set_xlabel(curve.name + (f" [{unit}]" if unit else ""), fontsize=8)
        axis.tick_params(labelsize=7, which="both")
    axes[0, 0].set_ylabel("rise of the cost", fontsize=8)
    axes[0, 0].legend(fontsize=6, loc="upper center")
    figure.tight_layout()
    return figure


def models(comparison: Comparison) -> Any:
    """Draw the held-out error of each model beside the best one's, with its interval."""
    from matplotlib import pyplot
    from matplotlib.ticker import LogFormatter

    found = comparison.rows
    figure, axis = pyplot.subplots(figsize=(9, 1.0 + 0.3 * len(found)))
    for i, row in enumerate(found):
        colour = IDENTIFIED if row.is_adequate else "#999999"
        axis.plot([row.low, row.high], [i, i], color=colour, lw=2)
        face = colour if i == comparison.recommended else "white"
        axis.plot(row.share, i, "o", color=colour, markerfacecolor=face, ms=6)
    axis.axvline(1.0, color="#bbbbbb", lw=0.8)
    labels = [f"{row.name} ({row.parameters})" for row in found]
    axis.set_yticks(range(len(found)), labels, fontsize=8)
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(LogFormatter())  # 2, not 2 x 10^0
    axis.xaxis.set_minor_formatter(LogFormatter())
    axis.set_xlabel(
        "held-out error / that of the best, 95 % interval (blue: adequate; filled: recommended)",
        fontsize=8,
    )
    figure.tight_layout()
    return figure


def _legend() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Patch(color="#e8e8e8", label="bounds"),
        Patch(color="#f3d9a4", label="prior, 95 %"),
        Line2D([], [], color=NOMINAL, lw=1.6, label="start"),
        Line2D([], [], color=IDENTIFIED, marker="o", ms=5, lw=2, label="estimate, 95 %"),
        Line2D([], [], color="#999999", marker="o", mfc="white", ms=5, lw=2,
               label="not identifiable"),
    ]  # fmt: skip


def _place(parameters: ParameterSet, i: int) -> Callable[[float], float]:
    """Return the function from a value to its place between the bounds, 0 to 1."""
    low, high = parameters.low[i], parameters.high[i]
    is_log = parameters.transforms[i] == "log"

    def place(value: float) -> float:
        value = min(max(value, low), high)
        if is_log:
            return float(np.log(value / low) / np.log(high / low))
        return (value - low) / (high - low)

    return place


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
