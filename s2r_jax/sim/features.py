"""Which elements of a model have a feature: the questions that the table `limits.py` asks.

Each function of a model returns the names of its elements, `Names`, or a mask over them, `Mask`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import mujoco
import numpy as np
from mujoco.mjx._src import collision_driver

from s2r_jax.sim.elements import contact_dim, element_names, ruling_friction, touching

Names = Callable[[mujoco.MjModel], Sequence[str]]
Mask = Callable[[mujoco.MjModel], Any]

#: Sliding friction below which contacts of MJX go wrong (1e-5 is off by 25 mm, 0 explodes).
SMALLEST_FRICTION = 1e-3


def each(kind: str, mask: Mask) -> Names:
    """Return a function that names the elements for which the mask is true."""
    return lambda model: [
        name
        for name, holds in zip(element_names(model, kind), np.ravel(mask(model)), strict=True)
        if holds
    ]


def option(holds: Mask) -> Names:
    """Return a function that names "option" where the model's options hold."""
    return lambda model: ["option"] if holds(model) else []


def rows(field: str) -> Mask:
    """Return a mask: any number in the element's row of the field differs from 0."""
    return lambda m: getattr(m, field).any(axis=tuple(range(1, getattr(m, field).ndim)))


def unknown_type(field: str, known: Iterable[int]) -> Mask:
    """Return a mask: the element's code in the field is none of the known ones."""
    codes = [int(code) for code in known]
    return lambda m: ~np.isin(getattr(m, field), codes)


def pairs_where(holds: Callable[[mujoco.MjModel, int, int, int], bool]) -> Names:
    """Return a function that names the pairs of geoms that may touch and for which it holds."""

    def names(model: mujoco.MjModel) -> list[str]:
        geoms = element_names(model, "geom")
        return [
            f"{geoms[a]} and {geoms[b]}" for a, b, p in touching(model) if holds(model, a, b, p)
        ]

    return names


def is_frictionless(model: mujoco.MjModel, one: int, two: int, pair: int) -> bool:
    """Return whether a contact with friction slides on too little of it for MJX."""
    sliding = model.pair_friction[pair] if pair >= 0 else ruling_friction(model, one, two)
    return contact_dim(model, one, two, pair) > 1 and bool(sliding[0] < SMALLEST_FRICTION)


def has_no_collider(model: mujoco.MjModel, one: int, two: int, pair: int) -> bool:
    """Return whether MJX cannot collide these two kinds of geoms."""
    return not collision_driver.has_collision_fn(*model.geom_type[[one, two]])


def has_mesh_margin(model: mujoco.MjModel, one: int, two: int, pair: int) -> bool:
    """Return whether a mesh or height field is in the pair and has a margin."""
    mesh_like = (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_HFIELD)
    margin = model.pair_margin[pair] if pair >= 0 else model.geom_margin[[one, two]].sum()
    return bool(np.isin(model.geom_type[[one, two]], mesh_like).any() and margin)


def enabled(*flags: mujoco.mjtEnableBit) -> Names:
    """Return a function that names "option" where any of the enable flags is set."""
    return option(lambda m: any(m.opt.enableflags & flag for flag in flags))


def contact_sensor(holds: Mask) -> Names:
    """Return a function that names the contact sensors for which the mask is true."""
    is_contact = mujoco.mjtSensor.mjSENS_CONTACT
    return each("sensor", lambda m: (m.sensor_type == is_contact) & holds(m))


def matches_by(kind: mujoco.mjtObj) -> Mask:
    """Return a mask: a sensor that matches contacts by objects of this kind."""
    return lambda m: (m.sensor_objtype == kind) | (m.sensor_reftype == kind)


def in_disabled_group(model: mujoco.MjModel) -> np.ndarray:
    """Return the mask of actuators whose group is disabled."""
    group = model.actuator_group
    return (
        (group >= 0) & (group < 31) & (model.opt.disableactuator >> np.clip(group, 0, 30) & 1 > 0)
    )


def drops_half_of_passive(model: mujoco.MjModel) -> bool:
    """Return whether only one of the flags spring and damper is disabled."""
    both = mujoco.mjtDisableBit.mjDSBL_SPRING | mujoco.mjtDisableBit.mjDSBL_DAMPER
    return model.opt.disableflags & both not in (0, both)


def has_fluid(model: mujoco.MjModel) -> bool:
    """Return whether anything moves through a fluid."""
    return bool(model.opt.density > 0 or model.opt.viscosity > 0 or model.opt.wind.any())
