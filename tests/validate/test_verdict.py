import json
import math
import subprocess
import sys

import numpy as np
import pytest

from s2r_jax.errors import BadValue
from s2r_jax.validate import statistics, verdict
from s2r_jax.validate.config import ValidateConfig
from tests.validate.cases import PARAMETERS, sweep

CONFIG = ValidateConfig()


def test_success_everywhere_is_go():
    worlds = sweep(friction_limit=1.1)
    found = verdict.validate(worlds, PARAMETERS, CONFIG, device_hours=0.5)
    reward = worlds.reward.astype(float)
    assert found.verdict == "GO"
    assert found.dr_mean_return == pytest.approx(reward.mean())
    assert found.dr_worst5_return == pytest.approx(np.sort(reward)[:20].mean())
    assert found.success_rate == statistics.success_rate(worlds.success)
    assert found.device_hours == 0.5
    assert found.reasons == (
        "Success in 400 of 400 worlds is 100.0%, with 95% confidence at least 99.0%; 95.0% is "
        "required.",
    )


def test_failures_are_no_go_and_their_cause_is_named():
    worlds = sweep(friction_limit=0.8)
    found = verdict.validate(worlds, PARAMETERS, CONFIG, 0.0)
    k = int(worlds.success.sum())
    low = statistics.success_rate(worlds.success).low
    assert found.verdict == "NO-GO"
    assert found.reasons[0] == (
        f"Success in {k} of 400 worlds is {k / 400:.1%}, with 95% confidence at least {low:.1%}, "
        "below the 95.0% required."
    )
    assert found.reasons[1].startswith("Failures share a high motor/hip/friction (rank correlation")
    assert len(found.reasons) == 2


@pytest.mark.parametrize(("successes", "expected"), [(497, "GO"), (496, "NO-GO")])
def test_the_lower_end_of_the_interval_decides(successes, expected):
    worlds = sweep(512)._replace(success=np.arange(512) < successes)
    assert verdict.validate(worlds, PARAMETERS, CONFIG, 0.0).verdict == expected


def test_too_few_worlds_cannot_be_go():
    worlds = sweep(50, friction_limit=1.1)
    found = verdict.validate(worlds, PARAMETERS, CONFIG, 0.0)
    assert found.verdict == "NO-GO"
    assert found.reasons[1] == (
        "50 worlds are too few: even without a failure 95.0% takes at least 73."
    )


def test_a_world_that_is_not_finite_forbids_go():
    worlds = sweep(friction_limit=1.1)
    worlds.reward[7], worlds.is_finite[7], worlds.success[7] = np.nan, False, False
    worlds.theta[7] = [0.25, 0.03125, 24.5]
    found = verdict.validate(worlds, PARAMETERS, CONFIG, 0.0)
    assert found.verdict == "NO-GO"
    assert found.success_rate.value == 399 / 400
    assert found.dr_mean_return == pytest.approx(np.delete(worlds.reward, 7).mean())
    assert found.reasons == (
        "1 of 400 worlds are not finite: their simulation diverged, and they count as failures.",
        "The first world that is not finite is number 7, with motor/hip/friction = 0.25, "
        "latency/action = 0.03125, battery/voltage = 24.5.",
    )


def test_the_worst_worlds_can_be_asked_for():
    worlds = sweep(friction_limit=1.1)
    worst = statistics.worst_mean(worlds.reward.astype(float))
    met = ValidateConfig(min_worst5_return=worst - 0.1)
    assert verdict.validate(worlds, PARAMETERS, met, 0.0).verdict == "GO"
    found = verdict.validate(worlds, PARAMETERS, ValidateConfig(min_worst5_return=9.0), 0.0)
    assert found.verdict == "NO-GO"
    assert found.reasons == (
        f"Mean return of the worst 5.0% of the worlds is {worst:.4g}, below the 9 required.",
    )


def test_no_finite_world_at_all_is_no_go_and_valid_json():
    worlds = sweep(3)
    nothing = worlds._replace(
        reward=np.full(3, np.nan), is_finite=np.zeros(3, bool), success=np.zeros(3, bool)
    )
    found = verdict.validate(nothing, PARAMETERS, ValidateConfig(min_worst5_return=0.0), 0.0)
    assert found.verdict == "NO-GO"
    assert math.isnan(found.dr_mean_return)
    text = json.dumps(verdict.document(found), allow_nan=False)
    assert json.loads(text)["dr_mean_return"] is None
    assert any("worst 5.0% of the worlds is nan" in reason for reason in found.reasons)


def test_the_document_has_the_fields_others_rely_on():
    plain = verdict.document(verdict.validate(sweep(), PARAMETERS, CONFIG, 1.5))
    assert list(plain) == ["dr_mean_return", "dr_worst5_return", "success_rate", "device_hours",
                           "verdict", "reasons"]  # fmt: skip
    assert list(plain["success_rate"]) == ["value", "low", "high", "n"]
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


@pytest.mark.parametrize(("field", "value"), [("min_success", 1.0), ("confidence", 0.0)])
def test_thresholds_without_sense_are_refused(field, value):
    with pytest.raises(BadValue) as error:
        verdict.validate(sweep(), PARAMETERS, ValidateConfig(**{field: value}), 0.0)
    expected = f"validation: {field} is {value}, expected a fraction between 0 and 1"
    assert str(error.value) == expected


@pytest.mark.parametrize("module", ["s2r_jax.validate.config", "s2r_jax.randomize.config"])
def test_configs_import_no_jax(module):
    code = f"import sys, {module}; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
