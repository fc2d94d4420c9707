import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.identify.segments import cut, select
from s2r_jax.types import Command, Trajectory


def trajectory(rows, name="log"):
    column = np.arange(rows, dtype=float)[:, None]
    command = Command(column, column * 0, column * 0, column * 0, column * 0 + 1, column[:, 0] * 0)
    return Trajectory(name, command, column * 10, column * 10, column * 0)


@pytest.mark.parametrize(("rows", "length"), [(21, 5), (23, 5), (3, 5), (21, 0)])
def test_windows_cover_every_sample_but_the_first_once(rows, length):
    s = cut([trajectory(rows)], length, held=3)
    seen = s.measured[s.weight > 0]
    assert_allclose(np.sort(seen), np.arange(1, rows) * 10)


def test_a_window_starts_from_its_own_row_and_knows_the_commands_before_it():
    s = cut([trajectory(11)], 5, held=3)
    assert_allclose(s.qpos[:, 0], [0, 50])
    assert_allclose(s.command.target[1, :, 0], [5, 6, 7, 8, 9])
    assert_allclose(s.past[1, :, 0, 0], [4, 3, 2])
    assert_allclose(s.past[0, :, 0, 0], [0, 0, 0])


def test_missing_measurements_weigh_nothing():
    t = trajectory(6)
    t.measured[3] = np.nan
    s = cut([t], 0, held=1)
    assert s.weight[0, :, 0].tolist() == [1, 1, 0, 1, 1]
    assert np.isfinite(s.measured).all()


def test_logs_of_different_length_stand_side_by_side():
    s = cut([trajectory(5), trajectory(9)], 0, held=1)
    assert s.measured.shape[:2] == (2, 8)
    assert s.weight.sum((1, 2)).tolist() == [4, 8]
    assert select(s, np.array([1])).log.tolist() == [1]
