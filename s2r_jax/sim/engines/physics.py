"""What an engine is.

Pure functions of one world over a slim state. A batch is `jax.vmap` of them.
"""

import functools
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Float

from s2r_jax.types import Array


class Physics(NamedTuple):
    """The engine's state, and what the world around it reads of it."""

    qpos: Float[Array, " nq"]
    qvel: Float[Array, " nv"]
    act: Float[Array, " na"]
    warmstart: Float[Array, " nv"]
    """qacc of the last step, where the constraint solver starts."""
    time: Float[Array, ""]
    """[s]."""
    bias: Float[Array, " nv"]
    """qfrc_bias before the last substep.

    Gravity, Coriolis [N m, N]; zero unless the drive has load friction.
    """
    sensordata: Float[Array, " nsensordata"]
    """Of the state before the last substep, as MuJoCo leaves it.

    Empty unless sensors are wanted.
    """


class Drive(NamedTuple):
    """What acts on one world during a call."""

    ctrl: Float[Array, " nu"]
    applied: Float[Array, " nv"]
    """qfrc_applied [N m, N]."""
    frictionloss: Float[Array, " nv"]
    """Added to the dofs' own [N m, N]."""
    damping: Float[Array, " nv"]
    """Added to the dofs' own [N m s/rad, N s/m]; integrated implicitly by the engine."""


class Motion(NamedTuple):
    """What signals read of the physics, see `Physics`."""

    qpos: Float[Array, "*time nq"]
    qvel: Float[Array, "*time nv"]
    sensordata: Float[Array, "*time nsensordata"]


@runtime_checkable
class Engine(Protocol):
    """One physics engine for one model and parameter set.

    `prepare` turns θ into what the engine needs of it, once a world; `init`, `step` and `roll` are
    pure, and vmap.
    """

    name: str

    def prepare(self, theta: Float[Array, " param"]) -> Any:
        """Return the engine's own form of θ, a pytree of arrays."""
        ...

    def init(self, prepared: Any, qpos: Float[Array, " nq"], qvel: Float[Array, " nv"]) -> Physics:
        """Return the state at rest of everything but qpos and qvel."""
        ...

    def step(self, prepared: Any, physics: Physics, drive: Drive, nstep: int) -> Physics:
        """Advance by `nstep` physics steps with the drive held."""
        ...

    def roll(
        self, prepared: Any, physics: Physics, ctrl: Float[Array, "time nu"], nstep: int
    ) -> Motion:
        """Return the motion after each of many calls of `step`, where nothing but ctrl drives."""
        ...


def scanned(
    engine: Engine, prepared: Any, physics: Physics, ctrl: Float[Array, "time nu"], nstep: int
) -> Motion:
    """Return what `Engine.roll` does, one `step` after the other."""

    def advance(physics: Physics, now: Array) -> tuple[Physics, Motion]:
        physics = _step(engine, nstep, prepared, physics, now)
        return physics, Motion(physics.qpos, physics.qvel, physics.sensordata)

    return jax.lax.scan(advance, physics, ctrl)[1]


# Jitted on its own the physics is traced once, not once for each number of steps.
@functools.partial(jax.jit, static_argnums=(0, 1))
def _step(engine: Engine, nstep: int, prepared: Any, physics: Physics, ctrl: Array) -> Physics:
    return engine.step(prepared, physics, by_controls(ctrl, physics), nstep)


def by_controls(ctrl: Float[Array, " nu"], physics: Physics) -> Drive:
    """Return the drive of the controls alone."""
    still = jnp.zeros_like(physics.qvel)
    return Drive(ctrl, still, still, still)
