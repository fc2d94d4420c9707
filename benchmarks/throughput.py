"""Physics steps a second: our worlds with and without θ, beside bare `mjx.step` and `mujoco.batch`.

    python benchmarks/throughput.py [--gpu] [--engines ...] [--models ...] [--worlds ...]

Models: a pendulum, an ant (nv 14) and a quadruped with servos (nv 18), all standing or swinging
under random commands; 64, 1024 and 8192 worlds. `bare` steps the same model with the engine's own
API and nothing around it: jit(vmap(mjx.step)) in a loop, or `Batch.step`. `0 θ` and `20 θ` are this
package's worlds (command line, sensors, history) with so many parameters, all different in every
world.

Every row first compiles, then runs its three kinds in turn, forwards and backwards, so that other
load on the machine meets them alike; medians, with half the range between the quartiles.
`randomising` is the median over the turns of what 20 θ cost above 0 θ, with the time in which all
worlds get a new θ spread over an episode of 1000 steps. Fewer steps are timed where worlds are
many. What the budget does not allow is printed as `over budget`.

`--gpu` is the same for an accelerator: `warp` and `mjx`, more worlds, 5 minutes.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from mujoco.batch import Batch

from s2r_jax import backend
from s2r_jax import robot as robots
from s2r_jax.robot import Robot
from s2r_jax.sim import bench, world
from s2r_jax.sim.engines import ENGINES

SUBSTEPS = 4
#: Steps of an episode, over which the cost of a new θ is spread.
EPISODE = 1000


class Plan(NamedTuple):
    """What to measure on one kind of machine."""

    sizes: dict[str, tuple[int, ...]]
    """Engine -> numbers of worlds; the engine of most interest first."""
    budget: float
    """Time for everything [s]."""
    seconds: float
    """Time to run each kind of a row [s]; with many worlds five runs may take longer."""


PLANS = {
    # Warp on a CPU steps one world after the other, and is there to be tested.
    "cpu": Plan({"mujoco": (64, 1024, 8192), "mjx": (64, 1024, 8192), "warp": (64,)}, 900.0, 1.0),
    "gpu": Plan({"warp": (1024, 8192, 32768), "mjx": (1024, 8192, 32768)}, 300.0, 1.0),
}

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
         "joint/hinge/armature, bounds: [1.0e-4, 0.01]", "joint/hinge/stiffness, bounds: [0, 0.1]",
         "joint/hinge/springref, bounds: [-0.1, 0.1]", "actuator/hinge/gear, bounds: [0.8, 1.2]",
         "motor/hinge/strength, bounds: [0.8, 1.2]",
         "actuator/hinge/strength, bounds: [0.8, 1.2], operation: scale",
         *(f"option/gravity:{k}, bounds: [{low}, {low + 0.4}]" for k, low in
           enumerate((-0.2, -0.2, -10.0))),
         *(f"body/pole/pos:{k}, bounds: [-0.1, 0.1]" for k in range(3)),
         *(f"body/pole/ipos:{k}, bounds: [-0.01, 0.01], operation: add" for k in range(3)),
         *(f"body/pole/inertia:{k}, bounds: [0.9, 1.1], operation: scale" for k in range(3))),
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


KINDS = ("bare", "0 θ", "20 θ")


class Row(NamedTuple):
    """One line of the table."""

    model: str
    engine: str
    worlds: int


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
    return robots.load(folder)


def measure(row: Row, folder: Path, seconds: float) -> list[bench.Rate]:
    """Time the three kinds of one row."""
    plain, random = (
        load(row.model, folder / row.model / kind, kind == "random") for kind in ("plain", "random")
    )
    # ours first: they silence Warp, which would announce itself on standard output
    ours = [bench.ready(world.make(r, row.engine), row.worlds) for r in (plain, random)]
    bare = {"mujoco": bare_c, "mjx": bare_mjx, "warp": bare_warp}[row.engine]
    return bench.rates([bare(plain, row.worlds), *ours], seconds)


def bare_c(robot: Robot, worlds: int) -> bench.Ready:
    """Step `mujoco.batch` with new controls every period."""
    batch, scene = Batch(robot.model, nsim=worlds), bench.scene(robot, worlds)

    def run(periods: int) -> None:
        for name, start in (("qpos", scene.qpos), ("qvel", scene.qvel), ("qacc_warmstart", 0)):
            batch.bind(name)[:] = start
        for period in range(periods):
            batch.bind("ctrl")[:] = scene.commands[period % bench.COMMANDS]
            batch.step(nstep=SUBSTEPS)

    return bench.Ready(0.0, lambda seed: run(1), run, worlds * SUBSTEPS)


def bare_mjx(robot: Robot, worlds: int) -> bench.Ready:
    """Loop over MJX's own step, the whole `Data` carried along."""
    return _bare(robot, worlds, "jax", {})


def bare_warp(robot: Robot, worlds: int) -> bench.Ready:
    """Loop over MJX's step on its Warp implementation."""
    return _bare(robot, worlds, "warp", {"naconmax": 8 * worlds, "njmax": 128})


def _bare(robot: Robot, worlds: int, implementation: str, room: Any) -> bench.Ready:
    # first imported by s2r_jax.sim: MJX says on standard output what it lacks
    from mujoco import mjx

    model = mjx.put_model(robot.model, impl=implementation)
    blank = mjx.make_data(robot.model, impl=implementation, **room)
    _, qvel, commands = (jax.numpy.asarray(x, "float32") for x in bench.scene(robot, worlds))

    def one(qvel: Any, commands: Any, periods: Any) -> Any:
        def advance(period: Any, data: Any) -> Any:
            data = data.replace(ctrl=commands[period % bench.COMMANDS])
            return jax.lax.fori_loop(0, SUBSTEPS, lambda _, d: mjx.step(model, d), data)

        return jax.lax.fori_loop(0, periods, advance, blank.replace(qvel=qvel)).qpos

    before = time.perf_counter()
    batched = jax.jit(jax.vmap(one, in_axes=(0, 1, None)))
    compiled = batched.lower(qvel, commands, 1).compile()
    compiling = time.perf_counter() - before

    def run(periods: int) -> Any:
        return compiled(qvel, commands, periods)

    return bench.Ready(compiling, lambda seed: run(1), run, worlds * SUBSTEPS)


def rows(plan: Plan, models: Sequence[str]) -> list[Row]:
    """Return all rows: cheap engines and small batches first, so that the budget buys most."""
    return [
        Row(model, engine, worlds)
        for engine, sizes in plan.sizes.items()
        for worlds in sizes
        for model in models
    ]


def run(plan: Plan, models: Sequence[str]) -> Iterator[tuple[Row, list[bench.Rate] | None]]:
    """Yield every row as it is measured; None where too little of the budget is left for it."""
    end = time.perf_counter() + plan.budget
    longest: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(plan, models):
            before = time.perf_counter()
            # as long as this model took on this engine with fewer worlds; compiling is most of it
            if before + longest.get((row.model, row.engine), 0.0) > end:
                yield row, None
                continue
            rates = measure(row, Path(folder), plan.seconds)
            longest[row.model, row.engine] = time.perf_counter() - before
            yield row, rates


def overhead(plain: bench.Rate, random: bench.Rate, worlds: int) -> tuple[float, float]:
    """Return what randomising costs, and half the range between the quartiles, as shares.

    Args:
        plain: Without θ.
        random: With θ, timed in turn with the other.
        worlds: Of both.
    """
    ratios = np.array(random.seconds) / np.array(plain.seconds)
    episode = worlds * EPISODE * float(np.median(plain.seconds))
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    cost = (random.start + middle * episode) / (plain.start + episode) - 1
    return float(cost), float(high - low) / 2


def line(row: Row, rates: list[bench.Rate] | None) -> str:
    """Return a line of the table."""
    begin = f"{row.model:10} {row.engine:7} {row.worlds:6d} "
    if rates is None:
        return begin + " ".join(f"{'over budget':>17}" for _ in KINDS)
    _, plain, random = rates
    cost, spread = overhead(plain, random, row.worlds)
    columns = " ".join(f"{rate.steps:10,.0f} ±{100 * rate.spread:3.0f} %" for rate in rates)
    compiling = sum(rate.compile for rate in rates)
    return (
        f"{begin}{columns} {100 * cost:+5.1f} ±{100 * spread:4.1f} % "
        f"{random.start:9.3f} {compiling:11.1f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the budget allows and print the table, line by line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="warp and mjx, more worlds, 5 minutes")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, help="only these")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--worlds", nargs="+", type=int, help="instead of the plan's")
    parser.add_argument("--budget", type=float, help="seconds for everything")
    options = parser.parse_args(arguments)
    backend.prepare()
    plan = PLANS["gpu" if options.gpu else "cpu"]
    engines = [name for name in plan.sizes if name in (options.engines or plan.sizes)]
    sizes = {name: tuple(options.worlds or plan.sizes[name]) for name in engines}
    plan = plan._replace(sizes=sizes, budget=options.budget or plan.budget)
    device = jax.devices()[0].device_kind
    print(f"steps/s of all worlds together on {device}, float32, {SUBSTEPS} substeps a period")
    print(
        f"{'model':10} {'engine':7} {'worlds':>6} "
        + " ".join(f"{kind:>17}" for kind in KINDS)
        + f" {'randomising':>13} {'new θ [s]':>10} {'compile [s]':>11}"
    )
    for row, rates in run(plan, options.models):
        print(line(row, rates), flush=True)


if __name__ == "__main__":
    main()
