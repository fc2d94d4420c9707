"""Roll a model out under given controls, with derivatives that fit into memory."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from mujoco import mjx

from s2r_jax.errors import BadValue
from s2r_jax.sim import implicit


class State(NamedTuple):
    """What one step hands to the next; everything else in `mjx.Data` is computed anew.

    Attributes:
        qpos: Positions [m or rad], quaternions of free and ball joints included.
        qvel: Velocities [m/s or rad/s].
        act: Actuator activations.
        qacc_warmstart: Where the constraint solver starts [m/s^2 or rad/s^2].
        time: Time [s].
    """

    qpos: Float[Array, "*time nq"]
    qvel: Float[Array, "*time nv"]
    act: Float[Array, "*time na"]
    qacc_warmstart: Float[Array, "*time nv"]
    time: Float[Array, "*time"]


def state_of(data: mjx.Data) -> State:
    """Return the state that data holds."""
    return State(data.qpos, data.qvel, data.act, data.qacc_warmstart, data.time)


def rollout(
    model: mjx.Model, data: mjx.Data, ctrl: Float[Array, "time nu"], segment: int = 1
) -> State:
    """Return the states after each of the steps that `ctrl` drives.

    Reverse mode stores one `State` for each segment and, while it works on a segment, the
    intermediate values of that segment's steps: memory is least near segment = sqrt(time), at the
    cost of computing every step twice.

    Args:
        model: Model of MJX's JAX implementation.
        data: Where the rollout starts; applied forces, mocap poses and active equalities stay.
        ctrl: Controls of each step [the actuators' units].
        segment: Steps in a segment; must divide the number of steps.
    """
    steps = ctrl.shape[0]
    if segment < 1 or steps % segment:
        fitting = [n for n in range(1, steps + 1) if steps % n == 0]
        raise BadValue("rollout", "segment", segment, f"a divisor of {steps} steps: {fitting}")

    def advance(state: State, now: jax.Array) -> tuple[State, State]:
        moved = implicit.step(model, data.replace(**state._asdict(), ctrl=now))
        return state_of(moved), state_of(moved)

    @jax.checkpoint
    def advance_segment(state: State, part: jax.Array) -> tuple[State, State]:
        return jax.lax.scan(advance, state, part)

    parts = ctrl.reshape(steps // segment, segment, *ctrl.shape[1:])
    _, states = jax.lax.scan(advance_segment, state_of(data), parts)
    return jax.tree.map(lambda x: jnp.reshape(x, (steps, *x.shape[2:])), states)
