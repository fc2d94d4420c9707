"""The comparison of models on simulated logs whose model is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from s2r_jax import robot
from s2r_jax.errors import BadValue
from s2r_jax.identify import compare, study, terms
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.residual import simulate_all
from s2r_jax.sim import world
from s2r_jax.types import Command, Trajectory

XML = """
<mujoco><option timestep="0.005"/><worldbody>
<body><joint name="hinge" axis="0 1 0" armature="0.002" damping="0"/>
<geom type="capsule" fromto="0 0 0 0 0 -.2" size=".02" mass=".2"/></body></worldbody>
<actuator><motor name="hinge" joint="hinge"/></actuator></mujoco>"""
YAML = """
name: arm
model: arm.xml
control: {period: 0.01}
motors: {kind: pd, kp: 2.0, kd: 0.05, stribeck_speed: 0.1}
signals: {joint/hinge/position: {}}
parameters:
"""
FRICTION = "target: motor/hinge/friction, bounds: [1.0e-5, 0.5], start: 0.02"
VISCOUS = "target: motor/hinge/viscous, bounds: [1.0e-5, 0.5], start: 0.01"
STRIBECK = "target: motor/hinge/stribeck, bounds: [1.0e-5, 0.5], start: 0.005"
DELAY = "target: latency/action, bounds: [0, 0.03], start: 0.005"
CONFIG = IdentifyConfig(method="fd", window=1.0, holdout=0.3)


@pytest.fixture
def arm(tmp_path):
    (tmp_path / "arm.xml").write_text(XML)

    def make(*parameters):
        text = YAML + "".join(f"  - {{{p}}}\n" for p in parameters)
        (tmp_path / "robot.yaml").write_text(text)
        return robot.load(tmp_path)

    return make


def recorded(r, theta, seconds=12.0, noise=5e-4):
    """A log of the arm at θ under two sines, its speed measured too."""
    simulator = world.make(r, "mujoco")
    rows = round(seconds / r.period) + 1
    t = np.arange(rows)[:, None] * r.period
    target = 0.6 * np.sin(3 * t) + 0.3 * np.sin(11 * t + 1)
    none = np.zeros((rows, 1))
    gains = (none + r.motors.values["kp"], none + r.motors.values["kd"])
    command = Command(target, none, *gains, none + 1, np.full(rows, np.nan))
    start = Trajectory("log", command, np.zeros((rows, 1)), none, none)
    windows = study.windows(simulator, [start], 0)
    with jax.enable_x64(True):
        angle = np.asarray(simulate_all(simulator, jnp.asarray(theta), windows))[0]
    angle = np.concatenate([np.zeros((1, 1)), angle])
    measured = angle + noise * np.random.default_rng(0).standard_normal(angle.shape)
    return Trajectory("log", command, measured, angle, np.gradient(angle, r.period, axis=0))


def recommended(r, log):
    full = study.study(r, [log], CONFIG).fit
    found = compare.compare(r, [log], CONFIG, full)
    return found, found.rows[found.recommended]


@pytest.mark.slow
def test_model_that_made_the_log_is_recommended_and_not_a_bigger_one(arm):
    r = arm(FRICTION, VISCOUS, STRIBECK, DELAY)
    found, row = recommended(r, recorded(r, [0.05, 0.03, 1e-6, 0.012]))
    assert row.terms == ("Coulomb", "viscous", "delay")
    assert found.drop == ("motor/hinge/stribeck",)
    assert min(found.rows, key=lambda row: row.bic) == row


@pytest.mark.slow
def test_delay_is_left_out_where_there_is_none(arm):
    r = arm(FRICTION, VISCOUS, DELAY)
    found, row = recommended(r, recorded(r, [0.05, 0.03, 0.0]))
    assert row.terms == ("Coulomb", "viscous")
    assert found.keep == ("motor/hinge/friction", "motor/hinge/viscous")


def test_followers_are_held_with_their_term(arm):
    speed = "target: motor/hinge/stribeck_speed, bounds: [0.01, 1.0], transform: log"
    models = {model.name: model for model in terms.candidates(arm(FRICTION, STRIBECK, speed))}
    assert list(models) == ["no friction", "Coulomb", "Coulomb + Stribeck"]
    assert models["Coulomb"].held == (1, 2)
    assert models["Coulomb"].off == (1,)  # its speed keeps its value


def test_robot_with_nothing_to_switch_off_is_refused(arm):
    r = arm("target: joint/hinge/armature, bounds: [0.001, 0.1], transform: log")
    log = recorded(r, [0.002], seconds=2.0)
    with pytest.raises(BadValue, match="friction or delay to switch off; not declared: Coulomb"):
        recommended(r, log)
