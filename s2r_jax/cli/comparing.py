"""`s2r identify --compare`: the table, comparison.json and the report's section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from s2r_jax.cli import screen
from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder

if TYPE_CHECKING:
    from s2r_jax.identify.compare import Comparison
    from s2r_jax.identify.config import IdentifyConfig
    from s2r_jax.identify.fit import Fit
    from s2r_jax.robot import Robot
    from s2r_jax.types import Trajectory

COLUMNS = ("model", "parameters", "held-out mae", "rmse", "of the best", "95 % interval",
           "adequate", "ΔAIC", "ΔBIC")  # fmt: skip


def compared(
    run: RunFolder,
    robot: Robot,
    trajectories: Sequence[Trajectory],
    config: IdentifyConfig,
    full: Fit,
) -> Comparison:
    """Compare the models, write comparison.json, show the table and return the comparison."""
    from s2r_jax.identify import compare
    from s2r_jax.identify.terms import candidates

    with screen.progress("compare", compare.FOLDS * len(candidates(robot))) as advance:
        found = compare.compare(robot, trajectories, config, full, advance)
    run.write_json("comparison.json", document(robot, found))
    screen.table("models", COLUMNS, rows(found))
    for sentence in sentences(found):
        screen.say(f"- {sentence}")
    return found


def document(robot: Robot, comparison: Comparison) -> dict[str, Any]:
    """Return the content of comparison.json."""
    models = []
    for row in comparison.rows:
        theta = dict(zip(robot.parameters.names, row.theta, strict=True))
        models.append(row._asdict() | {"theta": theta})
    return comparison._asdict() | {
        "rows": models,
        "recommended": comparison.rows[comparison.recommended].name,
    }


def rows(comparison: Comparison) -> list[list[Any]]:
    """Return the rows of the table."""
    return [
        [r.name, r.parameters, r.mae, r.rmse, f"{r.share:.1%}", f"{r.low:.1%} to {r.high:.1%}",
         r.is_adequate, r.aic, r.bic]
        for r in comparison.rows
    ]  # fmt: skip


def sentences(comparison: Comparison) -> list[str]:
    """Return what to do, in words."""
    words = [f"Recommended: {comparison.words}"]
    if comparison.drop:
        dropped, kept = ", ".join(comparison.drop), ", ".join(comparison.keep)
        words.append(f"In robot.yaml, take out {dropped} and set their values to 0; keep {kept}.")
    if comparison.missing:
        absent = ", ".join(comparison.missing)
        words.append(f"Not tried, as robot.yaml declares no such parameters: {absent}.")
    return words


def write(report: Report, comparison: Comparison) -> None:
    """Add the section to a report."""
    from s2r_jax.identify import figures

    report.heading("Simpler models")
    report.items(sentences(comparison))
    report.table(COLUMNS, rows(comparison))
    report.figure(figures.models(comparison), "held-out error over the number of parameters")
