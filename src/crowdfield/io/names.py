"""The names in a column of sources or labels as codes: each different name is cleaned and checked once per file."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.io.text_words import KnownCells

# Arrow builds a hash table of all known names for every chunk. With more names, cells are compared as numbers instead.
MANY_NAMES = 5_000
UNKNOWN = "unknown"  # the source of rows that name none


def clean(names: Any) -> list[str]:
    """Names as text, without the spaces around them."""
    cells = np.asarray(names, dtype=object).tolist()
    return list(map(str.strip, map(str, cells)))


def folded(name: str) -> str:
    """The form in which labels are compared: without differences of case, of spaces, and of how accents are encoded."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def is_blank(name: str, missing: frozenset[str]) -> bool:
    """Whether a name is empty, or one of the words for an empty cell."""
    word = name.casefold()
    return not word or word in missing


def arrow_text(values: pd.Series[Any]) -> Any | None:
    """The cells as an Arrow array if they are stored as one, else None."""
    if not isinstance(values.dtype, pd.ArrowDtype):
        return None
    import pyarrow as pa

    array = pa.array(values)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if pa.types.is_string(array.type) else None


def at_positions(codes: NDArray[np.int32], positions: NDArray[np.int32]) -> NDArray[np.int32]:
    """``codes[positions]``, without looking up each where every code is its own position.   [m], [n] -> [n]"""
    own = np.array_equal(codes, np.arange(len(codes), dtype=np.int32))
    return positions if own else codes[positions]


@dataclass(frozen=True)
class Coded:
    """Some cells of a column, as codes into its names; −1 for an empty cell."""

    codes: NDArray[np.int32]  # [n]
    column: NameColumn

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Coded:
        return Coded(self.codes[rows], self.column)

    def names(self) -> NDArray[Any]:
        """The name in every cell; None for an empty one.   [n]"""
        return np.array([*self.column.names, None], dtype=object)[self.codes]


class NameColumn:
    """Numbers the names of one column in the order they are first seen, chunk after chunk."""

    def __init__(self, missing: frozenset[str]) -> None:
        self.names: list[str] = []
        self._code: defaultdict[str, int] = defaultdict(count().__next__)  # a name that is new gets the next code
        self._missing = missing | {""}
        self._is_blank = np.ones(1, dtype=bool)  # one per name; the last is that of an empty cell, whose code is −1
        self._cells: Any = None  # Arrow array of the cells as they are written, in the order they were first seen
        self._code_of_cell = np.empty(0, dtype=np.int32)
        self._numbered = KnownCells()  # the same once there are many of them

    def read(self, values: pd.Series[Any]) -> tuple[Coded, NDArray[np.bool_]]:
        """The cells as codes, and which of them are empty."""
        array = arrow_text(values)
        codes = self._factorised(values) if array is None else self._looked_up(array)
        none_blank = not self._is_blank[:-1].any() and array is not None and not array.null_count
        return Coded(codes, self), np.zeros(len(codes), dtype=bool) if none_blank else self._is_blank[codes]

    def code(self, name: str) -> int:
        """The code of a name; a new name is added to the column."""
        return int(self._codes([name])[0])

    def _factorised(self, values: pd.Series[Any]) -> NDArray[np.int32]:
        which, different = pd.factorize(values)
        return np.append(self._codes(clean(different)), np.int32(-1))[which]

    def _looked_up(self, array: Any) -> NDArray[np.int32]:
        """The codes of an Arrow array; only cells that no earlier chunk had are processed in Python."""
        import pyarrow as pa
        import pyarrow.compute as pc

        different = len(self.names) or pc.count_distinct(array.slice(0, 2 * MANY_NAMES)).as_py()
        if different > MANY_NAMES and (found := self._numbered.codes(array, self._new_cells)) is not None:
            return found
        if self._cells is None:
            self._cells = array.slice(0, 0)
        at = pc.index_in(array, value_set=self._cells)
        if at.null_count > array.null_count:
            fresh = pc.unique(array.filter(pc.and_(pc.is_null(at), pc.is_valid(array))))
            self._cells = pa.concat_arrays([self._cells, fresh])
            self._code_of_cell = np.concatenate([self._code_of_cell, self._new_cells(fresh)])
            at = pc.index_in(array, value_set=self._cells)
        if at.null_count:
            which = at.fill_null(-1).to_numpy()
            return np.asarray(np.append(self._code_of_cell, np.int32(-1))[which], dtype=np.int32)
        return at_positions(self._code_of_cell, at.to_numpy())

    def _new_cells(self, cells: Any) -> NDArray[np.int32]:
        """The codes of different cells, of which one may be empty."""
        absent = cells.is_null().to_numpy(zero_copy_only=False)
        codes = self._codes(clean(cells.fill_null("").to_numpy(zero_copy_only=False)))
        return np.where(absent, np.int32(-1), codes)

    def _codes(self, names: list[str]) -> NDArray[np.int32]:
        known = len(self._code)
        codes = np.fromiter(map(self._code.__getitem__, names), dtype=np.int32, count=len(names))
        if len(self._code) > known:
            fresh = list(islice(self._code, known, None))
            self.names += fresh
            blank = np.fromiter(map(self._missing.__contains__, map(str.casefold, fresh)), dtype=bool, count=len(fresh))
            self._is_blank = np.concatenate([self._is_blank[:-1], blank, [True]])
        return codes
