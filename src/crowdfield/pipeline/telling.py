"""Reports as the arguments of a model's `fit`."""

from __future__ import annotations

from typing import Any

from crowdfield.data import Reports
from crowdfield.models import counted
from crowdfield.pipeline.tables import said_labels, said_sources

EXACT_INFERENCES = ("vb", "gibbs")


def as_arguments(model: Any, reports: Reports) -> dict[str, Any]:
    """What `fit` and `partial_fit` of a model take of reports.

    The inferences of the paper and by sampling take every place for exact, whatever its accuracy. Where a model cannot
    count a row several times, the row is repeated.
    """
    exact = model.inference in EXACT_INFERENCES
    if reports.count is not None and counted.why_not(model, reports):
        reports = reports.one_row_per_look()
    return {
        "X": reports.places,
        "y": said_labels(reports),
        "sources": said_sources(reports),
        "accuracy": None if exact else reports.accuracy,
        "scores": reports.score,
        "counts": reports.count,
    }
