"""What a person may choose about an adaptation run. Imports no JAX."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class AdaptConfig:
    """Settings of one adaptation run; the defaults of sizes are the article's."""

    method: Literal["dann", "coral"] = "dann"
    """How the domains are aligned: gradient reversal, or equal means and covariances."""
    task: Literal["classify", "regress"] = "classify"
    """What labels are: action or class numbers (cross-entropy), or real vectors (Huber)."""
    outputs: int = 12
    """Number of actions or classes, or length of a regression label."""
    image_shape: tuple[int, int, int] = (128, 128, 3)
    """Height, width [pixels] and colour channels of every image."""
    features: int = 256
    """Length of the encoder's feature vector."""
    channels: tuple[int, ...] = (32, 64, 64, 128)
    """Channels of the encoder's convolutions; each halves height and width."""
    steps: int = 1000
    """Training steps. The budget is fixed and the last state is kept: choosing a better one would
    need labels of the target."""
    batch: int = 64
    """Images per step and domain."""
    learning_rate: float = 1e-3
    """Of encoder and policy head (AdamW) at first; falls by (1 + 10 p)^-0.75 with progress p."""
    weight_max: float = 0.1
    """Final weight λ of the alignment. The default is cautious: more can collapse an under-trained
    policy. On the bars of `shapes` and on digits 1.0 gained about twice as much (dann)."""
    discriminator_rate: float = 5e-3
    """Learning rate of the domain head, which must stay ahead of the encoder it judges."""
    discriminator_b1: float = 0.5
    """Momentum of the domain head's AdamW; short, because its target keeps moving."""
    huber_delta: float = 1.0
    """Where the regression loss turns from square to linear [standard deviations of the labels]."""
    holdout: float = 0.2
    """Fraction of each domain kept from training, for the evidence."""
    block: int = 1
    """Neighbouring frames that are held out together; 1 for independent images, some seconds of
    frames for a video."""
    report_every: int = 50
    """Steps between two calls of the callback; divides `steps`."""
    seed: int = 0
    """Of the initial weights, the batches and the held-out blocks."""
