import chex
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import parameters as P
from s2r_jax import targets
from s2r_jax.errors import BadValue, UnknownName, UnknownTarget
from s2r_jax.parameters import Parameter

XML = """
<mujoco><option gravity="0 0 -9.81"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 .1" friction="0.8 0.005 0.0001"/>
    <body name="upper" pos="0 0 1"><joint name="hip_l" axis="0 1 0" damping="0.1"/>
      <geom name="u" type="capsule" fromto="0 0 0 0 0 -.3" size=".03" mass="2"/>
      <body name="lower" pos="0 0 -.3"><joint name="hip_r" axis="0 1 0" damping="0.2"/>
        <geom name="l" type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass="1"/></body></body>
  </worldbody>
  <actuator><position name="p" joint="hip_l" kp="30" kv="2"/>
    <motor name="m" joint="hip_r" gear="5"/></actuator>
</mujoco>"""
MODEL = mujoco.MjModel.from_xml_string(XML)
OUTER = {"motor.strength": (("motor/p/strength", "motor/m/strength"), np.ones(2))}


def resolve(*declared):
    return targets.resolve(declared, MODEL, OUTER, "robot.yaml")


def nominal(parameters):
    found = {}
    for name in parameters.fields:
        found[name] = OUTER[name][1] if name in OUTER else targets.model_field(MODEL, name)
    return found


def test_glob_gives_one_parameter_a_match_and_share_ties_them():
    apart = resolve(Parameter("joint/*/damping", 0, 1))
    tied = resolve(
        Parameter("joint/*/damping", 0, 5, operation="scale", share=True, name="damping")
    )
    assert apart.names == ("joint/hip_l/damping", "joint/hip_r/damping")
    assert apart.nominal == pytest.approx((0.1, 0.2))
    assert tied.names == ("damping",)
    moved = P.apply(tied, np.array([3.0]), nominal(tied), xp=np)
    assert_allclose(moved["dof_damping"], [0.3, 0.6])


@pytest.mark.parametrize("xp", [np, jnp])
def test_mass_takes_the_inertia_along(xp):
    p = resolve(Parameter("body/upper/mass", 0.1, 10))
    moved = P.apply(p, xp.asarray([4.0]), nominal(p), xp=xp)
    assert_allclose(moved["body_mass"], [0, 4, 1], rtol=1e-6)
    assert_allclose(moved["body_inertia"][1], 2 * MODEL.body_inertia[1], rtol=1e-6)
    assert_allclose(moved["body_inertia"][2], MODEL.body_inertia[2], rtol=1e-6)


def test_kp_moves_gain_and_bias_together():
    p = resolve(Parameter("actuator/p/kp", 1, 100), Parameter("actuator/p/kv", 0, 10))
    moved = P.apply(p, np.array([50.0, 3.0]), nominal(p), xp=np)
    assert moved["actuator_gainprm"][0, 0] == 50
    assert_allclose(moved["actuator_biasprm"][0, :3], [0, -50, -3])
    assert_allclose(moved["actuator_gainprm"][1], MODEL.actuator_gainprm[1])


def test_operations_work_from_the_nominal_value_in_the_order_of_declaration():
    p = resolve(
        Parameter("body/upper/mass", 0.5, 2, operation="scale"),
        Parameter("body/upper/mass", 0, 3, operation="add", name="payload"),
    )
    for _ in range(3):  # nothing accumulates
        moved = P.apply(p, np.array([1.5, 1.0]), nominal(p), xp=np)
        assert moved["body_mass"][1] == pytest.approx(2 * 1.5 + 1)


def test_nominal_theta_changes_nothing():
    p = resolve(
        Parameter("joint/*/damping", 0, 1),
        Parameter("geom/floor/friction", 0.3, 1.2),
        Parameter("option/gravity:2", -12, -8),
        Parameter("motor/*/strength", 0.5, 1.5, operation="scale"),
        Parameter("body/*/mass", -0.5, 1, operation="add"),
    )
    base = nominal(p)
    for name, value in P.apply(p, np.array(p.nominal), base, xp=np).items():
        assert_allclose(value, base[name], err_msg=name)


def test_apply_of_a_batch_equals_apply_of_each():
    p = resolve(Parameter("joint/*/damping", 0, 1), Parameter("body/*/mass", 0.1, 9))
    thetas = np.random.default_rng(0).uniform(0.2, 0.9, (5, len(p)))
    batch = P.apply(p, thetas, nominal(p), xp=np)
    single = jax.vmap(lambda t: P.apply(p, t, nominal(p)))(jnp.asarray(thetas))
    chex.assert_trees_all_close(batch, {k: np.asarray(v) for k, v in single.items()}, rtol=1e-6)


def test_constrain_undoes_unconstrain_and_stays_inside_the_bounds():
    p = resolve(
        Parameter("joint/hip_l/damping", 1e-3, 1, transform="log"),
        Parameter("joint/hip_r/damping", 0.1, 0.9, transform="logit"),
        Parameter("body/upper/mass", 0.5, 9),
    )
    with jax.enable_x64(True):
        theta = jnp.array([0.02, 0.3, 4.0])
        assert_allclose(P.constrain(p, P.unconstrain(p, theta)), theta, rtol=1e-14)
        far = P.constrain(p, jnp.array([0.0, 50.0, 1.0]))
        assert 0.1 <= far[1] <= 0.9
        low, high = P.search_bounds(p)
        assert_allclose(np.exp([low[0], high[0]]), [1e-3, 1])


def test_slope_of_constrain_is_its_derivative():
    p = resolve(
        Parameter("joint/hip_l/damping", 1e-3, 1, transform="log"),
        Parameter("joint/hip_r/damping", 0.1, 0.9, transform="logit"),
        Parameter("body/upper/mass", 0.5, 9),
    )
    z = np.array([-2.0, 0.7, 3.0])
    with jax.enable_x64(True):
        expected = jax.jacobian(lambda z: P.constrain(p, z))(jnp.asarray(z))
        assert_allclose(np.diag(P.constrain_slope(p, z)), expected, rtol=1e-12)


def test_gradient_flows_through_apply():
    p = resolve(Parameter("body/upper/mass", 0.5, 9), Parameter("joint/*/damping", 0, 1))

    def total(theta):
        fields = P.apply(p, theta, nominal(p))
        return fields["body_inertia"].sum() + 3 * fields["dof_damping"].sum()

    slope = jax.grad(total)(jnp.array([2.0, 0.1, 0.2]))
    assert_allclose(slope, [MODEL.body_inertia[1].sum() / 2, 3, 3], rtol=1e-5)


def test_unknown_target_lists_what_exists():
    with pytest.raises(UnknownTarget) as error:
        resolve(Parameter("joint/knee/damping", 0, 1))
    assert str(error.value).startswith("'joint/knee/damping' is not in robot.yaml; ")
    assert "joint/hip_l/damping" in str(error.value)


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (Parameter("joint/hip_l/damping", 1, 0), "low < high"),
        (Parameter("joint/hip_l/damping", 0, 1, transform="log"), "positive bounds"),
        (Parameter("joint/hip_l/damping", 0.5, 1), "inside its bounds; give a start:"),
        (Parameter("joint/hip_l/damping", 0, 1, start=2), "inside its bounds"),
        (Parameter("joint/*/damping", 0, 1, name="d"), "share: true, not 2 matches"),
        (Parameter("joint/hip_l/damping", 0, 1, prior_std=0.0), "a positive number"),
        (Parameter("joint/hip_l/damping", 0, 1, start=0, transform="logit"), "strictly inside"),
    ],
)
def test_bad_parameters_are_refused(parameter, message):
    with pytest.raises(BadValue, match=message):
        resolve(parameter)


def test_names_and_values_are_checked():
    p = resolve(Parameter("joint/*/damping", 0, 1))
    assert p.named(p.vector({"joint/hip_r/damping": 0.7})) == pytest.approx(
        {"joint/hip_l/damping": 0.1, "joint/hip_r/damping": 0.7}
    )
    with pytest.raises(UnknownName, match="unknown parameter 'x'"):
        p.vector({"x": 1})
    with pytest.raises(BadValue, match=r"here: joint/hip_l/damping is nan"):
        p.check([float("nan"), 0.1], "here")
