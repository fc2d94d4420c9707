"""A driver to an emulated robot in the same process: lock step, without a network."""

from s2r_jax.hardware.driver import Reading
from s2r_jax.hardware.emulator import Emulator
from s2r_jax.types import Command


class InProcessDriver:
    """Each command is one control period of the emulator's time; its report waits to be read."""

    def __init__(self, emulator: Emulator, first: Reading):
        """Take over an emulator.

        Args:
            emulator: Reset, at the pose where the run starts.
            first: Report of that reset.
        """
        self.emulator = emulator
        self._reading: Reading | None = first

    def open(self) -> None:
        """Do nothing: the emulator is there."""

    def read(self, timeout: float) -> Reading | None:
        """Return the report that was not read yet; it never takes time."""
        reading, self._reading = self._reading, None
        return reading

    def write(self, command: Command) -> None:
        """Live through one control period under a command."""
        self._reading = self.emulator.step(command)

    def damp(self) -> None:
        """Live through one control period braking."""
        self._reading = self.emulator.damp()

    def estop(self) -> None:
        """Let go for good."""
        self._reading = self.emulator.estop()

    def close(self) -> None:
        """Do nothing: the emulator stays."""
