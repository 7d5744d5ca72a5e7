"""The reports behind a map as vector tiles: clustered by zoom, so that a hundred thousand of them are a few kilobytes
at a time. Trusted keys see reports; everybody else the published cells, and sums of their published counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.service.mvt import EXTENT, Point, encode
from crowdfield.service.publishing import CellRow
from crowdfield.service.store import Situation

LAYER = "points"
# Points nearer to each other than this many units (8 pixels of a tile of 512) are drawn as one.
CLUSTER = EXTENT // 64
# From this zoom on only points of the same place are.
CLOSEST = 18
# The latitude at which the map of the web ends.
EDGE = 85.0511287798066
NO_LABEL = -1


@dataclass(frozen=True)
class PointTable:
    """Points on the square of the web's map, from 0 to 1; `about` is what is told of each that is drawn alone."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    count: NDArray[np.int64]
    label: NDArray[np.int64]
    labels: tuple[str, ...]
    about: tuple[dict[str, str | int], ...]

    def __len__(self) -> int:
        return len(self.x)

    def tile(self, z: int, x: int, y: int) -> bytes:
        """A vector tile, or nothing at all where it holds no point."""
        across, down = self.x * 2.0**z - x, self.y * 2.0**z - y
        here = np.flatnonzero((across >= 0) & (across < 1) & (down >= 0) & (down < 1))
        if not len(here):
            return b""
        column, row = ((part[here] * EXTENT).astype(np.int64) for part in (across, down))
        size = CLUSTER if z < CLOSEST else 1
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
        said = self._most_said(here, group, len(size))
        points = []
        for k in range(len(size)):
            told: dict[str, str | int] = {"count": int(count[k])}
            if said[k] != NO_LABEL:
                told["label"] = self.labels[said[k]]
            if size[k] == 1:
                told |= self.about[first[k]]
            points.append(Point(int(middle[0][k]), int(middle[1][k]), told))
        return points

    def _most_said(self, here: NDArray[np.int64], group: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
        """What most reports of each group say, as far as it is known."""
        by_label = np.zeros((groups, len(self.labels)))
        known = self.label[here] != NO_LABEL
        np.add.at(by_label, (group[known], self.label[here][known]), self.count[here][known])
        return np.where(by_label.any(axis=1), by_label.argmax(axis=1), NO_LABEL)


def of_reports(situation: Situation, rows: Sequence[Any]) -> PointTable:
    """Reports as they are, for those who may see them."""
    label = [_code(situation, row.label) for row in rows]
    about: tuple[dict[str, str | int], ...] = tuple(
        {"id": str(row.id), "source": str(row.source), "time": _seconds(row)} for row in rows
    )
    places = np.array([(row.longitude, row.latitude) for row in rows], dtype=np.float64).reshape(-1, 2)
    looks = np.array([row.looks or 1 for row in rows], dtype=np.int64)
    return _table(places, looks, label, situation, about)


def of_cells(situation: Situation, rows: Sequence[CellRow]) -> PointTable:
    """Cells as they are published."""
    centres = situation.grid.centres()[[row.cell for row in rows]]
    places = geography.unproject(centres, situation.crs) if rows else np.empty((0, 2))
    count = np.array([row.count for row in rows], dtype=np.int64)
    about: tuple[dict[str, str | int], ...] = tuple({"cell": row.cell} for row in rows)
    return _table(places, count, [_code(situation, row.label) for row in rows], situation, about)


def _table(
    places: NDArray[np.float64],
    count: NDArray[np.int64],
    label: Sequence[int],
    situation: Situation,
    about: tuple[dict[str, str | int], ...],
) -> PointTable:
    latitude = np.radians(np.clip(places[:, 1], -EDGE, EDGE))
    y = 0.5 - np.arcsinh(np.tan(latitude)) / (2 * np.pi)
    x = (places[:, 0] + 180.0) / 360.0
    codes = np.array(label, dtype=np.int64)
    return PointTable(x % 1.0, np.clip(y, 0.0, 1.0 - 1e-12), count, codes, situation.labels, about)


def _code(situation: Situation, label: str | None) -> int:
    return situation.labels.index(label) if label in situation.labels else NO_LABEL


def _seconds(row: Any) -> int:
    """When it happened, else when it came in; whole seconds, none before 1970."""
    return max(0, int(row.received if row.time is None else row.time))
