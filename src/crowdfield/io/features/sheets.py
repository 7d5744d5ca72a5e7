"""Rows of cells, from a sheet or a web page, as a table: finding its header and the rows below it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from crowdfield.errors import ReportFormatError
from crowdfield.io.columns import is_header, unique
from crowdfield.io.features.common import Features, cells, text

LATEST_HEADER = 20  # rows: titles and remarks may stand above the names of the columns, but not more than this
Row = tuple[int, tuple[Any, ...]]  # its number, its cells


def is_filled(cell: Any) -> bool:
    """Whether a cell holds something."""
    return cell is not None and cell != ""


def as_table(rows: list[Row], path: Path, notes: tuple[str, ...]) -> Features:
    """The rows below the header; there may be titles above it."""
    top = _header(rows)
    names = unique([text(cell) or "" for cell in rows[top][1]])
    body = rows[top + 1 :]
    if not body:
        raise ReportFormatError("has a header but no reports.", file=str(path), line=rows[top][0])
    columns = {
        column: cells([row[at] if at < len(row) else None for _, row in body]) for at, column in enumerate(names)
    }
    nothing = np.full(len(body), None, dtype=object)
    lines = np.array([number for number, _ in body], dtype=np.int64)
    return Features(columns, nothing, nothing.copy(), None, notes, is_table=True, lines=lines)


def _header(rows: list[Row]) -> int:
    """The row with the names of the columns: the first that names the coordinates, which may be below titles and merged
    cells; else the first in which most columns are filled."""
    start = rows[: LATEST_HEADER + 1]
    for at, (_, row) in enumerate(start):
        if is_header([cell for cell in row if isinstance(cell, str)]):
            return at
    filled = [sum(map(is_filled, row)) for _, row in start]
    return next(at for at, count in enumerate(filled) if 2 * count >= max(filled))
