"""Identification as a whole.

Hold out, fit, score against the nominal model, fit again on everything.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from s2r_jax.errors import BadValue
from s2r_jax.identify import errors, per_log
from s2r_jax.identify.adopt import adopted
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.fit import Fit, fit
from s2r_jax.identify.problem import ROUGH, Callback
from s2r_jax.identify.residual import difference, simulate_all
from s2r_jax.identify.segments import Segments, cut
from s2r_jax.robot import Robot
from s2r_jax.sim import world
from s2r_jax.sim.world import Simulator
from s2r_jax.types import Command, Trajectory

#: From this many logs on, whole logs are held out; below it, the end of each.
ENOUGH_LOGS = 5


class Replay(NamedTuple):
    """Windows simulated at one θ, and their errors."""

    segments: Segments
    simulated: Float[np.ndarray, "segment time sensor"]
    scores: errors.Scores
    error: Float[np.ndarray, "segment time sensor"]
    """Simulated minus measured; an orientation's as a rotation vector."""


class Study(NamedTuple):
    """What identification found, and what it is worth."""

    fit: Fit
    fitted: Replay
    fitted_nominal: Replay
    holdout: Replay | None
    """Logs that the fit of this replay never saw."""
    holdout_nominal: Replay | None
    names: tuple[str, ...]
    """Of the trajectories that were fitted, and held out, in the order of their windows' `log`."""
    names_holdout: tuple[str, ...]
    refitted: bool
    """Whether the held-out logs were used for the final values after scoring."""
    seen: Replay | None = None
    """Beside `holdout`: the logs that the scored fit was fitted to, at its values."""
    seen_nominal: Replay | None = None
    warnings: tuple[str, ...] = ()
    """Settings that were not followed to the letter."""


def study(
    robot: Robot,
    trajectories: Sequence[Trajectory],
    config: IdentifyConfig,
    held_out: Sequence[Trajectory] = (),
    callback: Callback | None = None,
) -> Study:
    """Identify the robot's parameters and count the errors on logs that the fit has not seen.

    Args:
        robot: Its parameters are fitted.
        trajectories: Logs on the control grid.
        config: Method, window, hold-out share.
        held_out: Logs to score only, never fitted; without any, a share of the logs is held out for
            scoring, and fitted afterwards unless `config.refit` says no.
        callback: See `fit`.

    Raises:
        BadValue: No logs, or a hold-out that leaves none.
    """
    if not trajectories:
        raise BadValue("logs", "number", 0, "at least one log to fit")
    _check(config)
    kept, out = list(trajectories), list(held_out)
    is_split = not out and config.holdout > 0
    if is_split:
        kept, out = split(trajectories, config.holdout)
    refit = is_split and config.refit
    window = robot.window if config.window is None else config.window
    simulator = world.make(
        robot, "mujoco"
    )  # scores on the reference engine, whatever was differentiated
    # Profiles are of the values that stay.
    first_config = dataclasses.replace(config, profile=0) if refit else config
    result = _fit(robot, simulator, kept, window, first_config, callback)
    nominal = np.array(robot.parameters.nominal)
    warnings = window_words([*kept, *out], window, robot.period)
    holdout = holdout_nominal = seen = seen_nominal = None
    if out:
        first = windows(simulator, kept, window)
        seen = replay(simulator, _theta(result, first), first)
        seen_nominal = replay(simulator, nominal, first)
        segments = windows(simulator, out, window)
        theta, short = adopted(robot, segments, config, result)
        for log in short:
            names = ", ".join(result.own.names if result.own else ())
            warnings.append(f"{out[log].name} is one window, too short for its own {names}")
        holdout = replay(simulator, theta, segments)
        holdout_nominal = replay(simulator, nominal, segments)
    names = kept
    if refit:
        names = list(trajectories)
        again = windows(simulator, names, window)
        decided = dataclasses.replace(config, method=result.method)
        refitted = fit(robot, again, decided, start=result.posterior.value, callback=callback)
        result = _joined(result, refitted)
    first = windows(simulator, names, window)
    return Study(
        result,
        replay(simulator, _theta(result, first), first),
        replay(simulator, nominal, first),
        holdout,
        holdout_nominal,
        tuple(t.name for t in names),
        tuple(t.name for t in out),
        refit,
        seen,
        seen_nominal,
        tuple(warnings),
    )


def _fit(
    robot: Robot,
    simulator: Simulator,
    trajectories: Sequence[Trajectory],
    window: float,
    config: IdentifyConfig,
    callback: Callback | None,
) -> Fit:
    """Fit to windows; before whole logs, to short windows.

    The error of a long simulation has many local minima, that of a second from the measured state
    hardly any.
    """
    longest = max(len(t.measured) for t in trajectories) * robot.period
    is_graduated = window == 0 and 0 < config.first_window < longest / 2
    if not is_graduated:
        return fit(robot, windows(simulator, trajectories, window), config, callback=callback)
    # A start for the search that follows; the last digits are its business.
    rough = dataclasses.replace(config, tolerance=max(config.tolerance, ROUGH), profile=0)
    short = fit(
        robot, windows(simulator, trajectories, config.first_window), rough, callback=callback
    )
    start = short.posterior.value
    whole = windows(simulator, trajectories, window)
    decided = dataclasses.replace(config, method=short.method)
    return _joined(short, fit(robot, whole, decided, start=start, callback=callback))


def _theta(found: Fit, segments: Segments) -> Float[np.ndarray, "*segment param"]:
    """Return θ of windows that were fitted."""
    return per_log.theta_of_windows(found.posterior, found.own, np.asarray(segments.log))


def _joined(first: Fit, second: Fit) -> Fit:
    """Return the second of two fits in a row, with the work of both.

    Why the first took its method stays said.
    """
    return second._replace(
        seconds=first.seconds + second.seconds,
        iterations=first.iterations + second.iterations,
        choice=first.choice,
    )


def windows(simulator: Simulator, trajectories: Sequence[Trajectory], window: float) -> Segments:
    """Return the windows of `window` seconds (0: whole logs) of trajectories.

    Raises:
        BadValue: A window shorter than a control period, which would round to whole logs, or none.
    """
    period = simulator.robot.period
    if window != 0 and not (np.isfinite(window) and window >= period):
        expected = f"0 for whole logs, or at least a control period ({period:g} s)"
        raise BadValue("windows of a log", "length", window, expected)
    length = round(window / simulator.robot.period)
    return cut(trajectories, length, simulator.held, simulator.ahead)


def window_words(trajectories: Sequence[Trajectory], window: float, period: float) -> list[str]:
    """Return sentences on a window that cannot be had as asked for."""
    if window == 0:
        return []
    words, rows = [], round(window / period)
    if abs(rows * period - window) > 1e-6 * period:  # rounding of the quotient
        words.append(
            f"windows of {window:g} s are no whole number of control periods ({period:g} s): "
            f"{rows * period:g} s are used"
        )
    short = [t.name for t in trajectories if len(t.measured) - 1 < rows]
    if short:
        listed = ", ".join(short[:3]) + (", ..." if len(short) > 3 else "")
        longest = max(len(t.measured) - 1 for t in trajectories) * period
        words.append(
            f"windows of {window:g} s do not fit into {len(short)} of {len(trajectories)} logs "
            f"({listed}), which count whole; the longest log lasts {longest:g} s"
        )
    return words


def replay(
    simulator: Simulator, theta: Float[Array | np.ndarray, "*segment param"], segments: Segments
) -> Replay:
    """Simulate the windows, at one θ or each at its own, in double precision; count the errors."""
    with jax.enable_x64(True):
        simulated = simulate_all(simulator, jnp.asarray(theta), segments)
        error = difference(simulator, simulated, jnp.asarray(segments.measured))
        simulated, error = np.asarray(simulated), np.asarray(error)
    scores = errors.score(simulator.robot.signals, error, segments)
    return Replay(segments, simulated, scores, error)


def split(
    trajectories: Sequence[Trajectory], share: float
) -> tuple[list[Trajectory], list[Trajectory]]:
    """Return the logs to fit and to hold out.

    Whole logs, evenly chosen, or the end of each when there are few.
    """
    if len(trajectories) >= ENOUGH_LOGS:
        count = max(1, round(share * len(trajectories)))
        spread = {int((i + 0.5) * len(trajectories) / count) for i in range(count)}
        kept = [t for i, t in enumerate(trajectories) if i not in spread]
        return kept, [t for i, t in enumerate(trajectories) if i in spread]
    kept, out = [], []
    for trajectory in trajectories:
        rows = len(trajectory.measured)
        at = math.floor(rows * (1 - share))
        if at < 2 or rows - at < 2:
            raise BadValue(
                trajectory.name,
                "holdout",
                share,
                f"a share that leaves rows on both sides of {rows}",
            )
        kept.append(rows_of(trajectory, slice(0, at + 1), ""))
        out.append(rows_of(trajectory, slice(at, rows), " (end)"))
    return kept, out


def rows_of(trajectory: Trajectory, rows: slice, suffix: str) -> Trajectory:
    """Return a stretch of a trajectory."""
    command = Command(*[leaf[rows] for leaf in trajectory.command])
    rest = (trajectory.measured[rows], trajectory.qpos[rows], trajectory.qvel[rows])
    return Trajectory(trajectory.name + suffix, command, *rest)


def _check(config: IdentifyConfig) -> None:
    checks = (
        ("holdout", config.holdout, 0 <= config.holdout < 1, "a share in [0, 1)"),
        ("iterations", config.iterations, config.iterations > 0, "a positive number"),
        ("starts", config.starts, config.starts > 0, "a positive number"),
        ("robust", config.robust, config.robust is None or config.robust >= 0, "a number >= 0"),
        ("first_window", config.first_window, config.first_window >= 0, "seconds >= 0"),
        ("window", config.window, config.window is None or config.window >= 0, "seconds >= 0"),
        ("step", config.step, 0 < config.step < 1, "a share in (0, 1)"),
        ("tolerance", config.tolerance, config.tolerance >= 0, "a number >= 0"),
        ("profile", config.profile, config.profile >= 0, "a number >= 0"),
    )
    for field, value, is_good, expected in checks:
        if not is_good:
            raise BadValue("identify", field, value, expected)
