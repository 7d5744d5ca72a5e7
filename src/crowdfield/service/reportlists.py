"""Lists of reports for callers who may see them, made in a helper process: pages of a list, one report, points,
times."""

from collections.abc import Callable
from typing import Any

import numpy as np

from crowdfield.service import eventtimes, pointtiles
from crowdfield.service.answers import NO_SUCH_REPORT, exact_features
from crowdfield.service.cells import Cells
from crowdfield.service.maps import RecentCache
from crowdfield.service.pointtiles import PointTable
from crowdfield.service.problems import Problem
from crowdfield.service.records import Situation, VersionInfo
from crowdfield.service.reporttable import Filter, Moderation, ReportTable
from crowdfield.service.store import Store

# How many tables of reports and of points are cached: each takes about 30 MB for 100,000 reports.
TABLES_KEPT = 4
# The most retracted reports, and the most doubtful reports, in a list.
MOST_MODERATED = 500
# The most sources that a list can be filtered by: those with the most reports.
SOURCES_OFFERED = 500
# A report is doubtful if its label has less than this probability given all other reports.
DOUBTFUL = 0.25
NO_MODERATION = Moderation({}, ())

ReportProbabilities = Callable[[Situation, VersionInfo], dict[str, float]]
"""By id, the probability of each report given all others; empty for a version whose model is no longer stored."""


class ReportLists:
    """Lists of reports, with a cache of the tables of recent versions."""

    def __init__(self, store: Store, cells: Cells, probabilities: ReportProbabilities):
        self._store, self._cells, self._report_probabilities = store, cells, probabilities
        self._tables: RecentCache[ReportTable] = RecentCache(TABLES_KEPT)
        self._points: RecentCache[PointTable] = RecentCache(TABLES_KEPT)
        self._cell_points: RecentCache[PointTable] = RecentCache(TABLES_KEPT)
        self._moderation: RecentCache[Moderation] = RecentCache(TABLES_KEPT)

    def page(self, situation: Situation, info: VersionInfo, wanted: Filter, offset: int, limit: int) -> dict[str, Any]:
        """One page of the reports that match a filter, and the sources and labels to filter by."""
        moderation = self.moderation(situation, info)
        table = self._retracted(situation) if wanted.list == "retracted" else self._standing(situation, info)
        found = table.chosen(wanted, moderation)
        rows = table.order(found, wanted, moderation)[offset : offset + limit]
        return {
            "type": "FeatureCollection",
            "version": info.number,
            "total": len(table),
            "numberMatched": int(found.sum()),
            "features": self._features(situation, table, rows.tolist(), moderation, gone=wanted.list == "retracted"),
            "sources": table.count_sources(SOURCES_OFFERED),
            "labels": table.count_labels(),
        }

    def one(self, situation: Situation, info: VersionInfo, report: str) -> dict[str, Any]:
        moderation = self.moderation(situation, info)
        for table, gone in ((self._standing(situation, info), False), (self._retracted(situation), True)):
            if report in table.place_in_table:
                row = table.place_in_table[report]
                return self._features(situation, table, [row], moderation, gone=gone)[0]
        raise Problem(404, NO_SUCH_REPORT)

    def moderation(self, situation: Situation, info: VersionInfo) -> Moderation:
        """The doubtful reports that nobody has accepted, the most doubtful first; and the accepted ones."""

        def make() -> Moderation:
            accepted = self._store.accepted(situation.id)
            probabilities = self._report_probabilities(situation, info).items()
            doubtful = [(p, name) for name, p in probabilities if p < DOUBTFUL and name not in set(accepted)]
            return Moderation({name: round(p, 4) for p, name in sorted(doubtful)[:MOST_MODERATED]}, tuple(accepted))

        return self._moderation.get(self._key(situation, info), make)

    def retracted(self, situation: Situation) -> list[dict[str, Any]]:
        """The reports that were retracted last."""
        return exact_features(self._store.retracted(situation.id, MOST_MODERATED))

    def point_tile(
        self, situation: Situation, info: VersionInfo, z: int, x: int, y: int, wanted: Filter, *, exact: bool
    ) -> bytes:
        if exact:
            table = self._standing(situation, info)
            points = self._points.get(self._key(situation, info), lambda: pointtiles.of_reports(situation, table))
            return points.tile(z, x, y, table.chosen(wanted, NO_MODERATION))
        # Published periods include both ends, but the time `until` itself is excluded.
        since, until = wanted.since, None if wanted.until is None else float(np.nextafter(wanted.until, -np.inf))
        key = (situation.id, situation.created, info.number, since, until)

        def make() -> PointTable:
            return pointtiles.of_cells(situation, self._cells.load(situation, info).select(since, until))

        return self._cell_points.get(key, make).tile(z, x, y)

    def times(self, situation: Situation, info: VersionInfo, *, exact: bool) -> dict[str, Any]:
        """The number of reports, or of published reports, in each step of the time of events."""
        if exact:
            return eventtimes.of_reports(self._standing(situation, info))
        return eventtimes.of_cells(self._cells.load(situation, info))

    def _standing(self, situation: Situation, info: VersionInfo) -> ReportTable:
        def make() -> ReportTable:
            # Reports retracted since the version was published disappear at once.
            gone = {row.id for row in self._store.retracted(situation.id, MOST_MODERATED)}
            rows = self._store.active_reports(situation.id, upto=info.head)
            return ReportTable.of([row for row in rows if row.id not in gone])

        return self._tables.get((*self._key(situation, info), "standing"), make)

    def _retracted(self, situation: Situation) -> ReportTable:
        key = (situation.id, situation.created, situation.head, "retracted")
        return self._tables.get(key, lambda: ReportTable.of(self._store.retracted(situation.id, MOST_MODERATED)))

    def _key(self, situation: Situation, info: VersionInfo) -> tuple[Any, ...]:
        # A purge moves the head of the log, so that cached reports are not used after it.
        return (situation.id, situation.created, info.number, situation.head)

    def _features(
        self, situation: Situation, table: ReportTable, rows: list[int], moderation: Moderation, *, gone: bool
    ) -> list[dict[str, Any]]:
        """Reports in full, from the log; in the order of `rows`."""
        by_seq = {row.seq: row for row in self._store.entries(situation.id, [int(table.seq[k]) for k in rows])}
        features = exact_features([by_seq[int(table.seq[k])] for k in rows if int(table.seq[k]) in by_seq])
        for feature in features:
            name = feature["id"]
            feature["properties"] |= {
                "doubt": moderation.doubtful.get(name),
                "accepted": name in moderation.accepted,
                "retracted": gone,
            }
        return features
