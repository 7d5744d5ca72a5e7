"""The panels that figures are made of, each drawn into axes that are given."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from crowdfield.data import Heatmap, Reports
from crowdfield.errors import InputError
from crowdfield.plot.coast import draw_ground
from crowdfield.plot.furniture import aspect, furnish, hatch_unknown, heading, make_way, short
from crowdfield.plot.palette import (
    FAINT,
    INK,
    NOMINAL,
    PROBABILITY,
    UNCERTAINTY,
    colours,
    grade_picture,
    ignorance,
    state_colours,
    state_index,
    state_picture,
    state_title,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

SHAPES = "osD^vP*X"
EDGE = "#5b5320"  # edge colour of a light mark on a light background


def draw_map(axes: Axes, heatmap: Heatmap, state: Any = None, *, title: str | None = None) -> None:
    """Draw the probability of a state, hatched where it is unknown."""
    j = state_index(heatmap, state)
    axes.imshow(colours(heatmap, state), extent=heatmap.grid.extent, interpolation="nearest", zorder=1)
    hatch_unknown(axes, heatmap)
    draw_ground(axes, heatmap.grid)
    heading(axes, title or f"Probability: {state_title(heatmap, j)}")
    furnish(axes, heatmap)


def draw_states(axes: Axes, heatmap: Heatmap, *, title: str | None = None) -> None:
    """The most probable state of every cell, greyer the less certain, hatched where nobody knows."""
    axes.imshow(state_picture(heatmap), extent=heatmap.grid.extent, interpolation="nearest", zorder=1)
    hatch_unknown(axes, heatmap)
    draw_ground(axes, heatmap.grid)
    heading(axes, title or "Most probable state")
    furnish(axes, heatmap)


def draw_grades(axes: Axes, heatmap: Heatmap) -> None:
    """The expected grade of every cell, greyer the less is known, hatched where nobody knows."""
    axes.imshow(grade_picture(heatmap), extent=heatmap.grid.extent, interpolation="nearest", zorder=1)
    hatch_unknown(axes, heatmap)
    draw_ground(axes, heatmap.grid)
    heading(axes, "Expected grade")
    furnish(axes, heatmap)


def draw_uncertainty(
    axes: Axes, heatmap: Heatmap, state: Any = None, *, title: str | None = None, scale: Axes | None = None
) -> None:
    """Draw the standard deviation of a state's probability."""
    j = state_index(heatmap, state)
    top = ignorance(heatmap, state)
    image = axes.imshow(
        heatmap.sd[..., j], extent=heatmap.grid.extent, vmin=0, vmax=top, cmap=UNCERTAINTY, interpolation="nearest"
    )
    draw_ground(axes, heatmap.grid)
    heading(axes, title or "Uncertainty")
    furnish(axes, heatmap)
    room = {"ax": axes, "shrink": 0.8, "aspect": 24, "pad": 0.02} if scale is None else {"cax": scale}
    bar = axes.figure.colorbar(image, **room)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, colors=FAINT, length=2)
    bar.ax.set_title("nobody\nreported", fontsize=7.5, color=FAINT, pad=5)
    bar.set_label(f"standard deviation of P({heatmap.states[j]})", fontsize=8.5, color=INK)


def draw_reports(
    axes: Axes, reports: Reports, heatmap: Heatmap, *, alpha: float = 0.85, most: int = 20_000
) -> tuple[list[Line2D], str | None]:
    """Points, one colour and shape per label; returns what the legend needs. Beyond `most` every n-th report is
    drawn.
    """
    step = -(-len(reports) // most)
    places, label = reports.places[::step], reports.label[::step]
    size = float(np.clip(9000 / max(len(places), 1), 4, 26))
    shades = label_colours(reports, heatmap)
    handles = []
    for code, name in enumerate(reports.labels):
        here = label == code
        shape = SHAPES[code % len(SHAPES)]
        axes.scatter(
            places[here, 0],
            places[here, 1],
            s=size,
            marker=shape,
            facecolor=[shades[code]],
            edgecolor="white" if shades[code].mean() < 0.5 else EDGE,
            linewidth=0.35,
            alpha=alpha,
            zorder=3,
        )
        count = int(np.count_nonzero(reports.label == code))
        text = f"{short(name)} ({count:,})"
        handles.append(Line2D([], [], ls="", marker=shape, color=shades[code], mec=EDGE, mew=0.4, label=text))
    axes.set_facecolor("#f4f4f4")
    west, south, east, north = heatmap.grid.bounds
    axes.set(xlim=(west, east), ylim=(south, north), aspect=aspect(heatmap))
    furnish(axes, heatmap)
    return handles, None if step == 1 else f"1 in {step} shown"


def draw_looks(axes: Axes, looks: Any) -> None:
    """Where to look next, numbered by rank."""
    places = np.asarray(looks, dtype=np.float64)[:, :2]
    make_way(axes, places)
    axes.scatter(
        places[:, 0], places[:, 1], s=105, facecolor="white", edgecolor=INK, linewidth=1.4, zorder=8, clip_on=False
    )
    for rank, (easting, northing) in enumerate(places, 1):
        axes.annotate(
            str(rank),
            (easting, northing),
            ha="center",
            va="center_baseline",
            fontsize=7,
            color=INK,
            fontweight="bold",
            zorder=9,
        )


def draw_sources(axes: Axes, table: pd.DataFrame, *, most: int = 30, title: str | None = None) -> None:
    """Dots with credible intervals. Columns: source, reports, accuracy, accuracy_low, accuracy_high[, trusted].

    `table.attrs["chance"]` is how often somebody who guesses is right, if that is known.
    """
    missing = {"accuracy", "accuracy_low", "accuracy_high", "reports"} - set(table.columns)
    if missing:
        raise InputError(f"a source table needs the columns {', '.join(sorted(missing))}.")
    rows = table.reset_index() if "source" not in table.columns else table
    rows = rows.sort_values(["accuracy", "reports"], ascending=False)
    left_out = max(len(rows) - most, 0)
    # The middle is the least interesting part: of too many sources the best and the worst are shown.
    if left_out:
        rows = rows.take(np.r_[: most - most // 2, len(rows) - most // 2 : len(rows)])
    height = np.arange(len(rows))[::-1]
    chance = table.attrs.get("chance")
    if chance is not None:
        axes.axvline(float(chance), color=FAINT, lw=0.8, ls=(0, (4, 3)), zorder=0)
    accuracy, low, high = (rows[name].to_numpy(float) for name in ("accuracy", "accuracy_low", "accuracy_high"))
    axes.hlines(height, low, high, color="#9aa3ad", lw=2.2, zorder=1)
    size = np.clip(14 + 11 * np.log10(rows["reports"].to_numpy(float) + 1), 14, 60)
    axes.scatter(accuracy, height, s=size, color=PROBABILITY(accuracy), edgecolor=INK, linewidth=0.6, zorder=2)
    trusted = rows["trusted"].to_numpy(bool) if "trusted" in rows.columns else np.zeros(len(rows), bool)
    axes.set_yticks(height, [str(name) for name in rows["source"]])
    for tick, is_trusted in zip(axes.get_yticklabels(), trusted, strict=True):
        tick.set(fontsize=8, color=INK, fontweight="bold" if is_trusted else "normal")
    for y, count in zip(height, rows["reports"], strict=True):
        axes.annotate(
            f"{int(count):,}", (1.015, y), xycoords=("axes fraction", "data"), va="center", fontsize=7.5, color=FAINT
        )
    axes.annotate("reports", (1.015, 1.0), xycoords="axes fraction", va="bottom", fontsize=7.5, color=FAINT)
    axes.set(xlim=(0, 1), ylim=(-0.7, len(rows) - 0.3))
    heading(axes, title or "Who can be trusted")
    notes = []
    if chance is not None:
        notes.append(f"dashed: guessing ({chance:.2g})")
    if trusted.any():
        notes.append("bold: trusted beforehand")
    if left_out:
        notes.append(f"{left_out} sources in the middle not shown")
    # On a line of its own, so that it is as wide as the panel and not cut off.
    words = ["how often the source is right, with its 95 % interval", *(["; ".join(notes)] if notes else [])]
    axes.set_xlabel("\n".join(words), fontsize=8, color=FAINT)
    _plain_bars(axes)


def _plain_bars(axes: Axes) -> None:
    axes.tick_params(axis="x", labelsize=8, colors=FAINT, length=2)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#ececec", lw=0.7, zorder=-1)
    axes.set_axisbelow(True)
    for edge in ("top", "right", "left"):
        axes.spines[edge].set_visible(False)
    axes.spines["bottom"].set_color("#c8c8c8")


def label_colours(reports: Reports, heatmap: Heatmap) -> NDArray[np.float64]:
    """Labels in the colours of the states they name; a label that is no state has a colour of its own.   [L, 3]"""
    known = dict(zip(heatmap.states, state_colours(heatmap.states, heatmap.positive), strict=True))
    shades = [np.array(to_rgb(shade)) for shade in reversed(NOMINAL)]
    free = [shade for shade in shades if not any(np.allclose(shade, taken) for taken in known.values())]
    others = cycle(free or shades)
    return np.array([known[label] if label in known else next(others) for label in reports.labels])
