"""A contract with every trap, and a machine of our own to run it on, with a clock that we move."""

import time
from typing import NamedTuple

import numpy as np

from s2r_jax.deploy.contract import Contract, JointContract, Limits, SignalContract
from s2r_jax.observation import Term

LEFT = JointContract(
    name="left",
    actuator="a",
    target="angle",
    sign=-1.0,
    offset=0.3,
    low=-2.0,
    high=2.0,
    velocity=50.0,
    torque=float("inf"),
    default=0.1,
    action_scale=0.5,
    kp=3.0,
    kd=0.1,
)


def contract(**changes) -> Contract:
    """Return a joint that turns backwards with an offset, and a motor that takes a torque."""
    effort = JointContract(
        name="wheel",
        actuator="b",
        target="effort",
        sign=1.0,
        offset=0.0,
        low=-4.0,
        high=4.0,
        velocity=float("inf"),
        torque=2.0,
        default=0.0,
        action_scale=4.0,
        kp=0.0,
        kd=0.0,
    )
    given = {
        "robot": "bench",
        "motor": "dc_servo",
        "period": 0.01,
        "joints": (LEFT, effort),
        "signals": (
            SignalContract("joint/left/position", 1, "rad"),
            SignalContract("joint/left/velocity", 1, "rad/s"),
            SignalContract("body/trunk/orientation", 4, "1"),
        ),
        "observation": (Term("value", (0, 1), 0.0, 1.0), Term("action", (0, 1), 0.0, 1.0)),
        "limits": Limits(),
    }
    return Contract(**{**given, **changes})


UPRIGHT = np.array([0.2, 0.0, 1.0, 0.0, 0.0, 0.0])


class Report(NamedTuple):
    time: float
    sequence: int
    sensors: np.ndarray
    voltage: float = 24.0
    temperature: np.ndarray = np.full(2, 30.0)


def usual(k: int) -> Report:
    return Report(0.01 * k, k, UPRIGHT)


class Machine:
    """A robot in the loop's own process.

    It answers look k with `reply(k)`, a report, None or an exception, and keeps what it is told.
    """

    def __init__(self, reply=usual):
        self.reply = reply
        self.looks = 0
        self.written, self.damped, self.stopped = [], [], []

    def read(self, timeout):
        self.looks += 1
        return self.reply(self.looks)

    def write(self, command):
        self.written.append((time.monotonic(), command))

    def damp(self):
        self.damped.append(time.monotonic())

    def estop(self):
        self.stopped.append(time.monotonic())
