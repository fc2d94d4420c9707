"""Physics steps a second: our worlds with and without θ, beside bare `mjx.step` and `mujoco.batch`.

    python benchmarks/throughput.py [--quick | --gpu] [--budget 360]

Models: a pendulum, an ant (nv 14) and a quadruped with servos (nv 18), all standing or swinging
under random commands; 64, 1024 and 8192 worlds. `bare` steps the same model with the engine's own
API and nothing around it: jit(vmap(scan(mjx.step))), or `Batch.step`. `0 θ` and `20 θ` are this
package's worlds (command line, sensors, history) with so many parameters, all different in every
world. `randomising` compares the two; the time in which all worlds get a new θ is spread over an
episode of 1000 steps and included.

What the budget does not allow is printed as `over budget`. `--quick` is one small model, for CI;
`--gpu` times `mjx` and `warp` with more worlds.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import mujoco
import numpy as np
from mujoco import mjx
from mujoco.batch import Batch

from s2r_jax import backend, robot
from s2r_jax.robot import Robot
from s2r_jax.sim import bench, world

SUBSTEPS = 4
#: Physics steps of all worlds in one call: enough to drown the call itself, few enough to finish.
WORK = 40_000
#: Steps of an episode, over which the cost of a new θ is spread.
EPISODE = 1000
#: What a cell is expected to compile for [s] at most; none starts with less time left.
COMPILE = {"mujoco": 5.0, "mjx": 40.0, "warp": 60.0}

PENDULUM = """
<mujoco><option timestep="0.005"/><worldbody><body name="pole"><joint name="hinge" axis="0 1 0"
damping="0.02" armature="0.001"/><geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02"
mass="0.4"/></body></worldbody>
<actuator><motor name="hinge" joint="hinge" ctrlrange="-1 1"/></actuator></mujoco>
"""

LEGGED = """
<mujoco><compiler angle="radian"/><option timestep="0.005" iterations="4" ls_iterations="8"/>
<default><geom contype="0" conaffinity="0" density="800"/>
<joint damping="{damping}" armature="0.01" range="-1.5 1.5"/></default>
<worldbody><geom name="floor" type="plane" size="50 50 1" contype="1" conaffinity="1"/>
<body name="torso" pos="0 0 {height}"><freejoint name="root"/>{torso}{legs}</body></worldbody>
<actuator>{actuators}</actuator></mujoco>
"""
FOOT = '<geom name="{n}_foot" type="sphere" size="0.03" pos="{x} {y} {z}" contype="1"/>'
SIDES = {"fl": (1, 1), "fr": (1, -1), "bl": (-1, 1), "br": (-1, -1)}


def ant() -> str:
    """Return a torso on four legs of two joints, driven by torques."""
    legs, actuators = "", ""
    for n, (x, y) in SIDES.items():
        foot = FOOT.format(n=n, x=0.2 * x, y=0.2 * y, z=-0.2)
        legs += (
            f'<body name="{n}_hip" pos="{0.15 * x} {0.15 * y} 0"><joint name="{n}_hip" axis="0 0 1"'
            f'/><geom type="capsule" size="0.03" fromto="0 0 0 {0.15 * x} {0.15 * y} 0"/>'
            f'<body name="{n}_ankle" pos="{0.15 * x} {0.15 * y} 0"><joint name="{n}_ankle" '
            f'axis="{-y} {x} 0"/><geom type="capsule" size="0.03" fromto="0 0 0 {0.2 * x} '
            f'{0.2 * y} -0.2"/>{foot}</body></body>'
        )
        for joint in ("hip", "ankle"):
            actuators += f'<motor name="{n}_{joint}" joint="{n}_{joint}" ctrlrange="-1 1"/>'
    torso = '<geom type="sphere" size="0.15"/>'
    return LEGGED.format(damping=0.5, height=0.26, torso=torso, legs=legs, actuators=actuators)


def quadruped() -> str:
    """Return a box on four legs of three joints, driven by position servos."""
    legs, actuators = "", ""
    for n, (x, y) in SIDES.items():
        foot = FOOT.format(n=n, x=0, y=0, z=-0.2)
        legs += (
            f'<body name="{n}_hip" pos="{0.2 * x} {0.1 * y} 0"><joint name="{n}_hip" axis="1 0 0"/>'
            '<geom type="sphere" size="0.04"/>'
            f'<body name="{n}_thigh" pos="0 {0.05 * y} 0"><joint name="{n}_thigh" axis="0 1 0"/>'
            '<geom type="capsule" size="0.025" fromto="0 0 0 0 0 -0.2"/>'
            f'<body name="{n}_calf" pos="0 0 -0.2"><joint name="{n}_calf" axis="0 1 0"/>'
            f'<geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.2"/>{foot}</body></body></body>'
        )
        for joint in ("hip", "thigh", "calf"):
            actuators += (
                f'<position name="{n}_{joint}" joint="{n}_{joint}" kp="30" kv="0.5" '
                'ctrlrange="-0.3 0.3"/>'
            )
    torso = '<geom type="box" size="0.22 0.1 0.06"/>'
    return LEGGED.format(damping=0.1, height=0.44, torso=torso, legs=legs, actuators=actuators)


#: Name -> (MJCF, parameters in the order in which they are taken).
MODELS: dict[str, tuple[Callable[[], str], tuple[str, ...]]] = {
    "pendulum": (
        lambda: PENDULUM,
        ("body/pole/mass, bounds: [0.3, 0.5]", "joint/hinge/damping, bounds: [0.01, 0.1]",
         "joint/hinge/armature, bounds: [1.0e-4, 0.01]", "actuator/hinge/gear, bounds: [0.8, 1.2]",
         "option/gravity:2, bounds: [-10, -9.6]", "body/pole/pos:2, bounds: [-0.1, 0.1]",
         "motor/hinge/strength, bounds: [0.8, 1.2]"),
    ),
    "ant": (
        ant,
        ("body/*/mass, bounds: [0.8, 1.25], operation: scale",
         "joint/*_*/damping, bounds: [0.5, 2], operation: scale",
         "geom/floor/friction, bounds: [0.4, 1.2]", "option/gravity:2, bounds: [-10, -9.6]",
         "joint/*_ankle/armature, bounds: [0.5, 2], operation: scale, share: true"),
    ),
    "quadruped": (
        quadruped,
        ("body/*_*/mass, bounds: [0.8, 1.25], operation: scale",
         "actuator/*_thigh/kp, bounds: [0.8, 1.2], operation: scale",
         "geom/floor/friction, bounds: [0.4, 1.2]", "option/gravity:2, bounds: [-10, -9.6]",
         "joint/*_*/damping, bounds: [0.5, 2], operation: scale, share: true",
         "joint/*_*/armature, bounds: [0.5, 2], operation: scale, share: true"),
    ),
}  # fmt: skip


class Cell(NamedTuple):
    """One measurement to be made."""

    model: str
    engine: str
    worlds: int
    what: str
    """bare, 0 θ or 20 θ."""


def load(name: str, folder: Path, with_parameters: bool) -> Robot:
    """Return one of the models as a robot."""
    build, parameters = MODELS[name]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.xml").write_text(build())
    lines = [f"name: {name}", "model: model.xml", f"control: {{period: {SUBSTEPS * 0.005}}}"]
    lines += ["parameters:", *(f"  - {{target: {p}}}" for p in parameters if with_parameters)]
    if not with_parameters:
        lines[-1] = "parameters: []"
    (folder / "robot.yaml").write_text("\n".join(lines))
    return robot.load(folder)


def measure(cell: Cell, folder: Path, seconds: float) -> bench.Rate:
    """Time one cell."""
    periods = max(1, WORK // (SUBSTEPS * cell.worlds))
    loaded = load(cell.model, folder / cell.model / cell.what[:2], cell.what == "20 θ")
    if cell.what != "bare":
        simulator = world.make(loaded, cell.engine)
        return bench.measure(simulator, cell.worlds, periods, seconds)
    bare = {"mujoco": bare_c, "mjx": bare_mjx, "warp": bare_warp}[cell.engine]
    return bare(loaded.model, cell.worlds, periods, seconds)


def bare_c(model: mujoco.MjModel, worlds: int, periods: int, seconds: float) -> bench.Rate:
    """Step `mujoco.batch` with new controls every period."""
    batch = Batch(model, nsim=worlds)
    controls = np.random.default_rng(0).uniform(-0.3, 0.3, (periods, worlds, model.nu))

    def run() -> None:
        for row in controls:
            batch.bind("ctrl")[:] = row
            batch.step(nstep=SUBSTEPS)

    return bench.Rate(0.0, 0.0, worlds * periods * SUBSTEPS / bench.fastest(run, seconds))


def bare_mjx(model: mujoco.MjModel, worlds: int, periods: int, seconds: float) -> bench.Rate:
    """Scan MJX's own step, the whole `Data` carried along."""
    return _bare(mjx.put_model(model), mjx.make_data(model), worlds, periods, seconds)


def bare_warp(model: mujoco.MjModel, worlds: int, periods: int, seconds: float) -> bench.Rate:
    """Scan MJX's step on its Warp implementation."""
    data = mjx.make_data(model, impl="warp", naconmax=8 * worlds, njmax=128)
    return _bare(mjx.put_model(model, impl="warp"), data, worlds, periods, seconds)


def _bare(model: Any, data: Any, worlds: int, periods: int, seconds: float) -> bench.Rate:
    controls = jax.random.uniform(
        jax.random.key(0), (worlds, periods * SUBSTEPS, model.nu), minval=-0.3, maxval=0.3
    )

    def one(controls: Any) -> Any:
        def advance(data: Any, ctrl: Any) -> Any:
            return mjx.step(model, data.replace(ctrl=ctrl)), None

        return jax.lax.scan(advance, data, controls)[0].qpos

    before = time.perf_counter()
    compiled = jax.jit(jax.vmap(one)).lower(controls).compile()
    compiling = time.perf_counter() - before
    running = bench.fastest(lambda: compiled(controls), seconds)
    return bench.Rate(compiling, 0.0, worlds * periods * SUBSTEPS / running)


def cells(engines: tuple[str, ...], sizes: tuple[int, ...], models: tuple[str, ...]) -> list[Cell]:
    """Return all cells: cheap engines and small batches first, so that the budget buys most."""
    return [
        Cell(model, engine, worlds, what)
        for engine in engines
        for worlds in sizes
        for model in models
        for what in ("bare", "0 θ", "20 θ")
    ]


def table(results: dict[Cell, bench.Rate | None]) -> Iterator[str]:
    """Yield one line for each model, engine and number of worlds."""
    yield (
        f"{'model':10} {'engine':7} {'worlds':>6} {'bare':>12} {'0 θ':>12} {'20 θ':>12} "
        f"{'randomising':>12} {'new θ [s]':>10} {'compile [s]':>12}"
    )
    for model, engine, worlds in dict.fromkeys(cell[:3] for cell in results):
        bare, plain, random = (
            results[Cell(model, engine, worlds, what)] for what in ("bare", "0 θ", "20 θ")
        )
        rates = " ".join(
            f"{rate.steps:12,.0f}" if rate else f"{'over budget':>12}"
            for rate in (bare, plain, random)
        )
        cost = start = compiled = "-"
        if random is not None:
            start, compiled = f"{random.start:.3f}", f"{random.compile:.1f}"
        if plain is not None and random is not None:
            episode = worlds * EPISODE
            slow, fast = (r.start + episode / r.steps for r in (random, plain))
            cost = f"{100 * (slow / fast - 1):+.1f} %"
        yield (f"{model:10} {engine:7} {worlds:6d} {rates} {cost:>12} {start:>10} {compiled:>12}")


def main() -> None:
    """Measure what the budget allows and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", action="store_true", help="one small model, 64 worlds")
    mode.add_argument("--gpu", action="store_true", help="mjx and warp, more worlds")
    parser.add_argument("--budget", type=float, help="seconds for everything")
    options = parser.parse_args()
    backend.prepare()
    engines, sizes, models, budget = ("mujoco", "mjx"), (64, 1024, 8192), tuple(MODELS), 360.0
    if options.quick:
        sizes, models, budget = (64,), ("pendulum",), 90.0
    elif options.gpu:
        engines, sizes, budget = ("warp", "mjx"), (1024, 8192, 32768), 300.0
    end = time.perf_counter() + (budget if options.budget is None else options.budget)
    results: dict[Cell, bench.Rate | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        for cell in cells(engines, sizes, models):
            results[cell] = None
            if time.perf_counter() + COMPILE[cell.engine] < end:
                rate = results[cell] = measure(cell, Path(folder), seconds=0.5)
                print(*cell, f"{rate.steps:,.0f}", file=sys.stderr, flush=True)
    device = jax.devices()[0].device_kind
    print(f"steps/s of all worlds together on {device}, float32, {SUBSTEPS} substeps a period")
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
