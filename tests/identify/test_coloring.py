"""Columns that share a simulation: the same Jacobian, and only where nothing passes between."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import robot
from s2r_jax.identify import coloring, jacobian, segments
from s2r_jax.identify.coloring import Coloring
from s2r_jax.parameters import unconstrain
from s2r_jax.sim import world
from s2r_jax.types import Command, Trajectory

EXAMPLES = Path(__file__).parents[2] / "examples"

#: Two arms of a slide and a hinge each on a static base above a floor, with gaps to fill.
ARMS = """
<mujoco><option timestep="0.01" {option}>{flag}</option><worldbody>
<geom name="floor" type="plane" size="1 1 1" contype="{floor}" conaffinity="{floor}"/>
<body name="base" pos="0 0 1"><geom name="base" size=".05" contype="0" conaffinity="0"/>
<body name="l" pos="0 .5 0"><joint name="l" axis="0 1 0" damping=".2" frictionloss=".01"/>
<geom name="l" size=".1" pos=".3 0 0" mass="1" contype="{touch}" conaffinity="{touch}"/>
<body name="l2" pos=".3 0 0"><joint name="l2" axis="0 1 0" damping=".1"/>
<geom size=".1" pos=".3 0 0" mass=".5" contype="0" conaffinity="0"/><site name="l2"/></body></body>
<body name="r" pos="0 -.5 0"><joint name="r" axis="1 0 0" damping=".2" frictionloss=".01"/>
<geom name="r" size=".1" pos=".3 0 0" mass="1" contype="{touch}" conaffinity="{touch}"/></body>
</body></worldbody>
<actuator><motor name="l" joint="l"/><motor name="r" joint="r"/></actuator>
<sensor><gyro name="gyro" site="l2"/></sensor>{more}</mujoco>"""
PLAIN = {"option": "", "flag": "", "floor": 0, "touch": 0, "more": ""}
YAML = """
name: arms
model: arms.xml
control: {{period: 0.02}}
motors: {motors}
battery: {{voltage: 24, resistance: 0.1}}
signals: {{joint/*/position: {{}}{signals}}}
parameters:
  - {{target: joint/*/damping, bounds: [0.001, 1]}}
  - {{target: motor/*/strength, bounds: [0.5, 2]}}
  - {{target: body/l/mass, bounds: [0.1, 10]}}
  - {{target: option/gravity:2, bounds: [-20, 0]}}
  - {{target: sensor/joint/r/position/bias, bounds: [-1, 1]}}
  - {{target: body/base/pos:2, bounds: [0.5, 2]}}
"""
PD = "{kind: pd, kp: 20, kd: 1}"


def arms(folder, motors=PD, signals="", **changes):
    (folder / "arms.xml").write_text(ARMS.format(**(PLAIN | changes)))
    (folder / "robot.yaml").write_text(YAML.format(motors=motors, signals=signals))
    return robot.load(folder)


def windows(r, held, rows=21):
    """Two windows that start at different places under random targets."""
    draw = np.random.default_rng(5)
    target = r.model.qpos0[list(r.motors.qposes)] + 0.5 * draw.standard_normal((rows, r.model.nu))
    zero = np.zeros_like(target)
    gains = [np.tile(r.motors.values[key], (rows, 1)) for key in ("kp", "kd")]
    command = Command(target, zero, *gains, zero + 1, np.full(rows, np.nan))
    qpos = r.model.qpos0 + 0.1 * draw.standard_normal((rows, r.model.nq))
    qvel = draw.standard_normal((rows, r.model.nv))
    measured = np.zeros((rows, sum(signal.size for signal in r.signals)))
    return segments.cut([Trajectory("random", command, measured, qpos, qvel)], 10, held)


def both(r, engine, method, monkeypatch, starts=0):
    """The Jacobian with colours and column by column."""
    # Of one simulator, the second would be the first, remembered.
    simulator, other = world.make(r, engine), world.make(r, engine)
    with jax.enable_x64(True):
        z = unconstrain(r.parameters, jnp.asarray(r.parameters.start)) + 1e-3
        sensors = sum(signal.size for signal in r.signals)
        cut = windows(r, simulator.held)
        given = (z, jnp.zeros((len(cut.log), starts)), cut, jnp.ones(sensors))
        shared = jacobian.compile_linearization(simulator, method)(*given)
        size = z.size + starts
        apart = Coloring(np.arange(size), np.ones((sensors, size), bool))
        monkeypatch.setattr(jacobian, "coloring", lambda *_: apart)
        full = jacobian.compile_linearization(other, method)(*given)
        return jax.tree.map(np.asarray, shared), jax.tree.map(np.asarray, full)


def colors(r, starts=0):
    return coloring.coloring(world.make(r, "mujoco"), starts)


def test_four_legs_and_a_delay_take_thirteen_colors():
    found = colors(robot.load(EXAMPLES / "go2"))
    assert found.seeds.shape == (13, 49)
    assert (found.seeds.sum(0) == 1).all()
    assert (found.moves.sum(0) == [*[3] * 48, 12]).all()  # a leg's three angles; the delay all


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("method", "engine", "error"),
    # Differences over 1e-5 magnify what the solver leaves: it stops for all trees together.
    [("lm", "mjx", 1e-12), ("fd", "mujoco", 1e-7)],
)
def test_colored_jacobian_of_a_quadruped_is_the_full_one(method, engine, error, monkeypatch):
    shared, apart = both(robot.load(EXAMPLES / "go2"), engine, method, monkeypatch)
    scale = np.abs(apart.jacobian).max((0, 1, 2))
    assert (scale > 1e-6).sum() > 40  # most columns answer
    assert_allclose(shared.jacobian / scale, apart.jacobian / scale, rtol=0, atol=error)
    assert_allclose(shared.residual, apart.residual, rtol=0, atol=1e-13)


def test_colored_jacobian_of_parameters_and_starts_is_the_full_one(tmp_path, monkeypatch):
    r = arms(tmp_path, signals=", sensor/gyro: {}")
    assert len(colors(r, starts=6).seeds) == 10
    shared, apart = both(r, "mujoco", "fd", monkeypatch, starts=6)
    assert_allclose(shared.jacobian, apart.jacobian, atol=1e-8)
    assert_allclose(shared.start, apart.start, atol=1e-8)
    assert np.abs(apart.start).max((0, 1, 2)).min() > 1e-3


def test_unknowns_of_two_arms_share_colors_and_those_of_both_do_not(tmp_path):
    r = arms(tmp_path)
    found = colors(r, starts=6)
    # Four parameters and four starts of the left arm, beside the right one's; gravity; the base.
    assert len(found.seeds) == 10
    shares = found.moves.astype(int) @ found.seeds.T
    assert shares.max() == 1  # no signal answers to two unknowns of a color
    for name in ("option/gravity:2", "body/base/pos:2"):
        assert found.seeds[found.color[r.parameters.index(name)]].sum() == 1
    moved = found.moves[:, r.parameters.index("sensor/joint/r/position/bias")]
    assert moved.tolist() == [False, False, True]


TIES = {
    "contact between the arms": {"touch": 1},
    "a declared pair": {"more": '<contact><pair geom1="l" geom2="r"/></contact>'},
    "an equality": {"more": '<equality><joint joint1="l" joint2="r"/></equality>'},
    "a tendon": {
        "more": '<tendon><fixed><joint joint="l" coef="1"/><joint joint="r" coef="1"/></fixed>'
        "</tendon>"
    },
    "a battery that sags": {"motors": "{kind: pd, kp: 20, kd: 1, torque_constant: 0.1}"},
    "a signal of all motors": {"signals": ", battery/voltage: {}"},
}


@pytest.mark.parametrize("tie", TIES.values(), ids=TIES)
def test_what_may_tie_the_arms_together_leaves_each_column_its_own(tie, tmp_path):
    found = colors(arms(tmp_path, **tie))
    assert (found.seeds == np.eye(len(found.color))).all()
    assert found.moves.all()


@pytest.mark.parametrize(
    "free",
    [
        {"floor": 1},
        {"touch": 1, "flag": '<flag contact="disable"/>'},
    ],
    ids=["ground to touch", "contact off"],
)
def test_what_does_not_tie_the_arms_leaves_colors_to_share(free, tmp_path):
    found = colors(arms(tmp_path, **free))
    assert len(found.seeds) < len(found.color)


def test_legs_of_a_floating_base_are_one_tree():
    r = robot.load(EXAMPLES / "quadruped")
    found = colors(r, starts=2 * r.model.nv)
    assert len(r.parameters)
    assert (found.seeds == np.eye(len(found.color))).all()
