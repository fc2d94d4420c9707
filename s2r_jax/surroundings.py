"""What robot.yaml says of the world around the engine: battery, command path, ground, pushes."""

import dataclasses
from typing import Any

import mujoco

from s2r_jax.document import mapping, number
from s2r_jax.errors import BadValue, MissingKey, UnknownName
from s2r_jax.terrain import Terrain


def battery(declared: Any, place: str) -> dict[str, float]:
    """Return voltage [V], resistance [Ω], capacity [C] and charge [0 to 1] of the supply.

    By default an ideal source of 24 V.
    """
    entry = mapping(declared, place, ("voltage", "resistance", "capacity", "charge"))
    charge = number(entry, "charge", place, 1.0, minimum=0.0)
    if charge > 1:
        raise BadValue(place, "charge", charge, "a share in [0, 1]")
    return {
        "voltage": number(entry, "voltage", place, 24.0, minimum=0.0),
        "resistance": number(entry, "resistance", place, 0.0, minimum=0.0),
        "capacity": number(entry, "capacity", place, 1e9, minimum=1.0),
        "charge": charge,
    }


def latency(declared: Any, place: str) -> dict[str, float]:
    """Return action and jitter [s] and drop [0 to 1] of the command path, by default none."""
    entry = mapping(declared, place, ("action", "jitter", "drop"))
    found = {key: number(entry, key, place, 0.0, minimum=0.0) for key in ("action", "jitter")}
    found["drop"] = number(entry, "drop", place, 0.0, minimum=0.0)
    if found["drop"] > 1:
        raise BadValue(place, "drop", found["drop"], "a probability in [0, 1]")
    return found


def terrain(declared: Any, place: str) -> Terrain:
    """Return the rough ground; whole numbers where they count something."""
    fields = {field.name: field for field in dataclasses.fields(Terrain)}
    entry = mapping(declared, place, tuple(fields))
    for key in ("geom", "roughness"):
        if key not in entry:
            raise MissingKey(place, key, entry)
    values: dict[str, Any] = {"geom": str(entry["geom"])}
    for key in entry:
        if key == "geom":
            continue
        value = number(entry, key, place, minimum=0.0)
        if key in ("levels", "tiles", "seed") and value != round(value):
            raise BadValue(place, key, value, "a whole number")
        values[key] = int(value) if key in ("levels", "tiles", "seed") else value
    return Terrain(**values)


def push(declared: Any, model: mujoco.MjModel, place: str) -> tuple[dict[str, float], int | None]:
    """Return speed [m/s] and mean interval [s] of the pushes, and the body that they hit.

    By default the only free body, pushed at speed 0.
    """
    free = [int(b) for b, t in zip(model.jnt_bodyid, model.jnt_type, strict=True) if t == 0]
    names = [model.body(b).name for b in free]
    entry = mapping(declared, place, ("body", "speed", "interval"))
    speed = number(entry, "speed", place, 0.0, minimum=0.0)
    # A few seconds, long enough to regain balance; it matters only with a speed.
    interval = number(entry, "interval", place, 5.0)
    if not interval > 0:
        raise BadValue(place, "interval", interval, "a positive number")
    values = {"speed": speed, "interval": interval}
    if "body" in entry:
        if entry["body"] not in names:
            raise UnknownName(place, entry["body"], names, "free body")
        return values, free[names.index(entry["body"])]
    if declared and len(free) != 1:
        raise BadValue(place, "body", None, f"the name of a free body, of {names}")
    return values, free[0] if len(free) == 1 else None
