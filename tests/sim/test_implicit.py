import functools
from unittest import mock

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from mujoco import mjx
from mujoco.mjx._src import solver
from numpy.testing import assert_allclose

from s2r_jax.errors import BadModel, BadValue, Unsupported
from s2r_jax.sim import implicit, solution
from s2r_jax.sim.rollout import rollout, state_of
from tests import problems

STEPS = 100

# What is differentiated in each model: physical unknowns, scaled from their nominal value.
THETA = {
    "pendulum": ("body_mass", "dof_damping"),
    "arm": ("dof_damping", "dof_armature", "dof_frictionloss"),
    "limits": ("jnt_range", "jnt_solref", "jnt_stiffness", "dof_damping"),
    "closed_chain": ("body_mass", "eq_solref", "dof_damping"),
    "tendon": ("tendon_range", "tendon_frictionloss", "tendon_stiffness", "eq_data"),
    "tossed_box": ("geom_friction", "body_mass", "geom_solref"),
    "tossed_box_elliptic": ("geom_friction", "body_mass", "geom_solref"),
    "rolling_sphere": ("geom_friction", "body_mass", "body_inertia"),
    "rolling_sphere_elliptic": ("geom_friction", "body_mass", "body_inertia"),
    "capsule_slope": ("geom_friction", "body_mass", "geom_size"),
    "legged": ("geom_friction", "body_mass", "dof_damping", "actuator_gainprm"),
    "forest": ("dof_frictionloss", "body_mass", "dof_armature"),
    "ball_joint": ("jnt_stiffness", "body_inertia", "dof_damping"),
}
# Steps of the central differences, for θ, positions, velocities and controls: small where a contact
# is soon made or broken, large where the outcome hardly moves and rounding would count.
DIFFERENCES = (1e-6, 1e-7, 1e-6, 1e-5)
# Its stiff position servos make and break contact within 1e-5.
CONTROL_DIFFERENCE = {"legged": 1e-6}
# MJX's solver compares costs, so elliptic cones and CG leave qacc at the square root of rounding:
# too noisy for differences of 1e-7. There the reference iterates the same equations to rounding.
NOISY = ("closed_chain", "tossed_box_elliptic", "rolling_sphere_elliptic")
# Compile for over 20 s on one cold core.
SLOW = ("arm", "limits", "closed_chain", "capsule_slope", "legged", "forest")


def each_model(names=THETA):
    slow = (pytest.mark.slow, pytest.mark.timeout(300))
    marks = {name: slow if name in SLOW else () for name in names}
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=mark) for name, mark in marks.items()]
    )


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def put(name, **options):
    model = problems.load(name)
    for field, value in options.items():
        setattr(model.opt, field, value)
    return mjx.put_model(model), mjx.put_data(model, problems.start(model)), model


def compiled(f, *example):
    """Compile without optimising, which takes half as long and runs long enough alike."""
    options = {"xla_backend_optimization_level": 0}
    return jax.jit(f).lower(*example).compile(compiler_options=options)


def outcome(model, data, x, theta_names):
    """Weighted sum of the last state after the rollout that x = (θ, qpos, qvel, ctrl) starts."""
    theta, qpos, qvel, ctrl = x
    scaled = {n: getattr(model, n) * (1 + t) for n, t in zip(theta_names, theta, strict=True)}
    model, data = model.replace(**scaled), data.replace(qpos=qpos, qvel=qvel)

    def advance(state, now):
        moved = implicit.step(model, data.replace(**state._asdict(), ctrl=now))
        return state_of(moved), None

    final, _ = jax.lax.scan(advance, state_of(data), ctrl)
    last = jnp.concatenate([final.qpos, final.qvel])
    return last @ jnp.sin(jnp.arange(1.0, 1 + last.size))


def converged(model, data, problem):
    """`mjx.solve`, then Newton's method on MJX's own residual until nothing changes."""

    def force(qacc):
        return solver.Context.create(model, data.replace(qacc=qacc), grad=False).efc_force

    def residual(qacc):
        impl = data._impl
        return mjx.mul_m(model, data, qacc) - data.qfrc_smooth - impl.efc_J.T @ force(qacc)

    qacc = mjx.solve(model, data).qacc
    for _ in range(3):
        qacc = qacc - jnp.linalg.solve(jax.jacfwd(residual)(qacc), residual(qacc))
    return solution.Answer(qacc, data._impl.efc_J.T @ force(qacc), force(qacc))


@each_model()
def test_both_modes_agree_with_central_differences_of_100_steps(name):
    model, data, host = put(name, tolerance=1e-15)
    ctrl = jnp.array(problems.controls(host, STEPS))
    theta = [jnp.zeros_like(getattr(model, field)) for field in THETA[name]]
    x = (theta, data.qpos, data.qvel, ctrl)
    f = functools.partial(outcome, theta_names=THETA[name])

    def both_modes(model, data, x, direction):
        value, forward = jax.jvp(lambda x: f(model, data, x), (x,), (direction,))
        return value, forward, jax.grad(f, argnums=2)(model, data, x)

    differentiate = compiled(both_modes, model, data, x, x)
    if name in NOISY:
        with mock.patch.object(solution, "solve", converged):
            reference = compiled(f, model, data, x)
    else:

        def reference(model, data, x):
            return differentiate(model, data, x, x)[0]

    rng = np.random.default_rng(0)
    for part in range(len(x)):  # θ, positions, velocities, controls
        direction = tuple(
            jax.tree.map(lambda a, on=(i == part): jnp.array(on * rng.normal(size=a.shape)), each)
            for i, each in enumerate(x)
        )
        _, forward, gradient = differentiate(model, data, x, direction)
        products = jax.tree.map(jnp.vdot, gradient, direction)
        reverse = sum(jax.tree.leaves(products))
        h = CONTROL_DIFFERENCE.get(name, DIFFERENCES[part]) if part == 3 else DIFFERENCES[part]
        up = reference(model, data, jax.tree.map(lambda a, v: a + h * v, x, direction))  # noqa: B023
        down = reference(model, data, jax.tree.map(lambda a, v: a - h * v, x, direction))  # noqa: B023
        # the same sum in another order; two compilations leave a noisy solver at two answers
        assert_allclose(reverse, forward, rtol=1e-6 if name in NOISY else 1e-9)
        # absolute: rounding of the two values over 2 h
        assert_allclose(forward, (up - down) / (2 * h), rtol=1e-6, atol=1e-14 / h)


# Largest difference of positions from C over 100 steps; stock `mjx.step` differs as much, for the
# test asserts that it has our values. MJX lacks the velocity of a moving equality's Jacobian that
# MuJoCo 4 adds to the reference (the next test), which the closed chain shows. Both solvers of many
# or elliptic contacts stop at the tolerance of 1e-8 by ways of their own.
FROM_C = dict.fromkeys(THETA, 1e-11) | {
    "closed_chain": 1e-2,
    "legged": 1e-7,
    "tossed_box_elliptic": 1e-5,
    "rolling_sphere_elliptic": 1e-5,
    "capsule_slope": 1e-5,
}
# Rows compared with C: MJX takes other corners than C of a box that is tilted inside a plane.
AS_C = dict.fromkeys(THETA, STEPS) | {"tossed_box": 35, "tossed_box_elliptic": 35}


@each_model()
def test_values_are_those_of_mjx_and_of_c(name):
    model, data, host = put(name)
    ctrl = jnp.array(problems.controls(host, STEPS))
    like = jax.eval_shape(mjx.step, model, data)

    def stock(model, data, ctrl):
        def advance(data, now):
            data = mjx.step(model, data.replace(ctrl=now))
            return data, data.qpos

        return jax.lax.scan(advance, jax.tree.map(lambda x, y: x.astype(y.dtype), data, like), ctrl)

    given = model, data, ctrl
    expected = compiled(stock, *given)(*given)[1]
    qpos = compiled(rollout, *given)(*given).qpos
    assert_allclose(qpos, expected, atol=1e-6 if name in NOISY else 1e-12)

    state, path = problems.start(host), []
    for now in ctrl:
        state.ctrl[:] = now
        mujoco.mj_step(host, state)
        path.append(state.qpos.copy())
    rows = slice(AS_C[name])
    assert_allclose(qpos[rows], path[rows], atol=FROM_C[name])


def test_a_moving_equality_is_all_that_the_closed_chain_has_otherwise_than_c():
    model, data, host = put("closed_chain")
    expected = problems.start(host)
    mujoco.mj_forward(host, expected)

    @jax.jit
    def rows(qpos, qvel):
        impl = mjx.forward(model, data.replace(qpos=qpos, qvel=qvel))._impl
        return impl.efc_J, impl.efc_aref

    h, active = 1e-6, slice(expected.nefc)
    reference = rows(data.qpos, data.qvel)[1][active]
    ends = []
    for step in (h, -h):
        qpos = np.array(expected.qpos)
        mujoco.mj_integratePos(host, qpos, np.array(expected.qvel), step)
        ends.append(rows(jnp.array(qpos), data.qvel)[0][active] @ data.qvel)
    velocity = (ends[0] - ends[1]) / (2 * h)
    assert jnp.abs(velocity).max() > 0.1
    assert_allclose(expected.efc_aref - reference, -velocity, atol=1e-8)  # differences of 1e-6
    expected.qvel[:] = 0  # at rest they are alike
    mujoco.mj_forward(host, expected)
    still = rows(data.qpos, jnp.zeros(host.nv))[1][active]
    assert_allclose(still, expected.efc_aref, atol=1e-12)


def leaves_of(model):
    """Split a model into its floating-point leaves and a function that puts others in."""
    leaves, tree = jax.tree.flatten(model)
    is_float = [jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating) for leaf in leaves]

    def rebuild(floats):
        given = iter(floats)
        mixed = [next(given) if f else x for x, f in zip(leaves, is_float, strict=True)]
        return jax.tree.unflatten(tree, mixed)

    return [jnp.asarray(x) for x, f in zip(leaves, is_float, strict=True) if f], rebuild


# A coordinate that puts a constraint far beyond the width of its `solimp` (or just elsewhere).
DEEP = [
    ("limits", 0, 0.6),
    ("closed_chain", 2, 0.5),
    ("tendon", 0, 0.5),
    ("tossed_box", 2, 0.02),
    ("tossed_box_elliptic", 2, 0.02),
    ("rolling_sphere_elliptic", 2, 0.07),
    ("ball_joint", 2, -1.0),
]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "at", "deep"), DEEP)
def test_derivatives_are_finite_at_rest_and_deep_inside(name, at, deep):
    model, data, host = put(name)
    floats, rebuild = leaves_of(model)  # everything that a model holds, `solimp` included

    def f(floats, qpos, qvel, ctrl):
        moved = implicit.step(rebuild(floats), data.replace(qpos=qpos, qvel=qvel, ctrl=ctrl))
        return jnp.concatenate([moved.qpos, moved.qvel])

    @jax.vmap
    def both_modes(qpos, qvel, ctrl):
        x = (floats, qpos, qvel, ctrl)
        forward = jax.jvp(f, x, jax.tree.map(jnp.ones_like, x))[1]
        return forward, jax.grad(lambda *x: f(*x).sum(), argnums=(0, 1, 2, 3))(*x)

    rest, start = jnp.array(host.qpos0), data.qpos
    deep = start.at[at].set(deep)
    still = jnp.zeros(host.nv)
    states = [(rest, still), (start, still), (start, data.qvel), (deep, still), (deep, data.qvel)]
    qpos, qvel = map(jnp.stack, zip(*states, strict=True))
    given = qpos, qvel, jnp.zeros((len(states), host.nu))
    found = compiled(both_modes, *given)(*given)
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(found))


def test_slope_of_orientation_at_rest_is_half_the_time_step():
    model, data, host = put("ball_joint", gravity=(0, 0, 0))

    # A free body: q = (cos, w/|w| sin)(|w| dt / 2), so dq/dw = dt / 2 at rest. The joint's damping
    # and spring act on the relative motion alone: ship and mast turn as one.
    together = jnp.zeros(host.nv).at[5].set(1.0)

    @functools.partial(jax.jit, static_argnums=0)
    def slope_of(step):
        def orientation(qvel):
            return step(model, data.replace(qvel=qvel, ctrl=jnp.zeros(host.nu))).qpos[4:7]

        return jax.jvp(orientation, (jnp.zeros(host.nv),), (together,))[1]

    slope, stock = slope_of(implicit.step), slope_of(mjx.step)
    assert_allclose(slope[2], host.opt.timestep / 2, rtol=1e-9)
    assert_allclose(stock[2], 0, atol=1e-12)  # the trap of MJX that this module removes


def test_derivative_does_not_depend_on_solver_iterations_or_batching():
    def slope(iterations, batch):
        model, data, _ = put("tossed_box", iterations=iterations)
        data = data.replace(qpos=data.qpos.at[2].set(0.049))  # 1 mm inside the floor

        def f(friction):
            return implicit.step(model.replace(geom_friction=friction), data).qvel

        jacobian = jax.jacrev(f)
        if batch:
            jacobian = jax.vmap(jacobian)
            friction = jnp.stack([model.geom_friction * s for s in (1, 1.2)])
            return compiled(jacobian, friction)(friction)[0]
        return compiled(jacobian, model.geom_friction)(model.geom_friction)

    many = slope(100, batch=True)
    assert_allclose(slope(4, batch=False), many, rtol=1e-9, atol=1e-12)
    assert jnp.abs(many).max() > 1e-3


def test_float32_agrees_with_float64_and_both_start_a_scan():
    def slope():
        model, data, host = put("tossed_box_elliptic")
        ctrl = jnp.array(problems.controls(host, 5), data.qpos.dtype)

        def f(friction):
            changed = model.replace(geom_friction=friction)

            def advance(data, now):
                return implicit.step(changed, data.replace(ctrl=now)), None

            return jax.lax.scan(advance, data, ctrl)[0].qvel  # the whole data as the carry

        return compiled(jax.jacfwd(f), model.geom_friction)(model.geom_friction)

    double = slope()
    with jax.enable_x64(False):
        single = slope()
    assert (double.dtype, single.dtype) == (jnp.float64, jnp.float32)
    scale = jnp.abs(double).max()
    assert_allclose(single / scale, double / scale, atol=2e-3)  # 5 steps of rounding and tolerance


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_nearly_singular_systems_are_solved_or_damped_but_never_nan(dtype):
    rng = np.random.default_rng(0)
    scales = 10.0 ** rng.uniform(-6, 6, 12)  # masses of very different size
    basis, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    eps = float(jnp.finfo(dtype).eps)
    for smallest in (1e-2, 100 * eps, 0.0):
        spectrum = np.geomspace(1, max(smallest, 1e-300), 12)
        H = jnp.asarray(scales[:, None] * ((basis * spectrum) @ basis.T) * scales, dtype)
        truth = rng.normal(size=12) / scales
        b = jnp.asarray(np.asarray(H, np.float64) @ truth, dtype)
        y = solution._solve_definite(H, b)
        assert jnp.isfinite(y).all()
        left = np.asarray(H, np.float64) @ np.asarray(y, np.float64) - np.asarray(b, np.float64)
        # of b's scaled entries, about 1; the refinements bring it from about 40 eps to 3
        assert np.abs(left / scales).max() < 20 * eps
        if smallest == 1e-2:
            assert_allclose(np.asarray(y) * scales, truth * scales, atol=1e4 * eps)


def test_segments_leave_the_gradient_as_it_is_and_must_divide_the_steps():
    model, data, host = put("pendulum")
    ctrl = jnp.array(problems.controls(host, 12))

    def loss(ctrl, segment):
        return rollout(model, data, ctrl, segment).qpos.sum()

    gradient = jax.jit(jax.grad(loss), static_argnums=1)
    assert_allclose(gradient(ctrl, 4), gradient(ctrl, 12), rtol=1e-12)
    with pytest.raises(BadValue, match=r"segment is 5, expected a divisor of 12 steps: \[1, 2, 3,"):
        rollout(model, data, ctrl, 5)


def test_what_is_not_covered_is_refused_by_name():
    model, data, _ = put("pendulum")
    with pytest.raises(Unsupported, match=r"integrator .* choose one of EULER, IMPLICITFAST, RK4"):
        implicit.step(model.tree_replace({"opt.integrator": 99}), data)
    with pytest.raises(Unsupported, match=r"mujoco-mjx 3.16.0, .* install one of 3.17.\*"):
        implicit._check_version("3.16.0")
    empty = mjx.put_model(mujoco.MjModel.from_xml_string("<mujoco><worldbody/></mujoco>"))
    with pytest.raises(BadModel, match="no degrees of freedom"):
        implicit.step(empty, data)
