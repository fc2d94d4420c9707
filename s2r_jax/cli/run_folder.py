"""The folder that a command writes.

Made beside its final place and renamed at the end, so it is whole or not there.
"""

import dataclasses
import fcntl
import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from s2r_jax.errors import BadValue, RunExists, S2RError

PACKAGES = ("s2r_jax", "jax", "jaxlib", "flax", "optax", "mujoco", "mujoco-mjx", "numpy", "scipy")


class RunFolder:
    """`with RunFolder(out, command) as run:` gives a `run.path` that becomes `out` at the end.

    On an error nothing stays. If the command can resume, the partial folder stays after anything
    but bad input, and after bad input too where it was there before. While a command writes it,
    another with the same `out` is refused; a lock ends with its process, however that ends.
    """

    def __init__(self, out: str | Path, command: Any, keeps_partial: bool = False):
        self.final = Path(out)
        self.command = command
        self.keeps_partial = keeps_partial
        self.path = self.final.with_name(self.final.name + ".partial")
        self._is_resumed = False
        self._lock: int | None = None

    def __enter__(self) -> "RunFolder":
        if self.final.exists() and (not self.final.is_dir() or any(self.final.iterdir())):
            raise RunExists(self.final)
        for parent in self.final.absolute().parents:
            if parent.exists():
                if not parent.is_dir() or not os.access(parent, os.W_OK):
                    raise BadValue(
                        "--out",
                        "folder",
                        str(self.final),
                        f"a place that can be written ({parent} cannot)",
                    )
                break
        self._is_resumed = self.keeps_partial and self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        if not self._is_resumed:
            for entry in self.path.iterdir():  # left by a killed run that nothing can resume
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        self.write_json("config.json", plain(self.command))
        self.write_json("versions.json", versions())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            if self.final.exists():
                self.final.rmdir()  # empty, or __enter__ would have refused
            os.replace(self.path, self.final)
        elif not (self._is_resumed or (self.keeps_partial and not issubclass(kind, S2RError))):
            shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)

    def _take_lock(self) -> None:
        """Lock the partial folder itself, so that no file of it is left behind."""
        self._lock = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            expected = "a folder that no other running command writes"
            raise BadValue("--out", "folder", str(self.final), expected) from None

    def write_json(self, name: str, content: Any) -> None:
        """Write one JSON file; non-finite numbers become null, as JSON has none."""
        (self.path / name).write_text(json.dumps(plain(content), indent=1) + "\n", encoding="utf-8")

    def write_npz(self, name: str, **arrays: Any) -> None:
        """Write arrays without pickle."""
        arrays = {key: np.asarray(value) for key, value in arrays.items()}
        np.savez_compressed(self.path / name, allow_pickle=False, **arrays)

    def metric(self, **values: Any) -> None:
        """Append one line to metrics.jsonl."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(plain(values)) + "\n")


def plain(value: Any) -> Any:
    """Return a value as JSON types.

    Dataclasses, NamedTuples, arrays and paths included; nan and inf become null.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray) or type(value).__module__.startswith("jax"):
        return plain(np.asarray(value).tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def versions() -> dict[str, str]:
    """Return what the result depends on: Python, machine kind and packages."""
    found = {"python": platform.python_version(), "platform": platform.machine()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "absent"
    return found
