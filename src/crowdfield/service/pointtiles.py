"""The reports of a map as vector tiles, clustered by zoom, so that a tile has a few kilobytes even for a hundred
thousand reports. Trusted keys see reports; all others see the published cells, and sums of their published counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.service.mvt import EXTENT, Point, encode
from crowdfield.service.publishing import CellRow
from crowdfield.service.records import Situation
from crowdfield.service.reporttable import ReportTable

LAYER = "points"
# Reports closer together than this many units (32 pixels of a tile of 512) are drawn as one circle with their number.
# Published cells are drawn as plain dots, which may be closer together (8 pixels).
CLUSTER, CELL_CLUSTER = EXTENT // 16, EXTENT // 64
# Circles closer together than this (24 pixels) would hide each other's numbers, so they are drawn as one.
APART = 3 * CLUSTER // 4
# From this zoom on only points at the same place are clustered.
CLOSEST = 18
# The northernmost latitude of the Web Mercator projection.
EDGE = 85.0511287798066

About = dict[str, str | int]


@dataclass(frozen=True)
class PointTable:
    """Points in Web Mercator coordinates from 0 to 1; `about(k)`: the properties of point k when it is drawn alone."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    count: NDArray[np.int64]
    by_label: NDArray[np.int64]
    """How many reports have each label, as far as the caller may know [N, L]."""
    labels: tuple[str, ...]
    about: Callable[[int], About]
    cluster: int

    def __len__(self) -> int:
        return len(self.x)

    def tile(self, z: int, x: int, y: int, chosen: NDArray[np.bool_] | None = None) -> bytes:
        """A vector tile of all points or of chosen ones [N]; no bytes if it contains no point."""
        across, down = self.x * 2.0**z - x, self.y * 2.0**z - y
        inside = (across >= 0) & (across < 1) & (down >= 0) & (down < 1)
        here = np.flatnonzero(inside if chosen is None else inside & chosen)
        if not len(here):
            return b""
        column, row = ((part[here] * EXTENT).astype(np.int64) for part in (across, down))
        size = self.cluster if z < CLOSEST else 1
        _, group = np.unique((row // size) * EXTENT + column // size, return_inverse=True)
        group = group.ravel()
        if size == CLUSTER:
            group = _merged(column, row, group)
        return encode(LAYER, self._clusters(here, column, row, group))

    def _clusters(
        self, here: NDArray[np.int64], column: NDArray[np.int64], row: NDArray[np.int64], group: NDArray[np.int64]
    ) -> list[Point]:
        """Points of a tile that lie close together, each group as one point with its counts."""
        size = np.bincount(group)
        count = np.bincount(group, weights=self.count[here]).astype(np.int64)
        middle = [np.bincount(group, weights=part) / size for part in (column, row)]
        first = np.zeros(len(size), dtype=np.int64)
        first[group[::-1]] = here[::-1]
        by_label = np.zeros((len(size), len(self.labels)), dtype=np.int64)
        np.add.at(by_label, group, self.by_label[here])
        elsewhere = (self.x[here] != self.x[first[group]]) | (self.y[here] != self.y[first[group]])
        together = np.bincount(group, weights=elsewhere) == 0
        points = []
        for k in range(len(size)):
            properties: About = {"count": int(count[k])}
            if by_label[k].any():
                properties["label"] = self.labels[by_label[k].argmax()]
            if size[k] == 1:
                properties |= self.about(int(first[k]))
            else:
                properties |= {"points": int(size[k])} | {
                    f"label_{j}": int(by_label[k, j]) for j in np.flatnonzero(by_label[k])
                }
                properties |= {"one_place": 1} if together[k] else {}
            points.append(Point(int(middle[0][k]), int(middle[1][k]), properties))
        return points


def _merged(column: NDArray[np.int64], row: NDArray[np.int64], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The groups of points [n]; groups whose middles are closer together than `APART` are merged into the largest."""
    while True:
        size = np.bincount(group)
        x, y = (np.bincount(group, weights=part) / size for part in (column, row))
        into = np.full(len(size), -1)
        for k in np.argsort(-size, kind="stable"):
            if into[k] < 0:
                into[(into < 0) & ((x - x[k]) ** 2 + (y - y[k]) ** 2 < APART**2)] = k
        left, number = np.unique(into, return_inverse=True)
        if len(left) == len(size):
            return group
        group = number.ravel()[group]  # the middles have moved: compare them again


def of_reports(situation: Situation, table: ReportTable) -> PointTable:
    """Exact reports, for callers who may see them."""
    code = np.array([_code(situation, name) for name in table.labels], dtype=np.int64)
    by_label = np.zeros((len(table), len(situation.labels)), dtype=np.int64)
    label = code[table.label] if len(table) else np.empty(0, dtype=np.int64)
    known = np.flatnonzero(label >= 0)
    by_label[known, label[known]] = table.observations[known]

    def about(k: int) -> About:
        # When the event happened, else when the report was received: whole seconds, none before 1970.
        time = max(0, int(table.moment[k]))
        return {"id": table.ids[k], "source": table.sources[table.source[k]], "time": time}

    places = np.column_stack([table.longitude, table.latitude])
    return PointTable(*_web_mercator(places), table.observations, by_label, situation.labels, about, CLUSTER)


def of_cells(situation: Situation, rows: Sequence[CellRow]) -> PointTable:
    """The published cells."""
    centres = situation.grid.centres()[[row.cell for row in rows]]
    places = geography.unproject(centres, situation.crs) if rows else np.empty((0, 2))
    count = np.array([row.count for row in rows], dtype=np.int64)
    by_label = np.array([[row.labels.get(name, 0) for name in situation.labels] for row in rows], dtype=np.int64)
    by_label = by_label.reshape(len(rows), len(situation.labels))
    cells = [row.cell for row in rows]
    return PointTable(
        *_web_mercator(places), count, by_label, situation.labels, lambda k: {"cell": cells[k]}, CELL_CLUSTER
    )


def _web_mercator(places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    latitude = np.radians(np.clip(places[:, 1], -EDGE, EDGE))
    y = 0.5 - np.arcsinh(np.tan(latitude)) / (2 * np.pi)
    x = (places[:, 0] + 180.0) / 360.0
    return x % 1.0, np.clip(y, 0.0, 1.0 - 1e-12)


def _code(situation: Situation, label: str) -> int:
    return situation.labels.index(label) if label in situation.labels else -1
