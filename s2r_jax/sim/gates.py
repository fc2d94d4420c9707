"""Numbers of a model that cannot act because of how it was built, and how to build it so they can.

A number is fixed to no effect by a flag beside it (a range without `limited`), by its own nominal
value (MJX compiles a friction loss of 0 away), or by another number (the larger friction rules).
Varying it then does nothing and its gradient is 0, which looks like a well identified 0.

Source: MJX 3.17.0 and MuJoCo 4.0.0, every row measured by `tests/sim/test_check.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import mujoco
import numpy as np
from mujoco import mjx

from s2r_jax.sim.elements import contact_dim, ruling_friction, touching

Opener = Callable[[mujoco.MjModel, np.ndarray], None]

#: Friction loss [N m, N] that moves nothing measurably; exactly 0 would lock the joint in MJX.
SMALLEST_FRICTIONLOSS = 1e-6
#: Viscosity [Pa s], density [kg/m^3] or share of gravity far below what float64 resolves in motion.
FAINT = 1e-12
#: A limit [rad, m, N, N m] that nothing reaches.
OUT_OF_REACH = 1e9


class Gate(NamedTuple):
    """Fields that cannot act in the rows where their gate is closed.

    `is_closed` also sees which rows are to vary; `open` is None where there is no safe way.
    """

    fields: tuple[str, ...]
    is_closed: Callable[[mujoco.MjModel, Sequence[int]], Any]
    message: str
    remedy: str
    open: Opener | None


class CannotOpen(Exception):
    """Opening a gate would change the motion."""


def _limit(owner: str, fields: tuple[str, ...], flag: str, bounds: str) -> Gate:
    def switch_on(model: mujoco.MjModel, rows: np.ndarray) -> None:
        low = np.full(len(rows), -OUT_OF_REACH)
        if bounds == "jnt_range":  # the limit of a ball is an angle from 0 up
            low[model.jnt_type[rows] == mujoco.mjtJoint.mjJNT_BALL] = 0
        getattr(model, flag)[rows] = True
        getattr(model, bounds)[rows] = np.stack([low, np.full(len(rows), OUT_OF_REACH)], axis=1)

    return Gate(
        fields,
        lambda m, _: ~getattr(m, flag).astype(bool),
        f"the {owner} has no such limit ({flag} is off)",
        f"build the model with the limit on, out of reach (±{OUT_OF_REACH:g})",
        switch_on,
    )


def _frictionloss(kind: str, fields: tuple[str, ...]) -> Gate:
    field = f"{kind}_frictionloss"

    def floor(model: mujoco.MjModel, rows: np.ndarray) -> None:
        getattr(model, field)[rows] = SMALLEST_FRICTIONLOSS

    return Gate(
        fields,
        lambda m, _: getattr(m, field) == 0,
        "MJX compiles a friction loss of 0 away",
        f"build it with {SMALLEST_FRICTIONLOSS:g} and never let it reach 0, where MJX locks",
        floor,
    )


def _thicken(model: mujoco.MjModel, rows: np.ndarray) -> None:
    if model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST:
        raise CannotOpen("MJX's implicitfast does not work in a fluid; use the integrator Euler")
    model.opt.viscosity = FAINT


def _lift(model: mujoco.MjModel, rows: np.ndarray) -> None:
    model.body_gravcomp[rows] = FAINT
    mujoco.mj_setConst(model, mujoco.MjData(model))  # counts the bodies with compensation


def _contacts(model: mujoco.MjModel, geom: int) -> list[tuple[int, int]]:
    """Return the partner of each contact that the geom's own numbers may rule, the geom second."""
    ends = [(one, two) for one, two, pair in touching(model) if pair < 0 and geom in (one, two)]
    return [(two if one == geom else one, geom) for one, two in ends]


def _is_masked(model: mujoco.MjModel, varied: Sequence[int]) -> np.ndarray:
    """Return which geoms can be lowered without any contact noticing, others held."""

    def rules(other: int, geom: int) -> bool:
        first, second = model.geom_priority[[geom, other]]
        own, theirs = model.geom_friction[[geom, other], 0]
        if first != second:
            return bool(first > second)
        return bool(own > theirs or (own == theirs and other in varied))

    masked = [not any(rules(*ends) for ends in _contacts(model, g)) for g in range(model.ngeom)]
    return np.array(masked, dtype=bool)


def _take_precedence(model: mujoco.MjModel, rows: np.ndarray) -> None:
    """Let the geoms rule their contacts by priority, with the friction that rules them now."""
    for geom in rows.tolist():
        contacts = _contacts(model, geom)
        if not contacts:
            raise CannotOpen("nothing can touch it (contype, conaffinity, exclude, pair)")
        frictions = {tuple(ruling_friction(model, *ends)) for ends in contacts}
        dims = {contact_dim(model, *ends, -1) for ends in contacts}
        for what in ("geom_solref", "geom_solimp"):
            values = getattr(model, what)
            if any((values[other] != values[geom]).any() for other, _ in contacts):
                raise CannotOpen(f"it and what it touches differ in {what[5:]}; make them equal")
        if len(frictions) > 1 or len(dims) > 1:
            raise CannotOpen("its contacts differ in friction or condim; make them equal")
        others = model.geom_priority[[other for other, _ in contacts]]
        model.geom_friction[geom], model.geom_condim[geom] = frictions.pop(), dims.pop()
        model.geom_priority[geom] = others.max() + 1


def _disabled(flag: str, *fields: str) -> Gate:
    bit = getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag.upper()}")
    return Gate(
        fields,
        lambda m, _: bool(m.opt.disableflags & bit),
        f"the model disables {flag}",
        f"enable {flag} in <flag>",
        None,
    )


def _without(owner: str, fields: tuple[str, ...], is_closed: Any, remedy: str) -> Gate:
    return Gate(fields, is_closed, owner, remedy, None)


_JOINT_LIMIT = ("jnt_range", "jnt_margin", "jnt_solref", "jnt_solimp")
_TENDON_LIMIT = ("tendon_range", "tendon_margin", "tendon_solref_lim", "tendon_solimp_lim")
_FLUID = ("opt.density", "opt.viscosity")

GATES: tuple[Gate, ...] = (
    _frictionloss("dof", ("dof_frictionloss", "dof_solref", "dof_solimp")),
    _frictionloss("tendon", ("tendon_frictionloss", "tendon_solref_fri", "tendon_solimp_fri")),
    _limit("joint", _JOINT_LIMIT, "jnt_limited", "jnt_range"),
    _limit("joint", ("jnt_actfrcrange",), "jnt_actfrclimited", "jnt_actfrcrange"),
    _limit("tendon", _TENDON_LIMIT, "tendon_limited", "tendon_range"),
    _limit("tendon", ("tendon_actfrcrange",), "tendon_actfrclimited", "tendon_actfrcrange"),
    _limit("actuator", ("actuator_ctrlrange",), "actuator_ctrllimited", "actuator_ctrlrange"),
    _limit("actuator", ("actuator_forcerange",), "actuator_forcelimited", "actuator_forcerange"),
    _limit("actuator", ("actuator_actrange",), "actuator_actlimited", "actuator_actrange"),
    Gate(
        _FLUID,
        lambda m, _: not (m.opt.density > 0 or m.opt.viscosity > 0 or m.opt.wind.any()),
        "MJX compiles a fluid without density and viscosity away",
        f"build the model with a viscosity of {FAINT:g}",
        _thicken,
    ),
    _without(
        "there is no fluid",
        ("opt.wind",),
        lambda m, _: m.opt.density == 0 and m.opt.viscosity == 0,
        "set density",
    ),
    Gate(
        ("body_gravcomp",),
        lambda m, _: not m.body_gravcomp.any(),
        "MJX compiles gravity compensation away where no body has any",
        f"build the model with {FAINT:g}",
        _lift,
    ),
    Gate(
        ("geom_friction",),
        _is_masked,
        "larger friction or priority rules: all it touches has as much, or nothing touches it",
        "give the geom a higher priority",
        _take_precedence,
    ),
    _without(
        "a body fixed to the world has no dynamics",
        ("body_mass", "body_inertia", "body_ipos", "body_iquat"),
        lambda m, _: m.body_weldid == 0,
        "move another body",
    ),
    _without(
        "the actuator has no activation",
        ("actuator_dynprm",),
        lambda m, _: m.actuator_dyntype == mujoco.mjtDyn.mjDYN_NONE,
        "give it a dyntype",
    ),
    _without(
        "the actuator has no bias",
        ("actuator_biasprm",),
        lambda m, _: m.actuator_biastype == mujoco.mjtBias.mjBIAS_NONE,
        "give it a biastype (position, velocity, damper, ...)",
    ),
    _without(
        "the actuator is no muscle",
        ("actuator_lengthrange", "actuator_acc0"),
        lambda m, _: m.actuator_gaintype != mujoco.mjtGain.mjGAIN_MUSCLE,
        "drop it",
    ),
    _disabled("frictionloss", "dof_frictionloss", "tendon_frictionloss"),
    _disabled("limit", *_JOINT_LIMIT, *_TENDON_LIMIT),
    _disabled("contact", "geom_friction", "geom_solref", "geom_solimp", "pair_friction"),
    _disabled("spring", "jnt_stiffness", "qpos_spring", "tendon_stiffness", "tendon_lengthspring"),
    _disabled("damper", "dof_damping", "tendon_damping", *_FLUID),
    _disabled("gravity", "opt.gravity", "body_gravcomp"),
    _disabled("equality", "eq_data", "eq_solref", "eq_solimp"),
    _disabled("actuation", "actuator_gainprm", "actuator_biasprm", "actuator_gear"),
    _disabled("clampctrl", "actuator_ctrlrange"),
)

#: Fields that may vary from world to world; MJX bakes all others into the compiled program.
VARIABLE = frozenset(
    {field.name for field in mjx.Model.fields() if field.type is jax.Array}
    | {f"opt.{field.name}" for field in mjx.Option.fields() if field.type is jax.Array}
)
