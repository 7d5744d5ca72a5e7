"""Tables of a report as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

TEXT, NUMBER, BAR = "", "number", "bar"  # kinds of columns: their classes in page.css


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """A table. columns: the head and the kind of each; rows: cells that are HTML already."""
    head = "".join(f'<th scope="col" class="{kind}">{escape(name)}</th>' for name, kind in columns)
    body = "".join(f"<tr>{_cells(columns, row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(columns: Sequence[tuple[str, str]], row: Sequence[str]) -> str:
    return "".join(f'<td class="{kind}">{cell}</td>' for (_, kind), cell in zip(columns, row, strict=True))


def note(text: str) -> str:
    """A small line below a table."""
    return f'<p class="faint">{escape(text)}</p>'
