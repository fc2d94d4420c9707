import pytest

from s2r_jax.deploy import clock


class Time:
    """A clock that only sleeping and working move; every sleep overshoots a little."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        self.now += 1e-7
        return self.now

    def sleep(self, seconds):
        self.now += seconds + 1e-4


@pytest.fixture
def time(monkeypatch):
    fake = Time()
    monkeypatch.setattr(clock, "time", fake)
    return fake


def test_ticks_do_not_drift_however_long_the_work_takes(time):
    schedule = clock.Schedule(0.02)
    start = time.now
    for k in range(1, 501):
        time.now += 0.013
        late = schedule.wait()
        assert 0 <= late < 1e-3
        assert time.now == pytest.approx(start + 0.02 * k, abs=1e-3)
    assert schedule.missed == 0


def test_deadlines_that_have_passed_are_left_out_and_counted(time):
    schedule = clock.Schedule(0.02)
    start = time.now
    schedule.wait()
    time.now = start + 0.11  # the deadlines at 0.04, 0.06, 0.08 have passed; 0.10 is just due
    assert schedule.wait() == pytest.approx(0.01, abs=1e-3)
    assert schedule.missed == 3
    # Back on the grid, without a burst.
    assert schedule.wait() < 1e-3
    assert time.now == pytest.approx(start + 0.12, abs=1e-3)


def test_late_tick_of_less_than_a_period_is_kept(time):
    schedule = clock.Schedule(0.02)
    start = time.now
    time.now = start + 0.03
    assert schedule.wait() == pytest.approx(0.01, abs=1e-4)
    assert schedule.missed == 0
    assert schedule.due == pytest.approx(start + 0.04)


def test_spinning_meets_the_deadline_that_sleeping_overshoots(time):
    # The sleep of this clock is 100 us too long.
    assert clock.Schedule(0.02).wait() > 5e-5
    assert clock.Schedule(0.02, spin=1e-3).wait() < 1e-5
