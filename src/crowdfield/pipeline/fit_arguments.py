"""Reports as the arguments of a model's `fit`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.models import counted, scored
from crowdfield.pipeline.tables import said_labels, said_sources

EXACT_INFERENCES = ("vb", "gibbs")
# Largest number of rows after repeating rows by their count, for models that count every row once. Sampling and scores
# visit every row in every sweep; a cluster takes more, but its reports are repeated in this process first.
MOST_REPEATED_ROWS = 100_000
MOST_CLUSTER_ROWS = 10_000_000


def as_arguments(model: Any, reports: Reports) -> dict[str, Any]:
    """Reports as the arguments of a model's `fit` and `partial_fit`.

    The paper's inference ("vb") and Gibbs sampling treat every place as exact, whatever its accuracy. Where a model
    cannot count a row several times, the row is repeated.
    """
    exact = model.inference in EXACT_INFERENCES
    if reason := counted.why_not(model, reports):
        reports = repeated(reports, counted.counted_once(model, reports), reason, MOST_REPEATED_ROWS)
    return {
        "X": reports.places,
        "y": said_labels(reports),
        "sources": said_sources(reports),
        "accuracy": None if exact else reports.accuracy,
        "areas": None if exact else reports.area,
        "scores": scored.by_label(reports),
        "counts": reports.count,
    }


def repeated(reports: Reports, rows: NDArray[np.bool_], reason: str, most: int) -> Reports:
    """The reports with the chosen rows [R] repeated by their count; an error if that makes more than `most` rows."""
    if reports.count is None:
        return reports
    wanted = int(np.where(rows, reports.count, 1).sum())
    if wanted > most:
        largest = int(reports.count[rows].max())
        raise InputError(
            f"counts would become {wanted:,} rows (one row counts {largest:,} times), and at most {most:,} can be "
            f"used, because {reason}. Count every row once (--count none), or use the default inference without "
            "scores and without a cluster, which counts a row as often as it says."
        )
    return reports.one_row_per_report(rows)
