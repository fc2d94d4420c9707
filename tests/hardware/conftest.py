import pytest

# The engine is imported on demand; CPython 3.11.7 may fail to compile a module in mid-test under
# the import hook ("AST constructor recursion depth mismatch", gh-106905), so it comes first.
import s2r_jax.sim.engines.c  # noqa: F401
from tests.hardware import bench


@pytest.fixture(scope="session")
def robot(tmp_path_factory):
    return bench.load(tmp_path_factory.mktemp("bench"))
