"""A real cube thrown onto a table: contact from tosses, judged on whole tosses not fitted.

The bounds are the figures of the data's README for what others identified: 0.028 m and 21.5°.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from s2r_jax import robot
from s2r_jax.identify import study
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.logs import read, trajectory
from s2r_jax.sim import world

FOLDER = Path(__file__).parents[2] / "examples" / "cube"
POSITION, ROTATION = "body position [m]", "body rotation [rad]"


@pytest.fixture(scope="module")
def tosses(data_folder):
    r = robot.load(FOLDER)
    logs = read.read(data_folder / "cube" / "tosses_000_299.npz", r)
    assert len(logs) == 300
    return r, [trajectory.trajectory(log, r) for log in logs]


def errors(r, logs, **values):
    """Mean over tosses of the mean over frames, from the first row: position [m], rotation [°]."""
    simulator = world.make(r, "mujoco")
    segments = study.windows(simulator, logs, 0.0)
    kinds = study.replay(simulator, r.parameters.vector(values), segments).scores.kinds
    return kinds[POSITION].mae, np.degrees(kinds[ROTATION].mae)


@pytest.mark.slow
def test_errors_of_known_parameters_are_those_of_the_data(tosses):
    r, logs = tosses
    model = r.spec.copy().compile()
    model.opt.cone = 0  # the figures are of pyramids
    pyramids = dataclasses.replace(r, model=model)
    guess = {"geom/cube/friction": 0.3, "geom/cube/solref:0": -2000, "geom/cube/solref:1": -36}
    position, rotation = errors(pyramids, logs, **guess)
    # The data's figures count the first frame too, where the error is zero.
    share = np.mean([1 - 1 / len(log.measured) for log in logs])
    position, rotation = share * position, share * rotation
    assert position == pytest.approx(0.0367, abs=1e-4)
    assert rotation == pytest.approx(25.6, abs=0.2)


@pytest.mark.slow
def test_contact_of_a_cube_is_identified_and_predicts_other_tosses(tosses):
    r, logs = tosses
    config = IdentifyConfig(
        method="fd", step=0.05, robust=2.0, window=0.3, iterations=9, tolerance=3e-3,
        holdout=0.9, refit=False,
    )  # fmt: skip
    found = study.study(r, logs, config)
    assert len(found.names) == 30
    assert len(found.names_holdout) == 270
    assert not found.refitted
    values = r.parameters.named(found.fit.posterior.value)
    assert 0.15 < values["geom/cube/friction"] < 0.25
    unseen = [log for log in logs if log.name in found.names_holdout][::3]
    nominal = errors(r, unseen)
    identified = errors(r, unseen, **values)
    assert nominal[0] > 0.06
    assert identified[0] < 0.029
    assert identified[1] < 22.0
