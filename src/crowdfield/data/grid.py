"""A region cut into equal cells: the places a map is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.errors import InputError

# More cells than this are a mistake of units (metres for kilometres), not a request.
MOST_CELLS = 1_000_000_000


@dataclass(frozen=True)
class Grid:
    """A region cut into ``rows`` × ``columns`` equal cells.

    Row 0 is the northernmost and cells are numbered row by row, as in an image, so that a flat index, a raster's pixel
    and a picture's pixel are the same thing.

    Parameters
    ----------
    west, east, south, north : float
        The four edges in the units of ``crs``. Give them by name.
    columns, rows : int
        How many cells there are from west to east and from north to south.
    crs : str, optional
        The coordinate reference system, for example "EPSG:32618"; None for a plane without one.

    Examples
    --------
    >>> import crowdfield as cf
    >>> grid = cf.Grid(west=0, east=100, south=0, north=50, columns=10, rows=5)
    >>> grid.shape, grid.cell_width
    ((5, 10), 10.0)
    >>> grid.centres()[0]  # the north-west corner
    array([ 5., 45.])
    >>> grid.index([[5.0, 45.0], [95.0, 5.0], [500.0, 5.0]])  # outside: -1
    array([ 0, 49, -1])
    """

    west: float
    east: float
    south: float
    north: float
    columns: int
    rows: int
    crs: str | None = None

    def __post_init__(self) -> None:
        for name in ("west", "east", "south", "north"):
            value = _number(getattr(self, name), name)
            object.__setattr__(self, name, value)
        for name in ("columns", "rows"):
            object.__setattr__(self, name, _count(getattr(self, name), name))
        if not self.west < self.east:
            raise InputError(
                f"a grid needs west < east, got west = {self.west:g} and east = {self.east:g}. "
                "Give the edges by name: Grid(west=…, east=…, south=…, north=…, columns=…, rows=…)."
            )
        if not self.south < self.north:
            raise InputError(
                f"a grid needs south < north, got south = {self.south:g} and north = {self.north:g}. "
                "Give the edges by name: Grid(west=…, east=…, south=…, north=…, columns=…, rows=…)."
            )
        if self.columns * self.rows > MOST_CELLS:
            raise InputError(
                f"{self.columns} × {self.rows} cells are more than {MOST_CELLS:,}. "
                f"Use larger cells ({self._smallest_cell():.2g}{' m' if self.crs else ''} or more) or a smaller region."
            )
        # Two edges closer than the numbers can tell apart would make cells of no width.
        if not (self.west + self.cell_width > self.west and self.south + self.cell_height > self.south):
            raise InputError("the cells are too small for the size of the coordinates. Use larger cells.")

    def _smallest_cell(self) -> float:
        """The smallest side of a cell that keeps the grid within `MOST_CELLS`."""
        return math.sqrt((self.east - self.west) * (self.north - self.south) / MOST_CELLS)

    @classmethod
    def from_cell(cls, bounds: Sequence[float], cell: float, crs: str | None = None) -> Grid:
        """Square cells of side ``cell`` covering ``bounds`` = (west, south, east, north).

        Where the bounds are not a whole number of cells apart, the grid grows to the east and to the south: the
        north-west corner, the origin of a raster, stays in place.

        Examples
        --------
        >>> import crowdfield as cf
        >>> cf.Grid.from_cell((0, 0, 95, 50), cell=10).shape
        (5, 10)
        """
        names = ("west", "south", "east", "north")
        if len(bounds) != 4:
            raise InputError(f"bounds are (west, south, east, north), got {len(bounds)} numbers.")
        west, south, east, north = (_number(v, n) for v, n in zip(bounds, names, strict=True))
        cell = _number(cell, "cell")
        if not cell > 0:
            raise InputError(f"a cell needs a side above 0, got {cell:g}.")
        if not (west < east and south < north):
            raise InputError(
                f"bounds are (west, south, east, north) with west < east and south < north, "
                f"got ({west:g}, {south:g}, {east:g}, {north:g})."
            )
        columns, rows = _whole_cells((east - west) / cell), _whole_cells((north - south) / cell)
        return cls(west, west + columns * cell, north - rows * cell, north, columns, rows, crs)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """(west, south, east, north): the order of GeoJSON, Shapely and rasterio."""
        return self.west, self.south, self.east, self.north

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """(west, east, south, north): the order that Matplotlib's ``extent`` has."""
        return self.west, self.east, self.south, self.north

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)"""
        return self.rows, self.columns

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.rows * self.columns

    @property
    def cell_width(self) -> float:
        """The width of a cell, from west to east."""
        return (self.east - self.west) / self.columns

    @property
    def cell_height(self) -> float:
        """The height of a cell, from south to north."""
        return (self.north - self.south) / self.rows

    @property
    def transform(self) -> tuple[float, float, float, float, float, float]:
        """(a, b, c, d, e, f): easting = a·column + b·row + c, northing = d·column + e·row + f, from a cell's corner."""
        return self.cell_width, 0.0, self.west, 0.0, -self.cell_height, self.north

    def eastings(self) -> NDArray[np.float64]:
        """The centre of each column, west to east.   [columns]

        Examples
        --------
        With `grid` of the class's example:

        >>> grid.eastings()[:2]
        array([ 5., 15.])
        """
        return self.west + (np.arange(self.columns, dtype=np.float64) + 0.5) * self.cell_width

    def northings(self) -> NDArray[np.float64]:
        """The centre of each row, north to south.   [rows]

        Examples
        --------
        With `grid` of the class's example:

        >>> grid.northings()[:2]
        array([45., 35.])
        """
        return self.north - (np.arange(self.rows, dtype=np.float64) + 0.5) * self.cell_height

    def centres(self) -> NDArray[np.float64]:
        """The centre of each cell as (easting, northing), row by row from the north.   [rows * columns, 2]

        Examples
        --------
        With `grid` of the class's example:

        >>> grid.centres().shape
        (50, 2)
        """
        places = np.empty((self.rows, self.columns, 2))
        places[..., 0] = self.eastings()[None, :]
        places[..., 1] = self.northings()[:, None]
        return places.reshape(-1, 2)

    def index(self, places: ArrayLike) -> NDArray[np.int64]:
        """The flat index of the cell each place lies in, −1 outside.   [R, 2] -> [R]

        A place on an edge between two cells belongs to the eastern or southern one; the region's own edges are inside.

        Examples
        --------
        With `grid` of the class's example:

        >>> grid.index([[95.0, 45.0]])
        array([9])
        """
        p = np.asarray(places, dtype=np.float64)
        if p.ndim != 2 or p.shape[1] != 2:
            raise InputError(f"places on a grid are [R, 2] (easting, northing), got shape {p.shape}.")
        east, north = p[:, 0], p[:, 1]
        # A comparison with NaN is false, so a place without coordinates is outside.
        inside = (east >= self.west) & (east <= self.east) & (north >= self.south) & (north <= self.north)
        column = np.floor((np.where(inside, east, self.west) - self.west) / self.cell_width).astype(np.int64)
        row = np.floor((self.north - np.where(inside, north, self.north)) / self.cell_height).astype(np.int64)
        flat = np.minimum(row, self.rows - 1) * self.columns + np.minimum(column, self.columns - 1)
        return np.where(inside, flat, -1)

    def counts(self, places: ArrayLike, count: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """How many of the places lie in each cell; those outside count nowhere.   [R, 2] -> [rows, columns]

        count [R] says how often each place counts; once by default.

        Examples
        --------
        With `grid` of the class's example:

        >>> int(grid.counts([[95.0, 45.0], [95.0, 46.0]])[0, 9])
        2
        """
        cell = self.index(places)
        here = cell >= 0
        found = np.bincount(cell[here], None if count is None else count[here], self.size)
        return found.astype(np.int64).reshape(self.shape)


def _number(value: object, name: str) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, got {value!r}.") from None
    if not math.isfinite(number):
        raise InputError(f"{name} must be finite, got {number}.")
    return number


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, got {value!r}.")
    return int(value)


def _whole_cells(cells: float) -> int:
    # 0.6 / 0.006 is 100.00000000000001: a rounding error must not add a column.
    if cells > MOST_CELLS:
        raise InputError(f"{cells:.3g} cells along one side are more than {MOST_CELLS:,}. Use larger cells.")
    nearest = round(cells)
    if nearest >= 1 and math.isclose(cells, nearest, rel_tol=1e-9):
        return nearest
    return math.ceil(cells)
