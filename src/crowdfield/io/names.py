"""The names in a column of a file, of sources or of labels: each different one is cleaned and judged once per file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def clean(names: Any) -> list[str]:
    """Names as text, without the spaces around them."""
    cells = np.asarray(names, dtype=object).tolist()
    return list(map(str.strip, map(str, cells)))


def arrow_text(values: pd.Series[Any]) -> Any | None:
    """The cells as one Arrow array where they are held as one, else None."""
    if not isinstance(values.dtype, pd.ArrowDtype):
        return None
    import pyarrow as pa

    array = pa.array(values)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if pa.types.is_string(array.type) else None


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
        self._code: dict[str, int] = {}
        self._missing = missing
        # Folding the case of a name never makes it shorter, so longer names are no word for "missing".
        self._longest_missing = max(map(len, missing), default=0)
        self._is_blank = np.ones(1, dtype=bool)  # one per name; the last is that of an empty cell, whose code is −1
        self._cells: Any = None  # Arrow array of the cells as they are written, in the order they were first seen
        self._code_of_cell = np.empty(0, dtype=np.int32)

    def read(self, values: pd.Series[Any]) -> tuple[Coded, NDArray[np.bool_]]:
        """The cells as codes, and which of them name nothing."""
        array = arrow_text(values)
        codes = self._factorised(values) if array is None else self._looked_up(array)
        return Coded(codes, self), self._is_blank[codes]

    def code(self, name: str) -> int:
        """The code of a name, which becomes one of the column's if it was not."""
        return int(self._codes([name])[0])

    def _factorised(self, values: pd.Series[Any]) -> NDArray[np.int32]:
        which, different = pd.factorize(values)
        return np.append(self._codes(clean(different)), np.int32(-1))[which]

    def _looked_up(self, array: Any) -> NDArray[np.int32]:
        """The codes of an Arrow array: Python sees only cells that no chunk before had."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._cells is None:
            self._cells = array.slice(0, 0)
        found = pc.index_in(array, value_set=self._cells)
        at = (found.fill_null(-1) if found.null_count else found).to_numpy()
        if found.null_count > array.null_count:
            new = pc.and_(pc.is_null(found), pc.is_valid(array))
            fresh = array.filter(new).dictionary_encode()
            at = at.copy()
            at[new.to_numpy(zero_copy_only=False)] = fresh.indices.to_numpy() + len(self._cells)
            self._cells = pa.concat_arrays([self._cells, fresh.dictionary])
            codes = self._codes(clean(fresh.dictionary.to_numpy(zero_copy_only=False)))
            self._code_of_cell = np.concatenate([self._code_of_cell, codes])
        return np.asarray(np.append(self._code_of_cell, np.int32(-1))[at], dtype=np.int32)

    def _codes(self, names: list[str]) -> NDArray[np.int32]:
        fresh = [name for name in dict.fromkeys(names) if name not in self._code]
        if fresh:
            self._code.update(zip(fresh, range(len(self.names), len(self.names) + len(fresh)), strict=True))
            self.names += fresh
            blank = [len(name) <= self._longest_missing and self._says_nothing(name) for name in fresh]
            self._is_blank = np.concatenate([self._is_blank[:-1], np.array(blank, dtype=bool), [True]])
        return np.fromiter(map(self._code.__getitem__, names), dtype=np.int32, count=len(names))

    def _says_nothing(self, name: str) -> bool:
        return not name or name.casefold() in self._missing
