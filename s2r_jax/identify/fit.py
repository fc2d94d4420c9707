"""Fit θ to windows of logs: search, then what is known at the bottom."""

import time
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from s2r_jax.errors import BadValue
from s2r_jax.identify import levenberg, per_log, uncertainty, weakest
from s2r_jax.identify.choice import choose
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.problem import Callback, Problem
from s2r_jax.identify.profile import Profile
from s2r_jax.identify.reduce import reduce
from s2r_jax.identify.segments import Segments
from s2r_jax.parameters import ParameterSet
from s2r_jax.robot import Robot
from s2r_jax.types import Posterior

#: Longest evaluation [s] of which a profile, that needs up to 16 of them, is made.
SLOW = 1.5


class Fit(NamedTuple):
    """Result of a fit."""

    posterior: Posterior
    combinations: tuple[uncertainty.Combination, ...]
    """What cannot be told apart."""
    dead: tuple[str, ...]
    """Parameters that move no signal of these logs."""
    method: str
    engine: str
    cost: float
    iterations: int
    converged: bool
    seconds: float
    notes: tuple[str, ...]
    """What a person should know: fallbacks, bounds met, starts on bounds."""
    noise_std: Float[np.ndarray, " sensor"]
    """Standard deviation of each signal's error, in its unit."""
    correlation_time: Float[np.ndarray, " sensor"]
    """Control periods worth one independent sample."""
    choice: tuple[str, ...] = ()
    """Why `auto` took its method, where that needs saying."""
    known: tuple[uncertainty.Known, ...] = ()
    """Ratios and products that are known well although their parts are not, in `words`."""
    profiles: tuple[Profile, ...] = ()
    """Of the weakest parameters, the weakest first."""
    own: per_log.Own | None = None
    """Values of each log, where parameters are per log; the posterior has their distribution."""


def fit(
    robot: Robot,
    segments: Segments,
    config: IdentifyConfig,
    start: Float[np.ndarray, " param"] | None = None,
    callback: Callback | None = None,
) -> Fit:
    """Return the posterior of the robot's parameters given windows of its logs.

    Args:
        robot: Its parameters are fitted, from their start values.
        segments: Windows of the logs.
        config: Method and tolerances.
        start: θ to start from instead.
        callback: Called after every step with its index and `levenberg.Info`.

    Raises:
        BadValue: The robot declares no parameters, or the signals are not finite at the start.
    """
    if not len(robot.parameters):
        raise BadValue(robot.file, "parameters", [], "at least one parameter to identify")
    began = time.perf_counter()
    with jax.enable_x64(True):
        method, choice = choose(robot, segments, config)
        problem = Problem(robot, segments, method, config)
        if method in ("lm", "fd"):
            state, count, converged = problem.search(start, callback)
        else:
            state, count, converged = problem.explore(start, callback)
        result = summary(problem, state)
        if config.profile:
            result = profiled(problem, result)
        posterior, own = per_log.folded(robot.parameters, result.posterior, problem.layout)
    return result._replace(
        posterior=posterior,
        own=own,
        method=method,
        engine=problem.simulator.engine.name,
        iterations=count,
        converged=converged,
        seconds=time.perf_counter() - began,
        choice=tuple(choice),
    )


def summary(problem: Problem, state: levenberg.State) -> Fit:
    """Return the posterior at the optimum; correlated residuals count for fewer samples."""
    problem.settle(state.z)
    tau = problem.update_precision()
    normal = problem.settle(state.z)
    assert problem.accepted is not None
    linear = problem.accepted.linear
    worth = reduce(linear, problem.accepted.starts, problem.start_std, weight=1 / tau)
    information = worth.matrix + np.diag(problem.prior**2)
    is_dead = np.abs(linear.jacobian).max((0, 1, 2)) == 0
    posterior, weak = uncertainty.posterior(problem.parameters, state.z, information, is_dead)
    names = np.array(problem.parameters.names)
    notes = _starts_on_bounds(problem.parameters)
    notes += [f"{name} ended on its bound" for name in names[posterior.at_bound]]
    notes += [f"{name} moves no signal of these logs" for name in names[is_dead]]
    return Fit(
        posterior,
        weak,
        tuple(names[is_dead].tolist()),
        "",
        "",
        normal.cost,
        0,
        False,
        0.0,
        tuple(notes),
        1.0 / problem.precision,
        tau,
        known=uncertainty.known(posterior),
    )


def profiled(problem: Problem, found: Fit) -> Fit:
    """Return the summary with the profiles of the weakest parameters, and what they tell."""
    optimum, count = problem.accepted, problem.config.profile
    assert optimum is not None
    # What belongs to one log is no property of the robot.
    skipped = (*found.dead, *np.array(problem.parameters.names)[problem.layout.own])
    if len(problem.seconds) < 2:
        problem.evaluate(optimum.z)
    if min(problem.seconds) > SLOW:
        names = found.posterior.names
        some = weakest.weakest(problem.parameters, found.posterior, skipped)[:count]
        said = f"no profile of {', '.join(names[i] for i in some)}: it takes 16 simulations of "
        return found._replace(notes=(*found.notes, f"{said}{min(problem.seconds):.2g} s each"))

    def evaluate(z: np.ndarray) -> levenberg.Normal:
        # The starts follow from point to point; the way back to the other side is too far.
        assert problem.accepted is not None
        if np.sum((z - optimum.z) ** 2) < np.sum((z - problem.accepted.z) ** 2):
            problem.accepted = optimum
        normal = problem.evaluate(z)
        problem.accepted = problem.trial
        return normal

    state = levenberg.init(optimum.z, problem.normal(optimum))
    given = (problem.parameters, found.posterior, skipped, problem.redundancy, count)
    profiles, notes = weakest.profiles(evaluate, state, *given)
    problem.accepted = optimum
    # A side without a limit is more than any standard error can say.
    known, p = found.posterior.identifiable.copy(), problem.parameters
    for i, curve in ((p.index(curve.name), curve) for curve in profiles):
        known[i] &= weakest.is_limited(curve, p.low[i], p.high[i])
    posterior = found.posterior._replace(identifiable=known)
    return found._replace(posterior=posterior, profiles=profiles, notes=(*found.notes, *notes))


def _starts_on_bounds(p: ParameterSet) -> list[str]:
    """Return a sentence for each declared start on a bound: bounds may hide the truth there."""
    said = []
    for name, start, low, high in zip(p.names, p.start, p.low, p.high, strict=True):
        if start in (low, high):
            which = "lower" if start == low else "upper"
            said.append(f"{name} started on its {which} bound ({start:g})")
    return said
