"""Fits of simulated logs whose truth is known, in closed form where there is one."""

import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from s2r_jax.errors import BadValue
from s2r_jax.identify import study
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.fit import fit
from s2r_jax.identify.jacobian import compile_linearization
from s2r_jax.identify.residual import rotation_between, simulate_all
from s2r_jax.identify.segments import cut
from s2r_jax.sim import world
from tests.identify.springs import DAMPING, STIFFNESS, swing


@pytest.mark.parametrize("method", ["lm", "fd"])
def test_fit_recovers_stiffness_and_damping_of_a_spring(spring, method):
    r = spring(STIFFNESS, DAMPING)
    windows = cut([swing()], 0, held=1)
    found = fit(r, windows, IdentifyConfig(method=method))
    assert found.converged
    assert found.posterior.value == pytest.approx([20, 0.5], rel=1e-5)  # RK4 at 1 ms
    assert found.posterior.identifiable.all()


def test_standard_errors_equal_those_of_linear_theory(spring):
    # White noise of known size: the covariance is sigma² (JᵀJ)^-1, here with J by scipy.
    noise = 1e-3
    r = spring(STIFFNESS, DAMPING)
    found = fit(r, cut([swing(noise=noise)], 0, held=1), IdentifyConfig(method="fd"))

    def model(k, c):
        return swing(stiffness=k, damping=c).measured[1:, 0]

    step = 1e-5
    slope = [(model(20 + step, 0.5) - model(20 - step, 0.5)) / (2 * step),
             (model(20, 0.5 + step) - model(20, 0.5 - step)) / (2 * step)]  # fmt: skip
    covariance = noise**2 * np.linalg.inv(np.array(slope) @ np.array(slope).T)
    assert found.posterior.std == pytest.approx(np.sqrt(np.diag(covariance)), rel=0.15)
    assert found.noise_std[0] == pytest.approx(noise, rel=0.15)


def test_stiffness_and_mass_of_a_free_swing_cannot_be_told_apart(spring):
    r = spring(STIFFNESS, DAMPING,
               "target: body/block/mass, bounds: [0.2, 20], transform: log")  # fmt: skip
    found = fit(r, cut([swing(noise=1e-3)], 0, held=1), IdentifyConfig(method="fd"))
    assert not found.posterior.identifiable.any()
    words = found.combinations[0].words
    assert all(name in words for name in r.parameters.names)
    assert words.endswith("can rise together unseen")


def test_parameter_without_effect_is_named_and_left_alone(spring):
    r = spring(STIFFNESS, DAMPING, "target: option/gravity:1, bounds: [-5, 5]")
    found = fit(r, cut([swing()], 0, held=1), IdentifyConfig(method="fd"))
    assert found.dead == ("option/gravity:1",)
    assert "option/gravity:1 moves no signal of these logs" in found.notes
    assert not found.posterior.identifiable[2]
    assert found.posterior.value[2] == 0.0


def test_estimate_on_its_bound_is_reported(spring):
    r = spring("target: joint/x/stiffness, bounds: [1, 15], start: 12", DAMPING)
    found = fit(r, cut([swing()], 0, held=1), IdentifyConfig(method="fd"))
    assert found.posterior.at_bound.tolist() == [True, False]
    assert not found.posterior.identifiable[0]
    assert "joint/x/stiffness ended on its bound" in found.notes


def test_prior_pulls_where_the_logs_are_silent(spring):
    r = spring(STIFFNESS, DAMPING,
               "target: body/block/mass, bounds: [0.2, 20], prior_std: 0.02")  # fmt: skip
    found = fit(r, cut([swing(noise=1e-3)], 0, held=1), IdentifyConfig(method="fd"))
    assert found.posterior.identifiable.all()
    assert found.posterior.value[2] == pytest.approx(2.0, abs=0.06)  # three prior deviations


def test_robust_loss_shrugs_off_outliers(spring):
    log = swing(noise=1e-3)
    log.measured[50:300:25] += 0.5
    r = spring(STIFFNESS, DAMPING)
    off = []
    for robust in (0.0, 0.1):
        config = IdentifyConfig(method="fd", robust=robust)
        off.append(abs(fit(r, cut([log], 0, held=1), config).posterior.value[0] - 20))
    assert off[1] < 0.2 * off[0]


def test_holdout_is_scored_against_the_nominal_model(spring):
    r = spring(STIFFNESS, DAMPING)
    found = study.study(r, [swing(noise=1e-3)], IdentifyConfig(method="fd", window=0.5))
    assert found.refitted
    assert found.holdout is not None
    assert found.holdout.scores.signals["joint/x/position"].samples == 60  # a fifth of 300
    assert found.names_holdout == ("swing (end)",)


def test_without_refit_the_held_out_logs_stay_unseen(spring):
    logs = [swing()] * 4 + [swing(stiffness=30)]
    settings = {"method": "fd", "window": 0.0, "first_window": 0.0}
    # Five logs, of which the third is held out, or fitted afterwards.
    logs[2], logs[4] = logs[4], logs[2]
    r = spring(STIFFNESS)
    alone = study.study(r, logs, IdentifyConfig(**settings, refit=False))
    again = study.study(r, logs, IdentifyConfig(**settings))
    assert alone.fit.posterior.value[0] == pytest.approx(20, rel=1e-3)
    assert again.fit.posterior.value[0] > 21
    assert (alone.refitted, again.refitted) == (False, True)
    assert (len(alone.names), len(again.names)) == (4, 5)


def test_wide_differences_are_slopes_over_their_width(spring):
    segments = cut([swing()], 0, held=1)
    simulator = world.make(spring(STIFFNESS), "mujoco")
    z, width = np.log(20.0), 0.05 * np.log(20.0)
    with jax.enable_x64(True):
        given = (jnp.array([z]), jnp.zeros((1, 0)), segments, jnp.ones(1))
        slope = compile_linearization(simulator, "fd", step=0.05)(*given).jacobian[0, :, 0, 0]
    up, down = (swing(stiffness=np.exp(z + h)).measured[1:, 0] for h in (width, -width))
    assert_allclose(slope, (up - down) / (2 * width), atol=1e-6)


def test_fit_without_parameters_is_refused(spring):
    with pytest.raises(BadValue, match="at least one parameter to identify"):
        fit(spring(), cut([swing()], 0, held=1), IdentifyConfig(method="fd"))


def test_rotation_between_equals_scipy():
    pair = Rotation.random(20, rng=3), Rotation.random(20, rng=4)
    quats = [np.roll(r.as_quat(), 1, axis=-1) for r in pair]
    with jax.enable_x64(True):
        got = rotation_between(jnp.asarray(quats[0]), jnp.asarray(-quats[1]))
        still = jax.jacfwd(rotation_between, 1)(
            jnp.array([1.0, 0, 0, 0]), jnp.array([1.0, 0, 0, 0])
        )
    expected = (pair[0].inv() * pair[1]).magnitude()
    assert np.linalg.norm(got, axis=-1) == pytest.approx(expected, abs=1e-12)
    assert np.isfinite(still).all()


def test_windows_of_one_simulation_start_where_it_was(spring):
    r = spring(STIFFNESS)
    simulator = world.make(r, "mujoco")
    with jax.enable_x64(True):
        whole = cut([swing()], 0, held=1)
        y = simulate_all(simulator, jnp.array([20.0]), whole)
    assert np.asarray(y)[0, :, 0] == pytest.approx(swing(damping=0.5).measured[1:, 0], abs=1e-6)


def test_unknown_start_is_estimated_with_the_parameters(spring):
    # Windows that start 3 cm beside the truth: taken as measured they spoil the fit.
    r = spring(STIFFNESS, DAMPING)
    log = swing()
    log.qpos[:] += 0.03
    taken = fit(r, cut([log], 0, held=1), IdentifyConfig(method="fd"))
    freed = dataclasses.replace(r, start_std=(0.1, 0.5))
    found = fit(freed, cut([log], 0, held=1), IdentifyConfig(method="fd"))
    assert found.posterior.value == pytest.approx([20, 0.5], rel=2e-3)  # the prior's pull
    assert abs(taken.posterior.value[1] - 0.5) > 0.02


def test_gap_at_the_start_of_a_window_is_stepped_over():
    log = swing(rows=41)
    for array in (log.measured, log.qpos, log.qvel):
        array[18:25] = np.nan
    windows = cut([log], 10, held=1)
    assert windows.start.tolist() == [0, 10, 25, 35]
    assert np.isfinite(windows.qpos).all()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("method", "steps", "tolerance"),
    [("adam", 100, 0.05), ("cmaes", 40, 0.01), ("bayes", 10, 0.25), ("surrogate", 12, 0.1)],
)
def test_other_searches_find_the_same_minimum(spring, method, steps, tolerance):
    r = spring(STIFFNESS, DAMPING)
    # Reverse mode compiles each of RK4's four stages; the plain integrator is as good here.
    r.model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    config = IdentifyConfig(method=method, iterations=steps)
    found = fit(r, cut([swing(noise=1e-3, rows=201)], 0, held=1), config)
    assert found.posterior.value == pytest.approx([20, 0.5], rel=tolerance)
    assert found.method == method
