"""Choose among models: friction terms and delay on or off, the simplest adequate one recommended.

Every candidate is the robot's own model with some parameters held at "absent" and the others fitted
again, from the fullest model's optimum. Candidates share windows, weights of the signals and
correlation times, so that their errors are differences of models alone. Each window is held out
once; the recommendation is the one-standard-error rule (Hastie, Tibshirani, Friedman, The Elements
of Statistical Learning, 7.10) with the standard error of the paired difference.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from s2r_jax.errors import BadValue
from s2r_jax.identify import levenberg, noise, paired
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.fit import Fit
from s2r_jax.identify.problem import Problem
from s2r_jax.identify.segments import Segments
from s2r_jax.identify.study import ENOUGH_LOGS, replay, windows
from s2r_jax.identify.terms import ABSENT, Candidate, candidates, missing
from s2r_jax.parameters import constrain, search_bounds, unconstrain
from s2r_jax.robot import Robot
from s2r_jax.sim import world
from s2r_jax.types import Trajectory

#: Parts that whole logs are dealt into; each is held out once.
FOLDS = 3
#: Relative fall of the cost below which a candidate is fitted: finer than any difference that the
#: rule could call one.
TOLERANCE = 1e-4


class Row(NamedTuple):
    """One candidate's fit."""

    name: str
    terms: tuple[str, ...]
    parameters: int
    """Fitted ones."""
    rmse: float
    """Held out; of the first kind of signal, in its unit."""
    mae: float
    share: float
    """Held-out error as a share of the best candidate's, over all signals."""
    low: float
    high: float
    """95 % interval of `share`, by blocks drawn again."""
    is_adequate: bool
    """Whether its held-out error is within one standard error of the best."""
    aic: float
    bic: float
    """Information criteria of the fit to all logs, less the least one; samples that go together
    count as one."""
    theta: tuple[float, ...]
    """Fitted to all logs."""


class Comparison(NamedTuple):
    """All candidates, and which one to take."""

    rows: tuple[Row, ...]
    recommended: int
    """Index of the row."""
    words: str
    keep: tuple[str, ...]
    """Parameters to leave in robot.yaml."""
    drop: tuple[str, ...]
    """Parameters to take out, at 0."""
    missing: tuple[str, ...]
    """Terms that the motors offer and that robot.yaml does not declare: they were not tried."""


Callback = Callable[[int, str], None]


def compare(
    robot: Robot,
    trajectories: Sequence[Trajectory],
    config: IdentifyConfig,
    full: Fit,
    callback: Callback | None = None,
) -> Comparison:
    """Return the comparison of all candidates on logs.

    Args:
        robot: Its parameters name the terms.
        trajectories: Logs on the control grid; each is held out once, or the end of each.
        config: Window, loss and iterations; `holdout` is the share of the ends.
        full: Fit of all parameters, whose method, noise and values are taken over.
        callback: Called with the number of fits done and the candidate's name.

    Raises:
        BadValue: Nothing to switch off, or too little held out to compare.
    """
    models = candidates(robot)
    if len(models) < 2:
        expected = f"friction or delay to switch off; not declared: {', '.join(missing(robot))}"
        raise BadValue(robot.file, "parameters", list(robot.parameters.names), expected)
    simulator = world.make(robot, "mujoco")
    window = robot.window if config.window is None else config.window
    whole = windows(simulator, trajectories, window)
    folds = _folds(whole, len(trajectories), config.holdout)
    method = full.method if full.method in ("lm", "fd") else "fd"
    fits = [_Fitter(robot, _masked(whole, ~fold), method, config, full) for fold in folds]
    everything = _Fitter(robot, whole, method, config, full)
    out, tables, counted, best = [], [], [], []
    for index, model in enumerate(models):
        theta = everything.fit(model, full.posterior.value)
        error = np.zeros_like(np.asarray(whole.measured))
        for number, (fold, fitter) in enumerate(zip(folds, fits, strict=True)):
            scored = replay(simulator, fitter.fit(model, theta), _masked(whole, fold))
            error = np.where(fold[..., None], scored.error, error)
            if callback is not None:
                callback(index * len(folds) + number + 1, model.name)
        held = _masked(whole, np.any(folds, axis=0))
        tables.append(paired.squares(robot.signals, error, held, full.correlation_time))
        out.append(_of_first_kind(robot, error, held))
        counted.append(_criteria(robot, replay(simulator, theta, whole).error, whole, full, model))
        best.append(theta)
    return _concluded(robot, models, tables, out, counted, best)


class _Fitter:
    """Fits candidates to the same windows."""

    def __init__(
        self, robot: Robot, segments: Segments, method: str, config: IdentifyConfig, full: Fit
    ):
        rough = dataclasses.replace(config, tolerance=max(config.tolerance, TOLERANCE))
        self.robot = robot
        with jax.enable_x64(True):
            self.problem = Problem(robot, segments, method, rough)
        self.problem.precision = 1.0 / np.asarray(full.noise_std)

    def fit(
        self, model: Candidate, start: Float[np.ndarray, " param"]
    ) -> Float[np.ndarray, " param"]:
        """Return θ of a candidate, its absent terms at `ABSENT`."""
        theta = np.array(start, dtype=float)
        theta[list(model.off)] = ABSENT
        held = np.isin(np.arange(theta.size), model.held)
        low, high = search_bounds(self.robot.parameters)
        # What is held may stand outside its bounds: there its term is absent.
        bounds = levenberg.Bounds(np.where(held, -np.inf, low), np.where(held, np.inf, high))
        self.problem.held = held
        with jax.enable_x64(True):
            z = np.asarray(unconstrain(self.robot.parameters, jnp.asarray(theta)))
            state, _, _ = self.problem.descend(z, bounds)
            return np.asarray(constrain(self.robot.parameters, jnp.asarray(state.z)))


def _folds(segments: Segments, logs: int, share: float) -> list[Bool[np.ndarray, "segment time"]]:
    """Return masks of what is held out: whole logs in turn, or with few logs the end of each."""
    size = np.asarray(segments.weight).shape[:2]
    if logs >= ENOUGH_LOGS:
        of_fold = (np.asarray(segments.log) % FOLDS)[:, None]
        return [np.broadcast_to(of_fold == fold, size) for fold in range(FOLDS)]
    if not 0 < share < 1:
        expected = "a share in (0, 1): models are compared by their errors on unseen logs"
        raise BadValue("--compare", "holdout", share, expected)
    row = np.asarray(segments.start)[:, None] + np.arange(size[1])
    seen = np.asarray(segments.weight).any(-1)
    last = np.zeros(logs)
    np.maximum.at(last, np.asarray(segments.log), np.where(seen, row + 1, 0).max(1))
    return [row >= (1 - share) * last[np.asarray(segments.log)][:, None]]


def _masked(segments: Segments, keep: Bool[np.ndarray, "segment time"]) -> Segments:
    """Return the windows with weight only where `keep` says; one shape compiles once."""
    return segments._replace(weight=np.asarray(segments.weight) * keep[..., None])


def _of_first_kind(robot: Robot, error: np.ndarray, segments: Segments) -> tuple[float, float]:
    """Return rmse and mae of the first kind of signal."""
    entries = noise.groups(robot.signals)[0]
    values = error[..., entries][np.asarray(segments.weight)[..., entries] > 0]
    return float(np.sqrt(np.mean(values**2))), float(np.mean(np.abs(values)))


def _criteria(
    robot: Robot, error: np.ndarray, segments: Segments, full: Fit, model: Candidate
) -> tuple[float, float]:
    """Return AIC and BIC with the effective number of samples (Gaussian errors, own variance)."""
    weight, worth, fit = np.asarray(segments.weight) > 0, 0.0, 0.0
    for entries in noise.groups(robot.signals):
        values = error[..., entries][weight[..., entries]]
        square = float(np.mean(values**2)) if values.size else 0.0
        if square > 0:
            samples = values.size / float(full.correlation_time[entries[0]])
            worth, fit = worth + samples, fit + samples * np.log(square)
    count = len(robot.parameters) - len(model.held)
    return fit + 2 * count, fit + count * float(np.log(max(worth, 1.0)))


def _concluded(
    robot: Robot,
    models: Sequence[Candidate],
    tables: list[np.ndarray],
    errors: list[tuple[float, float]],
    criteria: list[tuple[float, float]],
    thetas: list[np.ndarray],
) -> Comparison:
    counts = [len(robot.parameters) - len(model.held) for model in models]
    totals = [paired.spread(table, tables[-1]) for table in tables]
    finite = [total.sum() if np.isfinite(total).all() else np.inf for total in totals]
    best = int(np.argmin(finite))
    blocks = totals[best].size
    if blocks < paired.FEWEST_BLOCKS:
        expected = f"at least {paired.FEWEST_BLOCKS} independent stretches held out: longer logs"
        raise BadValue("--compare", "logs", blocks, expected)
    least = np.min(criteria, axis=0)
    rows = []
    for i, model in enumerate(models):
        excess = totals[i] - totals[best]
        error = float(np.std(excess, ddof=1) * np.sqrt(blocks))
        adequate = bool(np.isfinite(finite[i]) and excess.sum() <= error)
        share = paired.ratio(tables[i], tables[best])
        aic, bic = np.asarray(criteria[i]) - least
        rows.append(
            Row(model.name, model.terms, counts[i], *errors[i], share.value, share.low, share.high,
                adequate, float(aic), float(bic), tuple(float(v) for v in thetas[i]))
        )  # fmt: skip
    fine = [i for i, row in enumerate(rows) if row.is_adequate]
    taken = min(fine, key=lambda i: (counts[i], finite[i]))
    row, top = rows[taken], rows[best]
    words = (
        f"{row.name} ({row.parameters} parameters) is the simplest model within one standard "
        f"error of the best, {top.name} ({top.parameters}): its held-out error is "
        f"{row.share:.1%} of that one's (95 % interval {row.low:.1%} to {row.high:.1%})."
        if taken != best
        else f"{row.name} ({row.parameters} parameters) has the least held-out error, and no "
        "simpler model is within one standard error."
    )
    names, held = robot.parameters.names, set(models[taken].held)
    keep = tuple(name for i, name in enumerate(names) if i not in held)
    drop = tuple(name for i, name in enumerate(names) if i in held)
    return Comparison(tuple(rows), taken, words, keep, drop, missing(robot))
