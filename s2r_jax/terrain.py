"""Rough ground: one large height field of tiles, on which each world is placed by θ.

C MuJoCo cannot give each world its own heights, so all worlds share one field. Along x the
roughness of the tiles grows from 0 to the largest, along y they differ by their seed; a world whose
tile is (level, tile) has the whole field moved so that this tile's centre lies at the origin. A
robot that walks off its tile comes to the next one: tiles join without a step.

MJX makes one contact for each surface triangle, C also some with the walls between neighbouring
triangles, so the engines agree in single contacts and not in long trajectories over sharp ground.
"""

from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from jaxtyping import Float

from s2r_jax.errors import BadValue, UnknownName

#: Name of the static body that carries the field, and of the numbers in the model that describe it.
NAME = "terrain"
#: Side of a tile [m]: some seconds of walking.
SIDE = 8.0
#: Depth of the ground below its lowest point [m], so that nothing falls through.
DEPTH = 1.0


@dataclass(frozen=True)
class Terrain:
    """Rough ground in place of a floor."""

    geom: str
    """The plane that it replaces; friction and the like are kept."""
    roughness: float
    """Height from the lowest to the highest point of the roughest tiles [m]."""
    levels: int = 8
    """Number of levels of roughness, from 0 to the largest in equal steps."""
    tiles: int = 2
    """Number of tiles of each level."""
    spacing: float = 0.1
    """Between points of the grid [m]."""
    feature: float = 0.4
    """Between independent heights, interpolated linearly [m]."""
    start: float = 0.5
    """Radius of the flat place at the centre of a tile, where a robot starts [m]."""
    seed: int = 0


class Layout(NamedTuple):
    """What a model says of its terrain."""

    body: int
    roughness: float
    levels: int
    tiles: int

    @property
    def rise(self) -> float:
        """Difference of roughness between two levels [m]."""
        return self.roughness / (self.levels - 1)


def heights(terrain: Terrain) -> Float[np.ndarray, "rows columns"]:
    """Return the heights of the whole field [m], rows along y, 0 where robots start.

    A tile is seeded noise, scaled so that its lowest and highest points differ by its roughness;
    the start and a border are blended to 0.
    """
    points = round(SIDE / terrain.spacing)
    field = np.zeros((terrain.tiles * points + 1, terrain.levels * points + 1))
    step = terrain.roughness / (terrain.levels - 1)
    for tile in range(terrain.tiles):
        for level in range(terrain.levels):
            rng = np.random.default_rng([terrain.seed, tile, level])
            block = step * level * _tile(terrain, points, rng)
            field[tile * points :, level * points :][: points + 1, : points + 1] = block
    return field


def _tile(terrain: Terrain, points: int, rng: np.random.Generator) -> np.ndarray:
    knots = max(round(SIDE / terrain.feature), 2)
    noise = rng.uniform(-1, 1, (knots + 1, knots + 1))
    at = np.linspace(0, knots, points + 1)
    for axis in range(2):
        noise = np.apply_along_axis(
            lambda line: np.interp(at, np.arange(knots + 1), line), axis, noise
        )
    place = np.linspace(-SIDE / 2, SIDE / 2, points + 1)
    x, y = np.meshgrid(place, place)
    inside = (SIDE / 2 - np.maximum(np.abs(x), np.abs(y))) / terrain.feature
    outside = (np.hypot(x, y) - terrain.start) / terrain.feature
    noise = noise * np.clip(np.minimum(inside, outside), 0, 1)
    return noise / np.ptp(noise)


def lay(spec: mujoco.MjSpec, terrain: Terrain, place: str) -> mujoco.MjModel:
    """Replace a plane of the world by the terrain, and return the compiled model.

    Nominal is the flat level of the first tile.

    Raises:
        UnknownName: The geom is no plane of the world.
        BadValue: Numbers that make no terrain.
    """
    planes = {g.name: g for g in spec.worldbody.geoms if g.type == mujoco.mjtGeom.mjGEOM_PLANE}
    if terrain.geom not in planes:
        raise UnknownName(place, terrain.geom, planes, "plane of the world")
    for key, least in (("levels", 2), ("tiles", 1)):
        if getattr(terrain, key) < least:
            raise BadValue(place, key, getattr(terrain, key), f"a whole number >= {least}")
    for key in ("roughness", "spacing", "feature"):
        if not getattr(terrain, key) > 0:
            raise BadValue(place, key, getattr(terrain, key), "a positive number")
    plane, field = planes[terrain.geom], heights(terrain)
    lowest, span = float(field.min()), float(np.ptp(field))
    rows, columns = field.shape
    length, width = terrain.levels * SIDE, terrain.tiles * SIDE
    spec.add_hfield(
        name=NAME,
        nrow=rows,
        ncol=columns,
        size=[length / 2, width / 2, span, DEPTH],
        userdata=((field - lowest) / span).ravel(),
    )
    # The field's own origin is its middle; the nominal tile is its first corner.
    origin = plane.pos + np.array([(length - SIDE) / 2, (width - SIDE) / 2, lowest])
    body = spec.worldbody.add_body(name=NAME, pos=origin)
    kept = ("friction", "solref", "solimp", "solmix", "condim", "priority", "contype")
    kept += ("conaffinity", "margin", "gap", "material", "rgba")
    values = {key: getattr(plane, key) for key in kept}
    spec.delete(plane)
    kind = mujoco.mjtGeom.mjGEOM_HFIELD
    body.add_geom(name=terrain.geom, type=kind, hfieldname=NAME, **values)
    spec.add_numeric(name=NAME, data=[terrain.roughness, terrain.levels, terrain.tiles], size=3)
    return spec.compile()


def layout(model: mujoco.MjModel) -> Layout | None:
    """Return what the model says of its terrain, None where it has none."""
    found = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_NUMERIC, NAME)
    if found < 0:
        return None
    start = model.numeric_adr[found]
    roughness, levels, tiles = model.numeric_data[start : start + 3]
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, NAME)
    return Layout(body, float(roughness), int(levels), int(tiles))
