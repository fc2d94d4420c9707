import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.motors import MOTOR_FIELDS
from s2r_jax.sim import motor
from s2r_jax.types import Command


def table(**values):
    fields = {**MOTOR_FIELDS, **values}
    return motor.Motor(*[jnp.array([fields[name]]) for name in motor.Motor._fields])


def command(target=0.0, torque=0.0, kp=0.0, kd=0.0, enabled=1.0):
    return Command(*[jnp.array([v]) for v in (target, torque, kp, kd, enabled)], jnp.array(jnp.nan))


def drive(kind, m, c, angle=0.0, speed=0.0, voltage=24.0):
    return motor.drive(kind, m, c, jnp.array([angle]), jnp.array([speed]), jnp.array(voltage))


def test_pd_law():
    out = drive(
        "pd", table(), command(target=1.0, torque=0.5, kp=20.0, kd=2.0), angle=0.25, speed=3.0
    )
    assert float(out.torque[0]) == pytest.approx(20 * 0.75 - 2 * 3 + 0.5)


def test_pd_torque_stays_inside_the_torque_speed_curve():
    m = table(torque_constant=0.5, resistance=2.0, torque_limit=5.0)
    speeds = np.linspace(-60, 60, 25)
    for speed in speeds:
        asked = float(drive("pd", m, command(target=9.0, kp=100.0), speed=speed).torque[0])
        most = 0.5 * (24.0 - 0.5 * speed) / 2.0  # full voltage against the back-EMF
        assert asked == pytest.approx(min(5.0, most), abs=1e-5)


def test_dc_servo_torque_is_voltage_minus_back_emf_over_resistance():
    m = table(torque_constant=0.4, resistance=4.0, duty_gain=0.003)
    out = drive("dc_servo", m, command(target=0.5, kp=200.0), angle=0.1, speed=2.0, voltage=7.4)
    duty = 0.003 * 200 * 0.4
    torque = 0.4 * (7.4 * duty - 0.4 * 2.0) / 4.0
    assert float(out.duty[0]) == pytest.approx(duty)
    assert float(out.torque[0] - out.damping[0] * 2.0) == pytest.approx(torque, rel=1e-5)


def test_dc_servo_saturates_at_full_duty_and_is_free_with_torque_off():
    m = table(torque_constant=0.4, resistance=4.0, duty_gain=0.003)
    full = drive("dc_servo", m, command(target=9.0, kp=400.0), voltage=7.0)
    off = drive("dc_servo", m, command(target=9.0, kp=400.0, enabled=0.0), speed=3.0, voltage=7.0)
    assert float(full.torque[0]) == pytest.approx(0.4 * 7.0 / 4.0)
    assert_allclose([off.torque[0], off.damping[0], off.current[0]], 0.0)


@pytest.mark.parametrize("kind", ["torque", "pd", "dc_servo"])
def test_strength_scales_the_torque(kind):
    weak, full = table(strength=0.5), table()
    weak, full = (m._replace(torque_constant=jnp.array([0.3]), duty_gain=jnp.array([0.003]))
                  for m in (weak, full))  # fmt: skip
    c = command(target=0.4, kp=3.0)
    ratio = drive(kind, weak, c).torque / drive(kind, full, c).torque
    assert float(ratio[0]) == pytest.approx(0.5)


def test_stall_current_is_torque_over_torque_constant():
    # At rest all power heats the winding: P = i² R, drawn at the supply's voltage.
    m = table(torque_constant=0.5, resistance=2.0)
    out = drive("torque", m, command(target=1.5), voltage=24.0)
    assert float(out.current[0]) == pytest.approx((1.5 / 0.5) ** 2 * 2.0 / 24.0)


def test_friction_terms():
    terms = {"friction": 0.1, "stribeck": 0.2, "load_friction": 0.3, "stribeck_load": 0.4}
    m = table(stribeck_speed=0.5, **terms)
    got = motor.friction(m, jnp.array([0.5]), jnp.array([-2.0]))
    # By hand from BAM's M4 (arXiv:2410.08650) with the exponent 2.
    assert float(got[0]) == pytest.approx(0.1 + 0.3 * 2.0 + (0.2 + 0.4 * 2.0) * np.exp(-1))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_saturation_halves_the_torque_constant_at_its_torque(sign):
    # k / (1 + |k i| / τ) with τ = 1 / saturation: half at |k i| = τ, for motor and generator alike.
    given = {"torque_constant": 0.4, "resistance": 4.0, "duty_gain": 0.003}
    c, speed = command(target=sign * 0.5, kp=200.0), 2.0
    full = drive("dc_servo", table(**given), c, speed=speed, voltage=7.4)
    linear = float(full.torque[0] - full.damping[0] * speed)
    less = drive(
        "dc_servo", table(**given, saturation=1 / abs(linear)), c, speed=speed, voltage=7.4
    )
    assert float(less.torque[0] - less.damping[0] * speed) == pytest.approx(linear / 2, rel=1e-5)
    assert float(less.current[0]) == float(full.current[0])
    pd = drive("pd", table(saturation=0.5), command(target=sign, kp=2.0))
    assert float(pd.torque[0]) == pytest.approx(sign * 1.0)


def test_lag_reaches_63_percent_after_its_time_constant():
    m, torque = table(lag=0.05), jnp.array([0.0])
    for _ in range(50):
        torque = motor.follow(m, jnp.array([1.0]), torque, 0.001)
    assert float(torque[0]) == pytest.approx(1 - np.exp(-1), rel=1e-5)
    assert float(motor.follow(table(), jnp.array([1.0]), torque, 0.001)[0]) == 1.0


def test_gap_is_crossed_at_the_no_load_speed():
    # At full duty a rotor without load turns at voltage / k; the joint is held.
    m, step = table(torque_constant=0.4, resistance=4.0, duty_gain=1.0, backlash=0.05), 1e-4
    c, gap, engaged = command(target=9.0, kp=400.0), jnp.array([-0.025]), []
    for _ in range(200):
        out = drive("dc_servo", m, c, angle=float(gap[0]), voltage=7.0)
        teeth = motor.mesh(m, gap, out.torque, motor.slope("dc_servo", m, c, out), step)
        gap, engaged = teeth.gap, [*engaged, float(teeth.engaged[0])]
    assert float(gap[0]) == pytest.approx(0.025)
    assert np.sum(1 - np.array(engaged)) * step == pytest.approx(0.05 * 0.4 / 7.0, rel=1e-4)


def test_teeth_that_touch_transmit_and_let_go_when_the_torque_turns():
    m = table(backlash=0.1)
    touching = motor.mesh(m, jnp.array([0.05]), jnp.array([2.0]), jnp.array([1.0]), 0.001)
    leaving = motor.mesh(m, jnp.array([0.05]), jnp.array([-2.0]), jnp.array([1.0]), 0.001)
    assert_allclose([touching.gap[0], touching.engaged[0]], [0.05, 1.0])
    assert_allclose([leaving.gap[0], leaving.engaged[0]], [0.05 - 0.002, 0.0], atol=1e-6)


def test_without_backlash_everything_is_engaged():
    torque = jnp.array([3.0])
    teeth = motor.mesh(table(), jnp.zeros(1), torque, jnp.array([1.0]), 0.001)
    assert_allclose([teeth.gap[0], teeth.engaged[0]], [0.0, 1.0])


def test_torque_through_the_gap_has_a_finite_slope_in_backlash():
    def transmitted(width):
        m = table()._replace(backlash=width[None])
        gap = jnp.array([0.0])
        torque = jnp.array([2.0])
        return (motor.mesh(m, gap, torque, jnp.array([0.01]), 0.001).engaged * torque)[0]

    # engaged = 1 - (width / 2) damping / (torque step)
    assert float(jax.grad(transmitted)(jnp.array(0.1))) == pytest.approx(-0.5 * 0.01 / 0.001)
    assert np.isfinite(float(jax.grad(transmitted)(jnp.array(0.0))))


def test_slope_of_a_pd_law_is_its_speed_gain():
    m, c = table(strength=0.5, viscous=0.1), command(kp=10.0, kd=2.0)
    slope = motor.slope("pd", m, c, drive("pd", m, c))
    before, after = (drive("pd", m, c, speed=s).torque for s in (0.0, 1.0))
    assert float(slope[0]) == pytest.approx(float(before[0] - after[0]) + 0.1)
    off = c._replace(enabled=jnp.zeros(1))
    assert float(motor.slope("pd", m, off, drive("pd", m, off))[0]) == pytest.approx(0.1)


def test_thrust_of_a_rotor_is_a_polynomial_of_its_lagged_throttle():
    m = table(strength=0.5, lag=0.07, thrust_constant=0.02, thrust_linear=-0.1,
              thrust_quadratic=0.4)  # fmt: skip
    throttle = jnp.array([0.2])
    for _ in range(70):
        asked = drive("rotor", m, command(target=0.8)).torque
        throttle = motor.follow(m, asked, throttle, 0.001)
    w = 0.8 + (0.2 - 0.8) * np.exp(-1)  # after one time constant
    thrust = motor.behind_lag("rotor", m, throttle)
    assert float(thrust[0]) == pytest.approx(0.5 * (0.02 - 0.1 * w + 0.4 * w**2), rel=1e-5)
    stopped = drive("rotor", m, command(target=0.8, enabled=0.0))
    assert float(stopped.torque[0]) == 0.0


def test_torque_behind_the_lag_is_a_torque_already():
    m = table(strength=0.5, thrust_quadratic=9.0)
    assert float(motor.behind_lag("pd", m, jnp.array([2.0]))[0]) == 2.0
