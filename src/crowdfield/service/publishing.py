"""What readers may see of reports and reasons: every filter, count and list for readers uses only these tables.

A published table depends on a map version only. All requests of readers, with any box, time or page, are answered from
it, so no series of requests can reveal more than the table itself:

- a place is a cell of the map, and a time is a period of whole days (or `hours`) in UTC;
- a cell is published only if it has at least a minimum number of reports from at least a minimum number of sources; the
  same holds for a label within a cell, and for a period;
- counts are rounded down to multiples of that minimum, so that one more report rarely changes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Grid

HOUR = 3600.0
# The largest share that one source may have in a group of reasons; with more, the group would reveal that source.
DOMINANCE = 0.5
# A report counts towards the minimum of a group only if its influence on the place is at least this fraction of the
# strongest one: on a smooth map every report has some tiny influence on every place.
NOTICEABLE = 0.1
# Readers see reasons rounded to this many log odds.
REASON_STEP = 0.1
# Readers see the times of events only if at least this share of the reports say when their event happened. The other
# reports count at the time when they were received, which says nothing about when anything happened.
TIMED_SHARE = 0.5
# Decimal places of the reliability of a source that readers see.
SOURCE_DIGITS = 2


@dataclass(frozen=True)
class Minimum:
    """The fewest reports, and the fewest sources, that are published together."""

    reports: int
    sources: int

    def rounded(self, count: int) -> int:
        return count - count % self.reports

    def met(self, reports: int, sources: int) -> bool:
        return reports >= self.reports and sources >= self.sources


@dataclass(frozen=True)
class ReportArrays:
    """The reports of a version as arrays, one entry per report; the cell of a report outside the map is -1."""

    cell: NDArray[np.int64]
    label: NDArray[np.int64]
    source: NDArray[np.int64]
    time: NDArray[np.float64]
    """When the event happened, else when the report was received."""
    timed: NDArray[np.bool_]
    """Whether the report says when its event happened."""


@dataclass(frozen=True)
class CellRow:
    """A cell that readers may see: its number of reports, and that of each label with enough of them."""

    cell: int
    count: int
    labels: dict[str, int]

    @property
    def label(self) -> str | None:
        """The most frequent of the published labels."""
        return max(self.labels, key=lambda name: self.labels[name]) if self.labels else None


@dataclass(frozen=True)
class PublishedCells:
    """All that readers may learn about where and when the reports of a version were made."""

    whole: tuple[CellRow, ...]
    periods: dict[int, tuple[CellRow, ...]]
    """The cells of each period, by the number of the period since 1970."""
    hours: int
    timed: bool
    """Whether at least half of the reports say when their event happened."""

    def select(self, since: float | None = None, until: float | None = None) -> list[CellRow]:
        """The cells over all times; with `since` or `until`, the sums over the periods that overlap with that time."""
        if since is None and until is None:
            return list(self.whole)
        length = self.hours * HOUR
        first = -np.inf if since is None else np.floor(since / length)
        last = np.inf if until is None else np.floor(until / length)
        return _joined([rows for number, rows in sorted(self.periods.items()) if first <= number <= last])

    def count(self, cell: int) -> int | None:
        return next((row.count for row in self.whole if row.cell == cell), None)

    def counts(self, grid: Grid) -> NDArray[np.int32]:
        """Published counts on the grid, 0 where nothing is published.   [rows, columns]"""
        counts = np.zeros(grid.size, dtype=np.int32)
        for row in self.whole:
            counts[row.cell] = row.count
        return counts.reshape(grid.shape)


def publish_cells(reports: ReportArrays, labels: Sequence[str], minimum: Minimum, hours: int) -> PublishedCells:
    """The published table of a version's reports."""
    on = reports.cell >= 0
    period = np.floor(reports.time / (hours * HOUR)).astype(np.int64)
    return PublishedCells(
        whole=_rows(reports, on, labels, minimum),
        periods={
            int(number): rows
            for number in np.unique(period[on])
            if (rows := _rows(reports, on & (period == number), labels, minimum))
        },
        hours=hours,
        timed=bool(on.any() and np.mean(reports.timed[on]) >= TIMED_SHARE),
    )


def _rows(
    reports: ReportArrays, chosen: NDArray[np.bool_], labels: Sequence[str], minimum: Minimum
) -> tuple[CellRow, ...]:
    """The cells with enough chosen reports by enough sources, with rounded counts."""
    cells, which = np.unique(reports.cell[chosen], return_inverse=True)
    label, source = reports.label[chosen], reports.source[chosen]
    by_label = np.zeros((len(cells), len(labels)), dtype=np.int64)
    np.add.at(by_label, (which, label), 1)
    sources = _distinct(which, source, len(cells))
    by_both = np.stack([_distinct(which[label == k], source[label == k], len(cells)) for k in range(len(labels))], 1)
    count = by_label.sum(axis=1)
    rows = []
    for i in np.flatnonzero((count >= minimum.reports) & (sources >= minimum.sources)):
        kept = {
            name: minimum.rounded(int(n))
            for name, n, of in zip(labels, by_label[i], by_both[i], strict=True)
            if minimum.met(int(n), int(of))
        }
        rows.append(CellRow(int(cells[i]), minimum.rounded(int(count[i])), kept))
    return tuple(rows)


def _distinct(group: NDArray[np.int64], value: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """How many different values each group has."""
    values = int(value.max(initial=0)) + 1
    return np.bincount(np.unique(group * values + value) // values, minlength=groups)


def _joined(parts: Sequence[Sequence[CellRow]]) -> list[CellRow]:
    """Cells of several periods, with their published counts added up."""
    found: dict[int, CellRow] = {}
    for row in (row for rows in parts for row in rows):
        before = found.get(row.cell)
        if before is None:
            found[row.cell] = row
            continue
        labels = {name: before.labels.get(name, 0) + row.labels.get(name, 0) for name in (*before.labels, *row.labels)}
        found[row.cell] = CellRow(row.cell, before.count + row.count, labels)
    return [found[cell] for cell in sorted(found)]


@dataclass(frozen=True)
class Share:
    """The contribution of one report to a place, in log odds."""

    source: str
    log_odds: float


def grouped_reasons(shares: Sequence[Share], minimum: Minimum) -> list[dict[str, Any]]:
    """Reasons without names: for and against if both may be published, else both together if that may be, else none."""
    sides = {
        "for": [s for s in shares if s.log_odds > 0],
        "against": [s for s in shares if s.log_odds < 0],
    }
    groups = {name: group for name, side in sides.items() if (group := _group(name, side, minimum))}
    if all(name in groups for name, side in sides.items() if side):
        return list(groups.values())
    together = _group("all", list(shares), minimum)
    return [together] if together else []


def _group(name: str, shares: Sequence[Share], minimum: Minimum) -> dict[str, Any] | None:
    """A group of reasons as readers may see it; None if too few reports or sources are behind it."""
    most = max((abs(s.log_odds) for s in shares), default=0.0)
    noticed = [s for s in shares if most > 0 and abs(s.log_odds) >= NOTICEABLE * most]
    by_source: dict[str, float] = {}
    for share in shares:
        by_source[share.source] = by_source.get(share.source, 0.0) + abs(share.log_odds)
    sources = {s.source for s in noticed}
    if not minimum.met(len(noticed), len(sources)):
        return None
    if max(by_source.values()) > DOMINANCE * sum(by_source.values()):
        return None
    return {
        "group": name,
        "log_odds": coarse(sum(s.log_odds for s in shares)),
        "reports": minimum.rounded(len(noticed)),
        "sources": len(sources) - len(sources) % minimum.sources,
    }


def coarse(log_odds: float) -> float:
    """Log odds, rounded to the steps that readers see."""
    return round(round(log_odds / REASON_STEP) * REASON_STEP, 6)


def published_sources(table: Sequence[dict[str, Any]], minimum: Minimum) -> tuple[list[dict[str, Any]], int]:
    """Sources with enough reports, in rounded numbers and without their trust setting; and how many are left out."""
    kept = [row for row in table if row["reports"] >= minimum.reports]
    shown = [
        {name: _coarser(value) for name, value in row.items() if name != "trust"}
        | {"reports": minimum.rounded(row["reports"])}
        for row in kept
    ]
    left = len(table) - len(kept)
    return shown, left - left % minimum.sources


def _coarser(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, SOURCE_DIGITS)
    if isinstance(value, list):
        return [_coarser(inner) for inner in value]
    return value
