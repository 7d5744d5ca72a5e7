"""How much a fit may cost, and what is left out where a map is too large for that.

Two things are cut, and each is said in words at the map: the cells that are drawn (the map is drawn in fewer, and what
lies between them is interpolated), and the reports that are learned from (one in four, one in sixteen, …).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crowdfield.data import Grid
from crowdfield.service.auth import TRUSTED
from crowdfield.service.journal import Entry

# Each level of coarseness learns from a quarter of the reports of the level before.
COARSER = 4
# Fewer reports than this are never thinned out, and no more levels than this are tried.
FEWEST_REPORTS, MOST_LEVELS = 100, 8
# Of a coarser map this share are the newest reports: what was just sent must show.
NEWEST_SHARE = 0.5
# While reports come in a map must follow them: so many seconds to learn and to draw, then it is published as it is.
LIVE_LEARNING, LIVE_DRAWING = 15.0, 10.0
# The length-scale and the kind of model are searched for on so many reports (times latent functions) while reports
# come in (some two seconds on one slow core), and at rest (seven for 12,342). No more are fitted as `fuse` does.
LIVE_SEARCHED, REST_SEARCHED = 250, 20_000
# Shares of the deadline of a map at rest; what is left is for storing it, and a reserve for a busy machine.
REST_LEARNING, REST_DRAWING = 0.45, 0.3
# Probabilities and deviations of one version that are stored at most (as pairs; 32 MB), however fast they are drawn.
MOST_STORED = 4 * 2**20
# A map that could not be fitted in time is drawn in no more cells than this, whatever its reports.
COARSE_CELLS = 2**14
# A map is never drawn in fewer cells than this along a side.
FEWEST_CELLS = 16
# Cells that are drawn to measure how long one takes, and the size of maps from which on this is measured.
PROBE, PROBED_FROM = 256, 2**16


@dataclass(frozen=True)
class Effort:
    """What one fit may cost: its `level` of coarseness, seconds to learn, to draw, and until it is ended; or `shape`,
    the (rows, columns) to draw whatever that takes. `searched`: reports that the length-scale is looked for on."""

    level: int = 0
    learning: float = math.inf
    drawing: float = math.inf
    deadline: float = math.inf
    shape: tuple[int, int] | None = None
    searched: int = REST_SEARCHED

    @classmethod
    def live(cls, level: int, deadline: float) -> "Effort":
        """For a map that is receiving reports."""
        at_rest = cls.rest(level, deadline)
        learning, drawing = min(LIVE_LEARNING, at_rest.learning), min(LIVE_DRAWING, at_rest.drawing)
        return cls(level, learning, drawing, deadline, searched=LIVE_SEARCHED)

    @classmethod
    def rest(cls, level: int, deadline: float) -> "Effort":
        """For a map that has received nothing new."""
        return cls(level, REST_LEARNING * deadline, REST_DRAWING * deadline, deadline)

    @property
    def thins(self) -> bool:
        """Whether a map is learned from some of its reports only, once it has many."""
        return self.level > 0

    def choose(self, reports: Sequence[Entry]) -> Sequence[Entry]:
        """The reports to learn from, in the order of the log: all, or the trusted, the newest, and some of the rest.

        The same log always gives the same choice.
        """
        most = max(FEWEST_REPORTS, len(reports) // COARSER**self.level)
        if not self.thins or len(reports) <= most:
            return reports
        sure = {i for i, r in enumerate(reports) if str(r.source).startswith(TRUSTED)}
        others = [i for i in range(len(reports)) if i not in sure]
        room = max(0, most - len(sure))
        newest = math.ceil(room * NEWEST_SHARE)
        older = others[: len(others) - newest]
        spread = min(len(older), room - newest)
        chosen = sure | set(others[len(others) - newest :]) | {older[k * len(older) // spread] for k in range(spread)}
        return [reports[i] for i in sorted(chosen)]

    def lay_out(self, grid: Grid, states: int, seconds_per_cell: Callable[[], float]) -> Grid:
        """The cells to draw: those of the map, or larger ones where drawing would take too long or store too much."""
        if self.shape is not None:
            return coarser(grid, *self.shape)
        most = min(MOST_STORED / states, COARSE_CELLS if self.thins else math.inf)
        if self.drawing < math.inf and grid.size * states > PROBED_FROM:
            most = min(most, self.drawing / max(seconds_per_cell(), 1e-9))
        factor = 1
        while grid.size / factor**2 > most and min(grid.shape) / (factor + 1) >= FEWEST_CELLS:
            factor += 1
        return coarser(grid, math.ceil(grid.rows / factor), math.ceil(grid.columns / factor))


UNLIMITED = Effort()


def coarser(grid: Grid, rows: int, columns: int) -> Grid:
    """The same region in so many cells."""
    if (rows, columns) == grid.shape:
        return grid
    return replace(grid, rows=rows, columns=columns)


def told(effort: Effort, grid: Grid, drawn: Grid, reports: int, learned_from: int) -> tuple[dict[str, Any], list[str]]:
    """What a coarser map says of itself: as numbers, and in words for those who look at it."""
    remarks = []
    if learned_from < reports:
        remarks.append(
            f"This map is coarser than it should be: it was learned from {learned_from:,} of its {reports:,} reports, "
            "because learning from all of them takes more time or memory than one map may use here."
        )
    if drawn.shape != grid.shape:
        remarks.append(
            f"This map is coarser than it should be: it was drawn in {drawn.columns:,} × {drawn.rows:,} cells instead "
            f"of {grid.columns:,} × {grid.rows:,}, because drawing all of them takes longer than one map may use here."
        )
    if not remarks:
        return {}, []
    numbers: dict[str, Any] = {"level": effort.level, "reports": learned_from}
    numbers |= {"rows": drawn.rows, "columns": drawn.columns}
    if math.isfinite(effort.deadline):
        numbers["deadline"] = effort.deadline
    return {"coarser": numbers}, remarks
