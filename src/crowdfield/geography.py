"""From degrees to metres and back: lengths, regions, a projection that suits the data, a grid, a mask.

Inside, maps are made in metres; people give places as (longitude, latitude) in degrees, WGS 84. A region is
(west, south, east, north), as in GeoJSON; west > east means that it crosses the antimeridian.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data.grid import Grid
from crowdfield.data.region import Region, parse_region
from crowdfield.data.reports import Reports
from crowdfield.errors import InputError

__all__ = [
    "WGS84",
    "Region",
    "bounds",
    "centre",
    "check_crs",
    "choose_crs",
    "main_bounds",
    "make_grid",
    "mask",
    "parse_length",
    "parse_region",
    "project",
    "span",
    "transform",
    "transformer",
    "unproject",
    "within",
    "wrap",
]

WGS84 = "EPSG:4326"

_METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344, "nmi": 1852.0, "ft": 0.3048}
_LENGTH = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([a-zA-Z]*)\s*")

# UTM is conformal and everyone's GIS knows it, but it is true to scale only near its meridian; beyond these limits the
# azimuthal equal-area projection, centred on the data, is kinder to distances.
_UTM_HALF_WIDTH = 4.0  # degrees from the central meridian
_UTM_SOUTH, _UTM_NORTH = -80.0, 84.0

# Beyond this angle from its centre an azimuthal projection stretches distances more than a cylindrical one does.
_AZIMUTHAL_REACH = 100.0
# Points along each side of the lattice that finds how far a region reaches in metres.
_LATTICE = 181
# What `cover` adds around that lattice, so that every place of the region lies in a cell: a millimetre for rounding,
# and for wide regions what may bulge between two points of the lattice, as a share of the whole.
_EDGE, _WIDE, _BULGE = 1e-3, 20.0, 2e-4  # metres, degrees, share

# Which places are the odd ones: this share at most, so many times as far from the middle as the others. Anything nearer
# than `NEAR` degrees, about a kilometre, is in the middle.
FEW, GAP, NEAR = 0.02, 2.0, 0.01
# Degrees of longitude: reports that are spread wider are of no one place, and the map's region must be said.
WIDEST = 180.0
# The middle of more places than this is found from so many of them: it need not be exact.
MIDDLE_OF = 50_000


def parse_length(length: str | float) -> float:
    """Read a length in metres.

    Parameters
    ----------
    length : str or float
        A number of metres, or text with a unit: m, km, mi, nmi or ft.

    Returns
    -------
    float
        Metres.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.parse_length("2.5 km"), geography.parse_length(250)
    (2500.0, 250.0)
    """
    if isinstance(length, (int, float)) and not isinstance(length, bool):
        metres = float(length)
    else:
        match = _LENGTH.fullmatch(str(length))
        unit = (match.group(2) or "m").lower() if match else ""
        if match is None or unit not in _METRES:
            raise InputError(f"{length!r} is not a length. Write it like 250m, 2km or 0.5mi.")
        metres = float(match.group(1)) * _METRES[unit]
    if not (math.isfinite(metres) and metres > 0):
        raise InputError(f"a length must be above 0, got {length!r}.")
    return metres


def wrap(longitude: Any) -> Any:
    """Bring longitudes into [−180, 180).

    Parameters
    ----------
    longitude : float or array_like
        Degrees.

    Returns
    -------
    float or ndarray
        As given, where it was there already.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.wrap(181.0)
    -179.0
    """
    given = np.asarray(longitude, dtype=np.float64)
    # What is already there stays as it was written, to the last digit.
    wrapped = np.where((given >= -180.0) & (given < 180.0), given, (given + 180.0) % 360.0 - 180.0)
    return float(wrapped) if np.ndim(longitude) == 0 else wrapped


def within(region: Sequence[float], longitude: ArrayLike, latitude: ArrayLike) -> NDArray[np.bool_]:
    """Tell which places lie in a region: west ≤ longitude < east and south ≤ latitude < north.

    Half-open, so that two regions side by side share no report; the pole itself belongs to a region that reaches it.

    Parameters
    ----------
    region : sequence of float
        West, south, east, north in degrees; west greater than east crosses the antimeridian.
    longitude, latitude : array_like [R]
        Degrees.

    Returns
    -------
    ndarray [R] of bool
        True inside.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.within((177, -20, -178, -15), [178.5, 170.0], [-18.0, -18.0])  # Fiji
    array([ True, False])
    """
    lon, lat = np.asarray(longitude, dtype=np.float64), np.asarray(latitude, dtype=np.float64)
    west, south, east, north = box = Region(*region)
    # Measured from the west edge, so that the antimeridian needs no special case.
    east_of_west = np.mod(lon - west, 360.0)
    # A subtraction must not push a place on the western edge just below it.
    east_of_west = np.where(lon == west, 0.0, east_of_west)
    inside_east = (east_of_west < box.width) & (lon != east) if box.width < 360 else np.isfinite(lon)
    inside_north = (lat >= south) & ((lat < north) | ((north == 90.0) & (lat == 90.0)))
    return np.asarray(inside_east & inside_north)


def bounds(places: ArrayLike) -> Region:
    """Give the smallest region around (longitude, latitude) places; it may cross the antimeridian (west > east).

    Parameters
    ----------
    places : array_like [R, 2]
        Longitude and latitude in degrees.

    Returns
    -------
    Region
        West, south, east, north.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.bounds([[179.0, -18.0], [-179.0, -17.0]])
    Region(west=179.0, south=-18.0, east=-179.0, north=-17.0)
    """
    p = np.asarray(places, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != 2 or len(p) == 0:
        raise InputError("a region needs at least one (longitude, latitude) place.")
    south, north = float(p[:, 1].min()), float(p[:, 1].max())
    west, east = float(p[:, 0].min()), float(p[:, 0].max())
    if west >= -180.0 and east < 180.0 and east - west <= 180.0:
        return Region(west, south, east, north)
    lon = np.sort(wrap(p[:, 0]))
    west, east = float(lon[0]), float(lon[-1])
    if east - west <= 180.0:
        return Region(west, south, east, north)
    # The region is the circle of longitudes less its widest empty arc.
    gaps = np.diff(np.append(lon, lon[0] + 360.0))
    widest = int(np.argmax(gaps))
    return Region(float(lon[(widest + 1) % len(lon)]), south, float(lon[widest]), north)


def main_bounds(places: ArrayLike) -> Region:
    """Give the region of the bulk of the places: a few far away must not turn the map of a town into one of the world.

    Left out are at most `FEW` of the places, and only those beyond a gap: `GAP` times as far from the middle as all the
    others. Such places are mostly wrong coordinates; where many lie far out, they are no mistakes.

    Parameters
    ----------
    places : array_like [R, 2]
        Longitude and latitude in degrees.

    Returns
    -------
    Region
        West, south, east, north.

    Examples
    --------
    >>> from crowdfield import geography
    >>> town = [[-72.0 - i / 1000, 18.0 + i / 1000] for i in range(100)]
    >>> geography.main_bounds([*town, [0.0, 0.0]]).east  # one report at 0, 0 is left out
    -72.0
    """
    p = np.asarray(places, dtype=np.float64)
    whole = bounds(p)
    east = p[:, 0]
    if not -180.0 <= whole.west <= whole.east < 180.0 or (east >= 180.0).any():
        # Longitudes as offsets from the middle one, so that the antimeridian is nowhere near.
        east = wrap(east - _middle_longitude(east))
    few = slice(None, None, max(1, len(p) // MIDDLE_OF))
    distance = np.abs(east - np.median(east[few]))
    np.maximum(distance, np.abs(p[:, 1] - np.median(p[few, 1])), out=distance)
    first = len(p) - int(FEW * len(p))
    bulk = max(float(np.partition(distance, first - 1)[first - 1]), NEAR)
    if distance.max() <= GAP * bulk:
        return whole  # the farthest is not far, so there is no need to put them in order
    ranked = np.maximum(np.sort(distance), NEAR)
    gaps = np.flatnonzero(ranked[first:] > GAP * ranked[first - 1 : -1])
    if len(gaps) == 0:
        return whole
    return bounds(p[distance < ranked[first + gaps[0]]])


def map_bounds(places: ArrayLike) -> Region:
    """The region that a map of these places shows; an error where they are spread over more than half of the world."""
    bulk = main_bounds(places)
    if span(bulk) > WIDEST:
        raise InputError(
            f"the reports reach over {span(bulk):.0f}° of longitude, so a map of them all would be one of the world. "
            "Name the region to map with --region W,S,E,N (the whole world is --region=-180,-90,180,90)."
        )
    return bulk


def _middle_longitude(longitude: NDArray[np.float64]) -> float:
    """The circular mean: where most of the longitudes point."""
    angle = np.radians(longitude)
    return math.degrees(math.atan2(float(np.sin(angle).mean()), float(np.cos(angle).mean())))


def centre(region: Sequence[float]) -> tuple[float, float]:
    """Give (longitude, latitude) in the middle of a region.

    Parameters
    ----------
    region : sequence of float
        West, south, east, north in degrees.

    Returns
    -------
    (float, float)
        Longitude and latitude.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.centre((170, -20, -170, 0))
    (-180.0, -10.0)
    """
    west, south, _, north = region
    return wrap(west + span(region) / 2), (south + north) / 2


def span(region: Sequence[float]) -> float:
    """Give the width of a region in degrees of longitude; a region around a single place spans none.

    Parameters
    ----------
    region : sequence of float
        West, south, east, north in degrees.

    Returns
    -------
    float
        Degrees.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.span((170, -20, -170, 0))
    20.0
    """
    box = Region(*region)
    return box.width if box.west != box.east else 0.0


def choose_crs(region: Sequence[float]) -> str:
    """Choose a metric projection for a region.

    Parameters
    ----------
    region : sequence of float
        West, south, east, north in degrees.

    Returns
    -------
    str
        Its UTM zone if the region is small, else Lambert azimuthal equal-area around its middle.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.choose_crs((-72.6, 18.2, -72.0, 18.8))
    'EPSG:32618'
    """
    longitude, latitude = centre(region)
    zone = int((longitude + 180.0) // 6.0) + 1
    meridian = zone * 6.0 - 183.0
    _, south, _, north = region
    width = span(region)
    reach = abs(wrap(longitude - meridian)) + width / 2
    if reach <= _UTM_HALF_WIDTH and south >= _UTM_SOUTH and north <= _UTM_NORTH:
        return f"EPSG:{(32600 if latitude >= 0 else 32700) + zone}"
    if north > _UTM_NORTH and width > 90:
        latitude = 90.0
    elif south < _UTM_SOUTH and width > 90:
        latitude = -90.0
    if _farthest(Region(*region), longitude, latitude) > _AZIMUTHAL_REACH:
        return f"+proj=cea +lat_ts=30 +lon_0={longitude:.4f} +datum=WGS84 +units=m +no_defs +type=crs"
    return f"+proj=laea +lat_0={latitude:.4f} +lon_0={longitude:.4f} +datum=WGS84 +units=m +no_defs +type=crs"


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


def _farthest(region: Region, longitude: float, latitude: float) -> float:
    """The largest angle, in degrees, between a place and the places of a region."""
    east, north = math.radians(longitude), math.radians(latitude)
    lon, lat = np.radians(_lattice(region)).T
    cosine = np.sin(north) * np.sin(lat) + np.cos(north) * np.cos(lat) * np.cos(lon - east)
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))).max())


def _lattice(region: Region) -> NDArray[np.float64]:
    """Places spread over a region, edges included.   [P, 2]"""
    west, south, _, north = region
    # Just inside: the meridian opposite the centre of a map of the world would otherwise jump to the other edge.
    width = span(region) * (1.0 - 1e-12)
    first = west + (span(region) - width) / 2
    x, y = np.meshgrid(np.linspace(first, first + width, _LATTICE), np.linspace(south, north, _LATTICE))
    return np.column_stack([(x.ravel() + 180.0) % 360.0 - 180.0, y.ravel()])


def transform(places: ArrayLike, source: str, target: str) -> NDArray[np.float64]:
    """Bring places from one CRS to another, always as (easting or longitude, northing or latitude).

    Parameters
    ----------
    places : array_like [R, 2]
        In the CRS ``source``.
    source, target : str
        Coordinate reference systems, for example "EPSG:4326".

    Returns
    -------
    ndarray [R, 2]
        In the CRS ``target``.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.transform([[-72.34, 18.54]], "EPSG:4326", "EPSG:32618").round()
    array([[ 780806., 2052004.]])
    """
    p = np.array(places, dtype=np.float64).reshape(-1, 2)
    out = transform_visible(p, source, target)
    if not np.isfinite(out).all():
        first = int(np.argmin(np.isfinite(out).all(axis=1)))
        place = np.asarray(places, dtype=np.float64).reshape(-1, 2)[first]
        raise InputError(
            f"place {tuple(place.tolist())} in {source} cannot be shown in {target}. "
            "Is the CRS right, and are its coordinates in the order easting, northing?"
        )
    return out


def transform_visible(places: ArrayLike, source: str, target: str) -> NDArray[np.float64]:
    """As `transform`, but places that the target cannot show become infinite instead of an error."""
    p = np.array(places, dtype=np.float64).reshape(-1, 2)
    if source == target or len(p) == 0:
        return p
    return np.column_stack(transformer(source, target).transform(p[:, 0], p[:, 1]))


def check_crs(crs: Any) -> str:
    """Give a CRS as text that others understand: EPSG:n where it has a number.

    Parameters
    ----------
    crs : anything that pyproj understands
        A name, a number or a definition.

    Returns
    -------
    str
        The CRS as text.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.check_crs(4326)
    'EPSG:4326'
    """
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        known = CRS.from_user_input(crs)
    except CRSError:
        raise InputError(f"{crs!r} is not a coordinate reference system. Write it like EPSG:4326.") from None
    code = known.to_epsg()
    return f"EPSG:{code}" if code is not None else str(known.to_string())


def project(reports: Reports, crs: str | None = None, *, unseen: Literal["raise", "drop"] = "raise") -> Reports:
    """Project reports to metres.

    Parameters
    ----------
    reports : Reports
        In any CRS; without one they are taken to be in degrees.
    crs : str, optional
        The projection; by default the one that suits the reports.
    unseen : {"raise", "drop"}, default="raise"
        What to do with reports on the far side of the Earth, which a projection for one place cannot show.

    Returns
    -------
    Reports
        The same reports with places in metres.

    Examples
    --------
    >>> import crowdfield as cf
    >>> reports = cf.Reports.from_arrays([[-72.34, 18.54]], ["flooded"], crs="EPSG:4326")
    >>> cf.geography.project(reports).crs
    'EPSG:32618'
    """
    source = reports.crs or WGS84
    if crs is None:
        crs = choose_crs(bounds(transform(reports.places, source, WGS84)))
    if unseen == "drop" and source != crs and len(reports):
        x, y = transformer(source, crs).transform(reports.places[:, 0], reports.places[:, 1])
        seen = np.isfinite(x) & np.isfinite(y)
        reports = reports if seen.all() else reports.take(seen)
    return replace(reports, places=transform(reports.places, source, crs), crs=crs)


def unproject(places: ArrayLike, crs: str) -> NDArray[np.float64]:
    """Give (longitude, latitude) of places in a CRS.

    Parameters
    ----------
    places : array_like [R, 2]
        Easting and northing.
    crs : str
        Their coordinate reference system.

    Returns
    -------
    ndarray [R, 2]
        Degrees.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.unproject([[780806, 2052004]], "EPSG:32618").round(2)
    array([[-72.34,  18.54]])
    """
    return transform(places, crs, WGS84)


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
        target = crs or choose_crs(where)
        west, south, east, north = _projected_bounds(where, target)
    elif reports is not None and len(reports):
        degrees = transform(reports.places, reports.crs or WGS84, WGS84)
        bulk = map_bounds(degrees)
        target = crs or choose_crs(bulk)
        inside = transform(degrees[held(bulk, degrees)], WGS84, target)
        (west, south), (east, north) = inside.min(axis=0), inside.max(axis=0)
        # All reports in one spot still deserve a map around it.
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


def cover(region: Region, columns: int, rows: int | None = None) -> Grid:
    """A grid of so many columns over the whole of a region; cells are square unless `rows` says otherwise."""
    crs = choose_crs(region)
    # Inside as well as along the border: a wide region bulges beyond its own corners.
    reach = transform_visible(_lattice(region), WGS84, crs)
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
        # The edge of the bulk itself, to the last digit: places on it are in the region.
        wrap(middle + left) if left < -span(bulk) / 2 else bulk.west,
        max(low, -90.0),
        wrap(middle + right) if right > span(bulk) / 2 else bulk.east,
        min(high, 90.0),
    )


def mask(grid: Grid, area: Any) -> NDArray[np.bool_]:
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


def held(region: Region, places: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which places lie in a region or on its edges."""
    west, south, east, north = region
    east_of_west = np.mod(wrap(places[:, 0]) - west, 360.0)
    inside_east = (east_of_west <= (east - west) % 360.0) | (wrap(places[:, 0]) == east)
    return np.asarray(inside_east & (places[:, 1] >= south) & (places[:, 1] <= north))


def _round_length(length: float) -> float:
    power = 10.0 ** math.floor(math.log10(length))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= length * (1 - 1e-9))


@lru_cache(maxsize=64)
def transformer(source: str, target: str) -> Any:
    """Give a pyproj transformer between two systems, easting or longitude first.

    Parameters
    ----------
    source, target : str
        Coordinate reference systems.

    Returns
    -------
    pyproj.Transformer
        What it cannot show becomes infinite.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.transformer("EPSG:4326", "EPSG:3857").transform(0.0, 0.0)[0]
    0.0
    """
    from pyproj import Transformer
    from pyproj.exceptions import CRSError, ProjError

    try:
        return Transformer.from_crs(source, target, always_xy=True)
    except (CRSError, ProjError):
        raise InputError(f"cannot go from {source!r} to {target!r}. Write a CRS like EPSG:4326.") from None
