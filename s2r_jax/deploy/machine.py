"""The state machine of a control loop: a table of what may follow what.

    INIT -> DAMPING -> READY -> RUN -> DAMPING, and ESTOP from everywhere.

A pair of mode and event that is not in the table is an error, never ignored.
"""

import enum

from s2r_jax.errors import BadValue


class Mode(enum.IntEnum):
    """What the loop is doing."""

    INIT = 0
    """Nothing has been sent yet."""
    DAMPING = 1
    """Motors brake; no position is held."""
    READY = 2
    """Reports are fresh and within the limits; the motors still brake."""
    RUN = 3
    """The policy commands."""
    ESTOP = 4
    """Motors let go; only an operator leads out."""


class Event(enum.Enum):
    """What makes the mode change."""

    CONNECT = "connect"
    """The machine has reported."""
    CHECK = "check"
    """A report was fresh and within all limits."""
    START = "start"
    """The operator lets the policy act."""
    STOP = "stop"
    """The run is over, or the operator ends it."""
    FAULT = "fault"
    """A limit, a late policy, a silent machine."""
    ESTOP = "estop"
    """The emergency stop."""
    RELEASE = "release"
    """The operator ends the emergency stop."""


TRANSITIONS: dict[tuple[Mode, Event], Mode] = {
    (Mode.INIT, Event.CONNECT): Mode.DAMPING,
    (Mode.INIT, Event.FAULT): Mode.DAMPING,
    (Mode.DAMPING, Event.CHECK): Mode.READY,
    (Mode.DAMPING, Event.STOP): Mode.DAMPING,
    (Mode.DAMPING, Event.FAULT): Mode.DAMPING,
    (Mode.READY, Event.START): Mode.RUN,
    (Mode.READY, Event.STOP): Mode.DAMPING,
    (Mode.READY, Event.FAULT): Mode.DAMPING,
    (Mode.RUN, Event.STOP): Mode.DAMPING,
    (Mode.RUN, Event.FAULT): Mode.DAMPING,
    **{(mode, Event.ESTOP): Mode.ESTOP for mode in Mode},
    (Mode.ESTOP, Event.FAULT): Mode.ESTOP,
    (Mode.ESTOP, Event.STOP): Mode.ESTOP,
    (Mode.ESTOP, Event.RELEASE): Mode.DAMPING,
}


def follow(mode: Mode, event: Event) -> Mode:
    """Return the mode after an event.

    Raises:
        BadValue: The event has no meaning in this mode; the ones that have are listed.
    """
    if (mode, event) not in TRANSITIONS:
        possible = ", ".join(e.value for m, e in TRANSITIONS if m == mode)
        raise BadValue(f"mode {mode.name}", "event", event.value, f"one of {possible}")
    return TRANSITIONS[mode, event]
