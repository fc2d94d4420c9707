"""Engine `mujoco`: the C engine as a pure batched function of (θ, state, drive).

Under vmap a whole batch reaches the host in one call. The host keeps, for each batch size, one
`mujoco.batch.Batch` and
the θ it last wrote there, and rewrites fields only in worlds whose θ differs: memory makes it
cheap, not stateful, the
output depends on the inputs alone.
"""

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float
from mujoco.batch import Batch

from s2r_jax import targets
from s2r_jax.errors import Unsupported
from s2r_jax.parameters import ParameterSet, apply, is_model_field
from s2r_jax.sim.engines.physics import Drive, Motion, Physics

#: What `roll` records of the state; in this order.
RECORDED = int(
    mujoco.mjtState.mjSTATE_TIME | mujoco.mjtState.mjSTATE_QPOS | mujoco.mjtState.mjSTATE_QVEL
)
#: Numbers that `roll` lets MuJoCo record at a time: 64 MB.
ROOM = 8_000_000


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
        if model.nhistory:
            remedy = "drop delay, interval and nsample, declare `latency` and sensor `rate` instead"
            raise Unsupported(self.name, "the history of MuJoCo's own delays", remedy)
        if model.npluginstate:
            remedy = "use plugins without state, or a native actuator"
            raise Unsupported(self.name, "the state of a plugin", remedy)
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

    def roll(
        self, prepared: Any, physics: Physics, ctrl: Float[Array, "time nu"], nstep: int
    ) -> Motion:
        """Return the motion after each of many calls of `step`, where nothing but ctrl drives.

        One call to the host, however long.
        """
        periods, like = ctrl.shape[0], Motion(physics.qpos, physics.qvel, physics.sensordata)
        shapes = [jax.ShapeDtypeStruct((periods, *leaf.shape), leaf.dtype) for leaf in like]

        def host(theta: np.ndarray, *leaves: np.ndarray) -> Motion:
            state, pool = Physics(*leaves[:-1]), self._pool(len(theta))
            still = np.zeros_like(state.qvel)
            self._write_theta(pool, theta)
            self._load(pool, state, Drive(leaves[-1][:, 0], still, still, still))
            return self._rolled(pool, leaves[-1], nstep)

        return Motion(*_called(host, shapes, (prepared, *physics, ctrl)))

    def _call(self, theta: Array, physics: Physics, drive: Drive, nstep: int) -> Physics:
        def host(theta: np.ndarray, *leaves: np.ndarray) -> Physics:
            state, acting = Physics(*leaves[: len(physics)]), Drive(*leaves[len(physics) :])
            pool = self._pool(len(theta))
            self._write_theta(pool, theta)
            self._load(pool, state, acting)
            return self._advance(pool, state, nstep)

        shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in physics]
        return Physics(*_called(host, shapes, (theta, *physics, *drive)))

    def _load(self, pool: Pool, state: Physics, acting: Drive) -> None:
        """Write the state of all worlds, and what acts on them."""
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

    def _advance(self, pool: Pool, state: Physics, nstep: int) -> Physics:
        batch, model = pool.batch, self.model
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

    def _rolled(self, pool: Pool, ctrl: np.ndarray, nstep: int) -> Motion:
        """Advance all worlds under `[world, time, nu]` controls, each held for nstep steps."""
        nq, nv = self.model.nq, self.model.nv
        record: list[Any] = [RECORDED]
        sensors = self.model.nsensordata if self.sensors else 0
        if sensors:
            record.append("sensordata")
        at_once = max(1, ROOM // (len(ctrl) * nstep * (1 + nq + nv + sensors)))
        parts = []
        for first in range(0, ctrl.shape[1], at_once):
            held = np.repeat(ctrl[:, first : first + at_once], nstep, axis=1)
            steps = held.shape[1]
            given = held if self.model.nu else None
            # Every nstep-th is what a caller sees; MuJoCo records them all.
            found = pool.batch.rollout(steps, given, record=record)
            _resume(pool.batch, given, found)
            parts.append([found[key][:, nstep - 1 :: nstep] for key in record])
        state = np.concatenate([part[0] for part in parts], axis=1)
        measured = np.zeros((*state.shape[:2], 0))
        if sensors:
            measured = np.concatenate([part[1] for part in parts], axis=1)
        return Motion(state[..., 1 : 1 + nq], state[..., 1 + nq :], measured)

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


def _resume(batch: Batch, control: np.ndarray | None, found: dict[Any, np.ndarray]) -> None:
    """Step on the worlds in which a warning ended a rollout, as `step` would.

    A rollout repeats the record of the step that warned until its end; time tells.
    """
    time = found[RECORDED][..., 0]
    steps = time.shape[1]
    for world in np.flatnonzero(time[:, -1:] == time[:, -2:-1]):
        done = 1 + int(np.argmax(time[world] == time[world, -1]))
        while done < steps:
            if not np.isfinite(found[RECORDED][world, done - 1]).all():
                for values in found.values():
                    values[world, done:] = np.nan
                break
            rest = None if control is None else control[world : world + 1, done:]
            more = batch.rollout(steps - done, rest, record=tuple(found), ids=[world])
            for key, values in found.items():
                values[world, done:] = more[key][0]
            done += 1 + int(np.argmax(time[world, done:] == time[world, -1]))


def _called(
    host: Callable[..., Iterable[np.ndarray]], shapes: Sequence[Any], given: Sequence[Array]
) -> list[Array]:
    """Call a function of whole batches on the host; its leaves begin with a world axis there.

    JAX's callback thread does not know of a local `enable_x64` and would cut doubles on the way:
    they travel as pairs of 32-bit words.
    """
    dtype = np.dtype(shapes[0].dtype)
    is_wide = dtype == np.float64

    def flat(*packed: Any) -> list[np.ndarray]:
        # Numpy only: JAX must not be called from its own callback.
        leaves = [np.asarray(leaf) for leaf in packed]
        if is_wide:
            leaves = [np.ascontiguousarray(leaf).view(np.float64)[..., 0] for leaf in leaves]
        worlds = leaves[0].shape[: leaves[0].ndim - given[0].ndim]
        rows = math.prod(worlds)
        leaves = [leaf.reshape(rows, *leaf.shape[len(worlds) :]) for leaf in leaves]
        out = []
        for value, shape in zip(host(leaves[0].astype(float), *leaves[1:]), shapes, strict=True):
            value = np.array(value, dtype=dtype, order="C").reshape((*worlds, *shape.shape))
            out.append(value[..., None].view(np.uint32) if is_wide else value)
        return out

    packed = jax.pure_callback(
        flat,
        [_packed_shape(shape) for shape in shapes],
        *[_pack(leaf) for leaf in given],
        vmap_method="broadcast_all",
    )
    return [_unpack(leaf, dtype) for leaf in packed]


def _packed_shape(leaf: Any) -> jax.ShapeDtypeStruct:
    if leaf.dtype != np.float64:
        return leaf
    return jax.ShapeDtypeStruct((*leaf.shape, 2), np.uint32)


def _pack(leaf: Array) -> Array:
    """Return float64 as pairs of 32-bit words."""
    return jax.lax.bitcast_convert_type(leaf, jnp.uint32) if leaf.dtype == jnp.float64 else leaf


def _unpack(leaf: Array, dtype: Any) -> Array:
    return jax.lax.bitcast_convert_type(leaf, dtype) if leaf.dtype == jnp.uint32 else leaf
