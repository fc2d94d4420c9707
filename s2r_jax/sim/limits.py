"""What MJX-JAX does not do although MuJoCo's C engine does: the engine knowledge of `check.py`.

Every row of `RULES` was measured by rolling out both engines, which `tests/sim/test_check.py`
repeats; only plugins and the equalities of flexes are read off MJX's source.

Source: MuJoCo 4.0.0 and mujoco-mjx 3.17.0, their behaviour and `mjx/_src/io.py`.
"""

from typing import Literal, NamedTuple

import mujoco
from mujoco import mjx

from s2r_jax.sim.elements import contact_dim
from s2r_jax.sim.features import (
    SMALLEST_FRICTION,
    Names,
    contact_sensor,
    drops_half_of_passive,
    each,
    enabled,
    has_fluid,
    has_mesh_margin,
    has_no_collider,
    in_disabled_group,
    is_frictionless,
    matches_by,
    option,
    pairs_where,
    rows,
    unknown_type,
)

Effect = Literal["ignored", "rejected"]


class Rule(NamedTuple):
    """A feature of a model that MJX ignores or rejects, and which elements have it."""

    field: str
    effect: Effect
    where: Names
    message: str
    remedy: str


_ON_C = "run it on engine 'mujoco'"
_integrator, _enable, _disable = mujoco.mjtIntegrator, mujoco.mjtEnableBit, mujoco.mjtDisableBit

RULES: tuple[Rule, ...] = (
    Rule(
        "actuator_delay",
        "ignored",
        each("actuator", lambda m: m.actuator_history[:, 0] > 0),
        "MJX applies the control at once",
        "drop delay and nsample, declare `latency/action` instead",
    ),
    Rule(
        "sensor_delay",
        "ignored",
        each("sensor", rows("sensor_delay")),
        "MJX reads the sensor at once",
        "drop delay and nsample, declare `latency/<sensor>` instead",
    ),
    Rule(
        "sensor_interval",
        "ignored",
        each("sensor", lambda m: m.sensor_interval[:, 0] > 0),
        "MJX reads the sensor at every step",
        f"drop interval, or {_ON_C}",
    ),
    Rule(
        "actuator_damping",
        "ignored",
        each("actuator", lambda m: rows("actuator_damping")(m) | rows("actuator_dampingpoly")(m)),
        "MJX has no damping of actuators",
        "put it on the joint (times gear squared), or into kv",
    ),
    Rule(
        "actuator_armature",
        "ignored",
        each("actuator", rows("actuator_armature")),
        "MJX has no inertia of actuators",
        "put it on the joint (times gear squared)",
    ),
    Rule(
        "dof_dampingpoly",
        "ignored",
        each("dof", rows("dof_dampingpoly")),
        "MJX keeps the linear damping only",
        f"linearise it, or {_ON_C}",
    ),
    Rule(
        "jnt_stiffnesspoly",
        "ignored",
        each("joint", rows("jnt_stiffnesspoly")),
        "MJX keeps the linear stiffness only",
        f"linearise it, or {_ON_C}",
    ),
    Rule(
        "tendon_dampingpoly",
        "ignored",
        each("tendon", rows("tendon_dampingpoly")),
        "MJX keeps the linear damping only",
        f"linearise it, or {_ON_C}",
    ),
    Rule(
        "tendon_stiffnesspoly",
        "ignored",
        each("tendon", rows("tendon_stiffnesspoly")),
        "MJX keeps the linear stiffness only",
        f"linearise it, or {_ON_C}",
    ),
    Rule(
        "jnt_springyield",
        "ignored",
        each("joint", rows("jnt_springyield")),
        "MJX's springs never yield",
        f"drop it, or {_ON_C}",
    ),
    Rule(
        "tendon_springyield",
        "ignored",
        each("tendon", rows("tendon_springyield")),
        "MJX's springs never yield",
        f"drop it, or {_ON_C}",
    ),
    Rule(
        "geom_fluid",
        "ignored",
        each("geom", lambda m: (m.geom_fluid[:, 0] > 0) & has_fluid(m)),
        "MJX has no ellipsoid fluid model and uses the one of the body's inertia box",
        f"drop fluidshape, or {_ON_C}",
    ),
    Rule(
        "geom_adhesion",
        "ignored",
        each("geom", rows("geom_adhesion")),
        "MJX's contacts do not stick",
        f"drop it, or {_ON_C}",
    ),
    Rule(
        "pair_adhesion",
        "ignored",
        each("pair", rows("pair_adhesion")),
        "MJX's contacts do not stick",
        f"drop it, or {_ON_C}",
    ),
    Rule(
        "geom_surfacevel",
        "ignored",
        each("geom", rows("geom_surfacevel")),
        "MJX's surfaces do not move by themselves",
        f"move the body (mocap) instead, or {_ON_C}",
    ),
    Rule(
        "opt.noslip_iterations",
        "ignored",
        option(lambda m: m.opt.noslip_iterations > 0),
        "MJX has no noslip solver",
        "set noslip_iterations to 0 and raise impratio",
    ),
    Rule(
        "opt.disableactuator",
        "ignored",
        each("actuator", in_disabled_group),
        "MJX drives the actuators of disabled groups",
        "take the actuators out of the model",
    ),
    Rule(
        "opt.disableflags",
        "ignored",
        option(drops_half_of_passive),
        "MJX drops springs, dampers, fluid and gravity compensation alike when one of the flags "
        "spring and damper is off",
        "leave both flags on and set the stiffness or damping to 0",
    ),
    Rule(
        "geom_friction",
        "ignored",
        pairs_where(is_frictionless),
        f"below {SMALLEST_FRICTION:g} of sliding friction MJX's contacts go wrong",
        f"use at least {SMALLEST_FRICTION:g}, or condim 1",
    ),
    Rule(
        "opt.enableflags",
        "ignored",
        enabled(_enable.mjENBL_SLEEP),
        "MJX never lets a tree sleep",
        "clear the flag: motion differs by less than sleep_tolerance",
    ),
    Rule(
        "opt.enableflags",
        "rejected",
        enabled(_enable.mjENBL_ENERGY),
        "MJX does not compute the energy",
        "clear the flag: it does not change the motion",
    ),
    Rule(
        "opt.enableflags",
        "rejected",
        enabled(_enable.mjENBL_FWDINV),
        "MJX does not compare forward and inverse dynamics",
        "clear the flag: it does not change the motion",
    ),
    Rule(
        "opt.enableflags",
        "rejected",
        enabled(_enable.mjENBL_OVERRIDE),
        "MJX has no global contact parameters",
        "write o_margin, o_solref, o_solimp and o_friction into the geoms",
    ),
    Rule(
        "opt.enableflags",
        "rejected",
        enabled(_enable.mjENBL_DIAGEXACT, _enable.mjENBL_SPECULATIVE),
        "MJX does not know the flags diagexact and speculative",
        f"clear them, or {_ON_C}",
    ),
    Rule(
        "opt.integrator",
        "rejected",
        option(
            lambda m: m.opt.integrator in (_integrator.mjINT_IMPLICIT, _integrator.mjINT_DISCRETE)
        ),
        "MJX has the integrators Euler, RK4 and implicitfast",
        "use implicitfast",
    ),
    Rule(
        "opt.integrator",
        "rejected",
        option(lambda m: m.opt.integrator == _integrator.mjINT_IMPLICITFAST and has_fluid(m)),
        "MJX's implicitfast does not work in a fluid (density, viscosity, wind)",
        "use Euler, or no fluid",
    ),
    Rule(
        "opt.solver",
        "rejected",
        option(lambda m: m.opt.solver == mujoco.mjtSolver.mjSOL_PGS),
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
        option(lambda m: m.nplugin > 0),
        "MJX runs no engine plugins",
        _ON_C,
    ),
    Rule(
        "nv",
        "rejected",
        option(lambda m: m.nv == 0),
        "MJX cannot step a scene without degrees of freedom",
        f"add a joint, or {_ON_C}",
    ),
    *(
        Rule(
            field,
            "rejected",
            each("actuator", unknown_type(field, known)),
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
        each("equality", unknown_type("eq_type", mjx.EqType)),
        "MJX has connect, weld, joint and tendon equalities",
        _ON_C,
    ),
    Rule(
        "sensor_type",
        "rejected",
        each("sensor", unknown_type("sensor_type", mjx.SensorType)),
        "MJX does not know this sensor",
        "remove it from the model",
    ),
    *(
        Rule(
            "sensor_objtype",
            "rejected",
            contact_sensor(mask),
            f"MJX's contact sensors do not match by {what}",
            "match by geom",
        )
        for what, mask in (
            ("site", lambda m: m.sensor_objtype == mujoco.mjtObj.mjOBJ_SITE),
            ("body", matches_by(mujoco.mjtObj.mjOBJ_BODY)),
            ("subtree", matches_by(mujoco.mjtObj.mjOBJ_XBODY)),
        )
    ),
    Rule(
        "sensor_intprm",
        "rejected",
        contact_sensor(lambda m: m.sensor_intprm[:, 1] == 3),
        "MJX's contact sensors cannot reduce to the net force",
        "use another reduction",
    ),
    Rule(
        "geom_type",
        "rejected",
        pairs_where(has_no_collider),
        "MJX has no collision function for these two shapes",
        "exclude the pair (contype, conaffinity, <exclude>) or use capsules and boxes",
    ),
    Rule(
        "geom_margin",
        "rejected",
        pairs_where(has_mesh_margin),
        "MJX has no margin on meshes and height fields",
        "set margin and gap to 0",
    ),
    Rule(
        "geom_condim",
        "rejected",
        pairs_where(
            lambda m, *ends: (
                m.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC and contact_dim(m, *ends) == 1
            )
        ),
        "MJX has no contacts of condim 1 under the elliptic cone",
        "use condim 3 with friction, or the pyramidal cone",
    ),
)
