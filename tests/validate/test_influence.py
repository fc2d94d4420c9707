import numpy as np
import pytest
import scipy.stats

from s2r_jax.validate.influence import influences
from tests.validate.cases import NAMES, sweep


def test_the_cause_comes_first_with_spearmans_correlation():
    worlds = sweep()
    found = influences(NAMES, worlds.theta, ~worlds.success)
    expected = scipy.stats.spearmanr(worlds.theta[:, 0], ~worlds.success)
    assert (found[0].name, found[0].side) == ("motor/hip/friction", "high")
    assert found[0].correlation == pytest.approx(expected.statistic, abs=1e-12)
    assert found[0].pvalue == pytest.approx(6 * expected.pvalue)  # three parameters, two questions
    assert influences(NAMES, worlds.theta, worlds.success)[0].side == "low"


def test_failures_at_both_ends_are_found():
    worlds = sweep()
    failed = np.abs(worlds.theta[:, 2] - 23) > 2.5
    found = influences(NAMES, worlds.theta, failed)
    assert (found[0].name, found[0].side) == ("battery/voltage", "extreme")
    assert influences(NAMES, worlds.theta, ~failed)[0].side == "middle"
    assert abs(scipy.stats.spearmanr(worlds.theta[:, 2], failed).statistic) < 0.1


def test_chance_names_nobody():  # negative control: failures that depend on nothing
    rng = np.random.default_rng(0)
    named = 0
    for seed in range(200):
        worlds = sweep(200, seed=seed)
        found = influences(NAMES, worlds.theta, rng.random(200) < 0.2)
        named += any(influence.pvalue < 0.05 for influence in found)
    assert named < 200 * 0.05 + 5 * (200 * 0.05 * 0.95) ** 0.5  # at most 5 %, and 5 sigma


def test_what_does_not_vary_has_no_influence():
    worlds = sweep()
    assert influences(NAMES, worlds.theta, np.ones(400, bool)) == []
    theta = worlds.theta.copy()
    theta[:, 0] = 0.5
    assert [i.name for i in influences(NAMES[:1], theta[:, :1], ~worlds.success)] == []
