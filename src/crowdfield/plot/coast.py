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
# Beyond the edges of the map, as a share of its size: where outlines are cut must not be seen.
_MARGIN = 0.05


def draw_coast(axes: Axes, grid: Grid) -> bool:
    """Draw coast and borders; False where there are none, or no outlines to draw them from."""
    lines = coast_lines(grid)
    if not lines:
        return False
    axes.add_collection(
        LineCollection(
            lines,
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
    from crowdfield.geography import WGS84, degrees_around, transform_visible

    box = None if grid.crs is None else degrees_around(grid, _MARGIN)
    if box is None:
        return []
    rings = shapely.get_rings(shapely.get_parts(np.array(outlines.land(*box), dtype=object)))
    shown = shapely.box(*grid.bounds)
    lines: list[Any] = []
    for ring in rings:
        there = transform_visible(shapely.get_coordinates(ring), WGS84, grid.crs or "")
        if np.isfinite(there).all():
            lines.append(shapely.LineString(there))
    cut = shapely.get_parts(shapely.intersection(np.array(lines, dtype=object), shown)) if lines else []
    return [shapely.get_coordinates(part) for part in cut if part.geom_type == "LineString" and not part.is_empty]
