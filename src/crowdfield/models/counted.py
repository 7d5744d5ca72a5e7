"""Rows that count several times, "seen by 12": from a user's `counts` to the input of inference (docs/counts.md)."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.inference.instrument.model import Fitted
from crowdfield.inference.instrument.several.model import FittedStates

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC


def with_counts(reports: Reports, counts: ArrayLike | None) -> Reports:
    """The reports with the count of each row: one number for all, or one per report."""
    if counts is None:
        return reports
    given: Any = np.asarray(counts)
    counted = replace(reports, count=np.full(len(reports), given) if given.ndim == 0 else given)
    return counted if counted.n_reports > len(counted) else reports


def refuse(model: HeatmapBCC, reports: Reports) -> None:
    """Raise an error if this inference cannot count a row several times."""
    if reports.count is None:
        return
    if reason := why_not(model, reports):
        raise InputError(f"counts cannot be used here: {reason}. Give one row per report, or leave the counts out.")


def why_not(model: HeatmapBCC, reports: Reports) -> str | None:
    """Why a model counts every row once; None if it uses the counts."""
    if reports.count is None or not (counted_once(model, reports) & (reports.count > 1)).any():
        return None
    return "inference='gibbs' samples every row once" if model.inference == "gibbs" else "a score is one report"


def counted_once(model: HeatmapBCC, reports: Reports) -> NDArray[np.bool_]:
    """Which rows the model counts once, whatever their count: [R]."""
    if model.inference == "gibbs":
        return np.ones(len(reports), dtype=bool)
    return reports.is_score


def one_row_per_report(model: HeatmapBCC) -> HeatmapBCC:
    """The same fitted model with every row repeated as often as its count says.

    Fits do not need it; checks that compare single reports with each other do."""
    count = model.reports_.count
    if count is None:
        return model
    out = copy.copy(model)
    out.reports_ = model.reports_.one_row_per_report()
    if model.reports_model_ == "instrument":
        setup, fitted = model._setup, model._instrument
        assert isinstance(fitted, Fitted | FittedStates), "gibbs takes no counts"
        reported = fitted.problem.reported.take(np.repeat(np.arange(int(setup.crowd.sum())), count[setup.crowd]))
        reported = reported._replace(multiplicity=np.ones(len(reported.site), dtype=np.int64))
        problem = fitted.problem._replace(reported=reported, observed=fitted.problem.observed.with_reports(*reported))
        out._instrument = out._predictor = replace(fitted, problem=problem)
        out._setup = setup._replace(
            problem=problem, thing=_repeated(setup.thing, count), crowd=_repeated(setup.crowd, count)
        )
    return out


def _repeated(values: NDArray[Any], count: NDArray[np.int64]) -> NDArray[Any]:
    return np.repeat(values, count)
