"""Reports as a helper process tells them to those who may see them: pages of a list, one report, points, times."""

from collections.abc import Callable
from typing import Any

import numpy as np

from crowdfield.service import eventtimes, pointtiles
from crowdfield.service.answers import NO_SUCH_REPORT, exact_features
from crowdfield.service.cells import Cells
from crowdfield.service.maps import Recent
from crowdfield.service.pointtiles import PointTable
from crowdfield.service.problems import Problem
from crowdfield.service.reporttable import Filter, Judged, ReportTable
from crowdfield.service.store import Situation, Store, VersionInfo

# Tables of reports and of points: some 30 MB for 100,000 reports.
TABLES_KEPT = 4
# Reports that were taken back in a list, and reports that the map doubts.
MODERATED = 500
# Sources that can be chosen in a list: those with the most reports.
SOURCES_OFFERED = 500
# A report is doubtful where the map, without it, gives what it says less than this probability.
DOUBTFUL = 0.25
NOTHING_JUDGED = Judged({}, ())

Chances = Callable[[Situation, VersionInfo], dict[str, float]]
"""By id, the probability of what each report says given all others; empty for a version whose model is gone."""


class ReportLists:
    """The tables of the versions that were asked for last."""

    def __init__(self, store: Store, cells: Cells, chances: Chances):
        self._store, self._cells, self._chances = store, cells, chances
        self._tables: Recent[ReportTable] = Recent(TABLES_KEPT)
        self._points: Recent[PointTable] = Recent(TABLES_KEPT)
        self._cell_points: Recent[PointTable] = Recent(TABLES_KEPT)
        self._judged: Recent[Judged] = Recent(TABLES_KEPT)

    def page(self, situation: Situation, info: VersionInfo, wanted: Filter, offset: int, limit: int) -> dict[str, Any]:
        """Some of the reports that pass a filter, and what there is to filter by."""
        judged = self.judged(situation, info)
        table = self._retracted(situation) if wanted.list == "retracted" else self._standing(situation, info)
        found = table.chosen(wanted, judged)
        rows = table.order(found, wanted, judged)[offset : offset + limit]
        return {
            "type": "FeatureCollection",
            "version": info.number,
            "total": len(table),
            "numberMatched": int(found.sum()),
            "features": self._features(situation, table, rows.tolist(), judged, gone=wanted.list == "retracted"),
            "sources": table.count_sources(SOURCES_OFFERED),
            "labels": table.count_labels(),
        }

    def one(self, situation: Situation, info: VersionInfo, report: str) -> dict[str, Any]:
        judged = self.judged(situation, info)
        for table, gone in ((self._standing(situation, info), False), (self._retracted(situation), True)):
            if report in table.place_in_table:
                row = table.place_in_table[report]
                return self._features(situation, table, [row], judged, gone=gone)[0]
        raise Problem(404, NO_SUCH_REPORT)

    def judged(self, situation: Situation, info: VersionInfo) -> Judged:
        """What the map doubts and nobody has accepted, the most doubtful first; and what was accepted."""

        def make() -> Judged:
            accepted = self._store.accepted(situation.id)
            chances = self._chances(situation, info).items()
            doubtful = [(p, name) for name, p in chances if p < DOUBTFUL and name not in set(accepted)]
            return Judged({name: round(p, 4) for p, name in sorted(doubtful)[:MODERATED]}, tuple(accepted))

        return self._judged.get(self._key(situation, info), make)

    def retracted(self, situation: Situation) -> list[dict[str, Any]]:
        """The reports that were taken back last."""
        return exact_features(self._store.retracted(situation.id, MODERATED))

    def point_tile(
        self, situation: Situation, info: VersionInfo, z: int, x: int, y: int, wanted: Filter, *, exact: bool
    ) -> bytes:
        if exact:
            table = self._standing(situation, info)
            points = self._points.get(self._key(situation, info), lambda: pointtiles.of_reports(situation, table))
            return points.tile(z, x, y, table.chosen(wanted, NOTHING_JUDGED))
        # Published periods are chosen by moments in them; the moment `until` itself is not wanted any more.
        since, until = wanted.since, None if wanted.until is None else float(np.nextafter(wanted.until, -np.inf))
        key = (situation.id, situation.created, info.number, since, until)

        def make() -> PointTable:
            return pointtiles.of_cells(situation, self._cells.load(situation, info).select(since, until))

        return self._cell_points.get(key, make).tile(z, x, y)

    def times(self, situation: Situation, info: VersionInfo, *, exact: bool) -> dict[str, Any]:
        """How many reports, or published reports, there are by steps of the time when things happened."""
        if exact:
            return eventtimes.of_reports(self._standing(situation, info))
        return eventtimes.of_cells(self._cells.load(situation, info))

    def _standing(self, situation: Situation, info: VersionInfo) -> ReportTable:
        def make() -> ReportTable:
            # What was taken back since the version was made is gone at once.
            gone = {row.id for row in self._store.retracted(situation.id, MODERATED)}
            rows = self._store.standing(situation.id, upto=info.head)
            return ReportTable.of([row for row in rows if row.id not in gone])

        return self._tables.get((*self._key(situation, info), "standing"), make)

    def _retracted(self, situation: Situation) -> ReportTable:
        key = (situation.id, situation.created, situation.head, "retracted")
        return self._tables.get(key, lambda: ReportTable.of(self._store.retracted(situation.id, MODERATED)))

    def _key(self, situation: Situation, info: VersionInfo) -> tuple[Any, ...]:
        # A purge moves the head of the log: what was read before it is not told any more.
        return (situation.id, situation.created, info.number, situation.head)

    def _features(
        self, situation: Situation, table: ReportTable, rows: list[int], judged: Judged, *, gone: bool
    ) -> list[dict[str, Any]]:
        """Reports in full, from the log; in the order of `rows`."""
        by_seq = {row.seq: row for row in self._store.entries(situation.id, [int(table.seq[k]) for k in rows])}
        features = exact_features([by_seq[int(table.seq[k])] for k in rows if int(table.seq[k]) in by_seq])
        for feature in features:
            name = feature["id"]
            feature["properties"] |= {
                "doubt": judged.doubtful.get(name),
                "accepted": name in judged.accepted,
                "retracted": gone,
            }
        return features
