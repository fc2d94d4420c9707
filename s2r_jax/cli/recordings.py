"""Logs that were named on the command line: each once, and with a word on what looks wrong."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from s2r_jax.cli import screen
from s2r_jax.errors import BadValue

if TYPE_CHECKING:
    from s2r_jax.robot import Robot
    from s2r_jax.types import Log

#: Rows this many control periods apart miss what the machine did between them.
SPARSE = 2.5
#: Rows this many control periods apart miss some of the commands.
COARSE = 1.1


def load(
    paths: Sequence[Path], robot: Robot, start: float = 0.0, stop: float = math.inf
) -> tuple[list[Log], list[str]]:
    """Return the recordings of files, and sentences on what looks wrong in them.

    The sentences are shown too: a wrong unit gives a fit without an error, and a wrong one.

    Raises:
        BadValue: A file that is named twice. See `logs.read.read_all` for the others.
    """
    from s2r_jax.logs import read

    seen: dict[Path, Path] = {}
    for path in paths:
        if path.resolve() in seen:
            raise BadValue("LOGS", "log", str(path), "each log once: counted twice it weighs twice")
        seen[path.resolve()] = path
    logs = read.read_all(list(paths), robot, start, stop)
    words = [f"{log.name}: {word}" for log in logs for word in _words(log, robot)]
    for word in words:
        screen.say(f"warning: {word}")
    return logs, words


def check_apart(logs: Sequence[Log]) -> None:
    """Refuse the same recording under two names.

    Raises:
        BadValue: Two logs whose time and channels are equal.
    """
    for first, second in itertools.combinations(logs, 2):
        if _is_same(first, second):
            raise BadValue("LOGS", "log", second.name, f"another recording than {first.name}")


def _is_same(first: Log, second: Log) -> bool:
    return (
        np.array_equal(first.time, second.time)
        and first.channels.keys() == second.channels.keys()
        and all(
            np.array_equal(values, second.channels[name], equal_nan=True)
            for name, values in first.channels.items()
        )
    )


def _words(log: Log, robot: Robot) -> list[str]:
    from s2r_jax.logs.diagnose import diagnose

    found = diagnose(log, robot)
    words = list(found.suspicious)
    words += [f"{name} never changes: is its sensor alive?" for name in found.constant]
    if found.gaps:
        longest = max(gap.stop - gap.start for gap in found.gaps)
        words.append(f"{len(found.gaps)} gaps, the longest of {longest:.3g} s, are left out")
    rows = f"a row every {found.median_step:.3g} s, with a control period of {robot.period:.3g} s"
    if found.median_step > SPARSE * robot.period:
        words.append(f"{rows}: what lies between is interpolated")
    elif found.median_step > COARSE * robot.period and robot.model.nu:
        half = found.median_step / 2
        words.append(
            f"{rows}: commands are taken to hold from row to row, so that a delay comes out some "
            f"{half:.2g} s too short"
        )
    return words
