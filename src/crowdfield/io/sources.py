"""The sources of a file as codes. Text in Arrow arrays is numbered in the order of names, for many rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data.names import LateNames
from crowdfield.io.codes import Codes
from crowdfield.io.names import UNKNOWN, at_positions, clean, is_blank
from crowdfield.io.text_words import first_and_last_bytes, in_order

# Text of so many rows is numbered in one go: each different cell is then looked at once per million rows. The text of
# a million names takes some tens of megabytes.
ROWS_AT_ONCE = 2**20
# A hash table of a column costs more than sorting it where it has fewer cells of each kind than this: for a million
# cells sorting was faster with 1.6 of each and slower with ten.
FEW_OF_A_KIND = 4
SAMPLED = 2**14  # cells, of which the number of kinds is estimated


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
        self._names: LateNames | None = None  # all names so far, in order, while they are from Arrow arrays
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

    def in_order(self, codes: NDArray[np.int32]) -> tuple[LateNames | tuple[str, ...], NDArray[Any]]:
        """The names in order, and the codes of some reports as positions among them.   [n] -> [names], [n]"""
        if self._names is not None:
            return self._names, codes
        found = self._codes.names
        if not found:
            return (), codes
        by_name = sorted(range(len(found)), key=found.__getitem__)
        position = np.empty(len(found), dtype=np.int32)
        position[by_name] = np.arange(len(found), dtype=np.int32)
        return tuple(map(found.__getitem__, by_name)), position[codes]

    def _number_waiting(self) -> None:
        if not self._waiting:
            return
        import pyarrow as pa

        missing = self._waiting[0].missing
        cells = pa.concat_arrays([cells.array for cells in self._waiting]).fill_null("")
        self._waiting, self._rows_waiting = [], 0
        which: NDArray[np.int32] | None = None
        if not _mostly_different(cells):
            encoded = cells.dictionary_encode()
            cells, which = encoded.dictionary, encoded.indices.to_numpy()
        codes = self._number(_tidied(cells, missing))
        self._parts.append(codes if which is None else at_positions(codes, which))

    def _number(self, cells: Any) -> NDArray[np.int32]:
        """The codes of cells that are names."""
        if self._names is not None or self._codes.names:
            return self._all_names().add(cells.to_numpy(zero_copy_only=False).tolist())
        by_name = in_order(cells)
        self._names = LateNames(cells, by_name.rows[by_name.new])
        return by_name.codes()

    def _all_names(self) -> Codes:
        if self._names is not None:
            self._codes.add([str(name) for name in self._names.made()])
            self._names = None
        return self._codes


def _mostly_different(cells: Any) -> bool:
    """Whether a long column has few cells of each kind, judged by the pairs of equal cells in a sample.

    In a sample of m cells of k kinds there are about m² / 2k such pairs.
    """
    import pyarrow.compute as pc

    if len(cells) < SAMPLED:
        return False
    sample = cells.take(np.arange(0, len(cells), len(cells) // SAMPLED))
    pairs = len(sample) - pc.count_distinct(sample).as_py()
    return bool(len(sample) ** 2 > 2 * pairs * len(cells) / FEW_OF_A_KIND)


def _tidied(cells: Any, missing: frozenset[str]) -> Any:
    """The cells without spaces around them, with one name for all that name nobody."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if (padded := _padded(cells)).any():
        cells = pc.replace_with_mask(cells, padded, pa.array(clean(cells.filter(padded).to_pylist()), pa.string()))
    nobody = _blank(cells, missing)
    return pc.if_else(nobody, UNKNOWN, cells) if nobody.any() else cells


_SPACES = [chr(code).encode() for code in range(0x3001) if chr(code).isspace()]  # all that Python strips, in UTF-8
_IN_SPACES = tuple(np.isin(np.arange(256), [space[at] for space in _SPACES]) for at in (0, -1))  # first, last bytes


def _padded(cells: Any) -> NDArray[np.bool_]:
    """Which cells may have spaces around them, by their first and last bytes.   [n]"""
    edges = first_and_last_bytes(cells)
    return np.logical_or(*(table[edge] for table, edge in zip(_IN_SPACES, edges, strict=True)))


def _blank(cells: Any, missing: frozenset[str]) -> NDArray[np.bool_]:
    """Which cells are empty, or words for an empty cell.   [n]"""
    import pyarrow as pa
    import pyarrow.compute as pc

    blank = np.zeros(len(cells), dtype=bool)
    letters = _first_letters(missing)
    begins = np.zeros(256, dtype=bool)
    begins[[0, *(letter.encode()[0] for letter in letters)]] = True  # 0 stands for a cell without any letters
    likely = np.flatnonzero(begins[first_and_last_bytes(cells)[0]])
    if not len(likely):
        return blank
    some = cells.take(likely)
    blank[likely] = pc.is_in(pc.ascii_lower(some), value_set=pa.array(["", *missing])).to_numpy(zero_copy_only=False)
    # Other letters may become those of a word when they are folded, one by one or into several, never into fewer.
    first = pc.is_in(pc.utf8_slice_codeunits(some, 0, 1), value_set=pa.array(letters, pa.string()))
    likely = likely[pc.and_not(first, pc.string_is_ascii(some)).to_numpy(zero_copy_only=False)]
    blank[likely] = [is_blank(name, missing) for name in cells.take(likely).to_pylist()]
    return blank


@lru_cache(maxsize=8)
def _first_letters(words: frozenset[str]) -> list[str]:
    """All letters with which a text may begin that is one of these words when it is folded."""
    first = {word[0] for word in words if word}
    # Letters that fold into others are found below U+3000, and among the ligatures from U+FB00 on.
    return [
        letter for code in (*range(0x3000), *range(0xFB00, 0xFB20)) if (letter := chr(code)).casefold()[:1] in first
    ]
