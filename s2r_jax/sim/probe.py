"""Which parameters move the signals, how far, and which move them alike.

Each parameter alone goes to its lower and its upper bound, the others stay at the start; the same
short rollout under random commands tells how the readings change. All worlds run in one call. Small
steps about the start give a Jacobian, whose parallel columns no fit to such a motion can tell
apart.
What a motion does not excite, it does not show: a contact never made, a limit never reached.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from s2r_jax.parameters import Effect, ParameterSet
from s2r_jax.robot import Robot
from s2r_jax.sim import sensors
from s2r_jax.sim.world import Simulator

#: Step of the differences, as a share of the range; with contact larger ones are wrong themselves.
STEP = 1e-5
#: Columns of the Jacobian with a cosine beyond this differ by less than any model is wrong.
ALIKE = 0.99
#: Parts of a combination below this share of the largest go unnamed.
SMALLEST_PART = 0.3
#: Time [s] a random command is held: long enough for a joint to follow.
HOLD = 0.1


class Reach(NamedTuple):
    """How far one parameter moves the signals of one engine between its bounds."""

    name: str
    engine: str
    size: dict[str, float]
    """Root mean square of the change for each kind of signal.

    Counted in standard deviations of its noise and quantum, or, where it has neither, in parts of
    how far the signal moves by itself.
    """
    is_finite: bool
    """Whether the world stays finite at both bounds."""

    @property
    def acts(self) -> bool:
        """Whether any reading changes at all."""
        return not self.is_finite or any(value > 0 for value in self.size.values())


class Alike(NamedTuple):
    """Parameters that one motion cannot tell apart."""

    names: tuple[str, ...]
    cosine: float
    """Between the first one's effect and the nearest mix of the others; ±1 for exactly alike."""
    words: str


class Probe(NamedTuple):
    """What a probe found, parameters in the order of θ."""

    reaches: tuple[Reach, ...]
    alike: tuple[Alike, ...]


def probe(simulator: Simulator, seconds: float = 1.0, seed: int = 0) -> Probe:
    """Move every parameter across its range on a simulator's engine, in float64.

    Args:
        simulator: Robot on an engine.
        seconds: Length of the rollout [s]; starts at rest in qpos0.
        seed: Of the commands and of the sensor noise, which is the same in all worlds.
    """
    parameters, count = simulator.parameters, len(simulator.parameters)
    steps = max(1, round(seconds / simulator.robot.period))
    start, low, high = (
        np.array(getattr(parameters, key), dtype=float) for key in ("start", "low", "high")
    )
    step = STEP * (high - low)
    below, above = np.maximum(start - step, low), np.minimum(start + step, high)
    thetas = np.concatenate([start[None], *(_each(start, v) for v in (low, high, below, above))])
    with jax.enable_x64(True):
        commands = jnp.asarray(random_commands(simulator.robot, steps, seed))
        one = _rollout(simulator, commands, jax.random.key(seed))
        exact, read = (np.asarray(x) for x in jax.jit(jax.vmap(one))(jnp.asarray(thetas)))
    unit = _units(simulator.robot, exact[0])
    reaches = []
    for i, name in enumerate(parameters.names):
        ends = [1 + i, 1 + count + i]
        change = np.abs(exact[ends] - exact[0]).max(axis=0)
        if not change.any():  # only noise and quantum themselves act on the readings alone
            change = np.abs(read[ends] - read[0]).max(axis=0)
        is_finite = bool(np.isfinite(change).all())
        size = _by_kind(simulator.robot, np.sqrt(np.mean((change / unit) ** 2, axis=0)))
        reaches.append(Reach(name, simulator.engine.name, size, is_finite))
    slope = exact[1 + 3 * count :] - exact[1 + 2 * count : 1 + 3 * count]
    share = (above - below) / (high - low)
    columns = (slope / unit / share[:, None, None]).reshape(count, exact[0].size).T
    return Probe(tuple(reaches), alike(parameters.names, columns))


def random_commands(robot: Robot, steps: int, seed: int) -> Float[np.ndarray, "time nu"]:
    """Return random targets within the robot's limits, each held for a tenth of a second.

    Args:
        robot: Its joints say what a command may ask for; native motors also have `ctrlrange`.
        steps: Control periods.
        seed: Of the draws.
    """
    rows = [(j.default, j.action_scale, j.low, j.high) for j in robot.joints]
    default, scale, low, high = np.array(rows, dtype=float).reshape(-1, 4).T
    action = np.random.default_rng(seed).uniform(-1, 1, (steps, len(rows)))
    hold = max(1, round(HOLD / robot.period))
    targets = np.clip(default + scale * action[np.arange(steps) // hold], low, high)
    if robot.motors.kind != "native":
        return targets
    is_limited = robot.model.actuator_ctrllimited.astype(bool)
    bottom, top = robot.model.actuator_ctrlrange.T
    return np.where(is_limited, np.clip(targets, bottom, top), targets)


def alike(names: tuple[str, ...], columns: Float[np.ndarray, "reading param"]) -> tuple[Alike, ...]:
    """Return the parameters whose effects are parallel, and those that are mixes of others.

    Args:
        names: Of the parameters.
        columns: Jacobian of the readings in units of their noise, one column a parameter.
    """
    size = np.linalg.norm(columns, axis=0)
    live = np.flatnonzero(np.isfinite(size) & (size > 0))
    unit = columns[:, live] / size[live]
    cosines = unit.T @ unit
    found, kept = [], []
    for i in range(len(live)):
        twin = next((j for j in kept if abs(cosines[i, j]) > ALIKE), None)
        if twin is None:
            kept.append(i)
            continue
        pair, cosine = (names[live[twin]], names[live[i]]), float(cosines[i, twin])
        way = "alike" if cosine > 0 else "in opposite ways"
        words = f"{pair[0]} and {pair[1]} move the signals {way} (cosine {cosine:.4f})"
        found.append(Alike(pair, cosine, words))
    return (*found, *_mixes([names[i] for i in live[kept]], unit[:, kept]))


def select(parameters: ParameterSet, names: tuple[str, ...]) -> ParameterSet:
    """Return the parameter set with these names only, in the order that it has."""
    keep = [i for i, name in enumerate(parameters.names) if name in names]
    place = {old: new for new, old in enumerate(keep)}
    effects = []
    for effect in parameters.effects:
        rows = [
            (index, place[param], coefficient)
            for index, param, coefficient in zip(*effect[2:], strict=True)
            if param in place
        ]
        if rows:
            indices, params, coefficients = zip(*rows, strict=True)
            effects.append(Effect(effect.field, effect.operation, indices, params, coefficients))
    columns = {
        key: tuple(getattr(parameters, key)[i] for i in keep)
        for key in ("names", "low", "high", "nominal", "start", "prior_std", "transforms", "units")
    }
    return ParameterSet(**columns, effects=tuple(effects))


def _each(start: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return one θ a parameter, in which that one has another value."""
    return np.where(np.eye(start.size, dtype=bool), value, start)


def _rollout(simulator: Simulator, commands: Array, key: Any) -> Any:
    """Return a function from θ to exact readings and to readings with noise and quantum."""
    keys = jax.random.split(key, len(commands))
    qpos = jnp.asarray(simulator.robot.model.qpos0)
    qvel = jnp.zeros(simulator.robot.model.nv)

    def one(theta: Float[Array, " param"]) -> tuple[Array, Array]:
        world = simulator.as_logged(simulator.world(theta))
        smooth = world._replace(sensors=sensors.exact(world.sensors))
        state = simulator.init(world, qpos, qvel, commands[0])

        def advance(state: Any, row: Any) -> Any:
            target, key = row
            state = simulator.step(world, state, simulator.nominal_command(target))
            readings = simulator.read(smooth, state), simulator.read(world, state, key)
            return state, readings

        return jax.lax.scan(advance, state, (commands, keys))[1]

    return one


def _units(robot: Robot, exact: Float[np.ndarray, "time sensor"]) -> Float[np.ndarray, " sensor"]:
    """Return in what each reading is counted: noise and quantum, or else its own spread."""
    sizes = [signal.size for signal in robot.signals]
    noise = np.repeat([s.noise for s in robot.signals], sizes)
    quantum = np.repeat([s.quantum for s in robot.signals], sizes)
    known = np.sqrt(noise**2 + quantum**2 / 12)  # a uniform error of one quantum
    spread = exact.std(axis=0)
    unit = np.where(known > 0, known, spread)
    return np.where(unit > 0, unit, 1.0)


def _by_kind(robot: Robot, size: Float[np.ndarray, " sensor"]) -> dict[str, float]:
    """Return the root mean square over all entries of a kind, such as `joint position`."""
    kinds: dict[str, list[float]] = {}
    for signal in robot.signals:
        entries = robot.signal_slices[signal.name]
        kind = f"{signal.kind} {signal.attribute or signal.element}"
        kinds.setdefault(kind, []).extend(float(size[e]) for e in entries)
    return {kind: float(np.sqrt(np.mean(np.square(v)))) for kind, v in kinds.items()}


def _mixes(names: list[str], unit: Float[np.ndarray, "reading param"]) -> list[Alike]:
    """Return the columns that are mixes of the others, found by QR with pivoting."""
    if len(names) < 3:
        return []
    upper, order = scipy.linalg.qr(unit, mode="r", pivoting=True)[:2]
    upper = upper[: len(names)]
    rest = np.abs(np.diag(upper))  # what of each column the columns before it do not explain
    rank = int((rest > np.sqrt(1 - ALIKE**2)).sum())
    found = []
    for column in range(rank, len(names)):
        parts = scipy.linalg.solve_triangular(upper[:rank, :rank], upper[:rank, column])
        explained = float(np.linalg.norm(upper[:rank, column]))
        big = np.flatnonzero(np.abs(parts) >= SMALLEST_PART * np.abs(parts).max())
        mixed = tuple(names[order[i]] for i in big)
        name = names[order[column]]
        words = (
            f"{name} moves the signals like a mix of {', '.join(mixed)} (cosine {explained:.4f})"
        )
        found.append(Alike((name, *mixed), explained, words))
    return found
