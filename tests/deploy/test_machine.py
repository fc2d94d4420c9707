import itertools

import pytest

from s2r_jax.deploy.machine import TRANSITIONS, Event, Mode, follow
from s2r_jax.errors import BadValue


def test_the_way_through_a_run():
    mode, seen = Mode.INIT, []
    for event in (Event.CONNECT, Event.CHECK, Event.START, Event.STOP):
        mode = follow(mode, event)
        seen.append(mode)
    assert seen == [Mode.DAMPING, Mode.READY, Mode.RUN, Mode.DAMPING]


def test_only_ready_leads_to_run():
    assert [pair for pair, mode in TRANSITIONS.items() if mode == Mode.RUN] == [
        (Mode.READY, Event.START)
    ]


@pytest.mark.parametrize("mode", Mode)
def test_emergency_stop_works_in_every_mode_and_only_release_ends_it(mode):
    assert follow(mode, Event.ESTOP) == Mode.ESTOP
    out = {event for (m, event), to in TRANSITIONS.items() if m == Mode.ESTOP != to}
    assert out == {Event.RELEASE}
    assert follow(Mode.ESTOP, Event.RELEASE) == Mode.DAMPING


@pytest.mark.parametrize("mode", Mode)
def test_fault_never_leaves_a_mode_that_commands(mode):
    assert follow(mode, Event.FAULT) in (Mode.DAMPING, Mode.ESTOP)


@pytest.mark.parametrize(
    ("mode", "event"), sorted(set(itertools.product(Mode, Event)) - set(TRANSITIONS), key=str)
)
def test_what_is_not_in_the_table_is_an_error(mode, event):
    with pytest.raises(BadValue, match=f"mode {mode.name}: event is '{event.value}', expected one"):
        follow(mode, event)
