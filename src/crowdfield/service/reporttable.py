"""The reports of a map version as columns, for callers who may see them: to filter, list and count them.

A hundred thousand reports take a few megabytes; their texts and accuracies are read from the log only when needed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdfield.service.auth import TRUSTED

ListName = Literal["all", "new", "doubtful", "accepted", "retracted"]
Trust = Literal["trusted", "others"]
# A report is new if it was received at most this many seconds before the newest one.
NEW_SECONDS = 86_400.0


@dataclass(frozen=True)
class Filter:
    """Which reports to choose; fields that are None do not matter."""

    source: str | None = None
    label: str | None = None
    trust: Trust | None = None
    since: float | None = None
    until: float | None = None
    """The time when the event happened, else when the report was received: at `since` or later, and before `until`."""
    timed: bool = False
    """Only reports that say when their event happened."""
    list: ListName = "all"
    bbox: tuple[float, float, float, float] | None = None

    @property
    def needs_reports(self) -> bool:
        """Whether it filters by more than time, which only callers who may see single reports can do."""
        return self != Filter(since=self.since, until=self.until)


@dataclass(frozen=True)
class Moderation:
    """Which reports are doubtful, and which were accepted, by their ids."""

    doubtful: Mapping[str, float]
    """The probability of a report given all others, where it is small."""
    accepted: Collection[str]


@dataclass(frozen=True)
class ReportTable:
    """One entry per report in the order of the log."""

    seq: NDArray[np.int64]
    ids: tuple[str, ...]
    longitude: NDArray[np.float64]
    latitude: NDArray[np.float64]
    source: NDArray[np.int64]
    sources: tuple[str, ...]
    label: NDArray[np.int64]
    labels: tuple[str, ...]
    time: NDArray[np.float64]
    """When the event happened; NaN where the report does not say."""
    received: NDArray[np.float64]
    observations: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Any]) -> "ReportTable":
        sources, labels = tuple(dict.fromkeys(r.source for r in rows)), tuple(dict.fromkeys(r.label for r in rows))
        code = {name: k for k, name in enumerate(sources)}
        word = {name: k for k, name in enumerate(labels)}
        return cls(
            seq=np.array([row.seq for row in rows], dtype=np.int64),
            ids=tuple(str(row.id) for row in rows),
            longitude=np.array([row.longitude for row in rows], dtype=np.float64),
            latitude=np.array([row.latitude for row in rows], dtype=np.float64),
            source=np.array([code[row.source] for row in rows], dtype=np.int64),
            sources=sources,
            label=np.array([word[row.label] for row in rows], dtype=np.int64),
            labels=labels,
            time=np.array([np.nan if row.time is None else row.time for row in rows], dtype=np.float64),
            received=np.array([row.received for row in rows], dtype=np.float64),
            observations=np.array([row.observations or 1 for row in rows], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def moment(self) -> NDArray[np.float64]:
        """When the event happened, else when the report was received."""
        return np.where(np.isnan(self.time), self.received, self.time)

    @cached_property
    def place_in_table(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.ids)}

    def chosen(self, wanted: Filter, moderation: Moderation) -> NDArray[np.bool_]:
        """Which reports match the filter. Retracted reports have a table of their own, so they are not filtered
        here."""
        found = np.ones(len(self), dtype=bool)
        if wanted.source is not None:
            found &= self.source == _code(self.sources, wanted.source)
        if wanted.label is not None:
            found &= self.label == _code(self.labels, wanted.label)
        if wanted.trust is not None:
            trusted = np.array([name.startswith(TRUSTED) for name in self.sources], dtype=bool)
            found &= trusted[self.source] == (wanted.trust == "trusted")
        if wanted.since is not None:
            found &= self.moment >= wanted.since
        if wanted.until is not None:
            found &= self.moment < wanted.until
        if wanted.timed:
            found &= ~np.isnan(self.time)
        if wanted.bbox is not None:
            west, south, east, north = wanted.bbox
            found &= (self.latitude >= south) & (self.latitude <= north)
            after, before = self.longitude >= west, self.longitude <= east
            # A box with west > east goes across the antimeridian.
            found &= after & before if west <= east else after | before
        if wanted.list == "new":
            found &= self.received >= self.received.max(initial=0.0) - NEW_SECONDS
        elif wanted.list in ("doubtful", "accepted"):
            found &= self._named(moderation.doubtful if wanted.list == "doubtful" else moderation.accepted)
        return found

    def order(self, found: NDArray[np.bool_], wanted: Filter, moderation: Moderation) -> NDArray[np.int64]:
        """The chosen reports in the order of the list: the most doubtful first, else the last received first."""
        rows = np.flatnonzero(found)
        if wanted.list == "doubtful":
            return rows[np.argsort([moderation.doubtful[self.ids[k]] for k in rows], kind="stable")]
        return rows[np.argsort(-self.received[rows], kind="stable")]

    def count_sources(self, most: int) -> list[tuple[str, int]]:
        return _counted(self.source, self.sources, most)

    def count_labels(self) -> list[tuple[str, int]]:
        return _counted(self.label, self.labels, len(self.labels))

    def _named(self, names: Collection[str]) -> NDArray[np.bool_]:
        found = np.zeros(len(self), dtype=bool)
        found[[self.place_in_table[name] for name in names if name in self.place_in_table]] = True
        return found


def _code(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else -1


def _counted(codes: NDArray[np.int64], names: Sequence[str], most: int) -> list[tuple[str, int]]:
    """The most frequent names with their counts, the most frequent first."""
    count = np.bincount(codes, minlength=len(names))
    return [(names[k], int(count[k])) for k in np.argsort(-count, kind="stable")[:most]]
