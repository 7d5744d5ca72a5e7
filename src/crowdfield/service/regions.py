"""From a region in degrees to a grid of cells in metres."""

import numpy as np

from crowdfield import geography
from crowdfield.data import Grid, Region
from crowdfield.errors import InputError
from crowdfield.service import places

MOST_CELLS = 1_048_576


def plan(region: Region, columns: int, rows: int | None = None) -> Grid:
    """A grid of `columns` over the whole of `region`, in the projection that suits it; cells are square unless `rows`
    says otherwise."""
    crs = geography.choose_crs(region)
    border = places.to_metres(crs, places.outline(region))
    if not np.isfinite(border).all():
        raise InputError("this region cannot be laid flat; choose one that is smaller than half the world")
    (left, bottom), (right, top) = border.min(axis=0), border.max(axis=0)
    if rows is None:
        rows = max(4, round((top - bottom) / ((right - left) / columns)))
    if rows * columns > MOST_CELLS:
        raise InputError(f"{columns} × {rows} cells are more than {MOST_CELLS:,}; choose fewer columns")
    return Grid(float(left), float(right), float(bottom), float(top), columns, rows, crs)
