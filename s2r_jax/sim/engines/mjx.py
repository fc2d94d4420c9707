"""Engine `mjx`.

MuJoCo in JAX, with this package's implicit differentiation of the constraint solver.
"""

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float
from mujoco import mjx

from s2r_jax import targets
from s2r_jax.parameters import ParameterSet, apply, is_model_field
from s2r_jax.sim import constants, implicit
from s2r_jax.sim.engines.physics import Drive, Physics


class MjxEngine:
    """MJX's JAX implementation, stepped by `implicit.step`."""

    name = "mjx"

    def __init__(self, model: mujoco.MjModel, parameters: ParameterSet, sensors: bool):
        self.parameters = parameters
        self.sensors = sensors
        self._c_model = model
        self._effects = ParameterSet(
            effects=tuple(e for e in parameters.effects if is_model_field(e.field))
        )
        self._nominal = {name: targets.model_field(model, name) for name in self._effects.fields}
        self._stale = sorted(constants.stale(self._nominal))
        self._models: dict[bool, tuple[mjx.Model, mjx.Data]] = {}

    def _template(self) -> tuple[mjx.Model, mjx.Data]:
        """Return the nominal model and blank data in the default precision, outside traces."""
        wide = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
        if wide not in self._models:
            with jax.ensure_compile_time_eval():
                model = mjx.put_model(self._c_model)
                self._models[wide] = model, mjx.make_data(self._c_model)
        return self._models[wide]

    def prepare(self, theta: Float[Array, " param"]) -> dict[str, Array]:
        """Return the touched model fields, and the constants that derive from them."""
        model, _ = self._template()
        fields = apply(self._effects, theta, self._nominal)
        fields = {name: value.astype(_get(model, name).dtype) for name, value in fields.items()}
        if self._stale:
            derived = constants.set_const(_replace(model, fields))
            fields |= {name: _get(derived, name) for name in self._stale}
        return fields

    def init(self, prepared: Any, qpos: Float[Array, " nq"], qvel: Float[Array, " nv"]) -> Physics:
        """Return the state at rest of everything but qpos and qvel."""
        model, data = self._template()
        dtype = qpos.dtype
        sensordata = jnp.zeros(model.nsensordata if self.sensors else 0, dtype)
        if self.sensors:
            blank = data.replace(qpos=qpos, qvel=qvel)
            sensordata = implicit.forward(_replace(model, prepared), blank).sensordata
        still = jnp.zeros(model.nv, dtype)
        act = jnp.zeros(model.na, dtype)
        return Physics(qpos, qvel, act, still, jnp.zeros((), dtype), still, sensordata)

    def step(self, prepared: Any, physics: Physics, drive: Drive, nstep: int) -> Physics:
        """Advance by `nstep` physics steps with the drive held."""
        nominal, blank = self._template()
        model = _replace(nominal, prepared)
        model = model.replace(
            dof_frictionloss=model.dof_frictionloss + drive.frictionloss,
            dof_damping=model.dof_damping + drive.damping,
        )

        def one(physics: Physics, _: None) -> tuple[Physics, None]:
            data = blank.replace(
                qpos=physics.qpos,
                qvel=physics.qvel,
                act=physics.act,
                qacc_warmstart=physics.warmstart,
                time=physics.time,
                ctrl=drive.ctrl,
                qfrc_applied=drive.applied,
            )
            data = implicit.step(model, data)
            sensordata = data.sensordata if self.sensors else physics.sensordata
            stepped = Physics(
                data.qpos,
                data.qvel,
                data.act,
                data.qacc_warmstart,
                data.time,
                data.qfrc_bias,
                sensordata,
            )
            return jax.tree.map(lambda new, old: new.astype(old.dtype), stepped, physics), None

        if nstep == 1:
            return one(physics, None)[0]
        return jax.lax.scan(one, physics, length=nstep)[0]


def _get(model: mjx.Model, name: str) -> Array:
    owner, _, option = name.partition(".")
    if owner in ("opt", "stat"):
        return jnp.asarray(getattr(getattr(model, owner), option))
    return jnp.asarray(getattr(model, name))


def _replace(model: mjx.Model, fields: dict[str, Array]) -> Any:
    """Return the model with other values.

    The one place where MJX's untyped `tree_replace` is called.
    """
    return model.tree_replace(fields) if fields else model
