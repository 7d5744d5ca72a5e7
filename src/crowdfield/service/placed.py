"""The reports of a live map as a fit uses them: their places, labels, scores and accuracies."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.data import Reports
from crowdfield.service import moments
from crowdfield.service.effort import Effort
from crowdfield.service.journal import Entry, Ledger
from crowdfield.service.publishing import HOUR
from crowdfield.service.records import Situation
from crowdfield.service.scatter import in_whole_cells, scattered


@dataclass(frozen=True)
class Placed:
    """Reports in the order of the log, and their places in metres as the model uses them."""

    entries: Sequence[Entry]
    metres: NDArray[np.float64]  # [R, 2]

    def __len__(self) -> int:
        return len(self.entries)


def mapped(situation: Situation, ledger: Ledger) -> Placed:
    """The active reports inside the region; after a change of the region some may lie outside."""
    entries = [r for r in ledger.reports.values() if r.longitude is not None and r.latitude is not None]
    inside = situation.region.holds_each(_degrees(entries))
    entries = list(compress(entries, inside.tolist()))
    return Placed(entries, _metres(situation, entries))


def chosen(situation: Situation, mapped: Placed, effort: Effort) -> Placed:
    """The reports to learn from: all that lie on the map, or as many as the effort allows."""
    entries = effort.choose(mapped.entries)
    return mapped if len(entries) == len(mapped) else Placed(entries, _metres(situation, entries))


def _degrees(reports: Sequence[Entry]) -> NDArray[np.float64]:
    """Longitude and latitude.   [R, 2]"""
    return np.array([(r.longitude, r.latitude) for r in reports], dtype=np.float64).reshape(-1, 2)


def _metres(situation: Situation, reports: Sequence[Entry]) -> NDArray[np.float64]:
    """The places in metres that the model uses.   [R, 2]"""
    places = _degrees(reports)
    metres = geography.transform_visible(places, geography.WGS84, situation.crs)
    return metres if situation.exact_places else scattered(situation.grid, metres)


def as_reports(situation: Situation, reports: Placed, period_hours: int) -> Reports:
    """The reports as a table for the pipeline, in the reference system of the map's grid; if the map moves, with the
    hour of the event (since 1970) as third coordinate. `period_hours`: the steps in which readers may know times."""
    entries, places = reports.entries, reports.metres
    if situation.moving:
        places = np.column_stack([places, moments.event_times(situation, entries, period_hours) / HOUR])
    return Reports.from_arrays(
        places,
        np.array([r.label for r in entries], dtype=object),
        np.array([r.source for r in entries], dtype=object),
        labels=list(situation.labels),
        crs=situation.crs,
        accuracy=_accuracies(situation, entries),
        score=_scores(situation, entries),
        count=observations(entries),
    )


def _scores(situation: Situation, reports: Sequence[Entry]) -> NDArray[np.float64] | None:
    """The probability of every label: [R, L]; NaN for reports without scores, and for scores of other states than the
    map has now. None if no report has usable scores."""
    columns = [situation.labels.index(state) for state in situation.states]
    vectors = np.full((len(reports), len(situation.labels)), np.nan)
    for row, report in enumerate(reports):
        scores = report.scores
        if scores is not None and scores.keys() == set(situation.states):
            vectors[row, columns] = [scores[state] for state in situation.states]
    return vectors if np.isfinite(vectors).any() else None


def observations(reports: Sequence[Entry]) -> NDArray[np.int64] | None:
    """How many observations each report stands for; None if each stands for one."""
    count = np.array([r.observations or 1 for r in reports], dtype=np.int64)
    return count if (count > 1).any() else None


def _accuracies(situation: Situation, reports: Sequence[Entry]) -> NDArray[np.float64] | None:
    """The accuracy of each place in metres, as the model uses it: [R]; NaN where a report does not give it."""
    metres = np.array([np.nan if r.accuracy is None else r.accuracy for r in reports], dtype=np.float64)
    if np.isnan(metres).all():
        return None
    return metres if situation.exact_places else in_whole_cells(situation.grid, metres)
