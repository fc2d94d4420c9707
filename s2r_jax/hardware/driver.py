"""What a driver is: the few calls by which a control loop reaches a machine.

A driver speaks the machine's own coordinates and the order of the robot's contract; it neither
filters nor interprets. One class a protocol; the loop knows none by name.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from s2r_jax.types import Command


class Reading(NamedTuple):
    """One report of the machine."""

    time: float
    """The robot's own clock [s]."""
    sequence: int
    """Counts reports; one that does not rise is no new report."""
    sensors: Float[np.ndarray, " sensor"]
    """The contract's signals in its order, in the machine's coordinates; NaN where missing."""
    voltage: float
    """Supply [V]; NaN where it is not measured."""
    temperature: Float[np.ndarray, " nu"]
    """Of the motors [°C]; NaN where it is not measured."""


@runtime_checkable
class Driver(Protocol):
    """A connection to one machine. Calls come from one thread."""

    def open(self) -> None:
        """Connect, and check that the machine is the one that the contract describes."""
        ...

    def read(self, timeout: float) -> Reading | None:
        """Return the newest report that was not returned before, or None.

        Args:
            timeout: How long to wait for one [s]; 0 only looks.
        """
        ...

    def write(self, command: Command) -> None:
        """Send a command; arrays `[nu]` in the machine's coordinates."""
        ...

    def damp(self) -> None:
        """Tell the motors to brake without holding a position."""
        ...

    def estop(self) -> None:
        """Tell the motors to let go; the machine obeys no further command until it is reset."""
        ...

    def close(self) -> None:
        """Let go of the connection. Sends nothing: damp before."""
        ...
