"""A printable map: title, legend, scale, north, coast and provenance on one sheet of a given size."""

from __future__ import annotations

import re
from collections.abc import Hashable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from crowdfield import __version__
from crowdfield.counting import crowd
from crowdfield.data.grade_order import AT_LEAST_WORDS
from crowdfield.errors import InputError
from crowdfield.geography.projection import crs_in_words
from crowdfield.plot.coast import CREDIT, coast_lines
from crowdfield.plot.furniture import aspect, draw_grades_legend, draw_legend, draw_states_legend, short
from crowdfield.plot.palette import FAINT, INK, state_index, state_title
from crowdfield.plot.panels import draw_grades, draw_looks, draw_map, draw_reports, draw_states

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from crowdfield.data import Heatmap, Reports

MOST_PROBABLE = "most-probable"
GRADE = "grade"


def names_state(show: Any) -> bool:
    """Whether `show` names one state, rather than a summary of all states."""
    made = isinstance(show, str) and (show in (MOST_PROBABLE, GRADE) or show.startswith(AT_LEAST_WORDS))
    return show is not None and not made


# Pixels per inch of a sheet as PNG: sharp on a screen and in print.
RESOLUTION = 150
# Inches: the default size.
WIDTH = 9.0
LEGEND_WIDTH = 2.1
PAPERS = {"a4": (11.69, 8.27), "a4-portrait": (8.27, 11.69), "a3": (16.54, 11.69), "a3-portrait": (11.69, 16.54)}
SMALLEST, LARGEST = 300, 10_000  # pixels along a side


def sheet(
    heatmap: Heatmap,
    show: Hashable | None = None,
    *,
    title: str | None = None,
    size: str | None = None,
    looks: ArrayLike | None = None,
    reports: Reports | None = None,
) -> Figure:
    """Draw a printable map with title, legend, scale bar, north arrow, coast and provenance.

    Parameters
    ----------
    heatmap : Heatmap
        The map.
    show : state, optional
        The state whose probability is shown; "most-probable" for the most probable state of every cell; of grades also
        "grade" for the expected one, and "at least STATE". By default the state in question.
    title : str, optional
        Above the map; by default the title that the map carries, or what it shows.
    size : str, optional
        "1600x1200" in pixels, or a paper: "a4", "a4-portrait", "a3", "a3-portrait"; by default as the map needs it.
    looks : optional
        Places to look at next, to be marked.
    reports : Reports, optional
        To be marked too.

    Returns
    -------
    matplotlib.figure.Figure
        Without a window: ``.savefig("map.png")``.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`:

    >>> figure = cf.plot.sheet(fused.heatmap, title="Flooded, Léogâne", size="a4")
    >>> figure.savefig("map.pdf")
    """
    if isinstance(show, str) and show.startswith(AT_LEAST_WORDS) and show not in heatmap.states:
        heatmap, show = heatmap.at_least(show.removeprefix(AT_LEAST_WORDS)), None
    made = show if show in (MOST_PROBABLE, GRADE) and show not in heatmap.states else None
    figure = Figure(figsize=_inches(heatmap, size), layout="constrained", dpi=RESOLUTION)
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    figure.suptitle(
        title or _title(heatmap, show), x=0.012, ha="left", fontsize=14, fontweight="bold", color=INK, wrap=True
    )
    share = LEGEND_WIDTH / (figure.get_figwidth() - LEGEND_WIDTH)
    axes, beside = figure.subplots(1, 2, width_ratios=(1, share))
    if made == MOST_PROBABLE:
        draw_states(axes, heatmap)
    elif made == GRADE:
        draw_grades(axes, heatmap)
    else:
        draw_map(axes, heatmap, show)
    handles = [] if reports is None else draw_reports(axes, reports, heatmap, alpha=0.6)[0]
    shown_looks = looks is not None and np.size(looks) > 0
    if shown_looks:
        draw_looks(axes, looks)
    axes.set_title(_subtitle(heatmap), loc="left", fontsize=9, color=FAINT)
    if made == MOST_PROBABLE:
        draw_states_legend(beside, heatmap, more=handles)
    elif made == GRADE:
        draw_grades_legend(beside, heatmap, more=handles)
    else:
        draw_legend(beside, heatmap, show, looks=shown_looks, more=handles)
    figure.supxlabel(_credit(heatmap), x=0.012, ha="left", fontsize=7.5, color=FAINT)
    return figure


def parse_size(size: str) -> tuple[float, float]:
    """Inches of "1600x1200" (pixels) or of a paper."""
    text = size.strip().casefold()
    if text in PAPERS:
        return PAPERS[text]
    found = re.fullmatch(r"(\d+)\s*[x×]\s*(\d+)", text)
    if found is None:
        raise InputError(f"a size is WIDTHxHEIGHT in pixels, like 1600x1200, or {', '.join(PAPERS)}; not {size!r}.")
    across, down = int(found[1]), int(found[2])
    if not (min(across, down) >= SMALLEST and max(across, down) <= LARGEST):
        raise InputError(f"a picture has {SMALLEST} to {LARGEST:,} pixels along each side, not {size!r}.")
    return across / RESOLUTION, down / RESOLUTION


def _inches(heatmap: Heatmap, size: str | None) -> tuple[float, float]:
    if size is not None:
        return parse_size(size)
    west, south, east, north = heatmap.grid.bounds
    tall = float(np.clip((north - south) / (east - west) * aspect(heatmap), 0.35, 1.5))
    return WIDTH, (WIDTH - LEGEND_WIDTH - 0.7) * tall + 1.3


def _title(heatmap: Heatmap, show: Any) -> str:
    if heatmap.metadata.get("title"):
        return str(heatmap.metadata["title"])
    if show == MOST_PROBABLE and MOST_PROBABLE not in heatmap.states:
        return "Most probable state"
    if show == GRADE and GRADE not in heatmap.states:
        return "Expected grade"
    return f"Probability: {state_title(heatmap, state_index(heatmap, show))}"


def _subtitle(heatmap: Heatmap) -> str:
    about = heatmap.metadata
    parts = []
    if "reports" in about and "sources" in about:
        parts.append(f"from {crowd(int(about['reports']), int(about['sources']))}")
    if (made := made_on(heatmap)) is not None:
        parts.append(made)
    only = about.get("only_label")
    caution = "" if only is None else f"\nAll reports say “{short(only)}”: nothing tells where it is not so."
    return ", ".join(parts) + caution


def made_on(heatmap: Heatmap) -> str | None:
    """When the map was made, in an unambiguous format."""
    try:
        when = datetime.fromisoformat(str(heatmap.metadata["created"]))
    except (KeyError, ValueError):
        return None
    return f"{when.day} {when:%B %Y, %H:%M} {'UTC' if not when.utcoffset() else when.strftime('%z')}"


def _credit(heatmap: Heatmap) -> str:
    parts = [f"crowdfield {__version__}"]
    if heatmap.grid.crs is not None:
        parts.append(crs_in_words(heatmap.grid.crs))
    if coast_lines(heatmap.grid):
        parts.append(CREDIT)
    return "; ".join(parts)
