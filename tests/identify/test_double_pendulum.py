"""A real double pendulum from seven logs, judged on a fast one that the fit has not seen.

The bound is the figure of the data's README for its authors' own model: 0.063 rad over all logs,
0.060 rad in the swing-up.
"""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from s2r_jax import robot
from s2r_jax.identify import study
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.logs import read, trajectory
from s2r_jax.sim import world

FOLDER = Path(__file__).parents[2] / "examples" / "double_pendulum"
ANGLES = "joint position [rad, m]"


def test_rotors_enter_the_inertia_matrix_as_in_the_authors_equations():
    model = robot.load(FOLDER).model
    gear, rotor = 6.0, 6.07e-5  # kg m2, before the gear: the motor's data sheet

    def inertia():
        data = mujoco.MjData(model)
        data.qpos[:] = (0.4, -1.1)
        mujoco.mj_forward(model, data)
        full = np.zeros((2, 2))
        mujoco.mj_fullM(model, data, full)
        return full

    with_rotors = inertia()
    model.dof_armature[:] = 0.0
    model.tendon_armature[:] = 0.0
    expected = rotor * np.array([[gear**2 + 1, -gear], [-gear, gear**2]])
    np.testing.assert_allclose(with_rotors - inertia(), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.slow
def test_a_double_pendulum_is_identified_from_slow_motion_and_predicts_a_swing_up(data_folder):
    r = robot.load(FOLDER)
    files = sorted((data_folder / "double_pendulum" / "sysid").glob("*.npz"))
    logs = [trajectory.trajectory(log, r) for log in read.read_all(files, r)]
    assert len(logs) == 7
    slow, fast = logs[:-1], logs[-1:]
    assert "154220" in fast[0].name
    found = study.study(r, slow, IdentifyConfig(method="fd", iterations=3), held_out=fast)
    assert found.holdout is not None
    assert found.holdout.scores.kinds[ANGLES].rmse < 0.055

    simulator = world.make(r, "mujoco")
    windows = study.windows(simulator, logs, 0.5)
    theta = found.fit.posterior.value
    assert study.replay(simulator, theta, windows).scores.kinds[ANGLES].rmse < 0.045
