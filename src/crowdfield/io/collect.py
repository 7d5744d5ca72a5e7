"""From batches of rows to one table of reports: labels, duplicates, counts and rejects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.data.names import LateNames
from crowdfield.errors import InputError, ReportFormatError
from crowdfield.io.codes import Codes
from crowdfield.io.column_names import NO, YES
from crowdfield.io.columns import some
from crowdfield.io.names import arrow_text, folded
from crowdfield.io.rejects import Refusal, Refusals
from crowdfield.io.sources import Sources
from crowdfield.io.text_words import strictly_increasing, words

COPIED_WITHIN = 600.0  # seconds: the same text again within ten minutes is one message, forwarded
SHORTEST_COPY = 20  # characters: "Need food" may well be said by two people


@dataclass
class Batch:
    """Reports from some rows of a file. One row may give several reports, and a refused one gives none."""

    rows: int  # how many rows were read, used or not
    row: NDArray[np.int64]  # [n] the row each report is from, rising
    lon: NDArray[np.float64]
    lat: NDArray[np.float64]
    label: Any  # [n] text: cells of a column of names, a pandas array or Series, or an object array
    source: Any | None  # [n] the same, or cells that are not numbered yet; None where the file does not say
    time: NDArray[np.float64] | None = None
    id: Any | None = None
    text: Any | None = None
    accuracy: NDArray[np.float64] | None = None  # metres; NaN where it is not known
    score: NDArray[np.float64] | None = None  # probability of the label; NaN for a plain label
    looks: NDArray[np.float64] | None = None  # how many observations each stands for; NaN if not stated
    area: NDArray[np.bool_] | None = None  # which are about the whole area within their accuracy
    refused: list[Refusal] = field(default_factory=list)


class Collected(NamedTuple):
    """All reports of a file, before their labels are renamed; ``row``: the row of the file that each is from."""

    row: NDArray[np.int64]  # [R], rising
    places: NDArray[np.float64]
    label: NDArray[np.int32]
    source: NDArray[np.int32]
    time: NDArray[np.float64] | None
    id: LateNames | NDArray[Any] | None
    event: NDArray[np.int64] | None
    duplicate_rows: int
    accuracy: NDArray[np.float64] | None = None
    score: NDArray[np.float64] | None = None
    looks: NDArray[np.float64] | None = None
    area: NDArray[np.bool_] | None = None


class Collector:
    """Takes batches one after another and stores codes: each different name is stored only once."""

    def __init__(self) -> None:
        self.rows = 0
        self.labels, self.sources = Codes(fold=True), Sources()
        self.refused = Refusals()
        self._batches: list[Batch] = []

    def add(self, batch: Batch) -> None:
        self.rows += batch.rows
        self.refused.add(batch.refused)
        if not len(batch.row):
            return
        batch.label = self.labels.of(batch.label)
        self.sources.add(batch.source)
        batch.source = None
        if batch.text is not None:
            text = batch.text.fillna("").astype(str).str.strip().str.casefold()
            digest = pd.util.hash_array(text.to_numpy(dtype=object))
            batch.text = np.where((text.str.len() >= SHORTEST_COPY).to_numpy(dtype=bool), digest, np.uint64(0))
        batch.row = batch.row.astype(np.uint32)
        batch.refused = []
        self._batches.append(batch)

    def finish(self, *, duplicates: str, time: NDArray[np.float64] | None = None) -> Collected:
        """All batches as one table. ``time`` replaces the times of the batches if they could only be read at the
        end."""

        def joined(name: str, kind: Any) -> Any:
            arrays = [getattr(batch, name) for batch in self._batches]
            if not arrays or any(array is None for array in arrays):
                return None
            whole = np.concatenate(arrays).astype(kind, copy=False)
            for batch in self._batches:
                setattr(batch, name, None)  # free the pieces at once: a table may fill half of the memory
            return whole

        accuracy, score, looks = (self._numbers(name) for name in ("accuracy", "score", "looks"))
        area = self._numbers("area", fill=False)
        row = joined("row", np.int64)
        if row is None:
            row = np.empty(0, dtype=np.int64)
        places = np.empty((len(row), 2))
        label = np.empty(0, dtype=np.int32)
        if len(row):
            for column, name in enumerate(("lon", "lat")):
                np.concatenate([getattr(batch, name) for batch in self._batches], out=places[:, column])
            for batch in self._batches:
                batch.lon = batch.lat = np.empty(0)
            label = joined("label", np.int32)
        source = self.sources.codes()
        known_source = source is not None
        if source is None:
            source = np.zeros(len(row), dtype=np.int32)
        when = time if time is not None else joined("time", np.float64)
        ids: pd.Series[Any] | None = None
        if self._batches and all(batch.id is not None for batch in self._batches):
            ids = pd.concat([pd.Series(batch.id).reset_index(drop=True) for batch in self._batches], ignore_index=True)
        event = None
        text = joined("text", np.uint64)
        if text is not None and when is not None:
            event = _events(text, when)
        self._batches = []

        duplicate = np.zeros(len(row), dtype=bool)
        if duplicates in ("once", "events"):
            duplicate, ids = _repeated(row, places, label, source if known_source else None, when, ids)
            if duplicates == "events" and event is not None:
                duplicate |= _not_first(event)
        keep = ~duplicate
        dropped = np.count_nonzero(np.diff(row[duplicate], prepend=-1))
        if dropped:
            row, places, label, source = row[keep], places[keep], label[keep], source[keep]
            when = None if when is None else when[keep]
            event = None if event is None else event[keep]
            ids = None if ids is None else ids[keep]
            accuracy = None if accuracy is None else accuracy[keep]
            score = None if score is None else score[keep]
            looks = None if looks is None else looks[keep]
            area = None if area is None else area[keep]
        names = None if ids is None else _or_none(ids)
        return Collected(row, places, label, source, when, names, event, int(dropped), accuracy, score, looks, area)

    def _numbers(self, name: str, fill: float = np.nan) -> NDArray[Any] | None:
        """A column of numbers or flags (accuracy, score, count, area) of all batches; `fill` in those that lack it."""
        stated = [getattr(batch, name) for batch in self._batches]
        if all(values is None for values in stated):
            return None
        return np.concatenate(
            [np.full(len(b.lon), fill) if v is None else v for b, v in zip(self._batches, stated, strict=True)]
        )


def _or_none(ids: pd.Series[Any]) -> LateNames | NDArray[Any]:
    """The cells of a column, None where they are empty."""
    if (text := arrow_text(ids)) is not None:
        return LateNames(text)
    cells = ids.to_numpy(dtype=object)
    absent = ids.isna().to_numpy(dtype=bool)
    if absent.any():
        cells = cells.copy()
        cells[absent] = None
    return cells


ROUNDED = r"\d(?:[.,]\d+)?[eE]\+\d+"  # 1.23457E+15


def _without_shared(ids: pd.Series[Any], source: NDArray[np.int32] | None) -> pd.Series[Any]:
    """The ids without those that rows of several sources share, which identify things that were seen, not reports, and
    without numbers that a spreadsheet has rounded."""
    repeated = np.flatnonzero(ids.duplicated(keep=False).to_numpy(dtype=bool) & ids.notna().to_numpy(dtype=bool))
    who = np.zeros(len(repeated)) if source is None else source[repeated]
    seen = pd.DataFrame({"id": ids.iloc[repeated].to_numpy(dtype=object), "source": who})
    shared = seen.groupby("id")["source"].transform("nunique").to_numpy() > 1
    shared |= seen["id"].astype(str).str.fullmatch(ROUNDED).to_numpy(dtype=bool)
    absent = np.zeros(len(ids), dtype=bool)
    absent[repeated[shared]] = True
    return ids.mask(absent) if absent.any() else ids


def _repeated(
    row: NDArray[np.int64],
    places: NDArray[np.float64],
    label: NDArray[np.int32],
    source: NDArray[np.int32] | None,
    time: NDArray[np.float64] | None,
    ids: pd.Series[Any] | None,
) -> tuple[NDArray[np.bool_], pd.Series[Any] | None]:
    """Which reports are from a row that repeats an earlier one: by id, else by source, place, time and label. And the
    ids, without those that are not ids of reports.

    A row that gives several reports is compared by its first, and kept or dropped as a whole.
    """
    starts = np.ones(len(row), dtype=bool)
    starts[1:] = row[1:] != row[:-1]
    each_alone = bool(starts.all())
    first: Any = slice(None) if each_alone else np.flatnonzero(starts)  # slices need no copies
    repeat = np.zeros(np.count_nonzero(starts), dtype=bool)
    has_id: NDArray[np.bool_] | None = None
    if ids is not None:
        own = ids.iloc[first]
        has_id = own.notna().to_numpy(dtype=bool)
        text = arrow_text(own)
        cells = None if text is None else words(text)
        if cells is None:
            repeat = has_id & own.duplicated().to_numpy(dtype=bool)
        elif not strictly_increasing(cells):  # ids are usually in order, and then all different
            repeat = has_id & _same_rows(cells)
        if repeat.any() and (fewer := _without_shared(ids, source)) is not ids:
            return _repeated(row, places, label, source, time, fewer)
    # Without a source and a time, two people's reports cannot be distinguished, so nothing counts as a duplicate.
    distinguishable = source is not None or (time is not None and bool(np.isfinite(time).any()))
    if distinguishable and (has_id is None or not has_id.all()):
        columns = [column[first] for column in (places[:, 0], places[:, 1], label, source, time) if column is not None]
        if has_id is None:
            repeat = _same_rows(columns)
        else:
            repeat[~has_id] = _same_rows([column[~has_id] for column in columns])
    return (repeat if each_alone else np.asarray(repeat[np.cumsum(starts) - 1])), ids


_BLOCK = 2**15  # rows whose hashes are made together: they stay in the processor's cache


def _same_rows(columns: list[NDArray[Any]]) -> NDArray[np.bool_]:
    """Which rows equal an earlier one in all columns: by a hash first, then exactly among rows with equal hashes."""
    digest = np.empty(len(columns[0]), dtype=np.uint32)
    for start in range(0, len(digest), _BLOCK):
        rows = slice(start, start + _BLOCK)
        digest[rows] = _hashes([column[rows] for column in columns])
    # Few hashes are equal by chance: a hundred in a million rows.
    ordered = np.sort(digest)
    met = ordered[1:][ordered[1:] == ordered[:-1]]
    same = np.zeros(len(digest), dtype=bool)
    if len(met):
        suspects = _members(digest, met)
        frame = pd.DataFrame({i: column[suspects] for i, column in enumerate(columns)})
        same[suspects] = frame.duplicated().to_numpy()
    return same


def _hashes(columns: list[NDArray[Any]]) -> NDArray[np.uint32]:
    digest = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        if column.dtype.kind == "f":
            # −0.0 and 0.0 count as equal, and so do all NaNs (no time): give each of them one pattern of bits.
            number = column + 0.0
            if (unknown := np.isnan(number)).any():
                number[unknown] = np.nan
            digest ^= number.view(np.uint64)
        elif column.dtype.itemsize == 8:
            digest ^= column.view(np.uint64)
        else:
            digest ^= column.astype(np.uint64)
        digest *= np.uint64(0x9E3779B97F4A7C15)
        digest ^= digest >> np.uint64(29)
    return (digest >> np.uint64(32)).astype(np.uint32)


_SLOTS = 2**22  # of a table by the last bits of a hash: it fits into the cache, and few slots are taken


def _members(digest: NDArray[np.uint32], met: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The rows whose hash is one of those that were met twice."""
    taken = np.zeros(_SLOTS, dtype=bool)
    taken[met & (_SLOTS - 1)] = True
    maybe = np.flatnonzero(taken[digest & (_SLOTS - 1)])
    return maybe[np.isin(digest[maybe], met)]


def _events(text: NDArray[np.uint64], time: NDArray[np.float64]) -> NDArray[np.int64]:
    """The number of the event of each report: reports with the same text within minutes are one event; −1 for
    others."""
    event = np.full(len(text), -1, dtype=np.int64)
    candidates = np.flatnonzero((text != 0) & ~np.isnan(time))
    order = candidates[np.lexsort((time[candidates], text[candidates]))]
    if not len(order):
        return event
    together = (np.diff(text[order]) == 0) & (np.diff(time[order]) <= COPIED_WITHIN)
    run = np.cumsum(np.concatenate([[True], ~together])) - 1
    several = np.bincount(run)[run] > 1
    _, number = np.unique(run[several], return_inverse=True)
    event[order[several]] = number
    return event


def _not_first(event: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (event >= 0) & pd.Series(event).duplicated().to_numpy()


def settle_labels(
    names: list[str],
    *,
    positive: str | list[str] | None,
    label_map: Mapping[str, Any] | None,
    file: str | None = None,
) -> tuple[NDArray[np.int64], tuple[Any, ...], list[int]]:
    """What each label of the file becomes: (code of each name, or −1 to leave it out; the labels; the codes in use).

    The label map is applied first, then ``positive``, which leaves two labels: those that were named, and all others.
    """
    mapped: list[str | None] = list(names)
    if label_map is not None:
        known = {folded(str(key)): value for key, value in label_map.items()}
        fallback = known.get("*")
        mapped = []
        for name in names:
            value = known.get(folded(name), name if fallback is None else fallback)
            mapped.append(None if value is False or value == "" else str(value).strip())
    if positive is not None:
        wanted = [folded(p) for p in ([positive] if isinstance(positive, str) else positive)]
        if not all(wanted):
            raise InputError(f"the label to map is empty; the labels are {some(names)}. Choose one of them.")
        hits = [name is not None and any(folded(one) in wanted for one in (name, *answers(name))) for name in mapped]
        if not any(hits):
            hits = [name is not None and any(w in folded(name) for w in wanted) for name in mapped]
        if not any(hits):
            asked = some([positive] if isinstance(positive, str) else list(positive))
            raise InputError(f"no label is {asked}; the labels are {some(names)}. Choose one of them.")
        title = positive if isinstance(positive, str) else " or ".join(positive)
        labels: tuple[Any, ...] = (f"not {title}", title)
        code = [-1 if name is None else int(hit) for name, hit in zip(mapped, hits, strict=True)]
    else:
        if label_map is None:
            _refuse_several(names, file)
        mapped = _yes_or_no(_without_decimals(mapped))
        spelt: dict[str, str] = {}
        for known_name in mapped:
            if known_name is not None:
                spelt.setdefault(folded(known_name), known_name)
        labels = _typed(sorted(spelt.values()))
        place = {folded(str(name)): i for i, name in enumerate(labels)}
        code = [-1 if name is None else place[folded(name)] for name in mapped]
    return np.array(code, dtype=np.int64), labels, sorted({c for c in code if c >= 0})


def answers(name: str) -> list[str]:
    """The answers in a cell that holds several: "flood; damage", ["flood", "damage"]."""
    return [part for each in re.split(r"[,;|]", name.strip("[]{}()")) if (part := each.strip(" \"'"))]


def _refuse_several(names: list[str], file: str | None) -> None:
    """It is an error if a label consists of others: then cells hold several answers at once."""
    alone = {folded(parts[0]) for name in names if len(parts := answers(name)) == 1}
    for name in names:
        parts = answers(name)
        if len(parts) > 1 and all(folded(part) in alone for part in parts):
            raise ReportFormatError(
                f"the label '{name}' is several answers at once.",
                advice=f"--positive '{parts[0]}' maps where this one is among them, --map-labels renames labels.",
                file=file,
            )


def _yes_or_no(names: list[str | None]) -> list[str | None]:
    """Labels that are all words for yes and no, in several ways of writing, as "yes" and "no"."""
    words = {None if name is None else name.casefold() for name in names} - {None}
    if len(words) <= 2 or not words <= YES | NO:
        return names
    return [None if name is None else "yes" if name.casefold() in YES else "no" for name in names]


def _typed(names: list[str]) -> tuple[Any, ...]:
    """Labels as whole numbers if all of them are, else as text."""
    if names and all(name.lstrip("-").isdecimal() and str(int(name)) == name for name in names):
        return tuple(sorted(int(name) for name in names))
    return tuple(names)


_WITH_DECIMALS = re.compile(r"(-?(?:0|[1-9]\d*))\.0+")  # how spreadsheets and pandas write whole numbers beside gaps


def _without_decimals(names: list[str | None]) -> list[str | None]:
    """Labels such as "3.0" as "3", if all labels are such numbers."""
    whole = [None if name is None else _WITH_DECIMALS.fullmatch(name) for name in names]
    plain = [name is None or match or name.lstrip("-").isdecimal() for name, match in zip(names, whole, strict=True)]
    if not all(plain):
        return names
    return [match[1] if match else name for name, match in zip(names, whole, strict=True)]
