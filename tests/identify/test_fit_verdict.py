"""The verdict on fits whose truth is known, and the interval that it rests on."""

import dataclasses
import functools

import numpy as np
import pytest

from s2r_jax.identify import paired, verdict
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.study import study
from tests.identify import springs

STIFFNESS = "target: joint/x/stiffness, bounds: [1, 100], transform: log"
CONFIG = IdentifyConfig(method="fd", window=0.5)
swing = functools.partial(springs.swing, noise=1e-3, rows=601, has_states=True)


@pytest.fixture
def spring(spring):
    """A model that is softer than the machine."""
    return functools.partial(spring, stiffness=12.0)


def test_fit_of_the_right_model_is_go(spring):
    r = spring(STIFFNESS)
    found = verdict.judge(r, study(r, [swing()], CONFIG))
    assert found.verdict == "GO"
    assert "1 of 1 parameters that act are identifiable." in found.reasons


def test_nothing_held_out_is_no_go(spring):
    r = spring(STIFFNESS)
    found = verdict.judge(r, study(r, [swing()], dataclasses.replace(CONFIG, holdout=0.0)))
    assert found == verdict.Verdict(
        "NO-GO", ("No logs were held out: nothing says how the values do on unseen ones.",)
    )


def test_values_that_gain_nothing_over_the_nominal_ones_are_no_go(spring):
    # The machine is the nominal model: what the fit changes is noise.
    r = spring(STIFFNESS)
    found = verdict.judge(r, study(r, [swing(stiffness=12.0)], CONFIG))
    assert found.verdict == "NO-GO"
    assert len(found.reasons) == 1
    assert "no better beyond noise" in found.reasons[0]


def test_parameter_held_back_by_its_bound_is_no_go(spring):
    r = spring("target: joint/x/stiffness, bounds: [10, 16], transform: log")
    found = verdict.judge(r, study(r, [swing()], CONFIG))
    assert found.verdict == "NO-GO"
    sentence = "joint/x/stiffness ended on its upper bound (16): the value that fits lies beyond."
    assert sentence in found.reasons


def test_friction_that_vanishes_is_no_reason_against(spring):
    # Damping of the model is 0.5 as is the machine's; what it adds above that is nothing.
    damping = "target: joint/x/damping, bounds: [0.0, 5.0], operation: add"
    r = spring(STIFFNESS, damping)
    found = study(r, [swing(noise=0.0)], CONFIG)
    at = found.fit._replace(
        posterior=found.fit.posterior._replace(
            value=np.array([20.0, 0.0]), at_bound=np.array([False, True])
        )
    )
    assert verdict.stopped(r.parameters, found._replace(fit=at)) == []


def test_search_that_was_cut_short_is_no_go(spring):
    r = spring(STIFFNESS)
    found = verdict.judge(r, study(r, [swing()], dataclasses.replace(CONFIG, iterations=1)))
    assert found.verdict == "NO-GO"
    assert "The search did not converge in 2 steps: raise --iterations." in found.reasons


def test_fit_of_logs_that_say_nothing_of_the_next_is_no_go(spring):
    # The fitted machine is another one than the held-out one.
    r = spring(STIFFNESS)
    logs = [swing(), swing(stiffness=12.0, seed=1)._replace(name="other")]
    found = verdict.judge(r, study(r, logs[:1], CONFIG, held_out=logs[1:]))
    assert found.verdict == "NO-GO"
    assert any("no better beyond noise" in reason for reason in found.reasons)
    assert any("overfitted" in reason for reason in found.reasons)


@pytest.mark.parametrize(("window", "said"), [
    (0.1234, ["windows of 0.1234 s are no whole number of control periods (0.01 s): 0.12 s"]),
    (7.0, ["windows of 7 s do not fit into 1 of 1 logs (swing), which count whole"]),
    (0.5, []),
    (0.0, []),
])  # fmt: skip
def test_windows_that_cannot_be_had_are_said(spring, window, said):
    r = spring(STIFFNESS)
    config = dataclasses.replace(CONFIG, window=window, holdout=0.0)
    found = study(r, [swing()], config).warnings
    assert len(found) == len(said)
    assert all(word.startswith(start) for word, start in zip(found, said, strict=True))


def test_interval_of_a_ratio_covers_the_truth_of_correlated_errors():
    # AR(1) errors of ratio 0.9; naive resampling of samples would cover far less than 95 %.
    keys, covered = np.random.default_rng(3), 0
    for _ in range(200):
        white = keys.standard_normal((2, 1200))
        series = np.zeros_like(white)
        for k in range(1, 1200):
            series[:, k] = 0.8 * series[:, k - 1] + white[:, k]
        cut = (series[:, :1188] ** 2).reshape(2, 44, 27).sum(2)[..., None]
        found = paired.ratio(0.81 * cut[0], cut[1])
        covered += found.low <= 0.9 <= found.high
    assert 0.90 <= covered / 200 <= 0.99  # 95 % with 5 sigma of a binomial below would be 0.87
