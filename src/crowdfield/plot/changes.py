"""A picture of what changed: hue shows size and direction, opacity the probability that the change is real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from crowdfield.plot.coast import draw_ground
from crowdfield.plot.furniture import HATCH, draw_handles, from_corner, furnish_grid, hatch
from crowdfield.plot.palette import FAINT, INK, UNKNOWN
from crowdfield.plot.sheet_layout import (
    RESOLUTION,
    Parts,
    credit_line,
    default_size,
    moment_in_words,
    place,
    shape_of,
)
from crowdfield.plot.words import say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from crowdfield.data import Grid

# Purple for less, orange for more: safe for colour-blind readers; the live map uses the same.
DIFFERENCE = colormaps["PuOr_r"]
# Below the first probability a change is not drawn, from the second on in full colour.
FAINT_FROM, FULL_FROM = 0.6, 0.9


def change_colours(change: NDArray[np.float64], real: NDArray[np.float64], unknown: NDArray[np.bool_]) -> Any:
    """RGBA of a change: white where none is detected, grey where nobody knows, transparent outside.   [.., 4]"""
    out = np.ones((*change.shape, 4))
    mapped = np.isfinite(change)
    share = np.clip((np.nan_to_num(real) - FAINT_FROM) / (FULL_FROM - FAINT_FROM), 0.0, 1.0)[..., None]
    out[..., :3] = share * DIFFERENCE((np.nan_to_num(change) + 1) / 2)[..., :3] + (1 - share)
    out[unknown, :3] = UNKNOWN
    out[~mapped] = 0.0
    return out


def change_sheet(change: Any, *, title: str | None = None) -> Figure:
    """A `crowdfield.pipeline.Change` as a printable map."""
    grid: Grid = change.grid
    figure = Figure(figsize=default_size(shape_of(grid)), dpi=RESOLUTION)
    name = figure.suptitle(title or say("change", state=change.state), fontweight="bold", color=INK)
    axes, beside = figure.add_axes((0, 0, 1, 1)), figure.add_axes((0, 0, 1, 1))
    draw_change(axes, grid, change.difference, change.real, change.unknown)
    subtitle = axes.set_title(_moments(change), loc="left", fontsize=9, color=FAINT, wrap=True)
    credit = figure.supxlabel(credit_line(grid), fontsize=7.5, color=FAINT)
    below = place(Parts(figure, axes, beside, name, subtitle, credit), shape_of(grid))
    _legend(beside, below)
    return figure


def draw_change(
    axes: Axes,
    grid: Grid,
    change: NDArray[np.float64],
    real: NDArray[np.float64],
    unknown: NDArray[np.bool_],
) -> None:
    """Draw a change into axes."""
    axes.imshow(change_colours(change, real, unknown), extent=grid.extent, interpolation="nearest", zorder=1)
    hatch(axes, grid, unknown)
    draw_ground(axes, grid)
    furnish_grid(axes, grid)


def _moments(change: Any) -> str:
    made = change.about.get("created", {})
    before, after = (moment_in_words(made.get(when)) for when in ("before", "after"))
    return say("since", before=before, after=after) if before and after else ""


def _legend(axes: Axes, below: bool) -> None:
    axes.set_axis_off()
    key = axes.inset_axes((0.06, -1.75, 0.3, 1.4), transform=from_corner(axes))
    steps = np.linspace(-1, 1, 128)
    key.imshow(DIFFERENCE(Normalize(-1, 1)(steps))[:, None, :3], origin="lower", extent=(0, 1, -1, 1), aspect="auto")
    key.yaxis.tick_right()
    key.set_xticks([])
    key.set_yticks([-1, 0, 1], ["−100 %", say("no_change"), "+100 %"])
    key.tick_params(labelsize=8, colors=FAINT, length=2)
    key.set_title(say("change_in"), fontsize=8.5, color=INK, loc="left")
    handles = [
        Patch(fc="white", ec="#c8c8c8", lw=0.8, label=say("no_change_detected")),
        Patch(fc=DIFFERENCE(0.85), label=say("real_change", sure=f"{100 * FULL_FROM:.0f}")),
        Patch(fc=UNKNOWN, ec=HATCH, hatch="////", lw=0, label=say("nobody_knows")),
    ]
    draw_handles(axes, handles, below)
