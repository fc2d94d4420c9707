"""One error class for each mistake a user can make.

Every message names the place and lists the choices.
"""

import difflib
from collections.abc import Iterable, Sequence


class S2RError(Exception):
    """A mistake in what the user gave.

    The command line prints its message and exits with status 2.
    """


class MissingFile(S2RError, FileNotFoundError):
    """A file or folder that is not there."""

    def __init__(self, path: object, what: str, hint: str = ""):
        super().__init__(f"{path}: no such {what}{'; ' + hint if hint else ''}")

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownName(S2RError, ValueError):
    """A name that is not among the known ones."""

    def __init__(self, place: str, name: object, names: Iterable[str], what: str = "name"):
        known = sorted(set(names))
        near = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        listed = ", ".join(known) if known else "(none)"
        super().__init__(f"{place}: unknown {what} '{name}'; {hint}available: {listed}")


class MissingKey(S2RError, ValueError):
    """A required key that a file does not have."""

    def __init__(self, place: str, key: str, keys: Iterable[str] = ()):
        given = ", ".join(map(str, keys)) or "(none)"
        super().__init__(f"{place}: the key '{key}' is required; given: {given}")


class BadValue(S2RError, ValueError):
    """A value of the wrong type, range or shape."""

    def __init__(self, place: str, field: str, value: object, expected: str):
        super().__init__(f"{place}: {field} is {value!r}, expected {expected}")


class UnknownTarget(S2RError, ValueError):
    """A target glob that matches nothing in the model."""

    def __init__(self, target: str, file: str, names: Sequence[str]):
        near = difflib.get_close_matches(target, names, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        super().__init__(f"'{target}' is not in {file}; {hint}available: {', '.join(names)}")


class BadModel(S2RError, ValueError):
    """A MuJoCo model that does not compile, or lacks what the robot folder asks of it."""

    def __init__(self, file: str, problem: str):
        super().__init__(f"{file}: {problem}")


class BadLog(S2RError, ValueError):
    """A log that cannot be used as it is."""

    def __init__(self, file: str, column: str, problem: str):
        super().__init__(
            f"{file}: column '{column}': {problem}" if column else f"{file}: {problem}"
        )


class BadBundle(S2RError, ValueError):
    """A policy bundle that is damaged, forged or does not fit the robot."""

    def __init__(self, file: str, problem: str):
        super().__init__(f"{file}: {problem}")


class RunExists(S2RError, FileExistsError):
    """An output folder that already holds something."""

    def __init__(self, folder: object):
        super().__init__(
            f"{folder} already exists and is not empty; choose another --out, or remove it first"
        )

    def __str__(self) -> str:
        return str(self.args[0])


class Unsupported(S2RError, NotImplementedError):
    """A feature that the chosen engine does not have."""

    def __init__(self, engine: str, feature: str, remedy: str):
        super().__init__(f"engine '{engine}' does not support {feature}; {remedy}")
