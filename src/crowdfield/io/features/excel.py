"""Excel workbooks (.xlsx): one sheet, read row by row by openpyxl, with formulas as the values they were saved with.

A workbook is XML in a zip file. The zip file has been checked before (`io.archives`), defusedxml refuses entities, and
cells are counted while they are read, since a single cell far down or far to the right implies all cells before it.
"""

from __future__ import annotations

import mimetypes
import os
import re
import warnings
import zipfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from crowdfield.errors import MissingDependencyError, ReportFormatError
from crowdfield.io import limits
from crowdfield.io.archives import Archive
from crowdfield.io.features.common import Features, broken, too_many_columns
from crowdfield.io.features.sheets import LATEST_HEADER, Row, as_table, is_filled
from crowdfield.io.kinds import Found, pick
from crowdfield.io.limits import Allowance
from crowdfield.io.opening import too_much

_CELL = 24  # bytes that a cell counts for at least


def read(path: Path, found: Found) -> Features:
    """The rows of a workbook's sheet."""
    # openpyxl would take lxml where it is installed, to which defusedxml does not apply.
    os.environ["OPENPYXL_LXML"] = "False"
    # It also looks up the names of file types, for which Python would read files of the system.
    if not mimetypes.inited:
        mimetypes.knownfiles = []
    try:
        import defusedxml
        import openpyxl
    except ImportError:
        raise MissingDependencyError(
            "openpyxl and defusedxml are needed to read Excel. Install them with: pip install 'crowdfield[excel]'"
        ) from None
    with Archive(path):  # refuses bombs, passwords and overlapping entries
        pass
    problems = (
        defusedxml.DefusedXmlException,
        zipfile.BadZipFile,
        SyntaxError,  # what XML parsers raise
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        OverflowError,
        EOFError,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and validations, which are not read
            # As an open file: what it is called says nothing.
            with (
                path.open("rb") as file,
                closing(openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)) as book,
            ):
                return _sheet(book, path, found)
    except ReportFormatError:
        raise
    except problems:
        raise broken(path, found, "its XML is damaged, or holds entities") from None


def _sheet(book: Any, path: Path, found: Found) -> Features:
    allowance = Allowance(path.stat().st_size)
    sheets = {str(sheet.title): sheet for sheet in book.worksheets}
    if not sheets:
        raise ReportFormatError("is an Excel workbook without a sheet of cells.", file=str(path))
    if found.layer is not None:
        name = pick(list(sheets), found.layer, path, what="sheets")
    else:
        width = {name: _width(sheet, allowance, path) for name, sheet in sheets.items()}
        filled = [name for name in sheets if width[name]]
        if not filled:
            raise ReportFormatError("the workbook is empty. Export it again.", file=str(path))
        # A sheet with a single column contains remarks, not a table, if there are other sheets.
        filled = [name for name in filled if width[name] > 1] or filled
        name = filled[0] if len(filled) == 1 else pick(filled, None, path, what="sheets")
    rows = list(_rows(sheets[name], allowance, path))
    notes: tuple[str, ...] = (f"the sheet '{name[:60]}' is read",) if len(sheets) > 1 else ()
    if _fill_merged(rows, _merged(book, sheets[name]), allowance, path):
        notes += ("cells that are merged over several rows count for each of these rows",)
    return as_table(rows, path, notes)


_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s+ref="([A-Z]{1,3})(\d{1,7}):[A-Z]{1,3}(\d{1,7})"')
_BLOCK = 2**20


def _merged(book: Any, sheet: Any) -> Iterator[tuple[int, int, int]]:
    """(column, first row, last row) of cells that are merged over several rows. openpyxl does not read them here, so
    they are looked for in the sheet's XML, where they come after all rows."""
    with book._archive.open(sheet._worksheet_path) as stream:
        before = b""
        while block := stream.read(_BLOCK):
            text = before + block
            end = 0
            for found in _MERGED.finditer(text):
                end = found.end()
                column = 0
                for letter in found[1]:
                    column = 26 * column + letter - 64
                if int(found[3]) > int(found[2]):
                    yield column - 1, int(found[2]), int(found[3])
            before = text[max(end, len(text) - 100) :]


def _fill_merged(rows: list[Row], merged: Iterator[tuple[int, int, int]], allowance: Allowance, path: Path) -> bool:
    """Give each row of merged cells the value, which is stored only in the first; whether there are any."""
    numbers = [number for number, _ in rows]
    filled = False
    for column, first, last in merged:
        start, stop = bisect_left(numbers, first), bisect_right(numbers, last)
        if start == stop or numbers[start] != first or column >= len(rows[start][1]):
            continue
        value = rows[start][1][column]
        for at in range(start + 1, stop):
            number, cells = rows[at]
            if not allowance.take(_CELL * (len(cells) + 1)):
                raise too_much(path)
            wide = (*cells, *[None] * (column + 1 - len(cells)))
            rows[at] = number, (*wide[:column], value, *wide[column + 1 :])
            filled = True
    return filled


def _rows(sheet: Any, allowance: Allowance, path: Path) -> Iterator[Row]:
    """The rows that hold something. What the sheet claims of its own size is not believed."""
    sheet.reset_dimensions()
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        size = limits.ROW_OVERHEAD + sum(_CELL + (len(cell) if isinstance(cell, str) else 0) for cell in row)
        if not allowance.take(size):
            raise too_much(path)
        width = max((at for at, cell in enumerate(row, start=1) if is_filled(cell)), default=0)
        if width > limits.MOST_COLUMNS:
            raise too_many_columns(path)
        if width:
            yield number, row[:width]


def _width(sheet: Any, allowance: Allowance, path: Path) -> int:
    """The most cells that one of the first rows of a sheet fills."""
    start = islice(_rows(sheet, allowance, path), LATEST_HEADER)
    return max((sum(map(is_filled, row)) for _, row in start), default=0)
