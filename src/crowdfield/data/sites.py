"""Sites: the distinct places of reports."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.data.columns import frozen


class Sites(NamedTuple):
    """The distinct places, in the order of their coordinates, and the site of each report."""

    places: NDArray[np.float64]  # [N, D]
    site: NDArray[np.int64]  # [R]


def distinct_places(places: NDArray[np.float64]) -> Sites:
    """The distinct rows, sorted, and where each row of `places` went."""
    columns = np.ascontiguousarray(places.T)
    # Most often the first column tells all places apart. Else an index is sorted by one column after another:
    # numpy.unique over rows is ten times slower and copies twice.
    order = np.argsort(columns[0])
    first = columns[0][order]
    if (first[1:] == first[:-1]).any():
        order = np.lexsort(columns[::-1])
    order = order.astype(np.int64, copy=False)
    new = np.zeros(len(order), dtype=bool)
    new[:1] = True
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    site = np.empty(len(order), dtype=np.int64)
    site[order] = np.cumsum(new) - 1
    return Sites(frozen(places[order[new]]), frozen(site))
