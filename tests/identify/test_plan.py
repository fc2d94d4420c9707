"""Plans: information in closed form, limits that hold, errors as predicted when played."""

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import robot
from s2r_jax.cli.emulate import play
from s2r_jax.errors import BadValue
from s2r_jax.hardware.emulator import Emulator
from s2r_jax.identify import margins, study
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.fit import fit
from s2r_jax.identify.information import Experiment, Prior, draws, inside, noise_of
from s2r_jax.identify.plan import limit_names, plan
from s2r_jax.identify.plan_config import PlanConfig
from s2r_jax.logs.trajectory import trajectory
from s2r_jax.sim import world

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Least effort: what must hold of every plan holds of these.
QUICK = PlanConfig(
    duration=2.0, highest=3.0, harmonics=4, population=4, generations=2, draws=1, checks=4
)

SLIDE = """
<mujoco><option timestep="0.005" gravity="0 0 0" integrator="RK4"/><worldbody>
<body name="cart"><joint name="x" type="slide" axis="1 0 0" damping="1"/>
<geom size=".1" mass="2"/></body></worldbody>
<actuator><motor name="push" joint="x"/></actuator></mujoco>"""
SLIDE_YAML = """
name: cart
model: model.xml
control: {period: 0.02}
motors: {kind: torque}
joints: {x: {torque: 4}}
signals: {joint/x/velocity: {noise: 0.01}}
parameters:
  - {target: body/cart/mass, bounds: [1, 4]}
  - {target: joint/x/damping, bounds: [0.2, 4]}
"""

#: Two joints in the plane under gravity, with friction that only motion shows.
ARM = """
<mujoco><compiler angle="radian"/><option timestep="0.01" integrator="implicitfast">
<flag contact="disable"/></option>
<default><joint axis="0 1 0" damping="0.2" frictionloss="0.05" armature="0.02"/></default>
<worldbody><body name="upper"><joint name="shoulder" range="-2 2" limited="true"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="0.8"/>
<body name="lower" pos="0 0 -0.3"><joint name="elbow" range="-2 2" limited="true"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.25" size="0.02" mass="0.5"/></body></body></worldbody>
<actuator>{actuators}</actuator></mujoco>"""
MOTORS = '<motor name="shoulder" joint="shoulder"/><motor name="elbow" joint="elbow"/>'
SERVOS = (
    '<position name="shoulder" joint="shoulder" kp="20" kv="1" ctrllimited="true" '
    'ctrlrange="-2 2"/><position name="elbow" joint="elbow" kp="10" kv="0.5" '
    'ctrllimited="true" ctrlrange="-2 2"/>'
)
ARM_YAML = """
name: arm
model: model.xml
control: {{period: 0.02}}
motors: {motors}
joints:
  shoulder: {{velocity: 12, torque: 8}}
  elbow: {{velocity: 12, torque: 5, sign: -1, offset: 0.3}}
signals:
  joint/*/position: {{noise: 0.002}}
  joint/*/velocity: {{noise: 0.02}}
parameters:
  - {{target: joint/shoulder/damping, bounds: [0.05, 0.6]}}
  - {{target: joint/elbow/frictionloss, bounds: [0.01, 0.3], transform: log}}
  - {{target: body/lower/mass, bounds: [0.3, 0.9]}}
identify: {{window: 0}}
"""
KINDS = {
    "torque": (MOTORS, "{kind: torque}"),
    "pd": (MOTORS, "{kind: pd, kp: {shoulder: 20, elbow: 10}, kd: {shoulder: 1, elbow: 0.5}}"),
    "dc_servo": (
        MOTORS,
        "{kind: dc_servo, kp: 800, duty_gain: 0.0028773, torque_constant: 1.2, resistance: 4}",
    ),
    "native": (SERVOS, "{kind: native}"),
}


def load(folder, xml, yaml):
    folder.mkdir(exist_ok=True)
    (folder / "model.xml").write_text(xml)
    (folder / "robot.yaml").write_text(yaml)
    return robot.load(folder)


@pytest.fixture
def cart(tmp_path):
    return functools.partial(load, tmp_path, SLIDE)


def arm(folder, kind):
    actuators, motors = KINDS[kind]
    return load(folder, ARM.format(actuators=actuators), ARM_YAML.format(motors=motors))


def first_order(force, mass, damping, time):
    """v of m v' + d v = F from rest, and its derivatives by m, d and the first speed."""
    decay = np.exp(-damping * time / mass)
    by_mass = -force * time * decay / mass**2
    by_damping = -force / damping**2 * (1 - decay) + force * time * decay / (damping * mass)
    return force / damping * (1 - decay), np.stack([by_mass, by_damping]), decay


def test_information_equals_that_of_a_first_order_system(cart):
    machine = cart(SLIDE_YAML + "identify: {window: 0}\n")
    experiment = Experiment(machine, np.zeros(1), np.zeros(1))
    force, theta = np.array([1.5, -3.0]), np.array([2.0, 0.8])
    targets = np.tile(force[:, None, None], (1, 100, 1))
    found, is_dead = experiment.information(theta, targets)
    for one, matrix in zip(force, found, strict=True):
        # The row of the start is no measurement of a window.
        _, slope, _ = first_order(one, *theta, 0.02 * np.arange(1, 100))
        assert_allclose(matrix, slope @ slope.T / 0.01**2, rtol=1e-5)  # RK4, differences
    assert not is_dead.any()


def test_unknown_starts_of_windows_cost_information(cart):
    machine = cart(SLIDE_YAML + "identify: {window: 0, velocity_std: 0.05}\n")
    experiment = Experiment(machine, np.zeros(1), np.zeros(1))
    theta = np.array([2.0, 0.8])
    found, _ = experiment.information(theta, np.full((1, 100, 1), 1.5))
    _, slope, decay = first_order(1.5, *theta, 0.02 * np.arange(1, 100))
    coupling = slope @ decay / 0.01**2
    block = decay @ decay / 0.01**2 + 1 / 0.05**2
    expected = slope @ slope.T / 0.01**2 - np.outer(coupling, coupling) / block
    assert_allclose(found[0], expected, rtol=1e-5)


def test_gain_is_half_the_log_determinant_over_that_of_the_bounds(cart):
    machine = cart(SLIDE_YAML)
    matrix = np.array([[400.0, 30.0], [30.0, 90.0]])
    bounds = np.diag([12 / 3**2, 12 / 3.8**2])  # a uniform density's precision
    expected = 0.5 * np.log(np.linalg.det(bounds + matrix) / np.linalg.det(bounds))
    prior = Prior(machine.parameters, np.array([2.0, 1.0]))
    assert prior.gain(matrix) == pytest.approx(expected)


def test_resolution_counts_as_noise_and_held_samples_once(cart):
    yaml = SLIDE_YAML.replace("noise: 0.01}", "noise: 0.03, quantum: 0.1, rate: 10}")
    precision, worth = noise_of(cart(yaml))
    assert_allclose(precision, 1 / np.sqrt(0.03**2 + 0.1**2 / 12))
    assert_allclose(worth, 0.02 * 10)


def test_signal_without_noise_is_refused(cart):
    machine = cart(SLIDE_YAML.replace("noise: 0.01", ""))
    with pytest.raises(BadValue, match=r"velocity: noise is 0\.0, expected a positive number"):
        noise_of(machine)


def test_theta_on_a_bound_is_moved_inside(cart):
    machine = cart(SLIDE_YAML)
    assert_allclose(inside(machine.parameters, np.array([1.0, 4.0])), [1.06, 4 - 0.02 * 3.8])
    drawn = draws(machine.parameters, 50, 0)
    assert drawn[:, 0].min() >= 1.06 - 1e-9
    assert_allclose(drawn[0], machine.parameters.start)


def test_extremes_are_those_of_a_pushed_mass_at_its_lightest(cart):
    machine = cart(SLIDE_YAML)
    response = margins.Response(machine, np.zeros(1), np.zeros(1))
    thetas, force = np.array([[1.0, 0.5], [3.0, 2.0]]), -2.0
    reached = response(thetas, np.full((1, 100, 1), force))
    for draw, (mass, damping) in enumerate(thetas):
        speed, _, _ = first_order(force, mass, damping, np.array(2.0))
        assert_allclose(reached.speed[0, draw], -speed, rtol=1e-4)
        assert reached.high[0, draw] == 0
    assert_allclose(reached.torque, 2.0)
    used = margins.used(margins.limits(machine), reached)
    assert_allclose(used[0, :, -1], 0.5)  # of 4 N


@pytest.mark.parametrize("kind", ["pd", "native"])
def test_torque_between_control_ticks_is_seen(tmp_path, kind):
    machine = arm(tmp_path, kind)
    # Held at 0 against no gravity torque, then a step of 0.2 rad: kp times it in the first physics
    # step, gone before the next control tick looks.
    targets = np.zeros((1, 10, 2))
    targets[:, 5:, 0] = 0.2
    response = margins.Response(machine, np.zeros(2), np.zeros(2))
    reached = response(np.array([machine.parameters.nominal]), targets)
    assert_allclose(reached.torque[0, 0, 0], 20 * 0.2, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_plan_keeps_the_limits_when_played_by_hidden_machines(tmp_path, kind):
    machine = arm(tmp_path, kind)
    found = plan(machine, QUICK)
    assert (found.best.used <= 0.9 + 1e-6).all()
    assert len(found.best.used) == len(limit_names(machine, found.limits))
    assert found.best.prediction.posterior.identifiable.any()
    for seed in range(2):
        log, notes = play(machine, found.log(machine), Emulator(machine, seed), seed, "played")
        assert notes == ()  # no command was cut to a limit
        for i, joint in enumerate(("shoulder", "elbow")):
            assert np.abs(log.channels[f"joint/{joint}/position"]).max() < 2
            assert np.abs(log.channels[f"joint/{joint}/velocity"]).max() < 12
            told = log.channels[f"command/{joint}/target"]
            # Single precision on its way through the machine's frame and back.
            assert_allclose(told, found.best.targets[: len(told), i], atol=1e-6)


def test_no_excitation_within_the_limits_is_an_error(tmp_path):
    actuators, motors = KINDS["torque"]
    xml = ARM.format(actuators=actuators).replace(
        '<body name="lower"', '<body name="lower" euler="0 1 0"'
    )  # hangs askew, so that it swings whatever is commanded
    yaml = ARM_YAML.format(motors=motors).replace("velocity: 12", "velocity: 0.2")
    machine = load(tmp_path, xml, yaml)
    with pytest.raises(BadValue) as caught:
        plan(machine, QUICK)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'robot.yaml'}: limits: speed of ")
    assert "no excitation within it: even the smallest one tried uses" in message


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_errors_of_played_plans_are_as_predicted_and_hidden_machines_are_better_known(tmp_path):
    arm(tmp_path, "torque")
    file = tmp_path / "robot.yaml"
    # A log starts where noisy sensors say; taken as the truth that would be an error of its own.
    free = "window: 0, position_std: 0.01, velocity_std: 0.1"
    file.write_text(file.read_text().replace("window: 0", free))
    machine = robot.load(tmp_path)
    config = dataclasses.replace(
        QUICK, duration=4.0, population=4, generations=2, draws=1, highest=4.0
    )
    found = plan(machine, config)
    others = {name: option for name, option in found.baselines.items() if option is not None}
    assert len(others) == 2
    for option in others.values():
        assert found.best.gain > option.gain + 0.5
    experiment = Experiment(machine, found.pose, found.band.rest)
    simulator, how = world.make(machine, "mujoco"), IdentifyConfig(method="fd")
    options = {"plan": found.best, **others}
    scores, volume = [], {name: [] for name in options}
    for seed in range(4):
        emulator = Emulator(machine, seed)
        log, _ = play(machine, found.log(machine), emulator, seed, "plan")
        windows = study.windows(simulator, [trajectory(log, machine)], 0)
        result = fit(machine, windows, how, start=emulator.theta).posterior
        expected = {
            name: experiment.predict(emulator.theta, option.targets[None])[0].posterior
            for name, option in options.items()
        }
        scores.append((result.value - emulator.theta) / expected["plan"].std)
        for name, estimate in expected.items():
            volume[name].append(np.log(estimate.std).sum())  # infinite where one is not seen
    scores = np.array(scores)
    assert np.abs(scores).max() < 4.5
    # Mean of n squares of standard normal numbers: 1 ± sqrt(2 / n).
    assert abs(np.mean(scores**2) - 1) < 5 * np.sqrt(2 / scores.size)
    # On machines that the search never saw the plan still says more.
    for name in others:
        assert np.mean(volume["plan"]) < np.mean(volume[name])
