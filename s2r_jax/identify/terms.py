"""What a robot's declared parameters let a comparison switch off: friction terms and the delay.

The ladder is that of BAM (Duclusaud et al., arXiv:2410.08650): M1 Coulomb and viscous, M2 with
Stribeck, M3 with load, M4 with both; none, Coulomb alone and viscous alone come before it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from s2r_jax.motors import FRICTION_FLOOR, KIND_FIELDS
from s2r_jax.parameters import ParameterSet
from s2r_jax.robot import Robot

#: Term -> fields whose value is its size. Zero, or `FRICTION_FLOOR`, is its absence.
TERMS: dict[str, tuple[str, ...]] = {
    "Coulomb": ("motor.friction", "dof_frictionloss"),
    "viscous": ("motor.viscous", "dof_damping"),
    "Stribeck": ("motor.stribeck", "motor.stribeck_load"),
    "load": ("motor.load_friction",),
    "delay": ("latency.action",),
}
#: Fields that say nothing without their term.
FOLLOWERS = {"motor.stribeck_speed": "Stribeck"}
LADDER: tuple[tuple[str, ...], ...] = (
    (),
    ("Coulomb",),
    ("viscous",),
    ("Coulomb", "viscous"),
    ("Coulomb", "viscous", "Stribeck"),
    ("Coulomb", "viscous", "load"),
    ("Coulomb", "viscous", "Stribeck", "load"),
)


class Candidate(NamedTuple):
    """One model: which terms it has, and what that means for θ."""

    name: str
    terms: tuple[str, ...]
    held: tuple[int, ...]
    """Parameters that are not fitted; those of absent terms stand at `ABSENT`."""
    off: tuple[int, ...]
    """Of these, the ones whose value is the size of an absent term."""


#: The value of a term that is absent: exactly 0 of friction would lock joints in MJX, and of a
#: delay this is nothing [N m, N m s/rad, 1, s].
ABSENT = FRICTION_FLOOR


def candidates(robot: Robot) -> tuple[Candidate, ...]:
    """Return the models, from the one without terms to the fullest."""
    owned = _owned(robot.parameters)
    present = set(owned.values())
    found: dict[tuple[str, ...], Candidate] = {}
    for terms in _combinations(present):
        off = tuple(i for i, term in owned.items() if term not in terms)
        follow = _followers(robot.parameters)
        idle = tuple(i for i, term in follow.items() if term in present and term not in terms)
        name = " + ".join(terms) or "no friction" if "delay" not in present else _name(terms)
        found.setdefault(terms, Candidate(name, terms, (*off, *idle), off))
    return tuple(found.values())


def missing(robot: Robot) -> tuple[str, ...]:
    """Return the terms that the motors offer and robot.yaml does not declare as parameters."""
    kind = KIND_FIELDS[robot.motors.kind]
    offered = [
        term
        for term, fields in TERMS.items()
        if any(f.split(".")[-1] in kind for f in fields) or term == "delay"
    ]
    present = set(_owned(robot.parameters).values())
    return tuple(term for term in offered if term not in present)


def _combinations(present: set[str]) -> Iterator[tuple[str, ...]]:
    for delay in ((), ("delay",)) if "delay" in present else ((),):
        for rung in LADDER:
            yield (*[term for term in rung if term in present], *delay)


def _name(terms: tuple[str, ...]) -> str:
    friction = " + ".join(term for term in terms if term != "delay") or "no friction"
    return f"{friction}, delay" if "delay" in terms else f"{friction}, no delay"


def _owned(parameters: ParameterSet) -> dict[int, str]:
    """Return the parameters that are the size of a term, and which."""
    fields = {field: term for term, fields in TERMS.items() for field in fields}
    found = {}
    for effect in parameters.effects:
        for param in effect.params:
            # Adding to a nominal value has no neutral value of its own.
            if effect.field in fields and effect.operation != "add":
                found[param] = fields[effect.field]
    return {i: found[i] for i in sorted(found) if parameters.transforms[i] != "logit"}


def _followers(parameters: ParameterSet) -> dict[int, str]:
    return {
        param: FOLLOWERS[effect.field]
        for effect in parameters.effects
        if effect.field in FOLLOWERS
        for param in effect.params
    }
