"""What MJX-JAX does not do although MuJoCo's C engine does: the engine knowledge of `check.py`.

Every row of `RULES` was measured by rolling out both engines, which `tests/sim/test_check.py`
repeats; only plugins and the equalities of flexes are read off MJX's source.

Source: MuJoCo 4.0.0 and mujoco-mjx 3.17.0, their behaviour and `mjx/_src/io.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import mujoco
import numpy as np
from mujoco import mjx
from mujoco.mjx._src import collision_driver

from s2r_jax.sim.elements import contact_dim, element_names, ruling_friction, touching

Effect = Literal["ignored", "rejected"]
Names = Callable[[mujoco.MjModel], Sequence[str]]
Mask = Callable[[mujoco.MjModel], Any]

#: Sliding friction below which contacts of MJX go wrong (1e-5 is off by 25 mm, 0 explodes).
SMALLEST_FRICTION = 1e-3


class Rule(NamedTuple):
    """A feature of a model that MJX ignores or rejects, and which elements have it."""

    field: str
    effect: Effect
    where: Names
    message: str
    remedy: str


def _each(kind: str, mask: Mask) -> Names:
    """Return a function that names the elements for which the mask is true."""
    return lambda model: [
        name
        for name, holds in zip(element_names(model, kind), np.ravel(mask(model)), strict=True)
        if holds
    ]


def _option(holds: Mask) -> Names:
    return lambda model: ["option"] if holds(model) else []


def _rows(field: str) -> Mask:
    """Return a mask: any number in the element's row of the field differs from 0."""
    return lambda m: getattr(m, field).any(axis=tuple(range(1, getattr(m, field).ndim)))


def _unknown_type(field: str, known: Iterable[int]) -> Mask:
    codes = [int(code) for code in known]
    return lambda m: ~np.isin(getattr(m, field), codes)


def _pairs_where(holds: Callable[[mujoco.MjModel, int, int, int], bool]) -> Names:
    def names(model: mujoco.MjModel) -> list[str]:
        geoms = element_names(model, "geom")
        return [
            f"{geoms[a]} and {geoms[b]}" for a, b, p in touching(model) if holds(model, a, b, p)
        ]

    return names


def _is_frictionless(model: mujoco.MjModel, one: int, two: int, pair: int) -> bool:
    sliding = model.pair_friction[pair] if pair >= 0 else ruling_friction(model, one, two)
    return contact_dim(model, one, two, pair) > 1 and bool(sliding[0] < SMALLEST_FRICTION)


def _has_no_collider(model: mujoco.MjModel, one: int, two: int, pair: int) -> bool:
    return not collision_driver.has_collision_fn(*model.geom_type[[one, two]])


def _has_mesh_margin(model: mujoco.MjModel, one: int, two: int, pair: int) -> bool:
    mesh_like = (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_HFIELD)
    margin = model.pair_margin[pair] if pair >= 0 else model.geom_margin[[one, two]].sum()
    return bool(np.isin(model.geom_type[[one, two]], mesh_like).any() and margin)


_ON_C = "run it on engine 'mujoco'"
_integrator, _enable, _disable = mujoco.mjtIntegrator, mujoco.mjtEnableBit, mujoco.mjtDisableBit


def _enabled(*flags: mujoco.mjtEnableBit) -> Names:
    return _option(lambda m: any(m.opt.enableflags & flag for flag in flags))


def _contact_sensor(holds: Mask) -> Names:
    is_contact = mujoco.mjtSensor.mjSENS_CONTACT
    return _each("sensor", lambda m: (m.sensor_type == is_contact) & holds(m))


def _matches_by(kind: mujoco.mjtObj) -> Mask:
    return lambda m: (m.sensor_objtype == kind) | (m.sensor_reftype == kind)


def _in_disabled_group(model: mujoco.MjModel) -> np.ndarray:
    group = model.actuator_group
    return (
        (group >= 0) & (group < 31) & (model.opt.disableactuator >> np.clip(group, 0, 30) & 1 > 0)
    )


def _drops_half_of_passive(model: mujoco.MjModel) -> bool:
    both = _disable.mjDSBL_SPRING | _disable.mjDSBL_DAMPER
    return model.opt.disableflags & both not in (0, both)


def _has_fluid(model: mujoco.MjModel) -> bool:
    return bool(model.opt.density > 0 or model.opt.viscosity > 0 or model.opt.wind.any())


RULES: tuple[Rule, ...] = (
    Rule(
        "actuator_delay",
        "ignored",
        _each("actuator", lambda m: m.actuator_history[:, 0] > 0),
        "MJX applies the control at once",
        "drop delay and nsample, declare `latency/action` instead",
    ),
    Rule(
        "sensor_delay",
        "ignored",
        _each("sensor", _rows("sensor_delay")),
        "MJX reads the sensor at once",
        "drop delay and nsample, declare `latency/<sensor>` instead",
    ),
    Rule(
        "sensor_interval",
        "ignored",
        _each("sensor", lambda m: m.sensor_interval[:, 0] > 0),
        "MJX reads the sensor at every step",
        f"drop interval, or {_ON_C}",
    ),
    Rule(
        "actuator_damping",
        "ignored",
        _each(
            "actuator", lambda m: _rows("actuator_damping")(m) | _rows("actuator_dampingpoly")(m)
        ),
        "MJX has no damping of actuators",
        "put it on the joint (times gear squared), or into kv",
    ),
    Rule(
        "actuator_armature",
        "ignored",
        _each("actuator", _rows("actuator_armature")),
        "MJX has no inertia of actuators",
        "put it on the joint (times gear squared)",
    ),
    Rule(
        "dof_dampingpoly",
        "ignored",
        _each("dof", _rows("dof_dampingpoly")),
        "MJX keeps the linear damping only",
        f"linearise it, or {_ON_C}",
    ),
    Rule(
        "jnt_stiffnesspoly",
        "ignored",
        _each("joint", _rows("jnt_stiffnesspoly")),
        "MJX keeps the linear stiffness only",
        f"linearise it, or {_ON_C}",
    ),
    Rule(
        "tendon_dampingpoly",
        "ignored",
        _each("tendon", _rows("tendon_dampingpoly")),
        "MJX keeps the linear damping only",
        f"linearise it, or {_ON_C}",
    ),
    Rule(
        "tendon_stiffnesspoly",
        "ignored",
        _each("tendon", _rows("tendon_stiffnesspoly")),
        "MJX keeps the linear stiffness only",
        f"linearise it, or {_ON_C}",
    ),
    Rule(
        "jnt_springyield",
        "ignored",
        _each("joint", _rows("jnt_springyield")),
        "MJX's springs never yield",
        f"drop it, or {_ON_C}",
    ),
    Rule(
        "tendon_springyield",
        "ignored",
        _each("tendon", _rows("tendon_springyield")),
        "MJX's springs never yield",
        f"drop it, or {_ON_C}",
    ),
    Rule(
        "geom_fluid",
        "ignored",
        _each("geom", lambda m: (m.geom_fluid[:, 0] > 0) & _has_fluid(m)),
        "MJX has no ellipsoid fluid model and uses the one of the body's inertia box",
        f"drop fluidshape, or {_ON_C}",
    ),
    Rule(
        "geom_adhesion",
        "ignored",
        _each("geom", _rows("geom_adhesion")),
        "MJX's contacts do not stick",
        f"drop it, or {_ON_C}",
    ),
    Rule(
        "pair_adhesion",
        "ignored",
        _each("pair", _rows("pair_adhesion")),
        "MJX's contacts do not stick",
        f"drop it, or {_ON_C}",
    ),
    Rule(
        "geom_surfacevel",
        "ignored",
        _each("geom", _rows("geom_surfacevel")),
        "MJX's surfaces do not move by themselves",
        f"move the body (mocap) instead, or {_ON_C}",
    ),
    Rule(
        "opt.noslip_iterations",
        "ignored",
        _option(lambda m: m.opt.noslip_iterations > 0),
        "MJX has no noslip solver",
        "set noslip_iterations to 0 and raise impratio",
    ),
    Rule(
        "opt.disableactuator",
        "ignored",
        _each("actuator", _in_disabled_group),
        "MJX drives the actuators of disabled groups",
        "take the actuators out of the model",
    ),
    Rule(
        "opt.disableflags",
        "ignored",
        _option(_drops_half_of_passive),
        "MJX drops springs, dampers, fluid and gravity compensation alike when one of the flags "
        "spring and damper is off",
        "leave both flags on and set the stiffness or damping to 0",
    ),
    Rule(
        "geom_friction",
        "ignored",
        _pairs_where(_is_frictionless),
        f"below {SMALLEST_FRICTION:g} of sliding friction MJX's contacts go wrong",
        f"use at least {SMALLEST_FRICTION:g}, or condim 1",
    ),
    Rule(
        "opt.enableflags",
        "ignored",
        _enabled(_enable.mjENBL_SLEEP),
        "MJX never lets a tree sleep",
        "clear the flag: motion differs by less than sleep_tolerance",
    ),
    Rule(
        "opt.enableflags",
        "rejected",
        _enabled(_enable.mjENBL_ENERGY),
        "MJX does not compute the energy",
        "clear the flag: it does not change the motion",
    ),
    Rule(
        "opt.enableflags",
        "rejected",
        _enabled(_enable.mjENBL_FWDINV),
        "MJX does not compare forward and inverse dynamics",
        "clear the flag: it does not change the motion",
    ),
    Rule(
        "opt.enableflags",
        "rejected",
        _enabled(_enable.mjENBL_OVERRIDE),
        "MJX has no global contact parameters",
        "write o_margin, o_solref, o_solimp and o_friction into the geoms",
    ),
    Rule(
        "opt.enableflags",
        "rejected",
        _enabled(_enable.mjENBL_DIAGEXACT, _enable.mjENBL_SPECULATIVE),
        "MJX does not know the flags diagexact and speculative",
        f"clear them, or {_ON_C}",
    ),
    Rule(
        "opt.integrator",
        "rejected",
        _option(
            lambda m: m.opt.integrator in (_integrator.mjINT_IMPLICIT, _integrator.mjINT_DISCRETE)
        ),
        "MJX has the integrators Euler, RK4 and implicitfast",
        "use implicitfast",
    ),
    Rule(
        "opt.integrator",
        "rejected",
        _option(lambda m: m.opt.integrator == _integrator.mjINT_IMPLICITFAST and _has_fluid(m)),
        "MJX's implicitfast does not work in a fluid (density, viscosity, wind)",
        "use Euler, or no fluid",
    ),
    Rule(
        "opt.solver",
        "rejected",
        _option(lambda m: m.opt.solver == mujoco.mjtSolver.mjSOL_PGS),
        "MJX has the solvers Newton and CG",
        "use Newton",
    ),
    Rule(
        "nflex",
        "rejected",
        lambda m: [f"flex {i}" for i in range(m.nflex)],
        "MJX-JAX has no deformable bodies",
        _ON_C,
    ),
    Rule(
        "nplugin",
        "ignored",
        _option(lambda m: m.nplugin > 0),
        "MJX runs no engine plugins",
        _ON_C,
    ),
    Rule(
        "nv",
        "rejected",
        _option(lambda m: m.nv == 0),
        "MJX cannot step a scene without degrees of freedom",
        f"add a joint, or {_ON_C}",
    ),
    *(
        Rule(
            field,
            "rejected",
            _each("actuator", _unknown_type(field, known)),
            f"MJX does not know this {what} (pid, dcmotor, slider-crank, adhesion, user, ...)",
            f"model it by motor, position, velocity, general or `motor/*`, or {_ON_C}",
        )
        for field, known, what in (
            ("actuator_dyntype", mjx.DynType, "activation dynamics"),
            ("actuator_gaintype", mjx.GainType, "gain"),
            ("actuator_biastype", mjx.BiasType, "bias"),
            ("actuator_trntype", mjx.TrnType, "transmission"),
        )
    ),
    Rule(
        "eq_type",
        "rejected",
        _each("equality", _unknown_type("eq_type", mjx.EqType)),
        "MJX has connect, weld, joint and tendon equalities",
        _ON_C,
    ),
    Rule(
        "sensor_type",
        "rejected",
        _each("sensor", _unknown_type("sensor_type", mjx.SensorType)),
        "MJX does not know this sensor",
        "remove it from the model",
    ),
    *(
        Rule(
            "sensor_objtype",
            "rejected",
            _contact_sensor(mask),
            f"MJX's contact sensors do not match by {what}",
            "match by geom",
        )
        for what, mask in (
            ("site", lambda m: m.sensor_objtype == mujoco.mjtObj.mjOBJ_SITE),
            ("body", _matches_by(mujoco.mjtObj.mjOBJ_BODY)),
            ("subtree", _matches_by(mujoco.mjtObj.mjOBJ_XBODY)),
        )
    ),
    Rule(
        "sensor_intprm",
        "rejected",
        _contact_sensor(lambda m: m.sensor_intprm[:, 1] == 3),
        "MJX's contact sensors cannot reduce to the net force",
        "use another reduction",
    ),
    Rule(
        "geom_type",
        "rejected",
        _pairs_where(_has_no_collider),
        "MJX has no collision function for these two shapes",
        "exclude the pair (contype, conaffinity, <exclude>) or use capsules and boxes",
    ),
    Rule(
        "geom_margin",
        "rejected",
        _pairs_where(_has_mesh_margin),
        "MJX has no margin on meshes and height fields",
        "set margin and gap to 0",
    ),
    Rule(
        "geom_condim",
        "rejected",
        _pairs_where(
            lambda m, *ends: (
                m.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC and contact_dim(m, *ends) == 1
            )
        ),
        "MJX has no contacts of condim 1 under the elliptic cone",
        "use condim 3 with friction, or the pyramidal cone",
    ),
)
