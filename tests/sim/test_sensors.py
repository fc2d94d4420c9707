import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.sim import sensors

PERIOD = 0.02


def table(**values):
    fields = dict.fromkeys(sensors.Sensors._fields, 0.0) | {"scale": 1.0} | values
    return sensors.Sensors(*[jnp.array([fields[name]]) for name in sensors.Sensors._fields])


def readings(errors, signal, ticks, held=16, key=None):
    """Readings at ticks 0, 1, ... of a signal of time that stood still before."""
    found = []
    for tick in range(ticks):
        past = np.maximum(tick - np.arange(held), 0) * PERIOD
        history = jnp.asarray(signal(past), jnp.float32)[:, None]
        drift = jnp.zeros(1)
        found.append(sensors.read(errors, history, drift, jnp.int32(tick), PERIOD, key)[0])
    return np.array(found)


def test_sample_is_held_until_the_next():
    got = readings(table(rate=1 / (3 * PERIOD)), lambda t: t, 10)
    assert_allclose(got, PERIOD * np.array([0, 0, 0, 3, 3, 3, 6, 6, 6, 9]), atol=1e-6)


@pytest.mark.parametrize("rate", [17.0, 23.7, 49.0, 130.0])
def test_samples_are_taken_at_whole_multiples_of_the_sampling_time(rate):
    now = np.arange(40) * PERIOD
    got = readings(table(rate=rate), lambda t: 3 * t, 40)
    assert_allclose(got, 3 * np.floor(now * rate + 1e-4) / rate, atol=1e-5)


def test_delay_comes_on_top_of_the_age_of_the_sample():
    got = readings(table(rate=1 / (2 * PERIOD), delay=1.5 * PERIOD), lambda t: t, 8)
    expected = np.maximum(np.array([0, 0, 2, 2, 4, 4, 6, 6]) - 1.5, 0)
    assert_allclose(got, PERIOD * expected, atol=1e-6)


def test_held_sample_keeps_its_noise_and_the_next_has_another():
    key = jax.random.key(0)
    got = readings(table(rate=1 / (2 * PERIOD), noise=1.0), np.zeros_like, 40, key=key)
    assert_allclose(got[::2], got[1::2], atol=0)
    assert len(np.unique(got)) == 20


def test_noise_is_white_and_has_its_standard_deviation():
    errors = table(noise=0.3)
    keys, tick = jax.random.split(jax.random.key(1), 4000), jnp.int32(5)
    still = jnp.zeros((1, 1)), jnp.zeros(1)
    now, later = (jax.vmap(lambda k, t=t: sensors.read(errors, *still, t, PERIOD, k)[0])(keys)
                  for t in (tick, tick + 1))  # fmt: skip
    assert float(now.std()) == pytest.approx(0.3, rel=5 / np.sqrt(2 * 4000))  # 5 sigma
    assert abs(float(jnp.corrcoef(now, later)[0, 1])) < 5 / np.sqrt(4000)


def test_scale_bias_drift_and_quantum():
    errors = table(scale=2.0, bias=0.1, quantum=0.25)
    got = sensors.read(errors, jnp.array([[1.0]]), jnp.array([0.2]), jnp.int32(0), PERIOD, None)
    assert float(got[0]) == pytest.approx(2.25)  # 2.3 to the nearest quarter


def test_drift_is_a_random_walk():
    errors, steps, ends = table(drift=0.5), 50, jnp.zeros(2000)
    for key in jax.random.split(jax.random.key(2), steps):
        ends = sensors.wander(errors, ends, PERIOD, key)
    # variance grows by drift² a second; 5 sigma of the standard deviation of 2000 draws
    expected = 0.5 * np.sqrt(steps * PERIOD)
    assert float(ends.std()) == pytest.approx(expected, rel=5 / np.sqrt(2 * 2000))


def test_reading_has_the_slope_of_the_sampling_rate():
    # sample k of a ramp is taken at k / rate
    def read(rate):
        history = jnp.arange(10.0, 0.0, -1.0)[:, None] * PERIOD
        errors = table()._replace(rate=rate[None])
        return sensors.read(errors, history, jnp.zeros(1), jnp.int32(9), PERIOD, None)[0]

    rate = jnp.array(21.0)
    number = np.floor(9 * PERIOD * 21.0)
    assert float(jax.grad(read)(rate)) == pytest.approx(-number / 21.0**2, rel=1e-3)
