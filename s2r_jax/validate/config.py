"""What a person may choose about validation. Imports no JAX."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ValidateConfig:
    """How many worlds are tried, and what a policy must show in them."""

    worlds: int = 512
    """Worlds drawn, one episode each. With a success in every one of 73 the interval just excludes
    95 %; 512 leave room for about 15 failures."""
    batch: int = 128
    """Worlds simulated side by side; a matter of memory only, it does not change results."""
    min_success: float = 0.95
    """The lower end of the success rate's interval must reach this before real time is spent."""
    min_worst5_return: float | None = None
    """Mean return of the worst worlds must reach this [unit of the return]; not asked when absent,
    because the scale of a return is the task's."""
    confidence: float = 0.95
    """Of all intervals."""
    tail: float = 0.05
    """Fraction of the worlds that counts as the worst."""
    seed: int = 0
    """Of the worlds, the starts and the sensor noise."""
