"""Between degrees, in which people report, and the metres of a situation's own projection."""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pyproj import Transformer

from crowdfield.data import Region


def inside(region: Region, longitude: float, latitude: float) -> bool:
    """Whether a place lies in a region of degrees; one with west > east goes across the antimeridian."""
    west, south, east, north = region
    across = west <= longitude <= east if west <= east else longitude >= west or longitude <= east
    return across and south <= latitude <= north


@lru_cache(maxsize=64)
def _transformer(crs: str, back: bool) -> Transformer:
    ends = (crs, "OGC:CRS84") if back else ("OGC:CRS84", crs)
    return Transformer.from_crs(*ends, always_xy=True)


def to_metres(crs: str, degrees: ArrayLike) -> NDArray[np.float64]:
    """Longitude, latitude -> easting, northing.   [R, 2] -> [R, 2]"""
    d = np.asarray(degrees, dtype=np.float64).reshape(-1, 2)
    return np.column_stack(_transformer(crs, False).transform(d[:, 0], d[:, 1]))


def to_degrees(crs: str, metres: ArrayLike) -> NDArray[np.float64]:
    """Easting, northing -> longitude, latitude.   [R, 2] -> [R, 2]"""
    m = np.asarray(metres, dtype=np.float64).reshape(-1, 2)
    return np.column_stack(_transformer(crs, True).transform(m[:, 0], m[:, 1]))
