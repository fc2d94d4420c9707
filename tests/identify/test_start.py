import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.identify.jacobian import Linearization
from s2r_jax.identify.reduce import back_substitute, reduce
from s2r_jax.identify.start import integrate

XML = """<mujoco><worldbody>
<body><freejoint/><geom size=".1"/>
  <body><joint type="ball"/><geom size=".1" pos=".3 0 0"/>
    <body><joint type="hinge" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body></body></body>
<body><joint type="slide" axis="1 0 0"/><geom size=".1"/></body></worldbody></mujoco>"""


def test_displaced_pose_equals_mj_integratepos():
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e-9):
        mujoco.mj_resetData(model, data)
        mujoco.mj_integratePos(model, data.qpos, rng.standard_normal(model.nv), 1.0)
        step = scale * rng.standard_normal(model.nv)
        expected = data.qpos.copy()
        mujoco.mj_integratePos(model, expected, step, 1.0)
        with jax.enable_x64(True):
            got = integrate(model, jnp.asarray(data.qpos), jnp.asarray(step))
        assert_allclose(got, expected, atol=1e-14)


def test_derivative_of_the_displacement_is_finite_at_zero():
    model = mujoco.MjModel.from_xml_string(XML)
    with jax.enable_x64(True):
        slope = jax.jacfwd(lambda s: integrate(model, jnp.asarray(model.qpos0), s))(
            jnp.zeros(model.nv)
        )
    assert np.isfinite(slope).all()
    assert slope[3 + 1, 3] == pytest.approx(0.5)  # dq = half the rotation vector


@pytest.fixture
def arrow():
    rng = np.random.default_rng(1)
    windows, time, sensors, params, start = 4, 6, 2, 3, 2
    shape = (windows, time, sensors)
    linear = Linearization(
        rng.standard_normal(shape),
        rng.standard_normal((*shape, params)),
        rng.standard_normal((*shape, start)),
    )
    return linear, rng.standard_normal((windows, start)), np.array([0.5, 2.0])


def test_elimination_equals_the_full_system(arrow):
    linear, starts, std = arrow
    windows, start = starts.shape
    params = linear.jacobian.shape[-1]
    rows, right = [], []
    for s in range(windows):
        own = np.zeros((12, windows * start))
        own[:, s * start : (s + 1) * start] = linear.start[s].reshape(-1, start)
        rows.append(np.hstack([linear.jacobian[s].reshape(-1, params), own]))
        right.append(-linear.residual[s].ravel())
    rows.append(
        np.hstack([np.zeros((windows * start, params)), np.diag(np.tile(1 / std, windows))])
    )
    right.append(-(starts / std).ravel())
    full = np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0]
    reduced = reduce(linear, starts, std)
    move = -np.linalg.solve(reduced.matrix, reduced.slope)
    assert_allclose(move, full[:params], atol=1e-12)
    assert_allclose(back_substitute(reduced, move).ravel(), full[params:], atol=1e-12)


def test_cost_counts_residuals_and_displacements(arrow):
    linear, starts, std = arrow
    expected = 0.5 * (linear.residual**2).sum() + 0.5 * ((starts / std) ** 2).sum()
    assert reduce(linear, starts, std).cost == pytest.approx(expected)


def test_known_starts_leave_plain_normal_equations(arrow):
    linear, _, _ = arrow
    linear = linear._replace(start=linear.start[..., :0])
    reduced = reduce(linear, np.zeros((4, 0)), np.zeros(0))
    rows = linear.jacobian.reshape(-1, 3)
    assert_allclose(reduced.matrix, rows.T @ rows)
    assert_allclose(reduced.slope, rows.T @ linear.residual.ravel())
    assert back_substitute(reduced, np.ones(3)).shape == (4, 0)


def test_robust_weights_are_the_slope_of_the_pseudo_huber_loss(arrow):
    linear, _, _ = arrow
    step = 1e-6

    def cost(shift):
        moved = linear._replace(residual=linear.residual + shift * linear.jacobian[..., 1])
        return reduce(moved._replace(start=linear.start[..., :0]),
                      np.zeros((4, 0)), np.zeros(0), robust=0.7)  # fmt: skip

    difference = (cost(step).cost - cost(-step).cost) / (2 * step)
    assert cost(0).slope[1] == pytest.approx(difference, rel=1e-8)
