import jax
import jax.numpy as jnp
import numpy as np
import pytest

from s2r_jax.sim import battery


def pack(**values):
    fields = {"voltage": 25.2, "resistance": 0.1, "capacity": 1000.0, "charge": 1.0} | values
    return battery.Battery(*[jnp.array(fields[name]) for name in battery.Battery._fields])


def test_full_pack_has_its_nominal_voltage():
    assert float(battery.open_circuit(pack(), jnp.array(0.0))) == pytest.approx(25.2)


@pytest.mark.parametrize(("charge", "cell"), [(0.0, 2.654), (0.5, 3.80336), (1.0, 4.10290)])
def test_voltage_follows_the_curve_of_the_cell(charge, cell):
    # the polynomial of Chen and Rincon-Mora worked out by hand at three charges
    got = battery.open_circuit(pack(charge=charge), jnp.array(0.0))
    assert float(got) == pytest.approx(25.2 * cell / 4.10290, rel=1e-5)


def test_taken_charge_and_initial_charge_are_the_same_thing():
    taken = battery.open_circuit(pack(), jnp.array(300.0))
    started = battery.open_circuit(pack(charge=0.7), jnp.array(0.0))
    assert float(taken) == pytest.approx(float(started), rel=1e-6)


def test_voltage_falls_all_the_way_and_stays_when_empty():
    curve = jax.vmap(lambda q: battery.open_circuit(pack(), q))(jnp.linspace(0, 1200, 61))
    assert (np.diff(curve[:51]) < 0).all()
    assert np.ptp(curve[50:]) == 0


def test_slope_in_charge_agrees_with_central_differences():
    with jax.enable_x64(True):
        f = lambda c: battery.terminal(pack()._replace(charge=c), jnp.array(100.0), jnp.array(2.0))  # noqa: E731
        h = 1e-6
        difference = (f(0.6 + h) - f(0.6 - h)) / (2 * h)
        assert float(jax.grad(f)(0.6)) == pytest.approx(float(difference), rel=1e-7)
