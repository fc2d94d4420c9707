"""θ of logs that a fit has not seen, where each log has unknowns of its own (`per_log`)."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from s2r_jax.identify import levenberg
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.fit import Fit
from s2r_jax.identify.problem import Problem
from s2r_jax.identify.segments import Segments, select
from s2r_jax.parameters import constrain, search_bounds
from s2r_jax.robot import Robot


def adopted(
    robot: Robot, segments: Segments, config: IdentifyConfig, found: Fit
) -> tuple[Float[np.ndarray, "*segment param"], tuple[int, ...]]:
    """Return θ of each window, and the logs too short to have their own values.

    The own values of a log come from its other half, so that no window is scored with what was
    fitted to it; everything else stays as it was found. A log of one window gets the mean of the
    logs that were fitted.

    Args:
        robot: Its parameters were fitted.
        segments: Windows of logs that the fit has not seen.
        config: Of the fit.
        found: The fit.
    """
    theta = found.posterior.value
    if found.own is None:
        return theta, ()
    half = _halves(np.asarray(segments.log))
    every = np.tile(theta, (half.size, 1))
    for side in (0, 1):
        chosen = np.flatnonzero(half == 1 - side)
        if not chosen.size:
            continue
        with jax.enable_x64(True):
            problem = Problem(robot, select(segments, chosen), found.method, config)
            problem.held = ~problem.layout.own
            problem.precision = 1.0 / found.noise_std
            bounds = levenberg.Bounds(*search_bounds(problem.parameters))
            state, _, _ = problem.descend(problem.at(theta), bounds)
            values = np.asarray(constrain(problem.parameters, jnp.asarray(state.z)))
        known = {int(log) for log in np.asarray(segments.log)[chosen]}
        for window in np.flatnonzero(half == side):
            log = int(np.asarray(segments.log)[window])
            if log in known:
                every[window] = values[problem.layout.place[log]]
    logs, counts = np.unique(np.asarray(segments.log), return_counts=True)
    return every, tuple(logs[counts < 2].tolist())


def _halves(log: np.ndarray) -> np.ndarray:
    """Return for each window whether it is in the second half of those of its log."""
    half = np.zeros(log.size, int)
    for index in np.unique(log):
        mine = np.flatnonzero(log == index)
        half[mine[len(mine) // 2 :]] = 1
    return half
