"""Tables of reports: which lie on the map, joining several, and a key for each report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Grid, Reports
from crowdfield.errors import InputError


def within(reports: Reports, grid: Grid, *, allow_none: bool = False) -> tuple[Reports, int]:
    """The reports inside the grid, and how many are not."""
    keep = grid.index(reports.places[:, :2]) >= 0
    if not keep.any() and not allow_none:
        raise InputError(
            f"none of the {len(reports):,} reports lies in the region. Are longitude and latitude swapped?"
        )
    return (reports if keep.all() else reports.take(keep)), int(np.count_nonzero(~keep))


def joined(parts: Sequence[Reports]) -> Reports:
    """Join several tables of reports. What one of them lacks (times, ids) the whole lacks.

    Parameters
    ----------
    parts : sequence of Reports
        In one reference system.

    Returns
    -------
    Reports
        All rows, in order.

    Examples
    --------
    With `reports` of the example of `fuse`:

    >>> len(cf.pipeline.joined([reports, reports]))
    120
    """
    if len({part.crs for part in parts}) > 1:
        raise InputError(
            "the files are in different reference systems; read them all in degrees, or project them first."
        )
    return reduce(Reports.join, parts)


def keys(reports: Reports) -> NDArray[np.uint64]:
    """A number for each report that stays the same in every run: from its id, else from who, what, where and when."""
    import pandas as pd

    if reports.id is not None:
        columns: dict[str, Any] = {"id": [str(value) for value in reports.id]}
    else:
        columns = {
            "source": said_sources(reports).astype(str),
            "label": said_labels(reports).astype(str),
            # To a millimetre: a projection there and back must not make a report new.
            **{f"place{d}": np.round(reports.places[:, d] * 1000).astype(np.int64) for d in range(2)},
            "time": np.zeros(len(reports)) if reports.time is None else np.nan_to_num(reports.time),
        }
    return pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy().astype(np.uint64)


def said_labels(reports: Reports) -> NDArray[Any]:
    """What each report says, as it was given.   [R]"""
    return names_of(reports.labels)[reports.label]


def said_sources(reports: Reports) -> NDArray[Any]:
    """Who sent each report, as it was given.   [R]"""
    return names_of(reports.sources)[reports.source]


def names_of(names: tuple[Any, ...]) -> NDArray[Any]:
    """Names as an array that keeps them what they are: strings, numbers, or anything else as objects."""
    if len({type(name) for name in names}) == 1 and isinstance(names[0], str | int | float):
        return np.asarray(names)
    out = np.empty(len(names), dtype=object)
    out[:] = names
    return out
