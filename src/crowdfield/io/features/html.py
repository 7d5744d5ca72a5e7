"""HTML: a table in a web page, which many sites save with the ending .xls.

Nothing is fetched, run or laid out: tags of tables are looked for and the words between them kept. Our own scanner goes
through the text once, so that no arrangement of brackets makes it slow.
"""

from __future__ import annotations

import codecs
import re
from html import unescape
from pathlib import Path

from crowdfield.errors import ReportFormatError
from crowdfield.io import encodings, limits
from crowdfield.io.features.common import Features, broken, too_many_columns
from crowdfield.io.features.sheets import Row, as_table, is_filled
from crowdfield.io.kinds import Found, pick
from crowdfield.io.opening import document, too_much

_CELL = 24  # bytes that a cell counts for at least
_META = 4096  # bytes at the start in which a page names its encoding
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_TAG = re.compile(r"(/?)([A-Za-z][A-Za-z0-9:]*)")
_SPAN = re.compile(r"\b(col|row)span\s*=\s*[\"']?\s*(\d{1,9})", re.IGNORECASE)
# Excel writes the number itself beside the rounded form that it shows.
_NUMBER = re.compile(r"\bx:num\s*=\s*[\"']([-+0-9.eE]{1,40})[\"']")
_TOO_LONG = re.compile(r"&#[0-9]{8}")  # the last character has seven digits
_WITHOUT_WORDS = ("script", "style", "title")  # elements whose content is never shown in a cell


def read(path: Path, found: Found) -> Features:
    """The rows of the page's table of reports."""
    scanner = _Tables(path)
    scanner.scan(_decoded(document(path, found), path, found))
    tables = {f"table {n}": table for n, table in enumerate(scanner.tables, start=1)}
    usable = {name: table for name, table in tables.items() if len(table.rows) > 1 and table.width > 1}
    if not usable:
        raise ReportFormatError(
            "is a web page (HTML) without a table of reports. Was a login page saved instead of the "
            "file? Export it again as CSV or .xlsx.",
            file=str(path),
        )
    name = next(iter(usable))
    if found.layer is not None or len(usable) > 1:
        name = pick(list(usable), found.layer, path, what="tables")
    if usable[name].spans_rows:
        raise ReportFormatError(
            "has cells that reach over several rows, so that it is not clear what is in which column. Open it in a "
            "spreadsheet program, undo the merging, and save it as .xlsx or CSV.",
            file=str(path),
        )
    return as_table(usable[name].rows, path, (f"'{name}' of the page is read",) if len(usable) > 1 else ())


def _decoded(content: bytes, path: Path, found: Found) -> str:
    """As the byte order mark, the page itself or UTF-8 say; else as text of older programs is guessed."""
    for mark, name in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if content.startswith(mark):
            return _as_text(content, name, path, found)
    stated = _CHARSET.search(content[:_META])
    if stated is not None:
        name = stated[1].decode("ascii").lower()
        # A page that can be looked at byte by byte is not UTF-16, whatever it says.
        if not name.startswith(("utf-16", "utf16", "ucs", "unicode")):
            return _as_text(content, name, path, found)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return _as_text(content, encodings.guess(content[: 2**20]) or encodings.COMMON, path, found)


def _as_text(content: bytes, encoding: str, path: Path, found: Found) -> str:
    try:
        return content.decode(encoding)
    except (LookupError, ValueError):
        raise broken(path, found, f"it is not in the encoding that it names, '{encoding[:40]}'") from None


def _unescaped(words: str) -> str:
    """With "&amp;" as "&". Words with a numbered character that no number can hold stay as they are."""
    return words if _TOO_LONG.search(words) else unescape(words)


class _Table:
    """The rows of one table that hold something."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.width = 0
        self.spans_rows = False
        self.number = 0  # of the row that is being read
        self.row: list[str | None] | None = None
        self.words: list[str] | None = None  # of the cell that is being read
        self.value: str | None = None  # what stands for its words
        self.columns = 1  # over which it reaches

    def close_cell(self) -> None:
        if self.words is None or self.row is None:
            return
        shown = " ".join(_unescaped("".join(self.words)).split())
        self.row += [self.value or shown or None] + [None] * (self.columns - 1)
        self.words = None

    def close_row(self) -> None:
        self.close_cell()
        if self.row is not None and any(map(is_filled, self.row)):
            self.rows.append((self.number, tuple(self.row)))
            self.width = max(self.width, sum(map(is_filled, self.row)))
        self.row = None


class _Tables:
    """Gathers the tables of a page; one inside a cell of another is a table of its own."""

    def __init__(self, path: Path) -> None:
        self.tables: list[_Table] = []
        self._path = path
        self._open: list[_Table] = []
        self._allowance = limits.Allowance(path.stat().st_size)

    def scan(self, text: str) -> None:
        at = 0
        while (opened := text.find("<", at)) >= 0:
            self._words(text[at:opened])
            if text.startswith("<!--", opened):
                closed, after = text.find("-->", opened + 4), 3
            elif text[opened + 1 : opened + 2].isalpha() or text[opened + 1 : opened + 2] in ("/", "!", "?"):
                closed, after = text.find(">", opened), 1
            else:
                self._words("<")
                at = opened + 1
                continue
            if closed < 0:
                break
            at = closed + after
            tag = _TAG.match(text, opened + 1, closed)
            if after == 1 and tag is not None:
                name = tag[2].lower()
                if name in _WITHOUT_WORDS and not tag[1]:
                    end = re.compile(f"</{name}", re.IGNORECASE).search(text, at)
                    if end is None:
                        break
                    at = end.start()
                else:
                    self._tag(name, bool(tag[1]), text[tag.end() : closed])
        while self._open:
            self._open.pop().close_row()

    def _words(self, words: str) -> None:
        if self._open and self._open[-1].words is not None and words:
            self._open[-1].words.append(words)

    def _tag(self, name: str, closing: bool, rest: str) -> None:
        table = self._open[-1] if self._open else None
        if name == "table" and not closing:
            if len(self._open) >= limits.DEEPEST:
                raise ReportFormatError(f"has tables in tables, more than {limits.DEEPEST} deep.", file=str(self._path))
            self._open.append(_Table())
            self.tables.append(self._open[-1])
        elif table is None:
            return
        elif name == "table":
            self._open.pop().close_row()
        elif name == "tr":
            table.close_row()
            if not closing:
                table.row = []
                table.number += 1
        elif name in ("td", "th"):
            table.close_cell()
            if not closing:
                self._start_cell(table, rest)
        elif name in ("br", "p", "div"):
            self._words(" ")

    def _start_cell(self, table: _Table, attributes: str) -> None:
        if table.row is None:
            table.row = []
            table.number += 1
        spans = {match[1].lower(): int(match[2]) for match in _SPAN.finditer(attributes)}
        number = _NUMBER.search(attributes)
        table.columns, table.value = max(1, spans.get("col", 1)), None if number is None else number[1]
        table.spans_rows |= spans.get("row", 1) > 1
        table.words = []
        if len(table.row) + table.columns > limits.MOST_COLUMNS:
            raise too_many_columns(self._path)
        if not self._allowance.take(_CELL * table.columns):
            raise too_much(self._path)
