"""Reports that are scores: from what a user gives to what the instrument model takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Reports
from crowdfield.inference.instrument import scoring
from crowdfield.inference.instrument.scoring import Readings

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC


def with_scores(reports: Reports, scores: ArrayLike | None) -> Reports:
    """The reports with how sure each is of its label; as they are where no report says so."""
    if scores is None:
        return reports
    told = replace(reports, score=np.asarray(scores))
    return told if told.score is not None and np.isfinite(told.score).any() else reports


def why_not(model: HeatmapBCC, states: tuple[Any, ...]) -> str | None:
    if len(states) > 2:
        return (
            f"scores are read for two states, and there are {len(states)}. Map one state against all others, with the "
            "probability of that state as the score (--positive STATE), or leave the scores out and use the labels"
        )
    return "inference='gibbs' does not read scores" if model.inference == "gibbs" else None


def given(reports: Reports, states: tuple[Any, ...]) -> NDArray[np.bool_]:
    """Which reports are scores of a label that names a state: [R]."""
    if reports.score is None:
        return np.zeros(len(reports), dtype=bool)
    names_state = np.array([label in states for label in reports.labels])
    return np.asarray(np.isfinite(reports.score) & names_state[reports.label])


def readings(
    reports: Reports, states: tuple[Any, ...], site: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> Readings | None:
    """The chosen reports as log odds of the second state."""
    if reports.score is None or not chosen.any():
        return None
    z = scoring.log_odds(reports.score[chosen])
    second = reports.label[chosen] == reports.labels.index(states[1])
    return Readings(site[chosen], reports.source[chosen], np.where(second, z, -z))
