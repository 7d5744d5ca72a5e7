"""Text cells as numbers, eight bytes at a time: columns of text are compared as fast as columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Words = list[NDArray[np.uint64]]

MOST_WORDS = 8  # of a cell: a UUID has five. Longer cells are compared as text
_MISSING = np.uint64(1 << 32)  # stands for the length of a missing cell
_KEPT = np.array(
    [(1 << (8 * count)) - 1 for count in range(9)], dtype=np.uint64
)  # masks, by the number of bytes to keep


def words(array: Any) -> Words | None:
    """The cells of an Arrow array of strings as columns of numbers that are equal where the cells are: their length,
    then eight bytes each, with zeros after the end.   [n] each; None where a cell is too long for this.
    """
    _, offsets, letters = array.buffers()
    if offsets is None:
        return None
    ends = np.frombuffer(offsets, dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)
    start, length = ends[:-1], np.diff(ends)
    longest = int(length.max(initial=0))
    if longest > 8 * MOST_WORDS:
        return None
    # Eight bytes can be read from wherever a cell begins, and from beyond its end.
    size = int(ends[-1])
    here = np.zeros(size + 16, dtype=np.uint8)
    if letters is not None:
        here[:size] = np.frombuffer(letters, dtype=np.uint8, count=size)
    eight = np.lib.stride_tricks.as_strided(here[:8].view(np.uint64), shape=(size + 8,), strides=(1,))
    out = [length.astype(np.uint64)]
    if array.null_count:
        out[0][array.is_null().to_numpy(zero_copy_only=False)] = _MISSING
    for first in range(0, longest, 8):
        left = np.clip(length - first, 0, 8)
        out.append(eight[start + np.minimum(first, length)] & _KEPT[left])
    return out


class Sorted(NamedTuple):
    """The cells of a column in the order of their bytes. In UTF-8 this is the order in which Python sorts text."""

    rows: NDArray[np.int64]  # [n] in order
    new: NDArray[np.bool_]  # [n] whether the cell of each of these rows differs from the one before

    def codes(self) -> NDArray[np.int32]:
        """The place of every cell among the different ones.   [n]"""
        out = np.empty(len(self.rows), dtype=np.int32)
        out[self.rows] = np.cumsum(self.new, dtype=np.int32) - np.int32(1)
        return out


def in_order(array: Any) -> Sorted:
    """Sort the cells of an Arrow array of strings, at least one, none of them missing: by eight bytes after those with
    which all cells begin, as one number, then by further bytes where these are equal.
    """
    cells = words(array)
    if cells is None:
        import pyarrow.compute as pc

        rows = np.asarray(pc.array_sort_indices(array).to_numpy(), dtype=np.int64)
        text = array.take(rows)
        return Sorted(rows, _starts(pc.not_equal(text[1:], text[:-1]).to_numpy(zero_copy_only=False)))
    at = _common_bytes(cells)
    key = _eight_bytes(cells, at)
    if whole := int(cells[0].max(initial=0)) - at < 8:
        key |= cells[0] - np.uint64(at)  # the lowest byte is free for the length: the number says all of the cell
    rows = np.argsort(key)
    sorted_key = key[rows]
    new = _starts(sorted_key[1:] != sorted_key[:-1])
    while not whole:
        places, at = _unsorted(cells, rows, new, at)
        if not len(places):
            break
        _sort_further(cells, rows, new, places, at)
    return Sorted(rows, new)


def _starts(differs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows differ from the one before; the first does.   [n − 1] -> [n]"""
    return np.concatenate([[True], differs])


def _common_bytes(cells: Words) -> int:
    """How many bytes at the start all cells share."""
    length, *letters = cells
    common = 0
    for column in letters:
        same = _equal_bytes(column ^ column[0])
        common += same
        if same < 8:
            break
    return min(common, int(length.min()))


def _equal_bytes(bits: NDArray[np.uint64]) -> int:
    """In how many bytes from the start two columns of words agree, from the bits in which they do not.   [n]"""
    different = int(np.bitwise_or.reduce(bits))
    return 8 if not different else ((different & -different).bit_length() - 1) // 8  # the first byte is the lowest


def _eight_bytes(cells: Words, at: int) -> NDArray[np.uint64]:
    """Eight bytes of every cell from a position on, as a number in whose order they are.   [n]

    Zeros stand after the end of a cell, and behind those of the longest cell stands its length.
    """
    length, *letters = cells
    word, within = divmod(at, 8)
    if word >= len(letters):
        return length << np.uint64(56)
    here = letters[word]
    if within:
        here = here >> np.uint64(8 * within)
        if word + 1 < len(letters):
            here |= letters[word + 1] << np.uint64(64 - 8 * within)
    return here.byteswap()


def _unsorted(cells: Words, rows: NDArray[np.int64], new: NDArray[np.bool_], at: int) -> tuple[NDArray[np.int64], int]:
    """The places in `rows` that stand in runs of cells which are equal so far (at least up to a position) but not in
    all bytes, and the position of the first byte in which they differ.
    """
    same = np.flatnonzero(~new)
    before, after = rows[same - 1], rows[same]
    length, *letters = cells
    differs = length[before] != length[after]
    first = 8 * len(letters)
    for word in reversed(range(at // 8, len(letters))):
        bits = letters[word][before] ^ letters[word][after]
        differs |= bits != 0
        if (equal := _equal_bytes(bits)) < 8:
            first = 8 * word + equal
    run = np.cumsum(new)
    mixed = np.zeros(run[-1] + 1, dtype=bool)
    mixed[run[same[differs]]] = True
    return np.flatnonzero(mixed[run]) if differs.any() else same[:0], first


def _sort_further(
    cells: Words, rows: NDArray[np.int64], new: NDArray[np.bool_], places: NDArray[np.int64], at: int
) -> None:
    """Sort the rows at some places, run by run, by bytes from a position on: as many as fit into a number behind that
    of the run. `rows` and `new` change.
    """
    run = np.cumsum(new[places], dtype=np.uint64)
    count = (64 - int(run[-1]).bit_length()) // 8
    few = rows[places]
    key = run << np.uint64(8 * count) | _eight_bytes(cells, at)[few] >> np.uint64(64 - 8 * count)
    inner = np.argsort(key)
    rows[places] = few[inner]
    key = key[inner]
    new[places[1:]] = key[1:] != key[:-1]


def first_and_last_bytes(array: Any) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The first and the last byte of every cell of an Arrow array of strings; 0 for an empty cell.   [n] each"""
    _, offsets, letters = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)
    start, end = ends[:-1], ends[1:]
    if letters is None or not letters.size:
        return np.zeros(len(array), np.uint8), np.zeros(len(array), np.uint8)
    text = np.frombuffer(letters, dtype=np.uint8)
    first, last = text.take(start, mode="clip"), text.take(end - 1, mode="clip")
    empty = start == end
    if empty.any():
        first[empty] = last[empty] = 0
    return first, last


def contains_any(array: Any, forms: Iterable[str]) -> bool:
    """Whether any cell of an Arrow array of strings is one of these texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = [form for form in forms if form]
    begins = np.zeros(256, dtype=bool)
    begins[[form.encode()[0] for form in wanted]] = True
    likely = begins.take(first_and_last_bytes(array)[0])
    if not likely.any():
        return False
    some = array.filter(pa.array(likely))
    return bool(pc.any(pc.is_in(some, value_set=pa.array(wanted, pa.string()))).as_py())


def strictly_increasing(cells: Words) -> bool:
    """Whether every cell is greater than the one before: first by its length, then by its bytes. Then all differ."""
    greater = np.zeros(max(len(cells[0]) - 1, 0), dtype=bool)
    equal = ~greater
    for at, column in enumerate(cells):
        number = column if at == 0 else column.byteswap()  # the first letter counts most
        greater |= equal & (number[1:] > number[:-1])
        equal &= number[1:] == number[:-1]
        if not (greater | equal).all():
            return False
    return bool(greater.all())


def digests(columns: Words) -> NDArray[np.uint64]:
    """A hash of each row.   [n]"""
    out = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        out ^= column
        out *= np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
    return out


class KnownCells:
    """The distinct cells of a column and their codes, over several arrays."""

    def __init__(self) -> None:
        self._index = pd.Index(np.empty(0, dtype=np.uint64))  # by digest
        self._words: Words = []
        self._codes = np.empty(0, dtype=np.int32)

    def codes(self, array: Any, number: Callable[[Any], NDArray[np.int32]]) -> NDArray[np.int32] | None:
        """The code of every cell: [n]. `number` gives codes to cells that were not met before.

        None where cells are too long, or where two different ones have one digest: then they are compared as text.
        """
        cells = words(array)
        if cells is None:
            return None
        which, different = pd.factorize(digests(cells))
        first = np.empty(len(different), dtype=np.int64)  # the row in which each appears first
        first[which[::-1]] = np.arange(len(which) - 1, -1, -1)
        own = [column[first] for column in cells]
        at = self._index.get_indexer(pd.Index(different))
        met = np.flatnonzero(at >= 0)
        own += [np.zeros(len(first), np.uint64)] * (len(self._words) - len(own))
        kept = self._words + [np.zeros(len(self._codes), np.uint64)] * (len(own) - len(self._words))
        within = all(np.array_equal(mine[which], column) for mine, column in zip(own, cells, strict=False))
        before = all(np.array_equal(mine[met], past[at[met]]) for mine, past in zip(own, kept, strict=True))
        if not (within and before):
            return None
        fresh = np.flatnonzero(at < 0)
        if len(fresh):
            at[fresh] = np.arange(len(self._codes), len(self._codes) + len(fresh))
            self._words = [np.concatenate([past, mine[fresh]]) for past, mine in zip(kept, own, strict=True)]
            self._codes = np.concatenate([self._codes, number(array.take(first[fresh]))])
            self._index = pd.Index(np.concatenate([self._index.to_numpy(), different[fresh]]))
        return self._codes[at][which]
