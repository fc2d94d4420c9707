"""`mjx.step` and `mjx.forward` with derivatives, through every constraint and in both modes.

`step` and `forward` take the place of MJX's functions of the same name (its JAX implementation):
same arguments, same values. Differences are only in what derivatives see:

- The constraint solver is differentiated at its solution (`solution.py`), not through its loop.
- A rotation is integrated by a formula that is smooth at rest. MJX treats angular velocities below
  1e-8 rad/s as no motion at all, so that its derivative with respect to the angular velocity of a
  resting body is 0 instead of dt.
- Likewise the restoring torque of a ball or free joint's spring at its reference orientation.
- Constraint rows avoid two sources of NaN in reverse mode (`rows.py`).
- Acceleration sensors are filled also in models without constraints.
- Every leaf keeps the dtype of the input, so that `jax.lax.scan` takes the result of `mjx.put_data`
  as its carry.

The derivative is the derivative of this discrete step. It is exact for the map from state, controls
and model to the next state, which is what central differences see. It is not the derivative of the
continuous-time motion: a contact that opens or closes within the step, or that begins or ceases to
slide, makes the map kinked or (for the first step of a contact with a velocity towards it)
discontinuous, and there a derivative of one side is returned. A gradient of a long rollout with
hard contact depends on the time step; shorten the horizon, or soften `solref`.
"""

import importlib.metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from mujoco import mjx
from mujoco.mjx._src import forward as mjx_forward
from mujoco.mjx._src.types import DataJAX, DisableBit, IntegratorType, JointType, ModelJAX

from s2r_jax.errors import BadModel, Unsupported
from s2r_jax.sim import rows, solution

#: Versions of mujoco-mjx whose private constraint rows are what `solution.py` takes them for.
TESTED_VERSIONS = ("3.17.",)


def _check_version(version: str) -> None:
    if not version.startswith(TESTED_VERSIONS):
        raise Unsupported(
            "mjx",
            f"mujoco-mjx {version}, whose constraint rows have not been tested",
            f"install one of {', '.join(v + '*' for v in TESTED_VERSIONS)}",
        )


_check_version(importlib.metadata.version("mujoco-mjx"))


def forward(model: mjx.Model, data: mjx.Data) -> mjx.Data:
    """Compute all that follows from state and controls; differentiable `mjx.forward`.

    Args:
        model: Model of MJX's JAX implementation.
        data: State (`qpos` [m or rad], `qvel` [m/s or rad/s], `act`), `ctrl` and applied forces.
    """
    _check(model, data)
    return _keep_dtypes(_forward(model, data), data)


def step(model: mjx.Model, data: mjx.Data) -> mjx.Data:
    """Advance one time step; differentiable `mjx.step`.

    The module's text says what the derivative means, and where it is one of a side only.

    Args:
        model: Model of MJX's JAX implementation.
        data: State (`qpos` [m or rad], `qvel` [m/s or rad/s], `act`), `ctrl` and applied forces.
    """
    _check(model, data)
    moved = _forward(model, data)
    match model.opt.integrator:
        case IntegratorType.EULER:
            moved = mjx.euler(model, moved)
            moved = moved.replace(qpos=_displace(model, data.qpos, moved.qvel))
        case IntegratorType.IMPLICITFAST:
            moved = mjx.implicit(model, moved)
            moved = moved.replace(qpos=_displace(model, data.qpos, moved.qvel))
        case IntegratorType.RK4:
            moved = _runge_kutta(model, moved)
    return _keep_dtypes(moved, data)


def _check(model: mjx.Model, data: mjx.Data) -> None:
    if not (isinstance(model._impl, ModelJAX) and isinstance(data._impl, DataJAX)):
        raise Unsupported(
            "mjx",
            f"models or data put with impl='{model.impl.value}'",
            "use mjx.put_model(model, impl='jax') and mjx.put_data(..., impl='jax')",
        )
    covered = (IntegratorType.EULER, IntegratorType.IMPLICITFAST, IntegratorType.RK4)
    if model.opt.integrator not in covered:
        names = ", ".join(i.name for i in covered)
        raise Unsupported("mjx", f"integrator {model.opt.integrator!r}", f"choose one of {names}")
    if model.nv == 0:
        raise BadModel("model", "has no degrees of freedom (nv = 0), so nothing can move")


def _keep_dtypes(new: mjx.Data, old: mjx.Data) -> mjx.Data:
    """`put_data` gives int32 contact indices under float64, MJX's step int64: no scan carry."""
    return jax.tree.map(lambda x, y: x if x is y else jnp.asarray(x).astype(y.dtype), new, old)


def _forward(model: mjx.Model, data: mjx.Data) -> mjx.Data:
    data = rows.position(model, data)
    data = mjx.sensor_pos(model, data)
    data = _add_spring_at_reference(model, mjx.fwd_velocity(model, data))
    data = mjx.sensor_vel(model, data)
    data = mjx.fwd_actuation(model, data)
    data = mjx.fwd_acceleration(model, data)
    data = _constrain(model, data)
    return mjx.sensor_acc(model, data)


def _constrain(model: mjx.Model, data: mjx.Data) -> Any:
    impl: Any = data._impl
    if impl.efc_J.size == 0:
        return data.replace(qacc=data.qacc_smooth)
    still = jax.lax.stop_gradient((model, data))
    answer = solution.solve(*still, solution.problem_of(model, data))
    return data.tree_replace(
        {
            "qacc": answer.qacc,
            "qfrc_constraint": answer.qfrc_constraint,
            "_impl.efc_force": answer.efc_force,
        }
    )


def _rotations(model: mjx.Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return number, quaternion addresses and velocity addresses of all ball and free joints."""
    joint = np.flatnonzero(np.isin(model.jnt_type, (JointType.FREE, JointType.BALL)))
    offset = 3 * (np.asarray(model.jnt_type)[joint] == JointType.FREE)
    quat = np.asarray(model.jnt_qposadr)[joint] + offset
    rotation = np.asarray(model.jnt_dofadr)[joint] + offset
    return joint, quat[:, None] + np.arange(4), rotation[:, None] + np.arange(3)


def _add_spring_at_reference(model: mjx.Model, data: mjx.Data) -> Any:
    """Add the spring torque of ball and free joints that MJX takes for 0 near the reference."""
    joint, quat, rotation = _rotations(model)
    if not joint.size or model.opt.disableflags & (DisableBit.SPRING | DisableBit.DAMPER):
        return data
    error = jax.vmap(_relative)(data.qpos[quat], model.qpos_spring[quat])
    is_lost = jnp.all(jnp.abs(error) <= _NORM_IS_ZERO, axis=1, keepdims=True)
    torque = -model.jnt_stiffness[joint][:, None] * jnp.where(is_lost, 2 * error, 0)
    return data.replace(qfrc_passive=data.qfrc_passive.at[rotation].add(torque))


# Below this length MJX's `math.norm` returns 0 (the default of `jnp.allclose`).
_NORM_IS_ZERO = 1e-8


def _relative(q: Float[Array, "4"], reference: Float[Array, "4"]) -> Float[Array, "3"]:
    """Return the vector part of the rotation from the reference to q that turns less than pi."""
    q = q / jnp.linalg.norm(q)
    w, v = q[0], q[1:]
    rw, rv = reference[0], -reference[1:]
    vector = rw * v + w * rv + jnp.cross(rv, v)
    return jnp.where(rw * w - rv @ v < 0, -vector, vector)


def _displace(model: mjx.Model, qpos: jax.Array, qvel: jax.Array) -> jax.Array:
    """Return the positions after one time step at qvel, with the right derivative at rest."""
    angle = model.opt.timestep * qvel
    joint, quat, rotation = _rotations(model)
    kind, at, dof = (np.asarray(x) for x in (model.jnt_type, model.jnt_qposadr, model.jnt_dofadr))
    is_free, is_ball = kind == JointType.FREE, kind == JointType.BALL
    axes = np.arange(3)
    linear = np.concatenate([at[~is_free & ~is_ball], (at[is_free][:, None] + axes).ravel()])
    linear_dof = np.concatenate([dof[~is_free & ~is_ball], (dof[is_free][:, None] + axes).ravel()])
    moved = qpos.at[linear].add(angle[linear_dof])
    return moved.at[quat].set(_turned(qpos[quat], angle[rotation])) if joint.size else moved


def _turned(q: Float[Array, "joint 4"], angle: Float[Array, "joint 3"]) -> Float[Array, "joint 4"]:
    """Return the quaternions q turned by the rotation vectors `angle` [rad] of their own frames."""
    square = jnp.sum(angle * angle, axis=1, keepdims=True)
    is_small = (
        square < 1e-8
    )  # where the series is exact to rounding, its error being square^2 / 384
    length = jnp.sqrt(jnp.where(is_small, 1, square))
    w = jnp.where(is_small, 1 - square / 8, jnp.cos(length / 2))
    v = jnp.where(is_small, 0.5 - square / 48, jnp.sin(length / 2) / length) * angle
    qw, qv = q[:, :1], q[:, 1:]
    real = qw * w - jnp.sum(qv * v, axis=1, keepdims=True)
    turned = jnp.concatenate([real, qw * v + w * qv + jnp.cross(qv, v)], axis=1)
    return turned / jnp.linalg.norm(turned, axis=1, keepdims=True)


def _runge_kutta(model: mjx.Model, first: Any) -> Any:
    """Classical Runge-Kutta of order 4, as `mjx.rungekutta4`, over the differentiable `forward`."""
    dt = model.opt.timestep
    nodes, weights = jnp.array([0.5, 0.5, 1.0]), jnp.array([1 / 3, 1 / 3, 1 / 6])

    def stage(carry, tableau):
        data, total = carry
        node, weight = tableau
        now = data.replace(
            qpos=_displace(model, first.qpos, node * data.qvel),
            qvel=first.qvel + node * dt * data.qacc,
            act=first.act + node * dt * data.act_dot,
            time=first.time + node * dt,
        )
        now = _keep_dtypes(_forward(model, now), first)
        total = jax.tree.map(lambda s, k: s + weight * k, total, _slopes(now))
        return (now, total), None

    carry = (first, jax.tree.map(lambda k: k / 6, _slopes(first)))
    (last, (qvel, qacc, act_dot)), _ = jax.lax.scan(stage, carry, (nodes, weights))
    start = last.replace(qpos=first.qpos, qvel=first.qvel, act=first.act, time=first.time)
    after = mjx_forward._advance(model, start, act_dot, qacc, qvel)
    return after.replace(qpos=_displace(model, first.qpos, qvel))


def _slopes(data: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    return data.qvel, data.qacc, data.act_dot
