import numpy as np
import pytest

from s2r_jax.validate.config import ValidateConfig
from s2r_jax.validate.figures import figure
from tests.validate.cases import PARAMETERS, sweep


def drawn(worlds, path):
    picture = figure(worlds, PARAMETERS, ValidateConfig())
    picture.savefig(path, dpi=40)
    return picture.axes


def test_failures_are_drawn_over_what_they_share(tmp_path):
    worlds = sweep()
    # Friction moves the return, but latency decides over success.
    worlds = worlds._replace(success=worlds.theta[:, 1] < 0.04)
    left, right = drawn(worlds, tmp_path / "a.png")
    assert right.get_xlabel() == "latency/action [s]"
    assert right.get_title("left") == f"{worlds.success.sum()} of 400 succeed"
    counts = [len(points.get_offsets()) for points in right.collections]
    assert counts == [worlds.success.sum(), (~worlds.success).sum()]
    everyone, worst = (sum(bar.get_height() for bar in bars) for bars in left.containers)
    assert (everyone, worst) == (400, 20)  # the worst 5 %


def test_without_failures_the_return_chooses(tmp_path):
    _, right = drawn(sweep(friction_limit=1.1), tmp_path / "a.png")
    assert right.get_xlabel() == "motor/hip/friction [N m]"


def test_worlds_that_are_not_finite_are_named(tmp_path):
    worlds = sweep()
    worlds.reward[:3], worlds.is_finite[:3] = np.nan, False
    left, _ = drawn(worlds, tmp_path / "a.png")
    assert left.get_title("left") == "Returns in 400 worlds, 3 not finite"


@pytest.mark.parametrize("count", [1, 3])
def test_few_or_equal_worlds_can_be_drawn(count, tmp_path):
    worlds = sweep(count)
    still = worlds._replace(theta=np.tile(worlds.theta[:1], (count, 1)))
    _, right = drawn(still, tmp_path / "a.png")
    assert "no parameter varies" in right.get_title("left")
