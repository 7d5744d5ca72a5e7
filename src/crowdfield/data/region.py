"""A box in degrees: (west, south, east, north), the order of GeoJSON (RFC 7946) and of OGC services.

West greater than east means that the box crosses the antimeridian.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.errors import InputError

ORDER = "west,south,east,north"
# Four numbers in the order west,east,south,north often make a valid but huge box when read as west,south,east,north.
# If they do, and the huge box is more than so many times the area of the other, the other was probably meant. Whoever
# means the huge one names its edges. (France in the wrong order: 14 times; a town: 10,000 times.)
MUCH_LARGER = 10.0


class Region(NamedTuple):
    """A box in degrees. Made by name, it is taken as it is; `parse_region` checks what comes from outside."""

    west: float
    south: float
    east: float
    north: float

    @property
    def width(self) -> float:
        """How many degrees of longitude the box spans."""
        return self.east - self.west if self.east > self.west else self.east - self.west + 360.0

    def holds(self, longitude: float, latitude: float) -> bool:
        """Whether a place lies in the box or on its edges."""
        west, south, east, north = self
        across = west <= longitude <= east if west <= east else longitude >= west or longitude <= east
        return across and south <= latitude <= north

    def holds_each(self, places: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each place, longitude and latitude in degrees, lies in the box or on its edges.   [M, 2] -> [M]"""
        west, south, east, north = self
        longitude, latitude = places.T
        after, before = longitude >= west, longitude <= east
        across = after & before if west <= east else after | before
        return np.asarray(across & (latitude >= south) & (latitude <= north))


def parse_region(region: str | Sequence[float] | Mapping[str, float]) -> Region:
    """Read a region from four numbers or from text, in the order west, south, east, north; or from named edges.

    Parameters
    ----------
    region : str, sequence of float, or mapping
        "west,south,east,north" in degrees, four numbers in this order, or named edges. West greater than east crosses
        the antimeridian. Numbers that look like another order are an error, unless they are named.

    Returns
    -------
    Region
        The four edges.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.parse_region("-72.6,18.2,-72.0,18.8")
    Region(west=-72.6, south=18.2, east=-72.0, north=18.8)
    >>> geography.parse_region("north=18.8, south=18.2, east=-72, west=-72.6").east
    -72.0
    """
    edges, named = _edges(region)
    west, south, east, north = edges
    if not all(map(math.isfinite, edges)):
        raise InputError(f"a region's edges must be finite, got {region!r}.")
    if not (-90 <= south < north <= 90):
        raise InputError(
            f"a region needs -90 <= south < north <= 90, got south = {south:g} and north = {north:g}. "
            f"The order is {ORDER}."
        )
    if not (-180 <= west <= 360 and -180 <= east <= 360) or west == east or east - west > 360:
        raise InputError(
            f"a region's west and east are longitudes, got west = {west:g} and east = {east:g}. The order is {ORDER}."
        )
    if not named and _other_order_is_likelier(edges):
        raise InputError(
            f"a region is {ORDER}; {west:g},{south:g},{east:g},{north:g} looks like west,east,south,north, which would "
            f"be written {west:g},{east:g},{south:g},{north:g}. To mean the large region all the same, name its edges: "
            f"west={west:g},south={south:g},east={east:g},north={north:g}."
        )
    if east - west < 360:
        west, east = _wrapped(west), _wrapped(east)
        # 180 and −180 are one meridian: as an eastern edge it is 180, as a western one −180.
        east = 180.0 if east == -180.0 else east
    return Region(west, south, east, north)


def _edges(region: str | Sequence[float] | Mapping[str, float]) -> tuple[Region, bool]:
    """The edges as they were given, and whether they were given by name."""
    given: Any = region
    if isinstance(region, str):
        parts = [part for part in re.split(r"[,\s]+", region.strip()) if part]
        pairs = [part.partition("=") for part in parts]
        given = {name: value for name, _, value in pairs} if any(equals for _, equals, _ in pairs) else parts
    try:
        if isinstance(given, Mapping):
            if set(given) != set(Region._fields):
                raise ValueError
            return Region(**{name: float(value) for name, value in given.items()}), True
        west, south, east, north = (float(part) for part in given)
    except (TypeError, ValueError):
        raise InputError(f"a region is {ORDER} in degrees, got {region!r}.") from None
    return Region(west, south, east, north), isinstance(region, Region)


def _other_order_is_likelier(box: Region) -> bool:
    west, east, south, north = box  # read in the other order
    if not (-180 <= west < east <= 180 and -90 <= south < north <= 90):
        return False
    return box.width * (box.north - box.south) > MUCH_LARGER * (east - west) * (north - south)


def _wrapped(longitude: float) -> float:
    """A longitude in [−180, 180); what is already there stays as it was written, to the last digit."""
    return longitude if -180.0 <= longitude < 180.0 else (longitude + 180.0) % 360.0 - 180.0
