"""Counts of reports by cell, as readers see them: read from the log up to a version, and cached."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdfield import geography
from crowdfield.data import Region
from crowdfield.service.maps import RecentCache, check_layout
from crowdfield.service.publishing import CellRow, Minimum, PublishedCells, ReportArrays, publish_cells
from crowdfield.service.records import Situation, VersionInfo
from crowdfield.service.store import Store

TABLES_KEPT = 8
# The most cells that a page can draw; those with the most reports are preferred.
CELLS_SHOWN = 20_000
PREFIX = "cell-"
# The columns of a report that are read.
NEEDED = ("longitude", "latitude", "label", "source", "time", "received")

Box = tuple[float, float, float, float]


class Cells:
    """The published tables of cells, one for each version."""

    def __init__(self, store: Store, minimum: Minimum, hours: int):
        self._store, self._minimum, self._hours = store, minimum, hours
        self._recent: RecentCache[PublishedCells] = RecentCache(TABLES_KEPT)

    def load(self, situation: Situation, info: VersionInfo) -> PublishedCells:
        check_layout(situation, info)

        def make() -> PublishedCells:
            rows = self._store.active_reports(situation.id, upto=info.head, columns=NEEDED)
            reports = report_arrays(situation, rows)
            return publish_cells(reports, situation.labels, self._minimum, self._hours)

        # A purge deletes reports of older versions from the log, so the table of an old version may change.
        return self._recent.get((situation.id, situation.created, info.number), make)


def report_arrays(situation: Situation, rows: Sequence[Any]) -> ReportArrays:
    """Rows of the log with the columns `NEEDED`, as arrays."""
    if not rows:
        none = np.empty(0)
        return ReportArrays(none.astype(int), none.astype(int), none.astype(int), none, none.astype(bool))
    longitude, latitude, label, source, time, received = zip(*rows, strict=True)
    labels = {name: k for k, name in enumerate(situation.labels)}
    sources = {name: k for k, name in enumerate(dict.fromkeys(source))}
    degrees = np.column_stack([longitude, latitude]).astype(np.float64)
    happened = np.array(time, dtype=np.float64)  # NaN where a report does not say when
    timed = np.isfinite(happened)
    metres = geography.transform_visible(degrees, geography.WGS84, situation.crs)
    return ReportArrays(
        # After a change of the region, reports outside it may still lie under a corner of its grid.
        cell=np.where(situation.region.holds_each(degrees), situation.grid.index(metres), -1),
        label=np.array([labels[name] for name in label], dtype=np.int64),
        source=np.array([sources[name] for name in source], dtype=np.int64),
        time=np.where(timed, happened, np.array(received, dtype=np.float64)),
        timed=timed,
    )


def features(situation: Situation, rows: Sequence[CellRow], box: Box | None = None) -> list[dict[str, Any]]:
    """Cells as points at their centres. With a box (west, south, east, north), only cells whose centre is inside."""
    if not rows:
        return []
    centres = geography.unproject(situation.grid.centres()[[row.cell for row in rows]], situation.crs)
    inside = [box is None or Region(*box).holds(*centre) for centre in centres.tolist()]
    return [
        {
            "type": "Feature",
            "id": f"{PREFIX}{row.cell}",
            "geometry": {"type": "Point", "coordinates": centre},
            "properties": {"count": row.count, "label": row.label, "labels": row.labels},
        }
        for row, centre, wanted in zip(rows, centres.tolist(), inside, strict=True)
        if wanted
    ]


def fullest(rows: Sequence[CellRow]) -> list[CellRow]:
    """The cells with the most reports, as many as can be drawn, in the order of the grid."""
    chosen = sorted(rows, key=lambda row: -row.count)[:CELLS_SHOWN]
    return sorted(chosen, key=lambda row: row.cell)
