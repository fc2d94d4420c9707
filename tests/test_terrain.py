"""Rough ground: its statistics, its placement by θ on both engines, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import robot, terrain
from s2r_jax.errors import BadValue, UnknownName
from s2r_jax.sim import world

XML = """<mujoco><option timestep="0.005" integrator="implicitfast"/><worldbody>
  <geom name="floor" type="plane" size="5 5 1" friction="0.9 0.01 0.001" priority="2"/>
  <body name="ball" pos="0 0 {z}"><freejoint/>
    <geom type="sphere" size=".1" mass="1" friction="1 .1 .1" condim="6"/></body>
  <body name="stand" pos="3 0 2"><joint name="j" axis="0 1 0"/><geom size=".1" contype="0"
    conaffinity="0"/></body></worldbody>
  <actuator><motor name="j" joint="j"/></actuator></mujoco>"""
YAML = """
name: m
model: m.xml
control: {{period: 0.01}}
terrain: {{geom: floor, roughness: 0.12, levels: 4, tiles: 3, {more}}}
parameters:
  - {{target: terrain/roughness, bounds: [0, 0.12], unit: m}}
  - {{target: terrain/tile, bounds: [-0.499, 2.499]}}
"""
GROUND = terrain.Terrain("floor", 0.12, levels=4, tiles=3)


def load(folder, z=0.1, more="spacing: 0.1"):
    (folder / "m.xml").write_text(XML.format(z=z))
    (folder / "robot.yaml").write_text(YAML.format(more=more))
    return robot.load(folder)


def tiles():
    """Heights of the tiles, level by level, seed by seed, without the edges that they share."""
    field, points = terrain.heights(GROUND), round(terrain.SIDE / GROUND.spacing)
    return field[:-1, :-1].reshape(3, points, 4, points).transpose(2, 0, 1, 3)


def test_each_level_has_its_roughness_and_each_tile_other_heights():
    spans = np.ptp(tiles(), axis=(2, 3))
    assert_allclose(spans, np.repeat([[0.0], [0.04], [0.08], [0.12]], 3, axis=1), atol=1e-12)
    one, two = tiles()[3, 0].ravel(), tiles()[3, 1].ravel()
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.2  # 400 independent knots a tile: 4 sigma


def test_start_and_border_are_flat():
    place = (np.arange(80) - 40) * 0.1
    x, y = np.meshgrid(place, place)
    assert (tiles()[..., np.hypot(x, y) < GROUND.start - 1e-9] == 0).all()
    assert (tiles()[..., 0, :] == 0).all()


def test_heights_follow_from_the_seed():
    again = terrain.heights(terrain.Terrain("floor", 0.12, levels=4, tiles=3))
    assert_allclose(again, terrain.heights(GROUND), atol=0)
    other = terrain.heights(terrain.Terrain("floor", 0.12, levels=4, tiles=3, seed=1))
    assert np.abs(other - again).max() > 0.01


@pytest.mark.parametrize(("roughness", "level"), [(0.0, 0), (0.055, 1), (0.065, 2), (0.12, 3)])
def test_nearest_tile_lies_at_the_origin(tmp_path, roughness, level):
    # a ray from above meets the height of that tile
    import mujoco

    from s2r_jax.identify.model import with_theta

    r = load(tmp_path)
    model = with_theta(r, np.array([roughness, 1.2]))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    points, found = np.array([[1.03, 0.52], [-2.2, 1.3], [0.1, -0.2], [3.1, -3.3]]), []
    for x, y in points:
        geom = np.zeros(1, np.int32)
        start, down = np.array([x, y, 1.5]), np.array([0.0, 0.0, -1.0])
        found.append(1.5 - mujoco.mj_ray(model, data, start, down, None, 1, -1, geom))
    tile, grid = tiles()[level, 1], (points + 4) / 0.1
    for (x, y), height in zip(grid, found, strict=True):
        corner = tile[int(y) : int(y) + 2, int(x) : int(x) + 2]
        assert corner.min() - 1e-6 <= height <= corner.max() + 1e-6


@pytest.mark.slow
def test_ball_comes_to_rest_at_the_same_height_on_both_engines(tmp_path):
    r = load(tmp_path, z=0.25)
    thetas = jnp.array([[0.0, 0.0], [0.12, 0.0], [0.12, 2.0]], jnp.float32)
    places = jnp.array([[1.5, 0.7], [1.5, 0.7], [-1.2, 2.1]], jnp.float32)
    ends = {}
    for engine in ("mujoco", "mjx"):
        simulator = world.make(r, engine)

        def drop(theta, place, simulator=simulator):
            w = simulator.world(theta)
            qpos = jnp.asarray(r.model.qpos0, jnp.float32).at[:2].set(place)
            state = simulator.init(w, qpos, jnp.zeros(r.model.nv, jnp.float32))
            command = simulator.nominal_command(jnp.zeros(1))
            step = lambda s, _: (simulator.step(w, s, command), None)  # noqa: E731
            return jax.lax.scan(step, state, length=60)[0].physics.qpos[:3]

        ends[engine] = np.asarray(jax.jit(jax.vmap(drop))(thetas, places))
    # C also touches the walls between triangles: balls roll into the same hollow a bit differently
    assert_allclose(ends["mujoco"][:, 2], ends["mjx"][:, 2], atol=1e-3)
    assert_allclose(ends["mujoco"], ends["mjx"], atol=2e-2)
    assert ends["mjx"][0, 2] == pytest.approx(0.1, abs=1e-3)
    assert np.ptp(ends["mjx"][:, 2]) > 5e-3  # the ground is not the same


def test_floor_keeps_its_friction_and_can_still_be_a_target(tmp_path):
    model = load(tmp_path).model
    assert_allclose(model.geom("floor").friction, [0.9, 0.01, 0.001])
    assert model.geom("floor").priority == 2


def test_unknown_floor_lists_the_planes(tmp_path):
    path = tmp_path / "robot.yaml"
    load(tmp_path)
    path.write_text(path.read_text().replace("geom: floor", "geom: ground"))
    with pytest.raises(UnknownName, match="unknown plane of the world 'ground'; available: floor"):
        robot.load(tmp_path)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("levels: 1", "levels is 1, expected a whole number >= 2"),
        ("tiles: 1.5", "tiles is 1.5, expected a whole number"),
        ("spacing: 0", "spacing is 0.0, expected a positive number"),
    ],
)
def test_terrain_without_meaning_is_refused(tmp_path, more, message):
    load(tmp_path)
    path = tmp_path / "robot.yaml"
    text = path.read_text().replace("levels: 4, tiles: 3, spacing: 0.1", more)
    path.write_text(text)
    with pytest.raises(BadValue, match=message):
        robot.load(tmp_path)


def test_roughness_beyond_the_roughest_tile_is_refused(tmp_path):
    load(tmp_path)
    path = tmp_path / "robot.yaml"
    path.write_text(path.read_text().replace("bounds: [0, 0.12]", "bounds: [0, 0.2]"))
    with pytest.raises(BadValue, match=r"values of terrain/roughness within \[0, 0.12\]"):
        robot.load(tmp_path)
