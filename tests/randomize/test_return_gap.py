import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.errors import BadValue
from s2r_jax.randomize import distribution as d
from s2r_jax.randomize import return_gap
from s2r_jax.randomize.config import ReturnGapConfig
from tests.randomize.cases import CORRELATION, MARGINALS, PARAMETERS

CONFIG = ReturnGapConfig(rate=0.05, widen_above=0.1, narrow_below=-0.2)
REFERENCE = d.build(PARAMETERS, MARGINALS, CORRELATION)


def after(*returns, target=100.0):
    state = return_gap.init(PARAMETERS, REFERENCE, target)
    for value in returns:
        state, _ = return_gap.step(state, jnp.float32(value), CONFIG)
    return state


@pytest.mark.parametrize(
    ("target", "mean_return", "width"),
    [(100.0, 111.0, 1.05), (100.0, 109.0, 1.0), (100.0, 81.0, 1.0), (100.0, 79.0, 1 / 1.05),
     (-100.0, -89.0, 1.05), (-100.0, -121.0, 1 / 1.05), (100.0, float("nan"), 1.0)],
)  # fmt: skip
def test_width_moves_only_outside_the_band(target, mean_return, width):
    assert_allclose(after(mean_return, target=target).width, width, rtol=1e-6)


def test_ranges_and_deviations_grow_about_their_centres():
    wide = after(200.0, 200.0).distribution  # 1.05 ** 2 = 1.1025
    assert_allclose([wide.low[0], wide.high[0]], [0.75 - 0.496125, 0.75 + 0.496125], rtol=1e-5)
    assert_allclose(wide.std, np.asarray(REFERENCE.std) * 1.1025, rtol=1e-6)
    assert_allclose(wide.low[4], 0.1**0.5 * 1000 ** (-1.1025 / 2), rtol=1e-5)  # of [0.01, 10]
    assert wide.high[4] == np.float32(10.0)  # the bound
    assert_allclose(wide.mean, REFERENCE.mean)
    # Fixed stays fixed, and where a normal is cut off is not its width.
    assert_allclose(wide.low[1:4], REFERENCE.low[1:4])
    assert_allclose(wide.high[1:4], REFERENCE.high[1:4])


def test_narrowing_undoes_widening():
    chex.assert_trees_all_close(after(200.0, 200.0, 0.0, 0.0).distribution, REFERENCE, rtol=1e-5)


def test_adaptation_keeps_every_draw_inside_the_bounds():
    wide = after(*[1000.0] * 60).distribution
    keys = jax.random.split(jax.random.key(0), 1000)
    for theta in jax.vmap(d.sample, (0, None))(keys, wide):
        PARAMETERS.check(theta, "draw")


def test_step_does_not_recompile():
    step = jax.jit(chex.assert_max_traces(return_gap.step, n=1), static_argnums=2)
    state = return_gap.init(PARAMETERS, REFERENCE, 1.0)
    for value in (2.0, 0.0, 1.0):
        state, _ = step(state, jnp.float32(value), CONFIG)


def test_a_target_of_zero_is_refused():
    with pytest.raises(BadValue) as error:
        return_gap.init(PARAMETERS, REFERENCE, 0.0)
    assert str(error.value) == "return gap: target return is 0.0, expected a finite number but 0"
