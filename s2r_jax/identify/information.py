"""What a log of an excitation would say of θ, before it is recorded.

The excitation is simulated at θ without noise, cut into windows as a log would be, and linearised
by the machinery of the fit; the noise is what robot.yaml declares. Windows' starts that the fit
would estimate are eliminated here too, so that what they cost is counted.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from s2r_jax.errors import BadValue
from s2r_jax.identify import uncertainty
from s2r_jax.identify.jacobian import Linearization, compile_linearization
from s2r_jax.identify.reduce import reduce
from s2r_jax.identify.segments import cut
from s2r_jax.identify.start import freedom
from s2r_jax.parameters import ParameterSet, constrain, search_bounds, unconstrain
from s2r_jax.robot import Robot
from s2r_jax.sim import sensors, world
from s2r_jax.types import Command, Posterior, Trajectory

#: Share of its range by which a θ keeps off its bounds: beyond them nothing can be differentiated.
INSIDE = 0.02


class Prediction(NamedTuple):
    """What a log of one excitation would give."""

    gain: float
    """½ ln det of the posterior precision over that of the bounds and priors [nat]."""
    posterior: Posterior
    """As a fit of that log would report it."""
    combinations: tuple[uncertainty.Combination, ...]
    dead: tuple[str, ...]
    """Parameters that move no signal."""


class Motion(NamedTuple):
    """The noise-free course of excitations at control ticks, `[excitation, time, ...]`."""

    qpos: Float[np.ndarray, "excitation time nq"]
    qvel: Float[np.ndarray, "excitation time nv"]
    signals: Float[np.ndarray, "excitation time sensor"]


class Experiment:
    """Simulates excitations from one pose and says what they would teach.

    Compiled once for each number of excitations.
    """

    def __init__(
        self,
        robot: Robot,
        qpos: Float[np.ndarray, " nq"],
        rest: Float[np.ndarray, " nu"],
        window: float | None = None,
    ):
        """Prepare the simulation.

        Args:
            robot: Its parameters are to be identified.
            qpos: Where it stands.
            rest: Commands that ask for no motion there.
            window: Of the fit [s]; robot.yaml's when None.

        Raises:
            BadValue: No parameters, or a signal without noise.
        """
        if not len(robot.parameters):
            raise BadValue(robot.file, "parameters", [], "at least one parameter to identify")
        self.robot, self.parameters = robot, robot.parameters
        self.window = robot.window if window is None else window
        self._precision, self._worth = noise_of(robot)
        self._simulator = world.make(robot, "mujoco")
        self._linearize = compile_linearization(self._simulator, "fd")
        self._start = (np.asarray(qpos, dtype=float), np.asarray(rest, dtype=float))
        self._roll = jax.jit(jax.vmap(self._one, in_axes=(None, 0)))

    def motion(
        self, theta: Float[np.ndarray, " param"], targets: Float[np.ndarray, "excitation time nu"]
    ) -> Motion:
        """Simulate excitations at θ; row k is the state in which command k is given."""
        with jax.enable_x64(True):
            found = self._roll(jnp.asarray(theta), jnp.asarray(targets))
            return Motion(*[np.asarray(leaf) for leaf in found])

    def information(
        self, theta: Float[np.ndarray, " param"], targets: Float[np.ndarray, "excitation time nu"]
    ) -> tuple[Float[np.ndarray, "excitation param param"], Bool[np.ndarray, "excitation param"]]:
        """Return the information on z of each excitation, and which parameters moved nothing.

        Not finite where the simulation diverges.
        """
        motion = self.motion(theta, targets)
        size = len(self.parameters)
        if not all(np.isfinite(leaf).all() for leaf in motion):
            # One excitation that diverges must not spoil those beside it.
            good = np.asarray(np.isfinite(motion.signals).all((1, 2)))
            good &= np.isfinite(motion.qpos).all((1, 2)) & np.isfinite(motion.qvel).all((1, 2))
            matrices = np.full((len(targets), size, size), np.nan)
            is_dead = np.zeros((len(targets), size), bool)
            calm = np.where(good[:, None, None], targets, targets[good][:1] if good.any() else 0.0)
            if good.any():
                found = self.information(theta, calm)
                matrices[good], is_dead[good] = found[0][good], found[1][good]
            return matrices, is_dead
        length = 0 if self.window == 0 else max(1, round(self.window / self.robot.period))
        logs = [
            Trajectory(str(i), self._command(told), motion.signals[i], motion.qpos[i],
                       motion.qvel[i]) for i, told in enumerate(targets)
        ]  # fmt: skip
        segments = cut(logs, length, self._simulator.held, self._simulator.ahead)
        std = freedom(self.robot)
        starts = np.zeros((len(segments.log), std.size))
        with jax.enable_x64(True):
            z = unconstrain(self.parameters, jnp.asarray(theta))
            given = (z, jnp.asarray(starts), segments, jnp.asarray(self._precision))
            linear = jax.tree.map(np.asarray, self._linearize(*given))
        matrices, is_dead = [], []
        for i in range(len(targets)):
            own = segments.log == i
            part = Linearization(*[leaf[own] for leaf in linear])
            # The residual itself is rounding.
            part = part._replace(residual=np.zeros_like(part.residual))
            matrices.append(reduce(part, starts[own], std, weight=self._worth).matrix)
            is_dead.append(np.abs(part.jacobian).max((0, 1, 2), initial=0.0) == 0)
        return np.array(matrices), np.array(is_dead)

    def predict(
        self, theta: Float[np.ndarray, " param"], targets: Float[np.ndarray, "excitation time nu"]
    ) -> list[Prediction]:
        """Return what logs of excitations would give, by the rules of the fit."""
        matrices, dead = self.information(theta, targets)
        prior = Prior(self.parameters, theta)
        names = np.array(self.parameters.names)
        found = []
        for matrix, is_dead in zip(matrices, dead, strict=True):
            with jax.enable_x64(True):
                posterior, weak = uncertainty.posterior(
                    self.parameters, prior.z, matrix + prior.precision, is_dead
                )
            gain = float(prior.gain(matrix))
            found.append(Prediction(gain, posterior, weak, tuple(names[is_dead].tolist())))
        return found

    def _command(self, targets: Float[np.ndarray, "time nu"]) -> Command:
        with jax.enable_x64(True):
            given = jax.vmap(self._simulator.nominal_command)(jnp.asarray(targets))
            return Command(*[np.asarray(leaf) for leaf in given])

    def _one(self, theta: Array, targets: Array) -> tuple[Array, Array, Array]:
        simulator = self._simulator
        physics = simulator.world(theta)
        physics = physics._replace(sensors=sensors.exact(physics.sensors))
        qpos, rest = (jnp.asarray(x, theta.dtype) for x in self._start)
        still = jnp.zeros(self.robot.model.nv, theta.dtype)
        state = simulator.init(physics, qpos, still, rest)

        def advance(state, target):
            now = (state.physics.qpos, state.physics.qvel, simulator.read(physics, state))
            return simulator.step(physics, state, simulator.nominal_command(target)), now

        return jax.lax.scan(advance, state, targets)[1]


class Prior:
    """What the bounds and priors say of z at one θ, before any log."""

    def __init__(self, parameters: ParameterSet, theta: Float[np.ndarray, " param"]):
        with jax.enable_x64(True):
            self.z = np.asarray(unconstrain(parameters, jnp.asarray(theta, jnp.float64)))
            self.precision = np.diag(uncertainty.prior_precision(parameters, self.z) ** 2)
            none = np.zeros(len(parameters), bool)
            spread, _ = uncertainty.posterior(parameters, self.z, self.precision, none)
        self._root = np.linalg.cholesky(spread.covariance)

    def gain(
        self, information: Float[np.ndarray, "*batch param param"]
    ) -> Float[np.ndarray, " *batch"]:
        """Return ½ ln det of the precision with the data over that without [nat]."""
        scaled = self._root.T @ information @ self._root
        sign, value = np.linalg.slogdet(np.eye(len(self.z)) + scaled)
        return np.where(sign > 0, 0.5 * value, -np.inf)


def noise_of(robot: Robot) -> tuple[Float[np.ndarray, " sensor"], Float[np.ndarray, " sensor"]]:
    """Return 1 / standard deviation of each signal's error, and what one of its rows is worth.

    A resolution counts as uniform noise of its width; a signal that is held between samples counts
    once a sample.

    Raises:
        BadValue: A signal of which nothing is declared.
    """
    precision, worth = [], []
    for signal in robot.signals:
        variance = signal.noise**2 + signal.quantum**2 / 12
        if variance == 0:
            expected = "a positive number: standard errors are predicted from it"
            raise BadValue(f"{robot.file}: signals: {signal.name}", "noise", 0.0, expected)
        precision += [variance**-0.5] * signal.size
        share = min(1.0, signal.rate * robot.period) if signal.rate > 0 else 1.0
        worth += [share] * signal.size
    return np.array(precision), np.array(worth)


def inside(
    parameters: ParameterSet, theta: Float[np.ndarray, "*draw param"]
) -> Float[np.ndarray, "*draw param"]:
    """Return θ moved off its bounds, where a fit could still go either way."""
    low, high = search_bounds(parameters, INSIDE)
    # Ends of a logit are inside already.
    keep = np.where(np.isinf(search_bounds(parameters)[0]), 0.0, INSIDE * (high - low))
    low, high = low + keep, high - keep
    rows = np.reshape(np.asarray(theta, dtype=float), (-1, len(parameters)))
    with jax.enable_x64(True):
        # A logit on its very bound is infinite until it is clipped.
        z = np.clip([unconstrain(parameters, jnp.asarray(row)) for row in rows], low, high)
        moved = np.array([constrain(parameters, jnp.asarray(row)) for row in z])
    return moved.reshape(np.shape(theta))


def draws(
    parameters: ParameterSet,
    count: int,
    seed: int,
    known: Posterior | None = None,
) -> Float[np.ndarray, "draw param"]:
    """Return θ that the machine may have: the expected one first, then random ones.

    Without a posterior, the start values and uniform draws within the bounds of the search
    coordinates. With one, its estimate and draws from it; what it does not know is drawn from the
    bounds.
    """
    rng = np.random.default_rng(seed)
    low, high = search_bounds(parameters, INSIDE)
    z = low + (high - low) * rng.random((count, len(parameters)))
    first = np.array(parameters.start)
    if known is not None:
        first = np.asarray(known.value)
        near = rng.multivariate_normal(known.mean, known.covariance, count, check_valid="ignore")
        z = np.where(known.identifiable, near, z)
    with jax.enable_x64(True):
        rows = np.clip(z, low, high)
        theta = np.array([constrain(parameters, jnp.asarray(row)) for row in rows])
    theta = np.clip(theta, parameters.low, parameters.high)
    return inside(parameters, np.concatenate([first[None], theta])[:count])


def corners(parameters: ParameterSet, count: int, seed: int) -> Float[np.ndarray, "draw param"]:
    """Return θ with every parameter at one of its bounds, drawn at random; see `inside`."""
    is_high = np.random.default_rng(seed).random((count, len(parameters))) < 0.5
    return inside(parameters, np.where(is_high, parameters.high, parameters.low))
