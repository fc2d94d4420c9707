"""The world around the engines: latency, battery, sensors, purity."""

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
    """States of one world under a slow sine on every actuator, from the first keyframe if any."""
    model = simulator.robot.model
    w = simulator.world(theta)
    qpos = jnp.asarray(model.key_qpos[0] if model.nkey else model.qpos0, theta.dtype)
    default = jnp.asarray([joint.default for joint in simulator.robot.joints], theta.dtype)
    state = simulator.init(w, qpos, jnp.zeros(model.nv, theta.dtype), default)

    def advance(state, wave):
        target = default + wave
        state = simulator.step(w, state, simulator.nominal_command(target))
        return state, (state.physics.qpos, simulator.read(w, state))

    return jax.lax.scan(advance, state, targets(model.nu, steps).astype(theta.dtype))[1]


def draws(parameters, count, key=0):
    low, high = np.array(parameters.low), np.array(parameters.high)
    middle = np.array(parameters.start)
    share = np.random.default_rng(key).uniform(-0.3, 0.3, (count, len(parameters)))
    return jnp.asarray(np.clip(middle + share * (high - low), low, high), jnp.float32)


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


FLOATING = """<mujoco><option timestep="0.005" gravity="0 0 0"/>
  <worldbody><body name="box"><freejoint/><geom size=".1"/>
    <body name="arm"><joint name="j" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02"/></body></body></worldbody>
  <actuator><motor name="j" joint="j"/></actuator></mujoco>"""


def simulator_of(folder, xml, yaml="", engine="mujoco"):
    (folder / "m.xml").write_text(xml)
    (folder / "robot.yaml").write_text(f"name: m\nmodel: m.xml\ncontrol: {{period: 0.01}}\n{yaml}")
    return world.make(robot.load(folder), engine)


def at_rest(simulator):
    w = simulator.world(jnp.asarray(simulator.parameters.start, jnp.float32))
    model = simulator.robot.model
    qpos = jnp.asarray(model.qpos0, jnp.float32)
    return w, simulator.init(w, qpos, jnp.zeros(model.nv, jnp.float32))


def test_push_moves_the_free_body_and_only_with_a_key(tmp_path):
    yaml = "push: {speed: 0.7, interval: 1.0e-4}"
    simulator = simulator_of(tmp_path, FLOATING, yaml)
    w, state = at_rest(simulator)
    command = simulator.nominal_command(jnp.zeros(1))
    pushed = simulator.step(w, state, command, jax.random.key(0)).physics.qvel
    # interval far below the control period: a push is certain; without gravity it is all there is
    assert_allclose(np.linalg.norm(pushed[:2]), 0.7, rtol=0.2)  # the arm takes its share
    assert_allclose(simulator.step(w, state, command).physics.qvel, 0.0)


def test_lost_command_leaves_the_one_before_in_force():
    simulator = world.make(robot.load(SERVO), "mujoco")
    w, state = at_rest(simulator)
    w = w._replace(latency=w.latency._replace(drop=jnp.array(1.0)))
    command = simulator.nominal_command(jnp.array([1.0]))
    kept = simulator.step(w, state, command, jax.random.key(0)).line
    chex.assert_trees_all_equal(kept[0], state.line[0])
    chex.assert_trees_all_equal(simulator.step(w, state, command).line[0, 0], jnp.array([1.0]))


def test_command_line_reaches_latency_and_jitter_together(tmp_path):
    yaml = """
latency: {action: 0.01, jitter: 0.005}
parameters:
  - {target: latency/action, bounds: [0.0, 0.02]}
  - {target: latency/jitter, bounds: [0.0, 3.0], operation: scale}
signals: {joint/j/position: {delay: 0.01, rate: 50}}
"""
    simulator = simulator_of(tmp_path, FLOATING, yaml)
    assert simulator.held == 5  # 20 ms + 15 ms on a grid of 10 ms, and the newest
    assert simulator.ticks == 4  # 10 ms late, 20 ms held, and the newest


SERVO_ARM = """<mujoco><option timestep="0.005" integrator="implicitfast"/>
  <worldbody><body><joint name="j" axis="0 1 0" armature="0.01" frictionloss="{loss}"/>
    <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1"/></body></worldbody>
  <actuator><position name="j" joint="j" kp="{kp}" kv="{kv}"/></actuator></mujoco>"""


def c_rollout(xml, steps):
    model = mujoco.MjModel.from_xml_string(xml)
    data, rows = mujoco.MjData(model), []
    for target in np.asarray(targets(1, steps), dtype=float):
        data.ctrl[:] = target
        mujoco.mj_step(model, data, nstep=2)
        rows.append(data.qpos.copy())
    return np.array(rows)


@pytest.mark.parametrize("engine", ["mujoco", "mjx"])
def test_strength_of_native_servos_scales_their_force_not_their_target(tmp_path, engine):
    yaml = "parameters:\n  - {target: motor/*/strength, bounds: [0.2, 1.5]}"
    xml = SERVO_ARM.format(loss=0.0, kp=20, kv=1)
    simulator = simulator_of(tmp_path, xml, yaml, engine)
    got, _ = jax.jit(lambda t: rollout(simulator, t, 40))(jnp.array([0.5], jnp.float32))
    assert_allclose(got, c_rollout(SERVO_ARM.format(loss=0.0, kp=10, kv=0.5), 40), atol=2e-5)


def test_friction_of_native_servos_is_that_of_the_joint(tmp_path):
    yaml = "motors: {kind: native, friction: 0.3, viscous: 0.0}"
    simulator = simulator_of(tmp_path, SERVO_ARM.format(loss=0.0, kp=20, kv=1), yaml)
    got, _ = jax.jit(lambda t: rollout(simulator, t, 40))(jnp.zeros(0, jnp.float32))
    expected = c_rollout(SERVO_ARM.format(loss=0.300001, kp=20, kv=1), 40)  # the floor comes on top
    assert_allclose(got, expected, atol=2e-5)


def test_backlash_leaves_the_joint_free_within_the_gap(tmp_path):
    # The servo holds the motor's side; the arm hangs from one side of the gap.
    xml = SERVO_ARM.format(loss=0.0, kp=1, kv=0).replace("position", "motor")
    xml = xml.replace('kp="1" kv="0"', "")
    ends = []
    for width in (0.0, 0.1):
        yaml = f"motors: {{kind: pd, kp: 200, kd: 5, backlash: {width}}}"
        simulator = simulator_of(tmp_path, xml, yaml)
        w, state = at_rest(simulator)
        step = jax.jit(simulator.step)
        for _ in range(100):
            state = step(w, state, simulator.nominal_command(jnp.zeros(1)))
        ends.append(float(state.physics.qpos[0]))
    assert ends[1] - ends[0] == pytest.approx(
        0.05, abs=1e-3
    )  # half the gap, within the sag's change


def test_lag_settles_where_the_commands_before_would_hold_it(tmp_path):
    xml = """<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody><body>
        <joint name="z" type="slide" axis="0 0 1"/><geom size=".1" mass="1"/><site name="hub"/>
        </body></worldbody>
      <actuator><motor name="a" site="hub" gear="0 0 1 0 0 0.1"/>
        <motor name="b" site="hub" gear="0 0 1 0 0 -0.1"/></actuator>
      <sensor><jointactuatorfrc name="thrust" joint="z"/></sensor></mujoco>"""
    yaml = """motors: {kind: rotor, lag: 0.05, thrust_constant: 0.1, thrust_quadratic: 2.0}
latency: {action: 0.005}
signals: {sensor/thrust: {}}"""
    simulator = simulator_of(tmp_path, xml, yaml)
    w, state = at_rest(simulator)
    before, after = jnp.array([0.3, 0.5]), jnp.array([0.9, 0.9])
    line = jnp.stack([before, jnp.zeros(2), jnp.ones(2)])
    state = state._replace(line=jnp.broadcast_to(line, state.line.shape))
    command = simulator.nominal_command(after)
    state = simulator.settle(w, state, command)
    assert_allclose(state.lagged, before)
    # One period of 10 ms, of which the new command acts for the last 5 ms; the sensor shows the
    # force of the last physics step.
    state = jax.jit(simulator.step)(w, state, command)
    throttle = after + (before - after) * np.exp(-0.005 / 0.05)
    thrust = float(jnp.sum(0.1 + 2.0 * throttle**2))
    assert float(simulator.read(w, state)[0]) == pytest.approx(thrust, rel=1e-5)


def test_state_keeps_its_shape_and_dtype_with_a_key():
    simulator = world.make(robot.load(SERVO), "mujoco")
    w, state = at_rest(simulator)
    command = simulator.nominal_command(jnp.zeros(1))
    after = jax.eval_shape(simulator.step, w, state, command, jax.random.key(0))
    assert after == jax.eval_shape(lambda s: s, state)


SURROUNDINGS = """
motors: {kind: pd, kp: 30, kd: 1.0, torque_constant: 0.5, resistance: 1.0, backlash: 0.04}
battery: {voltage: 12, resistance: 0.05, capacity: 50, charge: 0.5}
latency: {action: 0.006, jitter: 0.006}
signals: {joint/j/position: {rate: 42, delay: 0.004}, battery/voltage: {}}
parameters:
  - {target: motor/j/backlash, bounds: [0.0, 0.1]}
  - {target: motor/j/strength, bounds: [0.5, 1.5]}
  - {target: battery/charge, bounds: [0.1, 1.0]}
  - {target: latency/action, bounds: [0.0, 0.02]}
  - {target: latency/jitter, bounds: [0.0, 0.02]}
  - {target: sensor/joint/j/position/rate, bounds: [20, 100]}
"""


@pytest.mark.slow
def test_slopes_of_what_surrounds_the_engine_agree_with_differences(tmp_path):
    xml = SERVO_ARM.format(loss=0.0, kp=1, kv=0).replace("position", "motor")
    xml = xml.replace('kp="1" kv="0"', "")
    key = jax.random.key(0)

    def readings(simulator, theta):
        w = simulator.world(theta)
        zero = jnp.zeros(1, theta.dtype)
        state = simulator.init(w, zero, zero)

        def advance(state, given):
            target, tick = given
            now = jax.random.fold_in(key, tick)
            state = simulator.step(w, state, simulator.nominal_command(target), now)
            return state, simulator.read(w, state)

        waves = 2 * targets(1, 12).astype(theta.dtype)
        return jax.lax.scan(advance, state, (waves, jnp.arange(12)))[1]

    with jax.enable_x64(True):
        ours = simulator_of(tmp_path, xml, SURROUNDINGS, "mjx")
        reference = world.make(ours.robot, "mujoco")
        theta = jnp.asarray(ours.parameters.start)
        slope = jax.jit(jax.jacfwd(lambda t: readings(ours, t)))(theta)
        steps = 1e-6 * jnp.diag(jnp.maximum(theta, 1e-2))
        run = jax.vmap(lambda t: readings(reference, t))
        difference = (run(theta + steps) - run(theta - steps)).T / (2 * jnp.diag(steps))
        assert_allclose(slope.transpose(1, 0, 2), difference, rtol=1e-4, atol=1e-6)
        assert (jnp.abs(slope).max(axis=(0, 1)) > 1e-4).all()  # each of them acts
