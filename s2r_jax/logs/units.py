"""Units that a column may be in: what each measures, and its factor to SI."""

import math

from s2r_jax.errors import BadValue, UnknownName

#: unit -> (quantity, factor to the SI unit of that quantity).
UNITS: dict[str, tuple[str, float]] = {
    "1": ("number", 1.0),
    "%": ("number", 0.01),
    "bool": ("number", 1.0),
    "s": ("time", 1.0),
    "ms": ("time", 1e-3),
    "us": ("time", 1e-6),
    "ns": ("time", 1e-9),
    "rad": ("angle", 1.0),
    "deg": ("angle", math.pi / 180.0),
    "rev": ("angle", 2.0 * math.pi),
    "rad/s": ("angular speed", 1.0),
    "deg/s": ("angular speed", math.pi / 180.0),
    "rev/s": ("angular speed", 2.0 * math.pi),
    "rpm": ("angular speed", math.pi / 30.0),
    "m": ("length", 1.0),
    "cm": ("length", 1e-2),
    "mm": ("length", 1e-3),
    "m/s": ("speed", 1.0),
    "mm/s": ("speed", 1e-3),
    "m/s2": ("acceleration", 1.0),
    "g": ("acceleration", 9.80665),  # standard gravity, ISO 80000-3
    "N m": ("torque", 1.0),
    "mN m": ("torque", 1e-3),
    "N": ("force", 1.0),
    "V": ("voltage", 1.0),
    "mV": ("voltage", 1e-3),
    "A": ("current", 1.0),
    "mA": ("current", 1e-3),
    "N m/rad": ("stiffness", 1.0),
    "N m s/rad": ("damping", 1.0),
}


def factor(unit: object, quantity: str | None, place: str) -> float:
    """Return the factor from a unit to SI; `1` fits every quantity (the number is SI already).

    Args:
        unit: As written in robot.yaml; a bare 1 counts as "1".
        quantity: What the channel holds; None where anything may be.
        place: Of the entry, for the message.

    Raises:
        UnknownName: No such unit.
        BadValue: A unit of another quantity.
    """
    name = "1" if unit == 1 and not isinstance(unit, bool) else unit
    if not isinstance(name, str) or name not in UNITS:
        raise UnknownName(place, unit, UNITS, "unit")
    found, value = UNITS[name]
    if quantity not in (None, found) and name != "1":
        fitting = [other for other, (kind, _) in UNITS.items() if kind == quantity or other == "1"]
        raise BadValue(place, "unit", name, f"a unit of {quantity}: {', '.join(fitting)}")
    return value
