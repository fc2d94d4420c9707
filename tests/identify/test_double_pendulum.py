"""A real double pendulum from six of its logs, judged on the one that the fit has not seen.

The bounds are the figures of the data's README for its authors' own model: 0.028 rad in the small
motion of 144003, 0.060 rad in the swing-up 154220.
"""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from s2r_jax import robot
from s2r_jax.identify import study
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.logs import read, trajectory

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
@pytest.mark.parametrize(("left_out", "authors"), [("144003", 0.028), ("154220", 0.060)])
def test_a_log_left_out_is_predicted_better_than_by_its_authors(data_folder, left_out, authors):
    r = robot.load(FOLDER)
    files = sorted((data_folder / "double_pendulum" / "sysid").glob("*.npz"))
    logs = [trajectory.trajectory(log, r) for log in read.read_all(files, r)]
    out = [log for log in logs if left_out in log.name]
    kept = [log for log in logs if left_out not in log.name]
    assert (len(kept), len(out)) == (6, 1)
    found = study.study(r, kept, IdentifyConfig(method="fd", profile=0), out)
    assert found.seen is not None
    assert found.holdout is not None
    assert found.seen.scores.kinds[ANGLES].rmse < 0.02
    assert found.holdout.scores.kinds[ANGLES].rmse < authors
