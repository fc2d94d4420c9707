"""Probing: what moves nothing and what looks alike is named; both are known in closed form."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import robot
from s2r_jax.sim import probe, world

# A rotor in empty space: inertia * angle'' = gear * ctrl - damping * angle'.
XML = """
<mujoco><option timestep="0.005" gravity="0 0 0"/><worldbody>
<body name="rotor"><joint name="axle" axis="0 0 1" damping="0.01"/>
<geom type="box" size="0.1 0.1 0.02" mass="0.5"/></body></worldbody>
<actuator><motor name="drive" joint="axle" gear="0.05"/></actuator></mujoco>
"""
YAML = """
name: rotor
model: rotor.xml
control: {period: 0.01}
signals:
  joint/axle/position: {noise: 0.01}
  joint/axle/velocity: {quantum: 0.1}
parameters:
"""
MASS = "target: body/rotor/mass, bounds: [0.4, 0.6]"
GEAR = "target: actuator/drive/gear, bounds: [0.04, 0.06]"
DAMPING = "target: joint/axle/damping, bounds: [0.001, 0.1], start: 0.01"


@pytest.fixture
def rotor(tmp_path):
    def make(*parameters, xml=XML, engine="mujoco"):
        (tmp_path / "rotor.xml").write_text(xml)
        text = YAML + "".join(f"  - {{{p}}}\n" for p in parameters) if parameters else YAML + " []"
        (tmp_path / "robot.yaml").write_text(text)
        return world.make(robot.load(tmp_path), engine)

    return make


def test_mass_and_gear_of_an_undamped_rotor_are_exactly_opposite(rotor):
    found = probe.probe(rotor(MASS, GEAR, xml=XML.replace('damping="0.01"', "")))
    (pair,) = found.alike
    assert pair.names == ("body/rotor/mass", "actuator/drive/gear")
    assert pair.cosine == pytest.approx(-1, abs=1e-6)  # angle'' = gear / inertia * ctrl
    assert pair.words == (
        "body/rotor/mass and actuator/drive/gear move the signals in opposite ways (cosine -1.0000)"
    )


def test_three_that_only_count_in_proportion_are_a_mix_though_no_two_are_alike(rotor):
    found = probe.probe(rotor(MASS, GEAR, DAMPING))
    (mix,) = found.alike
    assert sorted(mix.names) == [
        "actuator/drive/gear", "body/rotor/mass", "joint/axle/damping",
    ]  # fmt: skip
    assert mix.cosine == pytest.approx(1, abs=1e-6)


def test_gear_and_damping_can_be_told_apart(rotor):
    assert probe.probe(rotor(GEAR, DAMPING)).alike == ()


@pytest.mark.parametrize("engine", ["mujoco", "mjx"])
def test_parameter_without_effect_is_reported_as_such(rotor, engine):
    limited = XML.replace('damping="0.01"', 'damping="0.01" limited="true" range="-2000 2000"')
    simulator = rotor(
        DAMPING,
        "target: option/gravity:2, bounds: [-9.81, 0]",  # along the axle
        "target: joint/axle/range:1, bounds: [1000, 3000]",  # never reached
        "target: sensor/joint/axle/velocity/drift, bounds: [0, 1]",  # no random walk in a rollout
        xml=limited.replace("<option", '<compiler angle="radian"/><option'),
        engine=engine,
    )
    effects = probe.probe(simulator, seconds=0.2).reaches
    assert [effect.acts for effect in effects] == [True, False, False, False]
    assert all(value == 0 for effect in effects[1:] for value in effect.size.values())
    assert {effect.engine for effect in effects} == {engine}


def test_effect_is_counted_in_noise_and_quantum(rotor):
    bias = "target: sensor/joint/axle/{}/bias, bounds: [-0.02, 0.04]"
    first, second = probe.probe(rotor(bias.format("position"), bias.format("velocity"))).reaches
    # the larger of both ways: 0.04 over a noise of 0.01, and over 0.1 / sqrt(12)
    assert first.size == pytest.approx({"joint position": 4.0, "joint velocity": 0.0}, abs=1e-9)
    expected = {"joint position": 0.0, "joint velocity": 0.4 * 12**0.5}
    assert second.size == pytest.approx(expected, abs=1e-9)


def test_noise_and_quantum_act_on_the_readings_alone(rotor):
    noise = "target: sensor/joint/axle/position/noise, bounds: [0, 0.02]"
    quantum = "target: sensor/joint/axle/velocity/quantum, bounds: [0.05, 0.2]"
    assert [e.acts for e in probe.probe(rotor(noise, quantum), seconds=0.5).reaches] == [True, True]


def test_robot_without_parameters_has_nothing_to_probe(rotor):
    assert probe.probe(rotor(), seconds=0.05) == probe.Probe((), ())


def test_commands_stay_within_the_limits_and_are_held(rotor):
    simulator = rotor(GEAR, xml=XML.replace('gear="0.05"', 'gear="0.05" ctrlrange="-0.5 0.2"'))
    commands = probe.random_commands(simulator.robot, 400, seed=1)
    assert commands.min() == -0.5
    assert commands.max() == 0.2
    assert_allclose(commands[:10], np.broadcast_to(commands[0], (10, 1)))
    assert len(np.unique(commands)) > 5


def test_selected_parameters_keep_their_effects(rotor):
    whole = rotor(MASS, GEAR, DAMPING)
    part = probe.select(whole.parameters, ("joint/axle/damping", "body/rotor/mass"))
    assert part.names == ("body/rotor/mass", "joint/axle/damping")
    assert part.high == (0.6, 0.1)
    smaller = world.make(whole.robot, "mujoco", part)
    target = jnp.full(1, 0.7)

    def moved(simulator, theta):
        w = simulator.world(jnp.asarray(theta))
        state = simulator.init(w, jnp.zeros(1), jnp.zeros(1))
        return simulator.step(w, state, simulator.nominal_command(target)).physics.qvel

    assert_allclose(moved(smaller, [0.4, 0.1]), moved(whole, [0.4, 0.05, 0.1]), rtol=1e-6)
