"""Sweeps made by hand, with known causes of failure."""

import numpy as np

from s2r_jax.parameters import ParameterSet
from s2r_jax.validate.sweep import Sweep

NAMES = ("motor/hip/friction", "latency/action", "battery/voltage")
PARAMETERS = ParameterSet(
    NAMES, (0.0, 0.0, 20.0), (1.0, 0.05, 26.0), (0.1, 0.0, 24.0), (0.1, 0.0, 24.0), (np.inf,) * 3,
    ("identity",) * 3, ("N m", "s", "V"), (),
)  # fmt: skip


def sweep(worlds=400, friction_limit=0.8, seed=0):
    """Failure where friction is high, by nothing else; the return falls with friction."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(PARAMETERS.low, PARAMETERS.high, (worlds, 3)).astype(np.float32)
    success = theta[:, 0] < friction_limit
    reward = (10 - 5 * theta[:, 0] + rng.normal(0, 0.5, worlds)).astype(np.float32)
    return Sweep(theta, reward, success, np.full(worlds, 50, np.int32), np.ones(worlds, bool))
