"""Do the intervals of identification hold the truth as often as they say?

Simulated experiments with a servo that carries a load: each draws six unknowns (torque constant,
Coulomb and viscous friction, armature, zero error of the angle, delay of the commands), drives the
servo through two sine sweeps that break it away again and again, and adds noise to what its sensors
say. From there everything goes the way of a real log: resampling and state estimate, windows whose
starts are unknowns too, a fit that is told neither the noise nor the truth. Counted is how often
value ± 1.96 standard errors holds the truth, over the experiments in which the fit calls the
parameter identifiable. A second table has noise that is correlated in time (autoregressive, first
order).

Run: `python benchmarks/coverage.py [--experiments 100] [--seed 0] [--correlation 0 0.9]`. Exits
with 1 when a coverage lies outside 90 to 98 %.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.signal
import scipy.stats
from jaxtyping import Bool, Float
from rich.console import Console
from rich.progress import track
from rich.table import Table

from s2r_jax import backend, robot
from s2r_jax.identify.choice import simulator_for
from s2r_jax.identify.config import IdentifyConfig, Method
from s2r_jax.identify.fit import fit
from s2r_jax.identify.residual import simulate_all
from s2r_jax.identify.study import windows
from s2r_jax.logs.trajectory import trajectory
from s2r_jax.parameters import constrain, search_bounds
from s2r_jax.robot import Robot
from s2r_jax.types import Log

#: Standard deviation of the sensors' noise: angle [rad], speed [rad/s].
NOISE = (2e-3, 5e-2)
PERIOD = 0.01
#: Length of a log, and of the standstill before it [s].
SECONDS, REST = 6.0, 0.2
#: Sine sweeps, one a log: amplitude [rad], first and last frequency [Hz], phase [°].
SWEEPS = ((1.2, 0.3, 2.0, 0.0), (0.8, 0.5, 3.0, 90.0))
#: Two-sided 95 % of a normal distribution, in standard deviations.
QUANTILE = 1.96
#: Coverage that intervals of 95 % may show.
LIMITS = (0.90, 0.98)

XML = """
<mujoco model="servo"><option timestep="0.005" integrator="implicitfast">
  <flag contact="disable"/></option>
<worldbody><body name="arm"><joint name="hinge" axis="0 1 0" armature="0.004"/>
  <geom type="capsule" fromto="0 0 0 0 0 -0.15" size="0.005" mass="0.02"/>
  <geom type="sphere" pos="0 0 -0.15" size="0.02" mass="0.3"/></body></worldbody>
<actuator><motor name="hinge" joint="hinge"/></actuator></mujoco>"""

YAML = f"""
name: servo
model: servo.xml
control: {{period: {PERIOD}}}
motors:
  kind: dc_servo
  kp: 300
  duty_gain: 0.0028773  # (4096 / 2 pi) / (256 * 885), as in examples/servo_pendulum
  torque_constant: 0.3
  resistance: 2.0
  friction: 0.02
  viscous: 0.005
battery: {{voltage: 7.4}}
latency: {{action: 0.0}}
signals: {{joint/hinge/position: {{}}, joint/hinge/velocity: {{}}}}
parameters:
  - {{target: motor/hinge/torque_constant, bounds: [0.2, 0.5], unit: N m/A}}
  - {{target: motor/hinge/friction, bounds: [0.005, 0.1], transform: log, unit: N m}}
  - {{target: motor/hinge/viscous, bounds: [0.0, 0.03], unit: N m s/rad}}
  - {{target: joint/hinge/armature, bounds: [0.001, 0.02], transform: log, unit: kg m2}}
  - {{target: motor/hinge/offset, bounds: [-0.2, 0.2], unit: rad}}
  - {{target: latency/action, bounds: [0.0, 0.03], start: 0.01, unit: s}}
identify: {{window: 1.0, position_std: 0.02, velocity_std: 0.5}}
"""


class Outcome(NamedTuple):
    """What became of the experiments."""

    truth: Float[np.ndarray, "experiment param"]
    value: Float[np.ndarray, "experiment param"]
    std: Float[np.ndarray, "experiment param"]
    identifiable: Bool[np.ndarray, "experiment param"]


class Row(NamedTuple):
    """One parameter over all experiments."""

    name: str
    called: int
    """Experiments in which it was called identifiable; the rest counts only these."""
    covered: int
    low: float
    """95 % interval of the coverage (Clopper and Pearson)."""
    high: float
    error_ratio: float
    """Root mean square of error / standard error; 1 where the standard error is right."""
    std: float
    """Median standard error, in the parameter's unit."""


def main() -> None:
    """Run the experiments with each noise; print the tables, write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=100, help="number of them, each noise")
    parser.add_argument("--seed", type=int, default=0, help="of truths and noise")
    parser.add_argument("--correlation", type=float, nargs="*", default=[0.0, 0.9],
                        help="of the noise from sample to sample, one table each")  # fmt: skip
    parser.add_argument("--method", choices=("lm", "fd"), default="lm", help="of the fit")
    parser.add_argument("--out", type=Path, help="where to write the rows as JSON")
    options = parser.parse_args()
    backend.prepare()
    tables = {}
    for correlation in options.correlation:
        found = run(options.experiments, options.seed, correlation, options.method)
        title = f"{options.experiments} experiments, correlation of the noise {correlation:g}"
        tables[title] = rows = coverage(servo().parameters.names, found)
        show(title, rows)
    if options.out:
        named = {title: [row._asdict() for row in rows] for title, rows in tables.items()}
        options.out.write_text(json.dumps(named, indent=2))
    rows = [row for rows in tables.values() for row in rows if row.called]
    sys.exit(0 if all(LIMITS[0] <= row.covered / row.called <= LIMITS[1] for row in rows) else 1)


def run(count: int, seed: int = 0, correlation: float = 0.0, method: Method = "lm") -> Outcome:
    """Return the outcome of `count` experiments; the same arguments give the same numbers."""
    machine = servo()
    keys = np.random.default_rng(seed)
    truth = truths(machine, count, keys)
    clean = simulated(machine, truth)
    said = clean + noise(keys, clean.shape, correlation)
    config = IdentifyConfig(method=method)
    simulator = simulator_for(machine, method)
    rows = []
    for motion in track(said, "fitting", console=Console(stderr=True), transient=True):
        logs = [trajectory(recorded(k, one), machine) for k, one in enumerate(motion)]
        found = fit(machine, windows(simulator, logs, machine.window), config).posterior
        rows.append((found.value, found.std, found.identifiable))
    value, std, identifiable = (np.array(column) for column in zip(*rows, strict=True))
    return Outcome(truth, value, std, identifiable)


def servo() -> Robot:
    """Return the robot: a servo with a known load and six unknowns."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "servo.xml").write_text(XML)
        (Path(folder) / "robot.yaml").write_text(YAML)
        return robot.load(folder)


def truths(
    machine: Robot, count: int, keys: np.random.Generator
) -> Float[np.ndarray, "experiment param"]:
    """Draw θ in the middle 80 % of the bounds, evenly in search coordinates."""
    parameters = machine.parameters
    low, high = search_bounds(parameters)
    z = low + (high - low) * keys.uniform(0.1, 0.9, (count, low.size))
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(lambda z: constrain(parameters, z))(jnp.asarray(z)))


def goals(log: int) -> Float[np.ndarray, " time"]:
    """Return the commanded angle of one log [rad]: rest, then a sweep."""
    time = np.arange(round(SECONDS / PERIOD) + 1) * PERIOD
    amplitude, first, last, phase = SWEEPS[log]
    sweep = scipy.signal.chirp(time - REST, first, SECONDS - REST, last, phi=phase)
    return np.where(time < REST, 0.0, amplitude * sweep)


def simulated(
    machine: Robot, theta: Float[np.ndarray, "experiment param"]
) -> Float[np.ndarray, "experiment log time sensor"]:
    """Return what sensors without noise would say of a load that hangs at rest in the beginning."""
    simulator = simulator_for(machine, "fd")
    still = np.zeros((len(goals(0)), 2))
    logs = [trajectory(recorded(k, still), machine) for k in range(len(SWEEPS))]
    whole = windows(simulator, logs, 0)
    with jax.enable_x64(True):
        moved = jax.vmap(lambda one: simulate_all(simulator, one, whole))(jnp.asarray(theta))
    return np.concatenate([np.zeros((len(theta), len(logs), 1, 2)), moved], axis=2)


def recorded(index: int, values: Float[np.ndarray, "time sensor"]) -> Log:
    """Return a log as a reader would."""
    channels = {
        "joint/hinge/position": values[:, 0],
        "joint/hinge/velocity": values[:, 1],
        "command/hinge/target": goals(index),
    }
    return Log(f"sweep {index}", np.arange(len(values)) * PERIOD, channels)


def noise(
    keys: np.random.Generator, shape: tuple[int, ...], correlation: float
) -> Float[np.ndarray, "*batch time sensor"]:
    """Return noise of the sensors, stationary: e_k = ρ e_(k-1) + (1 - ρ²)^½ w_k."""
    white = keys.standard_normal(shape)
    white[..., 1:, :] *= (1 - correlation**2) ** 0.5
    return scipy.signal.lfilter([1.0], [1.0, -correlation], white, axis=-2) * NOISE


def coverage(names: tuple[str, ...], found: Outcome, width: float = 1.0) -> list[Row]:
    """Count the truths within value ± 1.96 standard errors, intervals `width` times as wide."""
    ratio = (found.value - found.truth) / np.where(found.identifiable, found.std, np.inf)
    rows = []
    for name, one, std, counts in zip(names, ratio.T, found.std.T, found.identifiable.T,
                                      strict=True):  # fmt: skip
        called, covered = int(counts.sum()), int((np.abs(one[counts]) <= width * QUANTILE).sum())
        if not called:
            rows.append(Row(name, 0, 0, 0.0, 1.0, np.nan, np.nan))
            continue
        low, high = scipy.stats.binomtest(covered, called).proportion_ci()
        scatter = float(np.sqrt(np.mean(one[counts] ** 2)))
        rows.append(Row(name, called, covered, low, high, scatter, float(np.median(std[counts]))))
    return rows


def show(title: str, rows: list[Row]) -> None:
    """Print one table."""
    table = Table(title=title)
    for column in ("parameter", "called identifiable", "coverage", "its 95 % interval",
                   "rms(error / std)", "median std"):  # fmt: skip
        table.add_column(column, justify="left" if column == "parameter" else "right")
    for row in rows:
        share = f"{row.covered / row.called:.1%}" if row.called else "–"
        table.add_row(row.name, str(row.called), share, f"{row.low:.1%} to {row.high:.1%}",
                      f"{row.error_ratio:.2f}", f"{row.std:.2g}")  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
