"""How many physics steps a second a robot makes on each engine, here and now.

    python -m s2r_jax.sim.bench ROBOT [--engines mujoco mjx] [--worlds 64 1024] [--budget 120]

Every world has its own θ. Compiling is timed apart from running, and so is the start of an episode,
in which every world gets a new θ. Of several runs, as long as the time given allows, the median
counts; the spread stands beside it.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from s2r_jax import backend
from s2r_jax import robot as robots
from s2r_jax.errors import S2RError
from s2r_jax.parameters import ParameterSet
from s2r_jax.robot import Robot
from s2r_jax.sim import probe, world
from s2r_jax.sim.world import Simulator

#: θ is drawn within this share of the range on either side of the start: what training does.
SPREAD = 0.3
#: Deviation of the first speeds [rad/s, m/s].
SPEED = 0.1
#: Runs at least, and at most.
REPEATS = (5, 15)
#: Control periods after which the random commands begin anew.
COMMANDS = 32


class Ready(NamedTuple):
    """A compiled rollout that waits to be timed."""

    compile: float
    """Time to trace and compile [s]."""
    start: Callable[[int], Any]
    """Gives all worlds a new θ, of that seed, and makes their first control period."""
    run: Callable[[int], Any]
    """Makes so many control periods from there."""
    steps: int
    """Physics steps of all worlds in one control period."""


class Rate(NamedTuple):
    """What one simulator does with one number of worlds."""

    compile: float
    """Time to trace and compile [s]."""
    start: float
    """Time until all worlds have a new θ and have made their first control period [s]."""
    steps: float
    """Physics steps of all worlds [1/s], without compiling and starting; median of the runs."""
    spread: float
    """Half the range between the quartiles of the runs, as a share of the median."""
    seconds: tuple[float, ...]
    """Time of one physics step of one world in each run [s]."""


class Scene(NamedTuple):
    """How all worlds start, and what they are told."""

    qpos: Float[np.ndarray, " nq"]
    """Start, the same for all."""
    qvel: Float[np.ndarray, "world nv"]
    """First speeds [rad/s, m/s]."""
    commands: Float[np.ndarray, "period world nu"]
    """Random commands within the robot's limits; after the last, the first again."""


def scene(robot: Robot, worlds: int) -> Scene:
    """Return a start in which worlds differ even without θ.

    The solver of a batch works until its slowest world is done.
    """
    targets = probe.random_commands(robot, COMMANDS + worlds, seed=0)
    windows = np.arange(COMMANDS)[:, None] + np.arange(worlds)
    speeds = np.random.default_rng(0).normal(scale=SPEED, size=(worlds, robot.model.nv))
    return Scene(np.array(robot.model.qpos0), speeds, targets[windows])


def ready(simulator: Simulator, worlds: int) -> Ready:
    """Compile a batch of worlds under random commands, for any number of control periods.

    Args:
        simulator: Robot on an engine.
        worlds: Worlds side by side, each with its own θ.
    """
    dtype = jnp.float32
    qpos, qvel, commands = (jnp.asarray(x, dtype) for x in scene(simulator.robot, worlds))

    def begin(theta: Any, qvel: Any, first: Any) -> Any:
        w = simulator.world(theta)
        return w, simulator.init(w, qpos, qvel, first)

    def go_on(w: Any, state: Any, commands: Any, periods: Any) -> Any:
        def advance(period: Any, state: Any) -> Any:
            def one(w: Any, state: Any, target: Any) -> Any:
                return simulator.step(w, state, simulator.nominal_command(target))

            return jax.vmap(one)(w, state, commands[period % COMMANDS])

        return jax.lax.fori_loop(0, periods, advance, state)

    def theta(seed: int) -> Any:
        return jnp.asarray(draw(simulator.parameters, worlds, seed), dtype)

    before = time.perf_counter()
    opening = jax.jit(jax.vmap(begin)).lower(theta(0), qvel, commands[0]).compile()
    batch = opening(theta(0), qvel, commands[0])
    going_on = jax.jit(go_on).lower(*batch, commands, 1).compile()
    compiling = time.perf_counter() - before

    def start(seed: int) -> Any:
        return going_on(*opening(theta(seed), qvel, commands[0]), commands, 1)

    work = worlds * simulator.substeps
    return Ready(compiling, start, lambda periods: going_on(*batch, commands, periods), work)


def rates(candidates: Sequence[Ready], seconds: float) -> list[Rate]:
    """Time several rollouts in turn, so that other load on the machine meets them all alike.

    Args:
        candidates: Compiled rollouts.
        seconds: How long to run each [s], in all; `REPEATS[0]` times at least, of one period each.
    """
    least, most = REPEATS
    slowest, starts = 0.0, []
    for candidate in candidates:
        jax.block_until_ready(candidate.run(1))
        slowest = max(slowest, min(_seconds(candidate.run, 1) for _ in range(2)))
        jax.block_until_ready(candidate.start(0))
        starts.append(min(_seconds(candidate.start, seed) for seed in (1, 2)))
    periods = max(1, int(seconds / most / max(slowest, 1e-9)))  # the same motion for all
    times: list[list[float]] = [[] for _ in candidates]
    end = time.perf_counter() + seconds * len(candidates)
    while len(times[0]) < least or (time.perf_counter() < end and len(times[0]) < most):
        turn = list(range(len(candidates)))
        # forwards and backwards: a load that grows favours nobody
        for i in turn if len(times[0]) % 2 == 0 else turn[::-1]:
            taken = _seconds(candidates[i].run, periods)
            times[i].append(taken / (periods * candidates[i].steps))
    return [
        _rate(candidate, start, taken)
        for candidate, start, taken in zip(candidates, starts, times, strict=True)
    ]


def _rate(candidate: Ready, start: float, taken: Sequence[float]) -> Rate:
    low, middle, high = np.quantile(1 / np.array(taken), (0.25, 0.5, 0.75))
    spread = (high - low) / 2 / middle
    return Rate(candidate.compile, start, float(middle), float(spread), tuple(taken))


def draw(parameters: ParameterSet, worlds: int, seed: int) -> Float[np.ndarray, "world param"]:
    """Return a θ for each world, near the start and within the bounds."""
    start, low, high = (
        np.array(getattr(parameters, key), dtype=float) for key in ("start", "low", "high")
    )
    share = np.random.default_rng(seed).uniform(-SPREAD, SPREAD, (worlds, len(parameters)))
    return np.clip(start + share * (high - low), low, high)


def _seconds(run: Callable[..., Any], *arguments: Any) -> float:
    before = time.perf_counter()
    jax.block_until_ready(run(*arguments))
    return time.perf_counter() - before


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rates of a robot folder."""
    parser = argparse.ArgumentParser(prog="python -m s2r_jax.sim.bench")
    parser.add_argument("robot", help="robot folder")
    parser.add_argument("--engines", nargs="+", default=["mujoco", "mjx"])
    parser.add_argument("--worlds", nargs="+", type=int, default=[64, 1024])
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to run each [s]")
    parser.add_argument("--budget", type=float, default=120.0, help="start nothing after this [s]")
    options = parser.parse_args(arguments)
    backend.prepare()
    begun = time.perf_counter()
    try:
        robot = robots.load(options.robot)
        print(f"{robot.name}: {len(robot.parameters)} parameters, {jax.devices()[0].device_kind}")
        print(f"{'engine':8} {'worlds':>7} {'steps/s':>21} {'new θ [s]':>10} {'compile [s]':>12}")
        for engine in options.engines:
            simulator = world.make(robot, engine)
            for worlds in options.worlds:
                if time.perf_counter() - begun > options.budget:
                    print(f"{engine:8} {worlds:7d} {'over budget':>12}")
                    continue
                (rate,) = rates([ready(simulator, worlds)], options.seconds)
                print(
                    f"{engine:8} {worlds:7d} {rate.steps:12,.0f} ± {100 * rate.spread:4.1f} % "
                    f"{rate.start:10.3f} {rate.compile:12.1f}",
                    flush=True,
                )
    except S2RError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
