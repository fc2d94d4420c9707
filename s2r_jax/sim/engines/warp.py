"""Engine `warp`: MJX's Warp implementation, for throughput on NVIDIA GPUs; an optional extra.

Warp steps a whole batch in one call and shares one list of contacts among its worlds, so the
length of that list depends on the number of worlds. Here every `vmap`, nested ones included, is
folded into one flat batch first, whose size then sets the lengths. A world whose contacts or
constraints do not fit becomes NaN, as one that diverges; it never goes on without them. Without
CUDA it runs on Warp's CPU device, slowly.

θ enters as in `MjxEngine`, whose JAX arrays also give the constants that follow from it. There are
no derivatives, and no float64.

Source: behaviour of mujoco-mjx 3.17.0, `put_model(impl="warp")`.
"""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float
from mujoco import mjx

from s2r_jax.errors import Unsupported
from s2r_jax.parameters import ParameterSet
from s2r_jax.sim import elements
from s2r_jax.sim.engines.mjx import MjxEngine, replace_fields
from s2r_jax.sim.engines.physics import Drive, Motion, Physics, scanned

#: Contacts that MuJoCo may find between two geoms of a robot and its ground.
CONTACTS_A_PAIR = 4
#: Contacts a world on average, beyond which a batch would not fit into the memory of a GPU.
MOST_CONTACTS = 96
#: Fields that place a geom which cannot move.
PLACES = frozenset({"geom_pos", "geom_quat", "body_pos", "body_quat"})
#: Rows of the constraint solver that one contact takes under the pyramidal cone (condim 6: 10).
ROWS_A_CONTACT = 10


class Prepared(NamedTuple):
    """What Warp needs of one world's θ."""

    fields: dict[str, Array]
    """Model fields other than the nominal."""
    poses: dict[str, Array]
    """Poses of the geoms in `Data`, where θ may move one that is fixed to the world.

    Warp computes those of its own when `Data` is made, and never again.
    """


class WarpEngine:
    """MuJoCo Warp through MJX."""

    name = "warp"

    def __init__(self, model: mujoco.MjModel, parameters: ParameterSet, sensors: bool):
        if importlib.util.find_spec("warp") is None:
            raise Unsupported(
                self.name,
                "this installation, which lacks Warp",
                "pip install 's2r_jax[warp]', or choose engine mjx or mujoco",
            )
        warp = importlib.import_module("warp")
        # it logs every kernel on standard output, where only results belong
        warp.config.log_level = warp.LOG_WARNING
        self.sensors = sensors
        self._jax = MjxEngine(model, parameters, sensors, name=self.name)
        self._c_model = self._jax.model
        pairs = len(elements.touching(model))
        self._contacts = min(CONTACTS_A_PAIR * pairs, MOST_CONTACTS)
        # every limit and friction of a dof or tendon has a row, an equality up to six
        others = 2 * (model.nv + model.ntendon) + model.njnt + 6 * model.neq
        self._rows = others + ROWS_A_CONTACT * self._contacts + 1
        self._blanks: dict[int, tuple[mjx.Model, mjx.Data]] = {}

    def prepare(self, theta: Float[Array, " param"]) -> Prepared:
        """Return the touched model fields, and all that derives from them."""
        fields = self._jax.prepare(theta)
        if PLACES.isdisjoint(fields):
            return Prepared(fields, {})
        positions, rotations = self._jax.geom_poses(fields)
        return Prepared(fields, {"geom_xpos": positions, "geom_xmat": rotations})

    def init(self, prepared: Any, qpos: Float[Array, " nq"], qvel: Float[Array, " nv"]) -> Physics:
        """Return the state at rest of everything but qpos and qvel."""
        model, dtype = self._c_model, qpos.dtype
        still = jnp.zeros(model.nv, dtype)
        readings = jnp.zeros(model.nsensordata if self.sensors else 0, dtype)
        time, act = jnp.zeros((), dtype), jnp.zeros(model.na, dtype)
        blank = Physics(qpos, qvel, act, still, time, still, readings)
        if not self.sensors:
            return blank
        drive = Drive(jnp.zeros(model.nu, dtype), still, still, still)
        measured = self._call(prepared, blank, drive, 0)
        return blank._replace(sensordata=measured.sensordata)

    def step(self, prepared: Any, physics: Physics, drive: Drive, nstep: int) -> Physics:
        """Advance by `nstep` physics steps with the drive held.

        Raises:
            Unsupported: Under differentiation or in float64.
        """
        return self._call(prepared, physics, drive, nstep)

    def roll(
        self, prepared: Any, physics: Physics, ctrl: Float[Array, "time nu"], nstep: int
    ) -> Motion:
        """Return the motion after each of many calls of `step`, where nothing but ctrl drives."""
        return scanned(self, prepared, physics, ctrl, nstep)

    def _call(self, prepared: Any, physics: Physics, drive: Drive, nstep: int) -> Physics:
        if physics.qpos.dtype != jnp.float32:
            remedy = "use float32, or engine mjx or mujoco"
            raise Unsupported(self.name, f"{physics.qpos.dtype}", remedy)

        def run(batch: tuple[Any, Physics, Drive]) -> Physics:
            return self._run(*batch, nstep)

        one = jax.tree.map(lambda leaf: leaf[None], (prepared, physics, drive))
        return jax.tree.map(
            lambda leaf: leaf[0], _without_derivative(_folding(run), self.name)(one)
        )

    def _run(self, prepared: Prepared, physics: Physics, drive: Drive, nstep: int) -> Physics:
        """Step a flat batch: every leaf begins with a world axis."""
        nominal, blank = self._blank(len(physics.qpos))

        def start(prepared: Prepared, physics: Physics, drive: Drive) -> tuple[mjx.Model, mjx.Data]:
            model = replace_fields(nominal, prepared.fields)
            model = model.replace(
                dof_frictionloss=model.dof_frictionloss + drive.frictionloss,
                dof_damping=model.dof_damping + drive.damping,
            )
            data = blank.replace(
                qpos=physics.qpos,
                qvel=physics.qvel,
                act=physics.act,
                qacc_warmstart=physics.warmstart,
                time=physics.time,
                ctrl=drive.ctrl,
                qfrc_applied=drive.applied,
                **prepared.poses,
            )
            return model, data

        def one(prepared: Prepared, physics: Physics, drive: Drive) -> Physics:
            model, data = start(prepared, physics, drive)
            data = mjx.step(model, data) if nstep else mjx.forward(model, data)
            fits = data._impl.overflow == 0
            stepped = Physics(
                jnp.where(fits, data.qpos, jnp.nan),
                data.qvel,
                data.act,
                data.qacc_warmstart,
                data.time,
                data.qfrc_bias,
                data.sensordata if self.sensors else physics.sensordata,
            )
            return jax.tree.map(lambda new, old: new.astype(old.dtype), stepped, physics)

        def advance(physics: Physics, _: None) -> tuple[Physics, None]:
            return jax.vmap(one)(prepared, physics, drive), None

        return jax.lax.scan(advance, physics, length=max(nstep, 1))[0]

    def _blank(self, worlds: int) -> tuple[mjx.Model, mjx.Data]:
        """Return the nominal model and blank data for a batch of this size."""
        if worlds not in self._blanks:
            contacts = max(1, worlds * self._contacts)
            with jax.ensure_compile_time_eval():
                try:
                    model = mjx.put_model(self._c_model, impl="warp")
                except NotImplementedError as reason:
                    remedy = "choose engine 'mujoco'"
                    raise Unsupported(self.name, f"this model: {reason}", remedy) from reason
                # its kernels would report a full list on standard output; here the world is NaN
                model = replace_fields(model, {"opt._impl.warn_overflow": 0})
                data = mjx.make_data(
                    self._c_model,
                    impl="warp",
                    naconmax=contacts,
                    naccdmax=contacts,
                    njmax=self._rows,
                )
            self._blanks[worlds] = model, data
        return self._blanks[worlds]


def _folding(run: Callable[[Any], Physics]) -> Callable[[Any], Physics]:
    """Return the batched function with every further vmap folded into its one world axis."""
    folded = custom_vmap(run)

    @folded.def_vmap
    def fold(size: int, is_batched: Any, batch: Any) -> tuple[Physics, Any]:
        (is_batched,) = is_batched if isinstance(is_batched, list) else (is_batched,)
        whole = jax.tree.map(
            lambda leaf, has: leaf if has else jnp.broadcast_to(leaf, (size, *leaf.shape)),
            batch,
            is_batched,
        )
        # explicit sizes: a reshape of an empty leaf cannot work -1 out
        flat = jax.tree.map(lambda x: x.reshape(size * x.shape[1], *x.shape[2:]), whole)
        out = jax.tree.map(
            lambda x: x.reshape(size, x.shape[0] // size, *x.shape[1:]), folded(flat)
        )
        return out, jax.tree.map(lambda _: True, out)

    return folded


def _without_derivative(run: Callable[[Any], Physics], engine: str) -> Callable[[Any], Physics]:
    """Return the function so that differentiating it is an error with a name."""
    guarded = jax.custom_jvp(run)

    @guarded.defjvp
    def refuse(primals: Any, tangents: Any) -> Any:
        raise Unsupported(engine, "derivatives", "use engine 'mjx'")

    return guarded


__all__ = ["WarpEngine"]
