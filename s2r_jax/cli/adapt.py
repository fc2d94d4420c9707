"""`s2r adapt`: an image encoder and policy head aligned from simulation to reality."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.cli import screen
from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder
from s2r_jax.errors import BadValue, MissingFile, MissingKey


@dataclass(frozen=True)
class Command:
    """Align an image encoder and policy head from simulation to reality."""

    source: Path
    """NPZ with `image` (count, height, width, colours) uint8 and `label`: labelled, simulated."""
    target: Path
    """NPZ with `image` of the real camera; a label in it is ignored by training, on purpose."""
    out: Path = Path("runs/adapt")
    """Folder to write."""
    config: Annotated[AdaptConfig, tyro.conf.arg(name="")] = field(default_factory=AdaptConfig)
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Run the command."""
        from s2r_jax.adapt import run as runs
        from s2r_jax.adapt import store

        with RunFolder(self.out, self) as run:
            source = _arrays(self.source, ("image", "label"))
            target = _arrays(self.target, ("image",))
            with screen.progress("adapt", 2 * self.config.steps) as advance:
                result = runs.adapt(
                    source["image"],
                    source["label"],
                    target["image"],
                    self.config,
                    lambda step, info: advance(step),
                )
            store.save(result.adapted.policy, self.config, run.path / "adapted.safetensors")
            content = {name: part.evidence._asdict() for name, part in result._asdict().items()}
            run.write_json("adapt.json", content)
            rows = [
                [key, *[content[name][key] for name in ("source_only", "adapted")]]
                for key in content["adapted"]
            ]
            report = Report("Visual adaptation")
            report.table(COLUMNS, rows)
            report.write(run.path / "report.html")
        screen.table("evidence on held-out images, without target labels", COLUMNS, rows)
        if self.json:
            screen.emit(content)


COLUMNS = ("", "source only", "adapted")


def _arrays(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the named arrays of an NPZ file, without pickle."""
    import zipfile

    import numpy as np

    if not path.is_file():
        raise MissingFile(path, "file", f"an NPZ with {', '.join(names)}")
    try:
        with np.load(path, allow_pickle=False) as file:
            for name in names:
                if name not in file:
                    raise MissingKey(str(path), name, file.files)
            return {name: file[name] for name in names}
    except (zipfile.BadZipFile, OSError, EOFError, ValueError) as error:
        if isinstance(error, MissingKey):
            raise
        raise BadValue(str(path), "file", str(error), "an NPZ without pickle") from None
