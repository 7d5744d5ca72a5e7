"""Honest pictures: fixed scales, colours that everybody can tell apart, and grey where nobody knows.

    plot.sheet(heatmap, title="Flooded, Beira").savefig("map.png")
    plot.heatmap(heatmap).savefig("map.png")
    plot.summary(heatmap, reports, table, looks).savefig("all.png")

The map's colour says the probability of one state, always on the same scale from 0 to 1, and fades towards a hatched
light grey as the standard deviation approaches that of a place without any report: unknown never looks safe. Figures
are plain `matplotlib.figure.Figure` objects: no window, no global state, safe in threads and on servers.
"""

from crowdfield.data.heatmap import UNKNOWN_SHARE
from crowdfield.plot.coast import draw_coast
from crowdfield.plot.figures import heatmap, reports, sources, states, summary, uncertainty
from crowdfield.plot.furniture import draw_legend, draw_states_legend
from crowdfield.plot.palette import (
    ACCENT,
    FAINT,
    FULL_COLOUR,
    INK,
    NO_IDEA,
    OUTSIDE,
    PROBABILITY,
    UNCERTAINTY,
    UNKNOWN,
    colours,
    ignorance,
    knowledge,
    scale,
    scale_of,
    state_colours,
    suppressed,
    unknown,
)
from crowdfield.plot.panels import (
    draw_looks,
    draw_map,
    draw_reports,
    draw_sources,
    draw_states,
    draw_uncertainty,
)
from crowdfield.plot.sheet import MOST_PROBABLE, parse_size, sheet

__all__ = [
    "ACCENT",
    "FAINT",
    "FULL_COLOUR",
    "INK",
    "MOST_PROBABLE",
    "NO_IDEA",
    "OUTSIDE",
    "PROBABILITY",
    "UNCERTAINTY",
    "UNKNOWN",
    "UNKNOWN_SHARE",
    "colours",
    "draw_coast",
    "draw_legend",
    "draw_looks",
    "draw_map",
    "draw_reports",
    "draw_sources",
    "draw_states",
    "draw_states_legend",
    "draw_uncertainty",
    "heatmap",
    "ignorance",
    "knowledge",
    "parse_size",
    "reports",
    "scale",
    "scale_of",
    "sheet",
    "sources",
    "state_colours",
    "states",
    "summary",
    "suppressed",
    "uncertainty",
    "unknown",
]
