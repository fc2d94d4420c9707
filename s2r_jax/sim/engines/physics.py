"""What an engine is.

Pure functions of one world over a slim state. A batch is `jax.vmap` of them.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

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


@runtime_checkable
class Engine(Protocol):
    """One physics engine for one model and parameter set.

    `prepare` turns θ into what the engine needs of it, once a world; `init` and `step` are pure,
    and vmap.
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
