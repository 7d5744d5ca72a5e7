"""Regions in degrees: which places lie in one, and the region around some places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data.region import Region
from crowdfield.errors import InputError

# Outlying places: at most this share of all, and this many times as far from the middle as the others. Anything nearer
# than `NEAR` degrees, about a kilometre, counts as in the middle.
FEW, GAP, NEAR = 0.02, 2.0, 0.01
# Fewer places than this do not show where the others belong: along the line on which latitude and longitude are equal,
# some lie among the others with the two exchanged by chance.
FEWEST_TO_COMPARE = 10
OPEN_SEA = 4.0  # degrees around 0° N 0° E in which there is no land
# Degrees of longitude: if reports are spread wider, the user must name the region of the map.
WIDEST = 180.0
# The middle of more places than this is found from so many of them: it need not be exact.
MIDDLE_OF = 50_000


@overload
def wrap(longitude: float) -> float: ...


@overload
def wrap(longitude: ArrayLike) -> NDArray[np.float64]: ...


def wrap(longitude: ArrayLike) -> float | NDArray[np.float64]:
    """Bring longitudes into [−180, 180).

    Parameters
    ----------
    longitude : float or array_like
        Degrees.

    Returns
    -------
    float or ndarray
        Unchanged where it already lies in that interval.

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


def held(region: Region, places: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which places lie in a region or on its edges."""
    west, south, east, north = region
    east_of_west = np.mod(wrap(places[:, 0]) - west, 360.0)
    inside_east = (east_of_west <= (east - west) % 360.0) | (wrap(places[:, 0]) == east)
    return np.asarray(inside_east & (places[:, 1] >= south) & (places[:, 1] <= north))


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
    others. Such places are mostly wrong coordinates; if many lie far out, they are taken for real. Places at 0° N 0° E,
    where missing coordinates end up, are left out however many they are, unless others lie in the sea around it; and so
    are those, fewer than half, that lie among ten or more others only with latitude and longitude exchanged.

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
    if whole.south <= 0.0 <= whole.north:
        missing = (p[:, 0] == 0.0) & (p[:, 1] == 0.0)
        if missing.any() and not missing.all() and np.abs(p[~missing]).max(axis=1).min() > OPEN_SEA:
            p = p[~missing]
            whole = bounds(p)
    if (exchanged := _exchanged(p)).any():
        p = p[~exchanged]
        whole = bounds(p)
    east = p[:, 0]
    near_antimeridian = not -180.0 <= whole.west <= whole.east < 180.0 or bool((east >= 180.0).any())
    if near_antimeridian:
        # Longitudes as offsets from the middle one, so that the antimeridian is nowhere near.
        east = wrap(east - _middle_longitude(east))
    few = slice(None, None, max(1, len(p) // MIDDLE_OF))
    middle = np.median(east[few]), np.median(p[few, 1])
    first = len(p) - int(FEW * len(p))
    if not near_antimeridian and _none_is_far(whole, p[few], middle, len(p) - first + 1):
        return whole
    distance = np.maximum(np.abs(east - middle[0]), np.abs(p[:, 1] - middle[1]))
    bulk = max(float(np.partition(distance, first - 1)[first - 1]), NEAR)
    if distance.max() <= GAP * bulk:
        return whole  # the farthest is not far, so there is no need to put them in order
    ranked = np.maximum(np.sort(distance), NEAR)
    gaps = np.flatnonzero(ranked[first:] > GAP * ranked[first - 1 : -1])
    if len(gaps) == 0:
        return whole
    return bounds(p[distance < ranked[first + gaps[0]]])


def _exchanged(p: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which places lie far from the others, and among them with latitude and longitude exchanged.   [R, 2] -> [R]"""
    none = np.zeros(len(p), dtype=bool)
    few = p[:: max(1, len(p) // MIDDLE_OF)]
    middle = np.median(few, axis=0)
    # A sample is cheap to test, and isolated places are outliers in any case.
    if not _nearer_exchanged(few, middle).any():
        return none
    suspects = _nearer_exchanged(p, middle)
    count = int(suspects.sum())
    if 2 * count >= len(p) or len(p) - count < FEWEST_TO_COMPARE:
        return none
    low, high = p[~suspects].min(axis=0), p[~suspects].max(axis=0)
    reach = max(float((high - low).max()), NEAR)
    far = np.abs(p - middle).max(axis=1) > GAP * reach
    among = ((p[:, ::-1] >= low - reach) & (p[:, ::-1] <= high + reach)).all(axis=1)
    return np.asarray(suspects & far & among)


def _nearer_exchanged(p: NDArray[np.float64], middle: NDArray[np.float64]) -> NDArray[np.bool_]:
    # Column by column: numpy takes the maximum of many short rows twenty times more slowly.
    (x, y), (across, up) = p.T, middle
    exchanged = np.maximum(np.abs(y - across), np.abs(x - up))
    return np.asarray(exchanged < np.maximum(np.abs(x - across), np.abs(y - up)))


def _none_is_far(whole: Region, some: NDArray[np.float64], middle: tuple[float, float], count: int) -> bool:
    """Whether not even the edges of a region are far: some of its places show that `count` of them lie far out."""
    if len(some) < count:
        return False
    lon, lat = middle
    edges = max(abs(whole.west - lon), abs(whole.east - lon), abs(whole.south - lat), abs(whole.north - lat))
    distance = np.maximum(np.abs(some[:, 0] - lon), np.abs(some[:, 1] - lat))
    return bool(edges <= GAP * max(float(np.partition(distance, -count)[-count]), NEAR))


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
