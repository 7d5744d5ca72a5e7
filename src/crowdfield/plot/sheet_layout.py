"""Where the parts of a printable sheet go: title, map, legend and credit, without overlaps at any size.

The legend stands beside the map, or below it where the map gets larger that way. All lengths are in inches.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from crowdfield import __version__
from crowdfield.geography.projection import crs_in_words
from crowdfield.plot.coast import coast_lines, water_lines
from crowdfield.plot.furniture import aspect_of
from crowdfield.plot.letters import boxes_allowed
from crowdfield.plot.words import say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from crowdfield.data import Grid

# Pixels per inch of a sheet as PNG: sharp on a screen and in print.
RESOLUTION = 150
# The default width, and the lowest sheet on which the legend has its room.
WIDTH, LOWEST = 9.0, 3.9
MARGIN = 0.14
GAP = 0.12
TITLE_SIZES = (14.0, 12.0, 10.5, 9.0)  # points: the largest with which the title takes at most MOST_TITLE of the height
MOST_TITLE = 0.2
SMALLEST_MAP = 0.5
ROUNDS = 3
LEGEND_WIDTH, LEGEND_HEIGHT = 2.15, 1.95  # the room of a legend: its width beside the map, its height below the map
# The legend goes below only if the map gets this much wider: readers expect it beside the map.
WORTH_MOVING = 1.15


@dataclass(frozen=True)
class Parts:
    """The parts of a sheet, already drawn, but not yet in their places."""

    figure: Figure
    map: Axes
    legend: Axes  # without a frame; its upper left corner is where the legend starts
    title: Text
    subtitle: Text  # the title of the map's axes
    credit: Text


def default_size(tall: float) -> tuple[float, float]:
    """A sheet that suits a map of this height divided by its width."""
    return WIDTH, max((WIDTH - LEGEND_WIDTH - 1.1) * float(np.clip(tall, 0.35, 1.5)) + 1.3, LOWEST)


def shape_of(grid: Grid) -> float:
    """Height of a map divided by its width, as it is drawn."""
    west, south, east, north = grid.bounds
    return float((north - south) / (east - west) * aspect_of(grid))


def moment_in_words(created: Any) -> str | None:
    """When a map was made, in an unambiguous format; None where it does not say."""
    try:
        when = datetime.fromisoformat(str(created))
    except ValueError:
        return None
    return say("date", day=when.day, date=when, zone=when.strftime("%z") if when.utcoffset() else "UTC")


def credit_line(grid: Grid) -> str:
    """What a sheet was made with."""
    parts = [f"crowdfield {__version__}"]
    if grid.crs is not None:
        parts.append(crs_in_words(grid.crs))
    if coast_lines(grid):
        parts.append(say("coast"))
    if water_lines(grid):
        parts.append(say("water"))
    return "; ".join(parts)


def place(parts: Parts, tall: float, legend_height: float = LEGEND_HEIGHT) -> bool:
    """Give every part its place; True if the legend goes below the map.

    tall: height of the map divided by its width; legend_height: the room that the legend needs below the map.
    """
    with boxes_allowed():
        return _place(parts, tall, legend_height)


def _place(parts: Parts, tall: float, legend_height: float) -> bool:
    figure, axes = parts.figure, parts.map
    width, height = figure.get_size_inches()
    renderer = FigureCanvasAgg(figure).get_renderer()
    axes.set_anchor("NW")

    def high(text: Text) -> float:
        return float(text.get_window_extent(renderer).height / figure.dpi) if text.get_text() else 0.0

    # How far the labels of the axes reach beyond the map does not depend on where it is.
    trial = 0.4 * min(width, height / tall)
    _move(figure, axes, 0.3 * width, 0.3 * height, trial, trial * tall)
    axes.apply_aspect()
    frame = axes.get_window_extent(renderer)
    beside_it, under_it = (axis.get_tightbbox(renderer) or frame for axis in (axes.yaxis, axes.xaxis))
    left = MARGIN + (frame.x0 - beside_it.x0) / figure.dpi
    below, right = (frame.y0 - under_it.y0) / figure.dpi, max(under_it.x1 - frame.x1, 0.0) / figure.dpi

    for text, side, y in ((parts.title, "top", 1.0 - MARGIN / height), (parts.credit, "bottom", MARGIN / height)):
        text.set(y=y, ha="left", va=side, wrap=True)
    start = left
    for _ in range(ROUNDS):
        # Long texts wrap at the edge of the sheet: their heights depend on where they start, and that on their heights.
        for text in (parts.title, parts.credit):
            text.set_x(start / width)
        for size in TITLE_SIZES:
            parts.title.set_fontsize(size)
            if high(parts.title) <= MOST_TITLE * height:
                break
        top = height - MARGIN - high(parts.title) - GAP - high(parts.subtitle) - 0.08
        room_height = top - MARGIN - high(parts.credit) - GAP - below
        beside = min(width - left - right - GAP - LEGEND_WIDTH - MARGIN, room_height / tall)
        alone = min(width - left - right - MARGIN, (room_height - legend_height - GAP) / tall)
        legend_below = alone > WORTH_MOVING * beside
        across = max(alone if legend_below else beside, SMALLEST_MAP)
        # What is left of the width is shared by both sides.
        block = across if legend_below else across + right + GAP + LEGEND_WIDTH
        start = left + max(width - left - block - MARGIN, 0.0) / 2
    for text in (parts.title, parts.credit):
        text.set_x(start / width)
    down = across * tall
    _move(figure, axes, start, top - down, across, down)
    if legend_below:
        _move(figure, parts.legend, start, top - down - below - GAP - legend_height, across, legend_height)
    else:
        _move(figure, parts.legend, start + across + right + GAP, top - down, LEGEND_WIDTH, down)
    return bool(legend_below)


def _move(figure: Figure, axes: Axes, x: float, y: float, across: float, down: float) -> None:
    width, height = figure.get_size_inches()
    axes.set_position((x / width, y / height, across / width, down / height))
