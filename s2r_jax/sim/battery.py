"""Supply: terminal voltage = open circuit at the present charge - resistance * current."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class Battery(NamedTuple):
    """A pack of lithium cells."""

    voltage: Float[Array, ""]
    """Open circuit, fully charged [V]."""
    resistance: Float[Array, ""]
    """[Ω]."""
    capacity: Float[Array, ""]
    """Charge of the full pack [C]."""
    charge: Float[Array, ""]
    """State of charge at the start, 0 to 1."""


def open_circuit(battery: Battery, taken: Float[Array, ""]) -> Float[Array, ""]:
    """Return the open-circuit voltage [V] after a charge [C] was taken from the battery.

    A cell's curve over the state of charge, scaled to the pack's full voltage; empty stays empty.

    Source: Chen and Rincon-Mora, IEEE Trans. Energy Conversion 21 (2006) 504, eq. 2.
    """
    state = jnp.maximum(battery.charge - taken / battery.capacity, 0.0)
    return battery.voltage * _cell(state) / _cell(jnp.ones_like(state))


def terminal(
    battery: Battery, taken: Float[Array, ""], current: Float[Array, ""]
) -> Float[Array, ""]:
    """Return the voltage [V] at the terminals under a current [A]."""
    return open_circuit(battery, taken) - battery.resistance * current


def _cell(state: Float[Array, ""]) -> Float[Array, ""]:
    """Return the open-circuit voltage of one polymer lithium-ion cell [V]."""
    rest = 3.685 + state * (0.2156 + state * (-0.1178 + state * 0.3201))
    return rest - 1.031 * jnp.exp(-35.0 * state)
