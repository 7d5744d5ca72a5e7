"""Why the map says what it says at a place: the contribution of every report to its log odds, as a table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.inference import explain as of_one_state
from crowdfield.inference.blur import SPACE
from crowdfield.inference.explain import Shares
from crowdfield.inference.instrument.model import AnyFitted
from crowdfield.models import instrument
from crowdfield.models.base import Array, validated_places
from crowdfield.models.reported import same_places

if TYPE_CHECKING:
    from crowdfield.models.queries import MapQueries

ROUNDING = 1e-15  # a probability this close to 0 or 1 has log odds that mean nothing


def explain(model: MapQueries, place: ArrayLike, state: Hashable | None) -> pd.DataFrame:
    """One row per report, then the prior and the uncertainty; see `HeatmapBCC.explain`."""
    x = validated_places(model, np.atleast_2d(np.asarray(place, dtype=np.float64)))
    if len(x) != 1:
        raise InputError("explain takes one place.")
    p = np.clip(model.predict_proba(x)[0], ROUNDING, 1.0 - ROUNDING)
    if state is not None and state not in model.classes_.tolist():
        raise InputError(f"state {state!r} is not one of {model.classes_.tolist()!r}.")
    j = int(p.argmax()) if state is None else model.classes_.tolist().index(state)
    site = int(same_places(model, x)[0])
    if model.inference_ == "gibbs":
        quick = "auto" if model.reports_model_ == "instrument" else "collapsed"
        raise InputError(f"draws of Gibbs cannot be divided among reports. Explain with inference={quick!r}.")
    reports = model.reports_
    if model.reports_model_ == "instrument":
        fitted = cast(AnyFitted, model._instrument)
        shares = instrument.shares(model._setup, fitted, x, site, j, float(p[j]), reports.count)
        return _table(reports, reports.places, reports.source, reports.label, shares, x[0])
    solved, prior_mean = model._solved, model._posed.mean_at(x)[0]
    shares = of_one_state.of_state(solved.solver, solved.fit.q, x, site, j, float(p[j]), prior_mean)
    data = model._posed.data
    return _table(reports, model.places_[data.site], data.source, data.label, shares, x[0])


def _table(
    reports: Reports, where: Array, source: NDArray[Any], label: NDArray[Any], shares: Shares, place: Array
) -> pd.DataFrame:
    """The contributions to a place's log odds as a table: reports by size, then prior and uncertainty.

    where [R, D], source and label [R] (codes) in the order of the shares.
    """
    distance = np.sqrt(((where - place)[:, :SPACE] ** 2).sum(1))  # hours, a third column, are no distance
    frame = pd.DataFrame(
        {
            "kind": "report",
            "source": pd.Series(_named(reports.sources, source), dtype=object),
            "label": pd.Series(_named(reports.labels, label), dtype=object),
            "distance": distance,
            "log_odds": shares.field + shares.own,
        }
    )
    frame = frame.iloc[np.argsort(-np.abs(frame["log_odds"].to_numpy()), kind="stable")]
    rest = pd.DataFrame(
        {
            "kind": ["prior", "uncertainty"],
            "source": pd.Series([None, None], dtype=object),
            "label": pd.Series([None, None], dtype=object),
            "distance": [np.nan, np.nan],
            "log_odds": [shares.prior, shares.uncertainty],
        }
    )
    return pd.concat([frame, rest], ignore_index=True)


def _named(names: Sequence[Hashable], codes: NDArray[Any]) -> NDArray[np.object_]:
    """The name of each code."""
    each = np.empty(len(names), dtype=object)
    each[:] = names
    return np.asarray(each[codes], dtype=object)
