"""Parameters and marginals of every kind, shared by the tests of this folder."""

import numpy as np

from s2r_jax.parameters import Effect, ParameterSet
from s2r_jax.randomize.distribution import Marginal

PARAMETERS = ParameterSet(
    names=("geom/floor/friction", "body/arm/mass", "motor/hip/strength", "latency/action",
           "joint/hip/damping"),
    low=(0.05, 0.1, 0.3, 0.0, 1e-4),
    high=(1.7, 5.0, 1.3, 0.03, 10.0),
    nominal=(1.0, 2.0, 1.0, 0.01, 0.5),
    start=(1.0, 2.0, 1.0, 0.01, 0.5),
    prior_std=(np.inf, 0.4, np.inf, np.inf, 0.1),
    transforms=("identity", "log", "identity", "identity", "log"),
    units=("1", "kg", "1", "s", "N m s/rad"),
    effects=(
        Effect("geom_friction", "set", (0,), (0,), (1.0,)),
        Effect("body_mass", "set", (1,), (1,), (1.0,)),
        Effect("motor.strength", "scale", (0,), (2,), (1.0,)),
        Effect("latency.action", "set", (0,), (3,), (1.0,)),
        Effect("dof_damping", "set", (0,), (4,), (1.0,)),
    ),
)  # fmt: skip

#: One of each kind; the normal ones are cut by their bounds on one side or both.
MARGINALS = [
    Marginal("uniform", 0.3, 1.2),
    Marginal("lognormal", 1.5, 5.0, 2.0, 0.3),
    Marginal("normal", 0.9, 1.3, 1.0, 0.08),
    Marginal("fixed", 0.004, 0.004),
    Marginal("loguniform", 0.01, 10.0),
]
CORRELATION = np.array(
    [
        [1.0, 0.3, 0.0, 0.0, 0.0],
        [0.3, 1.0, -0.8, 0.0, 0.0],
        [0.0, -0.8, 1.0, 0.0, 0.2],
        [0.0, 0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.2, 0.0, 1.0],
    ]
)
