"""`s2r replay ROBOT LOG...`: simulate logs and count the errors."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from s2r_jax.cli import recordings, screen
from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder
from s2r_jax.errors import BadValue, MissingFile, MissingKey


@dataclass(frozen=True)
class Command:
    """Simulate logs, from their first row or in windows, and count the errors."""

    robot: tyro.conf.Positional[Path]
    """Robot folder."""
    logs: tyro.conf.Positional[tuple[Path, ...]]
    """Log files."""
    identified: Path | None = None
    """identified.json of `s2r identify`; without it the nominal model is replayed."""
    window: float = 0.0
    """Start again from the measured state every so many seconds; 0: only from the first row."""
    start: float = 0.0
    """Leave out what each recording holds before this time after its first row [s]."""
    stop: float = math.inf
    """Leave out what each recording holds from this time after its first row on [s]."""
    out: Path = Path("runs/replay")
    """Folder to write."""
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Run the command."""
        with RunFolder(self.out, self) as run:
            result = self._replay(run)
        kinds: dict[str, Any] = result["kinds"]
        rows = [[kind, e["mae"], e["rmse"], e["samples"]] for kind, e in kinds.items()]
        screen.table("errors", ("signals", "mae", "rmse", "samples"), rows)
        screen.say(f"written to {self.out}")
        if self.json:
            screen.emit(result)

    def _replay(self, run: RunFolder) -> dict[str, Any]:
        from s2r_jax import robot as robots
        from s2r_jax.cli.identify import scores_json
        from s2r_jax.identify import study
        from s2r_jax.logs import trajectory
        from s2r_jax.sim import world

        robot = robots.load(self.robot)
        theta = robot.parameters.vector({})
        if self.identified is not None:
            theta = identified_theta(self.identified, robot)
        logs, words = recordings.load(self.logs, robot, self.start, self.stop)
        trajectories = [trajectory.trajectory(log, robot) for log in logs]
        simulator = world.make(robot, "mujoco")
        with screen.progress("replay", 1):
            replay = study.replay(
                simulator, theta, study.windows(simulator, trajectories, self.window)
            )
        result: dict[str, Any] = {
            "robot": robot.name,
            "window": self.window,
            "warnings": words,
            **scores_json(replay.scores),
        }
        run.write_json("replay.json", result)
        run.write_npz("simulated.npz", **_named(robot, trajectories, replay))
        report = Report(f"Replay of {robot.name}")
        for word in words:
            report.text(word)
        report.table(
            ("signal", "mae", "rmse", "samples"),
            [[name, e["mae"], e["rmse"], e["samples"]] for name, e in result["signals"].items()],
        )
        report.write(run.path / "report.html")
        return result


def identified_theta(path: Path, robot: Any) -> Any:
    """Return θ of an identified.json; every parameter in it must be one of the robot's.

    Raises:
        MissingFile: No such file.
        BadValue: Not an identified.json, or one of another robot.
        MissingKey: A parameter of the robot that was not identified.
        UnknownName: A parameter that the robot does not declare.
    """
    if not path.is_file():
        raise MissingFile(path, "file", "it is written by `s2r identify`")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadValue(
            str(path), "content", str(error), "the JSON that `s2r identify` writes"
        ) from None
    if not isinstance(content, dict) or "parameters" not in content:
        raise MissingKey(str(path), "parameters", content if isinstance(content, dict) else ())
    try:
        values = {entry["name"]: float(entry["value"]) for entry in content["parameters"]}
    except (TypeError, KeyError, ValueError):
        expected = "a list of parameters with a name and a value"
        raise BadValue(str(path), "parameters", content["parameters"], expected) from None
    if content.get("robot") != robot.name:
        expected = f"'{robot.name}', the robot of {robot.file}"
        raise BadValue(str(path), "robot", content.get("robot"), expected)
    for name in robot.parameters.names:
        if name not in values:
            raise MissingKey(f"{path}: parameters", name, values)
    theta = robot.parameters.vector(values)
    robot.parameters.check(theta, str(path))
    return theta


def _named(robot: Any, trajectories: Any, replay: Any) -> dict[str, Any]:
    """Return the simulated signals by name, windows joined, one set a trajectory."""
    import numpy as np

    arrays: dict[str, Any] = {}
    for index, trajectory in enumerate(trajectories):
        rows = len(trajectory.measured)
        whole = np.full((rows, replay.simulated.shape[-1]), np.nan)
        whole[0] = trajectory.measured[0]
        for segment in np.flatnonzero(replay.segments.log == index):
            first = int(replay.segments.start[segment]) + 1
            count = min(rows - first, replay.simulated.shape[1])
            whole[first : first + count] = replay.simulated[segment, :count]
        prefix = "" if len(trajectories) == 1 else f"{trajectory.name}/"
        arrays[f"{prefix}time"] = np.arange(rows) * robot.period
        for name, entries in robot.signal_slices.items():
            values = whole[:, np.array(entries)]
            arrays[f"{prefix}{name}"] = values[:, 0] if len(entries) == 1 else values
    return arrays
