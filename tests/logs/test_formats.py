"""The same rows in any format are the same log."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.testing import assert_array_equal

from s2r_jax import robot
from s2r_jax.errors import BadLog, BadValue, MissingFile
from s2r_jax.logs import tabular
from s2r_jax.logs.read import READERS, read, read_all
from tests.logs.robots import PAIR, SERVO, Maker

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COLUMNS = {
    "joint/hinge/position": {"column": "angle", "unit": "deg"},
    "command/servo/target": "tau",
    "command/servo/enabled": {"column": "on", "unit": "bool"},
}
TIME = np.array([0.0, 0.1, 0.25, 0.3])
ANGLE = np.array([0.0, 90.0, -180.0, 45.0])
TAU = np.array([1, 2, 3, 4])
ON = np.array([True, True, False, True])


def write(path: Path, columns: dict) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **columns)
    elif path.suffix == ".parquet":
        pa.parquet.write_table(pa.table(columns), path, row_group_size=2)
    elif path.suffix == ".csv":
        rows = zip(*[list(v) for v in columns.values()], strict=True)
        lines = [",".join(columns), *[",".join(str(cell) for cell in row) for row in rows]]
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text(json.dumps({k: np.asarray(v).tolist() for k, v in columns.items()}))
    return path


@pytest.fixture(params=[".csv", ".parquet", ".npz", ".json"])
def ending(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def servo(make_robot: Maker) -> robot.Robot:
    return make_robot(SERVO, COLUMNS)


def test_every_format_gives_the_same_log(servo: robot.Robot, tmp_path: Path, ending: str):
    path = write(tmp_path / f"a{ending}", {"time": TIME, "angle": ANGLE, "tau": TAU, "on": ON})
    (log,) = read(path, servo)
    assert log.name == str(path)
    assert_array_equal(log.time, TIME)
    assert log.channels.keys() == COLUMNS.keys()
    assert_array_equal(log.channels["joint/hinge/position"], np.pi / 180 * ANGLE)
    assert_array_equal(log.channels["command/servo/target"], [1.0, 2.0, 3.0, 4.0])
    assert_array_equal(log.channels["command/servo/enabled"], [1.0, 1.0, 0.0, 1.0])


def test_time_window_counts_from_the_first_row(servo: robot.Robot, tmp_path: Path, ending: str):
    columns = {"time": 100 + TIME, "angle": ANGLE, "tau": TAU, "on": ON}
    (log,) = read(write(tmp_path / f"a{ending}", columns), servo, start=0.05, stop=0.28)
    assert_array_equal(log.time, 100 + TIME[1:3])
    assert_array_equal(log.channels["command/servo/target"], [2.0, 3.0])


def test_pieces_of_a_large_file_join_to_the_whole(make_robot: Maker, tmp_path: Path):
    servo = make_robot(SERVO, COLUMNS)
    rows = 200_000  # more than a batch of Parquet holds
    time = np.arange(rows) * 0.001
    columns = {"time": time, "angle": np.sin(time), "tau": time, "on": time < 5}
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table(columns), path, row_group_size=50_000)
    (log,) = read(path, servo)
    assert_array_equal(log.time, time)
    (log,) = read(path, servo, start=150.0, stop=180.0)
    assert_array_equal(log.time, time[150_000:180_000])
    assert_array_equal(log.channels["command/servo/target"], log.time)


def test_rows_are_numbered_through_pieces_and_windows(make_robot: Maker, tmp_path: Path):
    servo = make_robot(SERVO, {"joint/hinge/position": "q"})
    time = np.arange(200_000) * 0.001
    q = np.where(np.arange(200_000) == 150_017, np.nan, time)
    pa.parquet.write_table(pa.table({"time": time, "q": q}), tmp_path / "a.parquet")
    for start in (0.0, 20.0, 149.0):
        with pytest.raises(BadLog, match="column 'q': row 150017 is nan"):
            read(tmp_path / "a.parquet", servo, start=start)


def test_cells_are_quoted_with_their_row(
    make_robot: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tabular, "BLOCK", 4096)
    servo = make_robot(SERVO, {"joint/hinge/position": "q"})
    rows = [f"{row * 0.01:.2f},{'1.2.3' if row == 2500 else row}" for row in range(3000)]
    (tmp_path / "a.csv").write_text("\n".join(["time,q", *rows]))
    with pytest.raises(BadLog, match=r"column 'q': row 2500 is '1\.2\.3', expected a number"):
        read(tmp_path / "a.csv", servo)


def test_a_field_that_a_record_lacks_is_missing(make_robot: Maker, tmp_path: Path):
    servo = make_robot(SERVO, {"joint/hinge/position": "q"})
    records = [{"time": 0.0, "q": 1.0}, {"time": 0.1}, {"time": 0.2, "q": None}]
    (tmp_path / "a.json").write_text(json.dumps(records))
    with pytest.raises(BadLog, match="column 'q': row 1 is nan"):
        read(tmp_path / "a.json", servo)


def test_json_and_npz_of_the_servo_bench_are_the_same_logs(data_folder: Path):
    xl330 = robot.load(EXAMPLES / "xl330")
    paths = sorted((data_folder / "xl330").glob("*.npz"))
    raw = [path.parent / "raw" / f"{path.stem}.json" for path in paths]
    assert len(paths) == 11
    for left, right in zip(read_all(paths, xl330), read_all(raw, xl330), strict=True):
        assert_array_equal(left.time, right.time)
        assert left.channels.keys() == right.channels.keys() == xl330.logs["columns"].keys()
        for name, values in left.channels.items():
            assert_array_equal(values, right.channels[name], err_msg=name)


def test_unsigned_counts_become_signed(make_robot: Maker, data_folder: Path):
    duty = {"motor/servo/duty": {"column": "duty"}}
    counts = {"motor/servo/duty": {"column": "load", "signed": 16, "scale": 1 / 885}}
    time = {"time": {"column": ["time", "timestamp"]}}
    npz = data_folder / "xl330" / "2026-01-15_10h28m49.npz"
    (left,) = read(npz, make_robot(SERVO, duty, logs=time))
    raw = npz.parent / "raw" / f"{npz.stem}.json"
    (right,) = read(raw, make_robot(SERVO, counts, logs=time))
    assert left.channels["motor/servo/duty"].min() < -0.5  # the case that unsigned would get wrong
    np.testing.assert_allclose(
        left.channels["motor/servo/duty"], right.channels["motor/servo/duty"], atol=1e-15
    )


@pytest.mark.parametrize(
    "document",
    [
        [{"time": t, "m": {"q": q}} for t, q in zip(TIME, ANGLE, strict=True)],
        {"kp": 5, "rows": [{"time": t, "m": {"q": q}} for t, q in zip(TIME, ANGLE, strict=True)]},
        {"time": TIME.tolist(), "m": {"q": ANGLE.tolist()}},
    ],
    ids=["list of records", "records among constants", "object of arrays"],
)  # fmt: skip
def test_json_layouts(document: object, make_robot: Maker, tmp_path: Path):
    servo = make_robot(SERVO, {"joint/hinge/position": "m.q"})
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    (log,) = read(path, servo)
    assert_array_equal(log.time, TIME)
    assert_array_equal(log.channels["joint/hinge/position"], ANGLE)


def test_list_columns_of_parquet_are_vectors(make_robot: Maker, tmp_path: Path):
    pair = make_robot(PAIR, {"joint/*/position": "q"})
    table = pa.table({"time": [0.0, 1.0], "q": [[1.0, 2.0], [3.0, 4.0]]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    (log,) = read(tmp_path / "a.parquet", pair)
    assert_array_equal(log.channels["joint/elbow/position"], [2.0, 4.0])


@pytest.mark.parametrize("separator", [",", ";", "\t", " , "])
def test_csv_separators_and_spaces(separator: str, make_robot: Maker, tmp_path: Path):
    servo = make_robot(SERVO, {"joint/hinge/position": "q"})
    rows = [["time", "q", "note"], ["0", "1.5", "x"], ["0.5", "-2e-3", "y"]]
    (tmp_path / "a.csv").write_text("\n".join(separator.join(row) for row in rows))
    (log,) = read(tmp_path / "a.csv", servo)
    assert_array_equal(log.channels["joint/hinge/position"], [1.5, -0.002])


def test_damaged_files_say_which(servo: robot.Robot, tmp_path: Path, ending: str):
    path = tmp_path / f"a{ending}"
    path.write_bytes(b"")
    with pytest.raises(BadLog, match=r"a\.\w+: (the file is empty|no readable)"):
        read(path, servo)
    whole = write(tmp_path / f"b{ending}", {"time": TIME, "angle": ANGLE, "tau": TAU, "on": ON})
    path.write_bytes(whole.read_bytes()[:-9])
    with pytest.raises(BadLog, match=r"a\.\w+: "):
        read(path, servo)


def test_objects_in_npz_are_not_unpickled(servo: robot.Robot, tmp_path: Path):
    np.savez(tmp_path / "a.npz", time=np.array([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(BadLog, match="no readable NPZ file: Object arrays cannot be loaded"):
        read(tmp_path / "a.npz", servo)


def test_unknown_ending_lists_the_known(servo: robot.Robot, tmp_path: Path):
    (tmp_path / "a.pkl").touch()
    with pytest.raises(BadValue) as caught:
        read(tmp_path / "a.pkl", servo)
    assert str(caught.value) == (
        f"{tmp_path / 'a.pkl'}: ending is '.pkl', expected one of {', '.join(READERS)}"
    )
    with pytest.raises(MissingFile, match=r"b\.csv: no such log"):
        read(tmp_path / "b.csv", servo)
    with pytest.raises(MissingFile, match="name at least one file"):
        read_all([], servo)
