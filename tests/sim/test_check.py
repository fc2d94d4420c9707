import copy
import re

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from mujoco import mjx
from numpy.testing import assert_allclose

from s2r_jax.errors import UnknownName, Unsupported
from s2r_jax.sim import check, limits

DRIVE = '<motor name="drive" joint="elbow" gear="2" {}/>'
MOTOR = DRIVE.format("")
MESH = '<asset><mesh name="m" vertex="0 0 0 .1 0 0 0 .1 0 0 0 .1"/></asset>'


def arm(
    option="",
    flag="",
    joint='damping=".1" stiffness="1"',
    geom="",
    tendon='damping=".1" stiffness="2"',
    actuator=MOTOR,
    sensor='<jointpos name="angle" joint="elbow"/>',
):
    """Two links in a vertical plane, a tendon over both joints, one motor, one encoder."""
    return f"""<mujoco><option {option}><flag {flag}/></option><worldbody>
      <body name="upper"><joint name="shoulder" axis="0 1 0" damping=".1"/>
        <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
        <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" {joint}/>
          <geom name="fore" type="capsule" fromto="0 0 0 .3 0 0" size=".03" {geom}/></body></body>
      </worldbody><tendon><fixed name="cord" {tendon}><joint joint="shoulder" coef="1"/>
      <joint joint="elbow" coef=".5"/></fixed></tendon>
      <actuator>{actuator}</actuator><sensor>{sensor}</sensor></mujoco>"""


def resting(
    geom="",
    shape='size=".1"',
    floor="",
    ground='type="plane" size="2 2 .1"',
    option="",
    assets="",
    contact="",
    sensor="",
    more="",
):
    """A sphere, or another shape, that lies on the floor under its own weight."""
    return f"""<mujoco>{assets}<option {option}/><worldbody><geom name="floor" {ground} {floor}/>
      <body name="ball" pos="0 0 .0999"><freejoint name="root"/><geom name="skin" {shape} {geom}/>
      <site name="zone" size=".2"/></body></worldbody>
      <contact>{contact}</contact><sensor>{sensor}</sensor>{more}</mujoco>"""


IGNORED = {
    "actuator delay": (
        "actuator_delay",
        "drive",
        arm(actuator=DRIVE.format('delay=".01" nsample="10"')),
    ),
    "sensor delay": (
        "sensor_delay",
        "angle",
        arm(sensor='<jointpos name="angle" joint="elbow" delay=".01" nsample="10"/>'),
    ),
    "sensor interval": (
        "sensor_interval",
        "angle",
        arm(sensor='<jointpos name="angle" joint="elbow" interval=".01" nsample="3"/>'),
    ),
    "actuator damping": (
        "actuator_damping",
        "drive",
        arm(actuator=DRIVE.format('damping=".2"')),
    ),
    "actuator armature": (
        "actuator_armature",
        "drive",
        arm(actuator=DRIVE.format('armature=".2"')),
    ),
    "joint damping polynomial": ("dof_dampingpoly", "elbow", arm(joint='damping=".1 .5"')),
    "joint stiffness polynomial": ("jnt_stiffnesspoly", "elbow", arm(joint='stiffness="1 3"')),
    "tendon damping polynomial": ("tendon_dampingpoly", "cord", arm(tendon='damping=".1 .5"')),
    "tendon stiffness polynomial": (
        "tendon_stiffnesspoly",
        "cord",
        arm(tendon='stiffness="2 5"'),
    ),
    "yielding joint spring": (
        "jnt_springyield",
        "elbow",
        arm(joint='stiffness="1" springyield=".01"'),
    ),
    "yielding tendon spring": (
        "tendon_springyield",
        "cord",
        arm(tendon='stiffness="2" springyield=".01"'),
    ),
    "ellipsoid in a fluid": (
        "geom_fluid",
        "fore",
        arm(option='density="500"', geom='fluidshape="ellipsoid"'),
    ),
    "disabled actuator group": (
        "opt.disableactuator",
        "drive",
        arm(option='actuatorgroupdisable="2"', actuator=DRIVE.format('group="2"')),
    ),
    "springs disabled alone": ("opt.disableflags", "option", arm(flag='spring="disable"')),
    "dampers disabled alone": ("opt.disableflags", "option", arm(flag='damper="disable"')),
    "adhesion": ("geom_adhesion", "skin", resting(geom='adhesion="5"')),
    "adhesion of a pair": (
        "pair_adhesion",
        "floor and skin",
        resting(contact='<pair geom1="floor" geom2="skin" adhesion="5"/>'),
    ),
    "moving surface": ("geom_surfacevel", "floor", resting(floor='surfacevel=".5 0 0"')),
    "noslip solver": (
        "opt.noslip_iterations",
        "option",
        resting(option='noslip_iterations="5"', geom='friction=".1"', floor='friction=".1"'),
    ),
    "contact without friction": (
        "geom_friction",
        "floor and skin",
        resting(geom='friction="0"', floor='friction="0"'),
    ),
}

REJECTED = {
    "energy": ("opt.enableflags", "option", arm(flag='energy="enable"')),
    "fwdinv": ("opt.enableflags", "option", arm(flag='fwdinv="enable"')),
    "override": ("opt.enableflags", "option", arm(flag='override="enable"')),
    "diagexact": ("opt.enableflags", "option", arm(flag='diagexact="enable"')),
    "speculative": ("opt.enableflags", "option", arm(flag='speculative="enable"')),
    "implicit": ("opt.integrator", "option", arm(option='integrator="implicit"')),
    "discrete": ("opt.integrator", "option", arm(option='integrator="discrete"')),
    "implicitfast in a fluid": (
        "opt.integrator",
        "option",
        arm(option='integrator="implicitfast" density="1"'),
    ),
    "PGS": ("opt.solver", "option", arm(option='solver="PGS"')),
    "cloth": (
        "nflex",
        "flex 0",
        resting().replace(
            "</worldbody>",
            """<body name="cloth" pos="1 0 1"><flexcomp name="cloth" type="grid" count="3 3 1"
            spacing=".1 .1 .1" radius=".01" dim="2" mass="1"/></body></worldbody>""",
        ),
    ),
    "no joints": ("nv", "option", '<mujoco><worldbody><geom size=".1"/></worldbody></mujoco>'),
    "pid": (
        "actuator_gaintype",
        "drive",
        arm(actuator='<pid name="drive" joint="elbow" kp="1"/>'),
    ),
    "dcmotor": (
        "actuator_gaintype",
        "drive",
        arm(actuator='<dcmotor name="drive" joint="elbow" motorconst=".1" resistance="1"/>'),
    ),
    "adhesion actuator": (
        "actuator_trntype",
        "gecko",
        resting(more='<actuator><adhesion name="gecko" body="ball" ctrlrange="0 1"/></actuator>'),
    ),
    "user dynamics": (
        "actuator_dyntype",
        "drive",
        arm(actuator='<general name="drive" joint="elbow" dyntype="user" actdim="1"/>'),
    ),
    "user bias": (
        "actuator_biastype",
        "drive",
        arm(actuator='<general name="drive" joint="elbow" biastype="user"/>'),
    ),
    "user sensor": (
        "sensor_type",
        "probe",
        arm(sensor='<user name="probe" dim="1"/>'),
    ),
    "contact sensor by site": (
        "sensor_objtype",
        "touch",
        resting(sensor='<contact name="touch" site="zone"/>'),
    ),
    "contact sensor by body": (
        "sensor_objtype",
        "touch",
        resting(sensor='<contact name="touch" body1="ball"/>'),
    ),
    "contact sensor by subtree": (
        "sensor_objtype",
        "touch",
        resting(sensor='<contact name="touch" subtree1="ball"/>'),
    ),
    "contact sensor of net force": (
        "sensor_intprm",
        "touch",
        resting(sensor='<contact name="touch" geom1="skin" reduce="netforce"/>'),
    ),
    "cylinder on box": (
        "geom_type",
        "skin and floor",
        resting(shape='type="cylinder" size=".1 .1"', ground='type="box" size="1 1 .1"'),
    ),
    "ellipsoid on box": (
        "geom_type",
        "skin and floor",
        resting(shape='type="ellipsoid" size=".1 .1 .2"', ground='type="box" size="1 1 .1"'),
    ),
    "margin on a mesh": (
        "geom_margin",
        "floor and skin",
        resting(assets=MESH, shape='type="mesh" mesh="m"', geom='margin=".01"'),
    ),
    "condim 1 under the elliptic cone": (
        "geom_condim",
        "floor and skin",
        resting(option='cone="elliptic"', floor='condim="1"', geom='condim="1"'),
    ),
}


def load(xml):
    return mujoco.MjModel.from_xml_string(xml)


def trace_step(model):
    mjx_model = mjx.put_model(model)
    return jax.eval_shape(mjx.step, mjx_model, mjx.make_data(mjx_model))


def only_finding(model, field):
    (finding,) = [finding for finding in check.unsupported(model) if finding.field == field]
    return finding


@pytest.mark.parametrize("name", IGNORED)
def test_ignored_feature_is_named_and_does_move_c_away_from_mjx(name):
    field, element, xml = IGNORED[name]
    model = load(xml)
    finding = only_finding(model, field)
    assert (finding.where, finding.effect) == ((element,), "ignored")
    # a sphere that slips for 0.1 s ends 2e-5 m away; without the feature below 1e-9
    assert check.compare_with_c(model).largest > 1e-5


@pytest.mark.parametrize("xml", [arm(), resting()], ids=["arm", "resting"])
def test_supported_model_has_no_findings_and_moves_as_in_c(xml):
    model = load(xml)
    assert check.unsupported(model) == []
    assert check.compare_with_c(model).largest < 1e-9  # float64, contact solver tolerance 1e-8


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_feature_is_named_and_mjx_does_raise(name):
    field, element, xml = REJECTED[name]
    model = load(xml)
    finding = only_finding(model, field)
    assert (finding.where, finding.effect) == ((element,), "rejected")
    with pytest.raises((NotImplementedError, ValueError)):
        trace_step(model)


def test_sleep_is_reported_as_ignored():
    finding = only_finding(load(arm(flag='sleep="enable"')), "opt.enableflags")
    assert finding.effect == "ignored"
    assert "sleep" in finding.message


def test_every_rule_has_a_model_that_trips_it():
    models = [load(xml) for _, _, xml in (*IGNORED.values(), *REJECTED.values())]
    models.append(load(arm(flag='sleep="enable"')))
    tripped = {rule for model in models for rule in limits.RULES if rule.where(model)}
    untested = {rule.field for rule in limits.RULES if rule not in tripped}
    # the other equalities need a flex, which is refused anyway; MuJoCo's wheel ships no plugin
    assert untested == {"eq_type", "nplugin"}


#: Arrays of MjModel that MJX does not hold and that move nothing in a model MJX accepts: what is
#: only seen, flexes (refused), names, indices of C's own sparse and sleeping structures, C's own
#: lookup of actuators, and sensor noise, which MuJoCo itself never adds.
HARMLESS = re.compile(
    r"^(flex|skin|mesh|tex|mat|light|cam|hfield|site|bvh|oct|text|plugin|numeric|name|tuple|key|efm"
    r"|B_|D_|M_|map|ten_J|tree)|_(user|group|matid|rgba|plugin|castshadow|width|bvhadr|bvhnum|type"
    r"|plasticadr|actuatorid|treenum|treeid|history|historyadr|length|length0|ctrladr|ctrlnum"
    r"|ctrlspec|outadr|outnum|noise)$"
)


def test_every_array_that_mjx_does_not_hold_is_harmless_or_in_the_rules():
    model = load(arm())
    arrays = {n for n in dir(model) if n[0] != "_" and isinstance(getattr(model, n), np.ndarray)}
    missing = arrays - {field.name for field in mjx.Model.fields()}
    unexplained = {name for name in missing if not HARMLESS.search(name)}
    # the rule of actuator_damping looks at its polynomial too
    assert unexplained - {"actuator_dampingpoly"} <= {rule.field for rule in limits.RULES}
    assert "actuator_delay" in unexplained


def test_comparison_refuses_a_model_that_mjx_rejects():
    with pytest.raises(Unsupported, match=re.escape("'mjx' does not support opt.solver here")):
        check.compare_with_c(load(arm(option='solver="PGS"')))


def test_finding_reads_as_one_sentence():
    finding = only_finding(load(arm(option='solver="PGS"')), "opt.solver")
    assert str(finding) == (
        "opt.solver of option is rejected: MJX has the solvers Newton and CG; use Newton"
    )


# Numbers that cannot act --------------------------------------------------------------------------

SLIDING = resting(floor='friction=".2"', geom='friction=".8"').replace(
    "<worldbody>", '<worldbody><geom name="far" pos="9 9 9" size=".1" contype="0" conaffinity="0"/>'
)
#: field, element, model, the changed row
SILENT = {
    "friction loss": ("dof_frictionloss", "elbow", arm(), 0.3),
    "friction loss of a tendon": ("tendon_frictionloss", "cord", arm(), 0.3),
    "range of a joint": ("jnt_range", "elbow", arm(), (-0.01, 0.01)),
    "range of a tendon": ("tendon_range", "cord", arm(), (-0.01, 0.01)),
    "force range of an actuator": ("actuator_forcerange", "drive", arm(), (-0.1, 0.1)),
    "control range of an actuator": ("actuator_ctrlrange", "drive", arm(), (-0.1, 0.1)),
    "force range of a joint": ("jnt_actfrcrange", "elbow", arm(), (-0.1, 0.1)),
    "viscosity": ("opt.viscosity", "option", arm(), 5.0),
    "density": ("opt.density", "option", arm(), 500.0),
    "gravity compensation": ("body_gravcomp", "lower", arm(), 1.0),
    "friction of the floor": ("geom_friction", "floor", SLIDING, (0.05, 0.005, 0.0001)),
}


def row_of(model, field, element):
    return {field: [] if field.startswith("opt.") else [element]}


def write(model, field, element, value):
    """Return the changed field, whole, as both engines take it."""
    if field.startswith("opt."):
        return np.asarray(value, dtype=float)
    _, (row,) = check._rows(model, field, [element])
    values = getattr(model, field).copy()
    values[row] = value
    return values


def velocity_of(model):
    """Fast enough to slide, slow enough to stay on the floor."""
    return np.array([1.0, 0.5, 0, 0, 0, 0]) if model.nv == 6 else np.array([1.5, -2.0])


def roll_c(model, field=None, values=None):
    model = copy.copy(model)
    if field is not None:
        owner = model.opt if field.startswith("opt.") else model
        if field.startswith("opt."):
            setattr(owner, field[4:], float(values))
        else:
            getattr(owner, field)[:] = values
        mujoco.mj_setConst(model, mujoco.MjData(model))
    qpos, _ = check._run_c(model, velocity_of(model), np.ones((50, model.nu)))
    return qpos


def roll_mjx(model, field, values):
    """Change the field after `put_model`, as a world's θ does."""
    with jax.enable_x64(True):
        mjx_model = mjx.put_model(model)
        if field is not None:
            mjx_model = mjx_model.tree_replace({field: jnp.asarray(values)})
        data = mjx.make_data(mjx_model).replace(qvel=velocity_of(model), ctrl=jnp.ones(model.nu))
        step, rows = jax.jit(mjx.step), []
        for _ in range(50):
            data = step(mjx_model, data)
            rows.append(np.asarray(data.qpos))
    return np.stack(rows)


@pytest.mark.parametrize("name", SILENT)
def test_number_that_cannot_act_is_named_and_acts_once_promoted(name):
    field, element, xml, value = SILENT[name]
    model = load(xml)
    wanted = row_of(model, field, element)
    (finding,) = check.cannot_act(model, wanted)
    assert (finding.field, finding.where, finding.effect) == (field, (element,), "ignored")
    still, changed = roll_mjx(model, None, None), write(model, field, element, value)
    assert_allclose(roll_mjx(model, field, changed), still, atol=1e-12)

    promoted = check.promote(model, wanted)
    assert check.cannot_act(promoted, wanted) == []
    assert_allclose(roll_c(promoted), roll_c(model), atol=1e-5)  # its motion has not changed
    changed = write(promoted, field, element, value)
    expected = roll_c(promoted, field, changed)
    assert np.abs(expected - roll_c(promoted)).max() > 1e-4  # the number matters in C
    # both contact solvers stop at a tolerance of 1e-8, which 50 steps of sliding add up
    assert_allclose(roll_mjx(promoted, field, changed), expected, atol=1e-6)


def test_numbers_that_act_are_not_named():
    model = load(arm(joint='damping=".1" frictionloss=".1" range="-1 1" limited="true"'))
    fields = {
        "dof_frictionloss": ["elbow"],
        "jnt_range": ["elbow"],
        "dof_damping": [0, 1],
        "body_mass": ["upper", "lower"],
        "opt.gravity": [],
        "actuator_gear": ["drive"],
    }
    assert check.cannot_act(model, fields) == []


@pytest.mark.parametrize(
    ("field", "element"),
    [("geom_condim", "fore"), ("actuator_damping", "drive"), ("jnt_limited", "elbow")],
)
def test_number_that_mjx_compiles_in_is_named(field, element):
    (finding,) = check.cannot_act(load(arm()), {field: [element]})
    assert finding.where == (element,)
    assert "put_model" in finding.message


@pytest.mark.parametrize(
    ("flag", "field", "element"),
    [
        ("gravity", "opt.gravity", "option"),
        ("spring", "jnt_stiffness", "elbow"),
        ("actuation", "actuator_gear", "drive"),
    ],
)
def test_number_behind_a_disabled_flag_is_named_and_cannot_be_promoted(flag, field, element):
    model = load(arm(flag=f'{flag}="disable"'))
    wanted = row_of(model, field, element)
    (finding,) = check.cannot_act(model, wanted)
    assert flag in finding.message
    with pytest.raises(Unsupported, match=rf"disables {flag}\); enable {flag}"):
        check.promote(model, wanted)


def test_friction_that_nothing_can_feel_is_named_and_cannot_be_promoted():
    with pytest.raises(Unsupported, match="varying geom_friction of far; nothing can touch it"):
        check.promote(load(SLIDING), {"geom_friction": ["far"]})


def test_friction_at_par_with_what_it_touches_cannot_be_lowered_alone_but_together():
    model = load(resting())  # MuJoCo's default: 1 everywhere
    (finding,) = check.cannot_act(model, {"geom_friction": ["floor"]})
    assert finding.where == ("floor",)
    assert check.cannot_act(model, {"geom_friction": ["floor", "skin"]}) == []
    promoted = check.promote(model, {"geom_friction": ["floor"]})
    assert promoted.geom_priority.tolist() == [1, 0]


def test_promotion_leaves_the_given_model_alone():
    model = load(arm())
    check.promote(model, {"dof_frictionloss": ["elbow"]})
    assert model.dof_frictionloss.tolist() == [0, 0]


def test_unknown_names_list_what_exists():
    with pytest.raises(UnknownName, match="unknown field of MjModel 'dof_frictionlos'; did you"):
        check.cannot_act(load(arm()), {"dof_frictionlos": [0]})
    with pytest.raises(UnknownName, match=r"unknown row of dof_damping 'ankle'.*elbow, shoulder"):
        check.cannot_act(load(arm()), {"dof_damping": ["ankle"]})
