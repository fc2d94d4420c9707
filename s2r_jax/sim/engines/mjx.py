"""Engine `mjx`.

MuJoCo in JAX, with this package's implicit differentiation of the constraint solver.
"""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float
from mujoco import mjx

from s2r_jax import targets
from s2r_jax.errors import Unsupported
from s2r_jax.parameters import ParameterSet, apply, is_model_field
from s2r_jax.sim import check, constants, elements, features, gates, implicit
from s2r_jax.sim.engines.physics import Drive, Motion, Physics, scanned

#: Flags that MJX rejects and that only compute something beside the motion.
OBSERVERS = mujoco.mjtEnableBit.mjENBL_ENERGY | mujoco.mjtEnableBit.mjENBL_FWDINV
#: Below these values, and at 0 above all, MJX moves differently from C.
SMALLEST = {
    "dof_frictionloss": gates.SMALLEST_FRICTIONLOSS,
    "tendon_frictionloss": gates.SMALLEST_FRICTIONLOSS,
    "geom_friction": features.SMALLEST_FRICTION,
}


class MjxEngine:
    """MJX's JAX implementation, stepped by `implicit.step`.

    Refuses what MJX would ignore; what does not change the motion (`simplified`) is cleared in the
    engine's own copy of the model.
    """

    def __init__(
        self, model: mujoco.MjModel, parameters: ParameterSet, sensors: bool, name: str = "mjx"
    ):
        self.name = name
        self.parameters = parameters
        self.sensors = sensors
        self.model = simplified(model)
        refuse_unsupported(self.name, self.model, sensors)
        refuse_small_friction(self.name, model, parameters)
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
                model = mjx.put_model(self.model)
                self._models[wide] = model, mjx.make_data(self.model)
        return self._models[wide]

    def prepare(self, theta: Float[Array, " param"]) -> dict[str, Array]:
        """Return the touched model fields, and the constants that derive from them."""
        model, _ = self._template()
        fields = apply(self._effects, theta, self._nominal)
        fields = {name: value.astype(_get(model, name).dtype) for name, value in fields.items()}
        if self._stale:
            derived = constants.set_const(replace_fields(model, fields))
            fields |= {name: _get(derived, name) for name in self._stale}
        return fields

    def geom_poses(
        self, prepared: dict[str, Array]
    ) -> tuple[Float[Array, "geom 3"], Float[Array, "geom 3 3"]]:
        """Return where the geoms of one world are in the model's own pose.

        Returns:
            Positions [m] and rotation matrices; of geoms that cannot move, in every pose.
        """
        model, data = self._template()
        data = mjx.kinematics(replace_fields(model, prepared), data)
        return data.geom_xpos, data.geom_xmat

    def init(self, prepared: Any, qpos: Float[Array, " nq"], qvel: Float[Array, " nv"]) -> Physics:
        """Return the state at rest of everything but qpos and qvel."""
        model, data = self._template()
        dtype = qpos.dtype
        sensordata = jnp.zeros(model.nsensordata if self.sensors else 0, dtype)
        if self.sensors:
            blank = data.replace(qpos=qpos, qvel=qvel)
            sensordata = implicit.forward(replace_fields(model, prepared), blank).sensordata
        still = jnp.zeros(model.nv, dtype)
        act = jnp.zeros(model.na, dtype)
        return Physics(qpos, qvel, act, still, jnp.zeros((), dtype), still, sensordata)

    def step(self, prepared: Any, physics: Physics, drive: Drive, nstep: int) -> Physics:
        """Advance by `nstep` physics steps with the drive held."""
        nominal, blank = self._template()
        model = replace_fields(nominal, prepared)
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

    def roll(
        self, prepared: Any, physics: Physics, ctrl: Float[Array, "time nu"], nstep: int
    ) -> Motion:
        """Return the motion after each of many calls of `step`, where nothing but ctrl drives."""
        return scanned(self, prepared, physics, ctrl, nstep)


def simplified(model: mujoco.MjModel) -> mujoco.MjModel:
    """Return a copy of the model without what MJX rejects although it moves nothing.

    Cleared are the flags `energy` and `fwdinv`, and the elliptic cone where nothing can touch: MJX
    fails on a cone without contacts.
    """
    cleared = copy.copy(model)
    cleared.opt.enableflags &= ~OBSERVERS
    if not elements.touching(cleared):
        cleared.opt.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    return cleared


def refuse_unsupported(engine: str, model: mujoco.MjModel, sensors: bool) -> None:
    """Refuse a model that MJX would simulate differently from C.

    Args:
        engine: Name of the engine, for messages.
        model: Compiled model.
        sensors: Whether sensor readings are wanted; if not, MJX may ignore what it likes of them.

    Raises:
        Unsupported: Lists everything that the model has and MJX ignores or rejects.
    """
    findings = [
        finding
        for finding in check.unsupported(model)
        if sensors or finding.effect == "rejected" or not finding.field.startswith("sensor_")
    ]
    if findings:
        features = "; ".join(f"({i}) {finding}" for i, finding in enumerate(findings, start=1))
        remedy = "or choose engine 'mujoco', which has all of it"
        raise Unsupported(engine, f"what this model has: {features}", remedy)


def refuse_small_friction(engine: str, model: mujoco.MjModel, parameters: ParameterSet) -> None:
    """Refuse bounds that let a friction reach values at which MJX is wrong.

    Raises:
        Unsupported: Names the first such parameter and the smallest value.
    """
    for effect in parameters.effects:
        if effect.field not in SMALLEST:
            continue
        floor = SMALLEST[effect.field]
        for index, param, coefficient in zip(
            effect.indices, effect.params, effect.coefficients, strict=True
        ):
            if effect.field == "geom_friction" and index % 3:
                continue  # torsional and rolling friction may be 0
            value = float(np.ravel(targets.model_field(model, effect.field))[index])
            low = coefficient * parameters.low[param]
            low = {"set": low, "add": value + low, "scale": value * low}[effect.operation]
            if low < floor:
                raise Unsupported(
                    engine,
                    f"{parameters.names[param]} down to {low:g}, where MJX locks or slips wrongly",
                    f"raise its lower bound so that {effect.field} stays at {floor:g} or above",
                )


def _get(model: mjx.Model, name: str) -> Array:
    owner, _, option = name.partition(".")
    if owner in ("opt", "stat"):
        return jnp.asarray(getattr(getattr(model, owner), option))
    return jnp.asarray(getattr(model, name))


def replace_fields(model: mjx.Model, fields: dict[str, Any]) -> Any:
    """Return the model with other values.

    The one place where MJX's untyped `tree_replace` is called.
    """
    return model.tree_replace(fields) if fields else model
