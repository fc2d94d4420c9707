"""`s2r identify ROBOT LOG...`.

Parameters with uncertainty from logs, judged on logs that were held out.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from s2r_jax.cli import comparing, recordings, screen
from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder
from s2r_jax.errors import BadValue
from s2r_jax.identify.config import IdentifyConfig

if TYPE_CHECKING:
    from s2r_jax.identify.compare import Comparison
    from s2r_jax.identify.errors import Scores
    from s2r_jax.identify.profile import Profile
    from s2r_jax.identify.study import Study
    from s2r_jax.robot import Robot


@dataclass(frozen=True)
class Command:
    """Fit the robot's parameters to logs, with uncertainty."""

    robot: tyro.conf.Positional[Path]
    """Robot folder."""
    logs: tyro.conf.Positional[tuple[Path, ...]]
    """Log files."""
    out: Path = Path("runs/identify")
    """Folder to write."""
    holdout_logs: tuple[Path, ...] = ()
    """Logs to score on and never to fit; they need not be among LOGS."""
    start: float = 0.0
    """Leave out what each recording holds before this time after its first row [s]."""
    stop: float = math.inf
    """Leave out what each recording holds from this time after its first row on [s]."""
    config: Annotated[IdentifyConfig, tyro.conf.arg(name="")] = field(
        default_factory=IdentifyConfig
    )
    compare: bool = False
    """Fit the model with friction terms and delay left out too, and recommend the simplest one
    that predicts held-out logs as well."""
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Run the command."""
        with RunFolder(self.out, self) as run:
            times = (self.start, self.stop)
            result = identify(
                run, self.robot, self.logs, self.config, self.holdout_logs, times, self.compare
            )
        screen.say(f"open {self.out / 'report.html'}")
        for reason in result["reasons"]:
            screen.say(f"- {reason}")
        screen.say(f"{result['verdict']}; written to {self.out}")
        if self.json:
            screen.emit(result)


def identify(
    run: RunFolder,
    folder: Path,
    logs: tuple[Path, ...],
    config: IdentifyConfig,
    holdout_logs: tuple[Path, ...] = (),
    times: tuple[float, float] = (0.0, math.inf),
    compare: bool = False,
) -> dict[str, Any]:
    """Identify, write the run's files and return the content of identified.json.

    Args:
        run: Where the files go.
        folder: Robot folder.
        logs: To fit.
        config: How.
        holdout_logs: To score on only.
        times: Start and stop of what is used of each recording, after its first row [s].
        compare: Whether to compare simpler models.
    """
    from s2r_jax import robot as robots
    from s2r_jax.identify import model, symptoms, verdict
    from s2r_jax.identify import study as studies
    from s2r_jax.logs import trajectory

    robot = robots.load(folder)
    if compare and any(robot.parameters.per_log):
        raise BadValue(robot.file, "per_log", True, "no such parameter together with --compare")
    held = {path.resolve() for path in holdout_logs}
    fitted = [path for path in logs if path.resolve() not in held]
    if logs and not fitted:
        names = [str(path) for path in holdout_logs]
        raise BadValue("--holdout-logs", "logs", names, "at least one of LOGS left to fit")
    fit_logs, words = recordings.load(fitted, robot, *times)
    out_logs, more = recordings.load(holdout_logs, robot, *times) if holdout_logs else ([], [])
    recordings.check_apart([*fit_logs, *out_logs])
    with screen.progress("identify", 3 * config.iterations) as advance:

        def callback(step: int, info: Any) -> None:
            advance(step, f"cost {info.cost:.5g}")
            run.metric(step=step, **info._asdict())

        fitted_logs = [trajectory.trajectory(log, robot) for log in fit_logs]
        study = studies.study(
            robot,
            fitted_logs,
            config,
            [trajectory.trajectory(log, robot) for log in out_logs],
            callback,
        )
    worse = symptoms.symptoms(robot, study.fitted)
    for word in (*study.warnings, *worse):
        screen.say(f"warning: {word}")
    judged = verdict.judge(robot, study)
    result = summary(robot, study, config) | {
        "warnings": [*words, *more, *study.warnings, *worse],
        "verdict": judged.verdict,
        "reasons": list(judged.reasons),
    }
    run.write_json("identified.json", result)
    posterior = study.fit.posterior
    arrays = {key: value for key, value in posterior._asdict().items() if key != "names"}
    run.write_npz("posterior.npz", names=list(posterior.names), **arrays)
    (run.path / "identified.xml").write_text(model.to_xml(robot, posterior.value), encoding="utf-8")
    comparison = None
    if compare:
        comparison = comparing.compared(run, robot, fitted_logs, config, study.fit)
    _write_report(run, robot, study, result, comparison)
    _show(result)
    return result


def summary(robot: "Robot", study: "Study", config: IdentifyConfig) -> dict[str, Any]:
    """Return the content of identified.json."""
    fit, posterior = study.fit, study.fit.posterior
    parameters = []
    for i, name in enumerate(posterior.names):
        value, std = float(posterior.value[i]), float(posterior.std[i])
        parameters.append({
            "name": name,
            "value": value,
            "unit": robot.parameters.units[i],
            "std": std,
            "low": value - 1.96 * std,
            "high": value + 1.96 * std,
            "nominal": robot.parameters.nominal[i],
            "start": robot.parameters.start[i],
            "bounds": [robot.parameters.low[i], robot.parameters.high[i]],
            "prior_std": robot.parameters.prior_std[i],
            "identifiable": bool(posterior.identifiable[i]),
            "at_bound": bool(posterior.at_bound[i]),
            "no_effect": name in fit.dead,
        })  # fmt: skip
    return {
        "robot": robot.name,
        "parameters": parameters,
        "cannot_be_told_apart": [combination.words for combination in fit.combinations],
        "known_well": [known.words for known in fit.known],
        "per_log": own_json(study),
        "profiles": [profile_json(found) for found in fit.profiles],
        "notes": [*fit.choice, *fit.notes],
        "fit": scores_json(study.fitted.scores, study.fitted_nominal.scores),
        "holdout": None
        if study.holdout is None or study.holdout_nominal is None
        else scores_json(study.holdout.scores, study.holdout_nominal.scores),
        "holdout_logs": list(study.names_holdout),
        "fit_logs": list(study.names),
        "refitted_on_all_logs": study.refitted,
        "window": robot.window if config.window is None else config.window,
        "seconds": fit.seconds,
        "method": fit.method,
        "engine": fit.engine,
        "iterations": fit.iterations,
        "converged": fit.converged,
    }


def own_json(study: "Study") -> dict[str, dict[str, dict[str, float]]]:
    """Return what each fitted log has of its own: parameter -> log -> value and standard error."""
    own = study.fit.own
    if own is None:
        return {}
    return {
        name: {
            log: {"value": float(own.value[row, column]), "std": float(own.std[row, column])}
            for row, log in enumerate(study.names)
        }
        for column, name in enumerate(own.names)
    }


def own_rows(result: dict[str, Any]) -> list[list[Any]]:
    """Return the rows of the table of what each log has of its own."""
    return [
        [name, number, log, entry["value"], entry["std"]]
        for name, logs in result["per_log"].items()
        for number, (log, entry) in enumerate(logs.items(), 1)
    ]


OWN_COLUMNS = ("parameter", "", "log", "value", "± std")


def profile_json(found: "Profile") -> dict[str, Any]:
    """Return a profile-likelihood interval; at an open end stands the bound."""
    kept = ("name", "low", "high", "is_open_low", "is_open_high")
    return {key: value for key, value in found._asdict().items() if key in kept}


def scores_json(scores: "Scores", nominal: "Scores | None" = None) -> dict[str, Any]:
    """Return errors overall (of the first signal's kind), by kind and by signal."""

    def entry(kind: str, name: str) -> dict[str, Any]:
        score = getattr(scores, kind)[name]
        found = {"rmse": score.rmse, "mae": score.mae, "samples": score.samples}
        if nominal is not None:
            base = getattr(nominal, kind)[name]
            found |= {"nominal_rmse": base.rmse, "nominal_mae": base.mae}
        return found

    kinds = {name: entry("kinds", name) for name in scores.kinds}
    first = next(iter(kinds), None)
    return {
        "kind": first,
        **(kinds[first] if first else {}),
        "kinds": kinds,
        "signals": {name: entry("signals", name) for name in scores.signals},
    }


def parameter_rows(result: dict[str, Any]) -> list[list[Any]]:
    """Return the rows of the parameter table."""
    return [
        [p["name"], p["nominal"], p["value"], p["std"], p["unit"], p["identifiable"], p["at_bound"]]
        for p in result["parameters"]
    ]


PARAMETER_COLUMNS = ("parameter", "nominal", "value", "± std", "unit", "identifiable", "at bound")


def error_rows(result: dict[str, Any]) -> list[list[Any]]:
    """Return the rows of the error table: fit and hold-out, by kind."""
    rows = []
    for part in ("fit", "holdout"):
        for kind, e in (result[part] or {"kinds": {}})["kinds"].items():
            rows.append([part, kind, e["mae"], e["nominal_mae"], e["rmse"], e["nominal_rmse"]])
    return rows


ERROR_COLUMNS = ("logs", "signals", "mae", "nominal mae", "rmse", "nominal rmse")


def _show(result: dict[str, Any]) -> None:
    screen.table("parameters", PARAMETER_COLUMNS, parameter_rows(result))
    if result["per_log"]:
        screen.table("each log's own", OWN_COLUMNS, own_rows(result))
    screen.table("errors", ERROR_COLUMNS, error_rows(result))
    for words in [*result["cannot_be_told_apart"], *result["known_well"], *result["notes"]]:
        screen.say(f"note: {words}")
    screen.say(f"{result['method']} on engine {result['engine']}: {result['seconds']:.1f} s")


def detail_rows(result: dict[str, Any]) -> list[list[Any]]:
    """Return the rows of the report's parameter table."""
    rows = []
    for p in result["parameters"]:
        low, high = p["bounds"]
        prior = f"{p['start']:.4g} ± {p['prior_std']:.2g}" if math.isfinite(p["prior_std"]) else "–"
        has_std = math.isfinite(p["std"])
        interval = f"{p['low']:.4g} to {p['high']:.4g}" if has_std else "–"
        flags = [name for name in ("identifiable", "at_bound", "no_effect") if p[name]]
        said = ", ".join(flags).replace("_", " ") or "not identifiable"
        rows.append([p["name"], p["unit"], p["nominal"], p["start"], f"{low:.4g} to {high:.4g}",
                     prior, p["value"], p["std"] if has_std else None, interval, said])  # fmt: skip
    return rows


DETAIL_COLUMNS = ("parameter", "unit", "nominal", "start", "bounds", "prior (mean ± std)", "value",
                  "std", "95 % interval", "")  # fmt: skip


def log_rows(robot: "Robot", study: "Study") -> list[list[Any]]:
    """Return the errors of each log that was held out, or else fitted, by signal."""
    from s2r_jax.identify import errors

    ours_nominal, names = (study.fitted, study.fitted_nominal), study.names
    if study.holdout is not None and study.holdout_nominal is not None:
        ours_nominal, names = (study.holdout, study.holdout_nominal), study.names_holdout
    rows = []
    for index, name in enumerate(names):
        ours, theirs = (
            errors.of_log(robot.signals, r.error, r.segments, index) for r in ours_nominal
        )
        for signal, score in ours.signals.items():
            base = theirs.signals[signal]
            rows.append([name, signal, score.mae, base.mae, score.rmse, base.rmse, score.samples])
    return rows


LOG_COLUMNS = ("log", "signal", "mae", "nominal mae", "rmse", "nominal rmse", "samples")


def _write_report(
    run: RunFolder,
    robot: "Robot",
    study: "Study",
    result: dict[str, Any],
    comparison: "Comparison | None",
) -> None:
    from s2r_jax.identify import figures

    report = Report(f"Identification of {robot.name}")
    report.text(result["verdict"], "go" if result["verdict"] == "GO" else "nogo")
    report.items(result["reasons"])
    window = f"windows of {result['window']:g} s" if result["window"] else "whole logs"
    report.text(
        f"{len(study.names)} logs, {window}; "
        f"method {result['method']} on engine {result['engine']}, {result['iterations']} steps, "
        f"{result['seconds']:.1f} s."
    )
    if result["warnings"]:
        report.heading("Warnings")
        report.items(result["warnings"])
    report.heading("Errors of simulating the logs")
    report.table(ERROR_COLUMNS, error_rows(result))
    report.text("Held out: " + (", ".join(result["holdout_logs"]) or "nothing"))
    report.heading("Parameters")
    report.table(DETAIL_COLUMNS, detail_rows(result))
    report.figure(figures.intervals(robot.parameters, study.fit), "bounds, priors and intervals")
    if result["per_log"]:
        report.text("What each log has of its own; above stands the distribution over the logs.")
        report.table(OWN_COLUMNS, own_rows(result))
    if study.fit.profiles:
        report.heading("Profile likelihood of the weakest parameters")
        report.figure(figures.profiles(robot.parameters, study.fit), "rise of the cost")
    report.heading("What cannot be told apart")
    report.items(result["cannot_be_told_apart"] or ["Nothing: the logs tell all combinations."])
    report.items(result["known_well"])
    if comparison is not None:
        comparing.write(report, comparison)
    if result["notes"]:
        report.heading("Notes")
        report.items(result["notes"])
    report.heading("Measured against simulated, worst windows first")
    report.figure(figures.traces(robot, study), "signals and errors over time")
    report.heading("Spectrum of the errors")
    report.figure(figures.spectrum(robot, study), "power of the errors over frequency")
    if len(robot.parameters) > 1:
        report.heading("Correlation of the estimates")
        report.figure(figures.correlations(study.fit.posterior), "correlation matrix")
    report.heading("Errors by log and signal")
    report.text("Of the held-out logs." if study.holdout else "Of the fitted logs.")
    report.table(LOG_COLUMNS, log_rows(robot, study))
    report.write(run.path / "report.html")
