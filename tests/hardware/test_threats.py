"""The loop and the emulated robot as two processes, one of which stops or dies."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from s2r_jax.deploy import loop
from s2r_jax.deploy.config import DeployConfig
from s2r_jax.deploy.contract import Limits
from s2r_jax.deploy.describe import contract_of
from s2r_jax.deploy.machine import Mode
from s2r_jax.hardware.spawn import spawn
from s2r_jax.hardware.udp import UdpDriver
from s2r_jax.observation import Term
from s2r_jax.types import Command


@pytest.fixture(scope="module")
def contract(robot):
    return contract_of(robot, [Term("value", (0, 1, 2, 3), 0.0, 1.0)])


def hold(observation):
    return np.array([0.5, 1.0])


def connect(address, contract, **options):
    driver = UdpDriver(address, contract.joint_names, contract.signal_sizes, **options)
    driver.open()
    return driver


@pytest.mark.parametrize(
    ("number", "is_lockstep"), [(signal.SIGKILL, True), (signal.SIGSTOP, False)]
)
def test_loop_ends_in_damping_when_the_robot_dies_or_freezes(robot, contract, number, is_lockstep):
    with spawn(robot.folder, is_lockstep=is_lockstep) as (address, process):
        driver = connect(address, contract, is_lockstep=is_lockstep)
        driver.reset(0)
        threading.Timer(0.5, os.kill, (process.pid, number)).start()
        config = DeployConfig(seconds=60.0, is_lockstep=is_lockstep, patience=0.3)
        telemetry = loop.run(contract, hold, driver, config)
        driver.close()
        process.kill()
    assert telemetry.mode == Mode.DAMPING
    assert telemetry.reasons[0].startswith("silent" if is_lockstep else "stale")
    assert len(telemetry.t_cmd) > 1


LOOP = """
import sys, time
import numpy as np
from s2r_jax.deploy import contract_file, loop
from s2r_jax.deploy.config import DeployConfig
from s2r_jax.hardware.udp import UdpDriver

contract = contract_file.from_json(open(sys.argv[2]).read(), "contract.json")
driver = UdpDriver(("127.0.0.1", int(sys.argv[1])), contract.joint_names, contract.signal_sizes)
driver.open()
calls = []

def hold(observation):
    calls.append(0)
    if len(calls) == 80:
        print("running", flush=True)
    return np.array([0.5, 1.0])

loop.run(contract, hold, driver, DeployConfig(seconds=60.0, hold=5.0))
"""


def test_robot_brakes_when_the_loop_dies_or_freezes(robot, contract, tmp_path):
    file = tmp_path / "contract.json"
    # A busy machine must not end the run before it is ended.
    patient = dataclasses.replace(contract, limits=Limits(stale=5.0))
    file.write_text(patient.to_json())
    sunk = []
    with spawn(robot.folder) as (address, _):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            arguments = [sys.executable, "-c", LOOP, str(address[1]), str(file)]
            with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "running\n"
                process.send_signal(number)
                time.sleep(2.0)
                watcher = connect(address, contract)
                # After a hello the robot reports to the watcher, who commands nothing.
                sunk.append([watcher.read(5.0) for _ in range(5)][-1].sensors[2])
                watcher.close()
                process.kill()
    # Held at 1 rad, against gravity, it would stand at 0.9 rad; braking holds nothing.
    assert max(sunk) < 0.4


PARENT = """
import sys, time
from pathlib import Path
from s2r_jax.hardware.spawn import spawn

with spawn(Path(sys.argv[1])) as (address, process):
    print(address[1], process.pid, flush=True)
    time.sleep(600)
"""


def test_robot_does_not_outlive_the_process_that_spawned_it(robot):
    arguments = [sys.executable, "-c", PARENT, str(robot.folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        _, pid = map(int, process.stdout.readline().split())
        process.kill()
    deadline = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_alive(pid)


def is_alive(pid):
    try:
        # An orphan that ended may stay a zombie where nobody collects it.
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_sigterm_to_the_loop_brakes(robot, contract, tmp_path):
    # The command line turns SIGTERM into the operator's stop; here an exception does.
    def raise_exit(number, frame):
        raise SystemExit(143)

    heard = []
    with spawn(robot.folder, is_lockstep=True) as (address, _):
        driver = connect(address, contract, is_lockstep=True)
        damp, driver.damp = driver.damp, lambda: (heard.append(0), damp())
        before = signal.signal(signal.SIGTERM, raise_exit)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        try:
            with pytest.raises(SystemExit):
                loop.run(contract, hold, driver, DeployConfig(seconds=600.0, is_lockstep=True))
        finally:
            signal.signal(signal.SIGTERM, before)
            driver.close()
    assert len(heard) >= 50


def test_nan_that_slips_past_everything_is_refused_by_the_robot(robot, contract):
    with spawn(robot.folder, is_lockstep=True) as (address, _):
        driver = connect(address, contract, is_lockstep=True)
        driver.reset(0)
        first = driver.read(5.0)
        bad = contract.command(np.array([np.nan, 0.0]))
        driver.write(bad)
        assert driver.read(0.3) is None
        driver.write(Command(*[np.nan_to_num(x) for x in bad]))
        assert driver.read(5.0).sequence == first.sequence + 1
        driver.close()
