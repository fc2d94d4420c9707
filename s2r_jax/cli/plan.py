"""`s2r plan ROBOT`: the excitation to record next, and what it will make identifiable."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from s2r_jax.cli import screen
from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder
from s2r_jax.errors import BadValue
from s2r_jax.identify.plan_config import PlanConfig

if TYPE_CHECKING:
    from s2r_jax.identify.plan import Option, Plan
    from s2r_jax.robot import Robot
    from s2r_jax.types import Posterior


@dataclass(frozen=True)
class Command:
    """Choose the excitation to record next: the most informative one within the robot's limits."""

    robot: tyro.conf.Positional[Path]
    """Robot folder."""
    identified: Path | None = None
    """identified.json of `s2r identify`, with posterior.npz beside it; without it θ may be anywhere
    within its bounds."""
    config: Annotated[PlanConfig, tyro.conf.arg(name="")] = field(default_factory=PlanConfig)
    out: Path = Path("runs/plan")
    """Folder to write."""
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Run the command."""
        with RunFolder(self.out, self) as run:
            result = plan(run, self.robot, self.identified, self.config)
        screen.say(f"written to {self.out}; open {self.out / 'report.html'}")
        screen.say(f"record it: play {self.out / result['excitation'][0]} on the robot, or try it "
                   f"with `s2r emulate {self.robot} --play {self.out / result['excitation'][0]} "
                   "--record LOG.npz`")  # fmt: skip
        if self.json:
            screen.emit(result)


COLUMNS = ("parameter", "expected", "± std", "at worst", "chirp", "random multisine", "unit",
           "identifiable")  # fmt: skip
LIMIT_COLUMNS = ("limit", "low", "high", "reached", "to", "used")


def plan(
    run: RunFolder, folder: Path, identified: Path | None, config: PlanConfig
) -> dict[str, Any]:
    """Plan, write the run's files and return the content of plan.json."""
    from s2r_jax import robot as robots
    from s2r_jax.identify import plan as plans
    from s2r_jax.logs import mapped

    robot = robots.load(folder)
    known = None if identified is None else _known(identified, robot)
    with screen.progress("plan", config.generations + 1) as advance:

        def callback(step: int, info: Any) -> None:
            advance(step, f"{info.gain:.2f} nat")
            run.metric(step=step, **info._asdict())

        found = plans.plan(robot, config, known, callback)
    log = found.log(robot)
    own = {name: mapped.write(run.path / name, log, robot)
           for name in ("excitation.csv", "excitation.npz")}  # fmt: skip
    # The first is the one to play: in the robot's own columns where its map allows that.
    files = sorted(own, key=lambda name: (not own[name], name))
    result = summary(robot, found, config) | {
        "excitation": files, "in_columns_of_robot": own,
    }  # fmt: skip
    run.write_json("plan.json", result)
    _write_report(run, robot, found, result)
    screen.table("predicted standard errors", COLUMNS, _rows(result))
    screen.table("limits", LIMIT_COLUMNS, _limit_rows(result))
    for words in [*result["stays_unknown"], *result["notes"]]:
        screen.say(f"note: {words}")
    return result


def summary(robot: "Robot", plan: "Plan", config: PlanConfig) -> dict[str, Any]:
    """Return the content of plan.json."""
    from s2r_jax.identify.plan import limit_names

    best, parameters = plan.best.prediction.posterior, []
    others = {name: option for name, option in plan.baselines.items() if option is not None}
    for i, name in enumerate(best.names):
        parameters.append({
            "name": name,
            "expected": float(plan.theta[i]),
            "unit": robot.parameters.units[i],
            "std": float(best.std[i]),
            "worst_std": float(plan.best.worst[i]),
            "identifiable": bool(best.identifiable[i]),
            "bounds": [robot.parameters.low[i], robot.parameters.high[i]],
            "baselines": {
                other: {
                    "std": float(option.prediction.posterior.std[i]),
                    "identifiable": bool(option.prediction.posterior.identifiable[i]),
                }
                for other, option in others.items()
            },
        })  # fmt: skip
    return {
        "robot": robot.name,
        "family": plan.best.family,
        "duration": config.duration,
        "window": plan.window,
        "gain": plan.best.gain,
        "baselines": {
            name: None if option is None else {"gain": option.gain}
            for name, option in plan.baselines.items()
        },
        "parameters": parameters,
        "identifiable": [p["name"] for p in parameters if p["identifiable"]],
        "stays_unknown": _unknown(plan.best),
        "margin": config.margin,
        "limits_checked_at": plan.checked,
        "limits": _limits(plan, limit_names(robot, plan.limits)),
        "pose": plan.pose.tolist(),
        "notes": list(plan.notes),
        "seconds": plan.seconds,
    }


def _limits(plan: "Plan", names: list[str]) -> list[dict[str, Any]]:
    """Return each finite limit, what is reached over all checked θ, and the share that is used."""
    limits, reached = plan.limits, plan.best.extremes
    zero = [0.0] * (len(limits.speed) + len(limits.torque))
    low = [*limits.low, *zero]
    high = [*limits.high, *limits.speed, *limits.torque]
    least, most = [*reached.low, *zero], [*reached.high, *reached.speed, *reached.torque]
    return [
        {
            "name": name,
            "low": float(low[i]),
            "high": float(high[i]),
            "reached": [float(least[i]), float(most[i])],
            "used": float(plan.best.used[i]),
        }
        for i, name in enumerate(names[: len(low)])
        if low[i] > -float("inf") and high[i] < float("inf")
    ]


def _unknown(option: "Option") -> list[str]:
    """Return in words what the log will not tell."""
    prediction = option.prediction
    words = [f"{name} moves no signal under this excitation" for name in prediction.dead]
    words += [combination.words for combination in prediction.combinations]
    return [w.replace("the logs say", "the log will say") for w in words]


def _known(path: Path, robot: "Robot") -> "Posterior":
    from s2r_jax.cli.randomize import load_posterior
    from s2r_jax.cli.replay import identified_theta

    identified_theta(path, robot)
    found = load_posterior(path.with_name("posterior.npz"))
    if found.names != robot.parameters.names:
        expected = f"the parameters of {robot.file}: {', '.join(robot.parameters.names)}"
        raise BadValue(str(path.with_name("posterior.npz")), "names", list(found.names), expected)
    return found


def _rows(result: dict[str, Any]) -> list[list[Any]]:
    def std(entry: dict[str, Any], other: str) -> Any:
        return entry["baselines"][other]["std"] if other in entry["baselines"] else None

    return [
        [p["name"], p["expected"], p["std"], p["worst_std"], std(p, COLUMNS[4]),
         std(p, COLUMNS[5]), p["unit"], p["identifiable"]]
        for p in result["parameters"]
    ]  # fmt: skip


def _limit_rows(result: dict[str, Any]) -> list[list[Any]]:
    return [
        [e["name"], e["low"], e["high"], *e["reached"], f"{e['used']:.0%}"]
        for e in result["limits"]
    ]


def _write_report(run: RunFolder, robot: "Robot", plan: "Plan", result: dict[str, Any]) -> None:
    from s2r_jax.identify import plan_figures

    report = Report(f"What to record next with {robot.name}")
    gains = [f"{name} {other['gain']:.1f}" if other else f"{name}: none within the limits"
             for name, other in result["baselines"].items()]  # fmt: skip
    report.text(
        f"{result['duration']:g} s of {result['family']}, to be fitted in windows of "
        f"{result['window'] or 'the whole log'} s. Information {result['gain']:.1f} nat over the "
        f"bounds; {'; '.join(gains)}. Each nat more shrinks the standard errors by e in all."
    )
    known = len(result["identifiable"])
    report.text(f"{known} of {len(result['parameters'])} parameters will be identifiable.")
    for words in [*result["stays_unknown"], *result["notes"]]:
        report.text(words)
    report.heading("Commands and expected motion")
    report.text(
        f"Red: limits; dashed, the commands that the margin of {result['margin']:.0%} leaves. "
        f"Shaded: all that is reached at {result['limits_checked_at']} θ."
    )
    report.figure(plan_figures.motion(robot, plan), "commands, positions and speeds over time")
    report.heading("Predicted standard errors")
    report.figure(plan_figures.errors(robot, plan), "standard errors of this plan and of others")
    report.table(COLUMNS, _rows(result))
    report.heading("Limits")
    report.table(LIMIT_COLUMNS, _limit_rows(result))
    report.write(run.path / "report.html")
