"""The schedule of a control loop: absolute deadlines on the monotonic clock.

Sleeping for a period after the work runs late for ever (403 Hz instead of 500); deadlines that are
whole periods from one start do not drift, and a step of the wall clock cannot touch them.
"""

import time


class Schedule:
    """Ticks at `start + k * period`."""

    def __init__(self, period: float, spin: float = 0.0):
        """Start now.

        Args:
            period: [s].
            spin: Length of the busy wait before each deadline [s]; costs a core, saves jitter.
        """
        self._period, self._spin = period, spin
        self._start, self._tick = time.monotonic(), 0
        self.missed = 0
        """Deadlines that had passed before the loop came to wait for them, and were left out."""

    @property
    def due(self) -> float:
        """The next deadline [s on the monotonic clock]."""
        return self._start + (self._tick + 1) * self._period

    def wait(self) -> float:
        """Sleep until the next deadline; return how late it is met [s].

        Deadlines that lie a whole period or more in the past are skipped and counted: a burst of
        commands to catch up would be worse than a gap.
        """
        self._tick += 1
        late = time.monotonic() - (self._start + self._tick * self._period)
        if late >= self._period:
            skipped = int(late // self._period)
            self._tick += skipped
            self.missed += skipped
        due = self._start + self._tick * self._period
        # `time.sleep` sleeps to an absolute monotonic deadline itself (clock_nanosleep, bpo-21302).
        while (left := due - self._spin - time.monotonic()) > 0:
            time.sleep(left)
        while (now := time.monotonic()) < due:
            pass
        return now - due
