"""Explanations by a fitted model: why a live map says what it does about a place, and which reports are improbable."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.models.inexact import exact_rows
from crowdfield.pipeline import AtTime
from crowdfield.pipeline.quiet import without_silence
from crowdfield.service.publishing import NOTICEABLE
from crowdfield.service.records import Situation
from crowdfield.silence import SOURCE as SILENCE

# The most reports that are listed when a place is explained.
EXPLAINED = 8


@dataclass(frozen=True)
class Explained:
    """Why the map says what it does about a place, in log odds of one state: `total` is the sum of `prior`,
    `uncertainty` and the contributions of the reports. `reports` has one row per report, the most influential first."""

    total: float
    prior: float
    uncertainty: float
    reports: Any

    def shares(self) -> Iterator[tuple[str, float]]:
        """The source and the contribution of each report."""
        return zip(map(str, self.reports["source"].tolist()), self.reports["log_odds"].tolist(), strict=True)


def explain(model: Any, situation: Situation, place: NDArray[np.float64], state: int) -> Explained | None:
    """The contribution of each report to a place, of an `AtTime` at its moment; None for a model that cannot explain
    its map."""
    if model is None or model.inference_ == "gibbs":
        return None
    at = model.in_time(place[None])[0] if isinstance(model, AtTime) else place
    table = model.explain(at, situation.states[state])
    kind, odds = table["kind"].to_numpy(), table["log_odds"].to_numpy()
    quiet = (kind == "report") & (table["source"].to_numpy() == SILENCE)
    return Explained(
        total=float(odds.sum()),
        prior=float(odds[(kind == "prior") | quiet].sum()),
        uncertainty=float(odds[kind == "uncertainty"].sum()),
        reports=table[(kind == "report") & ~quiet],
    )


def place_of(model: Any, situation: Situation, cell: int) -> NDArray[np.float64]:
    """The place that stands for a cell of a map which shows what was reported: the reported place in the cell that is
    nearest to its centre, else the centre.   [2]"""
    centre, places = situation.grid.centres()[cell], model.places_[exact_rows(model)]
    here = places[situation.grid.index(places) == cell]
    return np.asarray(here[np.argmin(((here - centre) ** 2).sum(axis=1))] if len(here) else centre)


def named_reasons(why: Explained, model: Any) -> dict[str, Any]:
    """Reasons with the names of sources, for callers who may see them."""
    by_source = why.reports.groupby("source", sort=False)["log_odds"].agg(["sum", "size"])
    return {
        "total": why.total,
        "prior": why.prior,
        "uncertainty": why.uncertainty,
        "sources": [
            {"source": str(name), "log_odds": float(share), "reports": int(count)}
            for name, share, count in by_source.itertuples()
        ],
        "summary": _summary(why.reports, model),
        "reports": [
            {"source": str(r.source), "label": str(r.label), "metres": float(r.distance), "log_odds": float(r.log_odds)}
            for r in why.reports.head(EXPLAINED).itertuples()
        ],
    }


def surprises(model: Any, situation: Situation, rows: Sequence[Any]) -> dict[str, float]:
    """By id, the probability of each report given all others. `rows`: the reports that the model was fitted to, in the
    order of the log; if it was fitted to others, the result is empty."""
    if model is None or not hasattr(model, "left_out"):
        return {}
    reports = without_silence(model.reports_)
    inside = [row for row in rows if situation.region.holds(row.longitude, row.latitude)]
    if [reports.labels[code] for code in reports.label] != [row.label for row in inside]:
        return {}
    people = np.ones(len(model.reports_), dtype=bool)
    if SILENCE in model.reports_.sources:
        people = model.reports_.source != model.reports_.sources.index(SILENCE)
    chance = np.exp(model.left_out()[people])
    return {row.id: float(p) for row, p in zip(inside, chance, strict=True) if np.isfinite(p)}


def _summary(reports: Any, model: Any) -> dict[str, dict[str, float]]:
    """For and against: how many reports have a noticeable influence, the distance of the nearest, and the accuracy of
    their sources, weighted by influence."""
    accuracy = model.source_table().set_index("source")["accuracy"]
    size = reports["log_odds"].abs()
    noticed = reports[size >= NOTICEABLE * size.max()]
    sides = {"for": noticed[noticed["log_odds"] > 0], "against": noticed[noticed["log_odds"] < 0]}
    return {
        name: {
            "reports": len(side),
            "sources": int(side["source"].nunique()),
            "nearest": float(side["distance"].min()),
            "accuracy": float(np.average(accuracy[side["source"]], weights=side["log_odds"].abs())),
        }
        for name, side in sides.items()
        if len(side)
    }
