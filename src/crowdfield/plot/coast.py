"""Coast and borders under a map, from Natural Earth's outlines where they are installed (`crowdfield.outlines`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke

from crowdfield import outlines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from crowdfield.data import Grid

COAST = "#3f3f46"
CREDIT = "coast and borders: Natural Earth"
# Points along each side of the map, to find how far it reaches in degrees.
_ALONG = 33
# Beyond the edges of the map, as a share of its size: where outlines are cut must not be seen.
_MARGIN = 0.05


def draw_coast(axes: Axes, grid: Grid) -> bool:
    """Draw coast and borders; False where there are none, or no outlines to draw them from."""
    lines = coast_lines(grid)
    if not lines:
        return False
    axes.add_collection(
        LineCollection(
            lines,  # type: ignore[arg-type]
            colors=COAST,
            linewidths=0.9,
            zorder=4,
            path_effects=[withStroke(linewidth=2.2, foreground="white", alpha=0.65)],
        ),
        autolim=False,
    )
    return True


def coast_lines(grid: Grid) -> list[NDArray[np.float64]]:
    """Outlines in the units of the grid that cross it.   each [points, 2]"""
    if grid.crs is None:
        return []
    box = degrees_around(grid)
    if box is None:
        return []
    rings = shapely.get_rings(shapely.get_parts(np.array(outlines.land(*box), dtype=object)))
    from crowdfield.geography import transform

    shown = shapely.box(*grid.bounds)
    lines: list[Any] = []
    for ring in rings:
        there = transform(shapely.get_coordinates(ring), "EPSG:4326", grid.crs)
        if np.isfinite(there).all():
            lines.append(shapely.LineString(there))
    cut = shapely.get_parts(shapely.intersection(np.array(lines, dtype=object), shown)) if lines else []
    return [shapely.get_coordinates(part) for part in cut if part.geom_type == "LineString" and not part.is_empty]


def degrees_around(grid: Grid) -> tuple[float, float, float, float] | None:
    """West, south, east, north of a little more than the grid, in degrees; east may exceed 180. None around a pole."""
    from crowdfield.geography import transform

    share = np.linspace(-_MARGIN, 1 + _MARGIN, _ALONG)
    e, n = grid.west + share * (grid.east - grid.west), grid.south + share * (grid.north - grid.south)
    ends = [np.column_stack([e, np.full(_ALONG, side)]) for side in (n[0], n[-1])]
    ends += [np.column_stack([np.full(_ALONG, side), n]) for side in (e[0], e[-1])]
    lonlat = transform(np.concatenate(ends), grid.crs or "", "EPSG:4326")
    if not np.isfinite(lonlat).all():
        return None
    lon = lonlat[:, 0]
    if np.ptp(lon) > 180:
        lon = np.where(lon < 0, lon + 360, lon)
    if np.ptp(lon) > 180:
        return None
    return float(lon.min()), float(lonlat[:, 1].min()), float(lon.max()), float(lonlat[:, 1].max())
