import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from s2r_jax.hardware import wire
from s2r_jax.hardware.wire import Kind, Packet

LAYOUT = wire.layout(["left", "right"], [("joint/left/position", 1)])
PACKET = Packet(
    Kind.STATE, 3, LAYOUT, 2**40 + 5, 7, 12.25, np.array([1.5, np.nan, -0.0]), np.array([24.0])
)


def refusal(datagram: bytes) -> str:
    with pytest.raises(wire.Damaged) as caught:
        wire.decode(datagram, LAYOUT)
    return str(caught.value)


def test_decode_returns_the_encoded_packet():
    got = wire.decode(wire.encode(PACKET), LAYOUT)
    assert got[:6] == PACKET[:6]
    assert_array_equal(got.first, PACKET.first)
    assert_array_equal(got.second, PACKET.second)


def test_every_flipped_bit_is_refused():
    sound = wire.encode(PACKET)
    for bit in range(8 * len(sound)):
        flipped = bytearray(sound)
        flipped[bit // 8] ^= 1 << bit % 8
        refusal(bytes(flipped))


def test_every_truncation_and_extension_is_refused():
    sound = wire.encode(PACKET)
    for size in range(len(sound)):
        assert refusal(sound[:size]) in ("short", "length")
    assert refusal(sound + b"\0") == "length"


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.binary(max_size=200))
def test_noise_is_refused_without_another_error(noise):
    refusal(noise)
    refusal(wire.encode(PACKET)[:4] + noise)


def test_counts_that_promise_more_than_there_is_are_refused():
    # A sound checksum over a lying header: whoever wrote it can compute a checksum.
    lying = bytearray(wire.encode(PACKET))[: -wire.CHECKSUM.size]
    lying[wire.HEADER.size - 4 : wire.HEADER.size] = b"\xff\xff\xff\xff"
    lying += wire.CHECKSUM.pack(wire.zlib.crc32(bytes(lying)))
    assert refusal(bytes(lying)) == "length"


def test_unknown_kind_is_refused():
    assert refusal(wire.encode(PACKET._replace(kind=77))) == "kind"


@pytest.mark.parametrize(
    ("joints", "signals"),
    [
        (["right", "left"], [("joint/left/position", 1)]),
        (["left", "right"], [("joint/left/position", 2)]),
        (["left"], [("joint/left/position", 1)]),
        (["left", "right", "joint/left/position:1"], []),
    ],
)
def test_another_order_or_size_is_another_layout(joints, signals):
    other = PACKET._replace(layout=wire.layout(joints, signals))
    assert refusal(wire.encode(other)) == "layout"
