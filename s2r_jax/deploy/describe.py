"""From a robot folder to a contract; runs on the workstation, without JAX."""

from collections.abc import Sequence

import mujoco

from s2r_jax.deploy.contract import Contract, JointContract, Limits, SignalContract
from s2r_jax.deploy.contract_file import check
from s2r_jax.errors import MissingKey
from s2r_jax.observation import Term
from s2r_jax.robot import Robot, mapping, number
from s2r_jax.signals import Signal

LIMITS = ("slew", "acceleration", "temperature", "voltage_low", "voltage_high", "tilt", "stale")
#: Unit of a signal by its attribute; a second one where the joint slides.
UNITS = {
    "position": ("rad", "m"),
    "velocity": ("rad/s", "m/s"),
    "torque": ("N m", "N"),
    "duty": ("1", "1"),
    "voltage": ("V", "V"),
    "orientation": ("1", "1"),
    "angular_velocity": ("rad/s", "rad/s"),
}


def contract_of(robot: Robot, terms: Sequence[Term] = ()) -> Contract:
    """Return the contract of a robot folder and the observation of a task.

    The limits come from `driver: {limits: {temperature: 70, tilt: 1.0, tilt_signal: ...}}`.

    Raises:
        BadValue: A value that a contract cannot have.
        UnknownName: An unknown key under `limits`.
    """
    joints = tuple(
        JointContract(
            name=joint.name,
            actuator=actuator,
            # A contract knows no throttle: to the safety filter it is an effort.
            target="effort" if told == "throttle" else told,
            sign=joint.sign,
            offset=joint.offset,
            low=float(joint.low),
            high=float(joint.high),
            velocity=float(joint.velocity),
            torque=float(joint.torque),
            default=joint.default,
            action_scale=joint.action_scale,
            kp=float(robot.motors.values["kp"][i]),
            kd=float(robot.motors.values["kd"][i]),
        )
        for i, (joint, actuator, told) in enumerate(
            zip(robot.joints, robot.actuators, robot.motors.targets, strict=True)
        )
    )
    signals = tuple(
        SignalContract(signal.name, signal.size, _unit(robot, signal)) for signal in robot.signals
    )
    contract = Contract(
        robot=robot.name,
        motor=robot.motors.kind,
        period=robot.period,
        joints=joints,
        signals=signals,
        observation=tuple(terms),
        limits=_limits(robot),
    )
    check(contract, robot.file)
    return contract


def _limits(robot: Robot) -> Limits:
    place = f"{robot.file}: driver: limits"
    entry = mapping(robot.driver.get("limits"), place, (*LIMITS, "tilt_signal"))
    if ("tilt" in entry) != ("tilt_signal" in entry):
        raise MissingKey(place, "tilt_signal" if "tilt" in entry else "tilt", entry)
    numbers = {key: number(entry, key, place) for key in LIMITS if key in entry}
    signal = str(entry["tilt_signal"]) if "tilt_signal" in entry else None
    return Limits(**numbers, tilt_signal=signal)


def _unit(robot: Robot, signal: Signal) -> str:
    if signal.kind == "sensor":
        return "SI"  # MuJoCo's sensors do not say theirs
    is_linear = signal.kind == "body"
    if signal.kind == "joint":
        kind = robot.model.joint(signal.element).type[0]
        is_linear = kind == mujoco.mjtJoint.mjJNT_SLIDE
    return UNITS[signal.attribute][int(is_linear)]
