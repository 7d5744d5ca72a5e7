"""The surroundings of a map: axes in degrees, scale bar, north arrow, hatching of unknown places, and legends."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation, Text
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Affine2D, BboxTransformTo, ScaledTranslation, blended_transform_factory

from crowdfield.data.heatmap import UNKNOWN_SHARE
from crowdfield.data.positive import theme
from crowdfield.geography.lengths import length_in_words
from crowdfield.plot.palette import (
    FAINT,
    INK,
    OUTSIDE,
    UNKNOWN,
    scale,
    scale_of,
    state_colours,
    state_index,
    suppressed,
    unknown,
)
from crowdfield.plot.words import say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from numpy.typing import NDArray

    from crowdfield.data import Grid, Heatmap

HATCH = "#a9a9ae"
EDGE_OF_CELL = 1e-3  # of a cell: from its edge, where the outline of hatching begins
LEGEND: dict[str, Any] = {
    "frameon": False,
    "fontsize": 8.5,
    "labelcolor": INK,
    "title_fontsize": 8,
    "handletextpad": 0.5,
    "borderaxespad": 0.0,
}
# Points along an edge of the map from which the places of round degrees are interpolated.
_ALONG = 65


def heading(axes: Axes, text: str) -> None:
    """A title above the axes, to the left."""
    axes.set_title(text, loc="left", color=INK, fontsize=11, fontweight="bold")


def panel(axes: Axes, title: str) -> None:
    """The look of a panel that is no map: a title to the left, and only two axes."""
    axes.set_title(title, loc="left", color=INK, fontsize=10.5, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5, colors=FAINT, length=2)


def hatch_unknown(axes: Axes, heatmap: Heatmap) -> None:
    """Hatch the cells of a map that are unknown."""
    hatch(axes, heatmap.grid, unknown(heatmap))


def hatch(axes: Axes, grid: Grid, where: NDArray[np.bool_]) -> None:
    """Strokes over what nobody knows."""
    if not where.any() or min(grid.shape) < 2:
        return
    # Each cell as two columns and two rows close to its edges, so that the contour at half height runs along the edges
    # and not across the corners of single cells.
    inset = EDGE_OF_CELL * np.array([1.0, -1.0])
    columns = np.linspace(grid.west, grid.east, grid.columns + 1)
    rows = np.linspace(grid.north, grid.south, grid.rows + 1)
    eastings = (np.column_stack([columns[:-1], columns[1:]]) + inset * grid.cell_width).ravel()
    northings = (np.column_stack([rows[:-1], rows[1:]]) - inset * grid.cell_height).ravel()
    eastings[[0, -1]], northings[[0, -1]] = columns[[0, -1]], rows[[0, -1]]
    padded = np.repeat(np.repeat(where.astype(float), 2, axis=0), 2, axis=1)
    strokes = axes.contourf(eastings, northings, padded, levels=[0.5, 1.5], colors="none", hatches=["////"], zorder=2)
    strokes.set(edgecolor=HATCH, linewidth=0.0)


def furnish(axes: Axes, heatmap: Heatmap) -> None:
    """Axes, scale bar and north arrow of a map."""
    furnish_grid(axes, heatmap.grid)


def furnish_grid(axes: Axes, grid: Grid) -> None:
    """Labelled axes, a scale bar and a north arrow."""
    west, south, east, north = grid.bounds
    # At the top of its room: level with the legend and with other maps beside it.
    axes.set(xlim=(west, east), ylim=(south, north), aspect=aspect_of(grid), anchor="N")
    _label_axes(axes, grid)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(fontsize=8.5, color=INK)
    axes.tick_params(labelsize=8, colors=FAINT, length=2)
    for spine in axes.spines.values():
        spine.set(color="#c8c8c8", linewidth=0.8)
    geographic, units = _reference(grid.crs)
    if geographic:
        draw_scale_bar(axes, (east - west) * 111_320 * np.cos(np.radians((south + north) / 2)))
    elif units == "metre":
        draw_scale_bar(axes, east - west)
    draw_north(axes)


def _label_axes(axes: Axes, grid: Grid) -> None:
    """Longitude and latitude along the edges, whatever the projection; without a reference system the plain numbers."""
    edges = _edge_degrees(grid) if grid.crs is not None else None
    if edges is None:
        axes.set_xlabel(say("easting"))
        axes.set_ylabel(say("northing"))
        for side in (axes.xaxis, axes.yaxis):
            side.set_major_locator(MaxNLocator(5))
        return
    west, south, east, north = grid.bounds
    tall = (north - south) / (east - west) * aspect_of(grid)
    # Fewer along a short side, where the labels of four would overlap.
    most = [max(round(min(4, 8 * short_side)), 1) for short_side in (1 / tall, tall)]
    sides_of = (("W", "E"), ("S", "N"))
    for axis, (places, degrees), sides, count in zip((axes.xaxis, axes.yaxis), edges, sides_of, most, strict=True):
        ticks = np.asarray(MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(degrees[0], degrees[-1]))
        ticks = ticks[(ticks >= degrees[0]) & (ticks <= degrees[-1])]
        if count < 3:  # a locator gives two ticks at least
            middle = (degrees[0] + degrees[-1]) / 2
            ticks = np.sort(ticks[np.argsort(np.abs(ticks - middle), kind="stable")[:count]])
        axis.set_ticks(np.interp(ticks, degrees, places), in_degrees(ticks, sides))
    axes.set_xlabel(say("longitude"))
    axes.set_ylabel(say("latitude"))


def _edge_degrees(grid: Grid) -> tuple[tuple[Any, Any], tuple[Any, Any]] | None:
    """Longitudes along the southern edge, latitudes along the western one; None where they do not rise (a pole)."""
    from crowdfield.geography import WGS84, transform_visible

    e, n = np.linspace(grid.west, grid.east, _ALONG), np.linspace(grid.south, grid.north, _ALONG)
    south, west = np.column_stack([e, np.full(_ALONG, grid.south)]), np.column_stack([np.full(_ALONG, grid.west), n])
    lon = transform_visible(south, grid.crs or "", WGS84)[:, 0]
    lat = transform_visible(west, grid.crs or "", WGS84)[:, 1]
    lon = np.where(lon < lon[0] - 180, lon + 360, lon)
    if not (
        np.isfinite(lon).all() and np.isfinite(lat).all() and (np.diff(lon) > 0).all() and (np.diff(lat) > 0).all()
    ):
        return None
    return (e, lon), (n, lat)


def in_degrees(values: NDArray[np.float64], sides: tuple[str, str]) -> list[str]:
    """Degrees in words, all with the decimals that one of them needs."""
    values = (values + 180) % 360 - 180 if sides[0] == "W" else values
    needed = max((len(f"{abs(value):.6f}".rstrip("0").partition(".")[2]) for value in values), default=0)
    return [f"{abs(value):.{needed}f}° {sides[int(value >= 0)]}" for value in values]


NORTH = "north"  # the gid of the arrow
_NORTH_AT = (0.965, 0.965)  # its tip, in parts of the axes
_NORTH_LENGTH = 26.0  # points


def draw_north(axes: Axes) -> None:
    """An arrow to the north, in the upper right corner."""
    axes.annotate(
        "N",
        _NORTH_AT,
        (0.0, -_NORTH_LENGTH),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=8.5,
        fontweight="bold",
        color=INK,
        arrowprops={
            "arrowstyle": "-|>",
            "color": INK,
            "lw": 1.1,
            "shrinkA": 3,
            "shrinkB": 0,
            "path_effects": [withStroke(linewidth=3, foreground="white", alpha=0.8)],
        },
        bbox={"boxstyle": "circle,pad=0.12", "fc": "white", "ec": "none", "alpha": 0.75},
        zorder=7,
        gid=NORTH,
    )


SCALE_BAR = "scale bar"  # the gid of its parts, the white ground first
_MARGIN = 0.025  # of the scale bar from the edges and from marks, in parts of the axes
# Heights of the scale bar above the lower edge of the map, in points: the same on small and on tall maps.
_GROUND, _BAR, _WORDS = (6.0, 24.0), (11.0, 4.0), 17.5


def draw_scale_bar(axes: Axes, metres_across: float) -> None:
    """A bar of a round length, in the lower left corner; metres_across: the width of the axes on the ground."""
    length = metres_across / 4
    power = 10.0 ** np.floor(np.log10(length))
    length = max(step for step in (1, 2, 5) if step * power <= length) * power
    share = length / metres_across
    points = (
        Affine2D().scale(1 / 72) + axes.figure.dpi_scale_trans + ScaledTranslation(0, 0, BboxTransformTo(axes.bbox))
    )
    ground: dict[str, Any] = {
        "transform": blended_transform_factory(axes.transAxes, points),
        "gid": SCALE_BAR,
    }
    corner, high = (_MARGIN, _GROUND[0]), _GROUND[1]
    axes.add_patch(Rectangle(corner, share + 0.04, high, fc="white", ec="none", alpha=0.78, zorder=6, **ground))
    for start, shade in ((0.0, INK), (0.5, "white")):
        corner, high = (_MARGIN + 0.02 + start * share, _BAR[0]), _BAR[1]
        axes.add_patch(Rectangle(corner, share / 2, high, fc=shade, ec=INK, lw=0.7, zorder=7, **ground))
    text = length_in_words(length)
    axes.text(_MARGIN + 0.02 + share / 2, _WORDS, text, ha="center", fontsize=8, color=INK, zorder=7, **ground)


def make_way(axes: Axes, places: NDArray[np.float64]) -> None:
    """Move the scale bar and the north arrow to the other side of the map if they cover fewer marks there.

    places [n, 2]: where the marks are.
    """
    at = axes.transAxes.inverted().transform(axes.transData.transform(places))
    in_points = axes.figure.dpi / 72 / axes.bbox.height  # one point, in parts of the axes' height
    parts: list[Any] = [part for part in axes.get_children() if part.get_gid() == SCALE_BAR]
    if parts:
        low = at[:, 1] < sum(_GROUND) * in_points + _MARGIN
        wide, left = parts[0].get_width(), parts[0].get_x()
        move = _to_the_freer_side(at[low, 0], left + wide / 2, wide / 2)
        for part in parts:
            part.set(x=(part.get_position()[0] if isinstance(part, Text) else part.get_x()) + move)
    for arrow in (part for part in axes.texts if part.get_gid() == NORTH and isinstance(part, Annotation)):
        high = at[:, 1] > _NORTH_AT[1] - 1.4 * _NORTH_LENGTH * in_points - _MARGIN
        arrow.xy = (arrow.xy[0] + _to_the_freer_side(at[high, 0], arrow.xy[0], 1.0 - _NORTH_AT[0]), arrow.xy[1])


def _to_the_freer_side(marks: NDArray[np.float64], middle: float, half: float) -> float:
    """How far to move a thing of this middle and half width: to the mirrored side if it covers fewer marks there."""

    def covered(here: float) -> int:
        return int((np.abs(marks - here) < half + _MARGIN).sum())

    return 1.0 - 2.0 * middle if covered(1.0 - middle) < covered(middle) else 0.0


# Room beside and below the parts of a legend, in inches from its upper left corner.
_KEY = (0.72, -1.42, 1.3, 1.3)  # the palette: left, bottom, width and height
_STEPS = (0.06, -1.7, 0.3, 1.6)  # the colours of grades
KEY_LETTERS = 27  # of a line under the palette
MOST_IN_LINES = 6  # grades beside whose colours names may have two lines
_HANDLES_UNDER, _HANDLES_BESIDE = -2.05, 2.55


def draw_legend(
    axes: Axes,
    heatmap: Heatmap,
    state: Any = None,
    *,
    looks: bool = False,
    more: Sequence[Line2D] = (),
    below: bool = False,
) -> None:
    """Probability across, knowledge upwards: the palette itself, so that every colour on the map can be looked up.

    below: the legend is below the map, so its parts stand side by side.
    """
    j = state_index(heatmap, state)
    draw_key(axes, scale_of(heatmap, state), in_lines(say("probability_of", state=heatmap.states[j]), KEY_LETTERS))
    handles = [*_ground_handles(heatmap), *([looks_handle()] if looks else []), *more]
    draw_handles(axes, handles, below)


def draw_key(axes: Axes, shades: Colormap, label: str, ticks: Sequence[str] = ("0", "½", "1")) -> None:
    """The palette of a value from 0 to 1, paler the less is known, in the upper left corner of the axes."""
    axes.set_axis_off()
    key = axes.inset_axes(_KEY, transform=from_corner(axes))
    value, known = np.meshgrid(np.linspace(0, 1, 120), np.linspace(0.0, 0.75, 90))
    key.imshow(suppressed(value, known, shades), origin="lower", extent=(0, 1, 0, 1), aspect="auto")
    band = (1.0 - UNKNOWN_SHARE) / 0.75
    key.add_patch(Rectangle((0, 0), 1, band, fc="none", ec=HATCH, hatch="/////", lw=0))
    key.set_xticks([0, 0.5, 1], ticks)
    key.set_yticks([band / 2, 0.96], [say("unknown"), say("known")])
    key.tick_params(labelsize=7.5, colors=FAINT, length=2)
    key.set_xlabel(label, fontsize=8.5, color=INK)
    for spine in key.spines.values():
        spine.set(color="#c8c8c8", linewidth=0.8)


def draw_states_legend(axes: Axes, heatmap: Heatmap, *, more: Sequence[Any] = (), below: bool = False) -> None:
    """A colour for every state, from the one in question on; in small letters where there are many states."""
    axes.set_axis_off()
    shades = state_colours(heatmap.states, heatmap.positive)
    states: list[Any] = [Patch(fc=shades[j], label=short(heatmap.states[j], 28)) for j in heatmap.order]
    others = [Patch(fc=UNKNOWN, ec="#bdbdbd", lw=0.8, label="undecided: the greyer,\nthe less certain")]
    others += [*_ground_handles(heatmap), *more]
    dpi = axes.figure.dpi
    columns = max(int(axes.bbox.width / dpi / _ENTRY_WIDTH), 1) if below else 1
    room = axes.bbox.height / dpi if below else axes.bbox.y1 / dpi - _UNDER_LEGEND
    # The title and the second line of "undecided" take the room of two entries.
    rows, fitting = -(-len([*states, *others]) // columns) + 2, room / _ENTRY_HEIGHT
    shrunk = float(np.clip(fitting / rows, _SMALLEST_LETTERS, 1.0))
    left_out = (rows - int(fitting / shrunk)) * columns
    if left_out > 0:
        states = states[: -left_out - 1]
        others.insert(0, Patch(fc="none", label=f"… {len(heatmap.states) - len(states):,} more"))
    letters = {**LEGEND, "fontsize": shrunk * LEGEND["fontsize"]}
    handles = [*states, *others]
    axes.legend(
        handles=handles, loc="upper left", title="most probable state", alignment="left", ncols=columns, **letters
    )


# Inches: the room of an entry of the legend of states, and what must stay free under it.
_ENTRY_WIDTH, _ENTRY_HEIGHT, _UNDER_LEGEND = 2.0, 0.2, 0.4
_SMALLEST_LETTERS = 0.7  # of the usual size


def draw_grades_legend(axes: Axes, heatmap: Heatmap, *, more: Sequence[Any] = (), below: bool = False) -> None:
    """The colours of expected grades, each grade beside its own, the worst at the top."""
    axes.set_axis_off()
    states, shades = heatmap.states, scale(theme(heatmap.positive))
    key = axes.inset_axes(_STEPS, transform=from_corner(axes))
    key.imshow(
        shades(np.linspace(0, 1, 200))[:, None], origin="lower", extent=(0, 1, 0, len(states) - 1), aspect="auto"
    )
    key.set_xticks([])
    key.yaxis.tick_right()
    most = 1 if len(states) > MOST_IN_LINES else 2
    key.set_yticks(range(len(states)), [in_lines(state, 22, most) for state in states])
    key.tick_params(labelsize=8, colors=INK, length=2)
    for spine in key.spines.values():
        spine.set(color="#c8c8c8", linewidth=0.8)
    pale = Patch(fc=UNKNOWN, ec="#bdbdbd", lw=0.8, label="the greyer, the\nless is known")
    draw_handles(axes, [pale, *_ground_handles(heatmap), *more], below)


def draw_handles(axes: Axes, handles: Sequence[Any], beside: bool) -> None:
    """The entries of a legend: under its key, or beside it."""
    at = (_HANDLES_BESIDE, -0.1) if beside else (0.0, _HANDLES_UNDER)
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=at, bbox_transform=from_corner(axes), **LEGEND)


def from_corner(axes: Axes) -> Any:
    """Inches from the upper left corner of the axes: what is placed so has the same size on every sheet."""
    corner = ScaledTranslation(0, 1, BboxTransformTo(axes.bbox))
    return axes.figure.dpi_scale_trans + corner


def looks_handle() -> Line2D:
    """The entry of the legend for places to look at."""
    return Line2D([], [], ls="", marker="o", mfc="white", mec=INK, mew=1.4, ms=8, label=say("look_next"))


def in_lines(text: Any, letters: int, most: int = 2) -> str:
    """A text in lines of so many letters, cut if it needs more than so many lines."""
    return "\n".join(textwrap.wrap(str(text), letters, max_lines=most, placeholder="…"))


def short(state: Any, most: int = 18) -> str:
    """A state's name, cut where it would not fit."""
    text = str(state)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _ground_handles(heatmap: Heatmap) -> list[Any]:
    handles: list[Any] = [Patch(fc=UNKNOWN, ec=HATCH, hatch="////", lw=0, label=say("nobody_knows"))]
    if not heatmap.mask.all():
        handles.append(Patch(fc=OUTSIDE, ec="#c8c8c8", lw=0.8, label=say("outside")))
    return handles


def aspect(heatmap: Heatmap) -> float:
    """The aspect ratio of a map's axes."""
    return aspect_of(heatmap.grid)


def aspect_of(grid: Grid) -> float:
    """Degrees of longitude are shorter than degrees of latitude: drawn so that shapes keep theirs."""
    if not _reference(grid.crs)[0]:
        return 1.0
    return float(1.0 / np.cos(np.radians((grid.south + grid.north) / 2)))


def _reference(crs: str | None) -> tuple[bool, str | None]:
    """(is it in degrees, its unit)"""
    if crs is None:
        return False, None
    from pyproj import CRS

    known = CRS.from_user_input(crs)
    return known.is_geographic, known.axis_info[0].unit_name if known.axis_info else None
