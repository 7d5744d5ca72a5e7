"""Where reports are: on maps whose colours cannot show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from crowdfield.data import Heatmap
from crowdfield.plot.coast import draw_ground
from crowdfield.plot.furniture import draw_handles, from_corner, furnish
from crowdfield.plot.palette import INK, OUTSIDE, unknown
from crowdfield.plot.words import say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

# The palest third is left out: one report must stand out from none. No scale of probabilities is purple.
COUNTS = ListedColormap(colormaps["Purples"](np.linspace(0.33, 1.0, 256)), name="counts")
NOTHING = "#f4f4f4"  # colour of cells without reports
_BAR = (0.06, -1.7, 0.3, 1.6)  # inches from the upper left corner of the legend: left, bottom, width and height
_TICKS = np.array([1, 10, 100, 1_000, 10_000, 100_000, 1_000_000])
_MARK = 3.2  # points: the diameter of a mark


def draw_counts(axes: Axes, heatmap: Heatmap) -> None:
    """The number of reports in every cell."""
    shades = COUNTS(_norm(heatmap)(np.maximum(heatmap.reports, 1)))
    shades[heatmap.reports == 0] = (*(int(NOTHING[i : i + 2], 16) / 255 for i in (1, 3, 5)), 1.0)
    shades[~heatmap.mask] = 0.0
    axes.imshow(shades, extent=heatmap.grid.extent, interpolation="nearest", zorder=1)
    draw_ground(axes, heatmap.grid)
    furnish(axes, heatmap)


def draw_counts_legend(axes: Axes, heatmap: Heatmap, *, more: list[Any], below: bool) -> None:
    """The colours of numbers of reports."""
    axes.set_axis_off()
    most = int(heatmap.reports.max())
    key = axes.inset_axes(_BAR, transform=from_corner(axes))
    norm = _norm(heatmap)
    key.imshow(COUNTS(np.linspace(0.0, 1.0, 200))[:, None], origin="lower", extent=(0, 1, 0, 1), aspect="auto")
    ticks = [int(tick) for tick in _TICKS if tick < most / 2] + [most]
    key.set_xticks([])
    key.yaxis.tick_right()
    key.set_yticks([float(norm(tick)) for tick in ticks], [f"{tick:,}" for tick in ticks])
    key.tick_params(labelsize=8, colors=INK, length=2)
    key.set_ylabel(say("reports_in_cell"), fontsize=8.5, color=INK)
    key.yaxis.set_label_position("right")
    for spine in key.spines.values():
        spine.set(color="#c8c8c8", linewidth=0.8)
    handles: list[Any] = [Patch(fc=NOTHING, ec="#c8c8c8", lw=0.8, label=say("no_reports"))]
    if not heatmap.mask.all():
        handles.append(Patch(fc=OUTSIDE, ec="#c8c8c8", lw=0.8, label=say("outside")))
    draw_handles(axes, [*handles, *more], below)


def _norm(heatmap: Heatmap) -> LogNorm:
    """From one report to the most in a cell: most cells have few, and some have hundreds."""
    return LogNorm(1.0, max(float(heatmap.reports.max()), 1.0 + 1e-9))


def mark_unclear(axes: Axes, heatmap: Heatmap) -> list[Line2D]:
    """Mark cells with reports that say too little to colour them; returns the entry of the legend, if there are any."""
    at = unclear(heatmap)
    if not at.any():
        return []
    east, north = np.meshgrid(heatmap.grid.eastings(), heatmap.grid.northings())
    look: dict[str, Any] = {"ls": "", "marker": "o", "mfc": INK, "mec": "white", "mew": 0.5, "ms": _MARK}
    axes.plot(east[at], north[at], zorder=3, **look)
    return [Line2D([], [], label=say("unclear"), **look)]


def unclear(heatmap: Heatmap) -> NDArray[np.bool_]:
    """Which cells have reports and are unknown nevertheless.   [rows, columns]"""
    return np.asarray((heatmap.reports > 0) & unknown(heatmap))
