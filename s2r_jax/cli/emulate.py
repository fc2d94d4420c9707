"""`s2r emulate ROBOT`: a robot process with hidden parameters, speaking UDP."""

from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class Command:
    """Run an emulated robot until Ctrl-C; prints `ready HOST:PORT` once it listens."""

    robot: tyro.conf.Positional[Path]
    """Robot folder."""
    port: int = 0
    """UDP port; 0 takes any free one."""
    host: str = "127.0.0.1"
    """A loopback address."""
    seed: int = 0
    """Of the hidden parameters."""
    lockstep: bool = False
    """One control period for each command, instead of real time."""
    reveal: Path | None = None
    """File to write the hidden parameters to, for grading."""

    def run(self) -> None:
        """Run the command."""
        from s2r_jax.hardware import server

        server.run(
            self.robot,
            port=self.port,
            host=self.host,
            seed=self.seed,
            is_lockstep=self.lockstep,
            reveal=self.reveal,
        )
