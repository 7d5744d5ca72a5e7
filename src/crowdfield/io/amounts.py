"""How many people, households or buildings there are in every cell of a map, from a GeoTIFF of amounts per pixel.

Amounts are added, not interpolated: each pixel is divided into points closer together than the cells, each with its
share of the pixel's amount, and a cell counts the points in it. So the total within the map stays the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.data import Grid
from crowdfield.errors import InputError
from crowdfield.io.covariates import pixel_area, read_amount_rasters

POINTS_PER_CELL = 2  # along each side of a cell, at least, where pixels are larger than cells
MOST_POINTS = 16  # along each side of a pixel: beyond, the amount of a pixel is spread evenly enough
ROWS = 256  # of pixels processed at a time


def read_amounts(path: str | Path, grid: Grid) -> NDArray[np.float64]:
    """The amount in every cell of the grid: [rows * columns]. Pixels without a value count as 0; cells outside the
    raster are NaN. A raster without any amount within the grid is an error."""
    if grid.crs is None:
        raise InputError("amounts of a raster need a map with a reference system.")
    rasters = read_amount_rasters(path, grid)
    if len(rasters) != 1:
        raise InputError(f"{path} has {len(rasters)} bands; amounts must be in a raster with one band.")
    raster = rasters[0]
    a, b, c, d, e, f = raster.transform
    # A pixel that was averaged down holds the mean of several: its amount is that mean times their number.
    merged = abs(a * e - b * d) / pixel_area(path)
    values = np.nan_to_num(raster.values.astype(np.float64)) * merged
    if values.min(initial=0.0) < 0.0:
        raise InputError(
            f"{path} has negative pixels, which cannot be amounts. Is it a raster of people or households?"
        )
    back = geography.transformer(raster.crs, grid.crs)
    k = _points_per_pixel(raster.transform, values.shape, grid, back)
    steps = (np.arange(k) + 0.5) / k
    out = np.zeros(grid.size)
    for start in range(0, values.shape[0], ROWS):
        part = values[start : start + ROWS]
        row, column = np.nonzero(part)
        for y in steps:
            for x in steps:
                i, j = column + x, start + row + y
                east, north = back.transform(a * i + b * j + c, d * i + e * j + f)
                cell = grid.index(np.column_stack([east, north]))
                inside = cell >= 0
                out += np.bincount(cell[inside], part[row, column][inside] / k**2, minlength=grid.size)
    if not out.any():
        raise InputError(f"{path} has no values inside the map. Is it of another region?")
    out[~_reached(raster.transform, values.shape, raster.crs, grid)] = np.nan
    return out


def _reached(transform: tuple[float, ...], shape: tuple[int, int], crs: str, grid: Grid) -> NDArray[np.bool_]:
    """Which cells have their centre within the raster: [rows * columns]."""
    a, b, c, d, e, f = transform
    x, y = geography.transformer(grid.crs, crs).transform(*grid.centres().T)
    column, row = np.linalg.solve(np.array([[a, b], [d, e]]), np.stack([x - c, y - f]))
    return np.asarray((column >= 0) & (column <= shape[1]) & (row >= 0) & (row <= shape[0]))


def _points_per_pixel(transform: tuple[float, ...], shape: tuple[int, int], grid: Grid, back: object) -> int:
    """How many points to put along each side of a pixel, so that they lie closer together than cells."""
    a, b, c, d, e, f = transform
    i, j = shape[1] / 2, shape[0] / 2
    corners = np.array([[i, j], [i + 1, j], [i, j + 1]])
    x, y = back.transform(corners @ [a, b] + c, corners @ [d, e] + f)  # type: ignore[attr-defined]
    wide = max(np.hypot(x[1] - x[0], y[1] - y[0]), np.hypot(x[2] - x[0], y[2] - y[0]))
    finest = min(grid.cell_width, grid.cell_height)
    return int(np.clip(np.ceil(POINTS_PER_CELL * wide / finest), 1, MOST_POINTS)) if np.isfinite(wide) else 1
