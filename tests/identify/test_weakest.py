"""Profiles of a fit: of which parameters, when, and what they say."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.cli.identify import profile_json
from s2r_jax.errors import BadValue
from s2r_jax.identify import fit as fits
from s2r_jax.identify import levenberg
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.profile import Profile
from s2r_jax.identify.segments import cut
from s2r_jax.identify.study import study
from s2r_jax.identify.weakest import is_limited, profiles, weakest
from s2r_jax.parameters import ParameterSet, Transform
from s2r_jax.types import Posterior
from tests.identify import springs

NOISE = 1e-2  # m


def estimate(std, at_bound=()):
    """A posterior of independent parameters a, b, c in [-1, 1] at 0."""
    names = ("a", "b", "c")[: len(std)]
    on = np.isin(names, at_bound)
    zero, std = np.zeros(len(std)), np.array(std)
    covariance = np.diag(np.where(on, 0.0, std**2))
    low, high, free = (-1.0,) * len(std), (1.0,) * len(std), (np.inf,) * len(std)
    start, units = (0.0,) * len(std), ("",) * len(std)
    identity: tuple[Transform, ...] = ("identity",) * len(std)
    parameters = ParameterSet(names, low, high, start, start, free, identity, units)
    return parameters, Posterior(names, zero, std, zero, covariance, ~on, on)


def test_weakest_come_first_those_on_bounds_last_and_the_dead_not_at_all():
    parameters, posterior = estimate([0.1, 0.2, 0.05])
    assert weakest(parameters, posterior, ()).tolist() == [1, 0, 2]
    assert weakest(parameters, posterior, ("b",)).tolist() == [0, 2]
    parameters, posterior = estimate([0.1, 0.2, 0.05], at_bound=("b",))
    assert weakest(parameters, posterior, ()).tolist() == [0, 2, 1]


@pytest.mark.parametrize(("low", "open_low", "open_high", "limited"), [
    (0.0, False, False, True),
    (0.0, True, False, True),  # a friction that may be absent
    (0.1, True, False, False),
    (-2.0, True, False, False),
    (0.0, False, True, False),  # one that may be any larger
])  # fmt: skip
def test_open_ends_leave_a_parameter_unknown_but_for_nothing(low, open_low, open_high, limited):
    grid = np.array([0.5, 1.0])
    curve = Profile("a", grid, 0 * grid, low, 2.0, open_low, open_high)
    assert is_limited(curve, low, 2.0) == limited


def test_search_that_ended_above_the_bottom_is_said():
    # The bottom lies at 0.5; the fit stopped at 0.
    def evaluate(z):
        return levenberg.Normal(0.5 * float((10 * (z[0] - 0.5)) ** 2), 100 * (z - 0.5),
                                np.array([[100.0]]))  # fmt: skip

    parameters, posterior = estimate([0.1])
    state = levenberg.init(np.zeros(1), evaluate(np.zeros(1)))
    _, notes = profiles(evaluate, state, parameters, posterior, (), 1.0, 1)
    assert any("the search ended before the bottom" in note for note in notes)


def test_profile_of_a_well_known_parameter_is_its_standard_error(spring):
    r = spring(springs.STIFFNESS, springs.DAMPING)
    config = IdentifyConfig(method="fd", profile=2)
    found = fits.fit(r, cut([springs.swing(noise=NOISE)], 0, held=1), config)
    assert [p.name for p in found.profiles] == ["joint/x/damping", "joint/x/stiffness"]
    for curve in found.profiles:
        i = found.posterior.names.index(curve.name)
        std = found.posterior.std[i] / found.posterior.value[i]
        ends = np.log(np.array([curve.low, curve.high]) / found.posterior.value[i])
        assert_allclose(ends, [-1.96 * std, 1.96 * std], rtol=0.05)  # all but linear
        assert profile_json(curve) == {
            "name": curve.name, "low": curve.low, "high": curve.high,
            "is_open_low": False, "is_open_high": False,
        }  # fmt: skip


def test_only_the_fit_that_stays_is_profiled(spring, monkeypatch):
    r = spring(springs.STIFFNESS, springs.DAMPING)
    profiled, original = [], fits.profiled

    def counted(problem, found):
        profiled.append(len(problem.segments.log))
        return original(problem, found)

    monkeypatch.setattr(fits, "profiled", counted)
    config = IdentifyConfig(method="fd", window=0.0, first_window=1.0)
    found = study(r, [springs.swing(noise=NOISE)], config)
    assert profiled == [1]
    assert len(found.fit.profiles) == 1
    without = dataclasses.replace(config, profile=0)
    assert study(r, [springs.swing(noise=NOISE)], without).fit.profiles == ()
    assert profiled == [1]
    with pytest.raises(BadValue, match="identify: profile is -1, expected a number >= 0"):
        study(r, [springs.swing(noise=NOISE)], IdentifyConfig(profile=-1))


def test_profile_that_would_take_long_is_left_out_and_said(spring, monkeypatch):
    r = spring(springs.STIFFNESS, springs.DAMPING)
    monkeypatch.setattr(fits, "SLOW", 0.0)
    found = fits.fit(r, cut([springs.swing(noise=NOISE)], 0, held=1), IdentifyConfig(method="fd"))
    assert found.profiles == ()
    assert found.notes[-1].startswith("no profile of joint/x/damping: it takes 16 simulations of ")
