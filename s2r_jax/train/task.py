"""A task: what the policy sees, where episodes start, what is rewarded, what counts as success.

`parse` reads one entry of `tasks:` in robot.yaml, strictly. Rewards and success speak of true
signals of the model, measured or not; the observation can only name signals that the robot has.

`seconds` is a time limit, not a part of the task: training values what would come after it.
"""

import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from s2r_jax import observation, signals
from s2r_jax.errors import BadValue, MissingKey, UnknownName
from s2r_jax.robot import Robot, mapping, number
from s2r_jax.train.reward import TERMS, Reward, error

KEYS = ("seconds", "observation", "reset", "reward", "success", "termination")


@dataclass(frozen=True)
class Success:
    """A signal stays within `tolerance` of `target` to the end of the episode, for long enough."""

    signal: str
    """Name, with `:k` for an entry of a vector."""
    entry: int
    """Into the vector of the task's signals."""
    target: float
    """In the signal's unit, as are period and tolerance."""
    period: float
    """Of an angle [rad]; inf for none."""
    tolerance: float
    last: int
    """Control periods at the end of the episode."""


@dataclass(frozen=True)
class Limit:
    """An episode ends where the signal leaves [low, high]."""

    entry: int
    low: float
    high: float


@dataclass(frozen=True)
class Reset:
    """Uniform within ± spread of a pose, one entry a coordinate."""

    qpos: tuple[float, ...]
    """[rad, m]."""
    qpos_spread: tuple[float, ...]
    qvel: tuple[float, ...]
    """[rad/s, m/s]."""
    qvel_spread: tuple[float, ...]


@dataclass(frozen=True)
class Task:
    """One task, checked against the robot. Build it with `parse`."""

    name: str
    steps: int
    """Control periods in an episode."""
    observation: tuple[observation.Term, ...]
    signals: tuple[signals.Signal, ...]
    """What reward, success and termination read, free of sensor errors."""
    rewards: tuple[Reward, ...]
    success: Success
    limits: tuple[Limit, ...]
    reset: Reset


def parse(robot: Robot, name: str) -> Task:
    """Return the task of that name from the robot's `tasks`.

    Raises:
        UnknownName: No such task, or an unknown key, term, signal or keyframe; the choices are
            listed.
        MissingKey: A required key is absent.
        BadValue: A value of the wrong type or range.
    """
    if name not in robot.tasks:
        raise UnknownName(f"{robot.file}: tasks", name, robot.tasks, "task")
    place = f"{robot.file}: tasks: {name}"
    entry = mapping(robot.tasks[name], place, KEYS)
    for key in ("seconds", "observation", "reward", "success"):
        if key not in entry:
            raise MissingKey(place, key, entry)
    steps = _ticks(robot, entry, "seconds", place)
    terms = observation.parse(
        _sequence(entry, "observation", place),
        robot.signal_slices,
        robot.model.nu,
        f"{place}: observation",
    )
    reader = _Reader(robot)
    return Task(
        name,
        steps,
        terms,
        rewards=_rewards(_sequence(entry, "reward", place), reader, f"{place}: reward"),
        success=_success(robot, entry["success"], steps, reader, f"{place}: success"),
        limits=_limits(entry.get("termination", []), reader, f"{place}: termination"),
        reset=_reset(robot, entry.get("reset", {}), f"{place}: reset"),
        signals=reader.signals,
    )


def succeeded(success: Success, values: Any, xp: ModuleType = np) -> Any:
    """Tell whether one whole episode of the success signal `[time]` is a success."""
    wrong = error(values[-success.last :], success.target, success.period, xp)
    return xp.all(xp.abs(wrong) <= success.tolerance)


class _Reader:
    """Gathers the signals that a task names, each once, in the order of their appearance."""

    def __init__(self, robot: Robot):
        self.robot = robot
        self.known = signals.names(robot.model)
        self.signals: tuple[signals.Signal, ...] = ()
        self.first: dict[str, int] = {}

    def entries(self, name: Any, place: str) -> tuple[int, ...]:
        """Return where `kind/name/attribute` or one entry `...:k` of it stands in the vector."""
        base, _, component = str(name).partition(":")
        if base not in self.known:
            raise UnknownName(place, name, self.known, "signal")
        measured = {signal.name for signal in self.robot.signals}
        if self.known[base][0] == "sensor" and base not in measured:
            expected = "a sensor that the robot declares under 'signals'"
            raise BadValue(place, "signal", name, expected)
        if base not in self.first:
            self.first[base] = sum(signal.size for signal in self.signals)
            self.signals += signals.parse({base: {}}, self.robot.model, place)
        size = self.known[base][4]
        if not component:
            return tuple(range(self.first[base], self.first[base] + size))
        if not component.isdigit() or int(component) >= size:
            raise BadValue(place, "signal", name, f"an entry :0 to :{size - 1} of {base}")
        return (self.first[base] + int(component),)

    def entry(self, name: Any, place: str) -> int:
        """Return the place of a scalar."""
        entries = self.entries(name, place)
        if len(entries) != 1:
            raise BadValue(place, "signal", name, f"one entry of it, such as {name}:0")
        return entries[0]


def _sequence(entry: Mapping[str, Any], key: str, place: str) -> Sequence[Any]:
    if not isinstance(entry[key], list) or not entry[key]:
        raise BadValue(place, key, entry[key], "a list with at least one entry")
    return entry[key]


def _ticks(robot: Robot, entry: Mapping[str, Any], key: str, place: str) -> int:
    seconds = number(entry, key, place)
    ticks = round(seconds / robot.period)
    if ticks < 1 or abs(ticks * robot.period - seconds) > 1e-9:
        expected = f"a positive multiple of the control period {robot.period:g} s"
        raise BadValue(place, key, entry[key], expected)
    return ticks


def _period(entry: Mapping[str, Any], place: str, default: float = math.inf) -> float:
    period = number(entry, "period", place, default)
    if not period > 0:
        raise BadValue(place, "period", period, "a positive number")
    return period


def _rewards(declared: Sequence[Any], reader: _Reader, place: str) -> tuple[Reward, ...]:
    found = []
    for item in declared:
        if not isinstance(item, Mapping):
            raise BadValue(place, "term", item, "a mapping such as {term: alive, weight: 1}")
        if "term" not in item:
            raise MissingKey(place, "term", item)
        kind = item["term"]
        if kind not in TERMS:
            raise UnknownName(place, kind, TERMS, "term")
        here, keys = f"{place}: {kind}", TERMS[kind][1]
        entry = mapping(item, here, ("term", "weight", *keys))
        required = [key for key in ("signal", "width") if key in keys]
        required += ["period"] if kind == "cosine" else []
        for key in ("weight", *required):
            if key not in entry:
                raise MissingKey(here, key, entry)
        width = number(entry, "width", here, 1.0)
        if not width > 0:
            raise BadValue(here, "width", width, "a positive number")
        found.append(
            Reward(
                kind,
                number(entry, "weight", here),
                reader.entries(entry["signal"], here) if "signal" in entry else (),
                number(entry, "target", here, 0.0),
                _period(entry, here),
                width,
            )
        )
    return tuple(found)


def _success(robot: Robot, declared: Any, steps: int, reader: _Reader, place: str) -> Success:
    keys = ("signal", "target", "period", "tolerance", "last")
    entry = mapping(declared, place, keys)
    for key in ("signal", "target", "tolerance", "last"):
        if key not in entry:
            raise MissingKey(place, key, entry)
    last = _ticks(robot, entry, "last", place)
    if last > steps:
        raise BadValue(place, "last", entry["last"], f"at most {steps * robot.period:g} s")
    return Success(
        str(entry["signal"]),
        reader.entry(entry["signal"], place),
        number(entry, "target", place),
        _period(entry, place),
        number(entry, "tolerance", place, minimum=0.0),
        last,
    )


def _limits(declared: Any, reader: _Reader, place: str) -> tuple[Limit, ...]:
    if not isinstance(declared, list):
        raise BadValue(place, "content", declared, "a list such as [{signal: NAME, low: 0.2}]")
    found = []
    for item in declared:
        entry = mapping(item, place, ("signal", "low", "high"))
        if "signal" not in entry:
            raise MissingKey(place, "signal", entry)
        here = f"{place}: {entry['signal']}"
        low, high = number(entry, "low", here, -math.inf), number(entry, "high", here, math.inf)
        if not low < high or (math.isinf(low) and math.isinf(high)):
            raise BadValue(here, "limits", [low, high], "low, high or both, with low < high")
        found.append(Limit(reader.entry(entry["signal"], here), low, high))
    return tuple(found)


def _reset(robot: Robot, declared: Any, place: str) -> Reset:
    entry = mapping(declared, place)
    model = robot.model
    keyframes = [model.key(k).name for k in range(model.nkey)]
    qpos, qvel = np.array(model.qpos0), np.zeros(model.nv)
    if "keyframe" in entry:
        if entry["keyframe"] not in keyframes:
            raise UnknownName(place, entry["keyframe"], keyframes, "keyframe")
        key = model.key(entry["keyframe"])
        qpos, qvel = np.array(key.qpos), np.array(key.qvel)
    spreads = {"position": np.zeros(model.nq), "velocity": np.zeros(model.nv)}
    values = {"position": qpos, "velocity": qvel}
    known = {
        name: (attribute, address[0])
        for name, (kind, _, attribute, address, _) in signals.names(model).items()
        if kind == "joint"
    }
    for glob, options in entry.items():
        if glob == "keyframe":
            continue
        hits = fnmatch.filter(known, str(glob))
        if not hits:
            raise UnknownName(place, glob, ("keyframe", *known), "key")
        here = f"{place}: {glob}"
        options = mapping(options, here, ("value", "spread"))
        for attribute, address in (known[hit] for hit in hits):
            row = values[attribute]
            row[address] = number(options, "value", here, float(row[address]))
            spreads[attribute][address] = number(options, "spread", here, 0.0, minimum=0.0)
    rows = (qpos, spreads["position"], qvel, spreads["velocity"])
    return Reset(*[tuple(row.tolist()) for row in rows])
