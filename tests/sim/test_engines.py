"""What every engine gets: the same model, in which each parameter acts, or one clear refusal."""

import re
from unittest import mock

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import targets
from s2r_jax.errors import Unsupported
from s2r_jax.parameters import Parameter, ParameterSet
from s2r_jax.sim import engines
from s2r_jax.sim.engines import Drive, acting

POLE = """
<mujoco><option timestep="0.005"><flag {flag}/></option><worldbody>
<body><joint name="hinge" axis="0 1 0" {joint}/>
<geom name="pole" type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" mass="0.4"/>
<site name="tip" pos="0 0 -0.5"/></body></worldbody>
<actuator><motor name="drive" joint="hinge" {actuator}/></actuator>
<sensor><gyro name="gyro" site="tip" {sensor}/></sensor></mujoco>
"""
BALL = """
<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1" friction="{floor}"/>
<body pos="0 0 0.1"><freejoint/><geom name="skin" size="0.1" friction="0.8"/></body></worldbody>
</mujoco>
"""


def pole(flag="", joint="", actuator="", sensor=""):
    return mujoco.MjModel.from_xml_string(
        POLE.format(flag=flag, joint=joint, actuator=actuator, sensor=sensor)
    )


def ball(floor):
    return mujoco.MjModel.from_xml_string(BALL.format(floor=floor))


def declare(model, *parameters):
    return targets.resolve(parameters, model, {}, "robot.yaml")


def swing(engine, model, parameters, thetas, steps=60):
    """Angles [rad] of worlds that fall from the horizontal, in float64."""
    with jax.enable_x64(True):
        built = engines.make(engine, model, parameters, sensors=False)

        def fall(theta):
            world, still = built.prepare(theta), jnp.zeros(1)
            state = built.init(world, jnp.full(1, np.pi / 2), still)
            drive = Drive(jnp.full(1, 0.3), still, still, still)

            def advance(state, _):
                state = built.step(world, state, drive, 1)
                return state, state.qpos[0]

            return jax.lax.scan(advance, state, length=steps)[1]

        return np.asarray(jax.jit(jax.vmap(fall))(jnp.asarray(thetas)))


def test_friction_loss_that_the_model_has_not_acts_on_both_engines_alike():
    model = pole()
    parameters = declare(model, Parameter("joint/hinge/frictionloss", 1e-3, 1.0, start=0.1))
    thetas = np.array([[1e-3], [0.5]])
    c, mjx = (swing(name, model, parameters, thetas) for name in ("mujoco", "mjx"))
    assert_allclose(mjx, c, atol=1e-6)  # both solvers stop at a tolerance of 1e-8
    assert np.abs(c[0] - c[1]).max() > 0.05
    assert model.dof_frictionloss[0] == 0  # the user's model is left alone


def test_flags_that_only_observe_are_cleared_for_mjx():
    model = pole(flag='energy="enable"')
    none = ParameterSet()
    thetas = np.zeros((1, 0))
    c, mjx = (swing(name, model, none, thetas, 20) for name in ("mujoco", "mjx"))
    assert_allclose(mjx, c, atol=1e-9)
    assert model.opt.enableflags == mujoco.mjtEnableBit.mjENBL_ENERGY


@pytest.mark.parametrize("engine", ["mujoco", "mjx"])
def test_history_that_a_step_would_have_to_carry_is_refused(engine):
    model = pole(actuator='nsample="5" delay="0.01"')
    with pytest.raises(Unsupported, match="delay"):
        engines.make(engine, model, ParameterSet(), sensors=False)


def test_mjx_lists_everything_that_it_would_ignore():
    model = pole(actuator='damping="0.1" armature="0.01"', flag='sleep="enable"')
    with pytest.raises(Unsupported) as caught:
        engines.make("mjx", model, ParameterSet(), sensors=False)
    assert str(caught.value) == (
        "engine 'mjx' does not support what this model has: "
        "(1) actuator_damping of drive is ignored: MJX has no damping of actuators; put it on the "
        "joint (times gear squared), or into kv; "
        "(2) actuator_armature of drive is ignored: MJX has no inertia of actuators; put it on the "
        "joint (times gear squared); "
        "(3) opt.enableflags of option is ignored: MJX never lets a tree sleep; clear the flag: "
        "motion differs by less than sleep_tolerance; "
        "or choose engine 'mujoco', which has all of it"
    )
    engines.make("mujoco", model, ParameterSet(), sensors=False)


def test_contacts_that_mjx_lacks_do_not_matter_where_contact_is_off():
    xml = BALL.format(floor=0.8).replace("<worldbody>", """<option cone="elliptic"/>
      <default><geom condim="1"/></default><worldbody>""")  # fmt: skip
    with pytest.raises(Unsupported, match="geom_condim of floor and skin is rejected"):
        engines.make("mjx", mujoco.MjModel.from_xml_string(xml), ParameterSet(), False)
    off = xml.replace("<option ", '<option><flag contact="disable"/></option><option ')
    model = mujoco.MjModel.from_xml_string(off)
    built = engines.make("mjx", model, ParameterSet(), sensors=False)
    still = jnp.zeros(6)
    state = built.init({}, jnp.asarray(model.qpos0, jnp.float32), still)
    fallen = jax.jit(lambda s: built.step({}, s, Drive(jnp.zeros(0), still, still, still), 10))(
        state
    )
    # semi-implicit Euler: after n steps of h a body has fallen g h² n (n + 1) / 2
    assert float(fallen.qpos[2]) == pytest.approx(0.1 - 9.81 * 0.002**2 * 55, abs=1e-6)


def test_what_mjx_ignores_of_sensors_matters_only_where_sensors_are_read():
    model = pole(sensor='delay="0.01" nsample="4"')
    engines.make("mjx", model, ParameterSet(), sensors=False)
    with pytest.raises(Unsupported, match=r"sensor_delay of gyro is ignored"):
        engines.make("mjx", model, ParameterSet(), sensors=True)


@pytest.mark.parametrize("engine", ["mujoco", "mjx"])
def test_range_of_an_unlimited_joint_is_refused(engine):
    model = pole()
    parameters = declare(model, Parameter("joint/hinge/range:1", -1, 1))
    message = (
        f"engine '{engine}' does not support a parameter that moves nothing: joint/hinge/range:1 "
        "(the joint has no such limit (jnt_limited is off)); "
        "build the model with the limit on, out of reach (±1e+09)"
    )
    with pytest.raises(Unsupported, match=re.escape(message)):
        engines.make(engine, model, parameters, sensors=False)


def test_scaling_of_zero_is_refused_and_setting_is_not():
    model = pole()
    scaled = declare(model, Parameter("joint/hinge/damping", 0.5, 2, operation="scale"))
    with pytest.raises(Unsupported, match=r"damping \(it scales a 0\); use the operation `set`"):
        engines.make("mujoco", model, scaled, sensors=False)
    engines.make("mujoco", model, declare(model, Parameter("joint/hinge/damping", 0, 2)), False)


def test_strength_of_a_plain_motor_acts_though_it_has_no_bias():
    model = pole()
    parameters = declare(model, Parameter("actuator/drive/strength", 0.5, 2, operation="scale"))
    assert acting.open_gates(model, parameters).dead == ()


def test_floor_that_the_skin_overrules_is_refused_and_at_par_takes_precedence():
    floor = Parameter("geom/floor/friction", 0.1, 1.0)
    model = ball(floor=0.3)
    (dead,) = acting.open_gates(model, declare(model, floor)).dead
    assert dead.name == "geom/floor/friction"
    assert "give the geom a higher priority" in str(dead)
    model = ball(floor=0.8)
    opened = acting.open_gates(model, declare(model, floor))
    assert opened.dead == ()
    assert opened.model.geom_priority.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("target", "model", "floor"),
    [("joint/hinge/frictionloss", pole(joint='frictionloss="0.1"'), "1e-06"),
     ("geom/*/friction", ball(0.8), "0.001")],
)  # fmt: skip
def test_friction_down_to_zero_is_refused_by_mjx_alone(target, model, floor):
    parameters = declare(model, Parameter(target, 0.0, 1.0))
    with pytest.raises(Unsupported, match=rf"down to 0, .* stays at {floor} or above"):
        engines.make("mjx", model, parameters, sensors=False)
    engines.make("mujoco", model, parameters, sensors=False)


def test_warp_agrees_with_c_in_contact_folds_nested_vmap_and_has_no_derivative(monkeypatch, capfd):
    model = ball(floor=0.8)
    parameters = declare(model, Parameter("geom/floor/friction", 0.1, 1.0))
    none = jnp.zeros(0)

    def slide(engine):
        built = engines.make(engine, model, parameters, sensors=False)

        def one(friction):
            world = built.prepare(friction[None])
            push = jnp.array([1.0, 0, 0, 0, 0, 0])
            state = built.init(world, jnp.asarray(model.qpos0, jnp.float32), push)
            still = jnp.zeros(6)
            return built.step(world, state, Drive(none, still, still, still), 20).qpos

        return one

    frictions = jnp.array([[0.1, 0.2, 0.3], [0.4, 0.6, 0.9]])
    run = jax.jit(jax.vmap(jax.vmap(slide("warp"))))
    c = jax.jit(jax.vmap(jax.vmap(slide("mujoco"))))(frictions)
    assert_allclose(run(frictions), c, atol=2e-5)  # float32, 20 steps of sliding
    assert float(jnp.ptp(c[..., 0])) > 1e-3  # the friction matters
    with pytest.raises(Unsupported, match="'warp' does not support derivatives; use engine 'mjx'"):
        jax.jacfwd(slide("warp"))(jnp.float32(0.3))
    monkeypatch.setattr("s2r_jax.sim.engines.warp.MOST_CONTACTS", 0)
    cramped = jax.jit(jax.vmap(slide("warp")))(frictions.ravel())
    assert np.isnan(np.asarray(cramped)).any()  # room for one contact among six worlds
    assert capfd.readouterr().out == ""  # standard output belongs to results


def test_warp_moves_what_is_fixed_to_the_world_where_theta_says_so(capfd):
    model = ball(floor=0.8)
    parameters = declare(model, Parameter("geom/floor/pos:2", -0.1, 0.1, start=0.0))
    built = engines.make("warp", model, parameters, sensors=False)
    still = jnp.zeros(6)

    def rest(height):
        world = built.prepare(height[None])
        state = built.init(world, jnp.asarray(model.qpos0, jnp.float32).at[2].add(height), still)
        return built.step(world, state, Drive(jnp.zeros(0), still, still, still), 20).qpos[2]

    heights = jnp.array([-0.1, 0.0, 0.1])
    rests = jax.jit(jax.vmap(rest))(heights) - heights
    assert_allclose(rests, rests[1], atol=1e-6)  # each on its own floor; float32
    assert capfd.readouterr().out == ""  # standard output belongs to results


def test_warp_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unsupported, match=r"lacks Warp; pip install 's2r_jax\[warp\]'"):
        engines.make("warp", pole(), ParameterSet(), sensors=False)


def device(platform, version):
    """As much of a JAX device as the choice looks at."""
    client = mock.Mock(platform_version=version)
    return mock.Mock(spec=jax.Device, platform=platform, client=client)


# as jaxlib's plugins describe themselves
CUDA = device("gpu", "PJRT C API\ncuda 12090")
ROCM = device("gpu", "PJRT C API\nrocm 60200")
TPU = device("tpu", "PJRT C API\nTFRT TPU v5 lite")


@pytest.mark.parametrize(
    ("found", "has_warp", "needs_gradient", "is_wide", "expected"),
    [(CUDA, True, False, False, "warp"), (CUDA, True, True, False, "mjx"),
     (CUDA, False, False, False, "mjx"), (CUDA, True, False, True, "mjx"),
     (ROCM, True, False, False, "mjx"), (TPU, True, False, False, "mjx"),
     (None, True, False, False, "mujoco"), (None, True, True, False, "mjx")],
)  # fmt: skip
def test_auto_follows_device_installation_gradient_and_precision(
    monkeypatch, found, has_warp, needs_gradient, is_wide, expected
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: has_warp or None)
    monkeypatch.setattr(jax, "devices", lambda: [found])
    with jax.enable_x64(is_wide):
        chosen = engines.choose("auto", needs_gradient, on_gpu=found is not None)
    assert chosen == expected
    assert engines.choose("mjx", needs_gradient, on_gpu=found is not None) == "mjx"
