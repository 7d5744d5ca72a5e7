"""Tables of a report as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

TEXT, NUMBER, BAR = "", "number", "bar"  # kinds of columns: their classes in page.css
SHORT = 15  # rows: a printed table with no more stays on one page


def table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> str:
    """A table. columns: the head and the kind of each; rows: cells that are HTML already."""
    head = "".join(f'<th scope="col" class="{kind}">{escape(name)}</th>' for name, kind in columns)
    body = "".join(f"<tr>{_cells(columns, row)}</tr>" for row in rows)
    kind = ' class="short"' if len(rows) <= SHORT else ""
    return f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(columns: Sequence[tuple[str, str]], row: Sequence[str]) -> str:
    return "".join(f'<td class="{kind}">{cell}</td>' for (_, kind), cell in zip(columns, row, strict=True))


def note(text: str) -> str:
    """A small line below a table."""
    return f'<p class="faint">{escape(text)}</p>'
