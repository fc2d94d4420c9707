"""How far back a simulated world must remember: limits on latencies, clocks and sensor ages."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from s2r_jax.errors import BadValue
from s2r_jax.parameters import apply

if TYPE_CHECKING:
    from s2r_jax.robot import Robot

#: Control periods that a delay may last: every world keeps all commands and readings within, and
#: 10,000 commands of 12 motors are 1.4 MB a world.
MOST_PERIODS = 10_000


def check(robot: "Robot") -> None:
    """Refuse delays that a world could not remember, at the nominal θ or within its bounds.

    Raises:
        BadValue: A latency, clock offset or sensor age beyond `MOST_PERIODS`.
    """
    longest = MOST_PERIODS * robot.period
    expected = f"{longest:g} s at most, {MOST_PERIODS} control periods, within all bounds"
    fields = ("latency.action", "latency.jitter", "clock.command", "sensor.delay", "sensor.rate")
    nominal = {name: robot.nominal(name) for name in fields}
    effects = tuple(e for e in robot.parameters.effects if e.field in fields)
    moved = dataclasses.replace(robot.parameters, effects=effects)
    corners = [nominal]
    for bound in (robot.parameters.low, robot.parameters.high):
        corners.append(nominal | apply(moved, np.array(bound, dtype=float), nominal, xp=np))
    for corner in corners:
        action, jitter, clock, delay, rate = (corner[name] for name in fields)
        if abs(float(clock)) > longest:
            raise BadValue(robot.file, "clock/command", float(clock), expected)
        total = float(action) + float(jitter)
        if total > longest:
            raise BadValue(robot.file, "latency (action + jitter)", total, expected)
        ages = delay + np.divide(1.0, rate, out=np.zeros_like(rate), where=rate > 0)
        for name, age in zip(robot.quantities["sensor.delay"][0], ages, strict=True):
            if age > longest:
                raise BadValue(robot.file, f"{name} (delay + 1 / rate)", float(age), expected)
