"""How a search of long windows begins."""

import jax
import numpy as np
import pytest

from s2r_jax.identify import levenberg, problem
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.fit import fit
from s2r_jax.identify.segments import cut
from s2r_jax.parameters import search_bounds, unconstrain
from tests.identify.springs import DAMPING, STIFFNESS, swing

ROWS = 801
CONFIG = IdentifyConfig(method="fd", profile=0)


def test_long_windows_are_evaluated_less_for_the_same_answer(spring, monkeypatch):
    r, windows = spring(STIFFNESS, DAMPING), cut([swing(noise=1e-3, rows=ROWS)], 0, held=1)
    lengths, original = [], problem.Problem.evaluate

    def counted(self, z):
        lengths.append(self.segments.weight.shape[1])
        return original(self, z)

    monkeypatch.setattr(problem.Problem, "evaluate", counted)
    found = fit(r, windows, CONFIG).posterior
    begun = list(lengths)
    lengths.clear()
    monkeypatch.setattr(problem, "LONG", ROWS)
    expected = fit(r, windows, CONFIG).posterior
    assert set(lengths) == {ROWS - 1}
    assert set(begun) == {ROWS - 1, (ROWS - 1) // problem.SHARE}
    assert begun.count(ROWS - 1) < len(lengths)
    # What stops a search leaves a tenth of a standard error open.
    assert np.abs(found.value - expected.value) == pytest.approx(0, abs=0.1 * expected.std.min())
    assert found.std == pytest.approx(expected.std, rel=1e-2)


@pytest.mark.parametrize(("stiffness", "is_taken"), [(20.0, True), (60.0, False)])
def test_beginning_that_misleads_is_not_followed(spring, stiffness, is_taken):
    # Until the first eighth is over another spring was measured.
    log = swing(rows=ROWS)
    log.measured[:100] = swing(stiffness=stiffness, rows=100).measured
    r = spring(STIFFNESS.replace("12", "18"))
    bounds = levenberg.Bounds(*search_bounds(r.parameters))
    with jax.enable_x64(True):
        search = problem.Problem(r, cut([log], 0, held=1), "fd", CONFIG)
        z = np.asarray(unconstrain(r.parameters, np.array([18.0])))
        begin, steps = search.ahead(z, bounds, 0, None)
    assert steps > 0
    assert np.exp(begin) == pytest.approx(20.0 if is_taken else 18.0, rel=1e-3)
