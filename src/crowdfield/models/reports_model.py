"""Which model of reports to fit: the one that the settings require, or the better predictor of left-out reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.models import comparison, instrument, scored
from crowdfield.models.learned import FitInput

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC

ReportsModel = Literal["one_state", "instrument"]
IN_WORDS = {"one_state": "one-state model", "instrument": "instrument model"}


class Choice(NamedTuple):
    """The model to fit, and why."""

    model: Literal["one_state", "instrument", "compare"]  # "compare": left-out reports are to decide
    why: str
    is_open: bool = False  # whether the other model may be used where this one cannot be fitted


def choose(model: HeatmapBCC, given: FitInput, warm: bool) -> Choice:
    """What the settings and the reports ask for. warm: the model has been fitted before."""
    needs, reason = _needs_instrument(model, given), _why_no_instrument(model, given)
    if needs is not None and model.reports_model == "one_state":
        raise InputError(
            f"{needs} are parts of the instrument model; reports_model='one_state' cannot use them. "
            "Leave reports_model at 'auto'" + (", or use prior_mean." if needs == "covariates" else ".")
        )
    if model.reports_model == "instrument" or needs is not None:
        if reason is not None:
            asked_by = "reports_model='instrument'" if needs is None else f"The instrument model, which {needs} need,"
            raise InputError(f"{asked_by} cannot be used here: {reason}.")
        return Choice("instrument", "reports_model asks for it" if needs is None else f"only it can use {needs}")
    if model.reports_model == "one_state":
        return Choice("one_state", "reports_model asks for it")
    if reason is not None:
        return Choice("one_state", f"the instrument model cannot be used here: {reason}")
    return _without_comparison(model, given.reports, given.states, warm) or Choice("compare", "", is_open=True)


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
        reason = scored.why_not(model, given.reports, given.states)
    return reason


def _without_comparison(model: HeatmapBCC, reports: Reports, states: tuple[Any, ...], warm: bool) -> Choice | None:
    """The model that "auto" takes without a comparison, or None where one is due.

    `partial_fit` compares again only when there are many more reports. Few reports, or reports that all have one label,
    cannot decide between the models. Gibbs samples the paper's model.
    """
    why = None
    if model.inference == "gibbs":
        why = "inference='gibbs' samples it unless reports_model asks for the other"
    elif says_one_thing(reports):
        why = "reports that all say the same cannot tell which model suits them"
    elif _naming_a_state(reports, states) < comparison.FEWEST_REPORTS:
        why = f"fewer than {comparison.FEWEST_REPORTS} reports that name a state cannot tell which model suits them"
    if why is not None:
        return Choice("one_state", why, is_open=True)
    if warm and len(reports) < comparison.GROWTH_BEFORE_COMPARING_AGAIN * getattr(model, "_compared_reports", 0):
        kept: ReportsModel = "instrument" if model.reports_model_ == "instrument" else "one_state"
        return Choice(kept, "it was used before, and few reports have come since", is_open=True)
    return None


def why_compared(found: comparison.Comparison) -> str:
    """The result of the comparison, as a clause that follows "because"."""
    bits = {"one_state": found.one_state, "instrument": found.instrument, "separate": found.separate}
    other = found.better_one_state if found.better == "instrument" else "instrument"
    name = IN_WORDS["instrument" if other == "instrument" else "one_state"]
    if np.isneginf(bits[other]):
        return f"the {name} could not be fitted to parts of the reports"
    because = (
        f"it predicts a left-out report at a cost of {-bits[found.better]:.3f} bits on average, "
        f"the {name} at {-bits[other]:.3f} (0 is certainty)"
    )
    if found.better == "separate":
        because += f", and sources have little in common (with a common prior: {-found.one_state:.3f})"
    return because


def _naming_a_state(reports: Reports, states: tuple[Any, ...]) -> int:
    """How many reports have a label that names a state, and not, for example, "maybe"."""
    named = [code for code, label in enumerate(reports.labels) if label in states]
    return int(np.isin(reports.label, named).sum())


def says_one_thing(reports: Reports) -> bool:
    """Whether all reports have the same label."""
    return bool(reports.label.min() == reports.label.max())
