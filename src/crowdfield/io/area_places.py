"""Areas as inexact places: the centroid of a polygon, and a radius.

A report about a whole tile or village is treated as one about the average of the field over a normal distribution with
the centroid and the mean variance of the polygon (docs/accuracy.md). So it is one report, however large the area is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from crowdfield import geography

# In standard deviations of a coordinate: within it lie 68 % of a normal distribution in the plane.
RADIUS = float(np.sqrt(-2.0 * np.log(1.0 - 0.68)))
METRES = 111_195.0  # of a degree of latitude, on a sphere of the earth's size


def spread(shape: Any) -> tuple[float, float]:
    """The standard deviations of x and y over one or several polygons."""
    middle = shapely.centroid(shape)
    total, squares = 0.0, np.zeros(2)
    for polygon in shapely.get_parts(shape):
        for ring, sign in [(polygon.exterior, 1.0), *((hole, -1.0) for hole in polygon.interiors)]:
            x, y = (np.asarray(ring.coords)[:, :2] - [middle.x, middle.y]).T
            cross = x[:-1] * y[1:] - x[1:] * y[:-1]
            turn = np.sign(cross.sum()) * sign
            total += turn * cross.sum() / 2.0
            moments = [(cross * (v[:-1] ** 2 + v[:-1] * v[1:] + v[1:] ** 2)).sum() / 12.0 for v in (x, y)]
            squares += turn * np.array(moments)
    sx, sy = np.sqrt(np.maximum(squares / total, 0.0)) if total > 0 else (0.0, 0.0)
    return float(sx), float(sy)


def radii(shapes: NDArray[Any], crs: str) -> NDArray[np.float64]:
    """The radius in metres around the centroid that contains 68 % of each polygon's normal distribution: [n]."""
    sds = np.array([spread(shape) for shape in shapes]).reshape(-1, 2)
    if crs == "local":
        return np.asarray(RADIUS * np.sqrt((sds**2).mean(1)))
    middle = shapely.centroid(shapes)
    at = np.column_stack([shapely.get_x(middle), shapely.get_y(middle)])
    steps: list[NDArray[np.float64]] = [at, at + sds * [1.0, 0.0], at + sds * [0.0, 1.0]]
    if crs != geography.WGS84:
        steps = [geography.transform(step, crs, geography.WGS84) for step in steps]
    here, east, north = steps
    scale = METRES * np.column_stack([np.cos(np.radians(here[:, 1])), np.ones(len(here))])
    squared = sum((((there - here) * scale) ** 2).sum(1) for there in (east, north))
    return np.asarray(RADIUS * np.sqrt(squared / 2.0))
