"""The reports behind a map as vector tiles: clustered by zoom, so that a hundred thousand of them are a few kilobytes
at a time. Trusted keys see reports; everybody else the published cells, and sums of their published counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.service.mvt import EXTENT, Point, encode
from crowdfield.service.publishing import CellRow
from crowdfield.service.reporttable import ReportTable
from crowdfield.service.store import Situation

LAYER = "points"
# Reports nearer to each other than this many units (32 pixels of a tile of 512) are drawn as one number in a ring of
# that size. Published cells are drawn as plain dots, which may stand closer (8 pixels).
CLUSTER, CELL_CLUSTER = EXTENT // 16, EXTENT // 64
# From this zoom on only points of the same place are.
CLOSEST = 18
# The latitude at which the map of the web ends.
EDGE = 85.0511287798066

About = dict[str, str | int]


@dataclass(frozen=True)
class PointTable:
    """Points on the square of the web's map, from 0 to 1; `about` tells of each that is drawn alone."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    count: NDArray[np.int64]
    said: NDArray[np.int64]
    """How many say each label, as far as it is told [N, L]."""
    labels: tuple[str, ...]
    about: Callable[[int], About]
    cluster: int

    def __len__(self) -> int:
        return len(self.x)

    def tile(self, z: int, x: int, y: int, chosen: NDArray[np.bool_] | None = None) -> bytes:
        """A vector tile of all points or of chosen ones [N]; nothing at all where it holds no point."""
        across, down = self.x * 2.0**z - x, self.y * 2.0**z - y
        inside = (across >= 0) & (across < 1) & (down >= 0) & (down < 1)
        here = np.flatnonzero(inside if chosen is None else inside & chosen)
        if not len(here):
            return b""
        column, row = ((part[here] * EXTENT).astype(np.int64) for part in (across, down))
        size = self.cluster if z < CLOSEST else 1
        _, group = np.unique((row // size) * EXTENT + column // size, return_inverse=True)
        return encode(LAYER, self._clusters(here, column, row, group.ravel()))

    def _clusters(
        self, here: NDArray[np.int64], column: NDArray[np.int64], row: NDArray[np.int64], group: NDArray[np.int64]
    ) -> list[Point]:
        size = np.bincount(group)
        count = np.bincount(group, weights=self.count[here]).astype(np.int64)
        middle = [np.bincount(group, weights=part) / size for part in (column, row)]
        first = np.zeros(len(size), dtype=np.int64)
        first[group[::-1]] = here[::-1]
        said = np.zeros((len(size), len(self.labels)), dtype=np.int64)
        np.add.at(said, group, self.said[here])
        elsewhere = (self.x[here] != self.x[first[group]]) | (self.y[here] != self.y[first[group]])
        together = np.bincount(group, weights=elsewhere) == 0
        points = []
        for k in range(len(size)):
            told: About = {"count": int(count[k])}
            if said[k].any():
                told["label"] = self.labels[said[k].argmax()]
            if size[k] == 1:
                told |= self.about(int(first[k]))
            else:
                told |= {"points": int(size[k])} | {f"label_{j}": int(said[k, j]) for j in np.flatnonzero(said[k])}
                told |= {"one_place": 1} if together[k] else {}
            points.append(Point(int(middle[0][k]), int(middle[1][k]), told))
        return points


def of_reports(situation: Situation, table: ReportTable) -> PointTable:
    """Reports as they are, for those who may see them."""
    code = np.array([_code(situation, name) for name in table.labels], dtype=np.int64)
    said = np.zeros((len(table), len(situation.labels)), dtype=np.int64)
    label = code[table.label] if len(table) else np.empty(0, dtype=np.int64)
    known = np.flatnonzero(label >= 0)
    said[known, label[known]] = table.looks[known]

    def about(k: int) -> About:
        # Whole seconds, none before 1970: when it happened, else when it came in.
        time = max(0, int(table.moment[k]))
        return {"id": table.ids[k], "source": table.sources[table.source[k]], "time": time}

    places = np.column_stack([table.longitude, table.latitude])
    return PointTable(*_on_square(places), table.looks, said, situation.labels, about, CLUSTER)


def of_cells(situation: Situation, rows: Sequence[CellRow]) -> PointTable:
    """Cells as they are published."""
    centres = situation.grid.centres()[[row.cell for row in rows]]
    places = geography.unproject(centres, situation.crs) if rows else np.empty((0, 2))
    count = np.array([row.count for row in rows], dtype=np.int64)
    said = np.array([[row.labels.get(name, 0) for name in situation.labels] for row in rows], dtype=np.int64)
    said = said.reshape(len(rows), len(situation.labels))
    cells = [row.cell for row in rows]
    return PointTable(*_on_square(places), count, said, situation.labels, lambda k: {"cell": cells[k]}, CELL_CLUSTER)


def _on_square(places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    latitude = np.radians(np.clip(places[:, 1], -EDGE, EDGE))
    y = 0.5 - np.arcsinh(np.tan(latitude)) / (2 * np.pi)
    x = (places[:, 0] + 180.0) / 360.0
    return x % 1.0, np.clip(y, 0.0, 1.0 - 1e-12)


def _code(situation: Situation, label: str) -> int:
    return situation.labels.index(label) if label in situation.labels else -1
