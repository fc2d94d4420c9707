"""What MJX would silently do differently from C, before it costs anybody a week.

`unsupported` reads a table of known differences (`limits.py`), `compare_with_c` rolls out both
engines and needs no table: the only net without holes. `cannot_act` says which numbers of a model
have no effect as it was built, `promote` builds it so that they have.

Everything is in MuJoCo's words: fields of `MjModel`, names of elements.
"""

import contextlib
import copy
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import jax
import mujoco
import numpy as np
from jaxtyping import Float
from mujoco import mjx

from s2r_jax.errors import UnknownName, Unsupported
from s2r_jax.sim import elements, gates, limits


class Finding(NamedTuple):
    """Something of a model that MJX does not do as C does."""

    field: str
    where: tuple[str, ...]
    effect: limits.Effect
    message: str
    remedy: str

    def __str__(self) -> str:
        where = ", ".join(self.where)
        return f"{self.field} of {where} is {self.effect}: {self.message}; {self.remedy}"


class Deviation(NamedTuple):
    """The largest difference between MJX and C in a short rollout, in each joint and sensor."""

    joints: tuple[str, ...]
    qpos: Float[np.ndarray, " joint"]
    """Largest error of any coordinate of the joint [rad, m, or quaternion component]."""
    sensors: tuple[str, ...]
    sensordata: Float[np.ndarray, " sensor"]
    """Largest error of any entry of the sensor, in its own unit."""

    @property
    def largest(self) -> float:
        """The largest of all errors; inf where MJX is not finite."""
        return float(np.max([*self.qpos, *self.sensordata], initial=0.0))


def unsupported(model: mujoco.MjModel) -> list[Finding]:
    """Return everything in the model that C honours and MJX is known to ignore or to reject."""
    findings = []
    for rule in limits.RULES:
        if where := tuple(rule.where(model)):
            findings.append(Finding(rule.field, where, rule.effect, rule.message, rule.remedy))
    return findings


def compare_with_c(model: mujoco.MjModel, steps: int = 50, seed: int = 0) -> Deviation:
    """Roll out MJX and C side by side in float64 and return the largest differences.

    Both start in qpos0 with small random velocities and follow the same random controls, drawn anew
    at every step from ctrlrange (where unlimited: from -1 to 1). What the rollout does not excite,
    such as a contact never made, it does not see.

    Args:
        model: Model that C and MJX can both run.
        steps: Physics steps; errors of chaotic motion grow with it.
        seed: Seed of velocities and controls.

    Raises:
        Unsupported: MJX rejects the model.
    """
    rejected = [finding for finding in unsupported(model) if finding.effect == "rejected"]
    if rejected:
        raise Unsupported(
            "mjx", f"{rejected[0].field} here ({rejected[0].message})", rejected[0].remedy
        )
    rng = np.random.default_rng(seed)
    velocity = rng.normal(
        scale=0.5, size=model.nv
    )  # rad/s, m/s: enough to load springs and dampers
    low, high = np.where(model.actuator_ctrllimited[:, None], model.actuator_ctrlrange, (-1, 1)).T
    controls = rng.uniform(low, high, (steps, model.nu))
    qpos, sensordata = _run_c(model, velocity, controls)
    mjx_qpos, mjx_sensordata = _run_mjx(model, velocity, controls)
    return Deviation(
        tuple(elements.element_names(model, "joint")),
        _largest(mjx_qpos - qpos, [*model.jnt_qposadr, model.nq]),
        tuple(elements.element_names(model, "sensor")),
        _largest(mjx_sensordata - sensordata, [*model.sensor_adr, model.nsensordata]),
    )


def cannot_act(model: mujoco.MjModel, fields: Mapping[str, Iterable[int | str]]) -> list[Finding]:
    """Return which numbers of the model have no effect in MJX, the way the model was built.

    Args:
        model: Model as it will be given to `put_model`.
        fields: For each field of `MjModel` (`opt.` ones included) that somebody wants to vary, the
            rows, by index or by the name of their element; for `opt.` fields nothing.

    Raises:
        UnknownName: A field or element that is not in the model.
    """
    findings = []
    for field, wanted in fields.items():
        names, rows = _rows(model, field, wanted)
        if field not in gates.VARIABLE:
            where = tuple(names[row] for row in rows)
            message = "MJX fixes it when put_model runs, or does not hold it"
            findings.append(Finding(field, where, "ignored", message, "write it into the model"))
            continue
        for gate in gates.GATES:
            if field in gate.fields:
                closed = _closed(gate, model, rows)
                if where := tuple(names[row] for row in closed):
                    findings.append(Finding(field, where, "ignored", gate.message, gate.remedy))
    return findings


def promote(model: mujoco.MjModel, fields: Mapping[str, Iterable[int | str]]) -> mujoco.MjModel:
    """Return a copy of the model in which these numbers can act, and which moves as before.

    Limits are switched on far out of reach, a friction loss of 0 becomes 1e-6, a geom takes
    precedence in its contacts with the friction that ruled them. A range that was written beside a
    limit that is off is lost.

    Args:
        model: Compiled model.
        fields: As for `cannot_act`.

    Raises:
        Unsupported: A number that cannot be made to act without changing the motion.
        UnknownName: A field or element that is not in the model.
    """
    promoted = copy.copy(model)
    for field, wanted in fields.items():
        names, rows = _rows(model, field, wanted)
        for gate in gates.GATES:
            closed = _closed(gate, promoted, rows) if field in gate.fields else []
            if gate.open is None or not len(closed):
                continue
            try:
                gate.open(promoted, np.array(closed))
            except gates.CannotOpen as reason:
                where = ", ".join(names[row] for row in closed)
                raise Unsupported("mjx", f"varying {field} of {where}", str(reason)) from reason
    if left := cannot_act(promoted, fields):
        where = ", ".join(left[0].where)
        feature = f"varying {left[0].field} of {where} ({left[0].message})"
        raise Unsupported("mjx", feature, left[0].remedy)
    return promoted


def _rows(
    model: mujoco.MjModel, field: str, wanted: Iterable[int | str]
) -> tuple[list[str], list[int]]:
    """Return the names of all rows of the field, and the indices of those that are meant."""
    owner = model.opt if field.startswith("opt.") else model
    values = getattr(owner, field.removeprefix("opt."), None)
    if values is None:
        known = gates.VARIABLE | {name for name in dir(model) if "_" in name and name[0] != "_"}
        raise UnknownName("check", field, known, "field of MjModel")
    if owner is not model:
        return ["option"], [0]
    names = [str(row) for row in range(len(values))]
    with contextlib.suppress(AttributeError):  # rows that belong to no named element keep a number
        named = elements.element_names(model, elements.kind_of(field))
        names = named if len(named) == len(names) else names
    rows = []
    for element in wanted:
        if isinstance(element, str) and element in names:
            rows.append(names.index(element))
        elif not isinstance(element, str) and 0 <= element < len(names):
            rows.append(int(element))
        else:
            raise UnknownName("check", element, names, f"row of {field}")
    return names, rows


def _closed(gate: gates.Gate, model: mujoco.MjModel, rows: Sequence[int]) -> list[int]:
    closed = np.asarray(gate.is_closed(model, rows), dtype=bool)
    return [row for row in rows if (closed if closed.ndim == 0 else closed[row])]


def _run_c(model, velocity, controls):
    data = mujoco.MjData(model)
    data.qvel[:] = velocity
    rows = []
    for ctrl in controls:
        data.ctrl[:] = ctrl
        mujoco.mj_step(model, data)
        rows.append((data.qpos.copy(), data.sensordata.copy()))
    return tuple(np.stack(column) for column in zip(*rows, strict=True))


def _run_mjx(model, velocity, controls):
    with jax.enable_x64(True):
        mjx_model = mjx.put_model(model)
        data = mjx.make_data(mjx_model).replace(qvel=velocity)
        step, rows = jax.jit(mjx.step), []
        for ctrl in controls:
            data = step(mjx_model, data.replace(ctrl=ctrl))
            rows.append((np.asarray(data.qpos), np.asarray(data.sensordata)))
    return tuple(np.stack(column) for column in zip(*rows, strict=True))


def _largest(error, edges):
    """Return the largest error of each stretch of columns, inf where a value is not finite."""
    size = np.where(np.isfinite(error), np.abs(error), np.inf).max(axis=0, initial=0.0)
    return np.array([size[a:b].max(initial=0.0) for a, b in itertools.pairwise(edges)])
