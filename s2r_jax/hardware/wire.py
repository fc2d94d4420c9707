"""The datagrams between a driver and an emulated robot, and how to refuse damaged ones.

One datagram is a header, two arrays of float64 and a checksum, little-endian:

    magic 4s | version u8 | kind u8 | episode u16 | layout u32 | sequence u64 | reference u64 |
    time f64 | count u16 | count u16 | first f64[count] | second f64[count] | crc32 u32

The checksum covers everything before it. `layout` is a digest of joint and signal names in order,
so that a permuted robot is refused with the first datagram instead of kicking a leg.
"""

import enum
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

MAGIC = b"s2rw"
VERSION = 1
HEADER = struct.Struct("<4sBBHIQQdHH")
CHECKSUM = struct.Struct("<I")
#: Largest datagram that IPv4 carries.
MAX_SIZE = 65507


class Kind(enum.IntEnum):
    """What a datagram says, and what its fields hold."""

    HELLO = 1
    """Driver: report, and listen to me from now on."""
    STATE = 2
    """Robot: `first` the sensors, `second` the supply and the motors' temperatures; `reference` the
    sequence of the last accepted command."""
    COMMAND = 3
    """Driver: `first` target, torque, kp, kd and enabled, one after the other."""
    RESET = 4
    """Driver: start this episode; `reference` the seed, `first` qpos and `second` qvel, both empty
    for the pose of the model."""
    DAMP = 5
    """Driver: brake."""
    ESTOP = 6
    """Driver: let go until the next reset."""


class Packet(NamedTuple):
    """One datagram."""

    kind: Kind
    episode: int
    layout: int
    sequence: int
    reference: int
    time: float
    """Of the sender's clock [s]."""
    first: Float[np.ndarray, " first"]
    second: Float[np.ndarray, " second"]


class Damaged(ValueError):
    """A datagram that is not ours or did not arrive whole; the message is one word to count by."""


EMPTY = np.zeros(0)


def layout(joints: Sequence[str], signals: Sequence[tuple[str, int]]) -> int:
    """Return the digest of the joints in order and of the signals with their sizes."""
    names = [*joints, "", *(f"{name}:{size}" for name, size in signals)]
    return zlib.crc32("\n".join(names).encode())


def encode(packet: Packet) -> bytes:
    """Return the datagram of a packet."""
    first, second = (np.asarray(part, dtype="<f8") for part in (packet.first, packet.second))
    header = HEADER.pack(
        MAGIC,
        VERSION,
        packet.kind,
        packet.episode,
        packet.layout,
        packet.sequence,
        packet.reference,
        packet.time,
        first.size,
        second.size,
    )
    body = header + first.tobytes() + second.tobytes()
    return body + CHECKSUM.pack(zlib.crc32(body))


def decode(datagram: bytes, layout: int) -> Packet:
    """Return the packet of a datagram.

    Args:
        datagram: As received; nothing about it is trusted.
        layout: Digest that it must carry.

    Raises:
        Damaged: With one of `short`, `magic`, `version`, `length`, `checksum`, `kind`, `layout`.
    """
    if len(datagram) < HEADER.size + CHECKSUM.size:
        raise Damaged("short")
    magic, version, kind, episode, digest, sequence, reference, time, n, m = HEADER.unpack_from(
        datagram
    )
    if magic != MAGIC:
        raise Damaged("magic")
    if version != VERSION:
        raise Damaged("version")
    end = HEADER.size + 8 * (n + m)
    if len(datagram) != end + CHECKSUM.size:
        raise Damaged("length")
    if zlib.crc32(datagram[:end]) != CHECKSUM.unpack_from(datagram, end)[0]:
        raise Damaged("checksum")
    if kind not in Kind._value2member_map_:
        raise Damaged("kind")
    if digest != layout:
        raise Damaged("layout")
    values = np.frombuffer(datagram, "<f8", n + m, HEADER.size).astype(float)
    return Packet(Kind(kind), episode, digest, sequence, reference, time, values[:n], values[n:])
