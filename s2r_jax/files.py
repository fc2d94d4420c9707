"""Files that appear whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Generator
from pathlib import Path


@contextlib.contextmanager
def whole(path: Path) -> Generator[Path]:
    """Yield where to write; what was written takes the place of `path` when the block ends well.

    A reader sees the old file or the new one, also after a power cut. The folder must exist.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        with beside.open("rb+") as stream:
            os.fsync(stream.fileno())
        beside.chmod(0o644)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
