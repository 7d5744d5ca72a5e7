"""Grids of cells in metres over a region in degrees, the region that a grid covers, and masks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data.grid import Grid
from crowdfield.data.region import Region, parse_region
from crowdfield.data.reports import Reports
from crowdfield.errors import InputError
from crowdfield.geography.lengths import parse_length
from crowdfield.geography.projection import (
    WGS84,
    check_in_metres,
    choose_crs,
    lattice,
    transform,
    transform_visible,
    unproject,
)
from crowdfield.geography.regions import centre, held, main_bounds, map_bounds, span, wrap

if TYPE_CHECKING:
    import shapely

# What `cover` adds around a region's lattice, so that every place of the region lies in a cell: a millimetre for
# rounding, and for wide regions what may bulge between two points of the lattice, as a share of the whole.
_EDGE, _WIDE, _BULGE = 1e-3, 20.0, 2e-4  # metres, degrees, share


def make_grid(
    reports: Reports | None = None,
    *,
    cell: str | float | None = None,
    region: str | Sequence[float] | Mapping[str, float] | None = None,
    crs: str | None = None,
    margin: float = 0.05,
    cells: int = 100,
) -> Grid:
    """Lay a grid in metres over a region given in degrees, or over the bulk of the reports with a margin.

    Parameters
    ----------
    reports : Reports, optional
        Where the map should be, unless ``region`` says so.
    cell : str or float, optional
        The side of a cell: metres, or text such as "250m". By default the longer side of the map gets about ``cells``
        of them, of a round length (1, 2 or 5 times a power of ten).
    region : str, sequence or mapping, optional
        West, south, east, north in degrees.
    crs : str, optional
        The projection; by default the one that suits the region.
    margin : float, default=0.05
        How far the grid reaches beyond the reports, as a share of their extent.
    cells : int, default=100
        How many cells the longer side gets where ``cell`` is not given.

    Returns
    -------
    Grid
        In metres.

    Examples
    --------
    >>> from crowdfield import geography
    >>> grid = geography.make_grid(region="-72.6,18.2,-72.0,18.8", cell="1km")
    >>> grid.crs, grid.shape
    ('EPSG:32618', (68, 65))
    """
    if region is not None:
        where = parse_region(region)
        target = check_in_metres(crs) if crs else choose_crs(where)
        west, south, east, north = _projected_bounds(where, target)
    elif reports is not None and len(reports):
        degrees = transform(reports.places, reports.crs or WGS84, WGS84)
        bulk = map_bounds(degrees)
        target = check_in_metres(crs) if crs else choose_crs(bulk)
        inside = transform(degrees[held(bulk, degrees)], WGS84, target)
        (west, south), (east, north) = inside.min(axis=0), inside.max(axis=0)
        # If all reports are at one place, map an area around it.
        pad = margin * max(east - west, north - south) or 500.0
        west, east, south, north = west - pad, east + pad, south - pad, north + pad
    else:
        raise InputError("a grid needs a region or some reports.")
    side = parse_length(cell) if cell is not None else _round_length(max(east - west, north - south) / cells)
    if cell is None or region is None:
        # Edges on whole multiples of the cell: a map made again with a few more reports keeps its cells.
        west, south = math.floor(west / side) * side, math.floor(south / side) * side
        east, north = math.ceil(east / side) * side, math.ceil(north / side) * side
    return Grid.from_cell((float(west), float(south), float(east), float(north)), side, target)


def _projected_bounds(region: Region, crs: str) -> tuple[float, float, float, float]:
    """(west, south, east, north) of a region in metres. Its sides are curves there, so they are followed closely."""
    west, south, _, north = region
    steps = 41
    longitude = west + np.linspace(0.0, region.width, steps)
    latitude = np.linspace(south, north, steps)
    lon, lat = (a.ravel() for a in np.meshgrid(longitude, latitude))
    places = transform(np.column_stack([wrap(lon), lat]), WGS84, crs)
    (left, bottom), (right, top) = places.min(axis=0), places.max(axis=0)
    return float(left), float(bottom), float(right), float(top)


def _round_length(length: float) -> float:
    power = 10.0 ** math.floor(math.log10(length))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= length * (1 - 1e-9))


def cover(region: Region, columns: int, rows: int | None = None) -> Grid:
    """A grid of so many columns over the whole of a region; cells are square unless `rows` says otherwise."""
    crs = choose_crs(region)
    # Inside as well as along the border: a wide region bulges beyond its own corners.
    reach = transform_visible(lattice(region), WGS84, crs)
    if not np.isfinite(reach).all():
        raise InputError("no projection shows the whole of this region; choose a smaller one")
    edge = _EDGE + (_BULGE * float(np.ptp(reach, axis=0).max()) if region.width > _WIDE else 0.0)
    (left, bottom), (right, top) = reach.min(axis=0) - edge, reach.max(axis=0) + edge
    if rows is None:
        rows = max(4, round((top - bottom) / ((right - left) / columns)))
    return Grid(float(left), float(right), float(bottom), float(top), columns, rows, crs)


def covered(grid: Grid, places: ArrayLike) -> Region:
    """A region in degrees for a grid that `make_grid` laid out around these (longitude, latitude) places.

    It holds what lies in the grid all along its sides, and the bulk of the places.
    """
    if grid.crs is None:
        raise InputError("a grid without a reference system covers no region of the Earth.")
    bulk = main_bounds(places)
    steps = np.linspace(0.0, 1.0, 41)
    x, y = grid.west + steps * (grid.east - grid.west), grid.south + steps * (grid.north - grid.south)
    sides = [
        transform_visible(np.column_stack(np.broadcast_arrays(*side)), grid.crs, WGS84)
        for side in ((grid.west, y), (grid.east, y), (x, grid.south), (x, grid.north))
    ]
    west, east, south, north = sides[0][:, 0], sides[1][:, 0], sides[2][:, 1], sides[3][:, 1]
    if not np.isfinite(np.concatenate([west, east, south, north])).all() or span(bulk) > 180.0:
        return Region(-180.0, -90.0, 180.0, 90.0)
    # Longitudes as offsets from the middle of the bulk, so that the antimeridian is nowhere near.
    middle = centre(bulk)[0]
    left, right = float(wrap(west - middle).max()), float(wrap(east - middle).min())
    low, high = min(float(south.max()), bulk.south), max(float(north.min()), bulk.north)
    return Region(
        # Exactly the bounds of the bulk, so that places on the edge are inside.
        wrap(middle + left) if left < -span(bulk) / 2 else bulk.west,
        max(low, -90.0),
        wrap(middle + right) if right > span(bulk) / 2 else bulk.east,
        min(high, 90.0),
    )


def degrees_around(grid: Grid, margin: float = 0.0) -> Region | None:
    """West, south, east, north in degrees of a grid and of a share `margin` of its size around it.

    East exceeds 180 where it crosses the antimeridian. None where the grid surrounds a pole, or half the Earth, or
    reaches to where its projection ends.
    """
    # The extreme longitudes and latitudes of a projected rectangle lie on its edge, unless a pole is inside.
    share = np.linspace(-margin, 1 + margin, 65)
    e, n = grid.west + share * (grid.east - grid.west), grid.south + share * (grid.north - grid.south)
    sides = [np.column_stack([e, np.full(65, side)]) for side in (n[0], n[-1])]
    sides += [np.column_stack([np.full(65, side), n]) for side in (e[0], e[-1])]
    lonlat = transform_visible(np.concatenate(sides), grid.crs or "", WGS84)
    lon = lonlat[:, 0]
    if np.isfinite(lon).all() and np.ptp(lon) > 180:
        lon = np.where(lon < 0, lon + 360, lon)
    if not np.isfinite(lonlat).all() or np.ptp(lon) > 180:
        return None
    return Region(float(lon.min()), float(lonlat[:, 1].min()), float(lon.max()), float(lonlat[:, 1].max()))


def mask(grid: Grid, area: Mapping[str, Any] | str | Path | shapely.Geometry) -> NDArray[np.bool_]:
    """Tell which cells of a grid have their centre in an area.

    Parameters
    ----------
    grid : Grid
        The cells.
    area : GeoJSON mapping, path, or shapely geometry
        Polygons in degrees; a path names a file that `crowdfield.io` can read polygons from.

    Returns
    -------
    ndarray [rows, columns] of bool
        True inside.

    Examples
    --------
    >>> import crowdfield as cf
    >>> grid = cf.Grid(west=0, east=2, south=0, north=1, columns=2, rows=1)
    >>> west = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}
    >>> cf.geography.mask(grid, west)
    array([[ True, False]])
    """
    import shapely

    polygon = area if isinstance(area, shapely.Geometry) else _area(area)
    # Test the centres in degrees rather than project the outline: long edges stay the lines they were drawn as.
    places = unproject(grid.centres(), grid.crs) if grid.crs else grid.centres()
    shapely.prepare(polygon)
    return np.asarray(shapely.contains_xy(polygon, places[:, 0], places[:, 1])).reshape(grid.shape)


def _area(area: Any) -> Any:
    import shapely
    from shapely.errors import ShapelyError

    if isinstance(area, (str, Path)):
        from crowdfield.io.areas import read_area

        return _some_area(read_area(Path(area)))
    try:
        polygon = shapely.union_all(shapely.get_parts([shapely.from_geojson(json.dumps(area))]))
    except (ShapelyError, TypeError, ValueError) as error:
        raise InputError(f"the mask is not GeoJSON with polygons: {error}.") from None
    return _some_area(polygon)


def _some_area(polygon: Any) -> Any:
    if polygon.is_empty or polygon.area == 0:
        raise InputError("the mask covers no area: it needs polygons, in degrees.")
    return polygon
