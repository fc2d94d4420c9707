"""`s2r emulate ROBOT`: a robot process with hidden parameters, speaking UDP or playing a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from s2r_jax.errors import BadValue

if TYPE_CHECKING:
    from s2r_jax.hardware.emulator import Emulator
    from s2r_jax.robot import Robot
    from s2r_jax.types import Log


@dataclass(frozen=True)
class Command:
    """Run an emulated robot until Ctrl-C; prints `ready HOST:PORT` once it listens.

    With --play it obeys the commands of a file instead, in lock step and without a network, and
    records what it does.
    """

    robot: tyro.conf.Positional[Path]
    """Robot folder."""
    port: int = 0
    """UDP port; 0 takes any free one."""
    host: str = "127.0.0.1"
    """A loopback address."""
    seed: int = 0
    """Of the hidden parameters."""
    lockstep: bool = False
    """One control period for each command, instead of real time."""
    reveal: Path | None = None
    """File to write the hidden parameters to, for grading."""
    play: Path | None = None
    """Log whose commands to obey: the excitation of `s2r plan`, or any recording."""
    record: Path | None = None
    """File to write what the robot did to (.npz or .csv), in its own columns. Needs --play."""

    def run(self) -> None:
        """Run the command."""
        if (self.play is None) != (self.record is None):
            given, missing = ("--play", "--record") if self.play else ("--record", "--play")
            expected = f"{missing} beside it: one names the commands, the other the recording"
            raise BadValue("emulate", given, str(self.play or self.record), expected)
        if self.play is not None and self.record is not None:
            if self.port or self.host != "127.0.0.1" or self.lockstep:
                expected = "no --port, --host or --lockstep: a file is played without a network"
                raise BadValue("emulate", "--play", str(self.play), expected)
            self._play(self.play, self.record)
            return
        from s2r_jax.hardware import server

        server.run(
            self.robot,
            port=self.port,
            host=self.host,
            seed=self.seed,
            is_lockstep=self.lockstep,
            reveal=self.reveal,
        )

    def _play(self, played: Path, recorded: Path) -> None:
        from s2r_jax import robot as robots
        from s2r_jax.cli import screen
        from s2r_jax.hardware.emulator import Emulator
        from s2r_jax.logs import mapped, read

        robot = robots.load(self.robot)
        mapped.check_ending(recorded)
        if not recorded.absolute().parent.is_dir():
            raise BadValue("--record", "file", str(recorded), "a file in a folder that exists")
        logs = read.read(played, robot)
        if len(logs) != 1:
            expected = f"one recording; the file holds {len(logs)}"
            raise BadValue(str(played), "recordings", len(logs), expected)
        emulator = Emulator(robot, self.seed)
        log, notes = play(robot, logs[0], emulator, self.seed, recorded.name)
        mapped.write(recorded, log, robot)
        if self.reveal is not None:
            emulator.reveal(self.reveal)
        for note in notes:
            screen.say(f"warning: {note}")
        screen.say(f"{len(log.time)} rows in {recorded}")


def play(
    robot: "Robot", log: "Log", emulator: "Emulator", seed: int, name: str
) -> tuple["Log", tuple[str, ...]]:
    """Return what an emulated robot does under the commands of a log, and what to know of it.

    It starts at rest at the pose in which the log begins, under the same safety as a policy.

    Args:
        robot: The machine.
        log: Its targets are obeyed.
        emulator: Of that machine.
        seed: Of the sensor noise.
        name: Of the new log.

    Raises:
        BadValue: Commands that a file of targets cannot give, or a run that safety ended.
    """
    import numpy as np

    from s2r_jax.deploy.config import DeployConfig
    from s2r_jax.deploy.describe import contract_of
    from s2r_jax.deploy.record import record
    from s2r_jax.hardware.in_process import InProcessDriver
    from s2r_jax.logs.trajectory import trajectory

    given = trajectory(log, robot)
    nominal = {"torque": 0.0, "enabled": 1.0, "kp": robot.motors.values["kp"],
               "kd": robot.motors.values["kd"]}  # fmt: skip
    for field, value in nominal.items():
        rows = np.asarray(getattr(given.command, field), dtype=float)
        other = ~np.isclose(rows, value)
        if other.any():
            row, column = (int(i) for i in np.argwhere(other)[0])
            expected = (
                f"{np.broadcast_to(value, rows.shape)[row, column]:g}: only targets are played"
            )
            name = f"command/{robot.actuators[column]}/{field}"
            raise BadValue(log.name, name, float(rows[row, column]), expected)
    first = emulator.reset(seed, given.qpos[0])
    contract = contract_of(robot)
    driver = InProcessDriver(emulator, first)
    targets = np.asarray(given.command.target)
    telemetry = record(contract, driver, targets, DeployConfig(is_lockstep=True))
    if telemetry.reasons:
        seconds = len(telemetry.t_state) * robot.period
        reason = f"{'; '.join(telemetry.reasons)}, after {seconds:.2f} s"
        raise BadValue(log.name, "commands", reason, "a run to its end")
    clipped = int(telemetry.is_clipped.any(1).sum())
    notes = (f"{clipped} rows of commands were cut to a limit",) if clipped else ()
    return telemetry.log(contract, name), notes
