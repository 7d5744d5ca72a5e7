"""Reports by cell, as readers see them: read from the log up to a version, counted, and kept for a while."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdfield import geography
from crowdfield.data import Region
from crowdfield.service.maps import Recent, check_layout
from crowdfield.service.publishing import CellRow, Minimum, PublishedCells, Told, publish_cells
from crowdfield.service.store import Situation, Store, VersionInfo

TABLES_KEPT = 8
# As many as a page can draw; the fullest cells come first.
CELLS_SHOWN = 20_000
PREFIX = "cell-"

Box = tuple[float, float, float, float]


class Cells:
    """The published tables of versions."""

    def __init__(self, store: Store, minimum: Minimum, hours: int):
        self._store, self._minimum, self._hours = store, minimum, hours
        self._recent: Recent[PublishedCells] = Recent(TABLES_KEPT)

    def load(self, situation: Situation, info: VersionInfo) -> PublishedCells:
        check_layout(situation, info)

        def make() -> PublishedCells:
            told = told_by(situation, self._store.standing(situation.id, upto=info.head))
            return publish_cells(told, situation.labels, self._minimum, self._hours)

        # A purge deletes from the log what older versions had seen; then the number of standing reports changes.
        return self._recent.get((situation.id, situation.created, info.number), make)


def told_by(situation: Situation, rows: Sequence[Any]) -> Told:
    """Rows of the log as arrays."""
    labels = {name: k for k, name in enumerate(situation.labels)}
    sources: dict[str, int] = {}
    # A region that was changed may have left reports behind, which can still lie under a corner of its grid.
    inside = np.array([situation.region.holds(row.longitude, row.latitude) for row in rows], dtype=bool)
    metres = geography.transform_visible(
        [(row.longitude, row.latitude) for row in rows], geography.WGS84, situation.crs
    )
    return Told(
        cell=np.where(inside, situation.grid.index(metres), -1) if len(rows) else np.empty(0, dtype=np.int64),
        label=np.array([labels[row.label] for row in rows], dtype=np.int64),
        source=np.array([sources.setdefault(row.source, len(sources)) for row in rows], dtype=np.int64),
        time=np.array([row.received if row.time is None else row.time for row in rows], dtype=np.float64),
        timed=np.array([row.time is not None for row in rows], dtype=bool),
    )


def features(situation: Situation, rows: Sequence[CellRow], box: Box | None = None) -> list[dict[str, Any]]:
    """Cells as points at their centres, which are also what a box (west, south, east, north) is compared with."""
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
    """As many as can be drawn, in the order of cells."""
    chosen = sorted(rows, key=lambda row: -row.count)[:CELLS_SHOWN]
    return sorted(chosen, key=lambda row: row.cell)
