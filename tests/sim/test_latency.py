import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from s2r_jax.sim import latency

PERIOD = 0.02


def held(line, time):
    """The signal itself.

    Entry j holds from -j periods on, the first for ever, the last since ever.
    """
    return line[int(np.clip(-np.floor(time / PERIOD), 0, len(line) - 1))]


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    delay=st.floats(0, 0.06),
    start=st.sampled_from([0.0, 0.005, 0.01, 0.015]),
    values=st.lists(st.floats(-2, 2), min_size=4, max_size=4),
)
def test_read_is_the_mean_of_the_held_signal_over_the_step(delay, start, values):
    step = 0.005
    times = start - delay + (np.arange(4000) + 0.5) / 4000 * step
    expected = np.mean([held(values, t) for t in times])
    with jax.enable_x64(True):
        got = latency.read(
            jnp.array(values)[:, None], jnp.array(delay), jnp.array(start), step, PERIOD
        )
    assert_allclose(got[0], expected, atol=4 / 4000 * 4)  # one sample of the midpoint sum


def test_delay_of_whole_periods_reads_the_older_command():
    line = jnp.array([[1.0], [2.0], [3.0]])
    for periods in (0, 1, 2):
        got = latency.read(line, jnp.array(periods * PERIOD), jnp.array(0.0), 0.005, PERIOD)
        assert float(got[0]) == pytest.approx(1.0 + periods, abs=1e-5)


def test_derivative_in_the_delay_is_the_jump_over_the_step():
    # Within a step that the jump falls into, each second of delay moves (old - new) / step.
    line = jnp.array([[1.0], [4.0]])
    slope = jax.grad(lambda d: latency.read(line, d, jnp.array(0.0), 0.005, PERIOD)[0])(0.002)
    assert float(slope) == pytest.approx((4 - 1) / 0.005, rel=1e-5)


def test_line_is_long_enough_for_the_longest_delay():
    assert [latency.line_length(d, PERIOD) for d in (0.0, 0.001, 0.02, 0.0201, 0.06)] == [
        1,
        2,
        2,
        3,
        4,
    ]


def test_push_puts_the_newest_first():
    assert_allclose(latency.push(jnp.array([1.0, 2.0]), jnp.array(5.0)), [5.0, 1.0])


def path(**values):
    fields = {"action": 0.01, "jitter": 0.0, "drop": 0.0} | values
    return latency.Latency(*[jnp.array(fields[name]) for name in latency.Latency._fields])


def draws(values, count=4000):
    keys = jax.random.split(jax.random.key(0), count)
    return jax.vmap(lambda k: latency.draw(values, k))(keys)


def test_without_a_key_nothing_is_random():
    delay, is_lost = latency.draw(path(jitter=0.02, drop=1.0), None)
    assert (float(delay), bool(is_lost)) == (pytest.approx(0.01), False)


def test_jitter_is_uniform_on_top_of_the_least_delay():
    delay, _ = draws(path(jitter=0.02))
    assert_allclose(np.quantile(delay, [0, 1]), [0.01, 0.03], atol=2e-4)
    # 5 sigma of the mean of 4000 uniform draws
    assert float(delay.mean()) == pytest.approx(0.02, abs=5 * 0.02 / np.sqrt(12 * 4000))


def test_share_of_lost_commands_is_the_probability():
    _, is_lost = draws(path(drop=0.2))
    assert abs(float(is_lost.mean()) - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 4000)  # 5 sigma


def test_slope_in_jitter_is_the_share_that_was_drawn():
    slope = jax.grad(lambda j: latency.draw(path()._replace(jitter=j), jax.random.key(1))[0])(0.02)
    delay, _ = latency.draw(path(jitter=0.02), jax.random.key(1))
    assert float(slope) == pytest.approx((float(delay) - 0.01) / 0.02, rel=1e-4)
