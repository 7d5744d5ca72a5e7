"""A printable map: title, legend, scale, north, coast and provenance on one sheet of a given size."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from crowdfield.data import Heatmap
from crowdfield.data.grade_order import AT_LEAST_WORDS
from crowdfield.errors import InputError
from crowdfield.plot.furniture import draw_grades_legend, draw_legend, draw_states_legend, looks_handle, short
from crowdfield.plot.palette import FAINT, INK, ignorance, knowledge, state_index, state_title
from crowdfield.plot.panels import draw_grades, draw_looks, draw_map, draw_reports, draw_states
from crowdfield.plot.reported import draw_counts, draw_counts_legend, mark_unclear
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
    from numpy.typing import ArrayLike

    from crowdfield.data import Reports

MOST_PROBABLE = "most-probable"
GRADE = "grade"


def names_state(show: Any) -> bool:
    """Whether `show` names one state, rather than a summary of all states."""
    made = isinstance(show, str) and (show in (MOST_PROBABLE, GRADE) or show.startswith(AT_LEAST_WORDS))
    return show is not None and not made


# Inches: the smallest and the largest page for a size in pixels, whose letters can be read beside the map.
SMALLEST_PAGE, LARGEST_PAGE = (6.75, 4.5), (12.0, 9.0)
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
        "grade" for the expected one, and "at least STATE". By default the state in question; where all reports say the
        same, how many there are in each cell, because nothing tells how probable it is.
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
        heatmap, show = at_least(heatmap, show.removeprefix(AT_LEAST_WORDS)), None
    made = show if show in (MOST_PROBABLE, GRADE) and show not in heatmap.states else None
    counts = shows_counts(heatmap, show)
    inches, resolution = _page(heatmap, size)
    figure = Figure(figsize=inches, dpi=resolution)
    name = figure.suptitle(title or _title(heatmap, show), fontweight="bold", color=INK)
    axes, beside = figure.add_axes((0, 0, 1, 1)), figure.add_axes((0, 0, 1, 1))
    if made == MOST_PROBABLE:
        draw_states(axes, heatmap)
    elif made == GRADE:
        draw_grades(axes, heatmap)
    elif counts:
        draw_counts(axes, heatmap)
    else:
        draw_map(axes, heatmap, show)
    if reports is not None:
        handles = draw_reports(axes, reports, heatmap, alpha=0.6)[0]
    else:
        handles = [] if counts else mark_unclear(axes, heatmap)
    subtitle = axes.set_title(_subtitle(heatmap), loc="left", fontsize=9, fontweight="normal", color=FAINT, wrap=True)
    credit = figure.supxlabel(credit_line(heatmap.grid), fontsize=7.5, color=FAINT)
    below = place(Parts(figure, axes, beside, name, subtitle, credit), shape_of(heatmap.grid))
    # Marks make way for each other by where they are on the sheet: they come after the map has its place.
    shown_looks = looks is not None and np.size(looks) > 0
    if shown_looks:
        draw_looks(axes, looks)
    if made == MOST_PROBABLE:
        draw_states_legend(beside, heatmap, more=handles, below=below)
    elif made == GRADE:
        draw_grades_legend(beside, heatmap, more=handles, below=below)
    elif counts:
        entries = [looks_handle()] if shown_looks else []
        draw_counts_legend(beside, heatmap, more=[*entries, *handles], below=below)
    else:
        draw_legend(beside, heatmap, show, looks=shown_looks, more=handles, below=below)
    return figure


def at_least(heatmap: Heatmap, grade: str) -> Heatmap:
    """The map of a grade and those above it, to be drawn: what nobody knows is the same on all pictures of a map."""
    part = heatmap.at_least(grade)
    prior = np.array([ignorance(part, state) for state in part.states])
    sd = (1.0 - knowledge(heatmap))[..., None] * prior
    return Heatmap(part.grid, part.states, part.probability, sd, part.reports, dict(part.metadata))


def shows_counts(heatmap: Heatmap, show: Hashable | None = None) -> bool:
    """Whether a picture shows how many reports there are, and no probability: where all of them say the same."""
    return show is None and heatmap.metadata.get("only_label") is not None and bool((heatmap.reports > 0).any())


def parse_size(size: str) -> tuple[float, float]:
    """Inches of "1600x1200" (pixels) or of a paper."""
    return page_of(size)[0]


def page_of(size: str) -> tuple[tuple[float, float], float]:
    """The page of "1600x1200" (pixels) or of a paper: its inches, and how many pixels an inch has.

    Letters keep their size on the page. So a small picture gets fewer pixels per inch, and a large one more.
    """
    text = size.strip().casefold()
    if text in PAPERS:
        return PAPERS[text], RESOLUTION
    found = re.fullmatch(r"(\d+)\s*[x×]\s*(\d+)", text)
    if found is None:
        raise InputError(f"a size is WIDTHxHEIGHT in pixels, like 1600x1200, or {', '.join(PAPERS)}; not {size!r}.")
    across, down = int(found[1]), int(found[2])
    if not (min(across, down) >= SMALLEST and max(across, down) <= LARGEST):
        raise InputError(f"a picture has {SMALLEST} to {LARGEST:,} pixels along each side, not {size!r}.")
    least = min(across / SMALLEST_PAGE[0], down / SMALLEST_PAGE[1])
    most = min(across / LARGEST_PAGE[0], down / LARGEST_PAGE[1])
    resolution = float(np.clip(RESOLUTION, most, least)) if most < least else least
    # A picture has whole pixels: without the tiny surplus, rounding could cost one.
    return (across / resolution + 1e-9, down / resolution + 1e-9), resolution


def _page(heatmap: Heatmap, size: str | None) -> tuple[tuple[float, float], float]:
    return page_of(size) if size is not None else (default_size(shape_of(heatmap.grid)), RESOLUTION)


def _title(heatmap: Heatmap, show: Any) -> str:
    return str(heatmap.metadata.get("title") or shown(heatmap, show))


def shown(heatmap: Heatmap, show: Any = None) -> str:
    """What a sheet shows, as its title."""
    if show == MOST_PROBABLE and MOST_PROBABLE not in heatmap.states:
        return "Most probable state"
    if show == GRADE and GRADE not in heatmap.states:
        return "Expected grade"
    if shows_counts(heatmap, show):
        return say("counts", state=heatmap.metadata["only_label"])
    return say("probability", state=state_title(heatmap, state_index(heatmap, show)))


def _subtitle(heatmap: Heatmap) -> str:
    about = heatmap.metadata
    parts = []
    if "reports" in about and "sources" in about:
        reports, sources = (numbered(name[:-1], int(about[name])) for name in ("reports", "sources"))
        parts.append(say("from", reports=reports, sources=sources))
    if (then := moment_in_words(about.get("moment"))) is not None:
        parts.append(say("moment", when=then))  # a map that moves
    if (made := moment_in_words(about.get("created"))) is not None:
        parts.append(made)
    only = about.get("only_label")
    caution = "" if only is None else "\n" + say("only_label", label=short(only))
    return ", ".join(parts) + caution
