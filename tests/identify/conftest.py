import pytest

from s2r_jax import robot
from tests.identify import springs


@pytest.fixture
def spring(tmp_path):
    """Loads the robot of `springs.folder` with the parameters that are given."""

    def make(*parameters, **changes):
        return robot.load(springs.folder(tmp_path, *parameters, **changes))

    return make
