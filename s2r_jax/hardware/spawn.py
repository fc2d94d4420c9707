"""Start an emulated robot as a process of its own, and end it."""

import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import IO

from s2r_jax.errors import BadValue


@contextlib.contextmanager
def spawn(
    folder: Path,
    *,
    seed: int = 0,
    is_lockstep: bool = False,
    reveal: Path | None = None,
    timeout: float = 120.0,
) -> Generator[tuple[tuple[str, int], subprocess.Popen[bytes]]]:
    """Run an emulator for the length of a `with` block; gives its address and its process.

    Args:
        folder: Robot folder.
        seed: Of the hidden θ.
        is_lockstep: One control period for each command, instead of real time.
        reveal: File to write the hidden θ to, for grading.
        timeout: How long it may take to be ready, compilation included [s].

    Raises:
        BadValue: It ended, or was not ready in time; with what it said.
    """
    arguments = [str(folder), "--seed", str(seed), "--parent", str(os.getpid())]
    arguments += ["--lockstep"] if is_lockstep else []
    arguments += [] if reveal is None else ["--reveal", str(reveal)]
    command = [sys.executable, "-m", "s2r_jax.hardware.server", *arguments]
    # A file, as nobody would empty a pipe while the robot runs.
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints)
        try:
            yield _address(process, time.monotonic() + timeout, folder, complaints), process
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _address(
    process: subprocess.Popen[bytes], deadline: float, folder: Path, complaints: IO[bytes]
) -> tuple[str, int]:
    assert process.stdout is not None
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not said.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0:
                raise BadValue("emulator", "robot", str(folder), "ready in time; it still starts")
            if selector.select(left):
                chunk = os.read(process.stdout.fileno(), 4096)
                said += chunk
                if not chunk:
                    complaints.seek(0)
                    why = complaints.read().decode(errors="replace").strip()
                    raise BadValue("emulator", "robot", str(folder), f"a robot that starts: {why}")
    host, port = said.decode().split()[-1].rsplit(":", 1)
    return host, int(port)
