"""What one run of the control loop leaves behind, a row a tick.

The loop only writes into arrays that exist already; files are written afterwards by the caller.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from s2r_jax.deploy.contract import Contract
from s2r_jax.deploy.machine import Mode
from s2r_jax.types import Command, Log


class Telemetry(NamedTuple):
    """One run; commands and sensors in the model's coordinates."""

    t_state: Float[np.ndarray, " time"]
    """The robot's clock at the report [s]."""
    t_recv: Float[np.ndarray, " time"]
    """Our monotonic clock when the report was read [s]."""
    t_cmd: Float[np.ndarray, " time"]
    """Our monotonic clock when the command had been sent [s]."""
    sequence: Int[np.ndarray, " time"]
    """Of the report."""
    sensors: Float[np.ndarray, "time sensor"]
    voltage: Float[np.ndarray, " time"]
    """[V]; NaN where not measured."""
    temperature: Float[np.ndarray, "time nu"]
    """[°C]; NaN where not measured."""
    action: Float[np.ndarray, "time nu"]
    """Of the policy; NaN where a recording has none."""
    target: Float[np.ndarray, "time nu"]
    """Sent, after all limits."""
    torque: Float[np.ndarray, "time nu"]
    """Sent, after all limits [N m]."""
    kp: Float[np.ndarray, "time nu"]
    kd: Float[np.ndarray, "time nu"]
    enabled: Float[np.ndarray, "time nu"]
    is_clipped: Bool[np.ndarray, "time nu"]
    """Joints whose command a limit reduced."""
    is_held: Bool[np.ndarray, " time"]
    """Ticks at which the policy was late and the last command stood."""
    lateness: Float[np.ndarray, " time"]
    """How late the tick began [s]."""
    mode: Mode
    """In which the run ended."""
    reasons: tuple[str, ...]
    """Why it ended before its time; empty if it did not."""
    missed: int
    """Control periods that were left out."""

    def log(self, contract: Contract, name: str) -> Log:
        """Return the run as a log; row k holds the report and the command that answered it.

        Ticks that had no new report are left out, as the time of a log must rise.
        """
        is_new = np.diff(self.t_state, prepend=-np.inf) > 0
        channels = {}
        for signal, entry in contract.slices.items():
            values = self.sensors[is_new, entry]
            channels[signal] = values[:, 0] if values.shape[1] == 1 else values
        for i, joint in enumerate(contract.joints):
            for field in ("target", "torque", "kp", "kd", "enabled"):
                channels[f"command/{joint.actuator}/{field}"] = getattr(self, field)[is_new, i]
        if np.isfinite(self.voltage[is_new]).any():
            channels.setdefault("battery/voltage", self.voltage[is_new])
        time = self.t_state[is_new]
        return Log(name, time - time[:1].sum(), channels)


class Recorder:
    """Arrays for a run, allocated before it starts."""

    def __init__(self, contract: Contract, ticks: int):
        nu, sensors = contract.action_size, contract.sensor_size
        widths: dict[str, int | None] = {
            "sensors": sensors,
            **dict.fromkeys(("temperature", "action", "target", "torque", "kp", "kd"), nu),
            "enabled": nu,
            "is_clipped": nu,
            **dict.fromkeys(("t_state", "t_recv", "t_cmd", "voltage", "lateness"), None),
            "sequence": None,
            "is_held": None,
        }
        self._arrays = {}
        for field, width in widths.items():
            shape = (ticks,) if width is None else (ticks, width)
            dtype = {"sequence": np.int64}.get(field, bool if field.startswith("is_") else float)
            self._arrays[field] = np.zeros(shape, dtype)
        self.ticks = 0

    def add(self, command: Command, **row: object) -> None:
        """Keep one tick."""
        for field in ("target", "torque", "kp", "kd", "enabled"):
            self._arrays[field][self.ticks] = getattr(command, field)
        for field, value in row.items():
            self._arrays[field][self.ticks] = value
        self.ticks += 1

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another tick."""
        return self.ticks == len(self._arrays["t_state"])

    def telemetry(self, mode: Mode, reasons: tuple[str, ...], missed: int) -> Telemetry:
        """Return what was recorded."""
        rows = {field: values[: self.ticks] for field, values in self._arrays.items()}
        return Telemetry(**rows, mode=mode, reasons=reasons, missed=missed)
