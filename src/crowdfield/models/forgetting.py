"""Which reports to remove: those of one source, given rows, or those too old to matter."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.inference.kernels import Kernel
from crowdfield.models.base import Array


def kept(reports: Reports, source: Hashable, rows: ArrayLike | None) -> NDArray[np.bool_]:
    """Which reports remain when those of one source, or these rows, are removed: [R]."""
    if (source is None) == (rows is None):
        raise InputError("forget takes a source or rows, one of the two.")
    if rows is None:
        if source not in reports.sources:
            raise InputError(f"there is no source {source!r} to forget.")
        out = np.asarray(reports.source != reports.sources.index(source))
    else:
        out = np.ones(len(reports), dtype=bool)
        out[_positions(rows, len(reports))] = False
    if not out.any():
        raise InputError("forgetting these would leave no reports. Fit again when there are some.")
    return out


def _positions(rows: ArrayLike, count: int) -> NDArray[np.int64]:
    chosen = np.asarray(rows)
    if chosen.dtype == bool and chosen.shape == (count,):
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.size and not np.issubdtype(chosen.dtype, np.integer)):
        raise InputError("rows must be positions among the reports, or a mask with one entry per report.")
    if chosen.size and not (chosen.min() >= 0 and chosen.max() < count):
        raise InputError(f"rows must lie between 0 and {count - 1}: the model has {count} reports.")
    return chosen.astype(np.int64)


def too_old(places: Array, kernel: Kernel, now: float, influence: float) -> NDArray[np.bool_]:
    """Which reports correlate with their own place at time `now` less than `influence`: [R].

    Time is the last column of the places [R, D].
    """
    # Reports of one moment are equally old: evaluate the kernel once per moment, at one place.
    moments, which = np.unique(places[:, -1], return_inverse=True)
    here = np.zeros((len(moments), places.shape[1]))
    here[:, -1] = moments
    today = np.zeros((1, places.shape[1]))
    today[0, -1] = now
    faint = kernel.covariance(here, today)[:, 0] < influence
    return np.asarray(faint[which] & (places[:, -1] < now))
