"""Commands of many periods at once give what one period after the other gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import robot
from s2r_jax.sim import world
from s2r_jax.sim.engines import c
from s2r_jax.sim.replay import is_known_ahead, replay
from s2r_jax.types import Command

#: A cart that is thrown against a stop, under a late command, seen by late and slow sensors.
XML = """
<mujoco><option timestep="0.002"/><worldbody>
<body><joint name="x" type="slide" axis="1 0 0" range="-0.05 0.05" limited="true"/>
<joint name="y" axis="0 1 0" damping="0.01" stiffness="1" frictionloss="0.02"/>
<geom size=".1" pos="0 0 .2" mass="1"/><site name="top" pos="0 0 .2"/></body></worldbody>
<actuator><position name="x" joint="x" kp="200" kv="5"/>
<general name="y" joint="y" dyntype="filter" dynprm="0.03"/></actuator>
<sensor><gyro name="gyro" site="top"/></sensor></mujoco>"""
YAML = """
name: cart
model: cart.xml
control: {period: 0.01}
latency: {action: 0.013}
signals:
  joint/x/position: {delay: 0.017, bias: 0.1}
  joint/y/velocity: {rate: 40, scale: 2}
  sensor/gyro: {}
parameters:
  - {target: joint/y/stiffness, bounds: [0.5, 2]}
  - {target: latency/action, bounds: [0, 0.03]}
"""


def cart(folder, xml=XML, yaml=YAML):
    (folder / "cart.xml").write_text(xml)
    (folder / "robot.yaml").write_text(yaml)
    return robot.load(folder)


def both(simulator, thetas, periods=60, speed=2.0):
    """Signals of all worlds at once, and one period after the other."""
    model = simulator.robot.model
    times = np.arange(periods)[:, None] * simulator.robot.period
    zero = jnp.zeros((periods, model.nu))
    target = jnp.asarray(0.04 * np.sin(9 * times + np.arange(model.nu)))
    enabled = jnp.ones((periods, model.nu)).at[40:].set(0.0)
    commands = Command(target, zero, zero, zero, enabled, jnp.full(periods, jnp.nan))

    def start(theta):
        w = simulator.world(theta)
        qvel = jnp.full(model.nv, speed)
        return w, simulator.init(w, jnp.zeros(model.nq), qvel, jnp.full(model.nu, 0.01))

    def one_by_one(theta):
        w, state = start(theta)

        def advance(state, command):
            state = simulator.step(w, state, command)
            return state, simulator.read(w, state)

        return jax.lax.scan(advance, state, commands)[1]

    def at_once(theta):
        return replay(simulator, *start(theta), commands)

    return [np.asarray(jax.jit(jax.vmap(run))(thetas)) for run in (at_once, one_by_one)]


@pytest.mark.parametrize("engine", ["mujoco", "mjx"])
def test_all_periods_at_once_are_one_after_the_other(tmp_path, engine):
    with jax.enable_x64(True):
        simulator = world.make(cart(tmp_path), engine)
        assert simulator.is_open_loop
        thetas = jnp.asarray([[1.0, 0.013], [1.5, 0.0], [0.7, 0.026]])
        found, expected = both(simulator, thetas)
    assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert np.ptp(found, axis=(0, 1))[[0, 1, 3]].min() > 1e-3  # it turns about y alone


TORQUES = XML.replace(
    XML[XML.index("<actuator>") : XML.index("<sensor>")],
    '<actuator><motor name="x" joint="x" gear="50"/><motor name="y" joint="y"/></actuator>',
)
PLAIN = "motors: {kind: torque, torque_limit: {x: 0.02, y: 1}, strength: 1.1, saturation: 0.2}\n"


@pytest.mark.parametrize(
    ("motors", "is_ahead"),
    [
        (PLAIN, True),
        (PLAIN.replace("saturation: 0.2", "lag: 0.02"), False),
        (PLAIN.replace("saturation: 0.2", "friction: 0.01"), False),
    ],
    ids=["plain", "lag", "friction"],
)
def test_torques_that_depend_on_nothing_else_go_at_once_too(tmp_path, motors, is_ahead):
    with jax.enable_x64(True):
        simulator = world.make(cart(tmp_path, TORQUES, YAML + motors), "mujoco")
        assert is_known_ahead(simulator) == is_ahead
        found, expected = both(simulator, jnp.asarray([[1.0, 0.013], [1.5, 0.0], [0.7, 0.026]]))
    assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_robot_that_reports_its_torque_is_stepped(tmp_path):
    yaml = YAML.replace("  sensor/gyro: {}", "  motor/y/torque: {}") + PLAIN
    simulator = world.make(cart(tmp_path, TORQUES, yaml), "mujoco")
    assert not is_known_ahead(simulator)


def test_parts_of_a_long_replay_join(tmp_path, monkeypatch):
    simulator = world.make(cart(tmp_path), "mujoco")
    thetas = jnp.asarray([[1.0, 0.013], [1.5, 0.0]])
    whole = both(simulator, thetas)[0]
    monkeypatch.setattr(c, "ROOM", 1000)
    assert_allclose(both(simulator, thetas)[0], whole, rtol=0, atol=0)


def test_model_without_actuators_is_replayed(tmp_path):
    xml = XML[: XML.index("<actuator>")] + "</mujoco>"
    yaml = YAML.replace("latency: {action: 0.013}\n", "").replace("  sensor/gyro: {}\n", "")
    yaml = yaml[: yaml.index("  - {target: latency")]
    with jax.enable_x64(True):
        simulator = world.make(cart(tmp_path, xml, yaml), "mujoco")
        found, expected = both(simulator, jnp.asarray([[1.0], [1.5]]))
    assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_world_that_diverges_does_so_alone_and_as_when_stepped(tmp_path):
    # A spring far too stiff for steps of 2 ms.
    yaml = YAML.replace("bounds: [0.5, 2]", "bounds: [0.5, 1.0e+9]")
    with jax.enable_x64(True):
        simulator = world.make(cart(tmp_path, yaml=yaml), "mujoco")
        found, expected = both(simulator, jnp.asarray([[1.0, 0.01], [1e9, 0.01]]))
    assert np.isfinite(found[0]).all()
    assert_allclose(found[0], expected[0], rtol=0, atol=1e-12)
    is_sane = np.isfinite(expected[1]).all(-1)
    assert 0 < is_sane.sum() < len(is_sane)
    assert_allclose(found[1][is_sane], expected[1][is_sane], rtol=1e-9)
    assert not np.isfinite(found[1][-1]).any()
    assert np.abs(expected[1][is_sane]).max() > 1e10  # stepped on beyond the first warning
