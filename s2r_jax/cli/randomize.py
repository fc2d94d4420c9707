"""`s2r randomize ROBOT`: a distribution over θ, from a posterior, from defaults or from bounds."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from s2r_jax.cli import screen
from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder
from s2r_jax.errors import BadValue, MissingFile
from s2r_jax.randomize.config import RandomizeConfig

FILE = "randomization.yaml"


@dataclass(frozen=True)
class Command:
    """Write a distribution over the robot's parameters."""

    robot: tyro.conf.Positional[Path]
    """Robot folder."""
    source: Annotated[Literal["posterior", "defaults", "bounds"], tyro.conf.arg(name="from")] = (
        "posterior"
    )
    """`posterior`: around what `s2r identify` found. `defaults`: customary ranges of friction,
    mass,
    motor strength, latency, battery. `bounds`: uniform over each parameter's bounds."""
    run_folder: Annotated[Path, tyro.conf.arg(name="run")] = Path("runs/identify")
    """Run folder of `s2r identify`, for --from posterior."""
    out: Path = Path("runs/randomize")
    """Folder to write."""
    config: Annotated[RandomizeConfig, tyro.conf.arg(name="")] = field(
        default_factory=RandomizeConfig
    )
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Run the command."""
        with RunFolder(self.out, self) as run:
            rows = randomize(run, self.robot, self.source, self.run_folder, self.config)
        screen.table("randomization", COLUMNS, rows)
        screen.say(f"written to {self.out / FILE}")
        if self.json:
            keys = ("name", "kind", "low", "high", "mean", "std", "reason")
            screen.emit({"parameters": [dict(zip(keys, row, strict=True)) for row in rows]})


COLUMNS = ("parameter", "kind", "low", "high", "mean", "std", "reason")


def randomize(
    run: RunFolder, folder: Path, source: str, identified: Path, config: RandomizeConfig
) -> list[list[Any]]:
    """Write randomization.yaml and return its rows."""
    from s2r_jax import robot as robots
    from s2r_jax.randomize import choice, defaults, distribution, posterior, store

    robot = robots.load(folder)
    parameters = robot.parameters
    if source == "posterior":
        found = load_posterior(identified / "posterior.npz")
        drawn = posterior.from_posterior(found, parameters, config)
        choices = posterior.posterior_choices(found, parameters, config)
    elif source == "defaults":
        drawn = defaults.from_defaults(parameters)
        choices = defaults.default_choices(parameters)
    else:
        drawn = distribution.from_bounds(parameters)
        choices = [choice.bounds(parameters, i, "asked for") for i in range(len(parameters))]
    store.save(run.path / FILE, drawn, parameters, [entry.reason for entry in choices])
    rows = [
        [name, *entry.marginal, entry.reason]
        for name, entry in zip(parameters.names, choices, strict=True)
    ]
    report = Report(f"Randomization of {robot.name}")
    report.table(COLUMNS, rows)
    report.write(run.path / "report.html")
    return rows


def load_posterior(path: Path) -> Any:
    """Return the posterior that `s2r identify` wrote.

    Raises:
        MissingFile: No such file.
        BadValue: A file that is damaged or something else.
    """
    import zipfile

    import numpy as np

    from s2r_jax.types import Posterior

    if not path.is_file():
        raise MissingFile(path, "posterior", "`s2r identify` writes one; name its run with --run")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in Posterior._fields}
    except (zipfile.BadZipFile, ValueError, KeyError, OSError, EOFError) as error:
        raise BadValue(str(path), "file", str(error), "what `s2r identify` writes") from None
    return Posterior(tuple(arrays.pop("names").tolist()), **arrays)
