"""What readers may see of reports and of reasons: every filter, count and page for readers works on these tables only.

A published table is a function of a map version alone. Whatever a reader asks, with whichever box, time or page, is
answered from it, so no series of questions can find out more than the table itself says:

- a place is a cell of the map, a time a period of whole days (or `hours`) of UTC;
- a cell is told only if it holds at least a minimum of reports from at least a minimum of sources, and so is a label
  within it, and so is a period of it;
- counts are rounded down to multiples of that minimum, so that a single report more rarely shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Grid

HOUR = 3600.0
# The largest share of a group of reasons that one source may have: otherwise the group would reveal that source.
DOMINANCE = 0.5
# A report counts towards the minimum of a group only if it moves the place by at least this share of what the
# strongest does: on a smooth map every report moves every place by next to nothing.
NOTICEABLE = 0.1
# Reasons are told to readers in steps of this many log odds.
REASON_STEP = 0.1
# Readers are offered the times of events where at least this share of the reports say when things happened. The others
# count when they came in; where those are the majority, days would be shown on which nothing is known to have happened.
TIMED_SHARE = 0.5
# Digits of what readers are told about the reliability of a source.
SOURCE_DIGITS = 2


@dataclass(frozen=True)
class Minimum:
    """How many reports, and of how many sources, are told together."""

    reports: int
    sources: int

    def rounded(self, count: int) -> int:
        return count - count % self.reports

    def met(self, reports: int, sources: int) -> bool:
        return reports >= self.reports and sources >= self.sources


@dataclass(frozen=True)
class Told:
    """The reports behind a version as arrays, one entry per report; cells off the map are -1."""

    cell: NDArray[np.int64]
    label: NDArray[np.int64]
    source: NDArray[np.int64]
    time: NDArray[np.float64]
    """When it happened, else when it came in."""
    timed: NDArray[np.bool_]
    """Whether the report says when it happened."""


@dataclass(frozen=True)
class CellRow:
    """A cell that readers may see: its reports, and those of each label that has enough of them."""

    cell: int
    count: int
    labels: dict[str, int]

    @property
    def label(self) -> str | None:
        """What most reports say, as far as it may be told."""
        return max(self.labels, key=lambda name: self.labels[name]) if self.labels else None


@dataclass(frozen=True)
class PublishedCells:
    """All that readers may learn about where and when reports of a version were made."""

    whole: tuple[CellRow, ...]
    periods: dict[int, tuple[CellRow, ...]]
    """By number of the period since 1970."""
    hours: int
    timed: bool
    """Whether at least half of the reports say when things happened."""

    def select(self, since: float | None = None, until: float | None = None) -> list[CellRow]:
        """The cells of all times, or, where a time is asked for, those of the periods that it touches."""
        if since is None and until is None:
            return list(self.whole)
        length = self.hours * HOUR
        first = -np.inf if since is None else np.floor(since / length)
        last = np.inf if until is None else np.floor(until / length)
        return _joined([rows for number, rows in sorted(self.periods.items()) if first <= number <= last])

    def count(self, cell: int) -> int | None:
        return next((row.count for row in self.whole if row.cell == cell), None)

    def counts(self, grid: Grid) -> NDArray[np.int32]:
        """Published counts on the grid, 0 where nothing is told.   [rows, columns]"""
        counts = np.zeros(grid.size, dtype=np.int32)
        for row in self.whole:
            counts[row.cell] = row.count
        return counts.reshape(grid.shape)


def publish_cells(told: Told, labels: Sequence[str], minimum: Minimum, hours: int) -> PublishedCells:
    """The published table of a version's reports."""
    on = told.cell >= 0
    period = np.floor(told.time / (hours * HOUR)).astype(np.int64)
    return PublishedCells(
        whole=_rows(told, on, labels, minimum),
        periods={
            int(number): rows
            for number in np.unique(period[on])
            if (rows := _rows(told, on & (period == number), labels, minimum))
        },
        hours=hours,
        timed=bool(on.any() and np.mean(told.timed[on]) >= TIMED_SHARE),
    )


def _rows(told: Told, chosen: NDArray[np.bool_], labels: Sequence[str], minimum: Minimum) -> tuple[CellRow, ...]:
    cells, which = np.unique(told.cell[chosen], return_inverse=True)
    label, source = told.label[chosen], told.source[chosen]
    by_label = np.zeros((len(cells), len(labels)), dtype=np.int64)
    np.add.at(by_label, (which, label), 1)
    sources = _distinct(which, source, len(cells))
    by_both = np.stack([_distinct(which[label == k], source[label == k], len(cells)) for k in range(len(labels))], 1)
    reports = by_label.sum(axis=1)
    rows = []
    for i in np.flatnonzero((reports >= minimum.reports) & (sources >= minimum.sources)):
        kept = {
            name: minimum.rounded(int(n))
            for name, n, of in zip(labels, by_label[i], by_both[i], strict=True)
            if minimum.met(int(n), int(of))
        }
        rows.append(CellRow(int(cells[i]), minimum.rounded(int(reports[i])), kept))
    return tuple(rows)


def _distinct(group: NDArray[np.int64], value: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """How many different values each group has."""
    values = int(value.max(initial=0)) + 1
    return np.bincount(np.unique(group * values + value) // values, minlength=groups)


def _joined(parts: Sequence[Sequence[CellRow]]) -> list[CellRow]:
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
    """What one report contributed to a place, in log odds."""

    source: str
    log_odds: float


def grouped_reasons(shares: Sequence[Share], minimum: Minimum) -> list[dict[str, Any]]:
    """Reasons without anybody's name: for and against where both can be told, else all together, else nothing."""
    sides = {
        "for": [s for s in shares if s.log_odds > 0],
        "against": [s for s in shares if s.log_odds < 0],
    }
    told = {name: group for name, side in sides.items() if (group := _group(name, side, minimum))}
    if all(name in told for name, side in sides.items() if side):
        return list(told.values())
    together = _group("all", list(shares), minimum)
    return [together] if together else []


def _group(name: str, shares: Sequence[Share], minimum: Minimum) -> dict[str, Any] | None:
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
    """Log odds in the steps that readers see."""
    return round(round(log_odds / REASON_STEP) * REASON_STEP, 6)


def published_sources(table: Sequence[dict[str, Any]], minimum: Minimum) -> tuple[list[dict[str, Any]], int]:
    """Sources with enough reports, in coarse numbers and without the trust that was set; and how many are left out."""
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
