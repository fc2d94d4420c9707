"""MJX's constraint solver, differentiated at its solution by the implicit function theorem.

The solver minimises a strictly convex cost; its answer a (`qacc`) is where

    r(a) = M a - qfrc_smooth - J^T f(J a - aref) = 0,      f = -(gradient of the constraint cost).

So da = -H^-1 dr with dr taken at fixed a, and H = M + J^T C J, C = -df/dx. The solver's loop is
never differentiated: forward and reverse mode both work, at any number of iterations, and cost one
linear system. Without differentiation nothing but `mjx.solve` runs.

Sources: the cost and its zones, MuJoCo documentation, "Computation: Constraint solver"; implicit
differentiation, Blondel et al., arXiv:2105.15183.

H is symmetric positive definite inside every zone of every cone, because the cost is convex and M
is positive definite, but its condition number is not bounded: a nearly rigid constraint on a light
body adds a huge D. It is scaled to a unit diagonal, shifted by its own rounding error so that its
inverse always exists, and the shift is refined away. Directions that rounding has already
drowned (scaled eigenvalue below about 1e-5 in float32, 1e-14 in float64) come out damped, never
infinite or NaN.

The cost has kinks in its second derivative (a contact that begins to slide, a joint that breaks
away, a limit that is just reached). There the one-sided derivative of the zone that `mjx.solve`
reports is returned.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from mujoco import mjx
from mujoco.mjx._src.types import ConeType

# What `mjx.solve` guards a division with (mjMINVAL of MuJoCo).
MINVAL = 1e-15
# Refining twice brings the error of the shift below rounding wherever rounding resolves anything.
REFINEMENTS = 2
# Pivots eliminated without a loop; small systems then cost a few fused operations.
UNROLLED = 8


class Rows(NamedTuple):
    """The constraint rows' parameters, apart from the Jacobian and the reference.

    Attributes:
        D: Inverse of the regulariser R of each row [unit of force / unit of acceleration].
        frictionloss: Bound of the friction force of each row [N or N m]; 0: no friction loss.
        friction: Coefficients of each contact: two tangential, one torsional, two rolling [m].
        impratio: Ratio of frictional to normal impedance of elliptic cones.
    """

    D: Float[Array, " row"]
    frictionloss: Float[Array, " row"]
    friction: Float[Array, "contact 5"]
    impratio: Float[Array, ""]


class Problem(NamedTuple):
    """What the solver's answer depends on.

    Attributes:
        M: Joint-space inertia as MJX stores it: dense (nv, nv), or its sparse lower triangle.
        J: Constraint Jacobian.
        aref: Reference acceleration of each row [m/s^2 or rad/s^2].
        qfrc_smooth: All forces without constraints [N or N m].
        rows: The rows' parameters.
    """

    M: Float[Array, "*M"]
    J: Float[Array, "row nv"]
    aref: Float[Array, " row"]
    qfrc_smooth: Float[Array, " nv"]
    rows: Rows


class Answer(NamedTuple):
    """What the solver finds.

    Attributes:
        qacc: Acceleration [m/s^2 or rad/s^2].
        qfrc_constraint: Constraint force in joint space [N or N m].
        efc_force: Constraint force in constraint space.
    """

    qacc: Float[Array, " nv"]
    qfrc_constraint: Float[Array, " nv"]
    efc_force: Float[Array, " row"]


def problem_of(model: mjx.Model, data: mjx.Data) -> Problem:
    """Gather what the solver's answer depends on, after `mjx.fwd_acceleration`."""
    impl: Any = data._impl
    rows = Rows(impl.efc_D, impl.efc_frictionloss, impl.contact.friction, model.opt.impratio)
    return Problem(impl.M, impl.efc_J, impl.efc_aref, data.qfrc_smooth, rows)


@jax.custom_jvp
def solve(
    model: mjx.Model,
    data: mjx.Data,
    problem: Problem,
) -> Answer:
    """Return `mjx.solve`'s answer, with the derivative with respect to `problem` alone.

    Args:
        model: The model, a constant here.
        data: Data that `mjx.fwd_acceleration` has filled, a constant here.
        problem: `problem_of(model, data)`, what is differentiated.
    """
    del problem  # the same numbers, already in data
    solved = mjx.solve(model, data)
    impl: Any = solved._impl
    return Answer(solved.qacc, solved.qfrc_constraint, impl.efc_force)


@solve.defjvp
def _solve_jvp(primals, tangents):
    model, data, problem = primals
    dM, dJ, daref, dqfrc_smooth, drows = tangents[2]
    answer = solve(model, data, problem)
    qacc, J = answer.qacc, problem.J

    x = J @ qacc - problem.aref
    force, force_slope = jax.linearize(_force_law(model, data), x, problem.rows)
    still = jax.tree.map(jnp.zeros_like, problem.rows)
    stiffness_J = -jax.vmap(lambda column: force_slope(column, still), 1, 1)(J)  # C J
    H = mjx.full_m(model, data) + J.T @ stiffness_J

    dforce = force_slope(dJ @ qacc - daref, drows)
    dM_qacc = mjx.mul_m(model, _with_impl(data, {"_impl.M": dM}), qacc)
    dqfrc_constraint = dJ.T @ force + J.T @ dforce
    dqacc = _solve_definite(H, dqfrc_smooth + dqfrc_constraint - dM_qacc)
    moved = stiffness_J @ dqacc
    return answer, Answer(dqacc, dqfrc_constraint - J.T @ moved, dforce - moved)


def _with_impl(data: mjx.Data, changes: dict[str, Any]) -> Any:
    """Return data with private fields replaced (tree_replace is typed as its base class)."""
    return data.tree_replace(changes)


def _force_law(model: mjx.Model, data: mjx.Data) -> Callable[[jax.Array, Rows], jax.Array]:
    """Return f(x, rows): each row's force at its acceleration x relative to the reference."""
    impl: Any = data._impl
    is_elliptic = model.opt.cone == ConeType.ELLIPTIC
    dim, address = np.asarray(impl.contact.dim), np.asarray(impl.contact.efc_address)
    equality, friction = int(impl.ne), int(impl.nf)

    def law(x: jax.Array, rows: Rows) -> jax.Array:
        spring = -rows.D * x
        one_sided = jnp.where(x < 0, spring, 0)  # limits, frictionless contacts, pyramid edges
        force = one_sided.at[:equality].set(spring[:equality])
        if friction:
            at = slice(equality, equality + friction)
            force = force.at[at].set(_friction_loss(x[at], rows.D[at], rows.frictionloss[at]))
        for condim in np.unique(dim[dim > 1]) if is_elliptic else ():
            contact = np.flatnonzero(dim == condim)
            at = address[contact][:, None] + np.arange(condim)
            coefficients = rows.friction[contact, : condim - 1]
            cone = _elliptic_cone(x[at], rows.D[at], coefficients, rows.impratio)
            force = force.at[at].set(cone)
        return force

    return law


def _friction_loss(x: jax.Array, D: jax.Array, bound: jax.Array) -> jax.Array:
    """A spring that gives way at the bound; without a bound MJX lets it hold for ever."""
    give = bound / (D + (D == 0) * MINVAL)
    held = jnp.where(x <= -give, bound, jnp.where(x >= give, -bound, -D * x))
    return jnp.where(bound > 0, held, -D * x)


def _elliptic_cone(
    x: jax.Array, D: jax.Array, friction: jax.Array, impratio: jax.Array
) -> jax.Array:
    """Force of elliptic contacts: 0 above the cone, a spring below its polar, else on its surface.

    N is the scaled normal, T the length of the scaled tangents U; on the surface the cost is
    0.5 Dm (N - mu T)^2.
    """
    mu = friction[:, 0] / jnp.sqrt(impratio)
    N, U = mu * x[:, 0], friction * x[:, 1:]
    square = jnp.sum(U * U, axis=1)
    is_sliding = square > 0
    T = jnp.sqrt(jnp.where(is_sliding, square, 1))  # the root has no derivative at 0
    is_sticking = jnp.where(is_sliding, mu * N + T <= 0, N < 0)
    is_on_surface = is_sliding & ~is_sticking & (mu * T > N)

    Dm = D[:, 0] / jnp.maximum(mu * mu * (1 + mu * mu), MINVAL)
    pressure = -Dm * (N - mu * T) * mu
    surface = jnp.concatenate([pressure[:, None], -(pressure / T)[:, None] * U * friction], axis=1)
    return jnp.where(is_on_surface[:, None], surface, jnp.where(is_sticking[:, None], -D * x, 0))


def _solve_definite(H: jax.Array, b: jax.Array) -> jax.Array:
    """Solve H y = b for a symmetric positive definite H of any scale (see the module's text)."""
    H = (H + H.T) / 2
    fixed = jax.lax.stop_gradient(H)
    scale = jax.lax.rsqrt(jnp.diag(fixed))
    unit = scale[:, None] * fixed * scale
    # Rounding moves an entry of the unit-diagonal matrix by about eps for each term of its sums.
    shift = 4 * H.shape[0] * jnp.finfo(H.dtype).eps
    root = _inverse_root(unit + shift * jnp.eye(H.shape[0], dtype=H.dtype))

    def solve_scaled(_, rhs):
        rhs = scale * rhs
        y = root.T @ (root @ rhs)
        for _ in range(REFINEMENTS):
            y = y + root.T @ (root @ (rhs - unit @ y))
        return scale * y

    return jax.lax.custom_linear_solve(lambda y: H @ y, b, solve_scaled, symmetric=True)


def _inverse_root(A: jax.Array) -> jax.Array:
    """Return the inverse of the Cholesky factor of A, by elimination beside the identity.

    It is computed once for all tangents and for many worlds at a time; XLA on a CPU solves batched
    triangular systems one after the other.
    """
    size = A.shape[0]
    index = jnp.arange(size)

    def eliminate(k, both):
        factor = jnp.where(index > k, both[:, k] / both[k, k], 0)
        return both - factor[:, None] * both[k]

    both = jnp.concatenate([A, jnp.eye(size, dtype=A.dtype)], axis=1)
    both = jax.lax.fori_loop(0, size, eliminate, both, unroll=min(size, UNROLLED))
    return jax.lax.rsqrt(jnp.diag(both))[:, None] * both[:, size:]
