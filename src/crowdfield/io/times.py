"""Times in many notations as seconds since 1970 UTC. All dates of a file decide whether 03/04 is in March or April."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.errors import InputError, ReportFormatError
from crowdfield.io.column_names import MISSING, spellings
from crowdfield.io.dates_in_words import in_words
from crowdfield.io.names import arrow_text
from crowdfield.io.numeric_dates import date_parts, parts_of_equal_length

Order = Literal["dmy", "mdy"]
_NUMERIC_DATE = (
    r"^\s*(\d{1,2})[/.\-](\d{1,2})[/.\-](\d{4}|\d{2})"
    r"(?:(?:[ T,]+|\s+(?:à|at|-)\s+)(\d{1,2})[:.h](\d{2})(?:[:.](\d{2}))?\s*(?:([AaPp])\.?\s?[Mm]\.?)?"
    r"\s*(?:Z|UTC|GMT)?\s*(?:([+-]\d{2}):?(\d{2}))?)?\s*$"
)
_UTC = r"\s*(?:UTC|GMT|Zulu)$"
_CAMERA = r"^(\d{4}):(\d{2}):(\d{2})(?=\s|$)"
_NUMBER = r"^\s*-?\d+(\.\d+)?\s*$"
_PLAIN_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"


# Years that reports may be of. 1402 in Iran, 1444 of the Hijra and 2566 in Thailand are 2023.
FIRST_YEAR, LAST_YEAR = 1700, 2199
_FIRST_SECOND, _END = (
    float(np.datetime64(f"{year}-01-01").astype("datetime64[s]").astype(np.int64))
    for year in (FIRST_YEAR, LAST_YEAR + 1)
)


class _Chunk(NamedTuple):
    """The times of some rows: ``seconds[which]``, once the order of day and month is known for the ``undecided``."""

    seconds: NDArray[np.float64]
    which: NDArray[np.int64] | None = None  # None: one for each row, in order
    undecided: NDArray[np.int64] | slice = np.empty(0, dtype=np.int64)
    # Of the undecided: first, second, year, hour, minute, second and, where it is stated, seconds ahead of UTC.
    parts: NDArray[Any] = np.empty((0, 6))
    serial: bool = False  # all are numbers of days, as spreadsheets store dates
    filled: NDArray[np.bool_] | None = None  # where there was something to read


@dataclass
class Times:
    """Collects the times of a file, chunk by chunk; :meth:`seconds` gives them all once the order of dates is known."""

    file: str
    column: str
    order: Order | None = None
    unread: int = 0  # how many cells contain something that is not a time
    other_years: int = 0  # how many times were left out because their years are those of another calendar
    serial: bool = False  # whether numbers were read as days since 1900, as spreadsheets hold dates
    ambiguous: bool = False  # all dates are like 03/04/2010, which do not show their order
    _chunks: list[_Chunk] = field(default_factory=list)
    _day_first: tuple[int, str] | None = None  # a row that can only be day first, and what it says
    _month_first: tuple[int, str] | None = None

    def __post_init__(self) -> None:
        if self.order not in (None, "dmy", "mdy"):
            raise InputError(f"the order of dates is 'dmy' or 'mdy', got {self.order!r}.")

    def add(self, values: pd.Series[Any], rows: NDArray[np.int64]) -> None:
        """The cells of some rows."""
        fast = _fast(values) or self._numeric_dates(values, rows)
        if fast is not None:
            self._chunks.append(fast)
            return
        # The same minute is written many times: each way of writing is read once.
        which, different = pd.factorize(values.astype(object).where(values.notna(), "").astype(str))
        first = np.empty(len(different), dtype=np.int64)
        first[which[::-1]] = rows[::-1]
        self._chunks.append(self._slow(pd.Series(different, dtype=object), first)._replace(which=which))

    def seconds(self, line_of: Any) -> NDArray[np.float64]:
        """All times in the order they were added; NaN where there is none. ``line_of`` finds the line of a row."""
        order = self._decide(line_of)
        out = []
        while self._chunks:
            chunk = self._chunks.pop(0)
            seconds, parts = chunk.seconds, chunk.parts
            self.serial |= chunk.serial
            if len(parts):
                day, month = (0, 1) if order == "dmy" else (1, 0)
                read = _seconds(parts[:, 2], parts[:, month], parts[:, day], parts[:, 3:6])
                seconds[chunk.undecided] = read if parts.shape[1] == 6 else read - parts[:, 6]
            unread = None if chunk.filled is None else np.isnan(seconds) & chunk.filled
            if chunk.which is not None:
                seconds = seconds[chunk.which]
                unread = None if unread is None else unread[chunk.which]
            other = (seconds < _FIRST_SECOND) | (seconds >= _END)
            if other.any():
                seconds = np.where(other, np.nan, seconds)
                self.other_years += int(np.count_nonzero(other))
            self.unread += 0 if unread is None else int(np.count_nonzero(unread))
            out.append(seconds)
        return np.concatenate(out) if out else np.empty(0)

    def _numeric_dates(self, values: pd.Series[Any], rows: NDArray[np.int64]) -> _Chunk | None:
        """Dates in numbers by columns of digits; None if any cell is something else."""
        array = arrow_text(values)
        if array is None:
            return None
        if (aligned := self._aligned_dates(array, rows)) is not None:
            return aligned
        encoded = array.dictionary_encode()
        parts = date_parts(encoded.dictionary)
        if parts is None:
            return None
        parts[:, 2] = _full_years(parts[:, 2])
        count = len(parts)  # an empty cell is one more, without a time
        which = encoded.indices.fill_null(count).to_numpy()
        self._note_order(parts, lambda at: (int(rows[np.argmax(which == at)]), encoded.dictionary[at].as_py()))
        filled = np.append(np.ones(count, dtype=bool), False)
        return _Chunk(np.full(count + 1, np.nan), which, np.arange(count), parts, filled=filled)

    def _aligned_dates(self, array: Any, rows: NDArray[np.int64]) -> _Chunk | None:
        """Dates in numbers that are all written with as many digits; None if there are others."""
        parts = parts_of_equal_length(array.drop_null() if array.null_count else array)
        if parts is None:
            return None
        parts[:, 2] = _full_years(parts[:, 2])
        filled = array.is_valid().to_numpy(zero_copy_only=False)
        where: Any = np.flatnonzero(filled) if array.null_count else range(len(array))
        self._note_order(parts, lambda at: (int(rows[where[at]]), array[int(where[at])].as_py()))
        undecided = where if array.null_count else slice(None)
        return _Chunk(np.full(len(array), np.nan), undecided=undecided, parts=parts, filled=filled)

    def _slow(self, text: pd.Series[str], rows: NDArray[np.int64]) -> _Chunk:
        filled = ~text.str.strip().str.casefold().isin(["", *MISSING]).to_numpy()
        seconds = np.full(len(text), np.nan)
        number = text.str.match(_NUMBER).to_numpy(dtype=bool) & filled
        serial = False
        if number.any():
            seconds[number], serial = _of_numbers(text[number].to_numpy().astype(np.float64))
        found = text.str.extract(_NUMERIC_DATE)
        dated = found[0].notna().to_numpy() & ~number
        undecided = np.flatnonzero(dated)
        parts = found[dated]
        clock = np.array(parts[[3, 4, 5]].astype(float).fillna(0.0), dtype=np.float64)
        half = parts[6].fillna("").str.lower().to_numpy()
        clock[:, 0] = np.where(half == "p", clock[:, 0] % 12 + 12, np.where(half == "a", clock[:, 0] % 12, clock[:, 0]))
        year = _full_years(parts[2].to_numpy(dtype=np.float64))
        hours, minutes = (parts[at].astype(float).fillna(0.0) for at in (7, 8))
        east = 3600.0 * hours + 60.0 * minutes.where(~parts[7].fillna("").str.startswith("-"), -minutes)
        numbers = np.column_stack([parts[0].astype(float), parts[1].astype(float), year, clock, east])
        said = text.to_numpy()
        self._note_order(numbers, lambda at: (int(rows[undecided[at]]), said[undecided[at]]))
        rest = filled & ~number & ~dated
        if rest.any():
            # Zooniverse and many databases write "2015-05-01 10:41:59 UTC", cameras "2015:05:01 10:41:59".
            iso = (
                text[rest].str.strip().str.replace(_UTC, "Z", regex=True).str.replace(_CAMERA, r"\1-\2-\3", regex=True)
            )
            parsed = pd.to_datetime(iso, format="ISO8601", utc=True, errors="coerce")
            odd = parsed.isna().to_numpy()
            if odd.any():
                words = [in_words(value) for value in text[rest][odd].tolist()]
                parsed.loc[parsed.index[odd]] = pd.to_datetime(pd.Series(words, index=parsed.index[odd]), utc=True)
            seconds[rest] = _to_seconds(parsed)
        return _Chunk(seconds, undecided=undecided, parts=numbers, filled=filled, serial=serial)

    def _note_order(self, numbers: NDArray[Any], row_and_text: Callable[[int], tuple[int, str]]) -> None:
        day_first = (numbers[:, 0] > 12) & (numbers[:, 1] <= 12)
        month_first = (numbers[:, 1] > 12) & (numbers[:, 0] <= 12)
        self.ambiguous |= len(numbers) > 0
        if self._day_first is None and day_first.any():
            self._day_first = row_and_text(int(np.argmax(day_first)))
        if self._month_first is None and month_first.any():
            self._month_first = row_and_text(int(np.argmax(month_first)))

    def _decide(self, line_of: Any) -> Order:
        day, month = self._day_first, self._month_first
        self.ambiguous &= self.order is None and day is None and month is None
        if self.order is not None:
            return self.order
        if day is not None and month is not None:
            first, then = sorted((day, month))
            kind = {day: "day first", month: "month first"}
            raise ReportFormatError(
                f"the date '{then[1][:40]}' is {kind[then]}, but '{first[1][:40]}' on line {line_of(first[0])} is "
                f"{kind[first]}. Write all dates in one order.",
                advice="Or choose with --dates dmy or --dates mdy; reports with other dates then have no time.",
                file=self.file,
                line=line_of(then[0]),
                column=self.column,
            )
        return "mdy" if month is not None else "dmy"


def _fast(values: pd.Series[Any]) -> _Chunk | None:
    """ISO times or seconds by Arrow, ten times faster than one by one; None if any cell is something else."""
    array = arrow_text(values)
    if array is None:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    read = _arrow_times(array)
    if read is None:
        absent = pc.is_in(array, value_set=pa.array(spellings(MISSING)))
        read = _arrow_times(pc.if_else(absent, pa.scalar(None, pa.string()), array)) if pc.any(absent).as_py() else None
    return read


def _arrow_times(array: Any) -> _Chunk | None:
    import pyarrow as pa

    # Try a few cells first: Arrow takes far longer to fail on a whole chunk than to read it.
    few = array.slice(0, 16).drop_null()
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            few.cast(kind)
            stamps = array.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        # A nullable integer would have to become a float anyway: NaN says "not known".
        micro = stamps.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return _Chunk(np.asarray(micro, dtype=np.float64) / 1e6)
    numbers = _arrow_numbers(few, array)
    if numbers is None:
        return None
    seconds, serial = _of_numbers(numbers)
    return _Chunk(seconds, filled=~np.isnan(numbers), serial=serial)


def _arrow_numbers(few: Any, array: Any) -> NDArray[np.float64] | None:
    """The cells as numbers, NaN for missing ones; None if any cell is not plain digits with or without decimals."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(few, _PLAIN_NUMBER), min_count=0).as_py():
        return None
    try:
        # Arrow also reads hexadecimal integers such as 0x1F, which are not times.
        whole = None if pc.any(pc.match_substring(few, ".")).as_py() else array.cast(pa.int64())
    except pa.ArrowInvalid:
        whole = None
    text = (array.buffers()[2] or pa.py_buffer(b"")).to_pybytes()
    if whole is not None and b"x" not in text and b"X" not in text:
        return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.float64)
    if not pc.all(pc.match_substring_regex(array, _PLAIN_NUMBER), min_count=0).as_py():
        return None
    return np.asarray(array.cast(pa.float64()).to_numpy(zero_copy_only=False))


def _to_seconds(times: pd.Series[Any]) -> NDArray[np.float64]:
    stamps = pd.DatetimeIndex(times).tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / 1e6)


# Spreadsheets store dates as days since the end of 1899; these are the dates from 1982 to 2064. A column is read so
# only if all its numbers lie in this range: counts and seconds would exceed it.
_SERIAL_DAYS = (30_000.0, 60_000.0)
_SERIAL_1970 = 25_569.0  # 1 January 1970 as such a number of days


def _of_numbers(numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], bool]:
    """Seconds since 1970 from numbers, and whether these are days as spreadsheets hold dates."""
    known = numbers[~np.isnan(numbers)]
    if len(known) and (known >= _SERIAL_DAYS[0]).all() and (known < _SERIAL_DAYS[1]).all():
        return np.round((numbers - _SERIAL_1970) * 86_400.0, 3), True
    compact = _compact(numbers)
    return (_epoch(numbers) if compact is None else compact), False


# Digits of a date and a time of day without anything between them: 20230206, 202302060417, 20230206041700.
_COMPACT = {8: 1.0, 12: 1e4, 14: 1e6}


def _compact(numbers: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Seconds since 1970 if the numbers are dates written as year, month and day, in digits alone; else None.
    NaN for impossible dates."""
    known = ~np.isnan(numbers)
    if not known.any() or (numbers[known] != np.floor(numbers[known])).any():
        return None
    first = numbers[known][0]
    clock_digits = next((unit for unit in _COMPACT.values() if 19_000_000 <= first / unit < 22_000_000), None)
    if clock_digits is None:
        return None
    date, clock = np.divmod(numbers, clock_digits)
    if clock_digits == _COMPACT[12]:
        clock = clock * 100.0
    time = np.column_stack([clock // 1e4, clock // 100 % 100, clock % 100])
    within = (date[known] >= 19_000_000) & (date[known] < 22_000_000)
    seconds = _seconds(date // 10_000, date // 100 % 100, date % 100, time)
    return seconds if within.all() and np.isfinite(seconds[known]).mean() > 0.5 else None


EARLIEST = 1e8  # seconds: 1973; smaller numbers are counts, or dates in digits


def _epoch(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds since 1970, or milliseconds, microseconds or nanoseconds (13, 16 or 19 digits); NaN for a number that is
    not a time."""
    size = np.abs(numbers)
    unit = np.where(size >= 1e17, 1e9, np.where(size >= 1e14, 1e6, np.where(size >= 1e11, 1e3, 1.0)))
    seconds = numbers / unit
    return np.where((np.abs(seconds) < EARLIEST) | (np.abs(seconds) > 1e11), np.nan, seconds)


def _full_years(year: NDArray[Any]) -> NDArray[Any]:
    """Years that may be written with two digits, from 1970 to 2069."""
    return np.where(year < 70, year + 2000, np.where(year < 100, year + 1900, year))


def _seconds(year: NDArray[Any], month: NDArray[Any], day: NDArray[Any], clock: NDArray[Any]) -> NDArray[np.float64]:
    """Seconds since 1970; NaN for a date or a time of day that does not exist.   [n] each, clock [n, 3]"""
    with np.errstate(invalid="ignore"):
        ok = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (clock[:, 0] < 24)
        ok &= (clock[:, 1] < 60) & (clock[:, 2] < 60)
    if not ok.any():
        return np.full(len(ok), np.nan)
    # Each day that may occur is looked up in a table of all between the first and the last.
    number = (np.where(ok, year, 1970).astype(np.int32) * 12 + np.where(ok, month, 1).astype(np.int32) - 1) * 31
    number += np.where(ok, day, 1).astype(np.int32) - 1
    first, last = int(number[ok].min()), int(number[ok].max())
    if last - first > _MOST_DAYS:
        seconds = _days(number.astype(np.int64)) * 86_400.0
    else:
        seconds = (_days(np.arange(first, last + 1)) * 86_400.0)[np.clip(number - first, 0, last - first)]
    seconds += 3600.0 * clock[:, 0] + 60.0 * clock[:, 1] + clock[:, 2]
    return seconds if ok.all() else np.where(ok, seconds, np.nan)


_MOST_DAYS = 10**6  # in a table of days


def _days(number: NDArray[np.int64]) -> NDArray[np.float64]:
    """Days since 1970 of days that are numbered as if every month had 31; NaN for those that do not exist."""
    month, day = np.divmod(number, 31)
    first = (month - 1970 * 12).astype("datetime64[M]")
    date = first.astype("datetime64[D]") + day
    exists = date.astype("datetime64[M]") == first  # not 31 February
    return np.where(exists, date.astype(np.int64), np.nan)
