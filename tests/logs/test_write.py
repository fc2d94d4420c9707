"""What we write, we read back bit by bit, and nobody sees half a file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from s2r_jax.errors import BadValue, UnknownName
from s2r_jax.logs.read import read
from s2r_jax.logs.write import write_csv, write_npz, write_parquet
from s2r_jax.types import Log
from tests.logs.robots import CUBE, PAIR, SERVO, Maker

WRITERS = {".npz": write_npz, ".csv": write_csv, ".parquet": write_parquet}
Writer = Callable[[Path, Log], None]


@pytest.fixture(params=list(WRITERS))
def ending(request: pytest.FixtureRequest) -> str:
    return request.param


def log_of_cube() -> Log:
    random = np.random.default_rng(0)
    position = random.normal(size=(50, 3))
    position[7] = np.nan
    channels = {"body/cube/position": position, "battery/voltage": random.normal(size=50)}
    return Log("toss", np.cumsum(random.uniform(0.001, 0.1, 50)), channels)


def test_round_trip_is_exact(ending: str, make_robot: Maker, tmp_path: Path):
    log, path = log_of_cube(), tmp_path / f"a{ending}"
    WRITERS[ending](path, log)
    (found,) = read(path, make_robot(CUBE))  # needs no column map
    assert_array_equal(found.time, log.time)
    assert found.channels.keys() == log.channels.keys()
    for name, values in log.channels.items():
        assert_array_equal(found.channels[name], values)
    assert sorted(file.name for file in tmp_path.glob("*a*")) == [path.name]


def test_own_files_are_in_the_models_frame_already(ending: str, make_robot: Maker, tmp_path: Path):
    columns = {"joint/elbow/position": {"column": "q", "unit": "deg"}}
    pair = make_robot(PAIR, columns, joints={"elbow": {"sign": -1, "offset": 0.5}})
    time = np.arange(5.0)
    WRITERS[ending](tmp_path / f"a{ending}", Log("a", time, {"joint/elbow/position": time}))
    (found,) = read(tmp_path / f"a{ending}", pair, start=1.0)
    assert_array_equal(found.channels["joint/elbow/position"], time[1:])


def test_log_of_another_robot_is_refused(ending: str, make_robot: Maker, tmp_path: Path):
    path = tmp_path / f"a{ending}"
    WRITERS[ending](path, log_of_cube())
    with pytest.raises(UnknownName) as caught:
        read(path, make_robot(SERVO))
    assert f"{path}: unknown channel 'body/cube/position'" in str(caught.value)


def test_interrupted_write_leaves_the_old_file(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / f"a{ending}"
    WRITERS[ending](path, log_of_cube())
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        WRITERS[ending](path, log_of_cube())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_channels_of_another_length_are_refused(ending: str, tmp_path: Path):
    log = Log("a", np.arange(3.0), {"battery/voltage": np.arange(4.0)})
    with pytest.raises(
        BadValue, match=r"battery/voltage is 'shape \(4,\)', expected one entry for"
    ):
        WRITERS[ending](tmp_path / "a", log)
    assert list(tmp_path.iterdir()) == []
