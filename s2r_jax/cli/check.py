"""`s2r check ROBOT`.

What the engines would ignore or reject, which parameters have no effect, which cannot be told
apart.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from s2r_jax.cli import screen
from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder

if TYPE_CHECKING:
    from s2r_jax.robot import Robot
    from s2r_jax.sim.probe import Probe


@dataclass(frozen=True)
class Command:
    """Say what the engines would ignore, which parameters have no effect or look alike."""

    robot: tyro.conf.Positional[Path]
    """Robot folder."""
    engine: tuple[str, ...] = ("mujoco", "mjx")
    """Engines to probe the parameters on."""
    out: Path = Path("runs/check")
    """Folder to write."""
    seconds: float = 1.0
    """Length of the probing rollout [s]."""
    seed: int = 0
    """Of the random commands."""
    targets: bool = False
    """Also list every target that a parameter could have."""
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Run the command."""
        with RunFolder(self.out, self) as run:
            result = check(run, self)
        screen.say(f"written to {self.out}; open {self.out / 'report.html'}")
        if self.json:
            screen.emit(result)


def check(run: RunFolder, command: Command) -> dict[str, Any]:
    """Check a robot, write the run's files and return the content of check.json."""
    from s2r_jax import robot as robots
    from s2r_jax import targets
    from s2r_jax.errors import BadValue, UnknownName, Unsupported
    from s2r_jax.sim import engines
    from s2r_jax.sim.engines import acting

    for name in command.engine:
        if name not in engines.ENGINES:
            raise UnknownName("--engine", name, engines.ENGINES, "engine")
    if not command.seconds > 0:
        raise BadValue("--seconds", "length", command.seconds, "a positive number")
    robot = robots.load(command.robot)
    dead = acting.open_gates(robot.model, robot.parameters).dead
    result: dict[str, Any] = {
        "robot": robot.name,
        "findings": findings(robot),
        "engines": {},
        "parameters": [],
        "cannot_be_told_apart": [],
    }
    with screen.progress("check", 1 + len(command.engine)) as advance:
        result["deviation"] = deviation(robot)
        advance(1, "compared with C")
        for done, name in enumerate(command.engine, start=2):
            try:
                probed = _probe(robot, name, [d.name for d in dead], command)
            except Unsupported as refusal:
                result["engines"][name] = str(refusal)
                continue
            result["engines"][name] = None
            result["parameters"] += [
                {"name": e.name, "engine": name, "acts": e.acts, "effect": e.size,
                 "is_finite": e.is_finite, "reason": None}
                for e in probed.reaches
            ] + [
                {"name": d.name, "engine": name, "acts": False, "effect": {},
                 "is_finite": True, "reason": f"{d.message}; {d.remedy}"}
                for d in dead
            ]  # fmt: skip
            # the engines agree, so what one cannot tell apart the others cannot either
            result["cannot_be_told_apart"] = [a.words for a in probed.alike]
            advance(done, name)
    result["targets"] = targets.target_names(robot.model, robot.quantities)
    run.write_json("check.json", result)
    _write_report(run, robot, result)
    _show(robot, result, command.targets)
    return result


def findings(robot: "Robot") -> list[dict[str, Any]]:
    """Return what MJX would ignore or reject, and what its engine clears by itself."""
    from s2r_jax.sim import check as checks
    from s2r_jax.sim.engines import mjx

    refused = checks.unsupported(mjx.simplified(robot.model))
    return [
        finding._asdict()
        if finding in refused
        else finding._asdict() | {"effect": "cleared", "remedy": "nothing to do"}
        for finding in checks.unsupported(robot.model)
    ]


def deviation(robot: "Robot") -> dict[str, Any]:
    """Return how far MJX moves from C in a short rollout; nulls where MJX rejects the model."""
    from s2r_jax.errors import Unsupported
    from s2r_jax.sim import check as checks
    from s2r_jax.sim.engines import mjx

    try:
        found = checks.compare_with_c(mjx.simplified(robot.model))
    except Unsupported as refusal:
        return {"largest": None, "joints": {}, "sensors": {}, "reason": str(refusal)}
    return {
        "largest": found.largest,
        "joints": dict(zip(found.joints, found.qpos.tolist(), strict=True)),
        "sensors": dict(zip(found.sensors, found.sensordata.tolist(), strict=True)),
        "reason": None,
    }


def _probe(robot: "Robot", engine: str, dead: list[str], command: Command) -> "Probe":
    from s2r_jax.sim import probe, world

    alive = tuple(name for name in robot.parameters.names if name not in dead)
    simulator = world.make(robot, engine, probe.select(robot.parameters, alive))
    return probe.probe(simulator, command.seconds, command.seed)


FINDING_COLUMNS = ("field", "of", "is", "because", "remedy")


def _finding_rows(result: dict[str, Any]) -> list[list[Any]]:
    keys = ("field", "where", "effect", "message", "remedy")
    return [
        [", ".join(f[key]) if key == "where" else f[key] for key in keys]
        for f in result["findings"]
    ]


def _parameter_rows(robot: "Robot", result: dict[str, Any]) -> list[list[Any]]:
    """Return one row a parameter and engine: the largest effect, and the signals that show it."""
    declared = robot.parameters
    bounds = dict(zip(declared.names, zip(declared.low, declared.high, strict=True), strict=True))
    rows = []
    for entry in result["parameters"]:
        effect = entry["effect"]
        kind = max(effect, key=effect.__getitem__) if entry["acts"] and effect else None
        note = entry["reason"] or ("" if entry["is_finite"] else "not finite at a bound")
        largest = None if kind is None else effect[kind]
        rows.append([
            entry["name"], *bounds[entry["name"]], entry["engine"], entry["acts"], largest, kind,
            note,
        ])  # fmt: skip
    return rows


PARAMETER_COLUMNS = ("parameter", "low", "high", "engine", "acts", "effect [σ]", "seen in", "note")


def _remarks(result: dict[str, Any]) -> list[str]:
    """Return what else is to be said, one sentence each."""
    found = [f"{name} refuses: {why}" for name, why in result["engines"].items() if why]
    away = result["deviation"]
    if away["largest"] is None:
        found.append(f"not compared with C: {away['reason']}")
    else:
        found.append(f"MJX stays within {away['largest']:.2g} of C over 50 random steps")
    return found + [f"cannot be told apart: {words}" for words in result["cannot_be_told_apart"]]


def _show(robot: "Robot", result: dict[str, Any], with_targets: bool) -> None:
    if result["findings"]:
        screen.table("what MJX does not do", FINDING_COLUMNS, _finding_rows(result))
    screen.table("parameters", PARAMETER_COLUMNS, _parameter_rows(robot, result))
    for words in _remarks(result):
        screen.say(words)
    if with_targets:
        screen.say("targets:\n  " + "\n  ".join(result["targets"]))
    else:
        screen.say(f"{len(result['targets'])} targets exist; --targets lists them")


def _write_report(run: RunFolder, robot: "Robot", result: dict[str, Any]) -> None:
    report = Report(f"Check of {robot.name}")
    for words in _remarks(result):
        report.text(words)
    report.heading("What MJX does not do")
    if result["findings"]:
        report.table(FINDING_COLUMNS, _finding_rows(result))
    else:
        report.text("Nothing known is ignored or rejected.")
    report.heading("What each parameter moves between its bounds")
    report.table(PARAMETER_COLUMNS, _parameter_rows(robot, result))
    report.text("Effects are counted in standard deviations of the signal's noise and quantum, or "
                "in parts of its own motion where it has neither.")  # fmt: skip
    report.heading("MJX against C")
    away = result["deviation"]
    rows = [[name, error] for part in ("joints", "sensors") for name, error in away[part].items()]
    report.table(("joint or sensor", "largest error"), rows)
    report.heading("Targets that exist")
    report.text(", ".join(result["targets"]))
    report.write(run.path / "report.html")
