"""A simulated robot that hides its physics: what the rest of the loop sees is what a machine shows.

It holds a θ that nobody is told, drawn inside the parameters' bounds, and runs the same world as
the simulator on MuJoCo's C engine. Commands come and reports go in the machine's coordinates (see
`robot.Joint`): machine = sign * (model - offset).
"""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from s2r_jax import files
from s2r_jax.errors import BadValue
from s2r_jax.hardware.driver import Reading
from s2r_jax.parameters import ParameterSet, constrain, search_bounds
from s2r_jax.robot import Robot, mapping, number
from s2r_jax.sim import world
from s2r_jax.types import Command

#: Central share of each parameter's range that a hidden θ comes from, unless robot.yaml says so.
SPREAD = 0.8


class Emulator:
    """One robot with hidden physics.

    Not pure, as no machine is: it has one present state.
    """

    def __init__(self, robot: Robot, seed: int = 0, engine: str = "mujoco"):
        """Draw the hidden θ and stand at the model's own pose.

        Args:
            robot: The machine; `driver: {hidden: {spread}}` says how far from nominal it may be.
            seed: Of θ.
            engine: See `sim.world.make`.
        """
        hidden = mapping(robot.driver.get("hidden"), f"{robot.file}: driver: hidden", ("spread",))
        spread = number(hidden, "spread", f"{robot.file}: driver: hidden", SPREAD, minimum=0.0)
        if spread > 1:
            raise BadValue(f"{robot.file}: driver: hidden", "spread", spread, "a number <= 1")
        self.robot, self.seed = robot, seed
        self.theta = draw(robot.parameters, seed, spread)
        self._simulator = world.make(robot, engine)
        self._world = jax.jit(self._simulator.world)(jnp.asarray(self.theta, jnp.float32))
        self._frame = Frame(robot)
        self._init = jax.jit(self._simulator.init)
        self._advance = jax.jit(self._advance_one_period)
        self._damping = self._simulator.nominal_command(jnp.zeros(robot.model.nu))
        self.sequence = -1
        self.is_stopped = False
        self.reset(seed)
        self._warm_up()

    def reset(
        self,
        seed: int,
        qpos: Float[np.ndarray, " nq"] | None = None,
        qvel: Float[np.ndarray, " nv"] | None = None,
    ) -> Reading:
        """Stand still at a pose, by default the model's own, and end an emergency stop.

        Args:
            seed: Of the sensor noise.
            qpos: Pose in the model's coordinates.
            qvel: Speed; zero when absent.

        Raises:
            BadValue: A pose of the wrong length, or not finite.
        """
        model = self.robot.model
        qpos = self._checked("qpos", model.qpos0 if qpos is None else qpos, model.nq)
        qvel = self._checked("qvel", np.zeros(model.nv) if qvel is None else qvel, model.nv)
        target = self._frame.resting_target(qpos)
        self._state = self._init(self._world, *(jnp.asarray(x) for x in (qpos, qvel, target)))
        self._key = jax.random.key(seed)
        self._ticks = -1
        self.is_stopped = False
        return self._report(self._simulator.read(self._world, self._state), self._state.voltage)

    def step(self, command: Command) -> Reading:
        """Obey a command for one control period, unless stopped, and report.

        Args:
            command: In the machine's coordinates, finite.
        """
        if self.is_stopped:
            return self.let_go()
        return self._step(self._frame.to_model(command))

    def damp(self) -> Reading:
        """Brake for one control period, unless stopped, and report."""
        return self.let_go() if self.is_stopped else self._step(self._braking(enabled=1.0))

    def let_go(self) -> Reading:
        """Spend one control period with the windings open, and report."""
        return self._step(self._braking(enabled=0.0))

    def estop(self) -> Reading:
        """Let go, and obey nothing until the next reset."""
        self.is_stopped = True
        return self.let_go()

    def truth(self) -> Float[np.ndarray, " sensor"]:
        """Return the true signals in the model's coordinates, for grading."""
        return np.asarray(self._simulator.truth(self._state), dtype=float)

    def reveal(self, file: Path) -> None:
        """Write the hidden θ, for grading."""
        named = self.robot.parameters.named(self.theta)
        text = json.dumps({"robot": self.robot.name, "seed": self.seed, "theta": named}, indent=1)
        with files.whole(file) as beside:
            beside.write_text(text + "\n", encoding="utf-8")

    def _step(self, command: Command) -> Reading:
        self._state, sensors, voltage = self._advance(
            self._world, self._state, command, self._key, np.int32(self._ticks + 1)
        )
        return self._report(sensors, voltage)

    def _advance_one_period(self, world, state, command, key, tick):
        key_noise, key_periods = (jax.random.fold_in(key, stream) for stream in range(2))
        state = self._simulator.step(world, state, command, jax.random.fold_in(key_periods, tick))
        return state, self._simulator.read(world, state, key_noise), state.voltage

    def _report(self, sensors: jax.Array, voltage: jax.Array) -> Reading:
        self.sequence += 1
        self._ticks += 1
        values = self._frame.from_model(np.asarray(sensors, dtype=float))
        # The emulated motors have no thermometer.
        unknown = np.full(self.robot.model.nu, np.nan)
        now = self._ticks * self.robot.period
        return Reading(now, self.sequence, values, float(voltage), unknown)

    def _braking(self, enabled: float) -> Command:
        """Return the firmware's own damping: no position gain, nothing fed forward."""
        qpos = np.asarray(self._state.physics.qpos)
        still: Any = np.zeros(self.robot.model.nu, np.float32)
        target: Any = self._frame.resting_target(qpos)
        # MuJoCo's own position servos have no switch: they hold where they are.
        share: Any = still + np.float32(1.0 if self.robot.motors.kind == "native" else enabled)
        return self._damping._replace(target=target, torque=still, kp=still, enabled=share)

    def _checked(self, field: str, value: np.ndarray, size: int) -> np.ndarray:
        value = np.asarray(value, dtype=np.float32)
        if value.shape != (size,) or not np.isfinite(value).all():
            raise BadValue("reset", field, value.tolist(), f"{size} finite numbers")
        return value

    def _warm_up(self) -> None:
        """Compile before anybody waits for an answer."""
        for advance in (self.damp, self.let_go):
            advance()
        self.reset(self.seed)


class Frame:
    """Between the model's coordinates and the machine's, in numpy."""

    def __init__(self, robot: Robot):
        joints = robot.joints
        self._sign = np.array([joint.sign for joint in joints])
        self._offset = np.array([joint.offset for joint in joints])
        self._qposes = np.array(robot.motors.qposes, int)
        self._is_angle = np.array([target == "angle" for target in robot.motors.targets], bool)
        sensors = sum(signal.size for signal in robot.signals)
        self._scale, self._shift = np.ones(sensors), np.zeros(sensors)
        of_joint = {joint.name: joint for joint in joints}
        of_motor = dict(zip(robot.actuators, joints, strict=True))
        for signal in robot.signals:
            owners = {"joint": of_joint, "motor": of_motor}.get(signal.kind, {})
            joint = owners.get(signal.element)
            if joint is not None:
                entry = list(robot.signal_slices[signal.name])
                self._scale[entry] = joint.sign
                if signal.attribute == "position":
                    self._shift[entry] = joint.offset

    def to_model(self, command: Command) -> Command:
        """Return a command in the model's coordinates, in single precision."""
        target = self._sign * np.asarray(command.target) + self._offset * self._is_angle
        torque = self._sign * np.asarray(command.torque)
        given = (target, torque, command.kp, command.kd, command.enabled, np.nan)
        rows: list[Any] = [np.asarray(row, np.float32) for row in given]
        return Command(*rows)

    def from_model(self, sensors: Float[np.ndarray, " sensor"]) -> Float[np.ndarray, " sensor"]:
        """Return the signals as the machine reports them."""
        return self._scale * (sensors - self._shift)

    def resting_target(self, qpos: Float[np.ndarray, " nq"]) -> Float[np.ndarray, " nu"]:
        """Return the target that asks for no motion at this pose, in the model's coordinates."""
        return np.where(self._is_angle, np.asarray(qpos)[self._qposes], 0.0).astype(np.float32)


def draw(parameters: ParameterSet, seed: int, spread: float) -> Float[np.ndarray, " param"]:
    """Return a θ, uniform in the central share `spread` of the search coordinates' range.

    A `logit` parameter, whose search coordinate has no bounds, is drawn so in its own unit.
    """
    if not len(parameters):
        return np.zeros(0)
    z_low, z_high = search_bounds(parameters)
    is_bounded = np.isfinite(z_low)
    low = np.where(is_bounded, z_low, parameters.low)
    high = np.where(is_bounded, z_high, parameters.high)
    place = 0.5 + spread * (np.random.default_rng(seed).random(len(parameters)) - 0.5)
    value = low + (high - low) * place
    within = np.asarray(constrain(parameters, jnp.asarray(np.where(is_bounded, value, 0.0))))
    return np.where(is_bounded, within, value).astype(float)
