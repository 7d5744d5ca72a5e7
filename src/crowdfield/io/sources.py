"""The sources of a file as codes. Text in Arrow arrays is numbered for many rows at a time, and sorted at the end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.io.codes import Codes
from crowdfield.io.names import UNKNOWN, at_positions, clean, is_blank
from crowdfield.io.text_words import contains_any, first_and_last_bytes, sorted_positions

# Text of so many rows is numbered in one go: each different cell is then looked at once per million rows. The text of
# a million names takes some tens of megabytes.
ROWS_AT_ONCE = 2**20


@dataclass(frozen=True)
class SourceCells:
    """Cells of a column of sources as they are written, not yet numbered."""

    array: Any  # Arrow array of strings
    missing: frozenset[str]  # words for an empty cell, in lower case

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: NDArray[np.int64]) -> SourceCells:
        return SourceCells(self.array.take(rows), self.missing)


class Sources:
    """Numbers the sources of all batches of a file. Only sources of rows that are used get a number."""

    def __init__(self) -> None:
        self._codes = Codes()
        self._cells: Any = None  # Arrow array of all names so far, while no other names are known
        self._parts: list[NDArray[np.int32]] = []
        self._waiting: list[SourceCells] = []
        self._rows_waiting = 0
        self._complete = True  # whether all batches said who reported

    def add(self, values: Any | None) -> None:
        """The sources of one batch: cells, codes of a column or names; None if the batch does not have them."""
        if values is None:
            self._complete = False
        elif isinstance(values, SourceCells):
            self._waiting.append(values)
            self._rows_waiting += len(values)
            if self._rows_waiting >= ROWS_AT_ONCE:
                self._number_waiting()
        else:
            self._number_waiting()
            self._parts.append(self._all_names().of(values))

    def codes(self) -> NDArray[np.int32] | None:
        """The code of every report; None if some batches have no sources. The codes are not kept."""
        self._number_waiting()
        parts, self._parts = self._parts, []
        return np.concatenate(parts) if parts and self._complete else None

    def in_order(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The names in order, and the position of each code among them."""
        if self._cells is not None:
            order = sorted_positions(self._cells)
            names = tuple(self._cells.take(order).to_pylist())
        else:
            found = self._codes.names
            by_name = sorted(range(len(found)), key=found.__getitem__)
            names, order = tuple(map(found.__getitem__, by_name)), np.array(by_name, dtype=np.int64)
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        return names, position

    def _number_waiting(self) -> None:
        if not self._waiting:
            return
        import pyarrow as pa

        missing = self._waiting[0].missing
        encoded = pa.concat_arrays([cells.array for cells in self._waiting]).dictionary_encode()
        self._waiting, self._rows_waiting = [], 0
        code_of_cell = self._number(encoded.dictionary, missing)
        if encoded.null_count:
            which = encoded.indices.fill_null(len(code_of_cell))
            code_of_cell = np.append(code_of_cell, np.int32(self._number_absent()))
        else:
            which = encoded.indices
        self._parts.append(at_positions(code_of_cell, which.to_numpy()))

    def _number(self, cells: Any, missing: frozenset[str]) -> NDArray[np.int32]:
        """The codes of different cells."""
        if self._cells is None and not self._codes.names and not _need_stripping(cells):
            blank = _blank(cells, missing)
            self._cells = cells.filter(~blank) if blank.any() else cells
            codes = np.cumsum(~blank, dtype=np.int32) - np.int32(1)
            if blank.any():
                codes[blank] = self._number_absent()
            return codes
        names = clean(cells.to_numpy(zero_copy_only=False))
        return self._all_names().add([UNKNOWN if is_blank(name, missing) else name for name in names])

    def _number_absent(self) -> int:
        """The code of cells that name nobody: they share one source."""
        if self._cells is None:
            return int(self._codes.add([UNKNOWN])[0])
        import pyarrow as pa
        import pyarrow.compute as pc

        found: int = pc.index(self._cells, UNKNOWN).as_py()
        if found < 0:
            found = len(self._cells)
            self._cells = pa.concat_arrays([self._cells, pa.array([UNKNOWN])])
        return found

    def _all_names(self) -> Codes:
        if self._cells is not None:
            self._codes.add(self._cells.to_numpy(zero_copy_only=False).tolist())
            self._cells = None
        return self._codes


_SPACES = [chr(code).encode() for code in range(0x3001) if chr(code).isspace()]  # all that Python strips, in UTF-8
_IN_SPACES = tuple(np.isin(np.arange(256), [space[at] for space in _SPACES]) for at in (0, -1))  # first, last bytes


def _need_stripping(cells: Any) -> bool:
    """Whether any cell is empty or has spaces around it."""
    edges = first_and_last_bytes(cells)
    likely = np.logical_or(*(table[edge] | (edge == 0) for table, edge in zip(_IN_SPACES, edges, strict=True)))
    return any(not name or name != name.strip() for name in cells.filter(likely).to_pylist())


def _blank(cells: Any, missing: frozenset[str]) -> NDArray[np.bool_]:
    """Which cells are words for an empty cell.   [n]"""
    import pyarrow as pa
    import pyarrow.compute as pc

    blank = np.zeros(len(cells), dtype=bool)
    if contains_any(lower := pc.ascii_lower(cells), missing):
        words = pa.array(sorted(missing), pa.string())
        blank |= pc.is_in(lower, value_set=words).to_numpy(zero_copy_only=False)
    # Other letters may become those of a word when they are folded, one by one or into several, never into fewer.
    other = cells.filter(pc.invert(pc.string_is_ascii(cells)))
    if not len(other):
        return blank
    begins = pc.is_in(pc.utf8_slice_codeunits(cells, 0, 1), value_set=pa.array(_first_letters(missing), pa.string()))
    likely = np.flatnonzero(pc.and_not(begins, pc.string_is_ascii(cells)).to_numpy(zero_copy_only=False))
    blank[likely] |= np.array([is_blank(name, missing) for name in cells.take(likely).to_pylist()], dtype=bool)
    return blank


@lru_cache(maxsize=8)
def _first_letters(words: frozenset[str]) -> list[str]:
    """All letters with which a text may begin that is one of these words when it is folded."""
    first = {word[0] for word in words if word}
    # Letters that fold into others are found below U+3000, and among the ligatures from U+FB00 on.
    return [
        letter for code in (*range(0x3000), *range(0xFB00, 0xFB20)) if (letter := chr(code)).casefold()[:1] in first
    ]
