"""The column map: units, frames, orders, and the message of every mistake."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from s2r_jax.errors import BadLog, BadValue, MissingKey, S2RError, UnknownName
from s2r_jax.logs.columns import parse
from s2r_jax.logs.read import read
from s2r_jax.logs.units import UNITS
from tests.logs.robots import CUBE, PAIR, SERVO, Maker

TIME = np.arange(4) * 0.1


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path / "a.npz", **arrays)
    return path / "a.npz"


@pytest.mark.parametrize(
    ("channel", "unit", "expected"),
    [
        ("joint/hinge/position", "rad", 2.0),
        ("joint/hinge/position", "deg", 2 * np.pi / 180),
        ("joint/hinge/position", "rev", 4 * np.pi),
        ("joint/hinge/velocity", "rpm", 2 * 2 * np.pi / 60),
        ("joint/hinge/velocity", "deg/s", 2 * np.pi / 180),
        ("battery/voltage", "mV", 0.002),
        ("body/arm/position", "mm", 0.002),
        ("motor/servo/duty", "%", 0.02),
        ("command/servo/target", "mN m", 0.002),
    ],
)
def test_units_become_si(
    channel: str, unit: str, expected: float, make_robot: Maker, tmp_path: Path
):
    robot = make_robot(SERVO, {channel: {"column": "x", "unit": unit}})
    shape = (4, 3) if channel.startswith("body") else 4
    (log,) = read(save(tmp_path, time=TIME, x=np.full(shape, 2.0)), robot)
    assert_allclose(log.channels[channel], expected, rtol=1e-15)


@pytest.mark.parametrize(("unit", "second"), [("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_time_units(unit: str, second: float, make_robot: Maker, tmp_path: Path):
    time = {"column": "t", "unit": unit}
    robot = make_robot(SERVO, {"joint/hinge/position": "x"}, logs={"time": time})
    stamps = 1_700_000_000_000_000_000 + np.arange(4) * round(second / 8)
    (log,) = read(save(tmp_path, t=stamps if unit == "ns" else stamps - stamps[0], x=TIME), robot)
    # A time since 1970 in float64 is good to 0.24 µs.
    assert_allclose(np.diff(log.time), 0.125, atol=3e-7)


def test_scale_and_offset_are_in_the_unit_of_the_column(make_robot: Maker, tmp_path: Path):
    spec = {"column": "ticks", "unit": "deg", "scale": 360 / 4096, "offset": -180}
    robot = make_robot(SERVO, {"joint/hinge/position": spec})
    (log,) = read(save(tmp_path, time=TIME, ticks=np.array([0, 1024, 2048, 4095])), robot)
    expected = np.array([-np.pi, -np.pi / 2, 0, np.pi - 2 * np.pi / 4096])
    assert_allclose(log.channels["joint/hinge/position"], expected, atol=1e-15)


def test_contract_turns_the_machines_frame_into_the_models(make_robot: Maker, tmp_path: Path):
    # machine = sign * (model - offset)
    names = ["joint/elbow/position", "joint/elbow/velocity", "motor/lower_motor/torque",
             "motor/lower_motor/duty", "command/lower_motor/target", "command/lower_motor/torque",
             "command/lower_motor/kp"]  # fmt: skip
    joints = {"elbow": {"sign": -1, "offset": 0.5}}
    robot = make_robot(PAIR, dict.fromkeys(names, "x"), kind="pd", joints=joints)
    (log,) = read(save(tmp_path, time=TIME, x=TIME), robot)
    expected = [0.5 - TIME, -TIME, -TIME, -TIME, 0.5 - TIME, -TIME, TIME]
    for name, values in zip(names, expected, strict=True):
        assert_allclose(log.channels[name], values, atol=1e-15, err_msg=name)
    assert_allclose(-1 * (log.channels["joint/elbow/position"] - 0.5), TIME, atol=1e-15)


def test_torque_targets_are_not_offset_by_an_angle(make_robot: Maker, tmp_path: Path):
    joints = {"elbow": {"sign": -1, "offset": 0.5}}
    columns = {"command/lower_motor/target": "x"}
    robot = make_robot(PAIR, columns, kind="torque", joints=joints)
    (log,) = read(save(tmp_path, time=TIME, x=TIME), robot)
    assert_array_equal(log.channels["command/lower_motor/target"], -TIME)


FORCE = {"column": "x", "unit": "N"}
NATIVE = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body name="cart">
      <joint name="rail" type="slide" axis="1 0 0"/>
      <geom size="0.1"/>
      <body name="pole"><joint name="hinge" axis="0 1 0"/><geom size="0.1" pos="0 0 1"/></body>
      <body name="arm"><joint name="swing" axis="0 1 0"/><geom size="0.1" pos="0 0 1"/></body>
    </body>
  </worldbody>
  <actuator>
    <position name="servo" joint="swing" kp="5"/>
    <motor name="push" joint="rail"/>
  </actuator>
</mujoco>
"""


def test_native_actuators_have_an_offset_where_they_hold_an_angle(
    make_robot: Maker, tmp_path: Path
):
    columns = {"command/servo/target": "x", "command/push/target": "x", "motor/push/torque": FORCE}
    joints = {"swing": {"offset": 0.25}, "rail": {"offset": 0.5, "sign": -1}}
    robot = make_robot(NATIVE, columns, kind="native", joints=joints)
    (log,) = read(save(tmp_path, time=TIME, x=TIME), robot)
    assert_array_equal(log.channels["command/servo/target"], TIME + 0.25)
    assert_array_equal(log.channels["command/push/target"], -TIME)
    assert_array_equal(log.channels["motor/push/torque"], -TIME)


def test_glob_ranges_over_the_contract_only(make_robot: Maker, tmp_path: Path):
    robot = make_robot(NATIVE, {"joint/*/velocity": "q"}, kind="native")
    q = np.arange(8.0).reshape(4, 2)
    (log,) = read(save(tmp_path, time=TIME, q=q), robot)
    assert_array_equal(log.channels["joint/swing/velocity"], q[:, 0])  # the first actuator's
    assert_array_equal(log.channels["joint/rail/velocity"], q[:, 1])
    assert len(log.channels) == 2
    passive = NATIVE[: NATIVE.index("<actuator>")] + "</mujoco>"
    robot = make_robot(passive, {"joint/*/velocity": "q"})
    (log,) = read(save(tmp_path, time=TIME, q=np.zeros((4, 3))), robot)
    assert len(log.channels) == 3


def test_window_of_rows_without_times(make_robot: Maker, tmp_path: Path):
    columns = {"body/cube/position": "p"}
    logs = {"time": {"step": 0.1}, "split": "offsets"}
    robot = make_robot(CUBE, columns, logs=logs)
    p = np.arange(24.0).reshape(8, 3)
    path = save(tmp_path, p=p, offsets=np.array([0, 4, 8]))
    first, second = read(path, robot, start=0.1, stop=0.25)
    assert_allclose(first.time, [0.1, 0.2])
    assert_array_equal(second.channels["body/cube/position"], p[5:7])


def test_glob_takes_the_order_of_the_contract(make_robot: Maker, tmp_path: Path):
    robot = make_robot(PAIR, {"joint/*/position": "q", "command/*/target": {"columns": ["b", "a"]}})
    q = np.arange(8.0).reshape(4, 2)
    (log,) = read(save(tmp_path, time=TIME, q=q, a=TIME, b=-TIME), robot)
    assert list(log.channels)[:2] == ["joint/shoulder/position", "joint/elbow/position"]
    assert_array_equal(log.channels["joint/elbow/position"], q[:, 1])
    assert_array_equal(log.channels["command/lower_motor/target"], TIME)


@pytest.mark.parametrize("names", ["joints", ["spare", "elbow", "shoulder"]])
def test_names_permute_the_columns(names: Any, make_robot: Maker, tmp_path: Path):
    spec = {"column": "q", "names": names}
    robot = make_robot(PAIR, {"joint/*/position": spec, "command/*/target": spec})
    q = np.arange(12.0).reshape(4, 3)
    joints = np.array(["spare", "elbow", "shoulder"])
    (log,) = read(save(tmp_path, time=TIME, q=q, joints=joints), robot)
    assert_array_equal(log.channels["joint/shoulder/position"], q[:, 2])
    assert_array_equal(log.channels["joint/elbow/position"], q[:, 1])
    assert_array_equal(log.channels["command/upper_motor/target"], q[:, 2])
    wrong = save(tmp_path, time=TIME, q=q, joints=np.array(["spare", "elbow", "elbow"]))
    if isinstance(names, str):
        with pytest.raises(BadLog) as caught:
            read(wrong, robot)
        assert str(caught.value) == (
            f"{wrong}: column 'q': none of its columns is named shoulder; "
            "the names are spare, elbow, elbow"
        )


def test_constants_fill_every_row(make_robot: Maker, tmp_path: Path):
    robot = make_robot(PAIR, {"command/*/kp": "kp", "command/*/kd": "kd", "battery/voltage": "v"})
    path = save(tmp_path, time=TIME, kp=np.array([20.0, 30.0]), kd=np.array([0.5, 0.25]), v=24)
    (log,) = read(path, robot)
    assert_array_equal(log.channels["command/lower_motor/kp"], [30.0] * 4)
    assert_array_equal(log.channels["battery/voltage"], [24.0] * 4)


def test_quaternion_order(make_robot: Maker, tmp_path: Path):
    spec = {"column": "q", "order": "xyzw"}
    robot = make_robot(CUBE, {"body/cube/orientation": spec})
    q = np.tile([0.1, 0.2, 0.3, 0.9273618495495703], (4, 1))
    (log,) = read(save(tmp_path, time=TIME, q=q), robot)
    assert_array_equal(log.channels["body/cube/orientation"], q[:, [3, 0, 1, 2]])
    with pytest.raises(BadLog, match=r"column 'q': row 0 is \[2\. 0\. 0\. 0\.\], no unit quat"):
        read(save(tmp_path, time=TIME, q=np.tile([0, 0, 0, 2.0], (4, 1))), robot)


def test_vector_from_scalars_and_rows_from_offsets(make_robot: Maker, tmp_path: Path):
    columns = {"body/cube/position": {"columns": ["x", "y", "z"], "unit": "cm"}}
    logs = {"time": {"step": "dt", "unit": "ms"}, "split": "offsets"}
    robot = make_robot(CUBE, columns, logs=logs)
    x = np.arange(5.0)
    path = save(tmp_path, dt=20.0, offsets=np.array([0, 2, 5]), x=x, y=-x, z=2 * x)
    first, second = read(path, robot)
    assert (first.name, second.name) == (f"{path}[0]", f"{path}[1]")
    assert_allclose(second.time, [0, 0.02, 0.04])
    assert_allclose(second.channels["body/cube/position"], np.outer(x[2:], [0.01, -0.01, 0.02]))
    with pytest.raises(BadLog) as caught:
        read(save(tmp_path, dt=20.0, offsets=np.array([0, 2, 4]), x=x, y=x, z=x), robot)
    expected = f"{path}: column 'offsets': goes from 0 to 4, but the rows from 0 to 5"
    assert str(caught.value) == expected


def test_optional_columns_may_be_missing(make_robot: Maker, tmp_path: Path):
    columns = {"joint/hinge/position": "q", "battery/voltage": {"column": "v", "optional": True}}
    (log,) = read(save(tmp_path, time=TIME, q=TIME), make_robot(SERVO, columns))
    assert log.channels.keys() == {"joint/hinge/position"}


OK = {"joint/hinge/position": "q"}
QUATERNIONS = "wxyz or xyzw, of a quaternion"


@pytest.mark.parametrize(
    ("columns", "logs", "error", "message"),
    [
        ({}, {}, BadValue, "logs: columns is {}, expected at least one channel"),
        ({}, {"tim": 1}, UnknownName, "logs: unknown key 'tim'; did you mean 'time'? available:"),
        ({}, {"time": {}}, BadValue, "logs: time is {}, expected either 'column' or 'step'"),
        ({}, {"time": {"step": -1.0}}, BadValue,
         "logs: time: step is -1.0, expected a positive number, or a constant of the file"),
        (OK, {"time": {"column": "t", "unit": "deg"}}, BadValue,
         "logs: time: unit is 'deg', expected a unit of time: 1, s, ms, us, ns"),
        ({}, {"gaps": "skip"}, UnknownName, "gaps: unknown value 'skip'; available: error, mask"),
        ({"joint/hing/position": "q"}, {}, UnknownName,
         "unknown channel 'joint/hing/position'; did you mean 'joint/hinge/position'?"),
        ({"joint/*/angle": "q"}, {}, UnknownName, "unknown channel 'joint/*/angle'"),
        ({"joint/*/*": "q"}, {}, BadValue, "expected a glob over one kind of channel; it has"),
        ({"joint/hinge/position": {"col": "q"}}, {}, UnknownName, "unknown key 'col'"),
        ({"joint/hinge/position": {}}, {}, MissingKey, "the key 'column' is required"),
        ({"joint/hinge/position": {"column": "q", "unit": "furlong"}}, {}, UnknownName,
         f"unknown unit 'furlong'; available: {', '.join(sorted(UNITS))}"),
        ({"joint/hinge/position": {"column": "q", "unit": "V"}}, {}, BadValue,
         "unit is 'V', expected a unit of angle: 1, rad, deg, rev"),
        ({"joint/hinge/position": {"column": "q", "signed": 12}}, {}, BadValue,
         "signed is 12, expected a number of bits: 8, 16, 32"),
        ({"joint/hinge/position": {"column": "q", "order": "xyzw"}}, {}, BadValue, QUATERNIONS),
        ({"joint/hinge/position": {"column": 3}}, {}, BadValue, "column is 3, expected a name or"),
        ({"joint/hinge/position": {"columns": ["a", "b"]}}, {}, BadValue,
         "columns is ['a', 'b'], expected 1 columns, for joint/hinge/position"),
        ({"joint/hinge/position": "q", "joint/*/position": "q"}, {}, BadValue,
         "expected one entry a channel; 'joint/hinge/position' has it too"),
    ],
)  # fmt: skip
def test_mistakes_in_the_map_are_named(
    columns: dict, logs: dict, error: type[S2RError], message: str, make_robot: Maker
):
    robot = make_robot(SERVO, columns, logs=logs)
    with pytest.raises(error) as caught:
        parse(robot)
    assert message in str(caught.value)
    assert robot.file in str(caught.value)


def test_a_map_is_required(make_robot: Maker, tmp_path: Path):
    with pytest.raises(MissingKey, match=r"robot.yaml: logs: the key 'time' is required"):
        read(save(tmp_path, time=TIME), make_robot(SERVO))


MAPPED = {"joint/hinge/position": "q", "command/servo/target": "u"}
NAN = np.array([0.0, np.nan, 1.0, 2.0])
HINT = "; 'gaps: mask' in robot.yaml's logs allows missing samples of measured signals"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"q": TIME}, "column 'u': is missing; the file has q, time"),
        ({"u": TIME}, "column 'q': is missing; the file has time, u"),
        ({"q": TIME, "u": TIME, "time": None}, "column 'time': is missing; the file has q, u"),
        ({"q": NAN, "u": TIME}, f"column 'q': row 1 is nan, expected a number{HINT}"),
        ({"q": TIME, "u": NAN}, "column 'u': row 1 is nan, expected a number"),
        ({"q": TIME, "u": TIME, "time": NAN}, "column 'time': row 1 is nan, expected a time"),
        ({"q": TIME, "u": [1, 2, 3, np.inf]}, "column 'u': row 3 is inf, expected a number"),
        ({"q": TIME, "u": TIME, "time": [0.0, 0.1, 0.1, 0.2]},
         "column 'time': row 2 repeats 0.1 s after 0.1 s"),
        ({"q": TIME, "u": TIME, "time": [0.0, 0.1, 0.2, 0.1]},
         "column 'time': row 3 goes back to 0.1 s after 0.2 s"),
        ({"q": TIME[:3], "u": TIME}, "column 'q': has shape (3,), but there are 4 rows"),
        ({"q": np.zeros((4, 2)), "u": TIME},
         "column 'q': has 2 entries a row, expected 1 (joint/hinge/position)"),
        ({"q": list("abcd"), "u": TIME}, "column 'q': holds <U1, e.g. a; expected numbers"),
        ({"q": 1j * TIME, "u": TIME}, "column 'q': holds complex128, e.g. 0j; expected numbers"),
        ({"q": [], "u": [], "time": []}, "the file is empty"),
        ({"q": [1.0], "u": [1.0], "time": [0.0]}, "a single row, expected at least 2"),
    ],
)  # fmt: skip
def test_bad_content_is_named(arrays: dict, message: str, make_robot: Maker, tmp_path: Path):
    arrays = {"time": TIME} | arrays
    path = save(tmp_path, **{k: np.array(v) for k, v in arrays.items() if v is not None})
    with pytest.raises(BadLog) as caught:
        read(path, make_robot(SERVO, MAPPED))
    assert str(caught.value) == f"{path}: {message}"


def test_gaps_mask_allows_missing_measurements_only(make_robot: Maker, tmp_path: Path):
    robot = make_robot(SERVO, MAPPED, logs={"gaps": "mask"})
    (log,) = read(save(tmp_path, time=TIME, q=NAN, u=TIME), robot)
    assert_array_equal(log.channels["joint/hinge/position"], NAN)
    with pytest.raises(BadLog, match="column 'u': row 1 is nan"):
        read(save(tmp_path, time=TIME, q=TIME, u=NAN), robot)
    with pytest.raises(BadLog, match="column 'q': row 1 is inf"):
        read(save(tmp_path, time=TIME, q=[0, np.inf, 0, 0], u=TIME), robot)
    with pytest.raises(BadLog, match="column 'q': has not one number"):
        read(save(tmp_path, time=TIME, q=np.full(4, np.nan), u=TIME), robot)


def test_counts_that_are_none_are_refused(make_robot: Maker, tmp_path: Path):
    robot = make_robot(SERVO, {"motor/servo/duty": {"column": "load", "signed": 16}})
    (log,) = read(save(tmp_path, time=TIME, load=np.array([0, 1, 32768, 65535])), robot)
    assert_array_equal(log.channels["motor/servo/duty"], [0, 1, -32768, -1])
    with pytest.raises(BadLog, match="row 1 is -5, no unsigned count of 16 bits"):
        read(save(tmp_path, time=TIME, load=np.array([0, -5, 0, 0])), robot)


def test_an_empty_window_says_how_long_the_log_is(make_robot: Maker, tmp_path: Path):
    robot = make_robot(SERVO, MAPPED)
    path = save(tmp_path, time=TIME, q=TIME, u=TIME)
    with pytest.raises(BadLog) as caught:
        read(path, robot, start=5.0, stop=6.0)
    assert "0 rows from 5 s to 6 s, expected at least 2; the recording lasts 0.3 s" in str(
        caught.value
    )
