"""Why a place is what a live map says, and which reports surprise it: questions to a fitted model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.pipeline.quiet import without_silence
from crowdfield.service.publishing import NOTICEABLE
from crowdfield.service.store import Situation
from crowdfield.silence import SOURCE as SILENCE

# The reports named one by one when a place is explained.
EXPLAINED = 8


@dataclass(frozen=True)
class Explained:
    """Why a place is what the map says, in log odds of one state: `prior`, `uncertainty` and what the reports add up to
    the whole. `said` has one row per report, the one that moves the place most first."""

    total: float
    prior: float
    uncertainty: float
    said: Any

    def shares(self) -> Iterator[tuple[str, float]]:
        """The source of each report, and how far that report moves the place."""
        return zip(map(str, self.said["source"].tolist()), self.said["log_odds"].tolist(), strict=True)


def explain(model: Any, situation: Situation, place: NDArray[np.float64], state: int) -> Explained | None:
    """Which reports moved this place, and by how much; None for a model that cannot tell."""
    if model is None or model.inference_ == "gibbs":
        return None
    table = model.explain(place, situation.states[state])
    kind, odds = table["kind"].to_numpy(), table["log_odds"].to_numpy()
    quiet = (kind == "report") & (table["source"].to_numpy() == SILENCE)
    return Explained(
        total=float(odds.sum()),
        prior=float(odds[(kind == "prior") | quiet].sum()),
        uncertainty=float(odds[kind == "uncertainty"].sum()),
        said=table[(kind == "report") & ~quiet],
    )


def told_reasons(why: Explained, model: Any) -> dict[str, Any]:
    """Reasons with all names, for those who may see them."""
    by_source = why.said.groupby("source", sort=False)["log_odds"].agg(["sum", "size"])
    return {
        "total": why.total,
        "prior": why.prior,
        "uncertainty": why.uncertainty,
        "sources": [
            {"source": str(name), "log_odds": float(share), "reports": int(count)}
            for name, share, count in by_source.itertuples()
        ],
        "summary": _summary(why.said, model),
        "reports": [
            {"source": str(r.source), "label": str(r.label), "metres": float(r.distance), "log_odds": float(r.log_odds)}
            for r in why.said.head(EXPLAINED).itertuples()
        ],
    }


def surprises(model: Any, situation: Situation, rows: Sequence[Any]) -> dict[str, float]:
    """By id: the probability of what each report says given all other reports. `rows` are those that the model was
    fitted to, in the order of the log; empty where it was fitted to others."""
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


def _summary(said: Any, model: Any) -> dict[str, dict[str, float]]:
    """For and against: how many reports count noticeably, how near the nearest is, and how often such people are right,
    each report weighted by how far it moves the place."""
    accuracy = model.source_table().set_index("source")["accuracy"]
    size = said["log_odds"].abs()
    noticed = said[size >= NOTICEABLE * size.max()]
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
