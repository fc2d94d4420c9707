"""Settings and data that all tests share."""

import os
from pathlib import Path

import jax
import pytest

from s2r_jax import backend

backend.prepare()
# A key that is used twice is a bug that no statistic shows.
jax.config.update("jax_debug_key_reuse", True)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Logs of real machines: `S2R_DATA`, or `shared/data` beside the repository."""
    given = os.environ.get("S2R_DATA")
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(given) if given else default
    if not folder.is_dir():
        message = f"{folder} holds no logs of real machines; set S2R_DATA"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests the longer limit that their marker stands for."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))
