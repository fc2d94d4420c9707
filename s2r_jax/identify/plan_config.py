"""Settings of planning. Imports nothing heavy: the command line shows them as help."""

from dataclasses import dataclass

from s2r_jax.errors import BadValue


@dataclass(frozen=True)
class PlanConfig:
    """What to search for, and how hard."""

    duration: float = 10.0
    """Length of the excitation [s]."""
    excite: tuple[str, ...] = ()
    """Joints to move; the others hold their pose. Default: every actuated joint."""
    window: float | None = None
    """Length of the windows in which the log will be fitted [s].

    0: whole logs. Default: robot.yaml's `identify: window`, else 1 s.
    """
    lowest: float = 0.2
    """Lowest frequency of sweeps and sums of sines [Hz]; at least one period fits in any case."""
    highest: float = 5.0
    """Highest frequency [Hz]; never above a fifth of the control rate, where commands turn into
    staircases. Legs and arms move below 5 Hz."""
    harmonics: int = 8
    """Sines in a sum, and half the number of levels in a sequence of steps."""
    margin: float = 0.1
    """Share of each limit that stays unused: positions keep half of it from either end of their
    range, speeds and torques reach 1 - margin of theirs."""
    draws: int = 2
    """θ over which the information is averaged, the expected one among them: a plan that is best
    for one θ alone may be poor for the machine that comes."""
    checks: int = 16
    """Further θ for which the limits must hold in simulation, every physics step of it. Without
    an identified posterior half of them are corners of the bounds."""
    population: int = 12
    """Excitations tried at once."""
    generations: int = 8
    """How often."""
    seed: int = 0
    """Of the search and of the drawn θ."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        checks = (
            ("duration", 0 < self.duration < float("inf"), "a positive number of seconds"),
            ("window", self.window is None or self.window >= 0, "seconds >= 0"),
            ("lowest", self.lowest > 0, "a positive frequency"),
            ("highest", self.highest > self.lowest, f"more than lowest ({self.lowest:g} Hz)"),
            ("harmonics", self.harmonics >= 2, "at least 2"),
            ("margin", 0 <= self.margin < 1, "a share in [0, 1)"),
            ("draws", self.draws >= 1, "at least 1"),
            ("checks", self.checks >= 1, "at least 1"),
            ("population", self.population >= 4, "at least 4"),
            ("generations", self.generations >= 1, "at least 1"),
        )
        for field, is_good, expected in checks:
            if not is_good:
                raise BadValue("plan", field, getattr(self, field), expected)
