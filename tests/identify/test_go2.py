"""49 parameters of a real quadruped from one log, judged on its fastest third.

The bounds are the figures of the data's README, found there with scipy on MuJoCo: 14.5 mrad as the
model is, 6.9 mrad fitted.
"""

from pathlib import Path

import numpy as np
import pytest

from s2r_jax import robot
from s2r_jax.identify import study
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.logs import read, trajectory
from s2r_jax.sim import world

FOLDER = Path(__file__).parents[2] / "examples" / "go2"
ANGLES = "joint position [rad, m]"


@pytest.mark.slow
def test_a_quadruped_is_identified_from_slow_motion_and_predicts_fast_motion(data_folder):
    r = robot.load(FOLDER)
    assert len(r.parameters) == 49
    (log,) = read.read_all([data_folder / "go2" / "go2_air_dev.npz"], r)
    whole = trajectory.trajectory(log, r)
    assert "joint/RL_calf_joint/position" in log.channels
    ((slow,), (fast,)) = study.split([whole], 1 / 3)
    config = IdentifyConfig(method="fd", iterations=4)
    found = study.study(r, [slow], config, held_out=[fast])
    assert found.holdout is not None
    assert found.holdout_nominal is not None
    held, nominal = (s.scores.kinds[ANGLES].rmse for s in (found.holdout, found.holdout_nominal))
    assert held < 0.5 * nominal

    simulator = world.make(r, "mujoco")
    windows = study.windows(simulator, [whole], 0.0)
    assert len(windows.qpos) == 1
    errors = [
        study.replay(simulator, theta, windows).scores.kinds[ANGLES].rmse
        for theta in (np.array(r.parameters.nominal), found.fit.posterior.value)
    ]
    assert errors[0] == pytest.approx(14.5e-3, abs=0.5e-3)
    assert errors[1] < 7.0e-3
    delay = r.parameters.index("latency/action")
    assert found.fit.posterior.at_bound[delay]
    assert found.fit.posterior.value[delay] == 0.0
