"""θ: physical unknowns as one flat vector beside a static set of names, bounds and effects.

A `Parameter` says what the user wants to vary. `resolve` finds what it touches (`targets.py`) and
returns a `ParameterSet`: hashable, static, the same for every world. `apply` turns θ into arrays;
it is the only place where a physics field is written, for every engine, always from the nominal
values, so that nothing accumulates.

Most effects are scatters into a field. Payloads, inertias and terrain are scatters too, into fields
that MuJoCo does not have (`DERIVED`), from which those that it has are then computed.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from s2r_jax import inertia, terrain
from s2r_jax.errors import BadValue, UnknownName

Operation = Literal["set", "scale", "add"]
Transform = Literal["identity", "log", "logit"]
OPERATIONS = ("set", "scale", "add")
TRANSFORMS = ("identity", "log", "logit")
#: Field -> numbers a body: what bodies carry [kg], where [m], and how they are deformed.
INERTIAL = {"payload.mass": 1, "payload.pos": 3, "inertia.log_cholesky": inertia.LOG_CHOLESKY}
#: Field -> numbers a body: the tile of `terrain.py` that lies under a world, rounded.
PLACED = {"terrain.level": 1, "terrain.tile": 1}
#: All fields that MuJoCo does not have, from which others are computed.
DERIVED = INERTIAL | PLACED


@dataclass(frozen=True)
class Parameter:
    """One physical unknown, or one for each match of its target."""

    target: str
    """What it moves, with globs: `joint/*/damping`, `body/arm/mass`, `motor/*/strength`."""
    low: float
    """Lower bound, in the parameter's unit."""
    high: float
    """Upper bound, in the parameter's unit."""
    operation: Operation = "set"
    """`set` the value, `scale` or `add` to the nominal one."""
    transform: Transform = "identity"
    """Coordinates to search in.

    `log` for positive quantities over decades, `logit` to stay inside the bounds.
    """
    unit: str = ""
    """Unit of the value, for people."""
    share: bool = False
    """One value for all matches of the glob instead of one each."""
    name: str = ""
    """Name to report; the target itself when empty. Only for a parameter that yields one value."""
    start: float | None = None
    """Where a search starts; the nominal value when absent."""
    prior_std: float | None = None
    """Standard deviation of a Gaussian prior around `start`, in the parameter's unit.

    No prior when absent.
    """
    per_log: bool = False
    """Whether each log has its own value, as the zero of an encoder that is set at power-on."""


class Effect(NamedTuple):
    """One scatter into one field.

    `field.flat[indices] = op(field.flat[indices], coefficients * theta[params])`.
    """

    field: str
    operation: Operation
    indices: tuple[int, ...]
    params: tuple[int, ...]
    coefficients: tuple[float, ...]


@dataclass(frozen=True)
class ParameterSet:
    """The static side of θ; every tuple has one entry a parameter."""

    names: tuple[str, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    nominal: tuple[float, ...] = ()
    """The θ that changes nothing: 1 for `scale`, 0 for `add`, the model's own value for `set`."""
    start: tuple[float, ...] = ()
    prior_std: tuple[float, ...] = ()
    """inf where there is no prior."""
    transforms: tuple[Transform, ...] = ()
    units: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    per_log: tuple[bool, ...] = ()
    """Empty where no parameter has a value of its own in each log."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that θ changes."""
        moved = dict.fromkeys(INERTIAL, inertia.FIELDS) | dict.fromkeys(PLACED, ("body_pos",))
        found = [moved.get(effect.field, (effect.field,)) for effect in self.effects]
        return tuple(dict.fromkeys(name for names in found for name in names))

    def index(self, name: str) -> int:
        """Return the position of a parameter in θ.

        Raises:
            UnknownName: No parameter is called so.
        """
        if name not in self.names:
            raise UnknownName("parameters", name, self.names, "parameter")
        return self.names.index(name)

    def vector(
        self, values: Mapping[str, float], base: Sequence[float] | None = None
    ) -> np.ndarray:
        """Return θ with the named values, the others from `base` (by default the nominal ones)."""
        theta = np.array(self.nominal if base is None else base, dtype=float)
        for name, value in values.items():
            theta[self.index(name)] = value
        return theta

    def named(self, theta: Any) -> dict[str, float]:
        """Return the values of θ by name."""
        return dict(zip(self.names, np.asarray(theta, dtype=float).tolist(), strict=True))

    def check(self, theta: Any, place: str) -> None:
        """Refuse a θ that is not finite or leaves its bounds.

        Raises:
            BadValue: Names the first offending parameter.
        """
        for name, value, low, high in zip(
            self.names, np.asarray(theta, dtype=float), self.low, self.high, strict=True
        ):
            if not low <= value <= high:
                raise BadValue(place, name, float(value), f"a number in [{low:g}, {high:g}]")


def is_model_field(name: str) -> bool:
    """Tell what moves MuJoCo's model from quantities outside it, named with an owner but `opt`."""
    return "." not in name or name.startswith("opt.") or name in DERIVED


def apply(
    parameters: ParameterSet,
    theta: Float[Any, "*worlds param"],
    nominal: Mapping[str, Any],
    xp: ModuleType = jnp,
) -> dict[str, Any]:
    """Return the touched fields at θ, `[*worlds, *field]`, computed from the nominal ones.

    The same function serves JAX (`xp=jax.numpy`, traced) and the host side of the C engine
    (`xp=numpy`).
    """
    worlds = theta.shape[:-1]
    flat: dict[str, Any] = {}
    for effect in parameters.effects:
        field = flat.get(effect.field)
        if field is None:
            value = xp.asarray(_nominal(effect.field, nominal), dtype=theta.dtype).reshape(-1)
            field = xp.broadcast_to(value, (*worlds, value.size))
        index = np.array(effect.indices)
        moved = theta[..., np.array(effect.params)] * np.array(effect.coefficients, theta.dtype)
        if effect.operation == "scale":
            moved = moved * field[..., index]
        elif effect.operation == "add":
            moved = moved + field[..., index]
        flat[effect.field] = _put(field, index, moved)
    changes = {name: flat.pop(name) for name in INERTIAL if name in flat}
    tiles = {name: flat.pop(name) for name in PLACED if name in flat}
    found = {
        name: field.reshape((*worlds, *np.shape(nominal[name]))) for name, field in flat.items()
    }
    if tiles:
        found["body_pos"] = _placed(tiles, found, nominal, worlds, xp)
    if changes:
        found |= _inertial(parameters, changes, found, nominal, worlds, xp)
    return found


def _nominal(field: str, nominal: Mapping[str, Any]) -> Any:
    """Return the nominal value; a payload without a position sits at the centre of mass."""
    if field not in DERIVED:
        return nominal[field]
    if field == "payload.pos":
        return nominal["body_ipos"]
    count = len(nominal["body_mass" if field in INERTIAL else "body_pos"])
    return np.zeros((count, DERIVED[field]))


def _placed(
    tiles: Mapping[str, Any],
    found: Mapping[str, Any],
    nominal: Mapping[str, Any],
    worlds: tuple[int, ...],
    xp: ModuleType,
) -> Any:
    """Return `body_pos` with the terrain moved so that the nearest tile lies at the origin."""
    first = next(iter(tiles.values()))
    zero = xp.zeros_like(first)
    level, tile = (xp.round(tiles.get(name, zero)) for name in ("terrain.level", "terrain.tile"))
    base = found.get("body_pos", xp.asarray(nominal["body_pos"], dtype=first.dtype))
    return base - terrain.SIDE * xp.stack([level, tile, zero], axis=-1)


def _inertial(
    parameters: ParameterSet,
    changes: Mapping[str, Any],
    found: Mapping[str, Any],
    nominal: Mapping[str, Any],
    worlds: tuple[int, ...],
    xp: ModuleType,
) -> dict[str, Any]:
    """Return the inertial fields after deformations and payloads, on top of what θ set directly."""
    dtype = next(iter(changes.values())).dtype
    rows = np.unique([
        index // INERTIAL[effect.field]
        for effect in parameters.effects if effect.field in INERTIAL
        for index in effect.indices
    ])  # fmt: skip
    count = len(nominal["body_mass"])

    def table(name: str) -> Any:
        """Return a field of all bodies as `[*worlds, body, number]`."""
        given = changes.get(name, found.get(name))
        if given is None:
            value = xp.asarray(_nominal(name, nominal), dtype=dtype).reshape(-1)
            given = xp.broadcast_to(value, (*worlds, value.size))
        return given.reshape((*worlds, count, -1))

    old = {name: table(name) for name in inertia.FIELDS}
    log, mass, pos = (table(name)[..., rows, :] for name in ("inertia.log_cholesky",
                      "payload.mass", "payload.pos"))  # fmt: skip
    own = [old[name][..., rows, :] for name in inertia.FIELDS]
    bodies = inertia.Bodies(own[0][..., 0], *own[1:])
    bodies = inertia.moved(bodies, inertia.Change(log, mass[..., 0], pos), xp)
    moved = {}
    for name, value in zip(inertia.FIELDS, bodies, strict=True):
        width = old[name].shape[-1]
        index = (rows[:, None] * width + np.arange(width)).reshape(-1)
        flat = _put(old[name].reshape((*worlds, -1)), index, value.reshape((*worlds, -1)))
        moved[name] = flat.reshape((*worlds, *np.shape(nominal[name])))
    return moved


def _put(field: Any, index: np.ndarray, value: Any) -> Any:
    if isinstance(field, jax.Array):
        return field.at[..., index].set(value)
    field = field.copy()
    field[..., index] = value
    return field


@functools.lru_cache
def _transform_masks(parameters: ParameterSet) -> tuple[np.ndarray, np.ndarray]:
    transforms = np.array(parameters.transforms, dtype=object)
    return transforms == "log", transforms == "logit"


# Jitted for drivers that call it for one θ: operation by operation it takes milliseconds.
@functools.partial(jax.jit, static_argnums=0)
def unconstrain(parameters: ParameterSet, theta: Float[Array, " param"]) -> Float[Array, " param"]:
    """Return the search coordinates z of θ.

    Θ itself, ln θ, or the logit of its place between the bounds.
    """
    is_log, is_logit = _transform_masks(parameters)
    low, high = (jnp.asarray(bound, theta.dtype) for bound in (parameters.low, parameters.high))
    logs = jnp.log(jnp.where(is_log, theta, 1.0))
    place = jnp.where(is_logit, (theta - low) / (high - low), 0.5)
    return jnp.where(is_log, logs, jnp.where(is_logit, jnp.log(place) - jnp.log1p(-place), theta))


@functools.partial(jax.jit, static_argnums=0)
def constrain(
    parameters: ParameterSet, z: Float[Array, "*batch param"]
) -> Float[Array, "*batch param"]:
    """Return θ of the search coordinates z; the inverse of `unconstrain`."""
    is_log, is_logit = _transform_masks(parameters)
    low, high = (jnp.asarray(bound, z.dtype) for bound in (parameters.low, parameters.high))
    inside = low + (high - low) * jax.nn.sigmoid(jnp.where(is_logit, z, 0.0))
    return jnp.where(is_log, jnp.exp(jnp.where(is_log, z, 0.0)), jnp.where(is_logit, inside, z))


def constrain_slope(
    parameters: ParameterSet, z: Float[np.ndarray, " param"]
) -> Float[np.ndarray, " param"]:
    """Return dθ/dz of each parameter; `constrain` moves each on its own."""
    is_log, is_logit = _transform_masks(parameters)
    place = 1 / (1 + np.exp(-np.where(is_logit, z, 0.0)))
    inside = (np.array(parameters.high) - np.array(parameters.low)) * place * (1 - place)
    return np.where(is_log, np.exp(np.where(is_log, z, 0.0)), np.where(is_logit, inside, 1.0))


def search_bounds(
    parameters: ParameterSet, edge: float = 0.0
) -> tuple[Float[np.ndarray, " param"], Float[np.ndarray, " param"]]:
    """Return the bounds of z.

    Args:
        parameters: Bounds and transforms.
        edge: Share of its range at which a `logit`, which cannot leave its bounds, ends; with 0 it
            is infinite there.
    """
    is_log, is_logit = _transform_masks(parameters)
    end = np.log((1 - edge) / edge) if edge > 0 else np.inf
    bounds = []
    for bound, logit in ((parameters.low, -end), (parameters.high, end)):
        value = np.array(bound, dtype=float)
        value = np.where(is_log, np.log(np.where(is_log, value, 1.0)), value)
        bounds.append(np.where(is_logit, logit, value))
    return bounds[0], bounds[1]
