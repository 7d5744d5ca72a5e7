"""Text cells as numbers, eight bytes at a time: columns of text are compared as fast as columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Words = list[NDArray[np.uint64]]

MOST_WORDS = 8  # of a cell: a UUID has five. Longer cells are compared as text
_MISSING = np.uint64(1 << 32)  # stands for the length of a missing cell
_KEPT = np.array(
    [(1 << (8 * count)) - 1 for count in range(9)], dtype=np.uint64
)  # masks, by the number of bytes to keep


def words(array: Any, skip: int = 0) -> Words | None:
    """The cells of an Arrow array of strings as columns of numbers that are equal where the cells are: their length,
    then eight bytes each, with zeros after the end.   [n] each; None where a cell is too long for this.

    skip: so many bytes at the start of all cells are left out; none may be shorter.
    """
    _, offsets, letters = array.buffers()
    if offsets is None:
        return None
    ends = np.frombuffer(offsets, dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)
    start, length = ends[:-1] + np.int32(skip), np.diff(ends) - np.int32(skip)
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


def sort_key(array: Any) -> NDArray[np.uint64] | None:
    """One number for each cell of an Arrow array of strings, in the order of their bytes, equal for equal cells.   [n]

    None if any is missing, or unless cells differ only in a few bytes after a common beginning ("user1", "user999999").
    """
    cells = None if array.null_count or not len(array) else words(array)
    if cells is None:
        return None
    length, *letters = cells
    shortest, longest = int(length.min()), int(length.max())
    common = 0
    for column in letters:
        different = int(np.bitwise_or.reduce(column ^ column[0]))
        same = 8 if not different else ((different & -different).bit_length() - 1) // 8  # the first byte is the lowest
        common += same
        if same < 8:
            break
    common = min(common, shortest)
    if longest - common > 7 or (rest := words(array, skip=common)) is None:
        return None
    left, *few = rest
    return few[0].byteswap() | left if few else left


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


def sorted_positions(array: Any) -> NDArray[np.int64]:
    """The positions that put the cells of an Arrow array of strings in the order of their bytes.   [n]

    In UTF-8 this is the order of code points, in which Python sorts text.
    """
    import pyarrow.compute as pc

    if (key := sort_key(array)) is not None:
        return np.argsort(key)
    cells = words(array)
    if cells is None:
        return np.asarray(pc.array_sort_indices(array).to_numpy(), dtype=np.int64)
    length, *letters = cells
    keys = [number.byteswap() for number in reversed(letters)]  # the last key counts most
    if not keys or (text := array.buffers()[2]) is None or b"\0" in text.to_pybytes():
        keys.insert(0, length)  # decides between cells that differ only in zero bytes at their ends
    return np.lexsort(keys)


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
