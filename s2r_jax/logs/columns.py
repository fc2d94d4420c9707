"""The column map of robot.yaml: which column of a log is which channel, in which unit.

    logs:
      time: {column: [time, timestamp], unit: s}   # alternatives: the first that a file has
      split: offsets                               # trajectory i is rows offsets[i]:offsets[i + 1]
      gaps: mask                                   # missing samples of measured signals are allowed
      columns:
        joint/hinge/position: {column: angle, unit: deg}
        joint/*/velocity: {column: dq, names: joint_names}    # one column an actuated joint
        body/cube/position: {columns: [x, y, z], unit: mm}    # a vector from scalar columns
        battery/voltage: volts                                # SI

A column is in the machine's frame: the joint contract's sign and offset turn it into the model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from s2r_jax.document import matching
from s2r_jax.errors import BadValue, MissingKey, UnknownName
from s2r_jax.logs import units
from s2r_jax.logs.channels import Channel, channels
from s2r_jax.robot import Robot, mapping, number

TOP_KEYS = ("time", "split", "gaps", "columns")
COLUMN_KEYS = ("column", "columns", "unit", "scale", "offset", "signed", "optional", "names",
               "order")  # fmt: skip
GAPS = ("error", "mask")
ORDERS = ("wxyz", "xyzw")
BITS = (8, 16, 32)


@dataclass(frozen=True)
class Column:
    """One entry of the map: columns of a file and the channels that they fill."""

    place: str
    channels: tuple[Channel, ...]
    """In the order of the array's columns."""
    sources: tuple[str, ...]
    """Alternatives; the first that the file has."""
    stacked: tuple[str, ...]
    """Scalar columns that together make the array; empty where there is one source."""
    factor: float
    scale: float
    offset: float
    signed: int
    """Bits of an unsigned count that stands for a signed one; 0 for none."""
    is_optional: bool
    names: str | tuple[str, ...]
    """The constant of the file, or the list, that names the array's columns."""
    order: str
    """Of a quaternion."""

    @property
    def width(self) -> int:
        """Number of columns of the array."""
        return sum(channel.size for channel in self.channels)


@dataclass(frozen=True)
class LogMap:
    """The `logs` entry of a robot.yaml, checked."""

    place: str
    time: tuple[str, ...]
    """Alternatives for the column of time; empty where rows are evenly spaced."""
    step: str | float
    """Without a time column: seconds between rows, or the constant of the file that says it."""
    time_factor: float
    split: str
    """Column of offsets; empty for none."""
    is_masking: bool
    columns: tuple[Column, ...]

    @property
    def wanted(self) -> frozenset[str]:
        """Every column that the map may read."""
        found = {*self.time, self.split, self.step}
        for column in self.columns:
            found |= {*column.sources, *column.stacked}
            found |= {column.names} if isinstance(column.names, str) else set()
        return frozenset(name for name in found if isinstance(name, str) and name)


def parse(robot: Robot) -> LogMap:
    """Read the column map of a robot.

    Raises:
        UnknownName: A key, channel or unit that does not exist; the choices are listed.
        MissingKey: No `time`, no `columns`, or an entry without its column.
        BadValue: A value of the wrong type or range, or a channel that is mapped twice.
    """
    place = f"{robot.file}: logs"
    document = mapping(robot.logs, place, TOP_KEYS)
    for key in ("time", "columns"):
        if key not in document:
            raise MissingKey(place, key, document)
    here = f"{place}: time"
    time = mapping(document["time"], here, ("column", "step", "unit"))
    if ("column" in time) == ("step" in time):
        raise BadValue(place, "time", dict(time), "either 'column' or 'step'")
    step = time.get("step", "")
    if "step" in time and not isinstance(step, str):
        step = number(time, "step", here)
        if step <= 0:
            raise BadValue(here, "step", step, "a positive number, or a constant of the file")
    gaps = document.get("gaps", GAPS[0])
    if gaps not in GAPS:
        raise UnknownName(f"{place}: gaps", gaps, GAPS, "value")
    known = channels(robot)
    columns, owner = [], {}
    entries = mapping(document["columns"], f"{place}: columns")
    for name, spec in entries.items():
        column = _column(str(name), spec, known, robot, f"{place}: columns: {name}")
        for channel in column.channels:
            if channel.name in owner:
                expected = f"one entry a channel; '{owner[channel.name]}' has it too"
                raise BadValue(column.place, "channel", channel.name, expected)
            owner[channel.name] = name
        columns.append(column)
    if not columns:
        raise BadValue(place, "columns", dict(entries), "at least one channel")
    return LogMap(
        place=place,
        time=_names(time["column"], here, "column") if "column" in time else (),
        step=step,
        time_factor=units.factor(time.get("unit", "s"), "time", here),
        split=_text(document.get("split", ""), place, "split"),
        is_masking=gaps == "mask",
        columns=tuple(columns),
    )


def _column(name: str, spec: Any, known: Mapping[str, Channel], robot: Robot, place: str) -> Column:
    spec = {"column": spec} if isinstance(spec, str) else mapping(spec, place, COLUMN_KEYS)
    if ("column" in spec) == ("columns" in spec):
        if not spec:
            raise MissingKey(place, "column", spec)
        raise BadValue(place, "content", dict(spec), "either 'column' or 'columns'")
    filled = _matching(name, known, robot, place)
    quantities = {channel.quantity for channel in filled}
    signed = spec.get("signed", 0)
    if "signed" in spec and (isinstance(signed, bool) or signed not in BITS):
        raise BadValue(place, "signed", signed, f"a number of bits: {', '.join(map(str, BITS))}")
    if not isinstance(spec.get("optional", False), bool):
        raise BadValue(place, "optional", spec["optional"], "true or false")
    order = spec.get("order", ORDERS[0])
    if "order" in spec and (filled[0].size != 4 or order not in ORDERS):
        raise BadValue(place, "order", order, f"{' or '.join(ORDERS)}, of a quaternion")
    names = spec.get("names", "")
    if "names" in spec and (filled[0].size > 1 or "column" not in spec):
        raise BadValue(
            place, "names", names, "names of the columns of one array of scalar channels"
        )
    column = Column(
        place=place,
        channels=filled,
        sources=_names(spec["column"], place, "column") if "column" in spec else (),
        stacked=_names(spec["columns"], place, "columns") if "columns" in spec else (),
        factor=units.factor(
            spec.get("unit", "1"), quantities.pop() if len(quantities) == 1 else None, place
        ),
        scale=number(spec, "scale", place, 1.0),
        offset=number(spec, "offset", place, 0.0),
        signed=signed,
        is_optional=spec.get("optional", False),
        names=names if isinstance(names, str) else _names(names, place, "names"),
        order=order,
    )
    if column.stacked and len(column.stacked) != column.width:
        expected = f"{column.width} columns, for {', '.join(c.name for c in filled)}"
        raise BadValue(place, "columns", list(column.stacked), expected)
    return column


def _matching(
    name: str, known: Mapping[str, Channel], robot: Robot, place: str
) -> tuple[Channel, ...]:
    """Return the channels of a name or glob.

    A glob ranges over the contract, in its order; where nothing is actuated, over all joints.
    """
    if name in known:
        return (known[name],)
    if not any(sign in name for sign in "*?["):
        raise UnknownName(place, name, known, "channel")
    contract = {c: v for c, v in known.items() if v.joint is not None} if robot.joints else known
    found = tuple(contract[c] for c in matching(name, contract))
    if not found:
        raise UnknownName(place, name, contract, "channel")
    if len({(channel.size, channel.name.rsplit("/", 1)[-1]) for channel in found}) > 1:
        listed = ", ".join(channel.name for channel in found)
        raise BadValue(place, "channel", name, f"a glob over one kind of channel; it has {listed}")
    return found


def _names(value: Any, place: str, key: str) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, Sequence) or not values:
        raise BadValue(place, key, value, "a name or a list of names")
    return tuple(_text(entry, place, key) for entry in values)


def _text(value: Any, place: str, key: str) -> str:
    if not isinstance(value, str):
        raise BadValue(place, key, value, "a name")
    return value
