"""Motor delay and thrust curve of a real Crazyflie from one flight.

The bound is that of the data's README: 0.013 N, lag between 0.07 and 0.08 s, found on a grid.
"""

from pathlib import Path

import numpy as np
import pytest

from s2r_jax import robot
from s2r_jax.identify import study
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.logs import read, trajectory
from s2r_jax.sim import world

FOLDER = Path(__file__).parents[2] / "examples" / "crazyflie"
FORCE = "sensor/thrust"


@pytest.mark.slow
def test_thrust_of_a_crazyflie_is_predicted_from_its_motor_signals(data_folder):
    r = robot.load(FOLDER)
    file = data_folder / "crazyflie" / "log10.npz"
    first = float(np.load(file)["time"][0])
    (log,) = read.read(file, r, 35 - first, 50 - first)
    flight = trajectory.trajectory(log, r)
    config = IdentifyConfig(method="fd", window=2.0, holdout=0.0, tolerance=1e-4)
    fit = study.study(r, [flight], config).fit
    theta = fit.posterior.value
    assert r.parameters.names[0] == "motor/*/lag"
    assert 0.068 < theta[0] < 0.080
    assert 1e-4 < fit.posterior.std[0] < 0.01

    simulator = world.make(r, "mujoco")
    whole = study.windows(simulator, [flight], 0.0)
    assert study.replay(simulator, theta, whole).scores.kinds[FORCE].rmse < 0.0130
    # The force varies by 0.0746 N, the data's README says.
    assert flight.measured[:, 0].std() == pytest.approx(0.0746, abs=0.002)
