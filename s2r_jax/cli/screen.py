"""What a person sees of a command.

Tables and progress on standard error, one JSON object on standard output.
"""

import json
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from s2r_jax.cli.run_folder import plain

#: Columns of a table that goes to a file, where no terminal says how wide it is.
FILE_WIDTH = 110

console = Console(stderr=True, width=None if sys.stderr.isatty() else FILE_WIDTH)


@runtime_checkable
class Advance(Protocol):
    """Moves a progress bar to `done` of its total, with a short text beside it."""

    def __call__(self, done: float, text: str = "") -> None:
        """Move the bar."""
        ...


@contextmanager
def progress(title: str, total: float) -> Generator[Advance]:
    """Show a bar with time left on standard error while the block runs.

    Ctrl-C waits for the next `advance`: inside a call of the physics it would come out as a failure
    of that call. A second Ctrl-C does not wait.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with (
        _postponed_interrupt() as asked,
        Progress(*columns, console=console, transient=not console.is_terminal) as bar,
    ):
        task = bar.add_task(title, total=total, text="")

        def advance(done: float, text: str = "") -> None:
            bar.update(task, completed=done, text=text)
            if asked:
                raise KeyboardInterrupt

        yield advance
        bar.update(task, completed=total)


@contextmanager
def _postponed_interrupt() -> Generator[list[int]]:
    """Give a list that the first Ctrl-C fills; the second one acts as ever."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    usual = signal.getsignal(signal.SIGINT)

    def note(number: int, _: object) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, usual)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table on standard error; the first column is text, the others are aligned right."""
    # Text, not markup: a unit in brackets would be taken for a style and vanish.
    drawn = Table(title=Text(title), title_justify="left")
    for index, column in enumerate(columns):
        drawn.add_column(Text(column), justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*[Text(show(cell)) for cell in row])
    console.print(drawn)


def show(value: Any) -> str:
    """Return a cell's text: four significant digits for numbers, ✓ and – for statements."""
    if isinstance(value, bool):
        return "✓" if value else "–"
    if isinstance(value, float):
        return "–" if value != value else f"{value:.4g}"
    return "–" if value is None else str(value)


def say(text: str) -> None:
    """Print a line on standard error."""
    console.print(text, highlight=False, markup=False)


def emit(result: Any) -> None:
    """Print the result as the one JSON object on standard output."""
    json.dump(plain(result), sys.stdout)
    sys.stdout.write("\n")
