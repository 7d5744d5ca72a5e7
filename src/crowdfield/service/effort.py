"""How much a fit may cost, and what is left out if a map is too large for that.

Two things can be reduced, and the map says so: the cells (the map is computed in fewer cells and interpolated between
them), and the reports that are learned from (one in four, one in sixteen, …).
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
# A map always learns from at least this many of its reports; no more levels than this are tried.
FEWEST_REPORTS, MOST_LEVELS = 100, 8
# The share of the newest reports among those that a coarser map learns from: what was just sent must have an effect.
NEWEST_SHARE = 0.5
# The most seconds to learn and to draw while reports come in; then the map is published as it is.
LIVE_LEARNING, LIVE_DRAWING = 15.0, 10.0
# The most reports (times latent functions) on which the length-scale and the kind of model are searched for: while
# reports come in (about two seconds on one slow core), and at rest (seven seconds for 12,342). Up to this many reports
# are fitted as `fuse` does.
LIVE_SEARCHED, REST_SEARCHED = 250, 20_000
# The shares of the deadline for learning and drawing at rest; the remainder is for storing, and for busy machines.
REST_LEARNING, REST_DRAWING = 0.45, 0.3
# The most pairs of probability and standard deviation stored in one version (32 MB), however fast they are drawn.
MOST_STORED = 4 * 2**20
# A map that could not be fitted in time is drawn in no more cells than this.
COARSE_CELLS = 2**14
# A map is never drawn in fewer cells than this along a side.
FEWEST_CELLS = 16
# How many cells are drawn to measure how long one takes, and the size of a map from which this is measured.
PROBE, PROBED_FROM = 256, 2**16


@dataclass(frozen=True)
class Effort:
    """What one fit may cost: its `level` of coarseness, and the seconds to learn, to draw, and until it is killed; or
    `shape`, the (rows, columns) to draw however long that takes. `searched`: the most reports on which the length-scale
    is searched for."""

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
    def uses_subset(self) -> bool:
        """Whether a map with many reports learns from some of them only."""
        return self.level > 0

    def choose(self, reports: Sequence[Entry]) -> Sequence[Entry]:
        """The reports to learn from, in the order of the log: all, or the trusted ones, the newest, and some others.

        The same log always gives the same choice.
        """
        most = max(FEWEST_REPORTS, len(reports) // COARSER**self.level)
        if not self.uses_subset or len(reports) <= most:
            return reports
        sure = {i for i, r in enumerate(reports) if str(r.source).startswith(TRUSTED)}
        others = [i for i in range(len(reports)) if i not in sure]
        room = max(0, most - len(sure))
        newest = math.ceil(room * NEWEST_SHARE)
        older = others[: len(others) - newest]
        spread = min(len(older), room - newest)
        chosen = sure | set(others[len(others) - newest :]) | {older[k * len(older) // spread] for k in range(spread)}
        return [reports[i] for i in sorted(chosen)]

    def grid_to_draw(self, grid: Grid, states: int, seconds_per_cell: Callable[[], float]) -> Grid:
        """The cells to draw: those of the map, or larger ones if drawing would take too long or store too much."""
        if self.shape is not None:
            return coarser(grid, *self.shape)
        most = min(MOST_STORED / states, COARSE_CELLS if self.uses_subset else math.inf)
        if self.drawing < math.inf and grid.size * states > PROBED_FROM:
            most = min(most, self.drawing / max(seconds_per_cell(), 1e-9))
        factor = 1
        while grid.size / factor**2 > most and min(grid.shape) / (factor + 1) >= FEWEST_CELLS:
            factor += 1
        return coarser(grid, math.ceil(grid.rows / factor), math.ceil(grid.columns / factor))


UNLIMITED = Effort()


def coarser(grid: Grid, rows: int, columns: int) -> Grid:
    """The same region with this number of rows and columns."""
    if (rows, columns) == grid.shape:
        return grid
    return replace(grid, rows=rows, columns=columns)


def describe_limits(
    effort: Effort, grid: Grid, drawn: Grid, reports: int, learned_from: int
) -> tuple[dict[str, Any], list[str]]:
    """What was reduced in a coarser map: as numbers, and as remarks for its users."""
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
