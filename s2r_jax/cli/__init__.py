"""The `s2r` command. Help and argument errors import no JAX; each command is one small file."""

import importlib
import sys
from collections.abc import Sequence

#: command -> (module, what it does), in the order of the loop.
COMMANDS = {
    "quickstart": ("quickstart", "the whole loop, against an emulator with hidden parameters"),
    "check": ("check", "what the engines would ignore, which parameters have no effect"),
    "identify": ("identify", "fit the robot's parameters to logs, with uncertainty"),
    "replay": ("replay", "simulate logs and count the errors"),
    "plan": ("plan", "an excitation to record next, and what it will make identifiable"),
    "randomize": ("randomize", "a distribution over the parameters"),
    "train": ("train", "train a policy on randomised worlds"),
    "validate": ("validate", "a policy on randomised worlds: returns, tail risk, verdict"),
    "export": ("export", "pack a trained policy as a bundle for the robot"),
    "emulate": ("emulate", "a robot with hidden parameters: speaks UDP, or plays a file"),
    "deploy": ("deploy", "run a bundle on a robot"),
    "adapt": ("adapt", "align an image encoder from simulation to reality"),
}  # fmt: skip

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit.

    Status 0, 2 on bad input (one message, no traceback), 130 on Ctrl-C.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return
    if arguments[0] == "--version":
        from s2r_jax import __version__

        print(f"s2r {__version__}")
        return
    name, rest = arguments[0], arguments[1:]
    from s2r_jax.errors import S2RError, UnknownName

    try:
        if name not in COMMANDS:
            raise UnknownName("s2r", name, COMMANDS, "command")
        import tyro

        command = importlib.import_module(f"s2r_jax.cli.{COMMANDS[name][0]}").Command
        tyro.cli(command, prog=f"s2r {name}", args=rest).run()
    except S2RError as error:
        print(f"s2r {name}: {error}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except OSError as error:
        # A file that cannot be read or written; without a file's name it is a defect to report.
        if error.filename is None:
            raise
        print(f"s2r {name}: {error.filename}: {error.strerror}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        print(f"\ns2r {name}: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


def _overview() -> str:
    lines = ["usage: s2r COMMAND ...   (s2r COMMAND --help for its options)", "", "commands:"]
    lines += [f"  {name:<12}{text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(lines)
