"""How to run a policy on a machine."""

from dataclasses import dataclass

from s2r_jax.errors import BadValue

#: The motors are told to brake at least this long on every way out [s]: single frames get lost.
SHORTEST_DAMPING = 0.5


@dataclass(frozen=True)
class DeployConfig:
    """The control loop."""

    seconds: float = 10.0
    """How long the policy acts [s], in the robot's control periods."""
    is_lockstep: bool = False
    """Let the robot's reports drive the loop instead of the clock; for emulators in lock step."""
    connect: float = 2.0
    """How long to wait for the first report [s]."""
    patience: float = 1.0
    """In lock step, how long to wait for a report [s]."""
    hold: float = 0.1
    """How long the last command is held when the policy is late [s]; then the motors brake."""
    margin: float = 0.8
    """Part of the control period that the policy may take before it counts as late."""
    damping: float = SHORTEST_DAMPING
    """How long the motors are told to brake at the end [s]; at least 0.5."""
    spin: float = 0.0
    """Busy wait before each tick [s]; costs a core, saves jitter."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for field in ("seconds", "connect", "patience"):
            if not 0 < getattr(self, field) < float("inf"):
                raise BadValue("deploy", field, getattr(self, field), "a positive number")
        for field in ("hold", "spin"):
            if not 0 <= getattr(self, field) < float("inf"):
                raise BadValue("deploy", field, getattr(self, field), "a number >= 0")
        if not 0 < self.margin <= 1:
            raise BadValue("deploy", "margin", self.margin, "a number in (0, 1]")
        if not SHORTEST_DAMPING <= self.damping < float("inf"):
            expected = f"a number >= {SHORTEST_DAMPING:g}"
            raise BadValue("deploy", "damping", self.damping, expected)
