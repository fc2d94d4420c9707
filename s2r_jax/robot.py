"""A robot is a folder: `robot.yaml` beside an MJCF says all that the loop must know of a machine.

`load` reads it strictly: an unknown key, a joint that the model lacks or a glob that matches
nothing
is an error that names the file, the field and the choices. Units are SI.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from s2r_jax import delays, inertia, signals, surroundings, targets, terrain
from s2r_jax.document import mapping, number, parse, text
from s2r_jax.errors import BadModel, BadValue, MissingFile, MissingKey, S2RError, UnknownName
from s2r_jax.motors import KIND_FIELDS, MOTOR_KINDS, MotorTable, motor_table
from s2r_jax.parameters import OPERATIONS, TRANSFORMS, Parameter, ParameterSet

FILE = "robot.yaml"
#: Wire protocols that `driver: {kind: ...}` may name; `hardware/` has one file for each.
DRIVERS = ("udp",)
TOP_KEYS = (
    "name", "model", "control", "joints", "motors", "battery", "latency", "push", "terrain",
    "signals",
    "parameters", "logs", "identify", "tasks", "driver", "clamp",
)  # fmt: skip


@dataclass(frozen=True)
class Joint:
    """One entry of the joint contract: the machine's joint = sign * (model's joint - offset)."""

    name: str
    sign: float = 1.0
    offset: float = 0.0
    """Model angle at the machine's zero [rad]."""
    low: float = -np.inf
    """Lower limit for commands [rad]."""
    high: float = np.inf
    """Upper limit for commands [rad]."""
    velocity: float = np.inf
    """Speed limit [rad/s]."""
    torque: float = np.inf
    """Torque limit [N m]."""
    default: float = 0.0
    """Angle that action 0 asks for [rad]."""
    action_scale: float = 1.0
    """Command per unit of action, in the unit of the motor's target."""


@dataclass(frozen=True, eq=False)
class Robot:
    """Everything of one robot folder, checked. Build it with `load`; equal only to itself."""

    folder: Path
    name: str
    model: mujoco.MjModel = field(repr=False)
    spec: mujoco.MjSpec = field(repr=False)
    period: float
    """Control period [s]."""
    joints: tuple[Joint, ...]
    """In the order of the actuators."""
    motors: MotorTable
    battery: Mapping[str, float]
    """`voltage` [V] of the full pack, `resistance` [Ω], `capacity` [C], `charge` [0 to 1]."""
    latency: Mapping[str, float]
    """Of the command path: `action` [s], `jitter` [s], `drop` [0 to 1]."""
    push: Mapping[str, float]
    """`speed` [m/s], `interval` [s]."""
    pushed: int | None
    """Id of the free body that is pushed."""
    signals: tuple[signals.Signal, ...]
    parameters: ParameterSet
    declared: tuple[Parameter, ...]
    logs: Mapping[str, Any]
    """The column map as written; `logs/columns.py` reads it."""
    tasks: Mapping[str, Any]
    """The tasks as written; `train/task.py` reads them."""
    driver: Mapping[str, Any]
    window: float
    """Length of the windows of a log that are simulated when nothing else is asked for [s].

    0: the whole log.
    """
    robust: float
    """Standard deviations beyond which a residual counts linearly when nothing else is asked for.

    0: plain squares.
    """
    start_std: tuple[float, float]
    """How far a window's start may lie from the measured state.

    Standard deviations of positions [rad, m] and of velocities [rad/s, m/s]; 0 and 0 take the
    measured state as it is.
    """

    @property
    def file(self) -> str:
        """The robot.yaml, for messages."""
        return str(self.folder / FILE)

    @functools.cached_property
    def actuators(self) -> tuple[str, ...]:
        """Names of the actuators in MuJoCo's order."""
        return tuple(self.model.actuator(i).name or str(i) for i in range(self.model.nu))

    @functools.cached_property
    def signal_slices(self) -> dict[str, tuple[int, ...]]:
        """Signal name -> its entries in the sensor vector."""
        slices, start = {}, 0
        for signal in self.signals:
            slices[signal.name] = tuple(range(start, start + signal.size))
            start += signal.size
        return slices

    @functools.cached_property
    def quantities(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Nominal values of everything that the engine does not hold.

        Field -> (targets, values); no targets where nothing would follow.
        """
        found = {}
        for key, values in self.motors.values.items():
            acts = key in KIND_FIELDS[self.motors.kind]
            names = tuple(f"motor/{a}/{key}" for a in self.actuators) if acts else ()
            found[f"motor.{key}"] = (names, values)
        # Without a free body there is nothing to push, and with native motors no supply.
        acts = {"push": self.pushed is not None, "battery": self.motors.kind != "native"}
        for owner in ("battery", "latency", "push"):
            for key, value in getattr(self, owner).items():
                names = (f"{owner}/{key}",) if acts.get(owner, True) else ()
                found[f"{owner}.{key}"] = (names, np.array(value))
        found["clock.command"] = (("clock/command",), np.array(0.0))
        for key in signals.SENSOR_FIELDS:
            names, values = [], []
            for signal in self.signals:
                tails = [""] if signal.size == 1 else [f":{k}" for k in range(signal.size)]
                prefix = (
                    f"latency/{signal.name}" if key == "delay" else f"sensor/{signal.name}/{key}"
                )
                names += [prefix + tail for tail in tails]
                values += [getattr(signal, key)] * signal.size
            found[f"sensor.{key}"] = (tuple(names), np.array(values, dtype=float))
        return found

    def nominal(self, name: str) -> np.ndarray:
        """Return the nominal value of a field that θ may touch, of the model or outside it."""
        return (
            self.quantities[name][1]
            if name in self.quantities
            else targets.model_field(self.model, name)
        )


def load(folder: str | Path) -> Robot:
    """Read a robot folder.

    Raises:
        MissingFile: No such folder, or no robot.yaml or MJCF in it.
        UnknownName: A key or a name that is not known; the choices are listed.
        MissingKey: A required key is absent.
        BadValue: A value of the wrong type or range.
        BadModel: The MJCF does not compile.
        UnknownTarget: A parameter's glob matches nothing.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingFile(folder, "robot folder", f"it must hold {FILE} and an MJCF")
    path = folder / FILE
    if not path.is_file():
        raise MissingFile(path, "file", "a robot folder must hold one")
    place = str(path)
    try:
        content = parse(path.read_text(encoding="utf-8"), place)
    except UnicodeDecodeError as error:
        raise BadValue(place, "file", str(error), "valid YAML") from None
    document = mapping(content, place, TOP_KEYS)
    for key in ("name", "model", "control"):
        if key not in document:
            raise MissingKey(place, key, document)
    control = mapping(document["control"], f"{place}: control", ("period",))
    period = number(control, "period", f"{place}: control", minimum=1e-5)
    spec, model = _compile(folder / text(document, "model", place), document.get("clamp"), place)
    if "terrain" in document:
        ground = surroundings.terrain(document["terrain"], f"{place}: terrain")
        model = terrain.lay(spec, ground, f"{place}: terrain")
    declared = _declared(document.get("parameters") or [], f"{place}: parameters")
    motors = motor_table(document.get("motors", {"kind": "native"}), model, f"{place}: motors")
    motors = motors.touched_by([parameter.target for parameter in declared])
    model = motors.with_friction_rows(spec, model, f"{place}: motors")
    latency = surroundings.latency(document.get("latency", {}), f"{place}: latency")
    push, pushed = surroundings.push(document.get("push"), model, f"{place}: push")
    window, robust, start_std = _fitting(document.get("identify", {}), f"{place}: identify")
    robot = Robot(
        folder=folder,
        name=text(document, "name", place),
        model=model,
        spec=spec,
        period=period,
        joints=_joints(document.get("joints", {}), model, f"{place}: joints"),
        motors=motors,
        battery=surroundings.battery(document.get("battery", {}), f"{place}: battery"),
        latency=latency,
        push=push,
        pushed=pushed,
        signals=signals.parse(document.get("signals"), model, f"{place}: signals"),
        parameters=ParameterSet(),
        declared=declared,
        logs=mapping(document.get("logs", {}), f"{place}: logs"),
        tasks=mapping(document.get("tasks", {}), f"{place}: tasks"),
        driver=_driver(document.get("driver", {}), f"{place}: driver"),
        window=window,
        robust=robust,
        start_std=start_std,
    )
    _check_period(robot)
    resolved = targets.resolve(robot.declared, model, robot.quantities, place)
    model = inertia.free(spec, model, targets.inertial_bodies(resolved), place)
    robot = dataclasses.replace(robot, model=model, parameters=resolved)
    delays.check(robot)
    return robot


def _compile(path: Path, clamp: Any, place: str) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """Compile the MJCF; `clamp` names bodies whose free joint is removed (a robot on a stand)."""
    if not path.is_file():
        raise MissingFile(path, "MJCF", f"named by 'model' in {place}")
    if clamp is not None and not isinstance(clamp, str | list):
        raise BadValue(place, "clamp", clamp, "a body, or a list of bodies")
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        _name(spec)
        for name in [clamp] if isinstance(clamp, str) else (clamp or []):
            body = spec.body(name) if isinstance(name, str) else None
            if body is None:
                raise UnknownName(f"{place}: clamp", name, [b.name for b in spec.bodies], "body")
            free = [j for j in body.joints if j.type == mujoco.mjtJoint.mjJNT_FREE]
            if not free:
                raise BadValue(place, "clamp", name, "a body with a free joint")
            for joint in free:
                spec.delete(joint)
            for key in list(spec.keys):
                spec.delete(key)  # a keyframe of the free robot does not fit the clamped one
        return spec, spec.compile()
    except S2RError:
        raise
    except (ValueError, mujoco.FatalError) as error:
        raise BadModel(str(path), " ".join(str(error).split())) from None


def _name(spec: mujoco.MjSpec) -> None:
    """Name what has no name by its index, so that targets, signals and logs can tell it apart."""
    spec.compile()  # numbers the elements
    for elements in (spec.joints, spec.bodies, spec.actuators, spec.sensors):
        taken = {element.name for element in elements}
        for element in elements:
            if not element.name:
                if str(element.id) in taken:
                    raise ValueError(f"an element without a name would be called {element.id}, "
                                     "which another one is called; name it")  # fmt: skip
                element.name = str(element.id)


def _joints(declared: Any, model: mujoco.MjModel, place: str) -> tuple[Joint, ...]:
    """Return the contract in actuator order; joints that are not declared get the defaults."""
    names = _contract_names(model, place)
    keys = ("sign", "offset", "low", "high", "velocity", "torque", "default", "action_scale")
    declared = mapping(declared, place)
    for name in declared:
        if name not in names:
            raise UnknownName(place, name, names, "actuated joint")
    joints = []
    for name in names:
        entry = mapping(declared.get(name, {}), f"{place}/{name}", keys)
        joint = Joint(name, **{key: number(entry, key, f"{place}/{name}") for key in entry})
        if abs(joint.sign) != 1:
            raise BadValue(f"{place}/{name}", "sign", joint.sign, "1 or -1")
        if not joint.low < joint.high:
            raise BadValue(
                f"{place}/{name}", "low", joint.low, f"a number below high ({joint.high:g})"
            )
        for key in ("velocity", "torque"):
            if not getattr(joint, key) > 0:
                raise BadValue(f"{place}/{name}", key, getattr(joint, key), "a positive number")
        joints.append(joint)
    return tuple(joints)


def _contract_names(model: mujoco.MjModel, place: str) -> list[str]:
    """Return one name an actuator: of its joint where it drives one alone, else its own."""
    joints = [
        int(model.actuator_trnid[a, 0])
        if model.actuator_trntype[a] == mujoco.mjtTrn.mjTRN_JOINT
        else -1
        for a in range(model.nu)
    ]
    names = [
        model.joint(joint).name
        if joint >= 0 and joints.count(joint) == 1
        else model.actuator(actuator).name
        for actuator, joint in enumerate(joints)
    ]
    for name in names:
        if names.count(name) > 1:
            raise BadModel(place, f"an actuator is called '{name}', as a joint that another drives")
    return names


def _declared(declared: Any, place: str) -> tuple[Parameter, ...]:
    if not isinstance(declared, list):
        raise BadValue(place, "content", declared, "a list of parameters")
    keys = (
        "target",
        "bounds",
        "operation",
        "transform",
        "unit",
        "share",
        "name",
        "start",
        "prior_std",
        "per_log",
    )
    found = []
    for entry in declared:
        entry = mapping(entry, place, keys)
        for key in ("target", "bounds"):
            if key not in entry:
                raise MissingKey(f"{place}: {entry.get('target', 'a parameter')}", key, entry)
        here = f"{place}: {entry['target']}"
        bounds = entry["bounds"]
        if not isinstance(bounds, list) or len(bounds) != 2:
            raise BadValue(here, "bounds", bounds, "[low, high]")
        low, high = (number({"bounds": b}, "bounds", here) for b in bounds)
        for key, choices in (("operation", OPERATIONS), ("transform", TRANSFORMS)):
            if entry.get(key, choices[0]) not in choices:
                raise UnknownName(here, entry[key], choices, key)
        flags: dict[str, Any] = {key: entry[key] for key in ("share", "per_log") if key in entry}
        for key, value in flags.items():
            if not isinstance(value, bool):
                raise BadValue(here, key, value, "true or false")
        options: dict[str, Any] = {
            key: number(entry, key, here) for key in ("start", "prior_std") if key in entry
        }
        texts: dict[str, Any] = {
            key: str(entry[key])
            for key in ("operation", "transform", "unit", "name")
            if key in entry
        }
        found.append(Parameter(str(entry["target"]), low, high, **flags, **texts, **options))
    return tuple(found)


def _fitting(declared: Any, place: str) -> tuple[float, float, tuple[float, float]]:
    """Return the window [s], by default a second, the robust loss, and the freedom of its start."""
    entry = mapping(declared, place, ("window", "robust", "position_std", "velocity_std"))
    robust = number(entry, "robust", place, 0.0, minimum=0.0)
    position = number(entry, "position_std", place, 0.0, minimum=0.0)
    velocity = number(entry, "velocity_std", place, 0.0, minimum=0.0)
    # One second is well inside what most models predict.
    return number(entry, "window", place, 1.0, minimum=0.0), robust, (position, velocity)


def _driver(declared: Any, place: str) -> Mapping[str, Any]:
    """Return the driver's mapping; `limits` and `hidden` are read by those who need them."""
    entry = mapping(declared, place, ("kind", "limits", "hidden"))
    if entry.get("kind", DRIVERS[0]) not in DRIVERS:
        raise UnknownName(place, str(entry["kind"]), DRIVERS, "driver")
    return entry


def _check_period(robot: Robot) -> None:
    ratio = robot.period / robot.model.opt.timestep
    # A period that is no whole number of physics steps would drift against the log's clock.
    if abs(ratio - round(ratio)) > 1e-6 * ratio or round(ratio) < 1:
        expected = f"a whole multiple of the model's timestep {robot.model.opt.timestep:g}"
        raise BadValue(f"{robot.file}: control", "period", robot.period, expected)


__all__ = ["MOTOR_KINDS", "Joint", "Robot", "load", "mapping", "number"]
