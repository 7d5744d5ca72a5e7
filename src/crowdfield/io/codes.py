"""Names numbered in the order in which they are first used, over all batches of a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.io.names import Coded, NameColumn, at_positions, clean, folded


class Codes:
    """Names numbered in the order they are first seen; spelling may be merged by letter case."""

    def __init__(self, *, fold: bool = False) -> None:
        self.names: list[str] = []
        self._fold = fold
        self._code: dict[str, int] | None = None  # made when first needed: a single column numbers its names itself
        self._column: NameColumn | None = None
        self._code_in_column = np.empty(0, dtype=np.int32)  # by code in the column; −1 for names not used yet
        self._alone = False  # whether all names so far are from that column

    def of(self, values: Any) -> NDArray[np.int32]:
        """The code of every value: cells of a column of names, or text in any array.   [n]"""
        # 32 bits: a table of a gigabyte has tens of millions of rows, and this is kept for each.
        if isinstance(values, Coded):
            return self._of_column(values)
        which, seen = pd.factorize(values)
        return self.add(clean(seen))[which] if len(which) else np.empty(0, dtype=np.int32)

    def _of_column(self, cells: Coded) -> NDArray[np.int32]:
        only = self._column is None and not self.names
        if cells.column is not self._column:
            self._column, self._code_in_column = cells.column, np.empty(0, dtype=np.int32)
            self._alone = only and not self._fold
        new = np.full(len(cells.column.names) - len(self._code_in_column), -1, dtype=np.int32)
        known = self._code_in_column = np.concatenate([self._code_in_column, new])
        codes = at_positions(known, cells.codes)
        # Only names of rows that are kept get a number here, so the column may have more names.
        if len(codes) and codes.min() < 0:
            fresh = pd.unique(cells.codes[codes < 0])
            names = [cells.column.names[i] for i in fresh.tolist()]
            known[fresh] = self._append(names) if self._alone else self.add(names)
            codes = known[cells.codes]
        return codes

    def _append(self, names: list[str]) -> NDArray[np.int32]:
        """Codes of names that are all new."""
        first = len(self.names)
        self.names += names
        self._code = None
        return np.arange(first, first + len(names), dtype=np.int32)

    def add(self, names: list[str]) -> NDArray[np.int32]:
        """The codes of some names, of which new ones get the next codes."""
        if self._code is None:
            spelt = map(folded, self.names) if self._fold else self.names
            self._code = dict(zip(spelt, range(len(self.names)), strict=False))
        keys = [folded(name) for name in names] if self._fold else names
        known, code_of = len(self.names), self._code
        codes = [code_of.setdefault(key, len(code_of)) for key in keys]
        if len(code_of) > known:
            first = dict(zip(reversed(codes), reversed(names), strict=True))  # as it was spelt first
            self.names += [first[code] for code in range(known, len(code_of))]
        return np.array(codes, dtype=np.int32)
