"""When events happened: the number of reports in each time step, for the time slider of the page.

Callers who may see reports get steps of an hour or longer. Readers get whole published periods, each with the sum of
the published counts of cells.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.service.publishing import HOUR, PublishedCells
from crowdfield.service.reporttable import ReportTable

DAY = 24 * HOUR
# The possible lengths of a step in seconds, and the most steps: positions of the slider.
STEPS = (HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY)
MOST_STEPS = 60


def of_reports(table: ReportTable) -> dict[str, Any]:
    """Counts of the reports that say when their event happened."""
    known = np.flatnonzero(~np.isnan(table.time))
    return _counts_by_step(table.time[known], np.ones(len(known), dtype=np.int64), STEPS, exact=True)


def of_cells(published: PublishedCells) -> dict[str, Any]:
    """Published counts by whole periods; empty if most reports do not say when their event happened."""
    length = published.hours * HOUR
    periods = sorted(published.periods.items()) if published.timed else []
    count = np.array([sum(row.count for row in rows) for _, rows in periods], dtype=np.int64)
    steps = tuple(length * days for days in (1, 7, 30, 365))
    return _counts_by_step(
        np.array([number * length for number, _ in periods], dtype=np.float64), count, steps, exact=False
    )


def step_for(span: float, steps: tuple[float, ...], most: int) -> float:
    """The shortest of the given steps of which fewer than `most` cover a span of time; for centuries, a multiple of the
    longest."""
    for step in steps:
        if span / step < most - 1:
            return step
    return steps[-1] * float(np.ceil(span / (steps[-1] * (most - 1))))


def _counts_by_step(
    time: NDArray[np.float64], count: NDArray[np.int64], steps: tuple[float, ...], *, exact: bool
) -> dict[str, Any]:
    if not len(time):
        return {"exact": exact, "start": None, "step": steps[0], "counts": []}
    step = step_for(float(time.max() - time.min()), steps, MOST_STEPS)
    start = float(np.floor(time.min() / step) * step)
    number = np.floor((time - start) / step).astype(np.int64)
    counts = np.bincount(number, weights=count).astype(np.int64)
    return {"exact": exact, "start": start, "step": step, "counts": counts.tolist()}
