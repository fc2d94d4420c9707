"""The driver of emulated robots: datagrams on the loopback interface (`wire.py`)."""

import collections
import ipaddress
import socket
import time
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from s2r_jax.errors import BadValue, MissingFile
from s2r_jax.hardware import wire
from s2r_jax.hardware.driver import Reading
from s2r_jax.hardware.wire import EMPTY, Kind, Packet
from s2r_jax.types import Command

#: How often an unanswered hello, reset or lock-stepped command is repeated [s].
REPEAT = 0.05


class UdpDriver:
    """A connection to one emulated robot.

    `rejected` counts datagrams that were refused, by reason: those of `wire.decode`, `episode`
    (from before the last reset), `duplicate`, `old` (overtaken by a newer one), `size` (another
    number of sensors or motors); and `unreachable`, sends that found the robot's port closed.
    """

    def __init__(
        self,
        address: tuple[str, int],
        joints: Sequence[str],
        signals: Sequence[tuple[str, int]],
        *,
        is_lockstep: bool = False,
        patience: float = 2.0,
        is_remote_allowed: bool = False,
    ):
        """Describe the robot; `open` connects.

        Args:
            address: Host and port of the robot.
            joints: Names in the contract's order.
            signals: Names and sizes in the contract's order.
            is_lockstep: Whether the robot waits for each command; then an unanswered one is sent
                again.
            patience: How long a hello or a reset may stay unanswered [s].
            is_remote_allowed: Whether the robot may be on another machine. The protocol has no
                authentication.
        """
        self.address = address
        self.rejected: collections.Counter[str] = collections.Counter()
        self._is_lockstep, self._patience = is_lockstep, patience
        self._nu, self._sensors = len(joints), sum(size for _, size in signals)
        self._layout = wire.layout(joints, signals)
        self._socket: socket.socket | None = None
        self._episode = self._sequence = 0
        self._seen = -1
        self._last = b""
        self._held: Reading | None = None
        if not is_remote_allowed and not is_loopback(address[0]):
            raise BadValue("driver", "address", address[0], "a loopback address such as 127.0.0.1")

    def open(self) -> None:
        """Connect; the robot must answer a hello with the same joints and signals.

        Raises:
            MissingFile: Nobody answers, or only robots of another layout.
        """
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(self.address)
        try:
            self._ask(self._packet(Kind.HELLO, 0), lambda packet: True)
        except MissingFile:
            self.close()
            raise

    def reset(
        self,
        seed: int,
        qpos: Float[np.ndarray, " nq"] | None = None,
        qvel: Float[np.ndarray, " nv"] | None = None,
    ) -> None:
        """Start a new episode; also ends an emergency stop. The next `read` gives its first report.

        Args:
            seed: Of the sensor noise.
            qpos: Pose in the model's coordinates; the model's own when absent.
            qvel: Speed; zero when absent.

        Raises:
            MissingFile: The robot does not answer.
        """
        episode = self._episode % 0xFFFF + 1
        first, second = (EMPTY if part is None else np.asarray(part) for part in (qpos, qvel))
        packet = self._packet(Kind.RESET, seed, first, second)._replace(episode=episode)
        self._ask(packet, lambda answer: answer.episode == episode)

    def read(self, timeout: float) -> Reading | None:
        """Return the newest report that was not returned before, or None after `timeout` [s]."""
        reading, self._held = self._held, None
        deadline = time.monotonic() + timeout
        while True:
            while (packet := self._receive(0.0)) is not None:
                reading = self._reading(packet) or reading
            left = deadline - time.monotonic()
            if reading is not None or left <= 0:
                return reading
            packet = self._receive(min(left, REPEAT) if self._is_lockstep else left)
            if packet is not None:
                reading = self._reading(packet)
            elif self._is_lockstep and self._last and time.monotonic() < deadline:
                self._send(self._last)

    def write(self, command: Command) -> None:
        """Send a command."""
        rows = (command.target, command.torque, command.kp, command.kd, command.enabled)
        self._order(Kind.COMMAND, np.concatenate([np.asarray(row, dtype=float) for row in rows]))

    def damp(self) -> None:
        """Tell the motors to brake."""
        self._order(Kind.DAMP)

    def estop(self) -> None:
        """Tell the motors to let go until the next reset."""
        self._order(Kind.ESTOP)

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _order(self, kind: Kind, values: np.ndarray = EMPTY) -> None:
        self._sequence += 1
        self._last = wire.encode(self._packet(kind, 0, values))
        self._send(self._last)

    def _packet(
        self, kind: Kind, reference: int, first: np.ndarray = EMPTY, second: np.ndarray = EMPTY
    ) -> Packet:
        now = time.monotonic()
        return Packet(
            kind, self._episode, self._layout, self._sequence, reference, now, first, second
        )

    def _ask(self, packet: Packet, is_answer: Callable[[Packet], bool]) -> None:
        """Repeat a question until a state answers it, which then is the next to read."""
        datagram, deadline = wire.encode(packet), time.monotonic() + self._patience
        while time.monotonic() < deadline:
            self._send(datagram)
            until = time.monotonic() + REPEAT
            while (left := until - time.monotonic()) > 0:
                answer = self._receive(left)
                if answer is not None and answer.kind == Kind.STATE and is_answer(answer):
                    self._episode = answer.episode
                    self._sequence = max(self._sequence, answer.reference)
                    self._last = b""
                    self._held = self._reading(answer)
                    return
        host, port = self.address
        hint = f"no answer within {self._patience:g} s"
        if self.rejected["layout"]:
            hint = "the robot there has other joints or signals, or another order of them"
        raise MissingFile(f"{host}:{port}", "robot", hint)

    def _send(self, datagram: bytes) -> None:
        try:
            self._connected().send(datagram)
        except ConnectionError:
            # The robot's port is closed; its silence will tell.
            self.rejected["unreachable"] += 1

    def _receive(self, timeout: float) -> Packet | None:
        """Return the next sound packet, or None after `timeout` [s]."""
        connection, deadline = self._connected(), time.monotonic() + timeout
        while True:
            connection.settimeout(max(deadline - time.monotonic(), 0.0))
            try:
                return wire.decode(connection.recv(wire.MAX_SIZE), self._layout)
            except wire.Damaged as reason:
                self.rejected[str(reason)] += 1
            except ConnectionError:
                self.rejected["unreachable"] += 1
                time.sleep(min(max(timeout, 0.0), REPEAT))
                return None
            except (TimeoutError, BlockingIOError):
                return None

    def _reading(self, packet: Packet) -> Reading | None:
        """Return the reading of a state that is newer than all before it."""
        reason = ""
        if packet.kind != Kind.STATE:
            reason = "kind"
        elif packet.episode != self._episode:
            reason = "episode"
        elif packet.sequence == self._seen:
            reason = "duplicate"
        elif packet.sequence < self._seen:
            reason = "old"
        elif packet.first.size != self._sensors or packet.second.size != 1 + self._nu:
            reason = "size"
        if reason:
            self.rejected[reason] += 1
            return None
        self._seen = packet.sequence
        voltage, temperature = float(packet.second[0]), packet.second[1:]
        return Reading(packet.time, packet.sequence, packet.first, voltage, temperature)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise BadValue("driver", "connection", None, "an open one; call open() first")
        return self._socket


def is_loopback(host: str) -> bool:
    """Tell whether an address stays on this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
