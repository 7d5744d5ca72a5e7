"""Coast, borders, rivers and lakes on a map, where their files are installed (`outlines`, `landmarks`)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke

from crowdfield import outlines
from crowdfield.data import Region
from crowdfield.landmarks import largest_waters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from crowdfield.data import Grid

COAST = "#3f3f46"
WATER = "#2f76b5"
# Rivers and lakes without details that a picture would not show: of its width 1 / DETAILS. A river or lake is at least
# LEAST_WATER of them long; of more than MOST_WATER coordinates the largest are drawn, so that they do not hide the map.
DETAILS, LEAST_WATER, MOST_WATER = 600, 24, 2_500
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


def draw_ground(axes: Axes, grid: Grid) -> None:
    """Draw coast and borders, rivers and lakes."""
    draw_water(axes, grid)
    draw_coast(axes, grid)


def draw_water(axes: Axes, grid: Grid) -> None:
    """Draw rivers, and the shores of lakes: what a map says of a lake stays in sight."""
    halo = [withStroke(linewidth=1.6, foreground="white", alpha=0.55)]
    lines = LineCollection(water_lines(grid), colors=WATER, linewidths=0.75, zorder=3, path_effects=halo)
    axes.add_collection(lines, autolim=False)


@lru_cache(maxsize=4)
def water_lines(grid: Grid) -> list[NDArray[np.float64]]:
    """Rivers and the shores of lakes in the units of the grid; none for a region that is too small for their detail,
    like that of the coast.   each [points, 2]"""
    from crowdfield.geography import degrees_around

    box = None if grid.crs is None else degrees_around(grid, _MARGIN)
    if box is None or outlines.too_small(*box):
        return []
    detail = max(box.east - box.west, box.north - box.south) / DETAILS
    shapes = [shape for _, shape in largest_waters(_spans(box), detail, LEAST_WATER, MOST_WATER)]
    areas = [ring for shape in shapes for ring in shapely.get_rings(shapely.get_parts(shape))]
    rivers = [part for shape in shapes for part in shapely.get_parts(shape) if part.geom_type == "LineString"]
    return _within(grid, [*rivers, *areas])


def _spans(box: Region) -> list[Region]:
    """The parts of a box, whose east may exceed 180, on both sides of the antimeridian."""
    parts = [
        Region(max(box.west - turn, -180.0), box.south, min(box.east - turn, 180.0), box.north)
        for turn in (-360.0, 0.0, 360.0)
    ]
    return [part for part in parts if part.west < part.east]


def coast_lines(grid: Grid) -> list[NDArray[np.float64]]:
    """Outlines in the units of the grid that cross it.   each [points, 2]"""
    from crowdfield.geography import degrees_around

    box = None if grid.crs is None else degrees_around(grid, _MARGIN)
    if box is None:
        return []
    return _within(grid, shapely.get_rings(shapely.get_parts(np.array(outlines.land(*box), dtype=object))))


def _within(grid: Grid, shapes: Any) -> list[NDArray[np.float64]]:
    """Lines in degrees, in the units of the grid and cut to it.   each [points, 2]"""
    from crowdfield.geography import WGS84, transform_visible

    shown = shapely.box(*grid.bounds)
    lines: list[Any] = []
    for shape in shapes:
        there = transform_visible(shapely.get_coordinates(shape), WGS84, grid.crs or "")
        if np.isfinite(there).all():
            lines.append(shapely.LineString(there))
    cut = shapely.get_parts(shapely.intersection(np.array(lines, dtype=object), shown)) if lines else []
    return [shapely.get_coordinates(part) for part in cut if part.geom_type == "LineString" and not part.is_empty]
