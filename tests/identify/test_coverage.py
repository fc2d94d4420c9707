"""The intervals of a fit hold the truth as often as they say: simulated experiments, fixed seed."""

import numpy as np
import pytest

from benchmarks import coverage

EXPERIMENTS = 30
NAMES = coverage.servo().parameters.names


@pytest.fixture(scope="module")
def found():
    return coverage.run(EXPERIMENTS, seed=0)


def off(rows):
    """Parameters whose coverage is beyond 5 sigma of a binomial from 95 %."""
    return [
        row.name
        for row in rows
        if abs(row.covered / row.called - 0.95) > 5 * (0.95 * 0.05 / row.called) ** 0.5
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_intervals_of_95_percent_hold_the_truth_of_every_parameter(found):
    rows = coverage.coverage(NAMES, found)
    # Coulomb and viscous friction of a weak motor need not be told apart in each experiment.
    assert all(row.called >= EXPERIMENTS * (0.5 if "fric" in row.name else 0.9) for row in rows)
    assert not off(rows)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_intervals_of_half_the_width_are_found_out(found):
    assert len(off(coverage.coverage(NAMES, found, width=0.5))) >= 3


def test_correlated_noise_keeps_its_size():
    values = coverage.noise(np.random.default_rng(0), (200, 1000, 2), 0.9)
    spread = values.std(axis=(0, 1)) / coverage.NOISE
    assert spread == pytest.approx([1, 1], rel=0.02)  # 2e5 samples, τ of 19: 0.7 %
    following = (values[:, 1:] * values[:, :-1]).mean((0, 1)) / values.var(axis=(0, 1))
    assert following == pytest.approx([0.9, 0.9], abs=0.01)
