"""Delimited text: detect the delimiter and the header, then read the needed columns in chunks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.errors import ReportFormatError
from crowdfield.io import limits
from crowdfield.io.column_names import spellings
from crowdfield.io.columns import is_header, unique
from crowdfield.io.kinds import Found
from crowdfield.io.lines import starting_lines
from crowdfield.io.opening import Progress, Watched, opened

DELIMITERS = (",", ";", "\t", "|")
_NAMED = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
CHUNK = 2**17  # rows at a time: some tens of megabytes
_SAMPLE = 2**18
LATEST_HEADER = 20  # lines: titles may stand above the names of the columns, but not more than this
EXTRA = "extra fields"


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table: the wanted columns under their own names, and the number of the first row."""

    frame: pd.DataFrame
    first: int


class Table:
    """A delimited file with a header. Rows are numbered from 0; the header and an HXL row under it are not rows."""

    def __init__(self, path: Path, found: Found | None = None, *, encoding: str | None = None) -> None:
        self.path, self._found, self._encoding = path, found, encoding
        text = self._start()
        lines = text.splitlines()
        if not any(line.strip() for line in lines):
            raise ReportFormatError("the file is empty. Export it again.", file=str(path))
        above = _lines_above_header(lines)
        self.delimiter = _stated_delimiter(lines) or _sniff(lines[above:])
        plain = self.delimiter == "\t" and _is_gbif(lines)
        self._quoting: Literal[0, 3] = csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL
        self.tags: dict[str, str] = {}  # column -> its HXL tag, where there is a row of them
        self.header, self.sample, self._preamble = self._top(text, above)

    @property
    def name(self) -> str:
        return str(self.path)

    def column(self, name: str) -> list[str]:
        """The first values of a column."""
        at = self.header.index(name)
        return [row[at] for row in self.sample if at < len(row)]

    def samples(self) -> dict[str, list[str]]:
        """The first values of every column."""
        return {name: self.column(name) for name in self.header}

    @property
    def title(self) -> str:
        """What kind of table this is."""
        return f"a plain table cut at {_NAMED[self.delimiter]}"

    def chunks(
        self,
        columns: Sequence[str],
        *,
        numeric: Sequence[str] = (),
        missing: frozenset[str] = frozenset(),
        progress: Progress | None = None,
    ) -> Iterator[Chunk]:
        """The wanted columns in chunks of rows. ``numeric`` columns are numbers in chunks where all their cells are.

        Cells of these columns with one of the ``missing`` words, given in lower case, become empty.
        """
        code = {name: f"c{i}" for i, name in enumerate(self.header)}
        wanted = list(dict.fromkeys(columns))
        # One more column than the header has: rows that fill it have too many fields.
        top = self.delimiter.join([*code.values(), EXTRA]).encode() + b"\n"
        names = {code[name]: name for name in wanted}
        titles = pd.Index([*(name for name in self.header if name in wanted), EXTRA])  # shared: it has a hash table
        text_type = _text_type()
        absent = ["", *spellings(missing)]
        stream = opened(self.path, self._found, encoding=self._encoding, progress=progress)
        watched: Watched = stream.raw  # type: ignore[assignment]
        try:
            for _ in range(self._preamble):
                stream.readline()
            reader = pd.read_csv(
                _Prefixed(top + stream.read(len(stream.peek())), watched),  # type: ignore[call-overload]
                sep=self.delimiter,
                quoting=self._quoting,
                header=0,
                index_col=False,
                usecols=[*names, EXTRA],
                # EXTRA is nearly always empty, and pandas reads an empty column of text fastest.
                dtype={EXTRA: text_type} | {c: text_type for c, name in names.items() if name not in numeric},
                decimal="," if self._has_decimal_commas(numeric) else ".",
                # In text only empty cells are missing: "None", "NA" and "null" may be a label, or the name of a source.
                keep_default_na=False,
                na_values={EXTRA: [""]} | {c: absent if name in numeric else [""] for c, name in names.items()},
                chunksize=CHUNK,
                low_memory=False,  # chunks are small: guessing types for parts of them would be slower, and warn
                encoding="utf-8",
                engine="c",
            )
            first = 0
            for frame in reader:
                frame.columns = titles
                yield Chunk(frame, first)
                first += len(frame)
        except (pd.errors.ParserError, UnicodeDecodeError, OverflowError) as error:
            raise watched.failure or self._unreadable(error) from None
        finally:
            stream.close()

    def rows(self, *, progress: Progress | None = None) -> Iterator[tuple[int, int, dict[str, str]]]:
        """(number, line, cells) of every row, for layouts that process cells one by one."""
        for number, line, cells in self._records(progress):
            yield number, line, dict(zip(self.header, cells, strict=False))

    def lines(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The line on which each of these rows (rising, none twice) starts.

        The file is read again; cell by cell if a quoted cell may contain line breaks.
        """
        found = np.zeros(len(rows), dtype=np.int64)
        if not len(rows):
            return found
        with opened(self.path, self._found, encoding=self._encoding) as stream:
            for _ in range(self._preamble):
                stream.readline()
            quote = None if self._quoting == csv.QUOTE_NONE else b'"'
            counted = starting_lines(iter(lambda: stream.read(_SAMPLE), b""), rows, self.delimiter, quote=quote)
        if counted is not None:
            return np.where(counted > 0, counted + self._preamble, 0)
        at, wanted = 0, int(rows[0])
        for number, line, _ in self._records():
            if number == wanted:
                found[at] = line
                at += 1
                if at == len(rows):
                    break
                wanted = int(rows[at])
        return found

    def _records(self, progress: Progress | None = None) -> Iterator[tuple[int, int, list[str]]]:
        with opened(self.path, self._found, encoding=self._encoding, progress=progress) as stream:
            _allow_long_fields()
            text = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogatepass", newline="")
            reader = csv.reader(_after(text, self._preamble), delimiter=self.delimiter, quoting=self._quoting)
            number, line = 0, 1
            try:
                for cells in reader:
                    if not _blank(cells):
                        yield number, self._preamble + line, cells
                        number += 1
                    line = reader.line_num + 1
            except csv.Error as error:
                raise self._unreadable(error, self._preamble + line) from None

    def _has_decimal_commas(self, numeric: Sequence[str]) -> bool:
        """Whether more of the first numbers have a decimal comma than a point. Columns of the others arrive as text."""
        cells = [cell for name in numeric for cell in self.column(name)]
        return sum("," in cell for cell in cells) > sum("." in cell for cell in cells)

    def _start(self) -> str:
        with opened(self.path, self._found, encoding=self._encoding) as stream:
            block = stream.read(_SAMPLE)
            if len(block) == _SAMPLE:
                block += stream.readline()
        return block.decode("utf-8", "surrogatepass")

    def _top(self, text: str, above: int) -> tuple[list[str], list[list[str]], int]:
        """The header, a sample of the rows after it, and the number of lines before the first row.

        above: the number of lines with titles above the header.
        """
        header: list[str] = []
        sample: list[list[str]] = []
        preamble = 0
        _allow_long_fields()
        start = _after(io.StringIO(text, newline=""), above)
        reader = csv.reader(start, delimiter=self.delimiter, quoting=self._quoting)
        try:
            for cells in reader:
                if _blank(cells):
                    continue
                if not header:
                    if len(cells) > limits.MOST_COLUMNS:
                        raise ReportFormatError(
                            f"has more than {limits.MOST_COLUMNS:,} columns. Keep those you need.",
                            file=self.name,
                            line=above + reader.line_num,
                        )
                    header, preamble = unique(cells), above + reader.line_num
                elif not sample and not self.tags and preamble_row(cells):
                    preamble = above + reader.line_num
                    self.tags = {name: tag for name, tag in zip(header, cells, strict=False) if tag.strip()}
                else:
                    sample.append(cells)
                    if len(sample) == 1000:
                        break
        except csv.Error as error:
            raise self._unreadable(error, preamble + 1) from None
        return header, sample, preamble

    def _unreadable(self, error: Exception, line: int | None = None) -> ReportFormatError:
        what = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        if "EOF inside string" in what or "field larger" in what:
            what = "a quoted cell is opened and never closed"
        if line is None:
            # The row that was not closed is the last one.
            line = max((at for _, at, _ in self._records()), default=1)
        return ReportFormatError(
            f"{what}. Is the file complete, and are its quotation marks those of CSV?", file=self.name, line=line
        )


def preamble_row(cells: Sequence[str]) -> bool:
    """Whether the row below the header is not a report: HXL tags, or the empty row that Ushahidi writes instead."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    if not filled:
        return len(cells) > 1
    return all(cell.startswith("#") and len(cell) > 1 and cell[1].isalpha() for cell in filled)


def _stated_delimiter(lines: Sequence[str]) -> str | None:
    """The delimiter that a first line like "sep=;" states, as Excel writes and reads it."""
    first = lines[0].strip().strip('"').lower()
    return first[4:] if first.startswith("sep=") and first[4:] in DELIMITERS else None


def _lines_above_header(lines: Sequence[str]) -> int:
    """The number of lines with titles or merged headings above the line that names the coordinates; else 0."""
    stated = _stated_delimiter(lines) is not None
    for at, line in enumerate(lines[:LATEST_HEADER]):
        if any(is_header(line.replace('"', "").split(delimiter)) for delimiter in DELIMITERS):
            return at
    return int(stated)


def _sniff(lines: Sequence[str]) -> str:
    """The delimiter that splits the header into the most columns, and the lines after it into the same number."""
    start = [line for line in lines if line.strip()][:20]

    def score(delimiter: str) -> tuple[int, int]:
        _allow_long_fields()
        try:
            rows = [cells for cells in csv.reader(start, delimiter=delimiter) if cells]
        except csv.Error:
            return 0, 0
        width = len(rows[0]) if rows else 0
        return sum(len(row) == width for row in rows) if width > 1 else 0, width

    scores = {delimiter: score(delimiter) for delimiter in DELIMITERS}
    # A header cut into columns counts for more than rows that agree: one ragged row must not hide the delimiter.
    best = max(DELIMITERS, key=lambda d: (scores[d][1] > 1, scores[d][0] >= max(1, len(start) // 2), scores[d][1]))
    return best if scores[best][1] > 1 else ","


def _is_gbif(lines: Sequence[str]) -> bool:
    """Whether a table is from GBIF, which never quotes cells: its quotation marks are part of the text."""
    header = next(line for line in lines if line.strip())
    return "gbifid" in header.lower().split("\t")


def _blank(cells: Sequence[str]) -> bool:
    return not cells or (len(cells) == 1 and not cells[0].strip())


def _after(lines: IO[str], skip: int) -> IO[str]:
    for _ in range(skip):
        lines.readline()
    return lines


def _allow_long_fields() -> None:
    # The limit of the csv module is global, and too low for the JSON in a Zooniverse export. It is not lowered again,
    # because another thread may be reading.
    if csv.field_size_limit() < limits.LONGEST_LINE:
        csv.field_size_limit(limits.LONGEST_LINE)


def _text_type() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        return object
    return pd.ArrowDtype(pa.string())


class _Prefixed:
    """Some bytes, then those of a stream, in blocks as the stream has them: copies would cost as much as reading."""

    def __init__(self, prefix: bytes, stream: Watched) -> None:
        self._prefix, self._stream = prefix, stream

    def read(self, count: int = -1) -> bytes:
        """The next block, of any size; empty at the end."""
        if self._prefix:
            start, self._prefix = self._prefix, b""
            return start
        return self._stream.block()

    def __iter__(self) -> Iterator[bytes]:
        """The blocks; pandas takes only what can be iterated over for a file."""
        return iter(self._stream.block, b"")
