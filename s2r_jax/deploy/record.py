"""Play an excitation to a machine and keep what it did: the log that identification wants."""

import numpy as np
from jaxtyping import Float

from s2r_jax.deploy.config import DeployConfig
from s2r_jax.deploy.contract import Contract
from s2r_jax.deploy.loop import Decision, Robot, drive
from s2r_jax.deploy.telemetry import Telemetry
from s2r_jax.errors import BadValue


def record(
    contract: Contract,
    robot: Robot,
    targets: Float[np.ndarray, "time nu"],
    config: DeployConfig,
) -> Telemetry:
    """Send one row of targets a control period, under the same safety as a policy.

    Args:
        contract: Of the machine.
        robot: An open driver.
        targets: In the model's coordinates, in the unit of the motors' targets.
        config: By which clock; its `seconds` is not used.

    Returns:
        The run; `telemetry.log(contract, name)` is the log of it.

    Raises:
        BadValue: Targets of the wrong shape or not finite.
    """
    if targets.ndim != 2 or targets.shape[1] != contract.action_size or not len(targets):
        expected = f"at least one row of {contract.action_size}"
        raise BadValue("excitation", "targets", f"of shape {targets.shape}", expected)
    if not np.isfinite(targets).all():
        row = int(np.flatnonzero(~np.isfinite(targets).all(axis=1))[0])
        raise BadValue("excitation", f"row {row}", targets[row].tolist(), "finite numbers")
    none = np.full(contract.action_size, np.nan)
    rows = iter(np.asarray(targets, dtype=float))

    def decide(sensors: np.ndarray, due: float) -> Decision:
        return Decision(contract.command(next(rows)), none, False)

    return drive(contract, decide, robot, config, len(targets))
