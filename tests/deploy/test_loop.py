import threading
import time

import numpy as np
import pytest

from s2r_jax.deploy import loop
from s2r_jax.deploy.config import DeployConfig
from s2r_jax.deploy.machine import Event, Mode
from s2r_jax.deploy.record import record
from s2r_jax.errors import BadValue
from tests.deploy import cases
from tests.deploy.cases import UPRIGHT, Machine, Report, usual

#: Patient in real time, as a busy machine may stop us for a while.
CONTRACT = cases.contract(limits=cases.Limits(stale=5.0))
LOCKSTEP = DeployConfig(seconds=0.2, is_lockstep=True, patience=0.05)
REAL_TIME = DeployConfig(seconds=0.2, hold=5.0)


def still(observation):
    return np.zeros(2)


def lets_down(machine, config=LOCKSTEP):
    """Whether the last thing the machine heard, for half a second by some clock, is: brake."""
    after = [t for t in machine.damped if not machine.written or t >= machine.written[-1][0]]
    if config.is_lockstep and len(after) >= 50:
        return True
    return len(after) > 2 and after[-1] - after[0] > 0.4


def test_run_observes_decides_and_sends_in_machine_coordinates():
    seen = []

    def policy(observation):
        seen.append(observation)
        return np.array([0.5, 2.0])

    machine = Machine()
    telemetry = loop.run(CONTRACT, policy, machine, LOCKSTEP)
    assert (telemetry.mode, telemetry.reasons) == (Mode.DAMPING, ())
    assert len(machine.written) == 20
    # Model angle = 0.3 - machine angle; then the speed, and the previous action, clipped.
    assert seen[0].tolist() == pytest.approx([0.1, 0.0, 0.0, 0.0])
    assert seen[1].tolist() == pytest.approx([0.1, 0.0, 0.5, 1.0])
    _, command = machine.written[-1]
    # left: -(0.1 + 0.5 * 0.5 - 0.3); the wheel: 4 N m asked for, 2 allowed.
    assert command.target.tolist() == pytest.approx([-0.05, 2.0])
    assert telemetry.target[-1].tolist() == pytest.approx([0.35, 2.0])
    assert telemetry.is_clipped[-1].tolist() == [False, True]
    assert telemetry.sequence.tolist() == list(range(1, 21))
    assert telemetry.t_state == pytest.approx(0.01 * np.arange(1, 21))
    assert lets_down(machine)


def test_real_time_keeps_the_period_of_the_clock():
    # Only the mean is asserted: single ticks are late on a busy machine, and those are left out.
    start = time.monotonic()
    machine = Machine(lambda k: Report(time.monotonic() - start, k, UPRIGHT))
    telemetry = loop.run(CONTRACT, still, machine, DeployConfig(seconds=0.5, hold=5.0))
    ticks = np.round((telemetry.t_cmd - telemetry.t_cmd[0]) / 0.01)
    assert len(telemetry.t_cmd) == 50
    assert ticks[-1] <= 49 + telemetry.missed + 3
    assert ticks[-1] >= 48 + telemetry.missed
    assert lets_down(machine, REAL_TIME)


def policy_with_nan(observation):
    return np.array([0.1, np.nan])


@pytest.mark.parametrize("config", [LOCKSTEP, REAL_TIME], ids=["lockstep", "real time"])
def test_action_that_is_not_finite_brakes_before_it_is_sent(config):
    machine = Machine()
    telemetry = loop.run(CONTRACT, policy_with_nan, machine, config)
    assert telemetry.reasons == ("command: target of wheel is not finite",)
    assert machine.written == []
    assert lets_down(machine, config)


@pytest.mark.parametrize("config", [LOCKSTEP, REAL_TIME], ids=["lockstep", "real time"])
@pytest.mark.parametrize("error", [ZeroDivisionError("x"), KeyboardInterrupt(), SystemExit(1)])
def test_whatever_the_policy_raises_the_motors_brake_first(config, error):
    def policy(observation):
        raise error

    machine = Machine()
    with pytest.raises(type(error)):
        loop.run(CONTRACT, policy, machine, config)
    assert lets_down(machine, config)


def test_wrong_length_of_the_action_is_an_error_and_brakes():
    machine = Machine()
    with pytest.raises(BadValue) as caught:
        loop.run(CONTRACT, lambda observation: np.zeros(1), machine, LOCKSTEP)
    assert str(caught.value) == "policy: action is 'of shape (1,)', expected shape (2,)"
    assert lets_down(machine)


def test_machine_that_never_reports_is_told_to_brake():
    machine = Machine(lambda k: None)
    telemetry = loop.run(CONTRACT, still, machine, REAL_TIME)
    assert telemetry.reasons == ("silent: the machine does not report",)
    assert len(telemetry.t_cmd) == 0
    assert lets_down(machine, REAL_TIME)


def test_machine_that_falls_silent_in_lockstep():
    machine = Machine(lambda k: usual(k) if k < 5 else None)
    telemetry = loop.run(CONTRACT, still, machine, LOCKSTEP)
    assert telemetry.reasons == ("silent: no report for 0.05 s",)
    assert len(machine.written) == 4
    assert lets_down(machine)


@pytest.mark.parametrize(
    "later",
    [
        lambda k: None,
        lambda k: usual(5),
        lambda k: usual(5)._replace(sequence=k),
        lambda k: usual(5)._replace(time=0.01 * k),
        lambda k: usual(3),
    ],
    ids=["silence", "same report", "stopped clock", "stopped sequence", "older report"],
)
def test_report_that_does_not_advance_is_stale(later):
    machine = Machine(lambda k: usual(k) if k <= 5 else later(k))
    telemetry = loop.run(cases.contract(), still, machine, DeployConfig(seconds=5.0, hold=5.0))
    assert telemetry.reasons[0].startswith("stale: no new report for 0.1")
    assert telemetry.mode == Mode.DAMPING
    assert telemetry.sequence.max() == 5
    assert lets_down(machine, REAL_TIME)


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (Report(9.0, 99, np.full(6, np.nan)), "sensor: joint/left/position is not finite"),
        (Report(9.0, 99, UPRIGHT, voltage=3.0), "voltage: 3.00 V (lowest 20 V)"),
    ],
)
def test_bad_report_during_a_run_brakes(report, reason):
    contract = cases.contract(limits=cases.Limits(voltage_low=20.0))
    machine = Machine(lambda k: usual(k) if k < 8 else report)
    telemetry = loop.run(contract, still, machine, LOCKSTEP)
    assert telemetry.reasons[0] == reason
    assert len(machine.written) == 7
    assert lets_down(machine)


def test_wall_clock_may_jump_by_an_hour(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: -3600.0)
    telemetry = loop.run(CONTRACT, still, Machine(), REAL_TIME)
    assert (len(telemetry.t_cmd), telemetry.reasons) == (20, ())


def test_late_policy_holds_the_last_command_then_brakes():
    gate, calls = threading.Event(), []

    def policy(observation):
        calls.append(0)
        if len(calls) == 4:
            gate.wait(20)
        return np.array([0.1 * len(calls), 0.0])

    machine = Machine()
    config = DeployConfig(seconds=5.0, hold=0.1)
    telemetry = loop.run(CONTRACT, policy, machine, config)
    gate.set()
    assert telemetry.reasons == ("late: no action for more than 0.1 s",)
    # Three actions, then about 0.1 s of the third.
    fresh = int(np.flatnonzero(telemetry.is_held)[0])
    held = telemetry.target[fresh:, 0]
    assert telemetry.is_held[fresh:].all()
    assert held == pytest.approx(np.full(held.size, 0.1 + 0.5 * 0.3))
    assert 1 <= held.size <= 12
    assert lets_down(machine, config)


def test_policy_that_is_late_once_goes_on():
    calls = []

    def policy(observation):
        calls.append(0)
        if len(calls) == 4:
            time.sleep(0.05)
        return np.array([0.1, 0.0])

    telemetry = loop.run(CONTRACT, policy, Machine(), DeployConfig(seconds=0.3, hold=2.0))
    assert telemetry.reasons == ()
    assert telemetry.is_held.sum() >= 2
    assert len(telemetry.t_cmd) == 30


def test_operator_starts_and_stops_and_the_machine_brakes_while_it_waits():
    machine, modes = Machine(), []

    def operator(mode):
        modes.append(mode)
        if len(modes) == 8:
            return Event.START
        return Event.STOP if len(modes) == 15 else None

    telemetry = loop.run(CONTRACT, still, machine, LOCKSTEP, operator)
    assert (telemetry.mode, telemetry.reasons) == (Mode.DAMPING, ())
    first_written = machine.written[0][0]
    assert sum(t < first_written for t in machine.damped) == 6
    assert len(machine.written) == 7
    assert lets_down(machine)


def test_emergency_stop_is_sent_again_and_again_instead_of_braking():
    machine = Machine()

    def operator(mode):
        if mode == Mode.READY:
            return Event.START
        return Event.ESTOP if len(machine.written) == 5 else None

    telemetry = loop.run(CONTRACT, still, machine, LOCKSTEP, operator)
    assert (telemetry.mode, telemetry.reasons) == (Mode.ESTOP, ("estop: by the operator",))
    assert len(machine.written) == 5
    assert len(machine.stopped) == 50
    assert machine.damped == []


def test_impatient_ctrl_c_and_a_dead_line_do_not_cut_the_braking_short():
    class Dying(Machine):
        def damp(self):
            super().damp()
            if len(self.damped) % 3 == 0:
                raise KeyboardInterrupt
            if len(self.damped) % 3 == 1:
                raise OSError("the cable is out")

    machine = Dying()
    loop.run(CONTRACT, still, machine, REAL_TIME)
    assert machine.damped[-1] - machine.damped[0] > 0.4


def test_record_plays_the_targets_and_keeps_a_log():
    targets = np.stack([0.1 + 0.01 * np.arange(10), np.zeros(10)], axis=1)
    machine = Machine()
    telemetry = record(CONTRACT, machine, targets, LOCKSTEP)
    assert telemetry.target == pytest.approx(targets)
    assert np.isnan(telemetry.action).all()
    log = telemetry.log(CONTRACT, "excitation")
    assert log.name == "excitation"
    assert log.time == pytest.approx(0.01 * np.arange(10))
    assert log.channels["joint/left/position"] == pytest.approx(np.full(10, 0.1))
    assert log.channels["body/trunk/orientation"].shape == (10, 4)
    assert log.channels["command/a/target"] == pytest.approx(targets[:, 0])
    assert log.channels["command/b/kp"].tolist() == [0.0] * 10
    assert log.channels["battery/voltage"].tolist() == [24.0] * 10
    assert lets_down(machine)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (
            np.zeros((5, 3)),
            r"excitation: targets is 'of shape \(5, 3\)', expected at least one row",
        ),
        (
            np.zeros((0, 2)),
            r"excitation: targets is 'of shape \(0, 2\)', expected at least one row",
        ),
        (np.array([[0.0, 0], [np.nan, 0]]), r"excitation: row 1 is \[nan, 0.0\], expected finite"),
    ],
)
def test_excitation_that_makes_no_sense_is_refused_before_anything_is_sent(targets, message):
    machine = Machine()
    with pytest.raises(BadValue, match=message):
        record(CONTRACT, machine, targets, LOCKSTEP)
    assert machine.looks == 0


def test_log_leaves_out_ticks_without_a_new_report():
    # Every second look finds nothing.
    machine = Machine(lambda k: usual(k) if k % 2 else None)
    telemetry = loop.run(CONTRACT, still, machine, REAL_TIME)
    log = telemetry.log(CONTRACT, "x")
    assert len(telemetry.t_state) == 20
    assert len(log.time) == 10
    assert (np.diff(log.time) > 0).all()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("damping", 0.4, "deploy: damping is 0.4, expected a number >= 0.5"),
        ("seconds", 0.0, "deploy: seconds is 0.0, expected a positive number"),
        ("hold", -1.0, "deploy: hold is -1.0, expected a number >= 0"),
        ("margin", 1.5, r"deploy: margin is 1.5, expected a number in \(0, 1\]"),
        ("patience", float("nan"), "deploy: patience is nan, expected a positive number"),
    ],
)
def test_config_refuses_what_cannot_be(field, value, message):
    with pytest.raises(BadValue, match=message):
        DeployConfig(**{field: value})
