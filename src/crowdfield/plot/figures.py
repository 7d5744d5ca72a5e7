"""Whole figures, one function each."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from crowdfield.data import Heatmap, Reports
from crowdfield.plot.furniture import LEGEND, aspect, draw_legend, draw_states_legend, heading
from crowdfield.plot.palette import INK
from crowdfield.plot.panels import draw_looks, draw_map, draw_reports, draw_sources, draw_states, draw_uncertainty

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike


def heatmap(
    heatmap: Heatmap,
    state: Hashable | None = None,
    *,
    looks: ArrayLike | None = None,
    reports: Reports | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the probability of a state, faded where it is uncertain, with its two-way legend.

    Parameters
    ----------
    heatmap : Heatmap
        The map.
    state : state, optional
        Which one; by default the state in question.
    looks : optional
        Places to look at next, to be marked.
    reports : Reports, optional
        To be marked too.
    title : str, optional
        Above the map.

    Returns
    -------
    matplotlib.figure.Figure
        Without a window: ``.savefig("map.png")``.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`:

    >>> cf.plot.heatmap(fused.heatmap, "flooded").savefig("map.png")
    """
    figure = Figure(figsize=_beside_legend(heatmap), layout="constrained", dpi=120)
    axes, beside = figure.subplots(1, 2, width_ratios=(1, 0.27))
    draw_map(axes, heatmap, state, title=title)
    handles: list[Line2D] = []
    if reports is not None:
        handles, _ = draw_reports(axes, reports, heatmap, alpha=0.55)
    if looks is not None:
        draw_looks(axes, looks)
    draw_legend(beside, heatmap, state, looks=looks is not None, more=handles)
    return figure


def states(heatmap: Heatmap, *, title: str | None = None) -> Figure:
    """Draw the most probable state of every cell, in a colour of its own, greyer the less certain it is.

    Parameters
    ----------
    heatmap : Heatmap
        The map.
    title : str, optional
        Above it.

    Returns
    -------
    matplotlib.figure.Figure
        Without a window.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`:

    >>> type(cf.plot.states(fused.heatmap)).__name__
    'Figure'
    """
    figure = Figure(figsize=_beside_legend(heatmap), layout="constrained", dpi=120)
    axes, beside = figure.subplots(1, 2, width_ratios=(1, 0.3))
    draw_states(axes, heatmap, title=title)
    draw_states_legend(beside, heatmap)
    return figure


def uncertainty(heatmap: Heatmap, state: Hashable | None = None, *, title: str | None = None) -> Figure:
    """Draw the standard deviation of the probability of a state, from 0 to that of a place nobody reported on.

    Parameters
    ----------
    heatmap : Heatmap
        The map.
    state : state, optional
        Which one; by default the state in question.
    title : str, optional
        Above it.

    Returns
    -------
    matplotlib.figure.Figure
        Without a window.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`:

    >>> type(cf.plot.uncertainty(fused.heatmap)).__name__
    'Figure'
    """
    figure = Figure(figsize=(6.8, 5.4), layout="constrained", dpi=150)
    draw_uncertainty(figure.subplots(), heatmap, state, title=title)
    return figure


def reports(reports: Reports, heatmap: Heatmap, *, title: str | None = None) -> Figure:
    """Draw every report at its place: the shape and colour say which label it gave.

    Parameters
    ----------
    reports : Reports
        In the reference system of the map.
    heatmap : Heatmap
        The map, for its extent.
    title : str, optional
        Above it.

    Returns
    -------
    matplotlib.figure.Figure
        Without a window.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`:

    >>> type(cf.plot.reports(fused.reports, fused.heatmap)).__name__
    'Figure'
    """
    figure = Figure(figsize=(6.4, 5.4), layout="constrained", dpi=150)
    axes = figure.subplots()
    handles, note = draw_reports(axes, reports, heatmap)
    axes.legend(handles=handles, title=note, loc="upper left", bbox_to_anchor=(1.01, 1.0), **LEGEND)
    heading(axes, title or "Reports")
    return figure


def sources(table: pd.DataFrame, *, most: int = 30, title: str | None = None) -> Figure:
    """Draw each source's accuracy with its credible interval; the best on top.

    Parameters
    ----------
    table : DataFrame
        As `HeatmapBCC.source_table` gives it.
    most : int, default=30
        At most so many sources.
    title : str, optional
        Above it.

    Returns
    -------
    matplotlib.figure.Figure
        Without a window.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`:

    >>> type(cf.plot.sources(fused.table())).__name__
    'Figure'
    """
    figure = Figure(figsize=(6.4, 1.4 + 0.26 * min(len(table), most)), layout="constrained", dpi=150)
    draw_sources(figure.subplots(), table, most=most, title=title)
    return figure


def summary(
    heatmap: Heatmap,
    reports: Reports,
    table: pd.DataFrame,
    looks: ArrayLike | None = None,
    *,
    state: Hashable | None = None,
    title: str | None = None,
) -> Figure:
    """Draw one page for a briefing: the map and its legend, how sure it is, what was reported, and by whom.

    Parameters
    ----------
    heatmap : Heatmap
        The map.
    reports : Reports
        What was reported, in the reference system of the map.
    table : DataFrame
        As `HeatmapBCC.source_table` gives it.
    looks : optional
        Places to look at next.
    state : state, optional
        Which one; by default the state in question.
    title : str, optional
        Above the page.

    Returns
    -------
    matplotlib.figure.Figure
        Without a window.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`:

    >>> type(cf.plot.summary(fused.heatmap, fused.reports, fused.table())).__name__
    'Figure'
    """
    west, south, east, north = heatmap.grid.bounds
    tall = np.clip((north - south) / (east - west) * aspect(heatmap), 0.4, 1.8)
    figure = Figure(figsize=(13.0, 1.7 + 2 * 4.75 * tall), layout="constrained", dpi=94)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.08, hspace=0.03)  # type: ignore[union-attr, call-arg]
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=15, fontweight="bold", color=INK)
    cells = figure.add_gridspec(2, 4, width_ratios=(1, 0.27, 1, 0.035))
    axes = figure.add_subplot(cells[0, 0])
    draw_map(axes, heatmap, state)
    if looks is not None:
        draw_looks(axes, looks)
    draw_legend(figure.add_subplot(cells[0, 1]), heatmap, state, looks=looks is not None)
    draw_uncertainty(figure.add_subplot(cells[0, 2]), heatmap, state, scale=figure.add_subplot(cells[0, 3]))
    axes = figure.add_subplot(cells[1, 0])
    handles, note = draw_reports(axes, reports, heatmap)
    heading(axes, f"The {len(reports):,} reports")
    beside = figure.add_subplot(cells[1, 1])
    beside.set_axis_off()
    beside.legend(handles=handles, title=note, loc="upper left", **LEGEND)
    draw_sources(figure.add_subplot(cells[1, 2]), table)
    return figure


def _beside_legend(heatmap: Heatmap) -> tuple[float, float]:
    """Inches of a figure of one map and a legend, without empty space below the map."""
    west, south, east, north = heatmap.grid.bounds
    tall = (north - south) / (east - west) * aspect(heatmap)
    # The map takes about five of the inches across, title and axis one of those down; the legend needs the least.
    return 7.8, float(np.clip(0.85 + 4.95 * tall, 3.6, 9.0))
