"""`s2r validate ROBOT RUN`: returns, tail risk, success and a verdict in randomised worlds."""

import json as json_format
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from s2r_jax.cli import screen
from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder
from s2r_jax.errors import BadValue, MissingFile
from s2r_jax.validate.config import ValidateConfig

if TYPE_CHECKING:
    from s2r_jax.robot import Robot


@dataclass(frozen=True)
class Command:
    """Judge a trained policy on worlds that it has not seen."""

    robot: tyro.conf.Positional[Path]
    """Robot folder."""
    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run")]
    """Run folder of `s2r train`."""
    randomization: Path | None = None
    """randomization.yaml to draw worlds from; by default the one that the policy was trained on."""
    out: Path = Path("runs/validate")
    """Folder to write."""
    config: Annotated[ValidateConfig, tyro.conf.arg(name="")] = field(
        default_factory=ValidateConfig
    )
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Run the command."""
        with RunFolder(self.out, self) as run:
            result = validate(run, self.robot, self.run_folder, self.randomization, self.config)
        screen.table("validation", ("", "value"), rows(result))
        for reason in result["reasons"]:
            screen.say(f"- {reason}")
        screen.say(f"{result['verdict']}; written to {self.out}")
        if self.json:
            screen.emit(result)


def trained(folder: Path, robot: "Robot") -> dict[str, Any]:
    """Return the train.json of a run on this robot.

    Raises:
        MissingFile: Not the folder of a finished training.
        BadValue: A damaged file, or the run of another robot.
    """
    path = folder / "train.json"
    if not path.is_file():
        raise MissingFile(path, "file", "name the run folder of a finished `s2r train`")
    try:
        content = json_format.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadValue(str(path), "content", str(error), "what `s2r train` writes") from None
    if not isinstance(content, dict):
        raise BadValue(str(path), "content", content, "what `s2r train` writes")
    if content.get("robot") != robot.name:
        expected = f"'{robot.name}', the robot of {robot.file}"
        raise BadValue(str(path), "robot", content.get("robot"), expected)
    return content


def validate(
    run: RunFolder,
    folder: Path,
    train_folder: Path,
    randomization: Path | None,
    config: ValidateConfig,
) -> dict[str, Any]:
    """Validate, write the run's files and return the content of validation.json."""
    from s2r_jax import robot as robots
    from s2r_jax.randomize import store
    from s2r_jax.sim import world
    from s2r_jax.train import environment as environments
    from s2r_jax.train import policy as policies
    from s2r_jax.validate import figures, verdict
    from s2r_jax.validate.sweep import Sweep, sweep

    robot = robots.load(folder)
    training = trained(train_folder, robot)
    policy, terms = policies.load(train_folder / "policy")
    environment = environments.make(world.make(robot, training["engine"]), training["task"])
    if tuple(terms) != tuple(environment.task.observation):
        expected = f"the observation of task '{training['task']}' in {robot.file}"
        raise BadValue(str(train_folder / "policy"), "observation", "another", expected)
    drawn = store.load(randomization or train_folder / "randomization.yaml", robot.parameters)
    with screen.progress("validate", config.worlds) as advance:

        def callback(done: int, part: Sweep) -> None:
            advance(done, f"success {part.success.mean():.0%}")

        found = sweep(environment, policy, drawn, config, callback)
    hours = (training["seconds"] + training["compile_seconds"]) / 3600
    result = verdict.document(verdict.validate(found, robot.parameters, config, hours))
    run.write_json("validation.json", result)
    run.write_npz("worlds.npz", names=list(robot.parameters.names), **found._asdict())
    report = Report(f"Validation of {robot.name}: {training['task']}")
    report.text(result["verdict"], "go" if result["verdict"] == "GO" else "nogo")
    for reason in result["reasons"]:
        report.text(reason)
    report.table(("", "value"), rows(result))
    report.figure(figures.figure(found, robot.parameters, config), "returns and failures")
    report.write(run.path / "report.html")
    return result


def rows(result: dict[str, Any]) -> list[list[Any]]:
    """Return the rows of the result's table."""
    success = result["success_rate"]
    return [
        ["mean return over worlds", result["dr_mean_return"]],
        ["mean return of the worst 5 %", result["dr_worst5_return"]],
        ["success rate", success["value"]],
        ["  95 % interval", f"{success['low']:.3f} to {success['high']:.3f}"],
        ["  episodes", success["n"]],
        ["device hours", result["device_hours"]],
    ]
