"""Which cells of a map lie in which district, and what share of each.

A cell belongs to the district that contains its centre. If a district has few cells, that would be too coarse: its
cells then count by the share that the district covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import shapely
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.data import Grid
from crowdfield.errors import InputError
from crowdfield.io.areas import NamedAreas
from crowdfield.io.vector import cell_rings

FEWEST_CENTRES = 100  # centres: with fewer of them in a district, its cells count by their covered share
NOTEWORTHY_OUTSIDE_SHARE = 0.02  # of a district's area beyond the map: less may be the steps of its outline
SEGMENTS = 50  # pieces of an outline along its longer side, so that straight lines in degrees stay so in metres
MARGIN = 1  # cells around the box of a district


@dataclass(frozen=True, eq=False)
class Located:
    """Districts on a grid."""

    share: sp.csr_matrix  # [A, cells] of every cell that the map speaks about
    outside: NDArray[np.float64]  # [A] the share of each district that the map does not cover
    in_parts: NDArray[np.bool_]  # [A] districts whose cells count by their covered share

    @property
    def overlapping(self) -> int:
        """Cells that count more than once."""
        return int(np.count_nonzero(np.asarray(self.share.sum(axis=0)).ravel() > 1.0 + 1e-6))


def locate(areas: NamedAreas, grid: Grid, mask: NDArray[np.bool_]) -> Located:
    """Districts on the cells of a map."""
    if grid.crs is None:
        raise InputError("districts are in degrees, and the map has no reference system to find them in.")
    centres = geography.unproject(grid.centres(), grid.crs)
    shown = mask.ravel()
    rows, outside, in_parts = [], np.zeros(len(areas)), np.zeros(len(areas), dtype=bool)
    for number, shape in enumerate(areas.shapes):
        cells, share, in_parts[number] = _cells(shape, grid, centres)
        needed = projected(shape, grid.crs).area / (grid.cell_width * grid.cell_height)
        keep = shown[cells]
        cells, share = cells[keep], share[keep]
        outside[number] = 1.0 if needed <= 0.0 else max(0.0, 1.0 - share.sum() / needed)
        rows.append((cells, share))
    outside[outside < NOTEWORTHY_OUTSIDE_SHARE] = 0.0
    where = np.concatenate([cells for cells, _ in rows])
    values = np.concatenate([share for _, share in rows])
    code = np.repeat(np.arange(len(rows)), [len(cells) for cells, _ in rows])
    return Located(sp.csr_matrix((values, (code, where)), shape=(len(areas), grid.size)), outside, in_parts)


def _cells(shape: Any, grid: Grid, centres: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64], bool]:
    """The cells of a district, the share of each that it covers, and whether these shares are partial."""
    near = _window(shape, grid)
    if not len(near):
        return near, np.empty(0), False
    shapely.prepare(shape)
    cells = near[shapely.contains_xy(shape, *centres[near].T)]
    if len(cells) >= FEWEST_CENTRES:
        return cells, np.ones(len(cells)), False
    rings = cell_rings(grid, near)
    corners = geography.unproject(rings.reshape(-1, 2), str(grid.crs)).reshape(rings.shape)
    boxes = shapely.polygons(corners)
    share = np.clip(shapely.area(shapely.intersection(boxes, shape)) / shapely.area(boxes), 0.0, 1.0)
    touched = share > 0.0
    return near[touched], share[touched], True


def _window(shape: Any, grid: Grid) -> NDArray[np.int64]:
    """The cells in the box around a district."""
    west, south, east, north = projected(shape, str(grid.crs)).bounds
    if not np.isfinite([west, south, east, north]).all():
        return np.empty(0, dtype=np.int64)
    left = int(np.clip(np.floor((west - grid.west) / grid.cell_width) - MARGIN, 0, grid.columns))
    right = int(np.clip(np.ceil((east - grid.west) / grid.cell_width) + MARGIN, 0, grid.columns))
    top = int(np.clip(np.floor((grid.north - north) / grid.cell_height) - MARGIN, 0, grid.rows))
    bottom = int(np.clip(np.ceil((grid.north - south) / grid.cell_height) + MARGIN, 0, grid.rows))
    row, column = np.meshgrid(np.arange(top, bottom), np.arange(left, right), indexing="ij")
    return np.asarray(row * grid.columns + column, dtype=np.int64).ravel()


def projected(shape: Any, crs: str) -> Any:
    """The outline in the map's system; a part of it that the system cannot show is left out."""
    if shape.is_empty:
        return shape
    west, south, east, north = shape.bounds
    fine = shapely.segmentize(shape, max(east - west, north - south, 1e-9) / SEGMENTS)
    change = geography.transformer(geography.WGS84, crs)
    moved = shapely.transform(fine, lambda places: np.column_stack(change.transform(*places.T)))
    return moved if np.isfinite(moved.bounds).all() else shapely.Polygon()
