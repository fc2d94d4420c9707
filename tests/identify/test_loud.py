"""Silent failures of identification that others met: each is said aloud, or does not happen."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from s2r_jax import robot
from s2r_jax.errors import MissingFile
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.fit import fit
from s2r_jax.identify.residual import simulate_all
from s2r_jax.identify.segments import cut
from s2r_jax.identify.study import replay
from s2r_jax.identify.symptoms import symptoms
from s2r_jax.sim import world
from s2r_jax.types import Command, Trajectory
from tests.identify import springs

#: A pole that a motor swings, and what hangs on it.
POLE = """
<mujoco><option timestep="0.005" integrator="implicitfast"><flag contact="disable"/></option>
<worldbody><body name="pole"><joint name="hinge" axis="0 1 0" damping="0.05" frictionloss="0.001"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.02" mass="0.5"/>%s</body></worldbody>
<actuator><motor name="hinge" joint="hinge"/></actuator></mujoco>"""
PAYLOAD = '<body><geom pos="0 0 -0.4" size="0.03" mass="0.5"/></body>'
NOISE = 1e-3
CONFIG = IdentifyConfig(method="fd", profile=0)


def pole(folder, *parameters, motors="{kind: torque}", payload=""):
    """A robot folder of a motor-driven pole whose angle is measured."""
    (folder / "pole.xml").write_text(POLE % payload)
    (folder / "robot.yaml").write_text(
        "name: pole\nmodel: pole.xml\ncontrol: {period: 0.01}\n"
        f"motors: {motors}\n"
        f"signals: {{joint/hinge/position: {{noise: {NOISE}}}}}\nparameters:\n"
        + "".join(f"  - {{{p}}}\n" for p in parameters)
    )
    return robot.load(folder)


def record(r, target, noise=NOISE, **truth):
    """A log of the robot itself at known values, from rest in its zero pose."""
    rows, zero = len(target), np.zeros((len(target), 1))
    gains = [np.full((rows, 1), r.motors.values[key][0]) for key in ("kp", "kd")]
    command = Command(target[:, None], zero, *gains, zero + 1, np.full(rows, np.nan))
    log = Trajectory("log", command, zero, zero, zero)
    simulator = world.make(r, "mujoco")
    theta = r.parameters.vector({key.replace("__", "/"): value for key, value in truth.items()})
    with jax.enable_x64(True):
        seen = np.asarray(simulate_all(simulator, jnp.asarray(theta), whole(r, log)))[0]
    clean = np.concatenate([zero[:1], seen])
    return log._replace(measured=clean + noise * white(rows)[:, None])


def whole(r, *logs):
    """Each log as one window."""
    simulator = world.make(r, "mujoco")
    return cut(logs, 0, simulator.held, simulator.ahead)


def white(rows, seed=0):
    return np.random.default_rng(seed).standard_normal(rows)


def disturbed(errors, rows=301):
    """The log of a spring, whose measurements are off by `errors`."""
    log = springs.swing(rows=rows)
    return log._replace(measured=log.measured + np.reshape(errors, (-1, 1)))


def wave(rows=401, size=1.0):
    """Two sines that start from nothing."""
    t = np.arange(rows) * 0.01
    return size * (0.6 * np.sin(4 * t) + 0.4 * np.sin(11 * t))


@pytest.mark.parametrize("start", [0.01, 10.0], ids=["low", "high"])
def test_start_on_a_bound_does_not_stall_and_is_said(spring, start):
    # google-deepmind/mujoco#3284: both optimisers of its toolbox stay where they began.
    r = spring(
        springs.STIFFNESS,
        f"target: joint/x/damping, bounds: [0.01, 10], transform: log, start: {start}",
    )
    found = fit(r, cut([springs.swing()], 0, held=1), IdentifyConfig(method="fd"))
    assert found.posterior.value == pytest.approx([20, 0.5], rel=1e-4)  # RK4 at 1 ms
    assert any("joint/x/damping started on its" in note for note in found.notes)


def test_start_inside_its_bounds_is_not_said(spring):
    r = spring(springs.STIFFNESS)
    found = fit(r, cut([springs.swing()], 0, held=1), IdentifyConfig(method="fd"))
    assert not any("started" in note for note in found.notes)


def test_mass_and_stiffness_that_absorb_each_other_are_named_with_their_known_ratio(spring):
    r = spring(
        springs.STIFFNESS,
        "target: body/block/mass, bounds: [0.2, 20], transform: log, start: 1.5",
        springs.DAMPING,
    )
    found = fit(r, cut([disturbed(1e-3)], 0, held=1), IdentifyConfig(method="fd"))
    assert not found.posterior.identifiable[:2].any()
    pair = {"joint/x/stiffness", "body/block/mass"}
    assert any(pair <= set(c.names) for c in found.combinations)
    assert any(k.power == -1 for k in found.known)


MASS = "target: body/pole/mass, bounds: [0.1, 3], transform: log, start: 0.8"
STRENGTH = "target: motor/hinge/strength, bounds: [0.2, 5], transform: log"
DAMPING = "target: joint/hinge/damping, bounds: [0.001, 1], transform: log, start: 0.1"


def test_mass_and_strength_are_named_and_a_known_payload_separates_them(tmp_path):
    # All torques, gravity's too, grow with the mass: only the ratio of the two shows.
    alone = pole(tmp_path, MASS, STRENGTH, DAMPING)
    found = fit(alone, whole(alone, record(alone, wave())), CONFIG)
    assert not found.posterior.identifiable[:2].any()
    pair = {"body/pole/mass", "motor/hinge/strength"}
    assert any(pair <= set(c.names) and "rise together" in c.words for c in found.combinations)
    loaded = pole(tmp_path, MASS, STRENGTH, DAMPING, payload=PAYLOAD)
    found = fit(loaded, whole(loaded, record(loaded, wave())), CONFIG)
    assert found.posterior.identifiable[:2].all()
    assert found.posterior.value[:2] == pytest.approx([0.5, 1.0], rel=0.05)


def test_inertia_that_joint_motion_does_not_show_is_said(tmp_path):
    # A free swing shows one number of the ten of a body: what it weighs over what it is to turn.
    # mujoco#3284: a residual of 3e-11 with inertias wrong by orders of magnitude.
    r = pole(tmp_path, "target: body/pole/inertia:*, bounds: [-1.5, 1.5]")
    log = record(r, np.zeros(401))
    found = fit(r, whole(r, log._replace(qpos=np.full((401, 1), 0.5))), CONFIG)
    hidden = np.array(r.parameters.names)[~found.posterior.identifiable]
    assert len(hidden) == 9
    words = " ".join([c.words for c in found.combinations] + list(found.notes))
    assert all(name in words for name in hidden)


def test_gain_that_every_log_brings_itself_is_said_to_be_without_effect(tmp_path):
    # Logs carry the gains that were set; the servo's own unknown scale is its strength.
    kp = "target: motor/hinge/kp, bounds: [2, 50], transform: log, start: 8"
    r = pole(tmp_path, kp, STRENGTH, motors="{kind: pd, kp: 10, kd: 0.3}")
    found = fit(r, whole(r, record(r, wave(size=0.5))), CONFIG)
    assert found.dead == ("motor/hinge/kp",)


OFFSET = "target: motor/hinge/offset, bounds: [-0.1, 0.1], start: 0.01"


def test_offset_of_the_encoder_and_tilt_of_the_base_are_named(tmp_path):
    # Both push a servo with a constant torque while the pole hardly turns.
    tilt = "target: option/gravity:0, bounds: [-3, 3], start: 0.1"
    r = pole(tmp_path, OFFSET, tilt, motors="{kind: pd, kp: 10, kd: 0.3}")
    log = record(r, wave(size=0.2), motor__hinge__offset=0.05)
    found = fit(r, whole(r, log), CONFIG)
    assert not found.posterior.identifiable.any()
    assert set(found.combinations[0].names) == {"motor/hinge/offset", "option/gravity:0"}


def test_offset_that_a_wrong_gain_drives_to_its_bound_is_said(tmp_path):
    # A quadruped's log with gains assumed known drove 7 of 12 biases to their bound of 0.1.
    real, model = tmp_path / "real", tmp_path / "model"
    real.mkdir()
    model.mkdir()
    soft = pole(real, OFFSET, motors="{kind: pd, kp: 5, kd: 0.3}")
    stiff = pole(model, OFFSET, motors="{kind: pd, kp: 20, kd: 0.3}")
    log = record(soft, 0.8 + wave(size=0.2))
    gains = np.full((401, 1), 20.0)
    found = fit(stiff, whole(stiff, log._replace(command=log.command._replace(kp=gains))), CONFIG)
    assert "motor/hinge/offset ended on its bound" in found.notes
    assert not found.posterior.identifiable[0]


def test_joint_that_never_breaks_away_is_said(tmp_path):
    # The torque stays below the friction: the log is noise, and any friction above it fits.
    friction = "target: joint/hinge/frictionloss, bounds: [0.001, 2], transform: log, start: 0.1"
    r = pole(tmp_path, friction)
    log = record(r, wave(size=0.2))._replace(measured=NOISE * white(401)[:, None])
    found = fit(r, whole(r, log), IdentifyConfig(method="fd"))
    assert not found.posterior.identifiable[0]
    assert found.profiles[0].is_open_high
    said = "the logs give joint/hinge/frictionloss no upper limit within its bounds"
    assert said in found.notes
    again = replay(world.make(r, "mujoco"), found.posterior.value, whole(r, log))
    assert any(word.startswith("joint/hinge/position hardly moves") for word in symptoms(r, again))


def fitted_symptoms(r, log):
    windows = cut([log], 0, held=1)
    found = fit(r, windows, CONFIG)
    return symptoms(r, replay(world.make(r, "mujoco"), found.posterior.value, windows))


def test_resonance_that_the_model_lacks_is_said(spring):
    # The fixture shakes at 8 Hz by 5 mm, a sixtieth of the motion: the fit looks good.
    r = spring(springs.STIFFNESS, springs.DAMPING)
    shaken = 0.005 * np.sin(2 * np.pi * 8 * np.arange(301) * 0.01) + NOISE * white(301)
    words = fitted_symptoms(r, disturbed(shaken))
    assert len(words) == 1
    assert "of the error of joint/x/position lies at 8 Hz, where the motion has 0%" in words[0]


def test_white_errors_have_no_symptoms(spring):
    r = spring(springs.STIFFNESS, springs.DAMPING)
    assert fitted_symptoms(r, springs.swing(noise=NOISE)) == []


def test_correlated_errors_widen_the_intervals(spring):
    # Of an autoregression of 0.7 a sample is worth (1 - 0.7) / (1 + 0.7) of an independent one.
    r = spring(springs.STIFFNESS.replace("12", "19"))
    noise = white(801)
    slow = np.zeros_like(noise)
    for k in range(1, len(noise)):
        slow[k] = 0.7 * slow[k - 1] + noise[k]
    slow *= noise.std() / slow.std()
    logs = [disturbed(NOISE * values, rows=801) for values in (noise, slow)]
    std = [fit(r, cut([log], 0, held=1), CONFIG).posterior.std[0] for log in logs]
    assert std[1] / std[0] == pytest.approx((17 / 3) ** 0.5, rel=0.25)  # the time is estimated


def test_scale_offset_and_repetition_of_signals_change_no_weight(spring):
    # mujoco.sysid divides by the norm of each signal: an offset then hides what moves.
    log = springs.swing(noise=NOISE)
    alone = fit(spring(springs.STIFFNESS), cut([log], 0, held=1), CONFIG).posterior
    scaled = spring(springs.STIFFNESS, signal="{scale: 1000, bias: 5000}")
    counts = log._replace(measured=1000 * log.measured + 5000)
    found = fit(scaled, cut([counts], 0, held=1), CONFIG).posterior
    assert found.value == pytest.approx(alone.value, rel=1e-5)
    assert found.std == pytest.approx(alone.std, rel=1e-3)
    twice = fit(spring(springs.STIFFNESS), cut([log, log], 0, held=1), CONFIG).posterior
    assert twice.value == pytest.approx(alone.value, rel=1e-5)
    assert twice.std == pytest.approx(alone.std / 2**0.5, rel=0.01)  # one unknown of 300 samples


def test_delay_between_whole_steps_is_found(tmp_path):
    # 13.7 ms, steps of 5 ms: PACE searches whole steps only.
    r = pole(tmp_path, "target: latency/action, bounds: [0, 0.04], start: 0.03")
    found = fit(r, whole(r, record(r, wave(), latency__action=0.0137)), CONFIG)
    assert found.posterior.value[0] == pytest.approx(0.0137, abs=1e-4)
    assert found.posterior.identifiable[0]


@pytest.mark.parametrize(("method", "package"), [("cmaes", "cmaes"), ("bayes", "bayes_opt")])
def test_search_without_its_package_says_how_to_get_it(spring, method, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    r, windows = spring(springs.STIFFNESS), cut([springs.swing()], 0, held=1)
    with pytest.raises(MissingFile) as caught:
        fit(r, windows, IdentifyConfig(method=method))
    assert str(caught.value) == f'{package}: no such package; pip install "s2r_jax[search]"'
