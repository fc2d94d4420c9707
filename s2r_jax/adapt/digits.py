"""MNIST digits and the same kind of digits on photographs: a shift with published figures.

Files: `mnist/mnist10k.npz` and `mnist/mnistm_style5k.npz`. The target images show the first 5000
source digits, so the source here is the other 5000; otherwise the target's labels leak.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from s2r_jax.errors import MissingFile

_SHOWN = 5000
_LOCKED = 2500


class Digits(NamedTuple):
    """Three sets without a digit in common."""

    source: UInt8[np.ndarray, "count_source 28 28 3"]
    source_label: Int[np.ndarray, " count_source"]
    target: UInt8[np.ndarray, "count_target 28 28 3"]
    target_label: Int[np.ndarray, " count_target"]
    """For an oracle only."""
    locked: UInt8[np.ndarray, "count_locked 28 28 3"]
    """Images of the target's kind, for scoring only."""
    locked_label: Int[np.ndarray, " count_locked"]


def data_folder() -> Path:
    """Return `$S2R_DATA`, or `shared/data` beside the repository."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("S2R_DATA", beside))


def read_digits(folder: Path) -> Digits:
    """Return source, target and locked target images, disjoint by digit."""
    plain, on_photo = folder / "mnist" / "mnist10k.npz", folder / "mnist" / "mnistm_style5k.npz"
    for path in (plain, on_photo):
        if not path.is_file():
            raise MissingFile(path, "file", "set S2R_DATA to the folder that holds mnist/")
    with np.load(plain, allow_pickle=False) as file:
        grey, source_label = file["image"][_SHOWN:], file["label"][_SHOWN:]
    with np.load(on_photo, allow_pickle=False) as file:
        colour, label = file["image"], file["label"].astype(np.int64)
    return Digits(
        np.repeat(grey[..., None], 3, axis=-1),
        source_label.astype(np.int64),
        colour[:_LOCKED],
        label[:_LOCKED],
        colour[_LOCKED:],
        label[_LOCKED:],
    )
