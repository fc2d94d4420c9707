"""MJX's constraint rows, with derivatives that are finite in reverse mode.

`mjx.make_constraint` takes stiffness, damping and impedance of each row from one function, whose
branches not taken are NaN or infinite in two cases. Values and forward mode are unharmed, but
reverse mode multiplies such a branch by 0, and 0 * NaN is NaN:

- Deeper than `solimp`'s width, the branch raises a negative number to a power, and the slope with
  respect to the power is its logarithm. Here the depth is held at the width, where the impedance
  is the same.
- Rows of an inactive equality have `solref` = 0, and the branch divides by it. Here it is replaced
  by 1 beforehand and its outcome, 0, put in afterwards.
"""

import types

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from mujoco import mjx
from mujoco.mjx._src import constraint

# The least width of `solimp` that MJX divides by (mjMINVAL of MuJoCo).
MINVAL = 1e-15


def position(model: mjx.Model, data: mjx.Data) -> mjx.Data:
    """Compute what follows from the positions, as `mjx.fwd_position` in the same order."""
    data = mjx.kinematics(model, data)
    data = mjx.com_pos(model, data)
    data = mjx.camlight(model, data)
    data = mjx.tendon(model, data)
    data = mjx.crb(model, data)
    data = mjx.tendon_armature(model, data)
    data = mjx.factor_m(model, data)
    data = mjx.collision(model, data)
    data = make_constraint(model, data)
    return mjx.transmission(model, data)


def _stiffness_damping_impedance(
    model: mjx.Model,
    solref: Float[Array, "2"],
    solimp: Float[Array, "5"],
    pos: Float[Array, ""],
) -> tuple[jax.Array, jax.Array, jax.Array]:
    is_idle = jnp.all(solref == 0)
    # A few roundings less than the width, lest 1 - width / width come out negative.
    width = jnp.maximum(MINVAL, solimp[2]) * (1 - 4 * jnp.finfo(pos.dtype).eps)
    k, b, impedance = constraint._kbi(
        model, jnp.where(is_idle, 1, solref), solimp, jnp.clip(pos, -width, width)
    )
    return jnp.where(is_idle, 0, k), jnp.where(is_idle, 0, b), impedance


# `mjx.make_constraint` itself, looking `_kbi` up in a copy of its module's names: nothing of MJX
# is changed, and nothing of its 600 lines repeated.
make_constraint = types.FunctionType(
    constraint.make_constraint.__code__,
    {**vars(constraint), "_kbi": _stiffness_damping_impedance},
    "make_constraint",
)
