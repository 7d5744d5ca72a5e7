"""Honest pictures: fixed scales, colours that everybody can tell apart, and grey where nobody knows.

    plot.heatmap(heatmap).savefig("map.png")
    plot.summary(heatmap, reports, table, looks).savefig("all.png")

The map's colour says the probability of one state (cividis, always 0 to 1) and fades towards a hatched light grey as
the standard deviation approaches that of a place without any report: unknown never looks safe. Figures are plain
`matplotlib.figure.Figure` objects: no window, no global state, safe in threads and on servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator

from crowdfield.data import Heatmap, Reports
from crowdfield.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["heatmap", "reports", "sources", "states", "summary", "uncertainty"]

PROBABILITY = colormaps["cividis"]
STATES = colormaps["viridis"]  # not cividis, whose middle is a grey that would look like "undecided"
# The darkest fifth is left out: uncertainty is the ground of the picture, not its subject.
UNCERTAINTY = ListedColormap(colormaps["Purples"](np.linspace(0.0, 0.8, 256)), name="uncertainty")
UNKNOWN = to_rgb("#dedede")
OUTSIDE = to_rgb("#ffffff")
INK, FAINT = "#1d1d1f", "#6b6b70"
ACCENT = "#d1495b"  # marks on the map: told from cividis by everybody, since cividis has no red
# Where the standard deviation is above this share of what it is without reports, the map says "unknown".
UNKNOWN_SHARE = 0.85
# Fully coloured from this much knowledge on: the eye should not have to discount good maps.
FULL_COLOUR = 0.6
# The standard deviation of a probability spread evenly over 0 to 1: what "no idea" means when the map does not say.
NO_IDEA = 1.0 / np.sqrt(12.0)
SHAPES = "osD^vP*X"
_LEGEND: dict[str, Any] = {
    "frameon": False,
    "fontsize": 8.5,
    "labelcolor": INK,
    "title_fontsize": 8,
    "handletextpad": 0.3,
    "borderaxespad": 0.0,
}


def heatmap(
    heatmap: Heatmap,
    state: Any = None,
    *,
    looks: Any = None,
    reports: Reports | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the probability of a state, faded where it is uncertain, with its two-way legend.

    Parameters
    ----------
    heatmap : Heatmap
        The map.
    state : state, optional
        Which one; by default the last.
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
    figure = Figure(figsize=(7.8, 5.6), layout="constrained", dpi=120)
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
    figure = Figure(figsize=(7.8, 5.6), layout="constrained", dpi=120)
    axes, beside = figure.subplots(1, 2, width_ratios=(1, 0.24))
    draw_states(axes, heatmap, title=title)
    beside.set_axis_off()
    shades = state_colours(len(heatmap.states))
    handles = [Patch(fc=shade, label=str(state)) for shade, state in zip(shades, heatmap.states, strict=True)]
    handles.append(Patch(fc=UNKNOWN, ec="#bdbdbd", lw=0.8, label="undecided"))
    beside.legend(handles=handles, loc="upper left", **_LEGEND)
    return figure


def uncertainty(heatmap: Heatmap, state: Any = None, *, title: str | None = None) -> Figure:
    """Draw the standard deviation of the probability of a state, from 0 to that of a place nobody reported on.

    Parameters
    ----------
    heatmap : Heatmap
        The map.
    state : state, optional
        Which one; by default the last.
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
    axes.legend(handles=handles, title=note, loc="upper left", bbox_to_anchor=(1.01, 1.0), **_LEGEND)
    axes.set_title(title or "Reports", loc="left", color=INK, fontsize=11, fontweight="bold")
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
    looks: Any = None,
    *,
    state: Any = None,
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
        Which one; by default the last.
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
    tall = np.clip((north - south) / (east - west) * _aspect(heatmap), 0.4, 1.8)
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
    axes.set_title(f"The {len(reports):,} reports", loc="left", color=INK, fontsize=11, fontweight="bold")
    beside = figure.add_subplot(cells[1, 1])
    beside.set_axis_off()
    beside.legend(handles=handles, title=note, loc="upper left", **_LEGEND)
    draw_sources(figure.add_subplot(cells[1, 2]), table)
    return figure


def knowledge(heatmap: Heatmap, state: Any = None) -> NDArray[np.float64]:
    """How much is known in each cell: 0 as if nobody had reported, 1 certain; NaN outside the mask."""
    j = _state(heatmap, state)
    return np.clip(1.0 - heatmap.sd[..., j] / ignorance(heatmap, state), 0.0, 1.0)


def ignorance(heatmap: Heatmap, state: Any = None) -> float:
    """The standard deviation where nobody reported: the map's own word for it, else that of an even spread."""
    prior = heatmap.metadata.get("prior_sd")
    if prior is None:
        return float(NO_IDEA)
    return max(float(np.ravel(prior)[_state(heatmap, state)]), 1e-9)


def colours(heatmap: Heatmap, state: Any = None) -> NDArray[np.float64]:
    """The map as RGBA in 0 to 1, transparent outside the mask; pages, tiles and files share it.   [rows, columns, 4]"""
    j = _state(heatmap, state)
    known = knowledge(heatmap, state)
    out = np.ones((*heatmap.grid.shape, 4))
    out[..., :3] = suppressed(heatmap.probability[..., j], known)
    out[~heatmap.mask] = 0.0
    return out


def suppressed(probability: NDArray[np.float64], known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Value-suppressing palette: the colour of the probability, mixed into grey as less is known.   [.., 3]"""
    grey = 1.0 - UNKNOWN_SHARE
    share = np.clip(np.nan_to_num((known - grey) / (FULL_COLOUR - grey)), 0.0, 1.0)[..., None]
    return np.asarray(share * PROBABILITY(np.nan_to_num(probability))[..., :3] + (1.0 - share) * np.asarray(UNKNOWN))


def draw_map(axes: Axes, heatmap: Heatmap, state: Any = None, *, title: str | None = None) -> None:
    j = _state(heatmap, state)
    axes.imshow(colours(heatmap, state), extent=heatmap.grid.extent, interpolation="nearest", zorder=1)
    _hatch_unknown(axes, heatmap, state)
    axes.set_title(title or f"Probability: {heatmap.states[j]}", loc="left", color=INK, fontsize=11, fontweight="bold")
    _furnish(axes, heatmap)


def state_colours(count: int) -> NDArray[np.float64]:
    """A colour a state, in order of lightness: grades stay in order, and everybody can tell them apart."""
    return STATES(np.linspace(0.0, 1.0, count))[:, :3]


def draw_states(axes: Axes, heatmap: Heatmap, *, title: str | None = None) -> None:
    best = np.nan_to_num(heatmap.most_probable).astype(int)
    # Certainty from 0, all states equally probable, to 1: one of them sure.
    certain = np.nan_to_num(1.0 - heatmap.entropy / np.log2(len(heatmap.states)))[..., None]
    share = np.clip(certain / FULL_COLOUR, 0.0, 1.0)
    picture = np.ones((*heatmap.grid.shape, 4))
    picture[..., :3] = share * state_colours(len(heatmap.states))[best] + (1 - share) * np.asarray(UNKNOWN)
    picture[~heatmap.mask] = 0.0
    axes.imshow(picture, extent=heatmap.grid.extent, interpolation="nearest", zorder=1)
    axes.set_title(title or "Most probable state", loc="left", color=INK, fontsize=11, fontweight="bold")
    _furnish(axes, heatmap)


def draw_uncertainty(
    axes: Axes, heatmap: Heatmap, state: Any = None, *, title: str | None = None, scale: Axes | None = None
) -> None:
    j = _state(heatmap, state)
    top = ignorance(heatmap, state)
    image = axes.imshow(
        heatmap.sd[..., j], extent=heatmap.grid.extent, vmin=0, vmax=top, cmap=UNCERTAINTY, interpolation="nearest"
    )
    axes.set_title(title or "Uncertainty", loc="left", color=INK, fontsize=11, fontweight="bold")
    _furnish(axes, heatmap)
    room = {"ax": axes, "shrink": 0.8, "aspect": 24, "pad": 0.02} if scale is None else {"cax": scale}
    bar = axes.figure.colorbar(image, **room)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, colors=FAINT, length=2)
    bar.ax.set_title("nobody\nreported", fontsize=7.5, color=FAINT, pad=5)
    bar.set_label(f"standard deviation of P({heatmap.states[j]})", fontsize=8.5, color=INK)


def draw_reports(
    axes: Axes, reports: Reports, heatmap: Heatmap, *, alpha: float = 0.85, most: int = 20_000
) -> tuple[list[Line2D], str | None]:
    """Points, one colour and shape a label; returns what the legend needs. Beyond `most` every n-th report is drawn."""
    step = -(-len(reports) // most)
    places, label = reports.places[::step], reports.label[::step]
    size = float(np.clip(9000 / max(len(places), 1), 4, 26))
    shades = PROBABILITY(np.linspace(0.08, 0.95, max(len(reports.labels), 2)))
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
            edgecolor="white" if shades[code][:3].mean() < 0.5 else "#5b5320",
            linewidth=0.35,
            alpha=alpha,
            zorder=3,
        )
        count = int(np.count_nonzero(reports.label == code))
        handles.append(
            Line2D([], [], ls="", marker=shape, color=shades[code], mec="#5b5320", mew=0.4, label=f"{name} ({count:,})")
        )
    axes.set_facecolor("#f4f4f4")
    west, south, east, north = heatmap.grid.bounds
    axes.set(xlim=(west, east), ylim=(south, north), aspect=_aspect(heatmap))
    _furnish(axes, heatmap)
    return handles, None if step == 1 else f"1 in {step} shown"


def draw_looks(axes: Axes, looks: Any) -> None:
    """Where to look next, numbered by rank."""
    places = np.asarray(looks, dtype=np.float64)[:, :2]
    axes.scatter(
        places[:, 0], places[:, 1], s=105, facecolor="white", edgecolor=ACCENT, linewidth=1.4, zorder=8, clip_on=False
    )
    for rank, (easting, northing) in enumerate(places, 1):
        axes.annotate(
            str(rank),
            (easting, northing),
            ha="center",
            va="center_baseline",
            fontsize=7,
            color=ACCENT,
            fontweight="bold",
            zorder=9,
        )


def draw_sources(axes: Axes, table: pd.DataFrame, *, most: int = 30, title: str | None = None) -> None:
    """Dots with credible intervals. Columns: source, reports, accuracy, accuracy_low, accuracy_high[, trusted]."""
    missing = {"accuracy", "accuracy_low", "accuracy_high", "reports"} - set(table.columns)
    if missing:
        raise InputError(f"a source table needs the columns {', '.join(sorted(missing))}.")
    rows = table.reset_index() if "source" not in table.columns else table
    rows = rows.sort_values(["accuracy", "reports"], ascending=False)
    left_out = max(len(rows) - most, 0)
    # The middle is the least interesting part: of too many sources the best and the worst are shown.
    if left_out:
        rows = rows.iloc[list(np.r_[: most - most // 2, len(rows) - most // 2 : len(rows)])]
    height = np.arange(len(rows))[::-1]
    if "chance" in rows.columns:
        axes.axvline(float(rows["chance"].iloc[0]), color=FAINT, lw=0.8, ls=(0, (4, 3)), zorder=0)
    else:
        axes.axvline(0.5, color=FAINT, lw=0.8, ls=(0, (4, 3)), zorder=0)
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
    axes.set_title(title or "Who can be trusted", loc="left", color=INK, fontsize=11, fontweight="bold")
    words = "how often the source is right, with its 95 % interval; dashed: guessing"
    if trusted.any():
        words += "; bold: trusted beforehand"
    if left_out:
        words += f"; {left_out} sources in the middle not shown"
    axes.set_xlabel(words, fontsize=8, color=FAINT)
    axes.tick_params(axis="x", labelsize=8, colors=FAINT, length=2)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#ececec", lw=0.7, zorder=-1)
    axes.set_axisbelow(True)
    for edge in ("top", "right", "left"):
        axes.spines[edge].set_visible(False)
    axes.spines["bottom"].set_color("#c8c8c8")


def _state(heatmap: Heatmap, state: Any) -> int:
    if state is None:
        return len(heatmap.states) - 1
    if state not in heatmap.states:
        raise InputError(f"there is no state {state!r}; the map has {heatmap.states!r}.")
    return heatmap.states.index(state)


def _hatch_unknown(axes: Axes, heatmap: Heatmap, state: Any) -> None:
    unknown = np.where(heatmap.mask, knowledge(heatmap, state) < 1.0 - UNKNOWN_SHARE, False)
    if not unknown.any() or min(heatmap.grid.shape) < 2:
        return
    # contourf of the 0/1 field at its half height follows the cells' edges closely enough for a hatch.
    padded = np.pad(unknown.astype(float), 1, mode="edge")
    grid = heatmap.grid
    eastings = np.concatenate([[grid.west], grid.eastings(), [grid.east]])
    northings = np.concatenate([[grid.north], grid.northings(), [grid.south]])
    hatch = axes.contourf(eastings, northings, padded, levels=[0.5, 1.5], colors="none", hatches=["////"], zorder=2)
    hatch.set(edgecolor="#bdbdbd", linewidth=0.0)


def _furnish(axes: Axes, heatmap: Heatmap) -> None:
    """Labelled axes in round units, a scale bar and a north arrow."""
    geographic, units, name = _reference(heatmap.grid.crs)
    west, south, east, north = heatmap.grid.bounds
    axes.set(xlim=(west, east), ylim=(south, north), aspect=_aspect(heatmap))
    if geographic:
        axes.set_xlabel("longitude (°)"), axes.set_ylabel("latitude (°)")
    elif units == "metre":
        kilometres = FuncFormatter(lambda value, _: f"{value / 1000:g}")
        axes.xaxis.set_major_formatter(kilometres)
        axes.yaxis.set_major_formatter(kilometres)
        axes.set_xlabel(f"easting (km, {name})"), axes.set_ylabel("northing (km)")
    else:
        axes.set_xlabel("easting"), axes.set_ylabel("northing")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5))
        axis.label.set(fontsize=8.5, color=INK)
    axes.tick_params(labelsize=8, colors=FAINT, length=2)
    for spine in axes.spines.values():
        spine.set(color="#c8c8c8", linewidth=0.8)
    if geographic:
        _scale_bar(axes, (east - west) * 111_320 * np.cos(np.radians((south + north) / 2)))
    elif units == "metre":
        _scale_bar(axes, east - west)
    axes.annotate(
        "N",
        (0.965, 0.965),
        (0.965, 0.885),
        xycoords="axes fraction",
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
    )


def _scale_bar(axes: Axes, metres_across: float) -> None:
    length = metres_across / 4
    power = 10.0 ** np.floor(np.log10(length))
    length = max(step for step in (1, 2, 5) if step * power <= length) * power
    share = length / metres_across
    axes.add_patch(
        Rectangle(
            (0.025, 0.02), share + 0.04, 0.068, transform=axes.transAxes, fc="white", ec="none", alpha=0.78, zorder=6
        )
    )
    for start, shade in ((0.0, INK), (0.5, "white")):
        axes.add_patch(
            Rectangle(
                (0.045 + start * share, 0.034),
                share / 2,
                0.011,
                transform=axes.transAxes,
                fc=shade,
                ec=INK,
                lw=0.7,
                zorder=7,
            )
        )
    text = f"{length / 1000:g} km" if length >= 1000 else f"{length:g} m"
    axes.text(0.045 + share / 2, 0.052, text, transform=axes.transAxes, ha="center", fontsize=8, color=INK, zorder=7)


def draw_legend(
    axes: Axes, heatmap: Heatmap, state: Any = None, *, looks: bool = False, more: Sequence[Line2D] = ()
) -> None:
    """Probability across, knowledge upwards: the palette itself, so that every colour on the map can be looked up."""
    j = _state(heatmap, state)
    axes.set_axis_off()
    key = axes.inset_axes((0.36, 0.62, 0.62, 0.34))
    probability, known = np.meshgrid(np.linspace(0, 1, 120), np.linspace(0.0, 0.75, 90))
    key.imshow(suppressed(probability, known), origin="lower", extent=(0, 1, 0, 1), aspect="auto")
    band = (1.0 - UNKNOWN_SHARE) / 0.75
    key.add_patch(Rectangle((0, 0), 1, band, fc="none", ec="#bdbdbd", hatch="/////", lw=0))
    key.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    key.set_yticks([band / 2, 0.96], ["unknown", "well\nknown"])
    key.tick_params(labelsize=7.5, colors=FAINT, length=2)
    key.set_xlabel(f"P({heatmap.states[j]})", fontsize=8.5, color=INK)
    for spine in key.spines.values():
        spine.set(color="#c8c8c8", linewidth=0.8)
    handles: list[Any] = [Patch(fc=UNKNOWN, ec="#bdbdbd", hatch="////", lw=0, label="nobody knows")]
    if not heatmap.mask.all():
        handles.append(Patch(fc=OUTSIDE, ec="#c8c8c8", lw=0.8, label="outside"))
    if looks:
        handles.append(
            Line2D([], [], ls="", marker="o", mfc="white", mec=ACCENT, mew=1.4, ms=8, label="look here\nnext, by rank")
        )
    axes.legend(handles=[*handles, *more], loc="upper left", bbox_to_anchor=(0.0, 0.47), **_LEGEND)


def _aspect(heatmap: Heatmap) -> float:
    """Degrees of longitude are shorter than degrees of latitude: drawn so that shapes keep theirs."""
    if not _reference(heatmap.grid.crs)[0]:
        return 1.0
    return float(1.0 / np.cos(np.radians((heatmap.grid.south + heatmap.grid.north) / 2)))


def _reference(crs: str | None) -> tuple[bool, str | None, str]:
    """(is it in degrees, its unit, a short name)"""
    if crs is None:
        return False, None, ""
    from pyproj import CRS

    known = CRS.from_user_input(crs)
    name = ":".join(known.to_authority() or ()) or (known.name if known.name != "unknown" else "local projection")
    return known.is_geographic, known.axis_info[0].unit_name if known.axis_info else None, name
