"""The control loop: read, judge, decide, limit, send; on every way out, brake.

In real time the clock drives it (`clock.Schedule`); in lock step the robot's reports do. Reports
pass through `safety.inspect`, commands through `safety.limit`; whatever either objects to, a late
policy, a silent machine or an exception ends the run in damping.
"""

import math
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from s2r_jax.deploy import safety
from s2r_jax.deploy.clock import Schedule
from s2r_jax.deploy.config import DeployConfig
from s2r_jax.deploy.contract import Contract
from s2r_jax.deploy.machine import Event, Mode, follow
from s2r_jax.deploy.telemetry import Recorder, Telemetry
from s2r_jax.deploy.worker import Policy, Worker
from s2r_jax.errors import BadValue
from s2r_jax.types import Command


@runtime_checkable
class Report(Protocol):
    """What the loop reads of a report; `hardware.driver.Reading` is one."""

    @property
    def time(self) -> float:
        """The robot's own clock [s]."""
        ...

    @property
    def sequence(self) -> int:
        """Counts reports."""
        ...

    @property
    def sensors(self) -> np.ndarray:
        """The contract's signals, in the machine's coordinates."""
        ...

    @property
    def voltage(self) -> float:
        """Supply [V]."""
        ...

    @property
    def temperature(self) -> np.ndarray:
        """Of the motors [°C]."""
        ...


@runtime_checkable
class Robot(Protocol):
    """What the loop asks of a driver; every `hardware.driver.Driver` gives it."""

    def read(self, timeout: float) -> Report | None:
        """Return the newest unread report, or None after `timeout` [s]."""
        ...

    def write(self, command: Command) -> None:
        """Send a command in the machine's coordinates."""
        ...

    def damp(self) -> None:
        """Tell the motors to brake."""
        ...

    def estop(self) -> None:
        """Tell the motors to let go."""
        ...


Operator = Callable[[Mode], Event | None]
"""Asked once a tick what the person at the machine wants."""


class Decision(NamedTuple):
    """What to send at one tick."""

    command: Command
    action: Float[np.ndarray, " nu"]
    is_held: bool


Decide = Callable[[Float[np.ndarray, " sensor"], float], Decision | None]
"""From the sensors and the time by which to answer [s, monotonic]; None to give up as too late."""


def autostart(mode: Mode) -> Event | None:
    """Start as soon as the machine is ready, and never stop before time."""
    return Event.START if mode == Mode.READY else None


def run(
    contract: Contract,
    policy: Policy,
    robot: Robot,
    config: DeployConfig,
    operator: Operator = autostart,
) -> Telemetry:
    """Let a policy drive a machine.

    Args:
        contract: Of the policy and the machine.
        policy: From observation to action.
        robot: An open driver.
        config: How long, by which clock.
        operator: Says when to start and to stop.

    Raises:
        BadValue: The policy gives an action of another length than the contract.
    """
    decide = _in_line(contract, policy) if config.is_lockstep else None
    worker = None if config.is_lockstep else Worker(policy)
    try:
        if worker is not None:
            decide = _in_time(contract, worker, config)
        assert decide is not None
        ticks = max(1, round(config.seconds / contract.period))
        return drive(contract, decide, robot, config, ticks, operator)
    finally:
        if worker is not None:
            worker.close()


def drive(
    contract: Contract,
    decide: Decide,
    robot: Robot,
    config: DeployConfig,
    ticks: int,
    operator: Operator = autostart,
) -> Telemetry:
    """Run the loop for a number of ticks with any source of commands; `run` is the usual way in."""
    recorder = Recorder(contract, ticks)
    mode, reasons, missed = Mode.INIT, (), 0
    try:
        first = robot.read(config.connect)
        if first is None:
            mode, reasons = follow(mode, Event.FAULT), ("silent: the machine does not report",)
        else:
            mode = follow(mode, Event.CONNECT)
            mode, reasons, missed = _live(
                contract, decide, robot, config, recorder, operator, mode, first
            )
    except BaseException:
        # Also Ctrl-C and SystemExit: whatever it is, the motors brake before it goes on.
        mode = follow(mode, Event.FAULT)
        raise
    finally:
        _let_down(robot, config, contract.period, mode)
    return recorder.telemetry(mode, reasons, missed)


def _live(
    contract: Contract,
    decide: Decide,
    robot: Robot,
    config: DeployConfig,
    recorder: Recorder,
    operator: Operator,
    mode: Mode,
    report: Report,
) -> tuple[Mode, tuple[str, ...], int]:
    """Tick until the end; return the mode, the reasons, and the periods that were left out."""
    schedule = Schedule(contract.period, config.spin)
    arrival, lateness = time.monotonic(), 0.0
    memory = None
    while True:
        wish = operator(mode)
        if wish is not None:
            mode = follow(mode, wish)
            if mode == Mode.ESTOP or wish == Event.STOP:
                reasons = () if wish == Event.STOP else ("estop: by the operator",)
                return mode, reasons, schedule.missed
        age = 0.0 if config.is_lockstep else time.monotonic() - arrival
        sensors = contract.from_machine(report.sensors)
        reasons = safety.inspect(contract, sensors, report.voltage, report.temperature, age)
        if reasons:
            return follow(mode, Event.FAULT), reasons, schedule.missed
        if mode == Mode.RUN:
            memory = safety.start(contract, sensors) if memory is None else memory
            decision = decide(sensors, schedule.due - (1 - config.margin) * contract.period)
            if decision is None:
                reasons = (f"late: no action for more than {config.hold:g} s",)
                return follow(mode, Event.FAULT), reasons, schedule.missed
            command, status, memory = safety.limit(contract, decision.command, sensors, memory)
            if not status.is_safe:
                return follow(mode, Event.FAULT), status.reasons, schedule.missed
            robot.write(contract.to_machine(command))
            recorder.add(
                command,
                t_state=report.time,
                t_recv=arrival,
                t_cmd=time.monotonic(),
                sequence=report.sequence,
                sensors=sensors,
                voltage=report.voltage,
                temperature=report.temperature,
                action=decision.action,
                is_clipped=status.is_clipped,
                is_held=decision.is_held,
                lateness=lateness,
            )
            if recorder.is_full:
                return follow(mode, Event.STOP), (), schedule.missed
        elif mode == Mode.DAMPING:
            mode = follow(mode, Event.CHECK)
            continue
        else:
            robot.damp()
        if config.is_lockstep:
            newer = robot.read(config.patience)
            if newer is None:
                silent = f"silent: no report for {config.patience:g} s"
                return follow(mode, Event.FAULT), (silent,), schedule.missed
        else:
            lateness = schedule.wait()
            newer = robot.read(0.0)
        # A report that repeats its number or its clock is an old one, however often it comes.
        if newer is not None and newer.sequence > report.sequence and newer.time > report.time:
            report, arrival = newer, time.monotonic()
        elif config.is_lockstep:
            frozen = f"frozen: report {report.sequence} came again"
            return follow(mode, Event.FAULT), (frozen,), schedule.missed


def _in_line(contract: Contract, policy: Policy) -> Decide:
    """Ask the policy and wait, however long it takes: the robot's clock waits too."""
    action = np.zeros(contract.action_size)

    def decide(sensors: np.ndarray, due: float) -> Decision:
        nonlocal action
        action = _checked(contract, policy(contract.observe(sensors, action)))
        return Decision(contract.to_command(action), action, False)

    return decide


def _in_time(contract: Contract, worker: Worker, config: DeployConfig) -> Decide:
    """Ask the policy; when it is late hold the last command, and give up after `config.hold`.

    An action that comes late acts at the tick at which it is there. Before the first action there
    is nothing to hold, so the loop waits for it as long as it would hold.
    """
    action = np.zeros(contract.action_size)
    last: Command | None = None
    asked = 0.0

    def decide(sensors: np.ndarray, due: float) -> Decision | None:
        nonlocal action, last, asked
        if not worker.is_busy:
            asked = time.monotonic()
            worker.ask(contract.observe(sensors, action))
        until = due if last is not None else asked + config.hold
        # A tick that itself began late still gives the policy the rest of a period.
        patience = max(until - time.monotonic(), (1 - config.margin) * contract.period)
        answer = worker.answer(patience)
        if answer is not None:
            action = _checked(contract, answer)
            last = contract.to_command(action)
            return Decision(last, action, False)
        if last is None or time.monotonic() - asked > config.hold:
            return None
        return Decision(last, action, True)

    return decide


def _checked(contract: Contract, action: np.ndarray) -> np.ndarray:
    action = np.asarray(action, dtype=float)
    if action.shape != (contract.action_size,):
        expected = f"shape ({contract.action_size},)"
        raise BadValue("policy", "action", f"of shape {action.shape}", expected)
    # As in training, where the next observation holds the clipped action; NaN stays NaN.
    return np.clip(action, -1.0, 1.0)


def _let_down(robot: Robot, config: DeployConfig, period: float, mode: Mode) -> None:
    """Brake, again and again: one frame may be lost, and so may the person's patience.

    An emergency stop is repeated instead. Neither a dead connection nor another Ctrl-C cuts it
    short.
    """
    send = robot.estop if mode == Mode.ESTOP else robot.damp
    end = time.monotonic() + config.damping
    left = math.ceil(config.damping / period)
    is_answered = config.is_lockstep
    while left > 0 if is_answered else time.monotonic() < end:
        try:
            send()
            left -= 1
            if is_answered:
                # A robot that no longer answers is told so by the clock instead.
                is_answered = robot.read(config.patience) is not None
                end = time.monotonic() + config.damping
            else:
                time.sleep(period)
        except (OSError, KeyboardInterrupt):
            is_answered = False
