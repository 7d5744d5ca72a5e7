"""Silence as evidence: where people could have reported and did not, a weak "no" from a source of its own.

Some channels only ever hear of trouble (Haiti's messages; a flood hotline). A source that always says the same tells
nothing about where all is well; what tells is where it spoke and where, though somebody could have, it did not.
`as_reports` makes that a report: every exposed cell gets one by the source "silence", negative where it was quiet and
positive where somebody spoke, so that the model learns what quiet is worth as it does for any other source. Off unless
you call it. What it assumes is in docs/silence.md.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Grid, Reports
from crowdfield.errors import InputError

__all__ = ["PRIOR", "SOURCE", "as_reports"]

SOURCE = "silence"
# Pseudo-counts [state, label], negative first: quiet cells are mostly fine, and trouble is heard of a little more often
# than not. A start; what quiet is worth here is learned.
PRIOR = ((8.0, 2.0), (4.0, 6.0))


def as_reports(
    reports: Reports,
    grid: Grid,
    *,
    negative: Hashable,
    positive: Hashable,
    exposure: ArrayLike | float = 1.0,
    least: float = 0.5,
    rng: np.random.Generator,
) -> Reports:
    """Add one report by the source "silence" for every exposed cell of a grid: no where it was quiet, yes where not.

    Parameters
    ----------
    reports : Reports
        What people said, in two coordinates.
    grid : Grid
        The cells that can be silent.
    negative, positive : label
        What a quiet cell stands for, and one that is not quiet.
    exposure : float or array_like [rows, columns], default=1.0
        How many reports a cell would be expected to send if something were there (population times phone coverage
        times how many call). A cell with exposure e is drawn with probability 1 − exp(−e): the chance that somebody
        there would have spoken.
    least : float, default=0.5
        Cells with less exposure than this are never taken to be silent.
    rng : numpy.random.Generator
        Decides which of the partly exposed cells count.

    Returns
    -------
    Reports
        The reports, followed by those of silence.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdfield as cf
    >>> grid = cf.Grid(west=0, east=2, south=0, north=2, columns=2, rows=2)
    >>> calls = cf.Reports.from_arrays([[0.5, 0.5]], ["flooded"], ["ann"], labels=["dry", "flooded"])
    >>> with_silence = cf.silence.as_reports(
    ...     calls, grid, negative="dry", positive="flooded", exposure=50.0, rng=np.random.default_rng(0)
    ... )
    >>> len(with_silence), with_silence.sources  # one call, and four cells
    (5, ('ann', 'silence'))
    """
    if reports.places.shape[1] != 2:
        raise InputError("silence needs a map: reports must have two coordinates.")
    if SOURCE in reports.sources:
        raise InputError(f"there is a source called {SOURCE!r} already: silence has been added before.")
    exposed = _exposure(exposure, grid)
    cell = grid.index(reports.places)
    spoken = np.zeros(exposed.size, dtype=bool)
    spoken[cell[cell >= 0]] = True
    heard = rng.random(exposed.size) < -np.expm1(-exposed)
    counted = np.flatnonzero(heard & (exposed >= least))
    if not len(counted):
        return reports
    silent = Reports.from_arrays(
        grid.centres()[counted],
        [positive if spoken[i] else negative for i in counted],
        [SOURCE] * len(counted),
        labels=(*reports.labels, *(x for x in (negative, positive) if x not in reports.labels)),
        # Silence lasts as long as the reports do: it is dated at their end.
        time=None if reports.time is None else np.full(len(counted), np.nanmax(reports.time)),
        crs=reports.crs,
    )
    return reports.join(silent)


def _exposure(exposure: ArrayLike | float, grid: Grid) -> NDArray[np.float64]:
    try:
        given = np.asarray(exposure, dtype=np.float64)
        out = np.broadcast_to(given, grid.shape).ravel()
    except (TypeError, ValueError):
        raise InputError(f"exposure must be one number or an array {grid.shape}, as the grid has cells.") from None
    if not (np.isfinite(out).all() and (out >= 0).all()):
        raise InputError("exposure must be finite and not negative; use 0 where nobody could report.")
    return out
