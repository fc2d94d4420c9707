"""`s2r quickstart`: the whole loop against an emulator, from a log to a policy that drives it."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2r_jax.cli import screen
from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder
from s2r_jax.errors import BadValue
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.randomize.config import RandomizeConfig
from s2r_jax.train.config import PPOConfig
from s2r_jax.validate.config import ValidateConfig

if TYPE_CHECKING:
    from s2r_jax.robot import Robot
    from s2r_jax.validate.statistics import Interval

EXAMPLE = Path(__file__).parents[2] / "examples" / "servo_pendulum"


@dataclass(frozen=True)
class Command:
    """Close the loop once: log, identify, randomise, train, validate, export, drive."""

    robot: Path = EXAMPLE
    """Robot folder."""
    task: str = "swing_up"
    """Task of the policies."""
    seed: int = 3
    """Of the emulator's hidden parameters. With 1 and 5 the machine is so near its data sheet that
    the uncorrected policy mostly works too."""
    logs: int = 3
    """Logs to record; the last one is held out."""
    seconds: float = 10.0
    """Length of each log [s]."""
    episodes: int = 50
    """Episodes on the emulator of each policy."""
    training: PPOConfig = field(default_factory=PPOConfig)
    out: Path = Path("runs/quickstart")
    """Folder to write."""
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Run the command."""
        if self.logs < 2:
            raise BadValue("quickstart", "logs", self.logs, "at least 2: one is held out")
        if self.episodes < 1:
            raise BadValue("quickstart", "episodes", self.episodes, "at least 1")
        began = time.perf_counter()
        with RunFolder(self.out, self) as run:
            result = _loop(self, run, began)
        screen.say(f"written to {self.out}; open {self.out / 'report.html'}")
        if self.json:
            screen.emit(result)


def _loop(command: Command, run: RunFolder, began: float) -> dict[str, Any]:
    from s2r_jax import robot as robots
    from s2r_jax.cli import export, identify, randomize, train, validate
    from s2r_jax.hardware.spawn import spawn
    from s2r_jax.train import task as tasks

    robot = robots.load(command.robot)
    task = tasks.parse(robot, command.task)
    path = run.path
    hidden = path / "hidden.json"
    clock = Clock(began)
    with spawn(command.robot, seed=command.seed, is_lockstep=True, reveal=hidden) as (address, _):
        logs = _record(command, robot, address, path / "logs")
        clock.mark("record")
        with RunFolder(path / "identify", command) as part:
            found = identify.identify(part, command.robot, logs[:-1], IdentifyConfig(), (logs[-1],))
        clock.mark("identify")
        with RunFolder(path / "randomize", command) as part:
            randomize.randomize(
                part, command.robot, "posterior", path / "identify", RandomizeConfig()
            )
        drawn = path / "randomize" / "randomization.yaml"
        policies = {"uncorrected model": None, "identified and randomised": drawn}
        bundles = {}
        for name, randomization in policies.items():
            folder = path / f"train_{'nominal' if randomization is None else 'identified'}"
            with RunFolder(folder, command) as part:
                train.train(
                    part,
                    command.robot,
                    command.task,
                    randomization,
                    "auto",
                    command.training,
                    title=f"train on {name}",
                )
            clock.mark(f"train: {name}")
            bundles[name] = folder.with_suffix(".s2r")
            export.export(command.robot, folder, None, 1, bundles[name])
        with RunFolder(path / "validate", command) as part:
            judged = validate.validate(
                part, command.robot, path / "train_identified", drawn, ValidateConfig()
            )
        clock.mark("validate")
        rates = {
            name: _drive(command, robot, task, address, bundle) for name, bundle in bundles.items()
        }
        clock.mark("drive")
    return _conclude(run, robot, found, judged, rates, clock, hidden)


class Clock:
    """Seconds that each stage took."""

    def __init__(self, began: float):
        self.began = self.last = began
        self.stages: dict[str, float] = {}

    def mark(self, stage: str) -> None:
        """End a stage."""
        now = time.perf_counter()
        self.stages[stage], self.last = now - self.last, now


def excitation(robot: "Robot", seconds: float, index: int) -> Any:
    """Return targets `[time, nu]` that shake every joint: steps over sines, within the limits."""
    import numpy as np

    rng = np.random.default_rng(index)
    time_axis = np.arange(round(seconds / robot.period)) * robot.period
    columns = []
    for joint in robot.joints:
        low = joint.low if np.isfinite(joint.low) else joint.default - joint.action_scale
        high = joint.high if np.isfinite(joint.high) else joint.default + joint.action_scale
        half = 0.4 * (high - low)
        slow = sum(np.sin(2 * np.pi * f * time_axis + rng.uniform(0, 6.3)) for f in (0.3, 0.7, 1.3))
        steps = np.repeat(rng.uniform(-1, 1, time_axis.size // 25 + 1), 25)[: time_axis.size]
        columns.append((low + high) / 2 + half * np.clip(0.25 * slow + 0.5 * steps, -1, 1))
    return np.stack(columns, axis=1)


def _connect(robot: "Robot", address: tuple[str, int]) -> Any:
    from s2r_jax.hardware.udp import UdpDriver

    names = [joint.name for joint in robot.joints]
    sizes = [(signal.name, signal.size) for signal in robot.signals]
    return UdpDriver(address, names, sizes, is_lockstep=True)


def _record(
    command: Command, robot: "Robot", address: tuple[str, int], folder: Path
) -> tuple[Path, ...]:
    """Record logs of the emulator under an excitation."""
    from s2r_jax.deploy.config import DeployConfig
    from s2r_jax.deploy.describe import contract_of
    from s2r_jax.deploy.record import record
    from s2r_jax.logs.write import write_npz

    folder.mkdir()
    contract, driver, paths = contract_of(robot), _connect(robot, address), []
    driver.open()
    try:
        with screen.progress("record", command.logs) as advance:
            for index in range(command.logs):
                driver.reset(index)
                targets = excitation(robot, command.seconds, index)
                telemetry = record(contract, driver, targets, DeployConfig(is_lockstep=True))
                if telemetry.reasons:
                    reason = "; ".join(telemetry.reasons)
                    raise BadValue("quickstart", f"log {index}", reason, "a run to its end")
                paths.append(folder / f"log{index}.npz")
                write_npz(paths[-1], telemetry.log(contract, f"log{index}"))
                advance(index + 1)
    finally:
        driver.close()
    return tuple(paths)


def _drive(
    command: Command, robot: "Robot", task: Any, address: tuple[str, int], path: Path
) -> "Interval":
    """Return the success rate of a bundle on the emulator, over episodes from random starts."""
    import numpy as np

    from s2r_jax.deploy import bundle as bundles
    from s2r_jax.deploy.config import DeployConfig
    from s2r_jax.deploy.loop import run as run_loop
    from s2r_jax.train import task as tasks
    from s2r_jax.validate import statistics

    bundle = bundles.read(path)
    name, _, component = task.success.signal.partition(":")
    column = bundle.contract.slices[name].start + int(component or 0)
    config = DeployConfig(seconds=task.steps * robot.period, is_lockstep=True)
    successes, driver = [], _connect(robot, address)
    driver.open()
    try:
        with screen.progress(f"drive {path.stem}", command.episodes) as advance:
            for episode in range(command.episodes):
                rng = np.random.default_rng(episode)  # both policies start alike
                qpos = rng.uniform(-1, 1, robot.model.nq) * task.reset.qpos_spread
                qvel = rng.uniform(-1, 1, robot.model.nv) * task.reset.qvel_spread
                driver.reset(episode, task.reset.qpos + qpos, task.reset.qvel + qvel)
                telemetry = run_loop(bundle.contract, bundle.policy, driver, config)
                seen = telemetry.sensors[:, column]
                # A run that the safety filter ended early is no success.
                is_whole = not telemetry.reasons and len(seen) == task.steps
                successes.append(is_whole and bool(tasks.succeeded(task.success, seen)))
                advance(episode + 1, f"success {np.mean(successes):.0%}")
    finally:
        driver.close()
    return statistics.success_rate(np.array(successes))


def _conclude(
    run: RunFolder,
    robot: "Robot",
    found: dict[str, Any],
    judged: dict[str, Any],
    rates: dict[str, Any],
    clock: Clock,
    hidden: Path,
) -> dict[str, Any]:
    """Show and write hidden against identified θ, and the success of both policies."""
    import json

    truth = json.loads(hidden.read_text(encoding="utf-8"))["theta"]
    rows = []
    for entry in found["parameters"]:
        off = abs(entry["value"] - truth[entry["name"]])
        errors = off / entry["std"] if entry["std"] else None
        flag = "" if entry["identifiable"] else "not identifiable"
        row = [entry["name"], truth[entry["name"]], entry["value"], entry["std"], errors, flag]
        rows.append([*row[:1], *[None if x == float("inf") else x for x in row[1:]]])
    columns = ("parameter", "hidden", "identified", "± std", "errors off", "")
    screen.table("hidden and identified parameters", columns, rows)
    drives = [
        [name, f"{round(r.value * r.n)} of {r.n}", f"{r.low:.2f} to {r.high:.2f}"]
        for name, r in rates.items()
    ]
    drive_columns = ("policy trained on", "success on the emulator", "95 % interval")
    screen.table("policies on the emulator", drive_columns, drives)
    stages = [[name, f"{seconds:.1f} s"] for name, seconds in clock.stages.items()]
    stages.append(["in all", f"{time.perf_counter() - clock.began:.1f} s"])
    screen.table("time", ("stage", ""), stages)
    screen.say(f"validation in simulation: {judged['verdict']}")
    report = Report(f"Quickstart: {robot.name}")
    for title, head, body in (
        ("Hidden and identified parameters", columns, rows),
        ("Policies on the emulator", drive_columns, drives),
        ("Time", ("stage", ""), stages),
    ):
        report.heading(title)
        report.table(head, body)
    report.text(f"Validation in simulation: {judged['verdict']}. {' '.join(judged['reasons'])}")
    report.write(run.path / "report.html")
    result = {
        "parameters": [dict(zip(("name", *columns[1:5]), row, strict=False)) for row in rows],
        "success": {name: rate._asdict() for name, rate in rates.items()},
        "verdict": judged["verdict"],
        "seconds": clock.stages,
    }
    run.write_json("quickstart.json", result)
    return result
