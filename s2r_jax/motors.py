"""The motors of a robot, as declared.

Kind and per-actuator numbers. The physics is in `sim/motor.py`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import mujoco
import numpy as np

from s2r_jax.document import matching, number
from s2r_jax.errors import BadModel, BadValue, MissingKey, UnknownName

Target = Literal["angle", "speed", "effort", "throttle"]
#: kind -> what a command's target means.
MOTOR_KINDS = {
    "native": "MuJoCo's ctrl: the model's own actuators make the force",
    "torque": "torque [N m]",
    "pd": "angle [rad], held by a PD law in the firmware",
    "dc_servo": "angle [rad]; a proportional law sets the duty cycle of a DC motor",
    "rotor": "throttle, 0 to 1; thrust is a polynomial of the throttle behind the motor's lag",
}

#: Every per-actuator number, a possible target of θ, with the value that has no effect.
MOTOR_FIELDS: dict[str, float] = {
    "strength": 1.0,  # factor on the torque
    "kp": 0.0,  # pd: N m/rad; dc_servo: firmware units
    "kd": 0.0,  # pd: N m s/rad; dc_servo: firmware units
    "torque_limit": np.inf,  # N m, before friction
    "torque_constant": 0.0,  # N m/A at the joint
    "resistance": 1.0,  # Ω
    "saturation": 0.0,  # 1/(N m), fall of the torque constant with the torque: the iron saturates
    "duty_gain": 0.0,  # dc_servo: duty cycle per unit of kp and rad
    "lag": 0.0,  # s, first order, of the torque; rotor: of the throttle
    "thrust_constant": 0.0,  # rotor: N
    "thrust_linear": 0.0,  # rotor: N at full throttle
    "thrust_quadratic": 0.0,  # rotor: N at full throttle
    "friction": 0.0,  # N m, Coulomb
    "viscous": 0.0,  # N m s/rad
    "stribeck": 0.0,  # N m, stiction above Coulomb
    "stribeck_speed": 0.1,  # rad/s
    "load_friction": 0.0,  # Coulomb friction per N m that the gear transmits
    "stribeck_load": 0.0,  # stiction above that, per N m that the gear transmits
    "offset": 0.0,  # rad, zero error of the firmware's angle
    "backlash": 0.0,  # rad, full width
}

REQUIRED = {
    "native": (),
    "torque": (),
    "pd": ("kp",),
    "dc_servo": ("torque_constant", "resistance", "duty_gain", "kp"),
    "rotor": ("thrust_quadratic",),
}
_THRUST = ("thrust_constant", "thrust_linear", "thrust_quadratic")
_GAINS = {"kp", "kd", "duty_gain", "offset", "backlash"}
#: kind -> the fields that act. The strength of MuJoCo's own actuators is in the model, and the
#: load that their gear transmits is not known outside the engine.
KIND_FIELDS: dict[str, tuple[str, ...]] = {
    "native": ("friction", "viscous", "stribeck", "stribeck_speed"),
    "torque": tuple(key for key in MOTOR_FIELDS if key not in {*_GAINS, *_THRUST}),
    "pd": tuple(key for key in MOTOR_FIELDS if key not in {"duty_gain", *_THRUST}),
    "dc_servo": tuple(key for key in MOTOR_FIELDS if key not in {"torque_limit", *_THRUST}),
    "rotor": ("strength", "lag", *_THRUST),
}

#: Fields of which any one makes the gear rub.
FRICTION_FIELDS = frozenset({"friction", "viscous", "stribeck", "load_friction", "stribeck_load"})
#: MJX reads friction loss only of dofs that were compiled with some, and exactly 0 locks the joint.
FRICTION_FLOOR = 1e-6


@dataclass(frozen=True)
class MotorTable:
    """Motors of one robot: kind, and one array `[nu]` a field."""

    kind: str
    values: dict[str, np.ndarray]
    declared: frozenset[str]
    """Fields that robot.yaml gives; the others keep the value without effect."""
    dofs: tuple[int, ...]
    """Velocity address of the joint that each actuator drives; -1 where it drives none."""
    qposes: tuple[int, ...]
    targets: tuple[Target, ...]
    """What each motor is told."""

    def touched_by(self, targets: Sequence[str]) -> "MotorTable":
        """Return the table with the fields that θ moves counted as declared."""
        moved = {target.rsplit("/", 1)[-1] for target in targets if target.startswith("motor/")}
        return dataclasses.replace(self, declared=self.declared | moved)

    @property
    def has_friction(self) -> bool:
        """Whether any friction term outside the MJCF is declared."""
        return bool(self.declared & FRICTION_FIELDS)

    def with_friction_rows(
        self, spec: mujoco.MjSpec, model: mujoco.MjModel, place: str
    ) -> mujoco.MjModel:
        """Recompile with a trace of friction loss at the driven joints.

        Compiled from 0 it would have no row in the engines, and nothing to move.

        Raises:
            BadModel: A motor with friction that does not drive one hinge or slide.
        """
        if not self.has_friction:
            return model
        if -1 in self.dofs:
            name = model.actuator(self.dofs.index(-1)).name
            raise BadModel(place, f"friction needs actuator '{name}' on one hinge or slide joint")
        for dof in self.dofs:
            joint = spec.joint(model.joint(model.dof_jntid[dof]).name)
            loss = np.array(joint.frictionloss, dtype=float)
            joint.frictionloss = (
                np.maximum(loss, FRICTION_FLOOR) if loss.ndim else max(float(loss), FRICTION_FLOOR)
            )
        return spec.compile()


def motor_table(declared: Any, model: mujoco.MjModel, place: str) -> MotorTable:
    """Read the `motors` entry of robot.yaml: `{kind: pd, kp: 20, kd: {"*_hip": 1, "*": 2}}`.

    Raises:
        UnknownName: An unknown kind, field or actuator glob.
        MissingKey: A field that the kind needs.
        BadValue: A value that is no finite number.
        BadModel: An actuator that a motor model cannot drive.
    """
    if not isinstance(declared, Mapping):
        raise BadValue(place, "content", declared, "a mapping")
    kind = declared.get("kind", "native")
    if not isinstance(kind, str) or kind not in MOTOR_KINDS:
        raise UnknownName(place, kind, MOTOR_KINDS, "kind")
    names = [model.actuator(i).name or str(i) for i in range(model.nu)]
    fields = KIND_FIELDS[kind]
    values = {key: np.full(model.nu, default) for key, default in MOTOR_FIELDS.items()}
    for key, value in declared.items():
        if key == "kind":
            continue
        if key not in fields:
            raise UnknownName(place, key, ("kind", *fields), f"key for kind '{kind}'")
        _fill(values[key], value, names, f"{place}: {key}")
    for key in REQUIRED[kind]:
        if key not in declared:
            raise MissingKey(place, key, declared)
    dofs, qposes = _driven(model, kind, names, place)
    told = tuple(_target(kind, model, i) for i in range(model.nu))
    return MotorTable(kind, values, frozenset(declared) - {"kind"}, dofs, qposes, told)


def _fill(row: np.ndarray, value: Any, names: list[str], place: str) -> None:
    entries = value.items() if isinstance(value, Mapping) else [("*", value)]
    for glob, entry in reversed(list(entries)):  # the first glob that matches wins
        hits = matching(str(glob), names)
        if not hits:
            raise UnknownName(place, glob, names, "actuator")
        row[[names.index(hit) for hit in hits]] = number({str(glob): entry}, str(glob), place)


def _target(kind: str, model: mujoco.MjModel, actuator: int) -> Target:
    """Return what a motor's target is: an angle, a speed, an effort or a throttle."""
    if kind != "native":
        return "effort" if kind == "torque" else "throttle" if kind == "rotor" else "angle"
    # MuJoCo's servos: force = gain * ctrl - kp * length - kv * velocity.
    if model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE:
        _, kp, kv = model.actuator_biasprm[actuator, :3]
        if kp:
            return "angle"
        if kv:
            return "speed"
    return "effort"


def _driven(
    model: mujoco.MjModel, kind: str, names: list[str], place: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the addresses of the driven joints.

    A motor model needs one hinge or slide and a plain `<motor>` each. A rotor's thrust depends on
    no joint: its `<motor>` may act anywhere, on a site for instance.
    """
    dofs, qposes = [], []
    for i, name in enumerate(names):
        joint = model.actuator_trnid[i, 0]
        single = (
            model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT and model.jnt_type[joint] >= 2
        )
        if kind != "native":
            plain = model.actuator_gaintype[i] == 0 and model.actuator_biastype[i] == 0
            factor = model.actuator_gainprm[i, 0]
            wanted = "a <motor>"
            if kind != "rotor":
                factor *= model.actuator_gear[i, 0]
                wanted += " on one hinge or slide joint"
            if not (plain and factor != 0 and (single or kind == "rotor")):
                what = f"actuator '{name}' to be {wanted}"
                problem = f"kind '{kind}' needs {what}"
                raise BadModel(place, problem)
        dofs.append(int(model.jnt_dofadr[joint]) if single else -1)
        qposes.append(int(model.jnt_qposadr[joint]) if single else -1)
    return tuple(dofs), tuple(qposes)
