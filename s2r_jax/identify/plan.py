"""Choose the excitation to record next: the one that would say most about θ, within the limits.

D-optimal design: the mean over a few θ of ½ ln det of the posterior precision over that of the
bounds. Source: Pukelsheim, "Optimal Design of Experiments"; for robots Swevers et al., IEEE Trans.
Robotics and Automation 13 (1997) 730. No excitation is returned that was seen to break a limit.
"""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from s2r_jax.errors import BadValue
from s2r_jax.identify import evolution, excitation, margins
from s2r_jax.identify.evolution import Candidate
from s2r_jax.identify.information import Experiment, Motion, Prediction, Prior, corners, draws
from s2r_jax.identify.plan_config import PlanConfig
from s2r_jax.robot import Robot
from s2r_jax.types import Log, Posterior

#: Tries to bring an excitation within the limits by making it smaller.
REPAIRS = 4
#: Of the θ for which the limits must hold in the end, as many are looked at during the search.
WATCHED = 5
#: Smallest level at which a plain excitation is tried, on the scale of its coefficient.
LOWEST = 0.2
#: Sizes at which the verified plan is tried, should larger ones break a limit at some θ.
SIZES = tuple(0.9**k for k in range(16))


class Info(NamedTuple):
    """What a person or a log wants to see of one generation."""

    gain: float
    """Best so far [nat]."""
    share: float
    """Largest share of a limit that it uses."""
    allowed: int
    """Candidates of this generation within the limits."""
    spread: float
    """Step of the search in the unit cube."""


class Option(NamedTuple):
    """One excitation with all that is predicted of it."""

    family: str
    targets: Float[np.ndarray, "time nu"]
    """In the model's coordinates, in the unit of the motors' targets."""
    gain: float
    """Mean over the drawn θ [nat]."""
    prediction: Prediction
    """At the expected θ."""
    worst: Float[np.ndarray, " param"]
    """Largest standard error over the drawn θ: of a machine that is not the expected one."""
    motion: Motion
    """At the expected θ, without noise."""
    used: Float[np.ndarray, " limit"]
    """Largest share of each limit over all checked θ; see `margins.used`."""
    extremes: margins.Extremes
    """Over all checked θ."""


class Plan(NamedTuple):
    """The excitation to record next."""

    best: Option
    baselines: Mapping[str, Option | None]
    """Others of the same length at their best amplitude; None where none stays within limits."""
    theta: Float[np.ndarray, " param"]
    """At which standard errors are predicted."""
    pose: Float[np.ndarray, " nq"]
    limits: margins.Limits
    band: excitation.Band
    window: float
    checked: int
    """θ for which the limits held."""
    notes: tuple[str, ...]
    seconds: float

    def log(self, robot: Robot) -> Log:
        """Return the plan as a log: its commands, and the motion that is expected."""
        motion, channels = self.best.motion, {}
        for name, entries in robot.signal_slices.items():
            values = motion.signals[0][:, list(entries)]
            channels[name] = values[:, 0] if len(entries) == 1 else values
        for i, actuator in enumerate(robot.actuators):
            channels[f"command/{actuator}/target"] = self.best.targets[:, i]
        rows = np.arange(len(self.best.targets))
        return Log("excitation", rows * robot.period, channels)


Callback = Callable[[int, Info], None]


def plan(
    robot: Robot,
    config: PlanConfig,
    known: Posterior | None = None,
    callback: Callback | None = None,
) -> Plan:
    """Return the most informative excitation that stays within the robot's limits.

    Args:
        robot: Its parameters are to be identified.
        config: Length, frequencies, margin, effort.
        known: What earlier logs said; without it, θ may be anywhere within the bounds.
        callback: Called after every generation.

    Raises:
        BadModel: A robot without actuators.
        UnknownName: A joint to excite that does not exist.
        BadValue: A robot that does not say what is needed, or no excitation within the limits.
    """
    began = time.perf_counter()
    search = _Search(robot, config, known)
    plain = {
        "chirp": ("chirp", _plain_chirp(search.shape)),
        "random multisine": ("multisine", _flat_multisine(search.shape, config)),
    }
    # The search begins with what anybody would try first, and should not lose to it.
    chosen = search.verified(search.run([Candidate(*one) for one in plain.values()], callback))
    others = search.largest(list(plain.values()))
    for other in others:
        if other is not None and other.candidate.gain > chosen.candidate.gain:
            chosen = other
    option, *rest = search.options([chosen, *[other for other in others if other is not None]])
    baselines = dict.fromkeys(plain)
    baselines |= dict(
        zip([n for n, o in zip(plain, others, strict=True) if o is not None], rest, strict=True)
    )
    return Plan(
        option,
        baselines,
        search.thetas[0],
        search.pose,
        search.limits,
        search.band,
        search.experiment.window,
        len(search.checks),
        (*search.notes, *_notes(robot, search.limits)),
        time.perf_counter() - began,
    )


class _Checked(NamedTuple):
    """A candidate that keeps the limits at every θ looked at."""

    candidate: Candidate
    used: Float[np.ndarray, " limit"]
    extremes: margins.Extremes


class _Search:
    """Everything that is simulated of one robot, and the candidates seen."""

    def __init__(self, robot: Robot, config: PlanConfig, known: Posterior | None):
        self.robot, self.config = robot, config
        self.limits = margins.limits(robot)
        self.pose, self.notes = excitation.pose(robot, config.margin)
        self.band = excitation.band(robot, self.pose, config)
        self.grid = excitation.grid(robot, config)
        self.shape = (robot.model.nu, excitation.genes(config))
        self.experiment = Experiment(robot, self.pose, self.band.rest, config.window)
        self.response = margins.Response(robot, self.pose, self.band.rest)
        parameters = robot.parameters
        self.thetas = draws(parameters, config.draws, config.seed, known)
        further = draws(parameters, config.checks + 1, config.seed + 1, known)[1:]
        if known is None:
            # What is fastest, heaviest, weakest sits in the corners: every other θ is one.
            further[::2] = corners(parameters, len(further[::2]), config.seed)
        self.checks = np.concatenate([self.thetas, further])
        self.priors = [Prior(parameters, theta) for theta in self.thetas]
        self.is_angle = np.array([target == "angle" for target in robot.motors.targets])
        self.most = 1 - config.margin

    def run(self, begin: list[Candidate], callback: Callback | None) -> list[Candidate]:
        """Return the candidates seen, best first; those to begin with are among the first."""
        config, rng = self.config, np.random.default_rng(self.config.seed)
        families = tuple(excitation.FAMILIES)
        count = config.population - len(begin)
        new = [*begin, *evolution.first(families, count, self.shape, rng)]
        # The θ at which most comes near its limits; all of them count in the end.
        near = margins.used(self.limits, self.response(self.checks, self.targets(new))).max(-1)
        near = np.minimum(near, 2.0)  # one that diverges should not be all that counts
        watched = self.checks[np.argsort(-near.mean(0), kind="stable")[:WATCHED]]
        seen: list[Candidate] = []
        step = evolution.STEP
        for generation in range(1, config.generations + 1):
            new = self._judged(self._repaired(new, watched))
            before = seen[0].gain if seen else -np.inf
            seen = evolution.ranked([*seen, *new], self.most)
            is_better = seen[0].gain > before
            step *= evolution.LONGER if is_better else evolution.SHORTER
            if callback is not None:
                allowed = sum(c.share <= self.most for c in new)
                callback(generation, Info(seen[0].gain, seen[0].share, allowed, step))
            new = evolution.children(seen, config.population, step, rng)
        return seen

    def targets(self, candidates: list[Candidate]) -> Float[np.ndarray, "candidate time nu"]:
        """Return the commands of candidates."""
        return np.stack(
            [
                excitation.commands(
                    c.family, c.coefficients, self.grid, self.band, self.most * self.limits.rate
                )
                for c in candidates
            ]
        )

    def used(
        self, candidates: list[Candidate], thetas: Float[np.ndarray, "draw param"]
    ) -> tuple[Float[np.ndarray, "candidate limit"], margins.Extremes]:
        """Return the largest shares of limits over θ, that of commands last, and the extremes."""
        targets = self.targets(candidates)
        reached = self.response(thetas, targets)
        shares = margins.used(self.limits, reached).max(1)
        told = margins.used_by_commands(self.limits, targets, self.is_angle, self.robot.period)
        worst = margins.Extremes(
            reached.low.min(1), reached.high.max(1), reached.speed.max(1), reached.torque.max(1)
        )
        return np.concatenate([shares, told[:, None]], axis=1), worst

    def verified(self, candidates: list[Candidate]) -> _Checked:
        """Return the best candidate, each made so small that it keeps the limits at all θ."""
        top = self._padded(candidates[: self.config.population])
        fitting: list[_Checked | None] = [None] * len(top)
        worst = np.zeros(0)
        for size in SIZES:
            tried = [evolution.shrunk(c, size) for c in top]
            shares, reached = self.used(tried, self.checks)
            for k, share in enumerate(shares):
                if fitting[k] is None and share.max() <= self.most:
                    fitting[k] = _Checked(tried[k], share, _row(reached, k))
            worst = shares[np.argmin(shares.max(1))]
            if all(one is not None for one in fitting):
                break
        good = [one for one in fitting if one is not None]
        if good:
            judged = self._judged(self._padded([one.candidate for one in good]))
            at = int(np.argmax([c.gain for c in judged[: len(good)]]))
            if np.isfinite(judged[at].gain):
                return good[at]._replace(candidate=judged[at])
        raise self._impossible(worst)

    def largest(self, plain: list[tuple[str, np.ndarray]]) -> list[_Checked | None]:
        """Return plain excitations at the amplitude that says most within the limits.

        Args:
            plain: Family and coefficients of each; None in the result where no amplitude fits.
        """
        count = self.config.population // len(plain)
        tried = []
        for family, coefficients in plain:
            for level in np.linspace(1.0, LOWEST, count):
                own = coefficients.copy()
                own[:, 0] = level
                tried.append(Candidate(family, own))
        padded = self._padded(tried)
        shares, reached = self.used(padded, self.checks)
        gains = np.array([c.gain for c in self._judged(padded)])
        gains = np.where(shares.max(1) <= self.most, gains, -np.inf)
        found: list[_Checked | None] = []
        for k in range(len(plain)):
            at = k * count + int(np.argmax(gains[k * count : (k + 1) * count]))
            one = padded[at]._replace(gain=float(gains[at]))
            is_good = np.isfinite(gains[at])
            found.append(_Checked(one, shares[at], _row(reached, at)) if is_good else None)
        return found

    def options(self, checked: list[_Checked]) -> list[Option]:
        """Return what is predicted of excitations that keep the limits."""
        theta = self.thetas[0]
        targets = self.targets(self._padded([one.candidate for one in checked]))
        motion = self.experiment.motion(theta, targets)
        predictions = self.experiment.predict(theta, targets)
        found = [predictions, *[self.experiment.predict(t, targets) for t in self.thetas[1:]]]
        worst = np.max([[p.posterior.std for p in of_theta] for of_theta in found], axis=0)
        return [
            Option(
                one.candidate.family,
                targets[k],
                one.candidate.gain,
                predictions[k],
                worst[k],
                Motion(*[leaf[k : k + 1] for leaf in motion]),
                one.used,
                one.extremes,
            )
            for k, one in enumerate(checked)
        ]

    def _padded(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return as many candidates as ever, so that nothing is compiled anew."""
        return [*candidates, *[candidates[0]] * (self.config.population - len(candidates))]

    def _repaired(
        self, candidates: list[Candidate], watched: Float[np.ndarray, "draw param"]
    ) -> list[Candidate]:
        """Return candidates made smaller until they keep the limits, as far as that goes."""
        for attempt in range(REPAIRS + 1):
            shares = self.used(candidates, watched)[0].max(1)
            if (shares <= self.most).all() or attempt == REPAIRS:
                break
            # A motion grows about as its command does; a step of half is plenty at a time.
            factors = np.where(
                shares > self.most, np.clip(0.98 * self.most / shares, 0.4, 0.95), 1.0
            )
            candidates = [
                c if factor == 1.0 else evolution.shrunk(c, float(factor))
                for c, factor in zip(candidates, factors, strict=True)
            ]
        return [c._replace(share=float(s)) for c, s in zip(candidates, shares, strict=True)]

    def _judged(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return candidates with their gain."""
        targets = self.targets(candidates)
        gains = np.zeros(len(candidates))
        for theta, prior in zip(self.thetas, self.priors, strict=True):
            matrices, _ = self.experiment.information(theta, targets)
            calm = np.asarray(np.isfinite(matrices).all((1, 2)))
            found = prior.gain(np.where(calm[:, None, None], matrices, 0.0))
            gains += np.where(calm, found, -np.inf) / len(self.thetas)
        return [c._replace(gain=float(g)) for c, g in zip(candidates, gains, strict=True)]

    def _impossible(self, worst: np.ndarray) -> BadValue:
        names = limit_names(self.robot, self.limits)
        at = int(np.argmax(worst))
        share = "leaves it" if np.isinf(worst[at]) else f"uses {worst[at]:.0%} of it"
        found = f"no excitation within it: even the smallest one tried {share} at some θ"
        expected = f"room for motion within {self.most:.0%} of every limit, for θ within its bounds"
        return BadValue(f"{self.robot.file}: limits", names[at], found, expected)


def limit_names(robot: Robot, limits: margins.Limits) -> list[str]:
    """Return what the entries of `Option.used` are."""
    names = [f"position of {name}" for name in limits.joints]
    names += [f"speed of {name}" for name in limits.joints]
    names += [f"torque of {joint.name}" for joint in robot.joints]
    return [*names, "rate of commands"]


def _row(extremes: margins.Extremes, at: int) -> margins.Extremes:
    return margins.Extremes(*[leaf[at] for leaf in extremes])


def _plain_chirp(shape: tuple[int, int]) -> np.ndarray:
    """Return the sweep that anybody would try: all joints alike, slow to fast, about the middle."""
    coefficients = np.full(shape, 0.5)
    coefficients[:, 0] = 1.0
    coefficients[:, excitation.HEAD : excitation.HEAD + 3] = 0.0, 1.0, 0.0
    return coefficients


def _flat_multisine(shape: tuple[int, int], config: PlanConfig) -> np.ndarray:
    """Return a sum of equal sines with random phases, about the middle."""
    coefficients = np.ones(shape)
    phases = np.random.default_rng(config.seed).random((shape[0], config.harmonics))
    coefficients[:, 1] = 0.5
    coefficients[:, excitation.HEAD + config.harmonics :] = phases
    return coefficients


def _notes(robot: Robot, limits: margins.Limits) -> tuple[str, ...]:
    """Return what is not limited, and what else a person should know before pressing the button."""
    notes = []
    if robot.start_std == (0, 0):
        notes.append(
            "windows start as measured (no identify: position_std, velocity_std): the noise of the "
            "start is an error that these standard errors do not hold"
        )
    driven = [joint.name for joint in robot.joints]
    rows = [limits.joints.index(name) for name in driven if name in limits.joints]
    open_ended = [limits.joints[r] for r in rows if not np.isfinite(limits.high - limits.low)[r]]
    unlimited = {
        "position": open_ended,
        "speed": [limits.joints[r] for r in rows if np.isinf(limits.speed[r])],
        "torque": [n for n, t in zip(driven, limits.torque, strict=True) if np.isinf(t)],
    }
    for what, names in unlimited.items():
        if names:
            notes.append(
                f"no limit on the {what} of {', '.join(names)} is known: robot.yaml's joints can "
                "set one"
            )
    if robot.pushed is not None:
        notes.append("the base is free in this model: the plan holds for a machine that stands so")
    return tuple(notes)
