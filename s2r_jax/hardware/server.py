"""The process of an emulated robot: `python -m s2r_jax.hardware.server ROBOT`.

It answers datagrams (`wire.py`) either in lock step, one control period for each command, or in
real time. In real time a report goes out at each tick and the newest command that arrives before
the next tick acts during that period, as in the simulator; with none, the last one is held, and
after `SILENCE` the firmware brakes by itself.
"""

import argparse
import collections
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from s2r_jax import robot as robots
from s2r_jax.errors import BadValue, S2RError
from s2r_jax.hardware import wire
from s2r_jax.hardware.driver import Reading
from s2r_jax.hardware.emulator import Emulator
from s2r_jax.hardware.udp import is_loopback
from s2r_jax.hardware.wire import Kind, Packet
from s2r_jax.types import Command

#: The firmware brakes after this long without a command [s].
SILENCE = 0.1
#: How often a waiting server looks whether it should end [s].
POLL = 0.05
ORDERS = (Kind.COMMAND, Kind.DAMP, Kind.ESTOP)


class Server:
    """An emulator behind a socket.

    `rejected` counts refused datagrams by reason, as `udp.UdpDriver` does; besides, `stranger` is
    a command from an address that has not said hello last, and `nonfinite` a command with NaN.
    """

    def __init__(self, emulator: Emulator, port: int = 0, host: str = "127.0.0.1"):
        """Bind the socket; port 0 takes any free one.

        Raises:
            BadValue: An address that is not on this machine, or is taken.
        """
        if not is_loopback(host):
            raise BadValue("emulator", "host", host, "a loopback address such as 127.0.0.1")
        if not 0 <= port < 65536:
            raise BadValue("emulator", "port", port, "a port in [0, 65535]; 0 takes any free one")
        robot = emulator.robot
        self.emulator = emulator
        self.rejected: collections.Counter[str] = collections.Counter()
        self.overruns = 0
        """Ticks that came too late in real time."""
        signals = [(signal.name, signal.size) for signal in robot.signals]
        self._layout = wire.layout([joint.name for joint in robot.joints], signals)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise BadValue("emulator", "port", port, f"a free port ({error.strerror})") from None
        self.address: tuple[str, int] = self._socket.getsockname()
        self._owner: tuple[str, int] | None = None
        self._episode = self._accepted = 0
        self._reading = emulator.reset(emulator.seed)
        self._order: Packet | None = None
        self._heard = -np.inf

    def serve(self, is_lockstep: bool, is_over: Callable[[], bool]) -> None:
        """Answer until `is_over()`."""
        try:
            if is_lockstep:
                self._serve_lockstep(is_over)
            else:
                self._serve_real_time(is_over)
        finally:
            self._socket.close()

    def _serve_lockstep(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            if self._hear(POLL):
                self._advance(self._order)
                self._tell()

    def _serve_real_time(self, is_over: Callable[[], bool]) -> None:
        period = self.emulator.robot.period
        due = time.monotonic() + period
        while not is_over():
            while (left := due - time.monotonic()) > 0:
                if self._hear(left):
                    self._heard = time.monotonic()
            is_silent = time.monotonic() - self._heard > SILENCE
            self._advance(None if is_silent else self._order)
            self._tell()
            due += period
            if time.monotonic() > due:
                self.overruns += 1
                due = time.monotonic() + period

    def _advance(self, order: Packet | None) -> None:
        """Live through one control period; without an order the firmware brakes."""
        if order is None or order.kind == Kind.DAMP:
            self._reading = self.emulator.damp()
        elif order.kind == Kind.ESTOP:
            self._reading = self.emulator.estop()
        else:
            rows: list[Any] = [*order.first.reshape(5, -1), np.nan]
            self._reading = self.emulator.step(Command(*rows))

    def _hear(self, timeout: float) -> bool:
        """Take one datagram; tell whether it was a new order."""
        self._socket.settimeout(max(timeout, 0.0))
        try:
            datagram, sender = self._socket.recvfrom(wire.MAX_SIZE)
            packet = wire.decode(datagram, self._layout)
        except wire.Damaged as reason:
            self.rejected[str(reason)] += 1
            if str(reason) == "layout":
                self._answer_stranger(sender)
            return False
        except (TimeoutError, BlockingIOError, ConnectionError):
            return False
        if packet.kind == Kind.HELLO:
            self._owner = sender
            self._tell()
        elif packet.kind == Kind.RESET:
            self._owner = sender
            self._reset(packet)
        elif packet.kind in ORDERS:
            return self._obey(packet, sender)
        else:
            self.rejected["kind"] += 1
        return False

    def _obey(self, packet: Packet, sender: tuple[str, int]) -> bool:
        reason = ""
        if sender != self._owner:
            reason = "stranger"
        elif packet.episode != self._episode:
            reason = "episode"
        elif packet.sequence == self._accepted:
            # Its answer may have been lost.
            self._tell()
            reason = "duplicate"
        elif packet.sequence < self._accepted:
            reason = "old"
        elif packet.kind == Kind.COMMAND and packet.first.size != 5 * self.emulator.robot.model.nu:
            reason = "size"
        elif not np.isfinite(packet.first).all():
            reason = "nonfinite"
        if reason:
            self.rejected[reason] += 1
            return False
        self._accepted, self._order = packet.sequence, packet
        return True

    def _reset(self, packet: Packet) -> None:
        if packet.episode != self._episode:
            parts = [part if part.size else None for part in (packet.first, packet.second)]
            try:
                self._reading = self.emulator.reset(packet.reference, *parts)
            except BadValue:
                self.rejected["size"] += 1
                return
            self._episode, self._order = packet.episode, None
        self._tell()

    def _tell(self) -> None:
        if self._owner is not None:
            packet = self._state(self._reading)
            self._post(wire.encode(packet), self._owner)

    def _answer_stranger(self, sender: tuple[str, int]) -> None:
        """Report under our own layout, so that the other side can say what is wrong."""
        self._post(wire.encode(self._state(self._reading)), sender)

    def _post(self, datagram: bytes, to: tuple[str, int]) -> None:
        try:
            self._socket.sendto(datagram, to)
        except OSError:
            self.rejected["unreachable"] += 1

    def _state(self, reading: Reading) -> Packet:
        second = np.concatenate([[reading.voltage], reading.temperature])
        return Packet(
            Kind.STATE,
            self._episode,
            self._layout,
            reading.sequence,
            self._accepted,
            reading.time,
            reading.sensors,
            second,
        )


def run(
    folder: Path,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    seed: int = 0,
    is_lockstep: bool = False,
    reveal: Path | None = None,
    parent: int | None = None,
) -> None:
    """Emulate a robot until SIGTERM or SIGINT; prints `ready HOST:PORT` once it listens.

    Args:
        folder: Robot folder.
        port: 0 takes any free one.
        host: A loopback address.
        seed: Of the hidden θ.
        is_lockstep: One control period for each command, instead of real time.
        reveal: File to write the hidden θ to, for grading.
        parent: Process that started this one; when it is gone, this one ends too.
    """
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: signals.append(received))
    emulator = Emulator(robots.load(folder), seed)
    if reveal is not None:
        emulator.reveal(reveal)
    server = Server(emulator, port, host)
    print(f"ready {server.address[0]}:{server.address[1]}", flush=True)
    server.serve(is_lockstep, lambda: bool(signals) or parent not in (None, os.getppid()))
    refused = ", ".join(f"{count} {reason}" for reason, count in server.rejected.items()) or "none"
    print(f"ended; late ticks: {server.overruns}; refused: {refused}", file=sys.stderr)


def main() -> int:
    """Run from the command line; the `s2r emulate` command offers the same."""
    parser = argparse.ArgumentParser(prog="python -m s2r_jax.hardware.server")
    parser.add_argument("robot", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lockstep", action="store_true")
    parser.add_argument("--reveal", type=Path)
    parser.add_argument("--parent", type=int)
    given = parser.parse_args()
    try:
        run(
            given.robot,
            port=given.port,
            host=given.host,
            seed=given.seed,
            is_lockstep=given.lockstep,
            reveal=given.reveal,
            parent=given.parent,
        )
    except S2RError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
