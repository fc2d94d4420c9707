"""One self-contained HTML page a person can read.

Headings, tables, pictures as data, no script, nothing fetched.
"""

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from s2r_jax.cli.screen import show

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:1.8em}
table{border-collapse:collapse;margin:.6em 0;display:block;overflow-x:auto}
td,th{padding:.25em .7em;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}
img{max-width:100%}.go{color:#0a6b2d}.nogo{color:#b00020}
"""


class Report:
    """Collects sections and writes the page."""

    def __init__(self, title: str):
        self.title = title
        self.parts: list[str] = []

    def heading(self, text: str) -> None:
        """Add a heading."""
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str, kind: str = "") -> None:
        """Add a paragraph; `kind` go or nogo colours it."""
        self.parts.append(f'<p class="{kind}">{html.escape(text)}</p>')

    def items(self, texts: Sequence[str]) -> None:
        """Add a list of sentences."""
        inside = "".join(f"<li>{html.escape(text)}</li>" for text in texts)
        self.parts.append(f"<ul>{inside}</ul>")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add a table."""
        head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(show(cell))}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        self.parts.append(f"<table><tr>{head}</tr>{body}</table>")

    def figure(self, figure: Any, description: str) -> None:
        """Add a matplotlib figure as an embedded PNG, and close it."""
        from matplotlib import pyplot

        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=110, bbox_inches="tight")
        pyplot.close(figure)
        encoded = base64.b64encode(data.getvalue()).decode()
        self.parts.append(
            f'<img alt="{html.escape(description)}" src="data:image/png;base64,{encoded}">'
        )

    def write(self, path: Path) -> None:
        """Write the page."""
        title = html.escape(self.title)
        path.write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
            f"<style>{STYLE}</style><h1>{title}</h1>{''.join(self.parts)}</html>\n",
            encoding="utf-8",
        )
