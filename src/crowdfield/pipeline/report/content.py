"""The content of a report as plain values, independent of its layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdfield.data import Heatmap
from crowdfield.pipeline.comparing import Change, compare
from crowdfield.pipeline.fusing import Fused
from crowdfield.pipeline.looks import Look, next_looks

if TYPE_CHECKING:
    import pandas as pd

    from crowdfield.pipeline.totals import DistrictTotals

LOOKS = 8
# Between these the map is undecided about the state in question.
UNDECIDED = (0.2, 0.8)
LIKELY, SURE = 0.5, 0.9
# The smallest change of the probability that is reported.
LEAST_CHANGE = 0.1


@dataclass(frozen=True, eq=False)
class Content:
    """All that a report shows.

    districts: totals of districts, or a table of figures per area; checks: a table of spot checks, or sentences about
    them. Tables are shown as they are.
    """

    heatmap: Heatmap
    table: pd.DataFrame
    looks: Sequence[Look]
    written: datetime
    title: str | None = None
    change: Change | None = None
    since: Heatmap | None = None
    districts: DistrictTotals | pd.DataFrame | None = None
    checks: pd.DataFrame | Sequence[str] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def figures(self) -> dict[str, float]:
        """Shares of the map's cells: expected, likely, sure, unknown, undecided; and of what is expected, how much lies
        where nobody knows."""
        from crowdfield.plot import unknown

        heatmap = self.heatmap
        p = heatmap.of(heatmap.positive)[heatmap.mask]
        dark = unknown(heatmap)[heatmap.mask]
        low, high = UNDECIDED
        return {
            "share": float(p.mean()),
            "share_unknown": float(p[dark].sum() / max(p.sum(), 1e-300)),
            "likely": float((~dark & (p > LIKELY)).mean()),
            "sure": float((~dark & (p > SURE)).mean()),
            "unknown": float(dark.mean()),
            "undecided": float((~dark & (p > low) & (p < high)).mean()),
        }

    def square_km(self) -> float | None:
        """The area of the map; None where its units are not metres."""
        from pyproj import CRS

        grid = self.heatmap.grid
        if grid.crs is None or CRS.from_user_input(grid.crs).is_geographic:
            return None
        return float(self.heatmap.mask.sum() * grid.cell_width * grid.cell_height / 1e6)


def gather(
    fused: Fused,
    *,
    title: str | None = None,
    since: Heatmap | None = None,
    districts: DistrictTotals | pd.DataFrame | None = None,
    checks: pd.DataFrame | Sequence[str] | None = None,
    looks: Sequence[Look] | None = None,
    written: datetime | None = None,
) -> Content:
    """Collect everything for a report of a run. since: the map of the last report; looks: places to look at, if
    known."""
    heatmap = fused.heatmap
    if not np.any(heatmap.mask):
        from crowdfield.errors import InputError

        raise InputError("the map is empty: its mask leaves no cell. There is nothing to report.")
    return Content(
        heatmap=heatmap,
        table=fused.table(),
        looks=next_looks(fused, LOOKS) if looks is None else looks,
        written=written or datetime.now(UTC),
        title=title,
        change=None if since is None else compare(since, heatmap, least=LEAST_CHANGE),
        since=since,
        districts=districts,
        checks=checks,
        about={**heatmap.metadata, **fused.about},
    )
