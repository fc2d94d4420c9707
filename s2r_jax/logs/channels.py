"""The channels that a log of one robot can have, and how each is turned into the model's frame."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco

from s2r_jax import signals
from s2r_jax.robot import Joint, Robot

COMMANDS = ("target", "torque", "kp", "kd", "enabled")
JOINT_QUANTITIES = {
    ("position", False): "angle",
    ("position", True): "length",
    ("velocity", False): "angular speed",
    ("velocity", True): "speed",
}
BODY_QUANTITIES = {
    "position": "length",
    "orientation": "number",
    "velocity": "speed",
    "angular_velocity": "angular speed",
}


@dataclass(frozen=True)
class Channel:
    """One channel of `Log` that a robot can have."""

    name: str
    size: int
    quantity: str | None = None
    """What it measures, a key of `units.UNITS`; None where anything may be."""
    joint: Joint | None = None
    """The entry of the contract that it belongs to."""
    sign: float = 1.0
    """Model's value = sign * machine's value + zero."""
    zero: float = 0.0
    """[rad, m]."""
    aliases: tuple[str, ...] = ()
    """What a file may call this channel's column."""

    @property
    def is_command(self) -> bool:
        """Whether the channel was told to the machine, rather than measured."""
        return self.name.startswith("command/")


def channels(robot: Robot) -> dict[str, Channel]:
    """Return every channel that a log of this robot can have, the contract's in its order."""
    model = robot.model
    actuated = dict(zip(robot.actuators, robot.joints, strict=True))
    contract = {joint.name: joint for joint in robot.joints}
    known: dict[str, Channel] = {}
    order = {name: index for index, name in enumerate(contract)}
    entries = signals.names(model).items()
    # Joints of the contract first, in its order, which is that of the actuators.
    for name, (kind, element, attribute, _, size) in sorted(
        entries, key=lambda entry: order.get(entry[1][1], len(order))
    ):
        if kind == "joint":
            joint = contract.get(element)
            quantity = JOINT_QUANTITIES[attribute, _is_slide(model, element)]
            zero = joint.offset if joint and attribute == "position" else 0.0
            sign = joint.sign if joint else 1.0
            known[name] = Channel(name, size, quantity, joint, sign, zero, (element,))
        elif kind == "body":
            known[name] = Channel(name, size, BODY_QUANTITIES[attribute])
        elif kind == "sensor":
            known[name] = Channel(name, size)
        elif kind == "battery":
            known[name] = Channel(name, size, "voltage")
    for actuator, joint in actuated.items():
        for name in (f"motor/{actuator}/duty", f"motor/{actuator}/torque"):
            known[name] = _motor(robot, name, actuator, joint)
        for attribute in COMMANDS:
            name = f"command/{actuator}/{attribute}"
            known[name] = _motor(robot, name, actuator, joint)
    return known


def _motor(robot: Robot, name: str, actuator: str, joint: Joint) -> Channel:
    """Return a channel of a motor or its command, in the frame of the joint that it drives."""
    is_slide = _is_slide(robot.model, joint.name)
    attribute, kind = name.rsplit("/", 1)[-1], robot.motors.kind
    quantity, sign, zero = None, joint.sign, 0.0
    if attribute == "torque" or (attribute == "target" and kind == "torque"):
        quantity = "force" if is_slide else "torque"
    elif attribute == "target":
        told = robot.motors.targets[robot.actuators.index(actuator)]
        quantity = None if kind == "native" else JOINT_QUANTITIES["position", is_slide]
        zero = joint.offset if told == "angle" else 0.0
        if told == "throttle":  # it has no frame
            quantity, sign, zero = "number", 1.0, 0.0
    elif attribute == "duty":
        quantity = "number"
    else:
        quantity, sign = ("number" if attribute == "enabled" else None), 1.0
    return Channel(name, 1, quantity, joint, sign, zero, (joint.name, actuator))


def _is_slide(model: mujoco.MjModel, joint: str) -> bool:
    """Whether a joint of this name slides; an actuator without a joint has none."""
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, joint)
    return index >= 0 and int(model.jnt_type[index]) == int(mujoco.mjtJoint.mjJNT_SLIDE)
