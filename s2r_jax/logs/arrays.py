"""NPZ files: one array a column, 0-d arrays are constants."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from s2r_jax.errors import BadLog
from s2r_jax.logs.table import OWN_FORMAT, Request, Table


def read_npz(path: Path, request: Request) -> Iterator[Table]:
    """Yield the one recording of an NPZ file.

    Raises:
        BadLog: No NPZ file, a damaged one, or one that holds pickled objects.
    """
    try:
        # Opened here: np.load leaks the file when it is damaged.
        with path.open("rb") as stream, zipfile.ZipFile(stream):
            stream.seek(0)
            archive = np.load(stream, allow_pickle=False)
            available = tuple(archive.files)
            own = "format" in available and str(archive["format"]) == OWN_FORMAT
            wanted = set(available) if own else request.columns & set(available)
            entries = {name: archive[name] for name in available if name in wanted}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise BadLog(
            str(path), "", f"no readable NPZ file: {' '.join(str(error).split())}"
        ) from None
    if own:
        entries = {k: v for k, v in entries.items() if k not in ("format", "name")}
    yield Table(str(path), entries, available, is_own=own)
