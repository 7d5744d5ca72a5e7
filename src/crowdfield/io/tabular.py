"""The interface of every table, whatever its file; and tables that are read as a whole: sheets, records, Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.io.columns import unique
from crowdfield.io.delimited import Chunk, preamble_row
from crowdfield.io.features import Features
from crowdfield.io.opening import Progress

SAMPLE = 1000  # about so many rows are looked at to judge a column


def sampled(column: pd.Series[Any]) -> list[str]:
    """Cells from all over a column, as text: a table may be sorted, so that its first rows are all alike."""
    few = column.iloc[:: max(1, len(column) // SAMPLE)]
    return ["" if cell is None else str(cell) for cell in few]


class Tabular(Protocol):
    """A table with a header. Rows are numbered from 0; the header and an HXL row under it are not rows."""

    @property
    def header(self) -> list[str]: ...

    @property
    def tags(self) -> dict[str, str]: ...

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def column(self, name: str) -> list[str]: ...

    def samples(self) -> dict[str, list[str]]: ...

    def chunks(
        self,
        columns: Sequence[str],
        *,
        numeric: Sequence[str] = (),
        missing: frozenset[str] = frozenset(),
        progress: Progress | None = None,
    ) -> Iterator[Chunk]: ...

    def rows(self, *, progress: Progress | None = None) -> Iterator[tuple[int, int, dict[str, str]]]: ...

    def lines(self, rows: NDArray[np.int64]) -> NDArray[np.int64]: ...


_TITLES = {
    "geojson": "a plain table of JSON records",
    "excel": "a plain table in an Excel sheet",
    "html": "a plain table in a web page",
}


class Records:
    """A table that is read as a whole."""

    def __init__(self, path: Path, read: Features, kind: str) -> None:
        self._path = path
        self.title = _TITLES.get(kind, "a plain table in Parquet")
        self.header = unique(list(read.columns))
        self._frame = pd.DataFrame(dict(zip(self.header, read.columns.values(), strict=True)))
        self._lines = np.arange(1, len(read) + 1) if read.lines is None else read.lines
        self.tags: dict[str, str] = {}  # column -> its HXL tag, where there is a row of them
        first = ["" if cell is None else str(cell) for cell in self._frame.iloc[0]] if len(read) else []
        if any(first) and preamble_row(first):
            self.tags = {name: tag for name, tag in zip(self.header, first, strict=True) if tag.strip()}
            self._frame, self._lines = self._frame.iloc[1:].reset_index(drop=True), self._lines[1:]

    @property
    def name(self) -> str:
        return str(self._path)

    def column(self, name: str) -> list[str]:
        """Values of a column from all over the table."""
        return sampled(self._frame[name])

    def samples(self) -> dict[str, list[str]]:
        """Values of every column from all over the table."""
        return {name: self.column(name) for name in self.header}

    def chunks(
        self,
        columns: Sequence[str],
        *,
        numeric: Sequence[str] = (),
        missing: frozenset[str] = frozenset(),
        progress: Progress | None = None,
    ) -> Iterator[Chunk]:
        yield Chunk(self._frame[list(dict.fromkeys(columns))], 0)

    def rows(self, *, progress: Progress | None = None) -> Iterator[tuple[int, int, dict[str, str]]]:
        for number, cells in enumerate(self._frame.to_dict("records")):
            yield number, int(self._lines[number]), {str(k): "" if v is None else str(v) for k, v in cells.items()}

    def lines(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(self._lines[rows], dtype=np.int64)
