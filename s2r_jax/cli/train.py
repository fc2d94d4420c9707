"""`s2r train ROBOT --task T`: a policy from randomised worlds."""

import json as json_format
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from s2r_jax.cli import screen
from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder, plain
from s2r_jax.errors import BadValue
from s2r_jax.train.config import PPOConfig

RANDOMIZATION, STATE = "randomization.yaml", "state.safetensors"
#: Updates between two checkpoints: a few seconds of work that Ctrl-C may cost.
CHECKPOINT_EVERY = 5


@dataclass(frozen=True)
class Command:
    """Train a policy on randomised worlds."""

    robot: tyro.conf.Positional[Path]
    """Robot folder."""
    task: str
    """One of the robot's tasks."""
    randomization: Path | None = None
    """randomization.yaml of `s2r randomize`; without it every world is the nominal one."""
    engine: Literal["auto", "mujoco", "mjx", "warp"] = "auto"
    """Physics engine; `auto`: mujoco on a CPU, warp on an NVIDIA GPU that has it, else mjx."""
    out: Path = Path("runs/train")
    """Folder to write."""
    config: Annotated[PPOConfig, tyro.conf.arg(name="")] = field(default_factory=PPOConfig)
    resume: bool = False
    """Go on with an interrupted run of the same --out."""
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Run the command."""
        folder = RunFolder(self.out, self, keeps_partial=True)
        if folder.path.exists() != self.resume:
            given = "an interrupted run" if folder.path.exists() else "no interrupted run"
            expected = "a run to go on with" if self.resume else "none; add --resume or remove it"
            raise BadValue("train", str(folder.path), given, expected)
        if self.resume:
            check_same(folder.path / "config.json", self)
        with folder as run:
            result = train(run, self.robot, self.task, self.randomization, self.engine, self.config)
        rows = [[key, value] for key, value in result.items() if not isinstance(value, dict)]
        screen.table("training", ("", "value"), rows)
        screen.say(f"written to {self.out}")
        if self.json:
            screen.emit(result)


def check_same(path: Path, command: Command) -> None:
    """Refuse to go on with a run of another robot, task or setting; more updates are fine.

    Raises:
        BadValue: An option that differs from the run's, or a damaged file.
    """
    try:
        begun = json_format.loads(path.read_text(encoding="utf-8"))
        old, new = _options(begun), _options(plain(command))
    except (OSError, ValueError, AttributeError):
        raise BadValue(str(path), "file", "damaged", "what `s2r train` writes") from None
    for key in new:
        if old.get(key) != new[key]:
            expected = f"{old.get(key)!r}, as in the run to go on with ({path})"
            raise BadValue("train --resume", key, new[key], expected)


def _options(command: dict[str, Any]) -> dict[str, Any]:
    """Return what a run may not change on its way."""
    free = ("out", "resume", "json", "updates")
    options = command | command["config"]
    return {key: value for key, value in options.items() if key not in (*free, "config")}


def train(
    run: RunFolder,
    folder: Path,
    task: str,
    randomization: Path | None,
    engine: str,
    config: PPOConfig,
    title: str = "train",
) -> dict[str, Any]:
    """Train, write the policy and return the content of train.json."""
    import jax
    import numpy as np

    from s2r_jax import robot as robots
    from s2r_jax.randomize import distribution as distributions
    from s2r_jax.randomize import store
    from s2r_jax.sim import engines, world
    from s2r_jax.train import checkpoint
    from s2r_jax.train import environment as environments
    from s2r_jax.train import policy as policies
    from s2r_jax.train import run as training

    robot = robots.load(folder)
    chosen = engines.choose(engine, needs_gradient=False, on_gpu=jax.default_backend() != "cpu")
    environment = environments.make(world.make(robot, chosen), task)
    drawn = (
        distributions.nominal(robot.parameters)
        if randomization is None
        else store.load(randomization, robot.parameters)
    )
    with screen.progress(title, config.updates) as advance:

        def callback(progress: training.Progress, info: Any, state: Any) -> None:
            entry = {key: float(value) for key, value in info._asdict().items() if key != "outcome"}
            rate = {"steps": progress.steps, "steps_per_second": progress.rate}
            run.metric(update=progress.update, **rate, **entry)
            if progress.update % CHECKPOINT_EVERY == 0:
                checkpoint.save_state(state, run.path / STATE)
            advance(progress.update, f"success {entry['success_rate']:.0%}")

        state = None
        if (run.path / STATE).exists():
            state = checkpoint.load_state(run.path / STATE, environment, config)
        result = training.train(environment, drawn, config, callback, state)
    checkpoint.save_state(result.state, run.path / STATE)
    policies.save(result.policy, environment.task.observation, run.path / "policy", task)
    store.save(run.path / RANDOMIZATION, drawn, robot.parameters)
    clock, evaluation = result.progress, result.evaluation
    content = {
        "robot": robot.name,
        "task": task,
        "engine": chosen,
        "updates": clock.update,
        "steps": clock.steps,
        "seconds": clock.seconds,
        "compile_seconds": clock.compile_seconds,
        "steps_per_second": clock.rate,
        "mean_return": float(np.mean(evaluation.reward)),
        "success": float(np.mean(evaluation.success)),
        "episodes": len(evaluation.success),
    }
    run.write_json("train.json", content)
    report = Report(f"Training of {robot.name}: {task}")
    report.table(("", "value"), [[key, value] for key, value in content.items()])
    report.figure(_learning_curve(result.history), "return and success over updates")
    report.write(run.path / "report.html")
    return content


def _learning_curve(history: list[Any]) -> Any:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3))
    curves = {"reward": "reward per control period", "success_rate": "success rate"}
    for axis, (name, label) in zip(axes, curves.items(), strict=True):
        values = [float(getattr(info, name)) for info in history]
        axis.plot(range(1, len(values) + 1), values, color="#0065bd")
        axis.set(xlabel="update", ylabel=label)
    figure.tight_layout()
    return figure
