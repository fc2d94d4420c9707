"""What a machine measures.

Named signals, in the order of robot.yaml, stacked into one sensor vector.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mujoco

from s2r_jax.document import matching, number
from s2r_jax.errors import BadValue, UnknownName

#: Entries of a sensor's error model, each `[sensor]` and a possible target of θ.
SENSOR_FIELDS = ("bias", "scale", "noise", "drift", "quantum", "delay", "rate")

#: What may be below zero.
SENSOR_MINIMA = {"bias": -math.inf, "scale": -math.inf}

BODY_SIZES = {"position": 3, "orientation": 4, "velocity": 3, "angular_velocity": 3}


@dataclass(frozen=True)
class Signal:
    """One signal: reading = quantise(scale * truth + bias + drift + noise), `delay` late."""

    name: str
    kind: str
    """joint, body, sensor, motor or battery."""
    element: str
    attribute: str
    address: tuple[int, ...]
    """Of a joint.

    (qpos or qvel address,); of a body: (id,); of a sensor: its sensordata entries; of a motor:
    (id,).
    """
    size: int
    bias: float = 0.0
    scale: float = 1.0
    noise: float = 0.0
    """Standard deviation of white noise, in the signal's unit."""
    drift: float = 0.0
    """Standard deviation of the bias's random walk [unit / sqrt(s)]."""
    quantum: float = 0.0
    """Resolution; 0 for none."""
    delay: float = 0.0
    """[s]."""
    rate: float = 0.0
    """Samples per second, each held until the next [Hz]; 0 for one every control tick."""


def names(model: mujoco.MjModel) -> dict[str, tuple[str, str, str, tuple[int, ...], int]]:
    """Return every signal that the model can give.

    Name -> (kind, element, attribute, address, size).
    """
    found: dict[str, tuple[str, str, str, tuple[int, ...], int]] = {}
    for j in range(model.njnt):
        name, kind = model.joint(j).name, int(model.jnt_type[j])
        if kind in (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)):
            addresses = {"position": model.jnt_qposadr[j], "velocity": model.jnt_dofadr[j]}
            for attribute, address in addresses.items():
                key = f"joint/{name}/{attribute}"
                found[key] = ("joint", name, attribute, (int(address),), 1)
    for b in range(1, model.nbody):
        for attribute, size in BODY_SIZES.items():
            name = model.body(b).name
            found[f"body/{name}/{attribute}"] = ("body", name, attribute, (b,), size)
    for s in range(model.nsensor):
        sensor = model.sensor(s)
        entries = tuple(range(int(sensor.adr[0]), int(sensor.adr[0] + sensor.dim[0])))
        found[f"sensor/{sensor.name}"] = ("sensor", sensor.name, "", entries, len(entries))
    for a in range(model.nu):
        for attribute in ("duty", "torque"):
            name = model.actuator(a).name
            found[f"motor/{name}/{attribute}"] = ("motor", name, attribute, (a,), 1)
    found["battery/voltage"] = ("battery", "", "voltage", (), 1)
    return found


def parse(declared: Any, model: mujoco.MjModel, place: str) -> tuple[Signal, ...]:
    """Return the declared signals; by default position and velocity of every hinge and slide.

    A name may be a glob (`joint/*/position`): one signal for each match, in the model's order.

    Raises:
        UnknownName: A signal or key that does not exist; the choices are listed.
        BadValue: A number that does not fit, or a signal that is declared twice.
    """
    known = names(model)
    if declared is None:
        declared = {name: {} for name, entry in known.items() if entry[0] == "joint"}
    if not isinstance(declared, Mapping):
        raise BadValue(place, "content", declared, "a mapping of signal names")
    found: dict[str, Signal] = {}
    for name, options in declared.items():
        matches = matching(str(name), known)
        if not matches:
            raise UnknownName(place, name, known, "signal")
        options = {} if options is None else options
        if not isinstance(options, Mapping):
            raise BadValue(place, str(name), options, "a mapping of sensor properties")
        for key, value in options.items():
            if key not in SENSOR_FIELDS:
                raise UnknownName(f"{place}: {name}", key, SENSOR_FIELDS, "key")
            number(options, key, f"{place}: {name}", minimum=SENSOR_MINIMA.get(key, 0.0))
            if key == "scale" and value == 0:
                raise BadValue(f"{place}: {name}", key, value, "a number other than 0")
        for match in matches:
            if match in found:
                raise BadValue(place, str(name), match, "each signal declared once")
            found[match] = Signal(match, *known[match], **options)
    return tuple(found.values())
