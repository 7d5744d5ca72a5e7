"""Districts coloured by the share that is in one state, paler the less is known about them."""

from __future__ import annotations

from itertools import product
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from crowdfield.counting import share_with_interval
from crowdfield.data import Grid
from crowdfield.data.heatmap import UNKNOWN_SHARE
from crowdfield.data.positive import scale_name
from crowdfield.pipeline.districts import projected
from crowdfield.pipeline.totals import DistrictTotals, in_words
from crowdfield.plot import FAINT, INK, OUTSIDE, UNKNOWN, draw_ground, scale, suppressed
from crowdfield.plot.furniture import HATCH, NORTH, SCALE_BAR, draw_handles, draw_key, furnish_grid, short
from crowdfield.plot.letters import boxes_allowed
from crowdfield.plot.sheet_layout import (
    RESOLUTION,
    Parts,
    credit_line,
    default_size,
    moment_in_words,
    place,
    shape_of,
)
from crowdfield.plot.words import numbered, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMED = 30  # largest number of districts whose names and figures are written into them
MOST_LISTED = 9  # of those whose names do not fit into them: largest number that is listed beside the map
LONGEST_NAME = 18  # letters of a line
MOST_LINES = 3  # of a name
LONGEST_LISTED = 24  # letters of a name that is listed beside the map
SIZES = (8.0, 6.5)  # points: the letters of a name, the smaller where the larger do not fit
AROUND = 0.04  # of the districts' extent: empty space around them
OUTLINE = "#55555a"  # colour of the borders of districts
DARK = 0.5  # luminance of a colour below which letters on it are white


def choropleth(found: DistrictTotals, state: Any = None, *, title: str | None = None) -> Figure:
    """By default of the state in question, in the colours of the map."""
    table, column = found.table, found.column(state)
    said = in_words(column)
    state = next((s for s in found.states if said == str(s)), found.positive)
    share, known = table[f"share_{column}"].to_numpy(float), 1.0 - table["unknown_share"].to_numpy(float)
    colours = scale(scale_name(found.states, found.positive, state))
    shades = suppressed(share, np.nan_to_num(known), colours)
    shapes = np.array([projected(shape, str(found.grid.crs)) for shape in found.areas.shapes], dtype=object)
    frame = _frame(shapes[np.isfinite(share)], found.grid)
    seen = shapely.intersection(shapes, shapely.box(*frame.bounds))

    figure = Figure(figsize=default_size(shape_of(frame)), dpi=RESOLUTION)
    name = figure.suptitle(title or say("share", state=said), fontweight="bold", color=INK)
    axes, beside = figure.add_axes((0, 0, 1, 1)), figure.add_axes((0, 0, 1, 1))
    furnish_grid(axes, frame)
    # The largest first, so that a district within another is not hidden by it.
    for number in np.argsort(-shapely.area(seen), kind="stable"):
        if np.isfinite(share[number]):
            nobody = known[number] < 1.0 - UNKNOWN_SHARE
            look = {"fc": shades[number], "ec": HATCH, "hatch": "////" if nobody else None}
        else:
            look = {"fc": OUTSIDE, "ec": HATCH, "hatch": None}
        outline = _path(shapes[number])
        axes.add_patch(PathPatch(outline, lw=0, zorder=2, **look))
        halo = [withStroke(linewidth=1.8, foreground="white", alpha=0.8)]
        axes.add_patch(PathPatch(outline, lw=0.7, zorder=2, fc="none", ec=OUTLINE, path_effects=halo))
    draw_ground(axes, frame)
    subtitle = axes.set_title(_subtitle(found), loc="left", fontsize=9, color=FAINT, wrap=True)
    hidden = int(shapely.is_empty(seen).sum())
    credit = figure.supxlabel(_credit(found, hidden), fontsize=7.5, color=FAINT)
    below = place(Parts(figure, axes, beside, name, subtitle, credit), shape_of(frame))
    with boxes_allowed():
        listed = _name(axes, found, column, seen, shades) if len(table) <= MOST_NAMED else []
    whole = short(found.weights, 12) if found.weights else say("area")
    draw_key(beside, colours, say("share_of", whole=whole, state=short(said, 21)), ("0", "50 %", "100 %"))
    handles: list[Any] = [Patch(fc=UNKNOWN, ec=HATCH, hatch="////", lw=0, label=say("nobody_knows"))]
    if (~np.isfinite(share) & ~shapely.is_empty(seen)).any():
        handles.append(Patch(fc=OUTSIDE, ec=OUTLINE, lw=0.7, label=say("not_on_map")))
    handles += [Line2D([], [], ls="", label=f"{mark}   {name}\n     {figures}") for mark, name, figures in listed]
    draw_handles(beside, handles, below)
    return figure


def _frame(shapes: Any, grid: Grid) -> Grid:
    """The part of the map that has districts, as one cell: what lies beyond the map has no figures."""
    west, south, east, north = grid.bounds
    there = shapely.intersection(shapes, shapely.box(*grid.bounds))
    if not shapely.is_empty(there).all():
        west, south, east, north = shapely.total_bounds(there)
    pad = AROUND * max(east - west, north - south)
    return Grid(west - pad, east + pad, south - pad, north + pad, 1, 1, grid.crs)


def _subtitle(found: DistrictTotals) -> str:
    made = moment_in_words(found.about.get("created"))
    named = len(found.table) <= MOST_NAMED
    interval = say("interval", level=f"{100 * found.level:.0f}") if named else None
    return "; ".join(part for part in (made, interval) if part is not None)


def _credit(found: DistrictTotals, hidden: int) -> str:
    beyond = say("hidden", count=f"{hidden:,}") if hidden else ""
    return f"{numbered('district', len(found.table))}{beyond}; {credit_line(found.grid)}"


def _name(axes: Axes, found: DistrictTotals, column: str, seen: Any, shades: Any) -> list[tuple[str, str, str]]:
    """Write the name and figures of every district into it; those that do not fit get a letter, and are returned."""
    renderer = FigureCanvasAgg(axes.figure).get_renderer()
    rows = found.table.to_dict("records")
    listed: list[tuple[str, str, str]] = []
    axes.apply_aspect()
    # Names keep clear of the north arrow and the scale bar.
    taken = [_box(part, renderer) for part in axes.get_children() if part.get_gid() in (NORTH, SCALE_BAR)]
    to_pixels = axes.transData.transform
    for number in np.argsort(-shapely.area(seen), kind="stable"):
        row, shape = rows[number], seen[number]
        if shape.is_empty or not np.isfinite(row[f"share_{column}"]):
            continue
        name = short(row["area"], LONGEST_LISTED)
        figures = share_with_interval(*(row[f"share_{end}{column}"] for end in ("", "low_", "high_")))
        # Smaller districts are drawn on top: a name must not be written across them.
        others = shapely.union_all([other for other in seen if 0 < other.area < shape.area])
        free = shapely.difference(shape, others) if others.area else shape
        free = shapely.transform(free, to_pixels)
        ways = [f"{way}\n{figures}" for way in ways_to_write(row["area"])]
        label = _fitting(axes, ways, free, shades[number], renderer, taken)
        if label is None and len(listed) < MOST_LISTED:
            mark = chr(ord("a") + len(listed))
            listed.append((mark, name, figures))
            middle = axes.transData.inverted().transform(shapely.get_coordinates(free.representative_point())[0])
            label = _write(axes, middle, mark, SIZES[0], shades[number])
        if label is not None:
            taken.append(_box(label, renderer))
    return listed


def ways_to_write(area: Any) -> list[str]:
    """A district's name as it may stand in it, the better first: whole, in lines if it is long; else cut."""
    name = " ".join(str(area).split())
    # Between words before at hyphens: "Quartier / Nord-Ouest".
    lines = [wrap(name, LONGEST_NAME, break_long_words=False, break_on_hyphens=cut) for cut in (False, True)]
    ways = [*("\n".join(way) for way in lines if len(way) <= MOST_LINES), short(name, LONGEST_NAME)]
    return list(dict.fromkeys(ways))


def _fitting(axes: Axes, ways: list[str], free: Any, shade: Any, renderer: Any, taken: list[Any]) -> Any:
    """The first of some ways to write words, at a place where they lie within `free` (in pixels) and on no other words;
    None if there is none."""
    for words, size in product(ways, SIZES):
        for point in _middles(free):
            label = _write(axes, axes.transData.inverted().transform(point), words, size, shade)
            box = _box(label, renderer)
            if free.contains(box) and not any(box.intersects(other) for other in taken):
                return label
            label.remove()
    return None


def _middles(free: Any) -> list[Any]:
    """Points far from the outline, the farthest first: of the whole, and of its upper, middle and lower third."""
    parts = [part for part in shapely.get_parts(free) if part.geom_type == "Polygon"]
    if not parts:
        return []
    largest = max(parts, key=lambda part: float(part.area))
    west, south, east, north = largest.bounds
    height = (north - south) / 3
    bands = [shapely.box(west, south + k * height, east, south + (k + 1) * height) for k in range(3)]
    pieces = [largest, *(largest.intersection(band) for band in bands)]
    circles = [shapely.maximum_inscribed_circle(piece) for piece in pieces if piece.area > 0]
    return [shapely.get_coordinates(circle)[0] for circle in circles] + [shapely.get_coordinates(largest.centroid)[0]]


def _write(axes: Axes, at: Any, words: str, size: float, shade: Any) -> Any:
    dark = float(np.dot(shade, (0.299, 0.587, 0.114))) < DARK
    x, y = at
    return axes.text(
        x,
        y, words, ha="center", va="center", fontsize=size, color="white" if dark else INK, zorder=5,
        path_effects=[withStroke(linewidth=2.0, foreground=shade)],
    )  # fmt: skip


def _box(label: Any, renderer: Any) -> Any:
    return shapely.box(*label.get_window_extent(renderer).extents)


def _path(shape: Any) -> Path:
    """All rings of a polygon or of several; inner ones turn the other way, so that holes stay open."""
    parts = [part for part in shapely.get_parts(shape) if part.geom_type == "Polygon" and not part.is_empty]
    rings = [ring for part in shapely.orient_polygons(parts) for ring in (part.exterior, *part.interiors)]
    if not rings:
        return Path(np.empty((0, 2)))
    codes = [np.r_[Path.MOVETO, np.full(len(ring.coords) - 2, Path.LINETO), Path.CLOSEPOLY] for ring in rings]
    return Path(np.concatenate([np.array(ring.coords)[:, :2] for ring in rings]), np.concatenate(codes))
