"""Mass, centre of mass and inertia of bodies, moved so that they stay physical.

A body is deformed by the ten numbers of a log-Cholesky factor, and may carry a point mass. Both
work on the second moment of the mass distribution Σ (its pseudo-inertia), whose positive
definiteness is all that being physical means; I = trace(Σ) 1 - Σ.

Source: Rucker and Wensing, "Smooth parameterization of rigid-body inertia", IEEE RA-L 7 (2022)
2771; payloads by the parallel-axis theorem.
"""

from collections.abc import Iterable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float

from s2r_jax.errors import BadModel

#: The model's fields that are moved, in the order of `Bodies`.
FIELDS = ("body_mass", "body_ipos", "body_inertia", "body_iquat")
#: Numbers of the log-Cholesky factor: mass α, stretches d1 d2 d3, shears s12 s23 s13 along the
#: body's axes, and shifts of the centre of mass t1 t2 t3 [m]; all 0 leaves the body alone.
LOG_CHOLESKY = 10
#: Principal moments that differ by less, relative to the largest, count as equal: what turns the
#: axes of equal moments has no derivative.
EQUAL = 1e-6


class Bodies(NamedTuple):
    """Inertial fields of some bodies, as MuJoCo keeps them."""

    mass: Float[Any, "*worlds body"]
    """[kg]."""
    ipos: Float[Any, "*worlds body 3"]
    """Centre of mass in the body's frame [m]."""
    inertia: Float[Any, "*worlds body 3"]
    """Principal moments [kg m²]."""
    iquat: Float[Any, "*worlds body 4"]
    """Principal axes in the body's frame."""


class Change(NamedTuple):
    """What θ does to the same bodies."""

    log_cholesky: Float[Any, "*worlds body 10"]
    payload: Float[Any, "*worlds body"]
    """Point mass [kg]."""
    position: Float[Any, "*worlds body 3"]
    """Of the point mass, in the body's frame [m]."""


def moved(bodies: Bodies, change: Change, xp: ModuleType) -> Bodies:
    """Return the bodies deformed, and then loaded with their point masses.

    With U = exp(α) [[D, t], [0, 1]] the pseudo-inertia J about the centre of mass becomes U J Uᵀ.

    Args:
        bodies: As they are without the change; masses > 0.
        change: Log-Cholesky numbers and payloads.
        xp: `jax.numpy`, differentiable, or `numpy`.
    """
    axes = _matrix(bodies.iquat, xp)
    half = 0.5 * xp.sum(bodies.inertia, axis=-1, keepdims=True)
    second = (axes * (half - bodies.inertia)[..., None, :]) @ xp.swapaxes(axes, -1, -2)
    alpha, d1, d2, d3, s12, s23, s13, *_ = (change.log_cholesky[..., k] for k in range(10))
    zero = xp.zeros_like(alpha)
    rows = [[xp.exp(d1), s12, s13], [zero, xp.exp(d2), s23], [zero, zero, xp.exp(d3)]]
    stretch = xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)
    scale = xp.exp(2.0 * alpha)
    second = scale[..., None, None] * (stretch @ second @ xp.swapaxes(stretch, -1, -2))
    mass, centre = scale * bodies.mass, bodies.ipos + change.log_cholesky[..., 7:]
    total = mass + change.payload
    arm = change.position - centre
    reduced = mass * change.payload / total
    second = second + reduced[..., None, None] * arm[..., :, None] * arm[..., None, :]
    trace = xp.trace(second, axis1=-2, axis2=-1)
    inertia = trace[..., None, None] * xp.eye(3, dtype=second.dtype) - second
    moments, quat = _principal(inertia) if xp is jnp else _decompose(inertia, np)
    return Bodies(total, centre + (change.payload / total)[..., None] * arm, moments, quat)


@jax.custom_jvp
def _principal(inertia: Float[Array, "*n 3 3"]) -> tuple[Array, Array]:
    """Return principal moments and axes; the derivative is finite for equal moments too."""
    return _decompose(inertia, jnp)


@_principal.defjvp
def _principal_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    moments, quat = _principal(*primals)
    axes = _matrix(quat, jnp)
    local = jnp.swapaxes(axes, -1, -2) @ tangents[0] @ axes
    gap = moments[..., None, :] - moments[..., :, None]
    is_apart = jnp.abs(gap) > EQUAL * jnp.max(moments, axis=-1)[..., None, None]
    turn = jnp.where(is_apart, local / jnp.where(is_apart, gap, 1.0), 0.0)
    zero = jnp.zeros_like(turn[..., 0, 0])
    spin = jnp.stack([zero, turn[..., 2, 1], turn[..., 0, 2], turn[..., 1, 0]], axis=-1)
    changed = jnp.diagonal(local, axis1=-2, axis2=-1)
    return (moments, quat), (changed, 0.5 * _product(quat, spin))


def _decompose(inertia: Any, xp: ModuleType) -> tuple[Any, Any]:
    moments, axes = xp.linalg.eigh(inertia)
    # A reflection is no rotation: turn one axis round.
    sign = xp.sign(xp.linalg.det(axes))[..., None]
    axes = xp.concatenate([axes[..., :2], (axes[..., 2] * sign)[..., None]], axis=-1)
    return moments, _quaternion(axes, xp)


def _quaternion(rotation: Any, xp: ModuleType) -> Any:
    """Return the unit quaternion of a rotation, by its largest component (Shepperd 1978)."""
    r = [[rotation[..., i, j] for j in range(3)] for i in range(3)]
    a, b, c = r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]
    x, y, z = r[1][0] + r[0][1], r[0][2] + r[2][0], r[2][1] + r[1][2]
    d0, d1, d2 = r[0][0], r[1][1], r[2][2]
    # 4 q qᵀ: each row is the quaternion times four times one of its components.
    rows = [
        [1 + d0 + d1 + d2, a, b, c],
        [a, 1 + d0 - d1 - d2, x, y],
        [b, x, 1 - d0 + d1 - d2, z],
        [c, y, z, 1 - d0 - d1 + d2],
    ]
    square = xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)
    largest = xp.argmax(xp.diagonal(square, axis1=-2, axis2=-1), axis=-1)
    row = xp.take_along_axis(square, largest[..., None, None], axis=-2)[..., 0, :]
    return row / xp.linalg.norm(row, axis=-1, keepdims=True)


def _matrix(quat: Any, xp: ModuleType) -> Any:
    """Return the rotation of a unit quaternion."""
    w, x, y, z = (quat[..., k] for k in range(4))
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)


def _product(left: Any, right: Any) -> Any:
    """Return the product of two quaternions."""
    w, v = left[..., :1], left[..., 1:]
    s, u = right[..., :1], right[..., 1:]
    vector = w * u + s * v + jnp.cross(v, u)
    return jnp.concatenate([w * s - jnp.sum(v * u, axis=-1, keepdims=True), vector], axis=-1)


def free(
    spec: mujoco.MjSpec, model: mujoco.MjModel, bodies: Iterable[int], file: str
) -> mujoco.MjModel:
    """Recompile a model so that the inertial frames of these bodies may move at run time.

    Where the frame coincides with the body's own, the compiler takes short cuts that C keeps for
    good (`body_simple`). It is compiled elsewhere and put back; the spec then states the inertia.

    Raises:
        BadModel: The compiler ignores stated inertias (`inertiafromgeom="true"`).
    """
    chosen = {body.id: body for body in spec.bodies if body.id in set(bodies)}
    if not chosen:
        return model
    for index, body in chosen.items():
        body.explicitinertial = True
        body.mass, body.inertia = float(model.body_mass[index]), model.body_inertia[index]
        # Any frame will do that coincides with nothing.
        body.ipos, body.iquat = model.body_ipos[index] + 0.01, (0.9, 0.3, 0.2, 0.1)
    compiled = spec.compile()
    for index, body in chosen.items():
        if np.array_equal(compiled.body_ipos[index], model.body_ipos[index]):
            problem = f"the inertia of body '{model.body(index).name}' cannot be moved"
            raise BadModel(file, f'{problem}; remove inertiafromgeom="true" from the compiler')
        compiled.body_ipos[index] = model.body_ipos[index]
        compiled.body_iquat[index] = model.body_iquat[index]
        body.ipos, body.iquat = model.body_ipos[index], model.body_iquat[index]
    mujoco.mj_setConst(compiled, mujoco.MjData(compiled))
    return compiled
