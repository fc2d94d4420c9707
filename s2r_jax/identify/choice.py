"""Which method fits, and where a search may start.

`auto` trusts derivatives of the physics only where differences agree with them, and takes the
faster of the two.
"""

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from s2r_jax.identify import levenberg, noise
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.jacobian import agreement, compile_linearization
from s2r_jax.identify.segments import Segments, beginning, select
from s2r_jax.parameters import search_bounds, unconstrain
from s2r_jax.robot import Robot
from s2r_jax.sim import world
from s2r_jax.sim.world import Simulator

#: Cosine between forward-mode and difference columns below which derivatives are not trusted.
TRUSTED = 0.9
#: Control periods over which derivatives are compared: enough to meet contact and stiction.
CHECKED = 100


@functools.lru_cache(maxsize=8)
def simulator_for(robot: Robot, method: str) -> Simulator:
    """Return the simulator that a method differentiates, the same one for every fit of a robot.

    Forward mode on `mjx`, differences on the C engine.
    """
    return world.make(robot, "mjx" if method == "lm" else "mujoco")


def choose(robot: Robot, segments: Segments, config: IdentifyConfig) -> tuple[str, list[str]]:
    """Return the method.

    `auto` checks forward-mode columns against differences on one window first.
    """
    if config.method != "auto":
        return config.method, []
    lengths = np.asarray(segments.weight).sum((1, 2))
    sample = beginning(select(segments, np.array([int(np.argmax(lengths))])), CHECKED)
    z = jnp.asarray(_beside_start(robot, config.seed))
    precision = jnp.asarray(noise.first_precision(robot.signals, segments))
    jacobians, seconds = {}, {}
    for method in ("lm", "fd"):
        linearize = compile_linearization(simulator_for(robot, method), method)
        given = (z, jnp.zeros((1, 0)), sample, precision)
        jacobians[method] = np.asarray(linearize(*given).jacobian)
        began = time.perf_counter()
        jax.block_until_ready(linearize(*given))
        seconds[method] = time.perf_counter() - began
    cosine = agreement(jacobians["lm"], jacobians["fd"])
    if np.isfinite(jacobians["lm"]).all() and np.nanmin(cosine) >= TRUSTED:
        if seconds["lm"] <= seconds["fd"]:
            return "lm", []
        times = f"{seconds['fd']:.2g} s against {seconds['lm']:.2g} s"
        return "fd", [f"differences on the C engine agree with derivatives and are faster: {times}"]
    worst = robot.parameters.names[int(np.nanargmin(cosine))]
    return "fd", [
        f"forward-mode derivatives disagree with differences (cosine {np.nanmin(cosine):.2f} "
        f"for {worst}): central differences on the C engine are used"
    ]


def _beside_start(robot: Robot, seed: int) -> np.ndarray:
    """Return a point near the start, in z: nominal values love round numbers, where kinks are.

    A latency of whole physics steps is one; there the slopes of the two sides differ.
    """
    z = np.asarray(unconstrain(robot.parameters, jnp.asarray(robot.parameters.start)))
    bounds = levenberg.Bounds(*search_bounds(robot.parameters))
    other = random_start(bounds, np.random.default_rng(seed))
    return 0.97 * z + 0.03 * other


def random_start(
    bounds: levenberg.Bounds, keys: np.random.Generator
) -> Float[np.ndarray, " param"]:
    """Return a random point of the box; where it is open, between 12 % and 88 % of the range."""
    low = np.where(np.isfinite(bounds.low), bounds.low, -2.0)
    high = np.where(np.isfinite(bounds.high), bounds.high, 2.0)
    return low + (high - low) * keys.uniform(0.1, 0.9, low.size)
