"""How many physics steps a second a robot makes on each engine, here and now.

    python -m s2r_jax.sim.bench ROBOT [--engines mujoco mjx] [--worlds 64 1024] [--budget 120]

Every world has its own θ. Compiling is timed apart from running, and so is the start of an episode,
in which every world gets a new θ. The fastest of several repetitions counts: other load on the
machine only ever slows it down.
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
from s2r_jax.sim import probe, world
from s2r_jax.sim.world import Simulator

#: θ is drawn within this share of the range on either side of the start: what training does.
SPREAD = 0.3
#: Deviation of the first speeds [rad/s, m/s].
SPEED = 0.1
#: Repetitions at least, and at most.
REPEATS = (2, 200)


class Ready(NamedTuple):
    """A compiled rollout that waits to be timed."""

    compile: float
    """Time to trace and compile [s]."""
    start: float
    """Time until all worlds have a new θ and have made their first control period [s]."""
    steps: int
    """Physics steps of all worlds in one run."""
    run: Callable[[], Any]


class Rate(NamedTuple):
    """What one simulator does with one number of worlds."""

    compile: float
    """Time to trace and compile [s]."""
    start: float
    """Time until all worlds have a new θ and have made their first control period [s]."""
    steps: float
    """Physics steps of all worlds [1/s], without compiling and starting."""


def ready(simulator: Simulator, worlds: int, periods: int) -> Ready:
    """Compile a batch of worlds under random commands.

    Args:
        simulator: Robot on an engine.
        worlds: Worlds side by side, each with its own θ.
        periods: Control periods in one run.
    """
    model, dtype = simulator.robot.model, jnp.float32
    # Worlds differ even without θ: the solver of a batch works until its slowest world is done.
    targets = probe.random_commands(simulator.robot, periods + worlds, seed=0)
    windows = np.arange(worlds)[:, None] + np.arange(periods)
    commands = jnp.asarray(targets[windows], dtype)
    speeds = np.random.default_rng(0).normal(scale=SPEED, size=(worlds, model.nv))
    qpos, qvel = jnp.asarray(model.qpos0, dtype), jnp.asarray(speeds, dtype)

    def begin(theta: Any, qvel: Any, commands: Any) -> Any:
        w = simulator.world(theta)
        state = simulator.init(w, qpos, qvel, commands[0])
        return w, simulator.step(w, state, simulator.nominal_command(commands[0]))

    def go_on(w: Any, state: Any, commands: Any) -> Any:
        def advance(state: Any, target: Any) -> Any:
            return simulator.step(w, state, simulator.nominal_command(target)), None

        return jax.lax.scan(advance, state, commands)[0]

    draws = [jnp.asarray(draw(simulator.parameters, worlds, seed), dtype) for seed in range(4)]
    before = time.perf_counter()
    start = (draws[0], qvel, commands)
    beginning = jax.jit(jax.vmap(begin)).lower(*start).compile()
    shapes = jax.eval_shape(jax.vmap(begin), *start)
    going_on = jax.jit(jax.vmap(go_on)).lower(*shapes, commands).compile()
    compiling = time.perf_counter() - before
    jax.block_until_ready(beginning(*start))
    starting = min(_seconds(beginning, theta, qvel, commands) for theta in draws[1:])
    batch = jax.block_until_ready(beginning(*start))
    work = worlds * periods * simulator.substeps
    return Ready(compiling, starting, work, lambda: going_on(*batch, commands))


def rates(candidates: Sequence[Ready], seconds: float) -> list[Rate]:
    """Time several rollouts in turn, so that other load on the machine meets them all alike.

    Args:
        candidates: Compiled rollouts.
        seconds: How long to repeat each [s]; at least twice.
    """
    for candidate in candidates:
        jax.block_until_ready(candidate.run())
    least, most = REPEATS
    times: list[list[float]] = [[] for _ in candidates]
    while len(times[0]) < least or (
        sum(map(sum, times)) < seconds * len(times) and len(times[0]) < most
    ):
        for candidate, taken in zip(candidates, times, strict=True):
            taken.append(_seconds(candidate.run))
    return [
        Rate(c.compile, c.start, c.steps / min(taken))
        for c, taken in zip(candidates, times, strict=True)
    ]


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
    parser.add_argument("--periods", type=int, default=20, help="control periods in one call")
    parser.add_argument("--budget", type=float, default=120.0, help="start nothing after this [s]")
    options = parser.parse_args(arguments)
    backend.prepare()
    begun = time.perf_counter()
    try:
        robot = robots.load(options.robot)
        print(f"{robot.name}: {len(robot.parameters)} parameters, {jax.devices()[0].device_kind}")
        print(f"{'engine':8} {'worlds':>7} {'steps/s':>12} {'new θ [s]':>10} {'compile [s]':>12}")
        for engine in options.engines:
            simulator = world.make(robot, engine)
            for worlds in options.worlds:
                if time.perf_counter() - begun > options.budget:
                    print(f"{engine:8} {worlds:7d} {'over budget':>12}")
                    continue
                (rate,) = rates([ready(simulator, worlds, options.periods)], seconds=1.0)
                print(
                    f"{engine:8} {worlds:7d} {rate.steps:12,.0f} {rate.start:10.3f} "
                    f"{rate.compile:12.1f}",
                    flush=True,
                )
    except S2RError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
