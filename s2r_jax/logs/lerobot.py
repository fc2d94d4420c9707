"""LeRobot v3 folders: `meta/info.json` and `data/chunk-*/file-*.parquet`.

One trajectory an episode. LeRobot speaks degrees or percent of its calibrated range, never radians:
give each column its unit.
Source: the dataset format v3.0 of huggingface/lerobot.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from s2r_jax.errors import BadLog
from s2r_jax.logs.table import Request, Table
from s2r_jax.logs.tabular import read_parquet

INFO = Path("meta") / "info.json"
VERSIONS = ("v3.0",)


def read_lerobot(path: Path, request: Request) -> Iterator[Table]:
    """Yield the episodes of a LeRobot folder, named `folder[index]`.

    The names of a feature's components are the column `<feature>.names`, the frame rate is `fps`.

    Raises:
        BadLog: Another version, a damaged file, or episodes that are not whole.
    """
    place = str(path / INFO)
    try:
        info = json.loads((path / INFO).read_text(encoding="utf-8"))
        version, features = info["codebase_version"], info["features"]
        names = {f"{name}.names": _names(entry) for name, entry in features.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadLog(place, "", f"no LeRobot metadata: {type(error).__name__} {error}") from None
    if version not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise BadLog(place, "codebase_version", f"is {version!r}, expected one of {known}")
    constants = {name: values for name, values in names.items() if len(values)}
    if "fps" in info:
        constants["fps"] = np.array(float(info["fps"]))
    files = sorted((path / "data").glob("chunk-*/file-*.parquet"))
    if not files:
        raise BadLog(str(path), "", "holds no data/chunk-*/file-*.parquet")
    inner = request._replace(columns=request.columns | {"episode_index"})
    done: set[int] = set()
    episode, parts = -1, list[Mapping[str, np.ndarray]]()
    available: tuple[str, ...] = ()
    for file in files:
        for piece in read_parquet(file, inner):
            available = (*piece.available, *constants)
            if "episode_index" not in piece.entries:
                raise BadLog(str(file), "episode_index", "is missing")
            index = piece.entries["episode_index"]
            edges = [0, *(np.flatnonzero(np.diff(index)) + 1).tolist(), len(index)]
            for low, high in itertools.pairwise(edges):
                if high > low and index[low] != episode:
                    if parts:
                        yield _episode(path, episode, parts, available, constants)
                    done.add(episode)
                    episode, parts = int(index[low]), []
                    if episode in done:
                        raise BadLog(str(file), "episode_index", f"episode {episode} comes twice")
                parts.append({k: v[low:high] for k, v in piece.entries.items()})
    if parts:
        yield _episode(path, episode, parts, available, constants)


def _episode(
    path: Path,
    episode: int,
    parts: list[Mapping[str, np.ndarray]],
    available: tuple[str, ...],
    constants: Mapping[str, np.ndarray],
) -> Table:
    entries = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Table(f"{path}[{episode}]", {**constants, **entries}, available)


def _names(feature: Mapping[str, object]) -> np.ndarray:
    """Return a feature's component names, which some versions nest under a category."""
    names = feature.get("names")
    if isinstance(names, Mapping):
        names = next(iter(names.values()), None)
    is_plain = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return np.array(names if is_plain else [], dtype=str)
