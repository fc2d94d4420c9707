"""What a person may choose about training. Imports no JAX."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PPOConfig:
    """Settings of one PPO run."""

    updates: int = 100
    """Updates; each collects `unroll` control periods of every world."""
    worlds: int = 128
    """Worlds simulated at once, each with its own θ."""
    unroll: int = 50
    """Control periods of every world in an update."""
    epochs: int = 8
    """Passes over the data of an update."""
    minibatches: int = 4
    """Parts that one pass is split into; divides worlds * unroll."""
    discount: float = 0.99
    """Of the reward, per control period."""
    trace: float = 0.95
    """λ of the generalised advantage estimate."""
    clip: float = 0.2
    """How far the probability ratio may move from 1 before it is cut."""
    learning_rate: float = 1e-3
    """Of Adam at the start."""
    kl_target: float = 0.03
    """KL divergence of a minibatch step that the learning rate is steered to; 0 keeps the rate."""
    entropy_weight: float = 0.01
    """Of the entropy bonus; a fifth of it let exploration die before the swing was found."""
    value_weight: float = 0.5
    """Of the critic's squared error, whose scale the reward decides."""
    max_gradient: float = 1.0
    """Norm that a gradient is cut to."""
    initial_std: float = 0.6
    """Exploration at the start, in units of the action."""
    hidden: tuple[int, ...] = (64, 64)
    """Width of the actor's and the critic's hidden layers."""
    episodes: int = 128
    """Episodes of the evaluation at the end, on newly drawn worlds."""
    seed: int = 0
    """Of the weights, the worlds and the noise."""
