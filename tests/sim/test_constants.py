import re

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from mujoco import mjx
from numpy.testing import assert_allclose

from s2r_jax.errors import UnknownName, Unsupported
from s2r_jax.sim import constants

LINK = '<geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>'


def leg(name, x, y):
    return f"""<body name="{name}" pos="{x} {y} 0"><joint name="{name}_hip" axis="1 0 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".03"/>
      <body pos="0 0 -.2"><joint axis="0 1 0" armature=".01"/>
        <geom type="capsule" fromto="0 0 0 .05 0 -.2" size=".02"/>
        <body pos=".05 0 -.2"><geom name="{name}_foot" size=".03"/></body></body></body>"""


MODELS = {
    "chain": f"""<worldbody><body><joint axis="0 1 0" armature=".02"/>{LINK}
      <body pos=".3 0 0" euler="20 0 30"><joint axis="0 1 0" pos=".02 0 .01"/>{LINK}
      <body pos=".3 .1 0"><joint axis="1 1 0"/>{LINK}</body></body></body></worldbody>""",
    "cartpole": """<worldbody><body name="cart"><joint type="slide" axis="1 0 0"/>
      <geom type="box" size=".2 .1 .1"/><body name="pole"><joint axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 .6" size=".04"/></body></body></worldbody>
      <actuator><motor joint="joint0" gear="3"/></actuator>""".replace(
        '<joint type="slide"', '<joint name="joint0" type="slide"'
    ),
    "boxes": """<worldbody><geom type="plane" size="1 1 .1"/><body pos="0 0 1"><freejoint/>
      <geom type="box" size=".2 .1 .1"/></body><body pos="1 .3 1" euler="10 20 30"><freejoint/>
      <geom type="ellipsoid" size=".2 .1 .05" pos=".1 0 .02" contype="0"
      conaffinity="0"/></body></worldbody>""",
    "quadruped": f"""<worldbody><body pos="0 0 .5" euler="5 10 15"><freejoint/>
      <geom type="box" size=".3 .15 .08"/><site name="imu" pos=".1 0 .02"/>
      <camera name="head" pos=".3 0 .1" euler="90 -90 0"/>
      {leg("fl", 0.3, 0.2)}{leg("fr", 0.3, -0.2)}{leg("hl", -0.3, 0.2)}{leg("hr", -0.3, -0.2)}
      </body></worldbody>
      <actuator><position joint="fl_hip" kp="20"/><motor joint="hr_hip" gear="-2"/></actuator>""",
    "balls": f"""<worldbody><body><joint type="ball" armature=".003"/>{LINK}<body pos=".3 0 0">
      <joint type="ball" pos="0 .01 0"/>{LINK}<body pos=".3 0 0"><joint type="slide" axis="0 1 1"/>
      <joint type="slide" axis="1 0 0"/>{LINK}</body></body></body></worldbody>""",
    "heavy_tendons": f"""<worldbody><site name="w" pos="0 0 .4"/><body>
      <joint name="a" axis="0 1 0"/>{LINK}<body pos=".3 0 0">
      <joint name="b" axis="0 1 0"/>{LINK}<site name="s" pos=".1 0 .1"/></body></body></worldbody>
      <tendon><fixed name="t" armature=".2"><joint joint="a" coef="1.5"/>
      <joint joint="b" coef="-1"/></fixed>
      <spatial armature=".4"><site site="w"/><site site="s"/></spatial></tendon>
      <actuator><motor tendon="t" gear="4"/></actuator>""",
    "spatial_tendon": f"""<worldbody><site name="ceiling" pos="0 0 .5"/>
      <geom name="drum" type="cylinder" size=".06 .1" pos=".1 0 .2" euler="90 0 0"/>
      <body><joint axis="0 1 0"/>{LINK}<site name="elbow" pos=".25 0 .03"/>
      <geom name="ball" size=".04" pos=".3 .01 .03"/><site name="side" pos=".3 0 .4"/>
      <body pos=".35 0 0" euler="0 25 0"><joint axis="0 1 0"/>{LINK}
      <site name="tip" pos=".2 0 .03"/>
      </body></body></worldbody>
      <tendon><spatial name="t" stiffness="5"><site site="ceiling"/>
      <geom geom="drum"/><site site="elbow"/><geom geom="ball" sidesite="side"/><site site="tip"/>
      <pulley divisor="2"/><site site="ceiling"/><site site="tip"/></spatial></tendon>
      <actuator><general tendon="t" gear="2"/></actuator>""",
    "closed_chain": f"""<worldbody><body name="anchor" mocap="true" pos=".1 .2 1"/>
      <body name="a" pos="0 0 1"><joint name="ja" axis="0 1 0"/>{LINK}
      <body name="b" pos=".3 0 0"><joint name="jb" axis="0 1 0"/>{LINK}
      <site name="s"/></body></body>
      <body name="c" pos="0 0 .6"><joint axis="0 1 0"/>{LINK}<site name="w"/></body></worldbody>
      <equality><connect body1="b" body2="c" anchor=".3 0 0"/><weld body1="a" body2="anchor"/>
      <weld body1="b" body2="c" relpose="0 0 .1 1 0 0 0"/>
      <connect body1="a" body2="world" anchor="0 .1 0"/>
      <joint joint1="ja" joint2="jb"/><connect site1="s" site2="w"/></equality>""",
    "transmissions": f"""<worldbody><site name="base" pos="0 .1 .1"/><body pos="0 0 .4"><freejoint
      name="root"/>{LINK}<site name="thruster" pos=".1 0 0" euler="10 20 0"/>
      <camera name="c" pos="0 0 .1"/><body name="link" pos=".3 0 0">
      <joint name="ball" type="ball" pos=".01 0 0"/>{LINK}
      <body pos=".3 0 0"><joint name="hinge" axis="0 1 0"/>{LINK}
      <site name="hand" pos=".3 0 0"/></body></body></body></worldbody>
      <equality><weld body1="link" body2="world"/></equality>
      <tendon><spatial armature=".1"><site site="base"/><site site="hand"/></spatial></tendon>
      <actuator><motor site="thruster" gear="0 0 1 0 0 .1"/><motor joint="ball" gear="1 2 3"/>
      <motor jointinparent="ball" gear="3 2 1"/><motor joint="root" gear="1 2 3 4 5 6"/>
      <motor jointinparent="root" gear="6 5 4 3 2 1"/>
      <motor site="hand" refsite="base" gear="1 1 0 0 0 1"/>
      <muscle joint="hinge" lengthrange="-1 1"/></actuator>""",
    "static": """<worldbody><camera name="c" pos="0 -1 1"/><body name="table" pos="0 0 .5"
      euler="0 0 40"><geom type="box" size=".5 .5 .02"/><camera name="d" pos="0 0 1"/>
      <light pos="0 0 2" dir="0 1 -1"/></body></worldbody>""",
    "sparse": f"""<option jacobian="sparse"/><worldbody><body name="base" pos="0 0 .5">
      <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
      <geom type="box" size=".2 .1 .1"/>{leg("l", 0, 0.2)}{leg("r", 0, -0.2)}</body></worldbody>
      <tendon><fixed armature=".1"><joint joint="x" coef="1"/><joint joint="l_hip" coef="2"/>
      </fixed></tendon>
      <actuator><motor joint="r_hip"/></actuator>""",
    "scene": """<asset><hfield name="h" nrow="3" ncol="3" size="1 1 .2 .1"/>
      <mesh name="m" vertex="0 0 0 .1 0 0 0 .1 0 0 0 .1"/></asset><worldbody>
      <geom type="hfield" hfield="h" pos="3 0 0"/>
      <camera name="c" mode="targetbody" target="b" pos="0 -2 1"/>
      <light name="spot" mode="targetbody" target="b" pos="0 1 3"/>
      <body name="a" pos="0 0 1"><freejoint/><geom type="mesh" mesh="m"/>
      <camera name="track" mode="trackcom" pos="0 -1 .1"/>
      <camera name="follow" mode="track" pos="1 0 0"/>
      <light name="lamp" mode="trackcom" pos="0 0 1" dir="1 0 -1"/>
      <body name="b" pos=".2 0 0"><joint axis="0 0 1"/><geom type="cylinder" size=".1 .2"
      contype="0" conaffinity="0"/>
      <geom type="sphere" size=".05" pos="0 .3 0"/></body></body></worldbody>""",
}
SCALED = (
    *("body_mass", "body_inertia", "body_pos", "body_ipos", "dof_armature", "jnt_pos", "site_pos"),
    *("geom_size", "geom_pos", "cam_pos", "light_pos", "light_dir", "tendon_armature"),
    *("actuator_gear",),
)
OUTPUTS = sorted(set(sum(constants.STALE.values(), ())))


def compile_model(name):
    return mujoco.MjModel.from_xml_string(f"<mujoco>{MODELS[name]}</mujoco>")


def scale(model, seed, fields=SCALED):
    """Multiply every number of the fields by a factor between one half and two."""
    rng = np.random.default_rng(seed)
    for field in fields:
        values = getattr(model, field)
        values[:] *= 2 ** rng.uniform(-1, 1, values.shape)
    return {field: getattr(model, field).copy() for field in fields}


def constants_of(model):
    """The constants of a C model, shaped as MJX holds them, without the mean inertia."""
    names = [name for name in OUTPUTS if name != "stat.meaninertia"]
    return {name: getattr(model, name).copy() for name in names}


def assert_same_constants(mjx_model, c_model, rtol):
    for name, expected in constants_of(c_model).items():
        actual = np.asarray(getattr(mjx_model, name)).reshape(expected.shape)
        # relative to the largest entry: C leaves rounding noise where the truth is 0
        atol = rtol * max(1.0, np.abs(expected).max(initial=0)) if rtol < 1e-9 else 1e-6
        assert_allclose(actual, expected, rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_constants_of_scaled_model_equal_those_of_mj_set_const(name):
    with jax.enable_x64(True):
        model = compile_model(name)
        original = mjx.put_model(model)
        changed = scale(model, seed=0)
        stale_model = original.tree_replace({k: jnp.asarray(v) for k, v in changed.items()})
        mujoco.mj_setConst(model, mujoco.MjData(model))
        # 1e-10: both are float64 and solve with the same well conditioned inertia matrix
        assert_same_constants(jax.jit(constants.set_const)(stale_model), model, rtol=1e-10)


@pytest.mark.parametrize("name", ["quadruped", "closed_chain", "spatial_tendon"])
def test_constants_follow_a_changed_reference_pose(name):
    with jax.enable_x64(True):
        model = compile_model(name)
        original = mjx.put_model(model)
        rng = np.random.default_rng(1)
        fields = {}
        for field in ("qpos0", "body_quat", "jnt_axis"):
            values = getattr(model, field)
            change = rng.uniform(-0.2, 0.2, values.shape)
            if field == "body_quat":
                change[0] = 0  # the world stays where it is
            values += change
            if field != "qpos0":
                values /= np.linalg.norm(values, axis=1, keepdims=True)
            fields[field] = jnp.asarray(values)
        if name == "quadruped":
            model.qpos0[3:7] /= np.linalg.norm(model.qpos0[3:7])
            fields["qpos0"] = jnp.asarray(model.qpos0)
        mujoco.mj_setConst(model, mujoco.MjData(model))
        renewed = constants.set_const(original.tree_replace(fields))
        assert_same_constants(renewed, model, rtol=1e-10)


def test_mean_inertia_is_that_of_a_model_compiled_anew():
    light = MODELS["heavy_tendons"].replace('size=".03"', 'size=".03" mass="1"')
    heavy = light.replace('mass="1"', 'mass="3"')
    with jax.enable_x64(True):
        first, second = (
            mujoco.MjModel.from_xml_string(f"<mujoco>{x}</mujoco>") for x in (light, heavy)
        )
        model = mjx.put_model(first).tree_replace(
            {f: jnp.asarray(getattr(second, f)) for f in ("body_mass", "body_inertia")}
        )
        renewed = constants.set_const(model)
        assert first.stat.meaninertia < 0.7 * second.stat.meaninertia
        assert_allclose(renewed.stat.meaninertia, second.stat.meaninertia, rtol=1e-12)


def test_float32_constants_of_a_batch_agree_with_mj_set_const_in_every_world():
    model = compile_model("quadruped")
    base, fields = mjx.put_model(model), ("body_mass", "body_inertia", "dof_armature", "body_pos")
    worlds = []
    for seed in range(256):
        c_model = compile_model("quadruped")
        worlds.append((scale(c_model, seed, fields), c_model))
    batch = {f: jnp.stack([jnp.asarray(w[0][f], jnp.float32) for w in worlds]) for f in fields}

    renewed = jax.jit(jax.vmap(lambda b: constants.set_const(base.tree_replace(b))))(batch)
    for i, (_, c_model) in enumerate(worlds):
        mujoco.mj_setConst(c_model, mujoco.MjData(c_model))
        for name in ("body_invweight0", "dof_invweight0", "body_subtreemass", "actuator_acc0"):
            actual = getattr(renewed, name)[i]
            assert_allclose(actual, getattr(c_model, name), rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", ["spatial_tendon", "transmissions", "scene"])
def test_gradient_of_every_constant_is_finite_and_agrees_with_differences(name):
    fields = ("body_mass", "body_inertia", "body_pos", "geom_size", "actuator_gear", "site_pos")
    with jax.enable_x64(True):
        c_model = compile_model(name)
        model = mjx.put_model(c_model)
        start = {f: getattr(model, f) for f in fields}
        weights = np.random.default_rng(0)
        renewed = constants.set_const(model)
        picks = {n: weights.normal(size=np.shape(constants._leaf(renewed, n))) for n in OUTPUTS}

        def total(theta):
            renewed = constants.set_const(model.tree_replace(theta))
            return sum((constants._leaf(renewed, n) * w).sum() for n, w in picks.items())

        slope = jax.jit(jax.grad(total))(start)
        direction = {
            f: np.random.default_rng(i).normal(size=v.shape) * np.asarray(v)
            for i, (f, v) in enumerate(start.items())
        }
        total, h = jax.jit(total), 1e-6
        ahead, behind = (
            total({f: v + s * h * direction[f] for f, v in start.items()}) for s in (1, -1)
        )
        expected = (ahead - behind) / (2 * h)
        actual = sum((slope[f] * direction[f]).sum() for f in fields)
        assert all(np.isfinite(g).all() for g in slope.values())
        assert_allclose(actual, expected, rtol=1e-5)  # truncation error of the difference


def changed_constants(name, field):
    """The constants that C changes when one input field is changed, from a turned pose on."""
    model, rng = compile_model(name), np.random.default_rng(2)
    model.qpos0 += rng.uniform(0.1, 0.3, model.nq)
    model.eq_data[:, 11] = 1
    mujoco.mj_setConst(model, mujoco.MjData(model))
    before = constants_of(model)
    values = getattr(model, field)
    change = rng.uniform(0.01, 0.2, values.shape)
    if field.startswith("body_i"):  # C refuses where the body was compiled as a simple one
        change[model.body_simple != 0] = 0
    values += change
    if field.endswith("quat"):
        values /= np.linalg.norm(values, axis=1, keepdims=True)
    written = {field: values.copy()} if field in before else {}
    mujoco.mj_setConst(model, mujoco.MjData(model))
    before, after = before | written, constants_of(model)
    return {k for k in before if not np.allclose(before[k], after[k], rtol=1e-9, atol=1e-12)}


@pytest.mark.parametrize("field", constants.STALE)
def test_map_names_exactly_what_mj_set_const_changes(field):
    seen = set().union(*(changed_constants(name, field) for name in MODELS))
    if field == "geom_aabb":  # C resets the boxes of primitives to what their size says
        assert seen == {"geom_aabb"}
    else:
        assert seen == set(constants.STALE[field]) - {"stat.meaninertia"}


def test_map_covers_every_input_that_mujoco_lists():
    numbers = {
        field.name
        for field in mjx.Model.fields()
        if field.type is jax.Array and field.name in mujoco.MjModel._setconst_inputs
    }
    assert set(constants.STALE) == numbers


def test_recompute_is_needed_only_for_inputs():
    assert constants.recompute_needed(["dof_damping", "body_mass"])
    assert not constants.recompute_needed(["dof_damping", "geom_friction", "opt.gravity"])
    assert constants.stale(["cam_quat"]) == {"cam_mat0"}


def test_misspelt_field_is_named_with_the_nearest_one():
    with pytest.raises(UnknownName, match=re.escape("'body_mas'; did you mean 'body_mass'?")):
        constants.stale(["body_mas"])


def test_model_of_another_implementation_is_refused():
    model = mjx.put_model(compile_model("chain")).tree_replace(
        {"_impl": mjx.ModelCPP(pointer_lo=jnp.uint32(0), pointer_hi=jnp.uint32(0))}
    )
    with pytest.raises(Unsupported, match="set_const"):
        constants.set_const(model)
