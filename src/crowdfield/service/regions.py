"""From a region in degrees to a grid of cells in metres."""

import re

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield import geography
from crowdfield.data import Grid, Region
from crowdfield.errors import InputError
from crowdfield.service import places

MOST_CELLS = 1_048_576
# Beyond this angle from its centre an azimuthal projection stretches distances more than a cylindrical one does.
AZIMUTHAL_REACH = 100.0
# Points along each side of the lattice that finds how far a region reaches in metres.
LATTICE = 181
# What is added around the lattice, so that every place of the region lies in a cell: a millimetre for rounding, and for
# wide regions what may bulge between two points of the lattice, as a share of the whole.
EDGE, WIDE, BULGE = 1e-3, 20.0, 2e-4  # metres, degrees, share
# Of a region's sides, on each side of the reports that it is laid around.
MARGIN = 0.08
# Half the side of a region around a single place, in degrees: about a kilometre.
SMALLEST = 0.01


def plan(region: Region, columns: int, rows: int | None = None) -> Grid:
    """A grid of `columns` over the whole of `region`, in the projection that suits it; cells are square unless `rows`
    says otherwise."""
    crs = _projection(region)
    # Inside as well as along the border: a wide region bulges beyond its own corners.
    reach = places.to_metres(crs, _lattice(region))
    if not np.isfinite(reach).all():
        raise InputError("no projection shows the whole of this region; choose a smaller one")
    edge = EDGE + (BULGE * float(np.ptp(reach, axis=0).max()) if region.width > WIDE else 0.0)
    (left, bottom), (right, top) = reach.min(axis=0) - edge, reach.max(axis=0) + edge
    if rows is None:
        rows = max(4, round((top - bottom) / ((right - left) / columns)))
    if rows * columns > MOST_CELLS:
        raise InputError(f"{columns} × {rows} cells are more than {MOST_CELLS:,}; choose fewer columns")
    return Grid(float(left), float(right), float(bottom), float(top), columns, rows, crs)


def around(spots: ArrayLike) -> Region:
    """A region for a map that starts with reports at these (longitude, latitude) places: around the bulk of them, as
    `crowdfield fuse` would choose it, with some room."""
    bulk = geography.main_bounds(spots)
    if geography.span(bulk) > geography.WIDEST:
        raise InputError("the reports are spread over most of the world; give the region that the map is to show")
    middle, latitude = geography.centre(bulk)
    half = max(geography.span(bulk) * (0.5 + MARGIN), SMALLEST)
    tall = max((bulk.north - bulk.south) * (0.5 + MARGIN), SMALLEST)
    west, east = (-180.0, 180.0) if half >= 180.0 else (geography.wrap(middle - half), geography.wrap(middle + half))
    return Region(west, max(latitude - tall, -90.0), east, min(latitude + tall, 90.0))


def _projection(region: Region) -> str:
    """The projection that `crowdfield fuse` would choose; for most of the world, a cylinder of equal areas."""
    if _farthest(region) <= AZIMUTHAL_REACH:
        return geography.choose_crs(region)
    longitude = geography.centre(region)[0]
    return f"+proj=cea +lat_ts=30 +lon_0={longitude:.4f} +datum=WGS84 +units=m +no_defs +type=crs"


def _farthest(region: Region) -> float:
    """The largest angle, in degrees, between the centre of the region's azimuthal projection and a place in it."""
    centre = re.search(r"\+proj=laea \+lat_0=(\S+) \+lon_0=(\S+)", geography.choose_crs(region))
    if centre is None:
        return 0.0  # a UTM zone: never far
    north, east = np.radians([float(value) for value in centre.groups()])
    longitude, latitude = np.radians(_lattice(region)).T
    cosine = np.sin(north) * np.sin(latitude) + np.cos(north) * np.cos(latitude) * np.cos(longitude - east)
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))).max())


def _lattice(region: Region) -> NDArray[np.float64]:
    """Places spread over a region, edges included.   [P, 2]"""
    west, south, _, north = region
    # A hair inside: the meridian opposite the centre of a map of the world would otherwise jump to the other edge.
    span = region.width * (1.0 - 1e-12)
    first = west + (region.width - span) / 2
    x, y = np.meshgrid(np.linspace(first, first + span, LATTICE), np.linspace(south, north, LATTICE))
    return np.column_stack([(x.ravel() + 180.0) % 360.0 - 180.0, y.ravel()])
