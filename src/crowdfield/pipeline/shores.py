"""Which cells are on land, so that nobody is sent to look at the sea."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Grid
from crowdfield.io.land import on_land

# A map is about the land where at least this share of its places with reports are in cells on land. Less than all:
# along a coast the centres of many cells with reports are in the water.
LAND_SHARE = 0.5


def land_cells(grid: Grid, places: ArrayLike) -> NDArray[np.bool_] | None:
    """The cells on land, and those that hold one of the places; None where the outlines are not installed, or where
    most of the places are at sea.   [rows, columns]"""
    land = _land(grid)
    if land is None or not land.any():
        return None
    cell = grid.index(np.asarray(places, dtype=np.float64)[:, :2])
    reported = np.bincount(cell[cell >= 0], minlength=grid.size).reshape(grid.shape) > 0
    if not reported.any() or (land & reported).sum() < LAND_SHARE * reported.sum():
        return None
    return np.asarray(land | reported)


@lru_cache(maxsize=8)
def _land(grid: Grid) -> NDArray[np.bool_] | None:
    return on_land(grid)
