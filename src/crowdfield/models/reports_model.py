"""Which model reads the reports: what the settings ask for, or whichever predicts left-out reports better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.models import comparison, instrument, scored
from crowdfield.models.learned import FitInput

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC

Choice = Literal["one_state", "instrument", "compare"]


def choose(model: HeatmapBCC, given: FitInput, warm: bool) -> Choice:
    """The model to fit, or "compare" where left-out reports are to decide. warm: the model has been fitted before."""
    needs, reason = _needs_instrument(model, given), _why_no_instrument(model, given)
    if needs is not None and model.reports_model == "one_state":
        raise InputError(
            f"{needs} are parts of the instrument model; reports_model='one_state' has no room for them. "
            "Leave reports_model at 'auto'" + (", or use prior_mean." if needs == "covariates" else ".")
        )
    if model.reports_model == "instrument" or needs is not None:
        if reason is not None:
            asked_by = "reports_model='instrument'" if needs is None else f"The instrument model, which {needs} need,"
            raise InputError(f"{asked_by} cannot be used here: {reason}.")
        return "instrument"
    if reason is not None or model.reports_model == "one_state":
        return "one_state"
    return _without_comparison(model, given.reports, warm) or "compare"


def _needs_instrument(model: HeatmapBCC, given: FitInput) -> str | None:
    """What only the instrument model can use; None where nothing of the kind was given."""
    if model.covariates is not None:
        return "covariates"
    if given.tasks is not None:
        return "tasks"
    if model.ordered and len(given.states) > 2:
        return "ordered states"
    return "scores" if given.reports.score is not None else None


def _why_no_instrument(model: HeatmapBCC, given: FitInput) -> str | None:
    """Why the instrument model cannot be used here; None where it can."""
    reason = instrument.why_not(model, given.states, given.reports.labels)
    if reason is None and given.posed.free not in ((), (tuple(range(given.reports.places.shape[1])),)):
        reason = "it learns one length-scale for all columns, not one for each"
    if reason is None and given.reports.score is not None:
        reason = scored.why_not(model, given.states)
    return reason


def _without_comparison(model: HeatmapBCC, reports: Reports, warm: bool) -> Choice | None:
    """The model that "auto" takes without a comparison, or None where one is due.

    A stream compares again only when it has grown; a few reports, or reports that all say the same, cannot tell.
    Gibbs samples the paper's model.
    """
    if model.inference == "gibbs" or says_one_thing(reports) or len(reports) < comparison.FEWEST_REPORTS:
        return "one_state"
    if warm and len(reports) < comparison.GROWTH * getattr(model, "_compared_reports", 0):
        return "instrument" if model.reports_model_ == "instrument" else "one_state"
    return None


def says_one_thing(reports: Reports) -> bool:
    """Whether all reports have the same label."""
    return bool(reports.label.min() == reports.label.max())
