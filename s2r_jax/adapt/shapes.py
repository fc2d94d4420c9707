"""A small pair of domains with a known answer: bars to be told apart by their direction.

The source draws white bars on black, as a plain simulator would. The target takes the absolute
difference of bar and a smooth coloured background, the way MNIST-M is made from MNIST, so colours
and contrast change but the direction stays. Needs no data; meant for trying things and for tests.
"""

import numpy as np
from jaxtyping import Float, Int, UInt8

DIRECTIONS = 4
SIZE = 20
"""Height and width of an image [pixels]."""
_HALF_WIDTH, _HALF_LENGTH = 1.2, 7.0
_JITTER, _TILT = 2.5, 0.15
_BRIGHTEST = 0.6


def draw(
    seed: int, count: int, shifted: bool
) -> tuple[UInt8[np.ndarray, "count height width channel"], Int[np.ndarray, " count"]]:
    """Return images and the numbers of their directions (multiples of 45 degrees).

    Args:
        seed: Everything follows from it.
        count: Number of images.
        shifted: False for the source, True for the target.
    """
    rng = np.random.default_rng(seed)
    label = rng.integers(0, DIRECTIONS, count)
    angle = np.pi * label / DIRECTIONS + rng.normal(0.0, _TILT, count)
    centre = rng.uniform(-_JITTER, _JITTER, (count, 2))
    bar = _bar(angle, centre)[..., None]
    background = _background(rng, count) if shifted else np.zeros((count, SIZE, SIZE, 3))
    return np.rint(255 * np.abs(background - bar)).astype(np.uint8), label


def _bar(
    angle: Float[np.ndarray, " count"], centre: Float[np.ndarray, "count 2"]
) -> Float[np.ndarray, "count height width"]:
    y, x = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2
    x, y = x - centre[:, 0, None, None], y - centre[:, 1, None, None]
    cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    along, across = np.abs(cos * x + sin * y), np.abs(cos * y - sin * x)
    # One pixel of soft edge, as an antialiased renderer has.
    return np.clip(_HALF_WIDTH + 0.5 - across, 0, 1) * np.clip(_HALF_LENGTH + 0.5 - along, 0, 1)


def _background(
    rng: np.random.Generator, count: int
) -> Float[np.ndarray, "count height width channel"]:
    """Return bilinear blends of random corner colours, with some pixel noise."""
    corner = rng.uniform(0.0, _BRIGHTEST, (count, 2, 2, 3))
    t = np.linspace(0.0, 1.0, SIZE)
    rows = np.stack([1 - t, t])
    smooth = np.einsum("ay,bx,nabc->nyxc", rows, rows, corner)
    return np.clip(smooth + rng.normal(0.0, 0.1, smooth.shape), 0.0, 1.0)
