"""One fit in progress: windows of logs, weights, and the descent to the bottom of their cost."""

import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from s2r_jax.errors import BadValue
from s2r_jax.identify import levenberg, noise, objective, per_log, searches, uncertainty
from s2r_jax.identify.choice import random_start, simulator_for
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.jacobian import Linearization, compile_linearization
from s2r_jax.identify.reduce import Reduced, back_substitute, loss, reduce
from s2r_jax.identify.residual import difference, simulate_all
from s2r_jax.identify.segments import Segments, beginning
from s2r_jax.identify.start import freedom
from s2r_jax.parameters import constrain, search_bounds, unconstrain
from s2r_jax.robot import Robot
from s2r_jax.sim import world

#: Gain in log-likelihood of independent samples that no one would notice: it moves an estimate by
#: less than a tenth of its standard error.
UNNOTICED = 3e-3
#: Steps refused in a row after which the search ends: the damping has then grown 2 million times,
#: and what is left is the
#: roughness of friction and contact.
REJECTIONS = 6
#: Control periods from which windows are long: a search begins with their beginnings, the last of
#: these shares.
LONG, SHARE = 400, 8
#: Relative fall of the cost that is small enough for a search which others follow.
ROUGH = 1e-3

Callback = Callable[[int, levenberg.Info | searches.Info], None]


class Point(NamedTuple):
    """Everything known at one z."""

    z: Float[np.ndarray, " param"]
    starts: Float[np.ndarray, "segment start"]
    precision: Float[np.ndarray, " sensor"]
    """That the residuals were whitened by."""
    linear: Linearization
    reduced: Reduced


class Problem:
    """One fit in progress: simulator, windows and weights; numbers in, normal equations out.

    `evaluate` remembers its last point as `trial`; `accepted` is the one that steps start from.
    Parameters that are `held` stay where they are.
    """

    def __init__(self, robot: Robot, segments: Segments, method: str, config: IdentifyConfig):
        self.robot, self.segments, self.method, self.config = robot, segments, method, config
        self.layout = per_log.layout(robot.parameters, 1 + int(np.max(segments.log)))
        self.parameters = self.layout.parameters
        self.robust = robot.robust if config.robust is None else config.robust
        self.simulator = simulator_for(robot, method)
        kind = "lm" if method == "lm" else "fd"
        self.linearize = compile_linearization(self.simulator, kind, config.step)
        self.precision = noise.first_precision(robot.signals, segments)
        self.start = np.asarray(unconstrain(self.parameters, jnp.asarray(self.parameters.start)))
        self.prior = uncertainty.prior_precision(self.parameters, self.start)
        self.start_std = freedom(robot)
        self.held = np.zeros(len(self.parameters), bool)
        # Samples that repeat each other must not outvote a prior.
        self.redundancy = 1.0
        self.trial: Point | None = None
        self.accepted: Point | None = None
        #: How long each evaluation took [s]; the first compiles.
        self.seconds: list[float] = []

    def evaluate(self, z: Float[np.ndarray, " param"]) -> levenberg.Normal:
        """Return the normal equations at z; an unstable simulation gives an infinite cost."""
        starts = np.zeros((len(self.segments.log), self.start_std.size))
        if self.accepted is not None:
            move = back_substitute(self.accepted.reduced, z - self.accepted.z)
            starts = self.accepted.starts + move
        theta = jnp.asarray(self.of_windows(z))
        given = (theta, jnp.asarray(starts), self.segments, jnp.asarray(self.precision))
        began = time.perf_counter()
        linear = jax.tree.map(np.asarray, self.linearize(*given))
        self.seconds.append(time.perf_counter() - began)
        jacobian = self.layout.spread(linear.jacobian, np.asarray(self.segments.log))
        linear = linear._replace(jacobian=jacobian)
        if not all(np.isfinite(leaf).all() for leaf in linear):
            return levenberg.Normal(np.inf, np.zeros(z.size), np.eye(z.size))
        self.trial = self._point(z, starts, linear)
        return self.normal(self.trial)

    def of_windows(self, z: Float[np.ndarray, " unknown"]) -> Float[np.ndarray, "*segment param"]:
        """Return θ in search coordinates: one for all, or that of each window's log."""
        if self.layout.is_shared:
            return z
        return z[self.layout.place[np.asarray(self.segments.log)]]

    def at(self, theta: Float[np.ndarray, " param"]) -> Float[np.ndarray, " unknown"]:
        """Return the search coordinates that give every log this θ."""
        return np.asarray(unconstrain(self.parameters, jnp.asarray(self.layout.unknowns(theta))))

    def _point(self, z: np.ndarray, starts: np.ndarray, linear: Linearization) -> Point:
        reduced = reduce(linear, starts, self.start_std, self.robust)
        return Point(z, starts, self.precision, linear, reduced)

    def normal(self, point: Point) -> levenberg.Normal:
        """Return the normal equations of a point, priors included."""
        off, reduced = (point.z - self.start) * self.prior, point.reduced
        normal = levenberg.Normal(
            reduced.cost + 0.5 * self.redundancy * float(off @ off),
            reduced.slope + self.redundancy * self.prior * off,
            reduced.matrix + self.redundancy * np.diag(self.prior**2),
        )
        return levenberg.without(normal, self.held)

    def search(
        self, start: np.ndarray | None, callback: Callback | None
    ) -> tuple[levenberg.State, int, bool]:
        """Return the best of the starts, refined once the noise of the signals is known."""
        bounds = levenberg.Bounds(*search_bounds(self.parameters))
        keys = np.random.default_rng(self.config.seed)
        first = self.start if start is None else self.at(start)
        found, count = [], 0
        for index in range(self.config.starts):
            z = first if index == 0 else random_start(bounds, keys)
            if index or start is None:  # a given start is near the bottom already
                z, steps = self.ahead(z, bounds, count, callback)
                count += steps
            state, steps, converged = self.descend(z, bounds, count, callback)
            found.append((state, converged))
            count += steps
        state, converged = min(found, key=lambda pair: pair[0].normal.cost)
        if not np.isfinite(state.normal.cost):
            where = "; it is not finite from any start: check start values and timestep"
            raise BadValue(self.robot.file, "parameters", "start", f"a stable simulation{where}")
        is_one_scale = len(noise.groups(self.robot.signals)) == 1 and not self.prior.any()
        if is_one_scale and not self.start_std.size:
            return state, count, converged  # one noise level only scales the cost
        self.settle(state.z)
        self.update_precision()
        state, steps, converged = self.descend(state.z, bounds, count, callback)
        return state, count + steps, converged

    def ahead(
        self,
        z: Float[np.ndarray, " param"],
        bounds: levenberg.Bounds,
        count: int,
        callback: Callback | None,
    ) -> tuple[Float[np.ndarray, " param"], int]:
        """Return where a search may better begin, and the steps that it took to find out.

        The beginnings of long windows cost little and have fewer local minima; where they lead is
        taken if it is better for the whole windows too. On an engine that compiles each length
        anew it would not pay.
        """
        periods = np.shape(self.segments.weight)[1]
        if self.method != "fd" or periods < LONG:
            return z, 0
        config = dataclasses.replace(self.config, tolerance=max(ROUGH, self.config.tolerance))
        short = beginning(self.segments, periods // SHARE)
        problem = Problem(self.robot, short, self.method, config)
        state, steps, _ = problem.descend(z, bounds, count, callback)
        # Where starts are no unknowns, what is evaluated here is the first point of the search.
        found = self.cost(state.z) if self.start_std.size else self.settle(state.z).cost
        return (state.z if found < self.cost(z) else z), steps

    def cost(self, z: Float[np.ndarray, " param"]) -> float:
        """Return the cost at z without derivatives, windows started as measured."""
        theta = constrain(self.robot.parameters, jnp.asarray(self.of_windows(z)))
        simulated = simulate_all(self.simulator, theta, self.segments)
        error = difference(self.simulator, simulated, jnp.asarray(self.segments.measured))
        whitened = np.asarray(error) * self.precision * np.asarray(self.segments.weight)
        off = (z - self.start) * self.prior
        found = loss(whitened, self.robust)[1] + 0.5 * self.redundancy * float(off @ off)
        return found if np.isfinite(found) else np.inf

    def explore(
        self, start: np.ndarray | None, callback: Callback | None
    ) -> tuple[levenberg.State, int, bool]:
        """Search by another method than Levenberg-Marquardt; windows start as measured."""
        if self.start_std.size:
            field = f"method of {self.robot.file}, whose windows' starts are unknown"
            raise BadValue("identify", field, self.config.method, "lm or fd")
        if not self.layout.is_shared:
            field = f"method of {self.robot.file}, which has parameters that are per_log"
            raise BadValue("identify", field, self.config.method, "lm or fd")
        z = self.start if start is None else self.at(start)
        bounds, steps = levenberg.Bounds(*search_bounds(self.parameters)), self.config.iterations
        given = (self.segments, jnp.asarray(self.precision), self.robust)
        given = (*given, jnp.asarray(self.start), jnp.asarray(self.prior))
        reached = [0]

        def report(step: int, info: searches.Info) -> None:
            reached[0] = step
            if callback is not None:
                callback(step, info)

        if self.config.method == "adam":
            slope = objective.compile_slope(
                objective.objective(world.make(self.robot, "mjx"), *given)
            )
            z = searches.adam(slope, z, bounds, steps, report)
        else:
            costs = objective.compile_costs(objective.objective(self.simulator, *given))
            search = getattr(searches, self.config.method)
            z = search(costs, z, bounds, steps, report, self.config.seed)
        return levenberg.init(z, self.settle(z)), reached[0], reached[0] < steps

    def settle(self, z: Float[np.ndarray, " param"]) -> levenberg.Normal:
        """Evaluate at z and take it as accepted, with the starts relaxed.

        They go on from where they were at the same z, else from the measured ones.
        """
        known = self.accepted
        is_same = known is not None and np.array_equal(known.z, z)
        if known is not None and is_same and not self.start_std.size:
            # Nothing but the weights can differ: no need to simulate again.
            ratio = self.precision / known.precision
            residual, jacobian, start = known.linear
            scaled = (residual * ratio, jacobian * ratio[:, None], start * ratio[:, None])
            self.accepted = self._point(z, known.starts, Linearization(*scaled))
            return self.normal(self.accepted)
        if not is_same:
            self.accepted = None
        normal = self.evaluate(z)
        for _ in range(2 if self.start_std.size else 0):
            self.accepted = self.trial
            normal = self.evaluate(z)
        self.accepted = self.trial
        return normal

    def update_precision(self) -> Float[np.ndarray, " sensor"]:
        """Take the noise of each signal from the residuals of the accepted point.

        Returns the correlation time of each signal in control periods.
        """
        assert self.accepted is not None
        residual, tau = self.accepted.linear.residual, self._correlation_time()
        count = np.asarray(self.segments.weight).sum((0, 1))
        self.redundancy = float((tau * count).sum() / max(count.sum(), 1.0))
        rho = noise.autocorrelation(self.robot.signals, residual, self.segments)
        known = self.accepted
        absorbed = noise.absorbed(self.robot.signals, known.linear, known.reduced, rho)
        self.precision = noise.update_precision(
            self.robot.signals, residual, self.precision, self.segments, absorbed
        )
        return tau

    def descend(
        self,
        z: Float[np.ndarray, " param"],
        bounds: levenberg.Bounds,
        count: int = 0,
        callback: Callback | None = None,
    ) -> tuple[levenberg.State, int, bool]:
        """Return the bottom that is reached from z, the steps taken, and whether it is one.

        Args:
            z: Where to begin.
            bounds: Box of z.
            count: Steps taken before, for the callback.
            callback: Called after every step.
        """
        state = levenberg.init(z, self.settle(z))
        quiet = rejected = 0
        for steps in range(1, self.config.iterations + 1):
            # A promise is a guess: a generous tolerance is for what steps really gain.
            tolerance = min(self.config.tolerance, IdentifyConfig.tolerance)
            if self._is_unnoticed(levenberg.promise(state, bounds), tolerance):
                return state, steps - 1, True
            state, info = levenberg.step(state, self.evaluate, bounds)
            if callback is not None:
                callback(count + steps, info)
            if info.accepted:
                self.accepted = self.trial
            # Two steps in a row that gave, or even promised, next to nothing mean the bottom.
            gain = info.decrease if info.accepted else abs(info.promised)
            quiet = quiet + 1 if self._is_unnoticed(gain, self.config.tolerance) else 0
            rejected = 0 if info.accepted else rejected + 1
            if quiet == 2 or rejected == REJECTIONS or info.move < 1e-10:
                return state, steps, True
        return state, self.config.iterations, False

    def _is_unnoticed(self, gain: float, tolerance: float) -> bool:
        """Return whether a relative fall of the cost is too small to matter."""
        if gain < tolerance or tolerance == 0:
            return gain < tolerance
        count = np.asarray(self.segments.weight).sum((0, 1))
        if gain * np.count_nonzero(count) / 2 >= UNNOTICED:  # if each signal were a single sample
            return False
        assert self.accepted is not None
        tau = self._correlation_time()
        return gain * float((count / tau).sum()) / 2 < UNNOTICED

    def _correlation_time(self) -> Float[np.ndarray, " sensor"]:
        assert self.accepted is not None
        residual = self.accepted.linear.residual
        return noise.correlation_time(self.robot.signals, residual, self.segments)
