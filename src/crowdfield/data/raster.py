"""A layer of numbers on a lattice of pixels: height, distance to the river, people per hectare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdfield.arrays import Array
from crowdfield.errors import InputError


@dataclass(frozen=True, eq=False)
class Raster:
    """`values` [rows, columns] with NaN where nothing is known, row 0 first.

    transform (a, b, c, d, e, f): the corner of column i and row k is at x = a i + b k + c, y = d i + e k + f in `crs`.
    turns: x are degrees of longitude, in which a whole turn changes nothing.
    """

    name: str
    values: NDArray[np.float32]
    transform: tuple[float, float, float, float, float, float]
    crs: str
    turns: bool = False

    def __post_init__(self) -> None:
        a, b, _, d, e, _ = self.transform
        if self.values.ndim != 2 or not self.values.size or not np.isfinite(self.transform).all() or a * e == b * d:
            raise InputError(f"the layer {self.name!r} has no pixels, or its pixels have no area.")
        self.values.flags.writeable = False

    def at(self, places: Array) -> Array:
        """Values at places [M, 2] in the raster's own system, between the centres of pixels by bilinear interpolation.

        NaN outside the raster and where the pixel that holds the place has no value. Pixels without a value beside it
        are left out of the average.
        """
        column, row = self._pixels(places)
        rows, columns = self.values.shape
        inside = (column >= 0) & (column <= columns) & (row >= 0) & (row <= rows)
        # Within half a pixel of the edge the outermost centres count alone.
        x = np.clip(np.where(inside, column, 0.5) - 0.5, 0.0, columns - 1.0)
        y = np.clip(np.where(inside, row, 0.5) - 0.5, 0.0, rows - 1.0)
        left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
        total, weight = np.zeros(len(places)), np.zeros(len(places))
        for k in (0, 1):
            for i in (0, 1):
                here = self.values[np.minimum(top + k, rows - 1), np.minimum(left + i, columns - 1)].astype(np.float64)
                share = np.abs(1 - i - (x - left)) * np.abs(1 - k - (y - top)) * np.isfinite(here)
                total += share * np.where(np.isfinite(here), here, 0.0)
                weight += share
        own = self.values[np.rint(y).astype(np.int64), np.rint(x).astype(np.int64)]
        known = inside & np.isfinite(own) & (weight > 0)
        return np.where(known, total / np.where(weight > 0, weight, 1.0), np.nan)

    def _pixels(self, places: Array) -> tuple[Array, Array]:
        """Fractional (column, row) of places; whole numbers are edges of pixels."""
        a, b, c, d, e, f = self.transform
        x, y = places[:, 0], places[:, 1]
        if self.turns and b == 0.0 and d == 0.0:
            west = min(c, c + a * self.values.shape[1])
            x = west + np.mod(x - west, 360.0)
        scale = 1.0 / (a * e - b * d)
        with np.errstate(invalid="ignore"):
            return scale * (e * (x - c) - b * (y - f)), scale * (a * (y - f) - d * (x - c))
