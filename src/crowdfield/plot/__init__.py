"""Pictures with fixed scales, colours that colour-blind readers can distinguish, and grey where nobody knows.

    plot.sheet(heatmap, title="Flooded, Beira").savefig("map.png")
    plot.heatmap(heatmap).savefig("map.png")
    plot.summary(heatmap, reports, table, looks).savefig("all.png")

The map's colour says the probability of one state, always on the same scale from 0 to 1, and fades towards a hatched
light grey as the standard deviation approaches that of a place without any report: unknown never looks safe. Figures
are plain `matplotlib.figure.Figure` objects: no window, no global state, safe in threads and on servers.

The names in `__all__` are public. The others are used by the rest of the package.
"""

from crowdfield.data.heatmap import UNKNOWN_SHARE as UNKNOWN_SHARE
from crowdfield.plot.coast import draw_ground as draw_ground
from crowdfield.plot.figures import heatmap, reports, sources, states, summary, uncertainty
from crowdfield.plot.furniture import draw_legend as draw_legend
from crowdfield.plot.furniture import draw_states_legend as draw_states_legend
from crowdfield.plot.palette import ACCENT as ACCENT
from crowdfield.plot.palette import FAINT as FAINT
from crowdfield.plot.palette import FULL_COLOUR as FULL_COLOUR
from crowdfield.plot.palette import INK as INK
from crowdfield.plot.palette import NO_IDEA as NO_IDEA
from crowdfield.plot.palette import OUTSIDE as OUTSIDE
from crowdfield.plot.palette import PROBABILITY as PROBABILITY
from crowdfield.plot.palette import UNCERTAINTY as UNCERTAINTY
from crowdfield.plot.palette import UNKNOWN as UNKNOWN
from crowdfield.plot.palette import colours as colours
from crowdfield.plot.palette import ignorance as ignorance
from crowdfield.plot.palette import knowledge as knowledge
from crowdfield.plot.palette import scale as scale
from crowdfield.plot.palette import scale_of as scale_of
from crowdfield.plot.palette import state_colours as state_colours
from crowdfield.plot.palette import suppressed as suppressed
from crowdfield.plot.palette import unknown as unknown
from crowdfield.plot.panels import draw_looks as draw_looks
from crowdfield.plot.panels import draw_map as draw_map
from crowdfield.plot.panels import draw_reports as draw_reports
from crowdfield.plot.panels import draw_sources as draw_sources
from crowdfield.plot.panels import draw_states as draw_states
from crowdfield.plot.panels import draw_uncertainty as draw_uncertainty
from crowdfield.plot.sheet import MOST_PROBABLE as MOST_PROBABLE
from crowdfield.plot.sheet import parse_size as parse_size
from crowdfield.plot.sheet import sheet
from crowdfield.plot.sheet import shown as shown
from crowdfield.plot.sheet import shows_counts as shows_counts

__all__ = ["heatmap", "reports", "sheet", "sources", "states", "summary", "uncertainty"]
