"""Dates in numbers, such as 13/01/2020 or 3.1.20 16:53, taken apart for a whole column at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# What may stand between day, month, year, hour, minute and second.
_BETWEEN = (b"/.-", b"/.-", b" T,", b":.", b":.")
_LONGEST = 19  # letters of a date with a time of day
# How many digits each may have.
_DIGITS = ((1, 2), (1, 2), (2, 4), (1, 2), (2,), (2,))


def parts_of_equal_length(array: Any) -> NDArray[np.int16] | None:
    """The same as `date_parts`, in a fraction of the time, for cells that are all as long and have their digits at the
    same places; None for others.   [n, 6]
    """
    _, offsets, letters = array.buffers()
    if not len(array) or letters is None:
        return None
    ends = np.frombuffer(offsets, dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)
    length, rest = divmod(int(ends[-1] - ends[0]), len(array))
    if rest or not 6 <= length <= _LONGEST or not (np.diff(ends) == length).all():
        return None
    text = np.frombuffer(letters, dtype=np.uint8)[ends[0] : ends[-1]].reshape(len(array), length)
    first = date_parts(array.slice(0, 1))
    if first is None:
        return None
    parts = np.zeros((6, len(array)), dtype=np.int16).T  # column by column, as they are used
    part, zero = 0, np.uint8(ord("0"))
    for letter in np.ascontiguousarray(text.T):
        digit = letter - zero
        if digit[0] < 10:
            if digit.max() > 9:
                return None
            parts[:, part] = 10 * parts[:, part] + digit
        else:
            if (letter != letter[0]).any():
                return None
            part += 1
    return parts


def date_parts(array: Any) -> NDArray[np.float64] | None:
    """First, second, year, hour, minute and second of every cell of an Arrow array of strings without missing cells.

    None if any cell is something else than a date, or a date with a time, that all cells write with as many numbers.
    Years are as they are written.   [n, 6]
    """
    _, offsets, letters = array.buffers()
    if not len(array) or letters is None:
        return None
    ends = np.frombuffer(offsets, dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)
    text = np.frombuffer(letters, dtype=np.uint8)[ends[0] : ends[-1]]
    start, end = ends[:-1] - ends[0], ends[1:] - ends[0]
    is_digit = (text - np.uint8(ord("0"))) < 10
    if (start == end).any() or not (is_digit[start].all() and is_digit[end - 1].all()):
        return None
    begins = is_digit.copy()  # where a number begins: at the start of a cell, or after something else than a digit
    begins[1:] &= ~is_digit[:-1]
    begins[start] = True
    at: NDArray[np.int64] = np.flatnonzero(begins)
    count = len(at) // len(array)  # of numbers in a cell
    # Each of its cells ends with a digit, so that this leaves one byte between two numbers of a cell, and no other.
    single = len(text) - np.count_nonzero(is_digit) == len(at) - len(array)
    if count not in (3, 5, 6) or len(at) != count * len(array) or not single:
        return None
    at = at.reshape(len(array), count)
    if not np.array_equal(at[:, 0], start):
        return None
    stop = np.column_stack([at[:, 1:] - 1, end])
    parts = np.zeros((len(array), 6))
    for part in range(count):
        digits = stop[:, part] - at[:, part]
        if not np.isin(digits, _DIGITS[part]).all():
            return None
        if part + 1 < count and not np.isin(text[stop[:, part]], np.frombuffer(_BETWEEN[part], np.uint8)).all():
            return None
        for place in range(int(digits.max())):
            more = digits > place
            digit = text.take(at[:, part] + place, mode="clip") - np.uint8(ord("0"))
            parts[:, part] = np.where(more, 10.0 * parts[:, part] + digit, parts[:, part])
    return parts
