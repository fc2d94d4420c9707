"""`s2r export ROBOT RUN`: a trained policy as a bundle for the robot."""

import json as json_format
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from s2r_jax.cli import screen
from s2r_jax.cli.validate import trained
from s2r_jax.errors import BadValue, MissingFile, RunExists


@dataclass(frozen=True)
class Command:
    """Pack a trained policy as a bundle for the robot."""

    robot: tyro.conf.Positional[Path]
    """Robot folder."""
    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run")]
    """Run folder of `s2r train`."""
    validation: Path | None = None
    """validation.json of `s2r validate`, to go into the bundle."""
    version: int = 1
    """Version of the policy; a robot refuses to go back to a lower one."""
    out: Path = Path("policy.s2r")
    """File to write."""
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Run the command."""
        result = export(self.robot, self.run_folder, self.validation, self.version, self.out)
        screen.say(f"{self.out}: policy version {self.version}, {result['bytes']} bytes")
        if self.json:
            screen.emit(result)


def export(
    folder: Path, train_folder: Path, validation: Path | None, version: int, out: Path
) -> dict[str, Any]:
    """Write the bundle and return what it is."""
    from s2r_jax import robot as robots
    from s2r_jax.deploy import export as exports
    from s2r_jax.train import policy as policies

    if out.exists():
        raise RunExists(out)
    robot = robots.load(folder)
    training = trained(train_folder, robot)
    policy, terms = policies.load(train_folder / "policy")
    judged = None
    if validation is not None:
        if not validation.is_file():
            raise MissingFile(validation, "validation", "`s2r validate` writes one")
        try:
            judged = json_format.loads(validation.read_text(encoding="utf-8"))
        except ValueError as error:
            raise BadValue(str(validation), "content", str(error), "JSON") from None
    out.parent.mkdir(parents=True, exist_ok=True)
    bundle = exports.export(
        policy, robot, terms, out, version=version, validation=judged, provenance=training
    )
    return {
        "bundle": str(out),
        "robot": robot.name,
        "version": version,
        "contract": bundle.contract.hash,
        "bytes": out.stat().st_size,
    }
