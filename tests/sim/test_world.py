"""The world around the engines: agreement of the engines, latency, battery, sensors, purity."""

from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import robot
from s2r_jax.errors import UnknownName
from s2r_jax.sim import world

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVO = EXAMPLES / "servo_pendulum"


def targets(nu, steps):
    time = np.arange(steps)[:, None] * 0.05 + np.arange(nu)
    return jnp.asarray(0.6 * np.sin(2 * time), jnp.float32)


def rollout(simulator, theta, steps=200):
    """States of one world under a slow sine on every actuator."""
    model = simulator.robot.model
    w = simulator.world(theta)
    qpos = jnp.asarray(model.qpos0, theta.dtype)
    state = simulator.init(w, qpos, jnp.zeros(model.nv, theta.dtype))

    def advance(state, target):
        state = simulator.step(w, state, simulator.nominal_command(target))
        return state, (state.physics.qpos, simulator.read(w, state))

    return jax.lax.scan(advance, state, targets(model.nu, steps).astype(theta.dtype))[1]


def draws(parameters, count, key=0):
    low, high = np.array(parameters.low), np.array(parameters.high)
    middle = np.array(parameters.start)
    share = np.random.default_rng(key).uniform(-0.3, 0.3, (count, len(parameters)))
    return jnp.asarray(np.clip(middle + share * (high - low), low, high), jnp.float32)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/robot.yaml")), ids=lambda p: p.parent.name)
def test_engines_agree_on_example_robots(path):
    r = robot.load(path.parent)
    thetas = draws(r.parameters, 10)
    found = {}
    for engine in ("mujoco", "mjx"):
        simulator = world.make(r, engine)
        found[engine] = jax.jit(jax.vmap(lambda t, s=simulator: rollout(s, t)))(thetas)
    # float32 over 200 control periods; both engines round differently
    chex.assert_trees_all_close(found["mujoco"], found["mjx"], atol=1e-4)


def test_c_engine_equals_plain_mj_step(tmp_path):
    xml = """<mujoco><option timestep="0.005"/><worldbody><body><joint name="j" axis="0 1 0"
    damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02"/></body></worldbody>
      <actuator><motor name="j" joint="j" gear="2"/></actuator></mujoco>"""
    (tmp_path / "m.xml").write_text(xml)
    (tmp_path / "robot.yaml").write_text("name: m\nmodel: m.xml\ncontrol: {period: 0.01}\n")
    simulator = world.make(robot.load(tmp_path), "mujoco")
    with jax.enable_x64(True):
        got, _ = rollout(simulator, jnp.zeros(0, jnp.float64), steps=50)
    model = mujoco.MjModel.from_xml_string(xml)
    data, expected = mujoco.MjData(model), []
    for target in np.asarray(targets(1, 50), dtype=float):
        data.ctrl[:] = target
        mujoco.mj_step(model, data, nstep=2)
        expected.append(data.qpos.copy())
    assert_allclose(got, expected, atol=1e-14)


def test_output_of_c_engine_depends_on_its_inputs_alone():
    simulator = world.make(robot.load(SERVO), "mujoco")
    thetas = draws(simulator.parameters, 3)
    run = jax.jit(jax.vmap(lambda t: rollout(simulator, t, 30)))
    first = run(thetas)
    run(thetas[::-1])  # other θ in the same slots of the host's memory
    chex.assert_trees_all_equal(run(thetas), first)
    alone = jax.jit(lambda t: rollout(simulator, t, 30))(thetas[1])
    chex.assert_trees_all_close(alone, jax.tree.map(lambda x: x[1], first), atol=1e-6)


def test_resampling_theta_does_not_recompile():
    simulator = world.make(robot.load(SERVO), "mujoco")
    run = jax.jit(chex.assert_max_traces(lambda t: rollout(simulator, t, 5), n=1))
    for theta in draws(simulator.parameters, 3):
        run(theta)


def test_world_that_diverges_stays_not_finite():
    simulator = world.make(robot.load(SERVO), "mujoco")
    theta = jnp.asarray(simulator.parameters.start, jnp.float32)

    def fall(speed):
        w = simulator.world(theta)
        state = simulator.init(w, jnp.zeros(1), speed[None])
        command = simulator.nominal_command(jnp.zeros(1))
        return simulator.step(w, simulator.step(w, state, command), command).physics.qpos

    ends = jax.vmap(fall)(jnp.array([0.0, jnp.nan, 1.0]))
    assert np.isfinite(np.asarray(ends[:, 0])).tolist() == [True, False, True]


def test_battery_sags_under_load():
    r = robot.load(SERVO)
    simulator = world.make(r, "mujoco")
    theta = jnp.asarray(simulator.parameters.start, jnp.float32)
    w = simulator.world(theta)
    w = w._replace(battery=w.battery._replace(resistance=jnp.array(0.5)))
    state = simulator.init(w, jnp.zeros(1), jnp.zeros(1))
    for _ in range(2):
        state = simulator.step(w, state, simulator.nominal_command(jnp.array([3.0])))
    expected = float(w.battery.voltage - 0.5 * state.current)
    assert float(state.current) > 0
    assert float(state.voltage) == pytest.approx(expected, rel=0.02)  # one substep old


def test_measured_voltage_overrules_the_battery():
    simulator = world.make(robot.load(SERVO), "mujoco")
    w = simulator.world(jnp.asarray(simulator.parameters.start, jnp.float32))
    state = simulator.init(w, jnp.zeros(1), jnp.zeros(1))
    command = simulator.nominal_command(jnp.array([3.0]))._replace(voltage=jnp.array(3.3))
    assert float(simulator.step(w, state, command).voltage) == pytest.approx(3.3)


def test_unknown_engine_lists_the_choices():
    with pytest.raises(UnknownName, match=r"unknown engine 'bullet'; available: auto, mjx, mujoco"):
        world.make(robot.load(SERVO), "bullet")
