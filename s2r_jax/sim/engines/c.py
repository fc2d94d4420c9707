"""Engine `mujoco`: the C engine as a pure batched function of (θ, state, drive).

Under vmap a whole batch reaches the host in one call. The host keeps, for each batch size, one
`mujoco.batch.Batch` and
the θ it last wrote there, and rewrites fields only in worlds whose θ differs: memory makes it
cheap, not stateful, the
output depends on the inputs alone.
"""

import copy
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float
from mujoco.batch import Batch

from s2r_jax import targets
from s2r_jax.parameters import ParameterSet, apply, is_model_field
from s2r_jax.sim.engines.physics import Drive, Physics


class Pool(NamedTuple):
    """The host's memory for one batch size."""

    batch: Batch
    fields: dict[str, np.ndarray]
    """Live per-world values of the touched model fields."""
    written: np.ndarray
    """θ `[world, param]` as last written."""
    friction: np.ndarray
    """Live dof_frictionloss and dof_damping `[world, nv]`."""
    damping: np.ndarray
    own: dict[str, np.ndarray]
    """The dofs' own friction loss and damping at the written θ, `[world, nv]`."""


class CEngine:
    """MuJoCo's C engine on all cores, called back from JAX."""

    name = "mujoco"

    def __init__(self, model: mujoco.MjModel, parameters: ParameterSet, sensors: bool):
        self.model = copy.copy(model)
        # A world that diverges stays NaN, as on the other engines; MuJoCo would silently start it
        # anew.
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self.sensors = sensors
        self.parameters = ParameterSet(
            effects=tuple(e for e in parameters.effects if is_model_field(e.field))
        )
        self.nominal = {name: targets.model_field(model, name) for name in self.parameters.fields}
        inputs = set(mujoco.MjModel._setconst_inputs)
        self._derives = any(name in inputs or name[:4] == "opt." for name in self.parameters.fields)
        self._pools: dict[int, Pool] = {}

    def prepare(self, theta: Float[Array, " param"]) -> Float[Array, " param"]:
        """Return θ itself: the host applies it where it is new."""
        return theta

    def init(self, prepared: Any, qpos: Float[Array, " nq"], qvel: Float[Array, " nv"]) -> Physics:
        """Return the state at rest of everything but qpos and qvel."""
        dtype = qpos.dtype
        still = jnp.zeros(self.model.nv, dtype)
        blank = Physics(
            qpos,
            qvel,
            jnp.zeros(self.model.na, dtype),
            still,
            jnp.zeros((), dtype),
            still,
            jnp.zeros(self.model.nsensordata if self.sensors else 0, dtype),
        )
        if not self.sensors:
            return blank
        drive = Drive(jnp.zeros(self.model.nu, dtype), still, still, still)
        measured = self._call(prepared, blank, drive, nstep=0)
        return blank._replace(sensordata=measured.sensordata)

    def step(self, prepared: Any, physics: Physics, drive: Drive, nstep: int) -> Physics:
        """Advance by `nstep` physics steps with the drive held."""
        return self._call(prepared, physics, drive, nstep)

    def _call(self, theta: Array, physics: Physics, drive: Drive, nstep: int) -> Physics:
        shapes = [jax.ShapeDtypeStruct(*_packed_shape(leaf)) for leaf in physics]
        given = [_pack(leaf) for leaf in (theta, *physics, *drive)]
        wide = physics.qpos.dtype == np.float64
        packed = jax.pure_callback(
            lambda *given: self._host(nstep, wide, given),
            shapes,
            *given,
            vmap_method="broadcast_all",
        )
        return Physics(*[
            _unpack(leaf, old.dtype) for leaf, old in zip(packed, physics, strict=True)
        ])  # fmt: skip

    def _host(self, nstep: int, wide: bool, given: Any) -> list[np.ndarray]:
        """Step a whole batch. Numpy only: JAX must not be called from its own callback."""
        dtype = np.dtype(np.float64 if wide else np.float32)
        leaves = [np.asarray(x) for x in given]
        if wide:
            leaves = [np.ascontiguousarray(x).view(np.float64)[..., 0] for x in leaves]
        theta, leaves = leaves[0], leaves[1:]
        worlds = leaves[0].shape[:-1]
        rows = int(np.prod(worlds))
        flat = [x.reshape(rows, *x.shape[len(worlds) :]) for x in leaves]
        state, acting = Physics(*flat[: len(Physics._fields)]), Drive(*flat[len(Physics._fields) :])
        pool = self._pool(rows)
        self._write_theta(pool, np.asarray(theta, dtype=float).reshape(rows, -1))
        new = self._advance(pool, state, acting, nstep)
        out = []
        for value, old in zip(new, leaves[: len(new)], strict=True):
            value = np.array(value, dtype=dtype).reshape(old.shape)
            out.append(value[..., None].view(np.uint32) if wide else value)
        return out

    def _advance(self, pool: Pool, state: Physics, acting: Drive, nstep: int) -> Physics:
        batch, model = pool.batch, self.model
        pool.friction[:] = pool.own["dof_frictionloss"] + acting.frictionloss
        pool.damping[:] = pool.own["dof_damping"] + acting.damping
        batch.bind("qpos")[:] = state.qpos
        batch.bind("qvel")[:] = state.qvel
        batch.bind("qacc_warmstart")[:] = state.warmstart
        time = batch.bind("time")
        time[:] = np.reshape(state.time, np.shape(time))
        batch.bind("qfrc_applied")[:] = acting.applied
        if model.na:
            batch.bind("act")[:] = state.act
        if model.nu:
            batch.bind("ctrl")[:] = acting.ctrl
        if nstep:
            batch.step(nstep=nstep)
        else:
            batch.forward()
        return Physics(
            batch.bind("qpos"),
            batch.bind("qvel"),
            batch.bind("act") if model.na else state.act,
            batch.bind("qacc_warmstart"),
            np.ravel(batch.bind("time")),
            batch.bind("qfrc_bias"),
            batch.bind("sensordata") if self.sensors else state.sensordata,
        )

    def _pool(self, rows: int) -> Pool:
        if rows not in self._pools:
            batch = Batch(self.model, nsim=rows)
            fields = {name: batch.expand(name) for name in self.parameters.fields}
            friction, damping = batch.expand("dof_frictionloss"), batch.expand("dof_damping")
            own = {
                "dof_frictionloss": np.array(friction),
                "dof_damping": np.array(damping),
            }
            params = 1 + max((max(e.params) for e in self.parameters.effects), default=-1)
            written = np.full((rows, params), np.nan)
            self._pools[rows] = Pool(batch, fields, written, friction, damping, own)
        return self._pools[rows]

    def _write_theta(self, pool: Pool, theta: np.ndarray) -> None:
        """Write θ into the worlds where it is new, and let the derived constants follow."""
        theta = theta[:, : pool.written.shape[1]]
        changed = np.flatnonzero((theta != pool.written).any(axis=1))
        if not changed.size:
            return
        fields = apply(self.parameters, theta[changed], self.nominal, xp=np)
        for name, value in fields.items():
            if name in pool.own:
                pool.own[name][changed] = value
            else:
                pool.fields[name][changed] = value.reshape(pool.fields[name][changed].shape)
        if self._derives:
            pool.batch.set_const(changed)
        pool.written[changed] = theta[changed]


def _packed_shape(leaf: Array) -> tuple[tuple[int, ...], Any]:
    return ((*leaf.shape, 2), np.uint32) if leaf.dtype == np.float64 else (leaf.shape, leaf.dtype)


def _pack(leaf: Array) -> Array:
    """Return float64 as pairs of 32-bit words.

    JAX's callback thread does not know of a local `enable_x64` and would cut doubles on the way.
    """
    return jax.lax.bitcast_convert_type(leaf, jnp.uint32) if leaf.dtype == jnp.float64 else leaf


def _unpack(leaf: Array, dtype: Any) -> Array:
    return jax.lax.bitcast_convert_type(leaf, dtype) if leaf.dtype == jnp.uint32 else leaf
