"""Do intervals of 95 % hold the truth 95 % of the time?

A servo with a load is drawn anew for each experiment (load, armature, friction, horn offset,
delay), simulated on the C engine under a multisine, measured with noise, and identified from
nominal values. Three kinds of experiment:

- white: independent noise, windows start at the true state;
- correlated: autoregressive noise of the same size, as filters and mismatch leave it;
- starts: independent noise, and windows that start at noisy measurements, as those of real logs do.

Run: `python benchmarks/coverage.py [--experiments 100] [--cases white starts]`. Parameters that a
fit does not call identifiable have no interval to be judged. Exits with 1 when one is outside 90 to
98 %.
"""

import argparse
import dataclasses
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest

from s2r_jax import backend, robot
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.fit import fit
from s2r_jax.identify.residual import simulate_all
from s2r_jax.identify.segments import cut
from s2r_jax.sim import world
from s2r_jax.types import Command, Trajectory

XML = """
<mujoco><option timestep="0.005" integrator="implicitfast"/><worldbody>
<body name="arm"><joint name="hinge" axis="0 1 0" armature="0.002"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.15" size="0.005" mass="0.02" contype="0" conaffinity="0"/>
<body name="load" pos="0 0 -0.15">
<geom type="sphere" size="0.03" mass="0.3" contype="0" conaffinity="0"/></body></body></worldbody>
<actuator><motor name="hinge" joint="hinge"/></actuator></mujoco>"""
YAML = """
name: servo
model: servo.xml
control: {period: 0.02}
motors: {kind: pd, kp: 4, kd: 0.05, torque_limit: 5, friction: 0.02, viscous: 0.02}
signals: {joint/hinge/position: {noise: 0.002}, joint/hinge/velocity: {noise: 0.05}}
parameters:
  - {target: motor/hinge/friction, bounds: [0.002, 0.2], transform: log}
  - {target: motor/hinge/viscous, bounds: [0, 0.1]}
  - {target: motor/hinge/offset, bounds: [-0.3, 0.3]}
  - {target: body/load/mass, bounds: [0.1, 0.9], transform: log}
  - {target: joint/hinge/armature, bounds: [0.0004, 0.01], transform: log}
  - {target: latency/action, bounds: [0, 0.04], start: 0.012}
"""
NOISE = np.array([0.002, 0.05])  # rad, rad/s
CORRELATION = 0.7
CASES = ("white", "correlated", "starts")
ROWS, WINDOW = 301, 50
#: The truth lies in this middle share of the bounds, so that bounds do not narrow the intervals.
INSIDE = (0.3, 0.7)


class Coverage(NamedTuple):
    """What many experiments of one kind found."""

    names: tuple[str, ...]
    held: Bool[np.ndarray, "experiment param"]
    """Whether the interval holds the truth."""
    identifiable: Bool[np.ndarray, "experiment param"]
    z: Float[np.ndarray, "experiment param"]
    """Error over standard error."""
    std: Float[np.ndarray, "experiment param"]


def servo() -> robot.Robot:
    """Return the robot of all experiments."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "servo.xml").write_text(XML)
        (Path(folder) / "robot.yaml").write_text(YAML)
        return robot.load(folder)


def experiments(case: str, count: int, seed: int = 0) -> Coverage:
    """Simulate, measure and identify `count` servos drawn at random."""
    nominal = servo()
    machine = nominal
    if case == "starts":
        machine = dataclasses.replace(nominal, start_std=tuple(NOISE))
    simulator = world.make(nominal, "mujoco")
    rows = []
    for index in range(count):
        rng = np.random.default_rng([seed, index])
        theta = _truth(nominal, rng)
        log = _measured(simulator, theta, case, rng)
        windows = cut([log], WINDOW, simulator.held)
        found = fit(machine, windows, IdentifyConfig(method="fd")).posterior
        error = (found.value - theta) / found.std
        rows.append((np.abs(error) < 1.96, found.identifiable, error, found.std))
    return Coverage(nominal.parameters.names, *map(np.array, zip(*rows, strict=True)))


def _truth(machine: robot.Robot, rng: np.random.Generator) -> np.ndarray:
    low, high = np.array(machine.parameters.low), np.array(machine.parameters.high)
    share = rng.uniform(*INSIDE, low.size)
    is_log = np.array([t == "log" for t in machine.parameters.transforms])
    safe = np.where(is_log, low, 1.0)
    return np.where(is_log, safe * (high / safe) ** share, low + share * (high - low))


def _measured(
    simulator: world.Simulator, theta: np.ndarray, case: str, rng: np.random.Generator
) -> Trajectory:
    """Return a log of the true machine."""
    t = np.arange(ROWS)[:, None] * simulator.robot.period
    frequency = np.array([0.35, 0.8, 1.7, 3.1])
    phase = 2 * np.pi * frequency * t + rng.uniform(0, 2 * np.pi, 4)
    target = (np.array([1.0, 0.6, 0.3, 0.15]) * np.sin(phase)).sum(1)[:, None]
    none, kp = np.zeros((ROWS, 1)), np.full((ROWS, 1), 4.0)
    command = Command(target, none, kp, none + 0.05, none + 1, np.full(ROWS, np.nan))
    blank = np.zeros((ROWS, 2))
    with jax.enable_x64(True):
        whole = cut([Trajectory("", command, blank, none, none)], 0, simulator.held)
        truth = np.asarray(simulate_all(simulator, jnp.asarray(theta), whole))[0]
    truth = np.concatenate([blank[:1], truth])
    noise = rng.standard_normal(truth.shape)
    if case == "correlated":
        for k in range(1, ROWS):
            noise[k] = CORRELATION * noise[k - 1] + (1 - CORRELATION**2) ** 0.5 * noise[k]
    measured = truth + noise * NOISE
    start = measured if case == "starts" else truth
    return Trajectory("log", command, measured, start[:, :1], start[:, 1:])


def table(case: str, found: Coverage) -> tuple[Table, bool]:
    """Return the table of a case, and whether every parameter is within 90 to 98 %."""
    out = Table(title=f"{case}: {len(found.held)} experiments")
    for column in ("parameter", "identifiable", "coverage", "95 % of it", "|error| / std", "std"):
        out.add_column(column)
    is_good = True
    for i, name in enumerate(found.names):
        seen = found.identifiable[:, i]
        if not seen.any():
            out.add_row(name, "0 %")
            continue
        hits, count = int(found.held[seen, i].sum()), int(seen.sum())
        interval = binomtest(hits, count).proportion_ci(method="wilson")
        is_good &= 0.90 <= hits / count <= 0.98
        spread = f"{np.median(found.std[seen, i]):.3g}"
        size = f"{np.abs(found.z[seen, i]).mean():.2f}"
        bounds = f"{interval.low:.0%} to {interval.high:.0%}"
        out.add_row(name, f"{seen.mean():.0%}", f"{hits / count:.0%}", bounds, size, spread)
    return out, is_good


def main() -> None:
    """Run the cases and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=100)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    backend.prepare()
    console, is_good = Console(width=110), True
    for case in chosen.cases:
        began = time.perf_counter()
        shown, good = table(case, experiments(case, chosen.experiments, chosen.seed))
        is_good &= good
        console.print(shown)
        console.print(f"{time.perf_counter() - began:.0f} s")
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
