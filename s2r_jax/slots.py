"""Every scalar that a target can name: where it stands, and what must move with it.

Fields of the MuJoCo model, fields that are computed into it (`parameters.DERIVED`), and quantities
outside it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import mujoco
import numpy as np

from s2r_jax import terrain
from s2r_jax.inertia import LOG_CHOLESKY

#: All numbers.
ANY = (-np.inf, np.inf)
#: What cannot be negative: negative damping or friction would drive the machine.
NOT_NEGATIVE = (0.0, np.inf)
#: A moving body without mass cannot be accelerated [kg].
MASS = (1e-9, np.inf)


class Slot(NamedTuple):
    """One scalar that a target can move, and what else must move with it.

    `touched` lists (field, flat index, coefficient). The first is the scalar itself; with `scale`
    all are multiplied by
    θ, with `set` and `add` each gets θ times its coefficient.
    """

    target: str
    nominal: float
    touched: tuple[tuple[str, int, float], ...]
    domain: tuple[float, float] = ANY
    """The values that make sense; bounds beyond it are refused."""


class Attribute(NamedTuple):
    """A model field that one attribute of one kind of element stands for."""

    field: str
    component: int | None = None
    """Component that is meant when the target names none; None: the target must name one."""
    domain: tuple[float, float] = ANY
    """The values that make sense."""


#: kind -> attribute -> field. Attributes that move several fields at once (mass, kp, kv, strength)
#: have functions below.
ATTRIBUTES: dict[str, dict[str, Attribute]] = {
    "body": {
        "pos": Attribute("body_pos"),
        "ipos": Attribute("body_ipos"),
        "gravcomp": Attribute("body_gravcomp", 0),
    },
    "joint": {
        "damping": Attribute("dof_damping", 0, NOT_NEGATIVE),
        "armature": Attribute("dof_armature", 0, NOT_NEGATIVE),
        "frictionloss": Attribute("dof_frictionloss", 0, NOT_NEGATIVE),
        "stiffness": Attribute("jnt_stiffness", 0, NOT_NEGATIVE),
        "range": Attribute("jnt_range"),
        "springref": Attribute("qpos_spring", 0),
        "solref": Attribute("jnt_solref"),
    },
    "geom": {
        "friction": Attribute("geom_friction", 0, NOT_NEGATIVE),
        "size": Attribute("geom_size", None, NOT_NEGATIVE),
        "pos": Attribute("geom_pos"),
        "solref": Attribute("geom_solref"),
        "solimp": Attribute("geom_solimp"),
        "margin": Attribute("geom_margin", 0, NOT_NEGATIVE),
        "gap": Attribute("geom_gap", 0),
    },
    "actuator": {
        "gear": Attribute("actuator_gear", 0),
        "forcerange": Attribute("actuator_forcerange"),
        "ctrlrange": Attribute("actuator_ctrlrange"),
        "timeconst": Attribute("actuator_dynprm", 0, NOT_NEGATIVE),
    },
    "tendon": {
        "damping": Attribute("tendon_damping", 0, NOT_NEGATIVE),
        "stiffness": Attribute("tendon_stiffness", 0, NOT_NEGATIVE),
        "frictionloss": Attribute("tendon_frictionloss", 0, NOT_NEGATIVE),
        "armature": Attribute("tendon_armature", 0, NOT_NEGATIVE),
        "lengthspring": Attribute("tendon_lengthspring"),
    },
    "site": {"pos": Attribute("site_pos")},
    "option": {
        "gravity": Attribute("opt.gravity"),
        "density": Attribute("opt.density", 0, NOT_NEGATIVE),
        "viscosity": Attribute("opt.viscosity", 0, NOT_NEGATIVE),
        "wind": Attribute("opt.wind"),
    },
}

#: Quantity -> the values that make sense, checked for all that the bounds of θ can reach.
DOMAINS: dict[str, tuple[float, float]] = {
    "motor.strength": (0.0, np.inf),
    "motor.resistance": (1e-9, np.inf),
    "motor.lag": (0.0, np.inf),
    "motor.friction": NOT_NEGATIVE,
    "motor.viscous": NOT_NEGATIVE,
    "motor.stribeck": NOT_NEGATIVE,
    "motor.load_friction": NOT_NEGATIVE,
    "motor.stribeck_load": NOT_NEGATIVE,
    "motor.saturation": NOT_NEGATIVE,
    "motor.torque_limit": NOT_NEGATIVE,
    "motor.stribeck_speed": (1e-9, np.inf),
    "motor.backlash": (0.0, np.inf),
    "battery.voltage": (0.0, np.inf),
    "battery.resistance": (0.0, np.inf),
    "battery.capacity": (1.0, np.inf),
    "battery.charge": (0.0, 1.0),
    "latency.action": (0.0, np.inf),
    "latency.jitter": (0.0, np.inf),
    "latency.drop": (0.0, 1.0),
    "push.speed": (0.0, np.inf),
    "push.interval": (1e-9, np.inf),
    "sensor.noise": (0.0, np.inf),
    "sensor.drift": (0.0, np.inf),
    "sensor.quantum": (0.0, np.inf),
    "sensor.delay": (0.0, np.inf),
    "sensor.rate": (1e-9, np.inf),
}

OBJECTS = {
    "body": mujoco.mjtObj.mjOBJ_BODY,
    "joint": mujoco.mjtObj.mjOBJ_JOINT,
    "geom": mujoco.mjtObj.mjOBJ_GEOM,
    "actuator": mujoco.mjtObj.mjOBJ_ACTUATOR,
    "tendon": mujoco.mjtObj.mjOBJ_TENDON,
    "site": mujoco.mjtObj.mjOBJ_SITE,
}


def model_field(model: mujoco.MjModel, field: str) -> np.ndarray:
    """Return a field of the compiled model by name, `opt.<name>` for its options."""
    owner, _, option = field.partition(".")
    return np.asarray(getattr(model.opt, option) if owner == "opt" else getattr(model, field))


def of_quantities(quantities: Mapping[str, tuple[tuple[str, ...], np.ndarray]]) -> list[Slot]:
    """Return the slots of what the engine does not hold: field -> (targets, nominal values)."""
    return [
        Slot(target, float(value), ((field, index, 1.0),), DOMAINS.get(field, ANY))
        for field, (targets, values) in quantities.items()
        if targets
        for index, (target, value) in enumerate(zip(targets, np.ravel(values), strict=True))
    ]


def of_model(model: mujoco.MjModel) -> list[Slot]:
    """Return the slots of the model, its payloads, inertias and terrain included."""
    slots = []
    for kind, attributes in ATTRIBUTES.items():
        for attribute, spec in attributes.items():
            for name, row in _rows(model, kind, spec.field):
                slots += _field_slots(
                    model, "/".join(filter(None, (kind, name, attribute))), spec, row
                )
    for body in range(1, model.nbody):
        slots.append(_mass_slot(model, body))
        if model.body_mass[body] > 0:
            slots += _inertial_slots(model, body)
    for actuator in range(model.nu):
        slots += _actuator_slots(model, actuator)
    return slots + _terrain_slots(model)


def _rows(model: mujoco.MjModel, kind: str, field: str) -> list[tuple[str, int]]:
    """Return (element name, row of the field) pairs.

    A joint with several dofs has one row of each dof.
    """
    if kind == "option":
        return [("", 0)]
    pairs = []
    counts = {
        "joint": model.njnt,
        "body": model.nbody,
        "geom": model.ngeom,
        "actuator": model.nu,
        "tendon": model.ntendon,
        "site": model.nsite,
    }
    for element in range(counts[kind]):
        name = mujoco.mj_id2name(model, OBJECTS[kind], element) or f"{element}"
        if kind == "body" and element == 0:
            continue
        if field.startswith("dof_"):
            first, count = model.jnt_dofadr[element], DOFS[model.jnt_type[element]]
            pairs += [(name if count == 1 else f"{name}.{k}", int(first + k)) for k in range(count)]
        elif field == "qpos_spring":
            if DOFS[model.jnt_type[element]] == 1:
                pairs.append((name, int(model.jnt_qposadr[element])))
        else:
            pairs.append((name, element))
    return pairs


DOFS = {0: 6, 1: 3, 2: 1, 3: 1}  # mjtJoint: free, ball, slide, hinge


def _field_slots(model: mujoco.MjModel, target: str, spec: Attribute, row: int) -> list[Slot]:
    values = model_field(model, spec.field)
    width = values[0].size if values.ndim > 1 else 1
    if spec.field.startswith("opt."):
        width, row = values.size, 0
    flat = values.reshape(-1)
    slots = []
    for component in range(width):
        index = row * width + component
        touched = ((spec.field, index, 1.0),)
        if spec.component == component:
            slots.append(Slot(target, float(flat[index]), touched, spec.domain))
        if width > 1:
            slots.append(Slot(f"{target}:{component}", float(flat[index]), touched, spec.domain))
    return slots


def _mass_slot(model: mujoco.MjModel, body: int) -> Slot:
    """Mass takes the rotational inertia along in proportion: a heavier body of the same shape."""
    mass = float(model.body_mass[body])
    name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, body) or f"{body}"
    inertia = [
        ("body_inertia", 3 * body + k, float(model.body_inertia[body, k]) / mass if mass else 0.0)
        for k in range(3)
    ]
    return Slot(f"body/{name}/mass", mass, (("body_mass", body, 1.0), *inertia), MASS)


def _inertial_slots(model: mujoco.MjModel, body: int) -> list[Slot]:
    """Return a point mass that the body carries, and the log-Cholesky numbers of its inertia."""
    name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, body) or f"{body}"
    slots = [Slot(f"payload/{name}/mass", 0.0, (("payload.mass", body, 1.0),), (0.0, np.inf))]
    for k, place in enumerate(model.body_ipos[body]):
        touched = (("payload.pos", 3 * body + k, 1.0),)
        slots.append(Slot(f"payload/{name}/pos:{k}", float(place), touched))
    for k in range(LOG_CHOLESKY):
        touched = (("inertia.log_cholesky", LOG_CHOLESKY * body + k, 1.0),)
        slots.append(Slot(f"body/{name}/inertia:{k}", 0.0, touched))
    return slots


def _terrain_slots(model: mujoco.MjModel) -> list[Slot]:
    """Return roughness and tile of the ground, both rounded to those that there are."""
    ground = terrain.layout(model)
    if ground is None:
        return []
    level = (("terrain.level", ground.body, 1.0 / ground.rise),)
    # Uniform within these bounds, every tile is as likely; the ends round to a tile that exists.
    ends = (-0.499, ground.tiles - 0.501)
    return [
        Slot("terrain/roughness", 0.0, level, (0.0, ground.roughness)),
        Slot("terrain/tile", 0.0, (("terrain.tile", ground.body, 1.0),), ends),
    ]


def _actuator_slots(model: mujoco.MjModel, actuator: int) -> list[Slot]:
    """Gains move the gain and the bias term together.

    Strength scales everything that makes force, and its limits; `motor/<name>/strength` is the
    same thing for a robot whose motors are MuJoCo's own.
    """
    name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_ACTUATOR, actuator) or f"{actuator}"
    gain, bias = model.actuator_gainprm[actuator], model.actuator_biasprm[actuator]
    g, b = actuator * gain.size, actuator * bias.size
    slots = []
    if gain[0] != 0 and bias[1] == -gain[0]:
        touched = (("actuator_gainprm", g, 1.0), ("actuator_biasprm", b + 1, -1.0))
        slots.append(Slot(f"actuator/{name}/kp", float(gain[0]), touched))
    if bias[2] != 0 and bias[2] == -gain[0]:
        touched = (("actuator_gainprm", g, 1.0), ("actuator_biasprm", b + 2, -1.0))
        slots.append(Slot(f"actuator/{name}/kv", float(gain[0]), touched))
    elif gain[0] != 0 and bias[1] == -gain[0]:
        touched = (("actuator_biasprm", b + 2, -1.0),)
        slots.append(Slot(f"actuator/{name}/kv", float(-bias[2]), touched))
    # Of fixed and affine actuators the first three numbers of both make force, in proportion.
    if model.actuator_gaintype[actuator] <= 1 and model.actuator_biastype[actuator] <= 1:
        force = [("actuator_gainprm", g + k, float(gain[k])) for k in range(3)]
        force += [("actuator_biasprm", b + k, float(bias[k])) for k in range(3)]
        limits = model.actuator_forcerange[actuator]
        force += [("actuator_forcerange", 2 * actuator + k, float(limits[k])) for k in range(2)]
        for kind in ("actuator", "motor"):
            slots.append(Slot(f"{kind}/{name}/strength", 1.0, tuple(force)))
    return slots
