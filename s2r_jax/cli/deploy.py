"""`s2r deploy BUNDLE`: run a policy on a robot, and keep what it did."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from s2r_jax.cli import screen
from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder
from s2r_jax.deploy.config import DeployConfig
from s2r_jax.errors import BadValue


@dataclass(frozen=True)
class Command:
    """Run a bundle on a robot."""

    bundle: tyro.conf.Positional[Path]
    """Bundle of `s2r export`."""
    driver: Literal["udp"] = "udp"
    """How to reach the robot; `udp`: an emulator of `s2r emulate`."""
    address: str = "127.0.0.1:9870"
    """Host and port of the robot."""
    out: Path = Path("runs/deploy")
    """Folder to write."""
    config: Annotated[DeployConfig, tyro.conf.arg(name="")] = field(default_factory=DeployConfig)
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Run the command."""
        from s2r_jax.deploy import bundle as bundles
        from s2r_jax.deploy.loop import run as run_loop
        from s2r_jax.hardware.udp import UdpDriver

        bundle = bundles.read(self.bundle)
        contract = bundle.contract
        driver = UdpDriver(
            parse_address(self.address),
            contract.joint_names,
            contract.signal_sizes,
            is_lockstep=self.config.is_lockstep,
        )
        with RunFolder(self.out, self) as run:
            driver.open()
            try:
                telemetry = run_loop(contract, bundle.policy, driver, self.config)
            finally:
                driver.close()
            result = keep(run, contract, telemetry)
        screen.table("deployment", ("", "value"), list(result.items()))
        if self.json:
            screen.emit(result)


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`."""
    host, _, port = address.rpartition(":")
    is_number = port.isascii() and port.isdigit()  # "²" is a digit too
    if not host or not is_number or not 0 < int(port) < 65536:
        raise BadValue("--address", "address", address, "HOST:PORT")
    return host, int(port)


def keep(run: RunFolder, contract: Any, telemetry: Any) -> dict[str, Any]:
    """Write the log of a run and return its summary."""
    import numpy as np

    from s2r_jax.logs.write import write_npz

    log = telemetry.log(contract, "telemetry")
    write_npz(run.path / "telemetry.npz", log)
    late = telemetry.lateness * 1e3
    result = {
        "ticks": len(telemetry.lateness),
        "ended in": telemetry.mode.name,
        "reasons": "; ".join(telemetry.reasons) or "its time was over",
        "median lateness [ms]": float(np.median(late)) if late.size else None,
        "99 % lateness [ms]": float(np.quantile(late, 0.99)) if late.size else None,
        "left out": telemetry.missed,
    }
    run.write_json("deploy.json", result)
    report = Report(f"Deployment of {contract.robot}")
    report.table(("", "value"), list(result.items()))
    report.write(run.path / "report.html")
    return result
