"""Physics steps a second: our worlds with and without θ, beside bare `mjx.step` and `mujoco.batch`.

    python benchmarks/throughput.py [--quick | --gpu] [--budget 360]

Models: a pendulum, an ant (nv 14) and a quadruped with servos (nv 18), all standing or swinging
under random commands; 64, 1024 and 8192 worlds. `bare` steps the same model with the engine's own
API and nothing around it: jit(vmap(scan(mjx.step))), or `Batch.step`. `0 θ` and `20 θ` are this
package's worlds (command line, sensors, history) with so many parameters, all different in every
world. `randomising` compares the two; the time in which all worlds get a new θ is spread over an
episode of 1000 steps and included.

The three are timed in turn, so that other load on the machine meets them alike. What the budget
does not allow is printed as `over budget`. `--quick` is one small model, for CI;
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
#: Physics steps of all worlds in one call: few, so that one of many repetitions runs undisturbed.
WORK = 10_000
#: Steps of an episode, over which the cost of a new θ is spread.
EPISODE = 1000
#: Time [s] that a row may take, most of it compiling; none starts with less left.
COMPILE = {"mujoco": 15.0, "mjx": 75.0, "warp": 60.0}

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
    return robot.load(folder)


def measure(row: Row, folder: Path, seconds: float) -> list[bench.Rate]:
    """Time the three kinds of one row."""
    periods = max(1, WORK // (SUBSTEPS * row.worlds))
    plain, random = (
        load(row.model, folder / row.model / kind, kind == "random") for kind in ("plain", "random")
    )
    bare = {"mujoco": bare_c, "mjx": bare_mjx, "warp": bare_warp}[row.engine]
    candidates = [bare(plain.model, row.worlds, periods)]
    for loaded in (plain, random):
        simulator = world.make(loaded, row.engine)
        candidates.append(bench.ready(simulator, row.worlds, periods))
    return bench.rates(candidates, seconds)


def bare_c(model: mujoco.MjModel, worlds: int, periods: int) -> bench.Ready:
    """Step `mujoco.batch` with new controls every period."""
    batch = Batch(model, nsim=worlds)
    controls = np.random.default_rng(0).uniform(-0.3, 0.3, (periods, worlds, model.nu))

    def run() -> None:
        for row in controls:
            batch.bind("ctrl")[:] = row
            batch.step(nstep=SUBSTEPS)

    return bench.Ready(0.0, 0.0, worlds * periods * SUBSTEPS, run)


def bare_mjx(model: mujoco.MjModel, worlds: int, periods: int) -> bench.Ready:
    """Scan MJX's own step, the whole `Data` carried along."""
    return _bare(mjx.put_model(model), mjx.make_data(model), worlds, periods)


def bare_warp(model: mujoco.MjModel, worlds: int, periods: int) -> bench.Ready:
    """Scan MJX's step on its Warp implementation."""
    data = mjx.make_data(model, impl="warp", naconmax=8 * worlds, njmax=128)
    return _bare(mjx.put_model(model, impl="warp"), data, worlds, periods)


def _bare(model: Any, data: Any, worlds: int, periods: int) -> bench.Ready:
    controls = jax.random.uniform(
        jax.random.key(0), (worlds, periods, model.nu), minval=-0.3, maxval=0.3
    )

    def one(controls: Any) -> Any:
        def substep(data: Any, _: None) -> Any:
            return mjx.step(model, data), None

        def advance(data: Any, ctrl: Any) -> Any:
            return jax.lax.scan(substep, data.replace(ctrl=ctrl), length=SUBSTEPS)[0], None

        return jax.lax.scan(advance, data, controls)[0].qpos

    before = time.perf_counter()
    compiled = jax.jit(jax.vmap(one)).lower(controls).compile()
    compiling = time.perf_counter() - before
    work = worlds * periods * SUBSTEPS
    return bench.Ready(compiling, 0.0, work, lambda: compiled(controls))


def rows(engines: tuple[str, ...], sizes: tuple[int, ...], models: tuple[str, ...]) -> list[Row]:
    """Return all rows: cheap engines and small batches first, so that the budget buys most."""
    return [Row(m, engine, worlds) for engine in engines for worlds in sizes for m in models]


def table(results: dict[Row, list[bench.Rate] | None]) -> Iterator[str]:
    """Yield a line for each row."""
    yield (
        f"{'model':10} {'engine':7} {'worlds':>6} "
        + " ".join(f"{kind:>11}" for kind in KINDS)
        + f" {'randomising':>11} {'new θ [s]':>9} {'compile [s]':>11}"
    )
    for row, rates in results.items():
        begin = f"{row.model:10} {row.engine:7} {row.worlds:6d} "
        if rates is None:
            yield begin + " ".join(f"{'over budget':>11}" for _ in KINDS)
            continue
        _, plain, random = rates
        episode = row.worlds * EPISODE
        slow, fast = (rate.start + episode / rate.steps for rate in (random, plain))
        yield (
            begin
            + " ".join(f"{rate.steps:11,.0f}" for rate in rates)
            + f" {100 * (slow / fast - 1):+9.1f} % {random.start:9.3f} {random.compile:11.1f}"
        )


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
        sizes, models, budget = (64,), ("pendulum",), 120.0
    elif options.gpu:
        engines, sizes, budget = ("warp", "mjx"), (1024, 8192, 32768), 300.0
    end = time.perf_counter() + (budget if options.budget is None else options.budget)
    results: dict[Row, list[bench.Rate] | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(engines, sizes, models):
            results[row] = None
            if time.perf_counter() + COMPILE[row.engine] < end:
                results[row] = measure(row, Path(folder), seconds=2.0)
                print(*row, "done", file=sys.stderr, flush=True)
    device = jax.devices()[0].device_kind
    print(f"steps/s of all worlds together on {device}, float32, {SUBSTEPS} substeps a period")
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
