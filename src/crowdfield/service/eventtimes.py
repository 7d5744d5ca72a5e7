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


def _counts_by_step(
    time: NDArray[np.float64], count: NDArray[np.int64], steps: tuple[float, ...], *, exact: bool
) -> dict[str, Any]:
    if not len(time):
        return {"exact": exact, "start": None, "step": steps[0], "counts": []}
    span = time.max() - time.min()
    step = next((length for length in steps if span / length < MOST_STEPS - 1), None)
    if step is None:  # centuries: as many of the longest steps as are needed
        step = steps[-1] * float(np.ceil(span / (steps[-1] * (MOST_STEPS - 1))))
    start = float(np.floor(time.min() / step) * step)
    number = np.floor((time - start) / step).astype(np.int64)
    counts = np.bincount(number, weights=count).astype(np.int64)
    return {"exact": exact, "start": start, "step": step, "counts": counts.tolist()}
