"""Districts coloured by the share that is in one state, paler the less is known about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import shapely
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from matplotlib.ticker import PercentFormatter

from crowdfield.counting import counted
from crowdfield.data.positive import scale_name
from crowdfield.pipeline.totals import DistrictTotals, in_words
from crowdfield.plot import FAINT, INK, UNKNOWN, scale, suppressed
from crowdfield.plot.furniture import draw_north, draw_scale_bar

MOST_NAMED = 30  # largest number of districts whose names and figures are written into them
LONGEST_NAME = 18
METRES_PER_DEGREE = 111_320.0  # of latitude


def choropleth(found: DistrictTotals, state: Any = None) -> Figure:
    """By default of the state in question, in the colours of the map."""
    table, column = found.table, found.column(state)
    said = in_words(column)
    state = next((s for s in found.states if said == str(s)), found.positive)
    share, known = table[f"share_{column}"].to_numpy(float), 1.0 - table["unknown_share"].to_numpy(float)
    figure = Figure(figsize=(8.2, 6.4), layout="constrained", dpi=130)
    axes = figure.subplots()
    colours = scale(scale_name(found.states, found.positive, state))
    shades = suppressed(share, np.nan_to_num(known), colours)
    for number, shape in enumerate(found.areas.shapes):
        empty = not np.isfinite(share[number])
        axes.add_patch(
            PathPatch(
                _path(shape),
                fc="white" if empty else shades[number],
                ec="#8a8a8f" if empty else "white",
                hatch="////" if empty else None,
                lw=0.9,
            )
        )
    # A district far from the map must not make all others too small to see.
    shown = np.isfinite(share) if np.isfinite(share).any() else np.ones(len(share), dtype=bool)
    west, south, east, north = shapely.total_bounds(found.areas.shapes[shown])
    axes.set(xlim=_wider(west, east), ylim=_wider(south, north))
    axes.set_aspect(1.0 / max(np.cos(np.radians((south + north) / 2)), 0.05))
    axes.set_axis_off()
    if len(table) <= MOST_NAMED:
        _name(axes, found, column)
    shrunk = np.cos(np.radians((south + north) / 2))
    draw_scale_bar(axes, float(np.diff(axes.get_xlim())[0] * shrunk * METRES_PER_DEGREE))
    draw_north(axes)
    figure.suptitle(f"Share: {said}", x=0.012, ha="left", color=INK, fontsize=14, fontweight="bold")
    bar = figure.colorbar(
        ScalarMappable(Normalize(0.0, 1.0), colours),
        ax=axes,
        shrink=0.6,
        pad=0.02,
        format=PercentFormatter(1.0, symbol=" %"),
    )
    bar.outline.set_visible(False)
    whole = f" of “{found.weights}”" if found.weights else ""
    bar.set_label(f"expected share{whole} that is “{said}”", fontsize=8.5, color=INK)
    bar.ax.tick_params(labelsize=8, colors=FAINT)
    handles = [Patch(fc=UNKNOWN, ec="#bdbdbd", lw=0.8, label="nobody knows")]
    frame = shapely.box(*axes.get_xlim()[:1], *axes.get_ylim()[:1], *axes.get_xlim()[1:], *axes.get_ylim()[1:])
    outside = ~np.isfinite(share)
    hidden = int((outside & ~shapely.intersects(found.areas.shapes, frame)).sum())
    if outside.sum() > hidden:
        handles.append(Patch(fc="white", ec="#8a8a8f", hatch="////", lw=0.8, label="outside the map"))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.0, 0.0), ncols=2, frameon=False, fontsize=8.5)
    figure.supxlabel(
        counted(len(table), "district")
        + (f", {hidden:,} of them outside the map and not shown" if hidden else "")
        + f"; in brackets the {100 * found.level:.0f} % interval of the share",
        fontsize=8, color=FAINT, x=0.01, ha="left",
    )  # fmt: skip
    return figure


def _name(axes: Any, found: DistrictTotals, state: str) -> None:
    for shape, row in zip(found.areas.shapes, found.table.to_dict("records"), strict=True):
        if shape.is_empty or not np.isfinite(row[f"share_{state}"]):
            continue
        low, high = row[f"share_low_{state}"], row[f"share_high_{state}"]
        name = str(row["area"])
        name = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
        middle = shape.representative_point()
        axes.text(
            middle.x, middle.y, f"{name}\n{100 * row[f'share_{state}']:.0f} % ({100 * low:.0f}–{100 * high:.0f})",
            ha="center", va="center", fontsize=8, color=INK, clip_on=True,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip


def _path(shape: Any) -> Path:
    """All rings of a polygon or of several; inner ones turn the other way, so that holes stay open."""
    parts = [part for part in shapely.get_parts(shape) if part.geom_type == "Polygon"]
    rings = [ring for part in shapely.orient_polygons(parts) for ring in (part.exterior, *part.interiors)]
    if not rings:
        return Path(np.empty((0, 2)))
    codes = [np.r_[Path.MOVETO, np.full(len(ring.coords) - 2, Path.LINETO), Path.CLOSEPOLY] for ring in rings]
    return Path(np.concatenate([np.array(ring.coords)[:, :2] for ring in rings]), np.concatenate(codes))


def _wider(low: float, high: float) -> tuple[float, float]:
    pad = 0.02 * max(high - low, 1e-6)
    return low - pad, high + pad
