"""What `mj_setConst` computes, for MJX: the constants that follow from masses, lengths and qpos0.

MJX reads these arrays at every step (`body_invweight0` scales every contact) but never recomputes
them, so a model whose masses were changed after `put_model` simulates the constraints of another
robot. `set_const` recomputes them in pure JAX; `stale` says which of them a change of some fields
spoils, so that a caller whose θ spoils none does no work.

Source: behaviour of MuJoCo 4.0's `mj_setConst` and its table `MJSETCONST_ARRAYS` (mjxmacro.h).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float
from mujoco import mjx

from s2r_jax.errors import UnknownName, Unsupported

# What the inertia matrix in qpos0 decides; the solver of MJX itself does not read meaninertia.
_WEIGHTS = (
    "body_invweight0",
    "dof_invweight0",
    "tendon_invweight0",
    "actuator_acc0",
    "stat.meaninertia",
)
_INERTIA = (*_WEIGHTS, "dof_M0")
_POSITION = (*_INERTIA, "cam_poscom0", "tendon_length0", "eq_data")
_POSE = (*_POSITION, "cam_pos0", "cam_mat0")
# The path of a tendon; one with `armature`, which may not wrap, is part of the inertia matrix.
_WRAPPING = ("tendon_length0", "tendon_invweight0", "actuator_acc0")
_PATH = (*_WEIGHTS, "tendon_length0")
# Smallest mass [kg] that MuJoCo divides by (mjMINVAL).
_MINVAL = 1e-15
_BOUNDS = ("geom_aabb", "geom_rbound")

#: Every input of `mj_setConst` that is an array of numbers in an MJX model, and the constants that
#: go stale when it changes. Where the list is empty, all that C derives from the input is fixed
#: when `put_model` runs or has no counterpart in MJX (trees for sleeping, flexes, bounding volumes;
#: MJX neither moves lights nor knows the body of one).
STALE: dict[str, tuple[str, ...]] = {
    "qpos0": _POSE,
    "qpos_spring": (),
    "body_pos": _POSITION,
    "body_quat": _POSE,
    "body_ipos": (*_INERTIA, "cam_poscom0"),
    "body_iquat": _INERTIA,
    "body_mass": (*_INERTIA, "cam_poscom0", "body_subtreemass"),
    "body_inertia": _INERTIA,
    "body_gravcomp": (),
    "jnt_pos": _POSITION,
    "jnt_axis": _INERTIA,
    "dof_armature": _INERTIA,
    "geom_size": (*_WRAPPING, *_BOUNDS),
    "geom_aabb": (),
    "geom_pos": _WRAPPING,
    "geom_quat": _WRAPPING,
    "geom_margin": (),
    "geom_gap": (),
    "site_pos": _PATH,
    "site_quat": ("actuator_acc0",),
    "cam_pos": ("cam_pos0", "cam_poscom0"),
    "cam_quat": ("cam_mat0",),
    "light_pos": (),
    "light_dir": (),
    "eq_data": ("eq_data",),
    "tendon_stiffness": (),
    "tendon_stiffnesspoly": (),
    "tendon_damping": (),
    "tendon_dampingpoly": (),
    "tendon_armature": _WEIGHTS,
    "actuator_cranklength": (),
    "actuator_gear": ("actuator_acc0",),
}


class Pose(NamedTuple):
    """Where the bodies are in qpos0."""

    xpos: Float[Array, "body 3"]
    xquat: Float[Array, "body 4"]
    xmat: Float[Array, "body 3 3"]
    subtree_com: Float[Array, "body 3"]


def stale(fields: Iterable[str]) -> frozenset[str]:
    """Return the constants of an MJX model that are wrong once these fields have been changed.

    Args:
        fields: Names of `mjx.Model` fields, `opt.` and `stat.` fields included.

    Raises:
        UnknownName: A name that is no field of `mjx.Model`.
    """
    spoiled: set[str] = set()
    for field in fields:
        if field not in _FIELDS:
            raise UnknownName("set_const", field, _FIELDS, "field of mjx.Model")
        spoiled.update(STALE.get(field, ()))
    return frozenset(spoiled)


def recompute_needed(fields: Iterable[str]) -> bool:
    """Return whether a model must pass through `set_const` once these fields have been changed."""
    return bool(stale(fields))


def set_const(model: mjx.Model) -> mjx.Model:
    """Return the model with every constant recomputed from its masses, lengths and qpos0.

    Pure: vmap it over models that share their structure, differentiate it in any direction. Like
    `mj_setConst` it leaves `tendon_lengthspring` and `actuator_lengthrange` alone, which only the
    compiler derives. Unlike it, it also refreshes `stat.meaninertia`, as compiling anew would, and
    keeps `light_*0`, which MJX-JAX does not use.

    Args:
        model: Model on MJX's JAX implementation.

    Raises:
        Unsupported: The model belongs to another implementation, or has tendons that cannot move.

    Source: `mj_setConst`; the averages over joints and axes are MuJoCo's.
    """
    if model.impl is not mjx.Impl.JAX:
        raise Unsupported(str(model.impl), "set_const of s2r_jax", "use the engine's own set_const")
    if model.nv == 0 and model.ntendon:
        raise Unsupported("mjx", "tendons in a scene without joints", "remove the tendons")
    # TF32 would cost three digits of the inverse inertia on a GPU
    with jax.default_matmul_precision("highest"):
        constants = {"body_subtreemass": _subtree_sum(model, model.body_mass), **_bounds(model)}
        if model.nv:
            data = mjx.com_pos(model, mjx.kinematics(model, mjx.make_data(model)))
            data = mjx.tendon(model, data)
            constants |= {"tendon_length0": data.ten_length, **_weights(model, data)}
            pose = Pose(data.xpos, data.xquat, data.xmat, data.subtree_com)
        else:
            pose = _static_pose(model)
        constants |= {"eq_data": _anchors(model, pose), **_views(model, pose)}
    fields: dict[str, ArrayLike | None] = {
        name: jnp.asarray(value).astype(_leaf(model, name).dtype).reshape(_leaf(model, name).shape)
        for name, value in constants.items()
    }
    return model.tree_replace(fields)


def _leaf(model: mjx.Model, name: str) -> Any:
    return getattr(model.stat, name[5:]) if name.startswith("stat.") else getattr(model, name)


def _is_above(model: mjx.Model) -> Bool[np.ndarray, "body ancestor"]:
    """Return which bodies carry which: true where the second is the first or above it."""
    above = np.eye(model.nbody, dtype=bool)
    for body in range(1, model.nbody):
        above[body] |= above[model.body_parentid[body]]
    return above


def _subtree_sum(model: mjx.Model, x: Float[Array, "body ..."]) -> Float[Array, "body ..."]:
    """Return the sum over each body and all that it carries."""
    return jnp.asarray(_is_above(model).T, x.dtype) @ x


def _static_pose(model: mjx.Model) -> Pose:
    """Return the pose of a scene without joints, where MJX's own kinematics refuse to run."""
    xpos, xquat, xmat = [jnp.zeros(3)], [jnp.array([1.0, 0.0, 0.0, 0.0])], [jnp.eye(3)]
    for body in range(1, model.nbody):
        parent = model.body_parentid[body]
        xpos.append(xpos[parent] + xmat[parent] @ model.body_pos[body])
        # conj(conj(p)) * q: the quotient takes its first argument conjugated
        conjugate = xquat[parent] * jnp.array([1.0, -1.0, -1.0, -1.0])
        xquat.append(_quotient(conjugate[None], model.body_quat[body][None])[0])
        xmat.append(_rotation(xquat[body][None])[0])
    position, rotation = jnp.stack(xpos), jnp.stack(xmat)
    centre = position + jnp.einsum("nij,nj->ni", rotation, model.body_ipos)
    moment = _subtree_sum(model, centre * model.body_mass[:, None])
    mass = _subtree_sum(model, model.body_mass)[:, None]
    has_mass = mass >= _MINVAL
    com = jnp.where(has_mass, moment / jnp.where(has_mass, mass, 1.0), centre)
    return Pose(position, jnp.stack(xquat), rotation, com)


def _bounds(model: mjx.Model) -> dict[str, Array]:
    """Return bounding box and sphere [m] of the primitive geoms; meshes and planes keep theirs."""
    kind, size = mjx.GeomType, model.geom_size
    aabb, rbound = model.geom_aabb, model.geom_rbound
    r, h = size[:, 0], size[:, 1]
    shapes = {
        kind.SPHERE: ((r, r, r), lambda s: s[:, 0]),
        kind.CAPSULE: ((r, r, r + h), lambda s: s[:, 0] + s[:, 1]),
        kind.CYLINDER: ((r, r, h), lambda s: jnp.hypot(s[:, 0], s[:, 1])),
        kind.ELLIPSOID: (tuple(size.T), lambda s: s.max(axis=1)),
        kind.BOX: (tuple(size.T), lambda s: jnp.linalg.norm(s, axis=1)),
    }
    for shape, (half, radius) in shapes.items():
        geoms = np.flatnonzero(model.geom_type == shape)
        aabb = aabb.at[geoms, 3:].set(jnp.stack(half, axis=1)[geoms])
        rbound = rbound.at[geoms].set(radius(size[geoms]))
    return {"geom_aabb": aabb, "geom_rbound": rbound}


def _views(model: mjx.Model, pose: Pose) -> dict[str, Array]:
    """Return the reference poses of the cameras, whatever they track, as if they were fixed.

    `cam_pos0` is seen from the body's origin, `cam_poscom0` from the centre of mass of the subtree
    of the target, or of the body where there is no target [m].
    """
    body, target = model.cam_bodyid, model.cam_targetbodyid
    arm = jnp.einsum("nij,nj->ni", pose.xmat[body], model.cam_pos)
    centre = pose.subtree_com[np.where(target >= 0, target, body)]
    return {
        "cam_pos0": arm,
        "cam_poscom0": pose.xpos[body] + arm - centre,
        "cam_mat0": pose.xmat[body] @ _rotation(model.cam_quat),
    }


def _anchors(model: mjx.Model, pose: Pose) -> Float[Array, "neq 12"]:
    """Return `eq_data` in which both sides of connects and derived welds meet in qpos0.

    A connect holds its anchor in body 1 (data 0-2) and derives the one in body 2 (3-5). A weld
    holds it in body 2 and derives the pose in body 1 (3-9) where data 11 marks it as derived.
    """
    eq, kind = model.eq_data, mjx.EqType
    between_bodies = model.eq_objtype == mjx.ObjType.BODY

    def anchor_elsewhere(rows, here, there):
        point = pose.xpos[here] + jnp.einsum("nij,nj->ni", pose.xmat[here], eq[rows, :3])
        return jnp.einsum("nji,nj->ni", pose.xmat[there], point - pose.xpos[there])

    rows = np.flatnonzero((model.eq_type == kind.CONNECT) & between_bodies)
    first, second = model.eq_obj1id[rows], model.eq_obj2id[rows]
    connected = eq.at[rows, 3:6].set(anchor_elsewhere(rows, first, second))

    rows = np.flatnonzero((model.eq_type == kind.WELD) & between_bodies)
    first, second = model.eq_obj1id[rows], model.eq_obj2id[rows]
    turn = _quotient(pose.xquat[first], pose.xquat[second])
    weld = jnp.concatenate([anchor_elsewhere(rows, second, first), turn], axis=1)
    is_derived = eq[rows, 11:12] != 0
    return connected.at[rows, 3:10].set(jnp.where(is_derived, weld, eq[rows, 3:10]))


def _weights(model: mjx.Model, data: mjx.Data) -> dict[str, Array]:
    """Return what the inertia matrix in qpos0 decides."""
    data = mjx.crb(model, data)
    diagonal = jnp.diagonal(mjx.full_m(model, data))
    data = mjx.transmission(model, mjx.tendon_armature(model, data))
    inertia = mjx.full_m(model, data)
    # Batched triangular solves of XLA on a CPU take seconds where this takes microseconds.
    whiten = jnp.linalg.inv(jnp.linalg.cholesky(inertia))

    def apparent(jacobian):  # diagonal of J M^-1 J^T as a sum of squares, so never negative
        flat = jacobian.reshape(-1, model.nv).T
        return ((whiten @ flat) ** 2).sum(axis=0).reshape(jacobian.shape[:-1])

    # Mean over the axes, in 1/kg and 1/(kg m^2); 0 where nothing moves the body.
    per_axis = apparent(_body_jacobian(model, data)).reshape(model.nbody, 2, 3)
    response = whiten.T @ whiten @ data._impl.actuator_moment.T
    return {
        "dof_M0": diagonal,
        "stat.meaninertia": jnp.diagonal(inertia).mean(),
        "dof_invweight0": _joint_mean(model) @ apparent(jnp.eye(model.nv)),
        "body_invweight0": per_axis.mean(axis=2),
        "tendon_invweight0": apparent(data._impl.ten_J),
        "actuator_acc0": _norm(response, axis=0),
    }


def _joint_mean(model: mjx.Model) -> Float[np.ndarray, "nv nv"]:
    """Return the matrix that averages over the 3 axes of a ball, and over each 3 of a free joint.

    MuJoCo does so because the axes of such a joint are an arbitrary choice.
    """
    kind = mjx.JointType
    mean = np.eye(model.nv)
    for joint, start in zip(model.jnt_type, model.jnt_dofadr, strict=True):
        triples = {kind.FREE: (start, start + 3), kind.BALL: (start,)}
        for first in triples.get(kind(joint), ()):
            mean[first : first + 3, first : first + 3] = 1 / 3
    return mean


def _body_jacobian(model: mjx.Model, data: mjx.Data) -> Float[Array, "body 6 nv"]:
    """Return the Jacobian of the velocity of each centre of mass, linear rows first."""
    moves = _is_above(model)[:, model.dof_bodyid]
    arm = data.xipos - data.subtree_com[model.body_rootid]
    turn, shift = data.cdof[:, :3], data.cdof[:, 3:]
    linear = shift + jnp.cross(turn, arm[:, None])
    angular = jnp.broadcast_to(turn, linear.shape)
    rows = jnp.concatenate([linear, angular], axis=2) * moves[:, :, None]
    return rows.transpose(0, 2, 1)


def _norm(x: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    """Return the Euclidean norm with gradient 0, not NaN, where it is 0."""
    square = (x * x).sum(axis=axis)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _rotation(quat: Float[Array, "n 4"]) -> Float[Array, "n 3 3"]:
    """Return the rotation matrices of quaternions wxyz."""
    w, x, y, z = quat.T
    rows = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def _quotient(first: Float[Array, "n 4"], second: Float[Array, "n 4"]) -> Float[Array, "n 4"]:
    """Return conj(first) * second, the second orientation seen from the first (wxyz)."""
    w1, v1, w2, v2 = first[:, :1], -first[:, 1:], second[:, :1], second[:, 1:]
    scalar = w1 * w2 - (v1 * v2).sum(axis=1, keepdims=True)
    return jnp.concatenate([scalar, w1 * v2 + w2 * v1 + jnp.cross(v1, v2)], axis=1)


_FIELDS = frozenset(
    {field.name for field in mjx.Model.fields()}
    | {f"opt.{field.name}" for field in mjx.Option.fields()}
    | {f"stat.{field.name}" for field in mjx.Statistic.fields()}
)
