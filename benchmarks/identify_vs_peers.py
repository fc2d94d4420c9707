"""Identification of a robot arm beside MuJoCo's own toolbox, on the toolbox's own test problem.

The arm of `mujoco.sysid`'s test (5 joints, 1000 steps of 2 ms, positions and velocities of all
joints; source: google-deepmind/mujoco, python/mujoco/sysid/tests/test_integration.py, Apache-2.0):
five armatures from 0.01, within [0.001, 1], the truth 0.5, 0.4, 0.3, 0.2, 0.1. Everyone gets the
same rows, the same exact first state, the same start and the same bounds, with and without white
noise, and simulates the whole log from its first row. In one process, turn by turn, each with the
settings that are fastest for it:

- `mujoco.sysid`: its three optimisers, on all cores, the data on the simulation's grid so that
  nothing need be resampled; and once more with a `build_model` of ours that writes the field of the
  compiled model instead of compiling anew (a user's own code, the toolbox has none);
- this package: `lm`, `fd` and what `auto` picks; `cmaes` for reference.

Run: `python benchmarks/identify_vs_peers.py [--out table.json]` after `pip install -e ".[bench]"`.
`first` is the first call, compilation included; `warm` the median of later calls, with the
interquartile range. `error` is the largest relative error of an armature, `apart` the largest
distance from the toolbox's default answer, relative to the truth too.
"""

import argparse
import contextlib
import copy
import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
from mujoco import rollout, sysid
from rich.console import Console
from rich.table import Table

from s2r_jax import backend, robot
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.fit import fit
from s2r_jax.identify.segments import cut
from s2r_jax.types import Command, Trajectory

TRUTH = np.array([0.5, 0.4, 0.3, 0.2, 0.1])
START, LOW, HIGH = 0.01, 0.001, 1.0
ROWS = 1000
#: Standard deviations of the noise, where there is any: angles [rad], speeds [rad/s].
NOISE = (2e-3, 2e-2)
#: Rows of a window, where the log is cut into windows that start at the measured state.
WINDOW = 27
#: Of CMA-ES; the toolbox's problem needs this many to come near the bottom.
CMAES_GENERATIONS = 40
NAMES = [f"joint{k}" for k in range(1, 6)]

#: parent position, mass, inertia about x = y and z, centre, axis, damping, length, radius
_LINKS = (
    (0.1, 1.0, 0.01, 0.005, 0.05, "0 0 1", 1.0, 0.1, 0.04),
    (0.1, 0.8, 0.008, 0.004, 0.05, "0 1 0", 0.8, 0.1, 0.035),
    (0.1, 0.6, 0.006, 0.003, 0.05, "0 1 0", 0.6, 0.1, 0.03),
    (0.1, 0.4, 0.004, 0.002, 0.04, "0 0 1", 0.4, 0.08, 0.025),
    (0.08, 0.2, 0.002, 0.001, 0.03, "0 1 0", 0.2, 0.06, 0.02),
)

YAML = f"""
name: arm
model: arm.xml
control: {{period: 0.002}}
signals: {{joint/*/position: {{}}, joint/*/velocity: {{}}}}
parameters:
  - {{target: joint/*/armature, bounds: [{LOW}, {HIGH}], start: {START}}}
"""


class Data(NamedTuple):
    """What was measured; row k of everything is the time k dt."""

    ctrl: np.ndarray
    qpos: np.ndarray
    qvel: np.ndarray


class Way(NamedTuple):
    """One way to identify."""

    name: str
    run: Callable[[], np.ndarray]
    repeat: int


def main() -> None:
    """Run every way on both data sets, turn by turn; print the tables, write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the rows as JSON")
    parser.add_argument("--repeat", type=int, default=7, help="warm calls of each way")
    parser.add_argument("--noise", type=float, nargs="*", default=[0.0, 1.0],
                        help="data sets: multiples of the noise")  # fmt: skip
    options = parser.parse_args()
    backend.prepare()
    tables = {}
    for scale in options.noise:
        tables[f"noise x {scale:g}"] = rows = measure(recorded(scale), options.repeat)
        show(f"noise x {scale:g}", rows)
    if options.out:
        options.out.write_text(json.dumps(tables, indent=2))


def measure(data: Data, repeat: int) -> list[dict[str, Any]]:
    """Time every way on one data set, the ways in turn so that all see the same machine."""
    with tempfile.TemporaryDirectory() as folder:
        ways = [*peer_ways(data, repeat), *own_ways(data, repeat, Path(folder))]
        answers, first = {}, {}
        for way in ways:
            answers[way.name], first[way.name] = timed(way.run)
        warm: dict[str, list[float]] = {way.name: [] for way in ways}
        for turn in range(repeat):
            for way in ways:
                if turn < way.repeat:
                    answers[way.name], seconds = timed(way.run)
                    warm[way.name].append(seconds)
    reference = answers[ways[0].name]
    return [
        {
            "way": way.name,
            "first_s": first[way.name],
            "warm_s": float(np.median(warm[way.name])),
            "spread_s": float(np.subtract(*np.percentile(warm[way.name], [75, 25]))),
            "error": float(np.max(np.abs(answers[way.name] / TRUTH - 1))),
            "apart": float(np.max(np.abs(answers[way.name] - reference) / TRUTH)),
        }
        for way in ways
    ]


def timed(run: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """Return what `run` returns, and the seconds it took."""
    began = time.perf_counter()
    answer = run()
    return answer, time.perf_counter() - began


def arm_xml() -> str:
    """Return the arm of the toolbox's test."""
    bodies, ends = "", ""
    for name, armature, link in zip(NAMES, TRUTH, _LINKS, strict=True):
        at, mass, side, spin, centre, axis, damping, length, radius = link
        bodies += f"""<body name="{name}" pos="0 0 {at}">
          <inertial pos="0 0 {centre}" mass="{mass}" diaginertia="{side} {side} {spin}"/>
          <joint name="{name}" axis="{axis}" range="-3.14 3.14" armature="{armature}"
                 damping="{damping}"/>
          <geom type="capsule" fromto="0 0 0 0 0 {length}" size="{radius}"/>"""
        ends += "</body>"
    motors = "".join(f'<motor name="{name}" joint="{name}"/>' for name in NAMES)
    sensors = "".join(
        f'<joint{kind} name="{name}_{kind}" joint="{name}"/>' for kind in ("pos", "vel")
        for name in NAMES
    )  # fmt: skip
    return f"""<mujoco model="arm"><compiler angle="radian" autolimits="true"/>
      <option integrator="implicitfast" timestep="0.002"><flag contact="disable"/></option>
      <worldbody>{bodies}{ends}</worldbody><actuator>{motors}</actuator>
      <sensor>{sensors}</sensor></mujoco>"""


def recorded(scale: float) -> Data:
    """Return the motion of the true arm under the test's five sines, its first row exact."""
    model = mujoco.MjModel.from_xml_string(arm_xml())
    t = np.arange(ROWS) * model.opt.timestep
    size, hertz, phase = np.array([
        (5, 0.5, 0.0), (4, 0.7, 0.5), (3, 0.4, 1.0), (2, 0.9, 1.5), (1, 0.6, 2.0)
    ]).T  # fmt: skip
    ctrl = size * np.sin(2 * np.pi * hertz * t[:, None] + phase)
    data = mujoco.MjData(model)
    states, _ = rollout.rollout(model, data, initial_state(model), ctrl[:-1])
    moved = np.concatenate([np.zeros((1, 2 * model.nv)), states[0, :, 1:]])
    draw = np.random.default_rng(0).standard_normal(moved.shape) * np.repeat(NOISE, model.nv)
    moved[1:] += scale * draw[1:]
    return Data(ctrl, moved[:, : model.nq], moved[:, model.nq :])


def initial_state(model: mujoco.MjModel) -> np.ndarray:
    """Return the state at rest at zero, as the toolbox wants it."""
    return sysid.create_initial_state(model, np.zeros(model.nq), np.zeros(model.nv), np.zeros(0))


def peer_ways(data: Data, repeat: int) -> list[Way]:
    """Return the toolbox's optimisers on this data."""
    spec = mujoco.MjSpec.from_string(arm_xml())
    model = spec.compile()
    t = np.arange(ROWS) * model.opt.timestep
    rows = np.hstack([data.qpos, data.qvel])
    sequence = sysid.ModelSequences(
        "arm", spec, "sines", initial_state(model), sysid.TimeSeries(t, data.ctrl),
        # MuJoCo's sensors show the state before a step: the toolbox compares step k with row k - 1,
        # and without resampling drops the first row given, so a row is put before it.
        sysid.TimeSeries.from_names(t, np.vstack([0 * rows[:1], rows[:-1]]), model),
    )  # fmt: skip

    def identified(optimizer: str, **options: Any) -> np.ndarray:
        parameters = sysid.ParameterDict()
        for name in NAMES:
            parameters.add(sysid.Parameter(
                name, nominal=START, min_value=LOW, max_value=HIGH,
                modifier=lambda s, p, n=name: setattr(s.joint(n), "armature", p.value[0]),
            ))  # fmt: skip
        residual = sysid.build_residual_fn(
            models_sequences=[sequence], resample_true=False, **options
        )
        with contextlib.redirect_stdout(io.StringIO()):
            found, _ = sysid.optimize(parameters, residual, optimizer, verbose=False)
        return found.as_vector()

    def build(parameters: Any, _: mujoco.MjSpec) -> mujoco.MjModel:
        changed = copy.copy(model)
        changed.dof_armature[:] = parameters.as_vector()
        mujoco.mj_setConst(changed, mujoco.MjData(changed))
        return changed

    settings: dict[str, tuple[str, dict[str, Any]]] = {
        "mujoco": ("mujoco", {}),
        "mujoco, one thread": ("mujoco", {"n_threads": 1}),
        "scipy": ("scipy", {}),
        "scipy_parallel_fd": ("scipy_parallel_fd", {}),
        "mujoco, own build_model": ("mujoco", {"build_model": build}),
    }
    return [
        Way(f"mujoco.sysid, {name}", lambda given=given: identified(given[0], **given[1]), repeat)
        for name, given in settings.items()
    ]


def own_ways(data: Data, repeat: int, folder: Path) -> list[Way]:
    """Return the methods of this package on this data."""
    (folder / "arm.xml").write_text(arm_xml())
    (folder / robot.FILE).write_text(YAML)
    arm = robot.load(folder)
    zero = np.zeros_like(data.ctrl)
    command = Command(data.ctrl, zero, zero, zero, zero + 1, np.full(ROWS, np.nan))
    measured = np.hstack([data.qpos, data.qvel])
    log = Trajectory("sines", command, measured, data.qpos, data.qvel)

    def identified(rows: int, config: IdentifyConfig) -> np.ndarray:
        # Without latency the command line holds one row.
        return fit(arm, cut([log], rows, held=1), config).posterior.value

    configs = {
        "lm": IdentifyConfig(method="lm", profile=0),
        "fd": IdentifyConfig(method="fd", profile=0),
        "auto": IdentifyConfig(method="auto", profile=0),
        "cmaes": IdentifyConfig(method="cmaes", profile=0, iterations=CMAES_GENERATIONS),
    }
    ways = [
        Way(
            f"this package, {name}",
            lambda config=config: identified(0, config),
            1 if name == "cmaes" else repeat,
        )
        for name, config in configs.items()
    ]
    windowed = [
        Way(
            f"this package, {name}, windows of {WINDOW} rows",
            lambda name=name: identified(WINDOW, configs[name]),
            repeat,
        )
        for name in ("lm", "fd")
    ]
    return [*ways[:-1], *windowed, ways[-1]]


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    table = Table(title=title)
    for column in ("way", "first [s]", "warm [s]", "spread [s]", "error", "apart"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for row in rows:
        numbers = [f"{row[key]:.3f}" for key in ("first_s", "warm_s", "spread_s")]
        numbers += [f"{row[key]:.1e}" for key in ("error", "apart")]
        table.add_row(row["way"], *numbers)
    Console().print(table)


if __name__ == "__main__":
    main()
