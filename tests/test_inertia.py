"""Inertias against the compiler of MuJoCo and against closed forms, on both engines."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import inertia, robot
from s2r_jax.errors import BadModel
from s2r_jax.sim import world

BOX = (0.1, 0.06, 0.03)


def bodies(mass=2.0, ipos=(0.1, 0.0, -0.2), moments=(0.03, 0.05, 0.04), quat=(0.9, 0.3, 0.2, 0.1)):
    unit = np.array(quat) / np.linalg.norm(quat)
    fields = (np.array([mass]), np.array([ipos]), np.array([moments]), unit[None])
    return inertia.Bodies(*fields)


def change(log=(0,) * 10, payload=0.0, position=(0.0, 0.0, 0.0)):
    fields = (log, payload, position)
    return inertia.Change(*[np.array([field], dtype=float) for field in fields])


def tensor(found):
    """Inertia about the centre of mass in the body's axes, by MuJoCo's own rotation."""
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, np.asarray(found.iquat[0], dtype=float))
    axes = rotation.reshape(3, 3)
    return axes @ np.diag(np.asarray(found.inertia[0], dtype=float)) @ axes.T


def test_nothing_changes_at_zero():
    before, after = bodies(), inertia.moved(bodies(), change(), np)
    assert_allclose(tensor(after), tensor(before), atol=1e-15)
    assert_allclose([*after.mass, *after.ipos[0]], [*before.mass, *before.ipos[0]])


def test_payload_is_what_the_compiler_makes_of_two_geoms():
    # a tiny sphere is a point mass; the compiler adds masses and inertias of the geoms of a body
    xml = """<mujoco><worldbody><body><geom type="box" size=".1 .06 .03" pos=".1 0 .2"
      euler="20 30 0" mass="2"/>{}</body></worldbody></mujoco>"""
    geom = '<geom size="1e-4" mass="0.7" pos="0.05 -0.3 0.1"/>'
    plain, loaded = (mujoco.MjModel.from_xml_string(xml.format(g)) for g in ("", geom))
    before, expected = (
        inertia.Bodies(*[getattr(m, field)[1:] for field in inertia.FIELDS])
        for m in (plain, loaded)
    )
    got = inertia.moved(before, change(payload=0.7, position=(0.05, -0.3, 0.1)), np)
    assert_allclose(tensor(got), tensor(expected), atol=1e-7)  # the sphere's own 3e-9
    assert_allclose([*got.mass, *got.ipos[0]], [*expected.mass, *expected.ipos[0]], atol=1e-12)


def test_stretching_a_box_gives_the_box_of_other_sides():
    # Σ of a box is m a²/3 along each half side; masses scale by exp(2 α)
    x, y, z = BOX
    moments = 2.0 / 3 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])
    log = (0.1, np.log(1.5), 0.0, np.log(0.5), 0, 0, 0, 0.01, 0.02, 0.03)
    got = inertia.moved(bodies(2.0, moments=moments, quat=(1, 0, 0, 0)), change(log), np)
    mass, (x, y, z) = 2.0 * np.exp(0.2), (1.5 * x, y, 0.5 * z)
    expected = mass / 3 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
    assert_allclose(tensor(got), expected, rtol=1e-12, atol=1e-15)
    assert_allclose(got.ipos[0], [0.11, 0.02, -0.17])
    assert_allclose(got.mass, mass)


def stretched(moments, log):
    """Inertia after x -> D x of every mass point, each exp(2 α) times as heavy."""
    alpha, d1, d2, d3, s12, s23, s13 = log[:7]
    d = np.array([[np.exp(d1), s12, s13], [0, np.exp(d2), s23], [0, 0, np.exp(d3)]])
    second = d @ (0.5 * np.trace(moments) * np.eye(3) - moments) @ d.T
    return np.exp(2 * alpha) * (np.trace(second) * np.eye(3) - second)


def test_any_log_cholesky_vector_gives_a_physical_body():
    rng = np.random.default_rng(0)
    for log in rng.normal(size=(200, 10)):
        found = inertia.moved(bodies(), change(log), np)
        a, b, c = sorted(found.inertia[0])
        assert a > 0
        assert found.mass[0] > 0
        assert c <= (a + b) * (1 + 1e-9)  # the triangle inequality, to rounding
        expected = stretched(tensor(bodies()), log)
        assert_allclose(tensor(found), expected, atol=1e-12 * np.trace(expected))


def test_numpy_and_jax_agree():
    log = np.random.default_rng(1).normal(size=10) * 0.3
    given = bodies(), change(log, 0.5, (0.1, 0.2, 0.3))
    with jax.enable_x64(True):
        wide = inertia.moved(*jax.tree.map(jnp.asarray, given), jnp)
    narrow = inertia.moved(*given, np)
    assert_allclose(tensor(wide), tensor(narrow), atol=1e-14)


@pytest.mark.parametrize("moments", [(0.03, 0.05, 0.04), (0.04, 0.04, 0.04)])
def test_derivative_of_the_tensor_agrees_with_central_differences(moments):
    start = np.concatenate([np.full(10, 0.05), [0.3, 0.1, 0.2, -0.1]])
    with jax.enable_x64(True):

        def f(v):
            given = inertia.Change(v[None, :10], v[None, 10], v[None, 11:])
            found = inertia.moved(jax.tree.map(jnp.asarray, bodies(moments=moments)), given, jnp)
            axes = inertia._matrix(found.iquat[0], jnp)
            return axes @ jnp.diag(found.inertia[0]) @ axes.T

        slope = jax.jacfwd(f)(jnp.asarray(start))
        h = 1e-6
        columns = [(f(start + h * e) - f(start - h * e)) / (2 * h) for e in np.eye(14)]
        assert_allclose(slope, np.stack(columns, axis=-1), rtol=1e-6, atol=1e-9)


def test_derivative_at_a_sphere_is_finite():
    def f(mass):
        given = change(position=(0.1, 0.2, 0.3))._replace(payload=mass[None])
        ball = bodies(moments=(0.04, 0.04, 0.04))
        found = inertia.moved(jax.tree.map(jnp.asarray, ball), given, jnp)
        return jnp.sum(found.inertia) + jnp.sum(found.iquat)

    assert np.isfinite(float(jax.grad(f)(jnp.array(0.0))))


XML = """<mujoco><option timestep="0.005" integrator="implicitfast"/><worldbody>
  <body name="base" pos="0 0 1"><freejoint/><geom type="box" size=".1 .1 .05" mass="2"/>
    <body name="arm"><joint name="j" axis="0 1 0" damping=".1"/>
    <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".5"/></body></body></worldbody>
  <actuator><motor name="j" joint="j"/></actuator></mujoco>"""
YAML = """
name: m
model: m.xml
control: {period: 0.01}
parameters:
  - {target: payload/base/mass, bounds: [0, 2]}
  - {target: "payload/base/pos:0", bounds: [-0.3, 0.3]}
  - {target: "payload/base/pos:2", bounds: [-0.3, 0.3]}
  - {target: "body/arm/ipos:0", bounds: [0.0, 0.3]}
  - {target: "body/arm/inertia:0", bounds: [-0.5, 0.5]}
  - {target: "body/arm/inertia:3", bounds: [-0.5, 0.5]}
"""
THETA = (0.8, 0.2, 0.1, 0.15, 0.2, 0.3)


def ends(folder, engine):
    simulator = world.make(robot.load(folder), engine)

    def run(theta):
        w = simulator.world(theta)
        model = simulator.robot.model
        qpos = jnp.asarray(model.qpos0, theta.dtype)
        state = simulator.init(w, qpos, jnp.ones(model.nv, theta.dtype))

        def advance(state, target):
            state = simulator.step(w, state, simulator.nominal_command(target))
            return state, state.physics.qpos

        return jax.lax.scan(advance, state, jnp.full((20, 1), 0.2, theta.dtype))[1][-1]

    return run


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "m.xml").write_text(XML)
    (tmp_path / "robot.yaml").write_text(YAML)
    return tmp_path


def test_c_engine_moves_as_the_model_compiled_with_that_inertia(folder):
    with jax.enable_x64(True):
        got = ends(folder, "mujoco")(jnp.array(THETA))
    model = mujoco.MjModel.from_xml_string(XML)
    spec = mujoco.MjSpec.from_string(XML)
    for name, given in {
        "base": change(payload=0.8, position=(0.2, 0, 0.1)),
        "arm": change((0.2, 0, 0, 0.3, 0, 0, 0, 0, 0, 0)),
    }.items():
        index, body = model.body(name).id, spec.body(name)
        fields = [np.array(getattr(model, field)[index : index + 1]) for field in inertia.FIELDS]
        if name == "arm":
            fields[1][0, 0] = 0.15
        found = inertia.moved(inertia.Bodies(*fields), given, np)
        body.explicitinertial = True
        body.mass, body.ipos = float(found.mass[0]), found.ipos[0]
        body.inertia, body.iquat = found.inertia[0], found.iquat[0]
    compiled = spec.compile()
    data = mujoco.MjData(compiled)
    data.qvel[:], data.ctrl[:] = 1, 0.2
    mujoco.mj_step(compiled, data, nstep=40)
    assert_allclose(got, data.qpos, atol=1e-12)


@pytest.mark.slow
def test_engines_agree_and_the_slope_is_that_of_differences(folder):
    with jax.enable_x64(True):
        theta, h = jnp.array(THETA), 1e-6
        run, reference = ends(folder, "mjx"), ends(folder, "mujoco")
        value, slope = jax.jit(lambda t: (run(t), jax.jacfwd(run)(t)))(theta)
        assert_allclose(value, reference(theta), atol=1e-9)  # float64, 40 steps
        steps = h * jnp.eye(len(THETA))
        pairs = jax.vmap(reference)(jnp.concatenate([theta + steps, theta - steps]))
        difference = (pairs[: len(THETA)] - pairs[len(THETA) :]) / (2 * h)
        assert_allclose(slope, difference.T, atol=1e-7)


def test_nominal_theta_is_the_nominal_robot(folder):
    model = robot.load(folder).model
    plain = mujoco.MjModel.from_xml_string(XML)
    for field in (*inertia.FIELDS, "body_invweight0", "dof_invweight0", "dof_M0"):
        assert_allclose(getattr(model, field), getattr(plain, field), atol=1e-15, err_msg=field)


def test_compiler_that_ignores_stated_inertias_is_refused(folder):
    path = folder / "m.xml"
    path.write_text(XML.replace("<mujoco>", '<mujoco><compiler inertiafromgeom="true"/>'))
    with pytest.raises(BadModel, match=r"the inertia of body 'base' cannot be moved; remove"):
        robot.load(folder)
