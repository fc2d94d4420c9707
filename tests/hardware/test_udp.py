import socket
import threading

import numpy as np
import pytest

from s2r_jax.deploy import loop
from s2r_jax.errors import BadValue, MissingFile
from s2r_jax.hardware import wire
from s2r_jax.hardware.driver import Driver
from s2r_jax.hardware.emulator import Emulator
from s2r_jax.hardware.server import Server
from s2r_jax.hardware.udp import UdpDriver
from s2r_jax.hardware.wire import EMPTY, Kind, Packet
from s2r_jax.types import Command

JOINTS, SIGNALS = ("left", "right"), (("joint/left/position", 1), ("joint/right/position", 1))
LAYOUT = wire.layout(JOINTS, SIGNALS)


def state(sequence, *, episode=0, reference=0, sensors=(1.0, 2.0), motors=2) -> Packet:
    second = np.array([24.0, *[30.0] * motors])
    return Packet(
        Kind.STATE, episode, LAYOUT, sequence, reference, 0.01 * sequence, np.array(sensors), second
    )


def command(target):
    target = np.asarray(target, dtype=float)
    zero = np.zeros_like(target)
    return Command(target, zero, zero + 3.0, zero + 0.1, zero + 1, np.nan)


@pytest.fixture
def pair():
    """A driver, and the socket of a robot that the test plays."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as robot:
        robot.bind(("127.0.0.1", 0))
        robot.settimeout(5)
        driver = UdpDriver(robot.getsockname(), JOINTS, SIGNALS)

        def answer():
            _, sender = robot.recvfrom(wire.MAX_SIZE)
            robot.connect(sender)
            robot.send(wire.encode(state(1)))

        player = threading.Thread(target=answer)
        player.start()
        driver.open()
        player.join()
        assert driver.read(1.0).sequence == 1
        yield driver, robot
        driver.close()


def test_read_gives_each_report_once_and_the_newest(pair):
    driver, robot = pair
    assert driver.read(0.0) is None
    for sequence in (2, 3, 4):
        robot.send(wire.encode(state(sequence)))
    reading = driver.read(1.0)
    assert (reading.sequence, reading.time, reading.voltage) == (4, 0.04, 24.0)
    assert reading.sensors.tolist() == [1.0, 2.0]
    assert reading.temperature.tolist() == [30.0, 30.0]
    assert driver.read(0.0) is None


@pytest.mark.parametrize(
    ("reason", "datagram"),
    [
        ("duplicate", wire.encode(state(5))),
        ("old", wire.encode(state(4))),
        ("episode", wire.encode(state(6, episode=9))),
        ("size", wire.encode(state(6, sensors=(1.0,)))),
        ("size", wire.encode(state(6, motors=3))),
        ("kind", wire.encode(state(6)._replace(kind=Kind.COMMAND))),
        ("layout", wire.encode(state(6)._replace(layout=LAYOUT ^ 1))),
        ("checksum", wire.encode(state(6))[:-1] + b"\0"),
        ("length", wire.encode(state(6))[:-1]),
        ("short", b""),
        ("magic", b"GET / HTTP/1.1" * 10),
    ],
)
def test_bad_reports_are_counted_and_never_returned(pair, reason, datagram):
    driver, robot = pair
    robot.send(wire.encode(state(5)))
    assert driver.read(1.0).sequence == 5
    robot.send(datagram)
    robot.send(wire.encode(state(7)))
    assert driver.read(1.0).sequence == 7
    assert dict(driver.rejected) == {reason: 1}


def test_robot_that_went_away_reads_as_silence(pair):
    driver, robot = pair
    robot.close()
    driver.write(command([0.0, 0.0]))
    driver.damp()
    assert driver.read(0.05) is None


def test_it_is_a_driver_to_whoever_asks():
    driver = UdpDriver(("127.0.0.1", 9), JOINTS, SIGNALS)
    assert isinstance(driver, Driver)
    assert isinstance(driver, loop.Robot)
    with pytest.raises(BadValue, match="driver: connection is None, expected an open one"):
        driver.damp()


def test_driver_refuses_other_machines():
    with pytest.raises(BadValue) as caught:
        UdpDriver(("192.0.2.1", 9), JOINTS, SIGNALS)
    expected = "driver: address is '192.0.2.1', expected a loopback address such as 127.0.0.1"
    assert str(caught.value) == expected


def test_open_says_that_nobody_answers():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(MissingFile) as caught:
        UdpDriver(("127.0.0.1", port), JOINTS, SIGNALS, patience=0.2).open()
    assert str(caught.value) == f"127.0.0.1:{port}: no such robot; no answer within 0.2 s"


@pytest.fixture(scope="module")
def emulator(robot):
    return Emulator(robot, seed=4)


@pytest.fixture
def serve(emulator, robot):
    """Serve the emulator from a thread; gives the server and a driver that is not open."""
    ends = []

    def start(is_lockstep=True, **options):
        emulator.is_stopped = False
        server, over = Server(emulator), threading.Event()
        thread = threading.Thread(target=server.serve, args=(is_lockstep, over.is_set))
        thread.start()
        names = [joint.name for joint in robot.joints]
        signals = [(signal.name, signal.size) for signal in robot.signals]
        driver = UdpDriver(server.address, names, signals, is_lockstep=is_lockstep, **options)
        ends.append((over, thread, driver))
        return server, driver

    yield start
    for over, thread, driver in ends:
        over.set()
        thread.join()
        driver.close()


def test_lockstep_spends_one_period_for_each_command(serve):
    _, driver = serve()
    driver.open()
    driver.reset(3, np.array([0.5, 0.5]))
    times = [driver.read(5.0).time]
    for order in (lambda: driver.write(command([0.1, 0.1])), driver.damp, driver.estop):
        order()
        times.append(driver.read(5.0).time)
    assert times == pytest.approx([0.0, 0.01, 0.02, 0.03])


def test_repeated_reordered_and_nonfinite_commands_move_nothing(serve):
    server, driver = serve()
    driver.open()
    driver.reset(3)
    driver.read(5.0)
    driver.write(command([0.1, 0.1]))
    driver.read(5.0)
    driver._send(driver._last)  # the same datagram again
    driver._sequence -= 2
    driver.write(command([0.1, 0.1]))  # overtaken by the one before
    driver._sequence += 5
    driver.write(command([np.nan, 0.1]))
    driver._order(Kind.COMMAND, np.zeros(3))
    episode, driver._episode = driver._episode, 999
    driver.write(command([0.1, 0.1]))  # of another episode
    driver._episode = episode
    driver.write(command([0.1, 0.1]))
    while (reading := driver.read(5.0)).time < 0.019:
        pass
    assert reading.time == pytest.approx(0.02)
    refused = {"duplicate": 1, "old": 1, "nonfinite": 1, "size": 1, "episode": 1}
    assert dict(server.rejected) == refused


def test_stranger_cannot_command(serve, robot):
    server, driver = serve()
    driver.open()
    driver.reset(3)
    driver.read(5.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        packet = Packet(Kind.ESTOP, 1, server._layout, 99, 0, 0.0, EMPTY, EMPTY)
        other.sendto(wire.encode(packet), server.address)
        driver.write(command([0.1, 0.1]))
        assert driver.read(5.0).time == pytest.approx(0.01)
    assert server.rejected["stranger"] == 1
    assert not server.emulator.is_stopped


def test_second_driver_takes_over_where_the_first_was(serve, robot):
    server, driver = serve()
    driver.open()
    driver.reset(3)
    for _ in range(5):
        driver.write(command([0.1, 0.1]))
        driver.read(5.0)
    signals = [(signal.name, signal.size) for signal in robot.signals]
    second = UdpDriver(server.address, JOINTS, signals, is_lockstep=True)
    second.open()
    assert second.read(5.0).time == pytest.approx(0.05)
    second.write(command([0.1, 0.1]))
    assert second.read(5.0).time == pytest.approx(0.06)
    second.close()


def test_permuted_robot_is_refused_by_name(serve, robot):
    server, _ = serve()
    signals = [(signal.name, signal.size) for signal in robot.signals]
    driver = UdpDriver(server.address, ("right", "left"), signals, patience=0.3)
    with pytest.raises(MissingFile, match="has other joints or signals, or another order of them"):
        driver.open()
    driver.close()


def test_firmware_brakes_when_commands_stop(serve):
    _, driver = serve(is_lockstep=False)
    driver.open()
    driver.reset(3, np.array([0.0, 1.5]))
    held, last = [], driver.read(5.0)
    # While commands come the firmware holds 1.5 rad against gravity ...
    while last.time < 0.5:
        driver.write(command([0.0, 1.5]))
        last = driver.read(5.0)
        held.append(last.sensors[2])
    # ... and when they stop the pendulum sinks, as braking holds nothing.
    stopped = last.time
    while last.time < stopped + 1.5:
        last = driver.read(5.0)
    assert np.median(held) > 1.2
    assert last.sensors[2] < 1.0


def test_port_that_is_taken_is_refused(serve, emulator):
    server, _ = serve()
    with pytest.raises(BadValue, match=r"emulator: port is \d+, expected a free port"):
        Server(emulator, port=server.address[1])
    with pytest.raises(BadValue, match=r"emulator: host is '0\.0\.0\.0', expected a loopback"):
        Server(emulator, host="0.0.0.0")
