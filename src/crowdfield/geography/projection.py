"""Coordinate reference systems: choosing one for a region, and bringing places from one to another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data.region import Region
from crowdfield.data.reports import Reports
from crowdfield.errors import InputError
from crowdfield.geography.regions import bounds, centre, span, wrap

if TYPE_CHECKING:
    from pyproj import Transformer

WGS84 = "EPSG:4326"

# UTM is conformal and everyone's GIS knows it, but it is true to scale only near its meridian; beyond these limits the
# azimuthal equal-area projection, centred on the data, distorts distances less.
_UTM_HALF_WIDTH = 4.0  # degrees from the central meridian
_UTM_SOUTH, _UTM_NORTH = -80.0, 84.0

# Beyond this angle from its centre an azimuthal projection stretches distances more than a cylindrical one does.
_AZIMUTHAL_REACH = 100.0
# Points along each side of the lattice that finds how far a region reaches.
_LATTICE = 181


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


def _farthest(region: Region, longitude: float, latitude: float) -> float:
    """The largest angle, in degrees, between a place and the places of a region."""
    east, north = math.radians(longitude), math.radians(latitude)
    lon, lat = np.radians(lattice(region)).T
    cosine = np.sin(north) * np.sin(lat) + np.cos(north) * np.cos(lat) * np.cos(lon - east)
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))).max())


def lattice(region: Region) -> NDArray[np.float64]:
    """Places spread over a region, edges included.   [P, 2]"""
    west, south, _, north = region
    # Just inside: the meridian opposite the centre of a map of the world would otherwise jump to the other edge.
    width = span(region) * (1.0 - 1e-12)
    first = west + (span(region) - width) / 2
    x, y = np.meshgrid(np.linspace(first, first + width, _LATTICE), np.linspace(south, north, _LATTICE))
    return np.column_stack([(x.ravel() + 180.0) % 360.0 - 180.0, y.ravel()])


def check_crs(crs: object) -> str:
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


def is_geographic(crs: str) -> bool:
    """Whether the coordinates of a reference system are degrees."""
    import pyproj

    return bool(pyproj.CRS(check_crs(crs)).is_geographic)


def check_in_metres(crs: str) -> str:
    """The reference system of a map, as it was given. One in degrees is an error: cells and distances are in metres."""
    if is_geographic(crs):
        raise InputError(
            f"{crs} is in degrees, but a map is made in metres. Leave it out, or name one like EPSG:32618."
        )
    return crs


def crs_in_words(crs: str | None) -> str:
    """A reference system for people: its code, or what it is if it has none.

    >>> crs_in_words("EPSG:32618"), crs_in_words("+proj=laea +lat_0=19 +lon_0=-72 +datum=WGS84 +units=m")
    ('EPSG:32618', 'local projection in metres')
    """
    if crs is None:
        return "no reference system"
    from pyproj import CRS

    return ":".join(CRS.from_user_input(crs).to_authority() or ()) or "local projection in metres"


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


@lru_cache(maxsize=64)
def transformer(source: str, target: str) -> Transformer:
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
