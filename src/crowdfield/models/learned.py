"""Store a fit in the estimator: the attributes that end in an underscore, and what queries need."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Reports
from crowdfield.errors import ConvergenceWarning
from crowdfield.inference import communities, confusion, sampling, selection
from crowdfield.inference.community_sampling import CommunityPrior, summarise
from crowdfield.inference.data import contrast
from crowdfield.inference.instrument.model import AnyFitted
from crowdfield.inference.posed import Posed
from crowdfield.inference.predict import FieldPredictor
from crowdfield.models import instrument
from crowdfield.models.base import Array, as_classes
from crowdfield.models.problem import Gold

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC

CONVERGED_RHAT = 1.05  # Gibbs chains with a worst R̂ below this have converged


class FitInput(NamedTuple):
    """The input of a fit: the reports, and the inference problem made from them and the estimator's settings."""

    posed: Posed
    reports: Reports
    states: tuple[Any, ...]
    gold: Gold
    tasks: NDArray[np.int64] | None = None  # [R] what every report is about, where several things share a place


def keep_input(model: HeatmapBCC, given: FitInput) -> None:
    """Store names, reports and places, for either model of reports."""
    reports = given.reports
    model.classes_ = as_classes(given.states)
    model.labels_seen_, model.sources_seen_ = as_classes(reports.labels), as_classes(reports.sources)
    model.reports_, model._gold_, model._posed = reports, given.gold, given.posed
    _keep_sites(model, given.posed.data.X)
    model.inference_ = "collapsed" if model.inference == "auto" else model.inference
    model.reports_model_ = "one_state"


def _keep_sites(model: HeatmapBCC, sites: Array) -> None:
    """Places, and how inexact each is where some are."""
    D = model.n_features_in_
    model.places_, model._site_reach = sites[:, :D], None if sites.shape[1] == D else sites[:, D:]


def keep_fit(model: HeatmapBCC, solved: selection.Solved, targets: Array) -> None:
    """A solution of the one-state model, and how the fit went. targets [N, J]: q(t) at the places."""
    fit = solved.fit
    if not fit.converged:
        _warn_not_converged(fit.n_iter, fit.change)
    keep_solution(model, solved, targets)
    model.bound_terms_, model.bound_history_ = fit.bound._asdict(), np.array(fit.history)
    model.bound_, model.n_iter_, model.converged_ = fit.bound.total, fit.n_iter, fit.converged


def keep_solution(model: HeatmapBCC, solved: selection.Solved, targets: Array) -> None:
    """A solution of the one-state model, whether it was found just now or read from a file."""
    q = solved.fit.q
    model._solved = solved
    model._predictor = FieldPredictor(
        q.fields, model._posed.mean_at, contrast(len(model.classes_)), model.n_features_in_
    )
    model.posterior_, model.alpha_ = targets, q.alpha
    model.confusion_ = confusion.expected_pi(q.alpha)
    model.scale_ = np.array([q.scale.mean])
    model.lengthscale_ = model._posed.kernel.lengthscales(model.places_.shape[1]).copy()
    model.engine_ = solved.solver.sites.engine.name
    model.communities_ = solved.fit.state.communities
    if model.communities_ is not None:
        model._membership = communities.memberships(model.communities_, solved.solver.counts(solved.fit))


def keep_samples(
    model: HeatmapBCC, posed: Posed, draws: sampling.SampledPosterior, engine: str, shared: CommunityPrior | None
) -> None:
    """Draws of the one-state model's posterior, by Gibbs sampling."""
    model._predictor = sampling.SamplePredictor(draws, posed.mean_at)
    model.posterior_, model.alpha_, model.confusion_ = draws.target, draws.alpha, draws.confusion_mean
    model.scale_, model.engine_ = np.array([draws.scale.mean()]), engine
    model.lengthscale_ = posed.kernel.lengthscales(model.places_.shape[1]).copy()
    model.diagnostics_ = draws.diagnostics
    model.n_iter_, model.converged_ = len(draws.weights), draws.diagnostics.worst_rhat < CONVERGED_RHAT
    model.communities_ = None
    if shared is not None:
        model.communities_, model._membership = summarise(shared, draws.confusion_states)


def keep_instrument(
    model: HeatmapBCC, setup: instrument.InstrumentSetup, fitted: AnyFitted, states: tuple[Any, ...]
) -> None:
    """A fit of the instrument model, whether it was found just now or read from a file."""
    model._setup, model._instrument, model._predictor = setup, fitted, fitted
    model.reports_model_, model.inference_ = "instrument", "variational"
    _keep_sites(model, setup.places)
    model.posterior_ = instrument.posterior(setup, fitted)
    model.confusion_ = instrument.confusion(setup, fitted, model.reports_, model, states)
    # Pseudo-counts of the implied matrices: as sure as the source's reports would make a Dirichlet.
    strength = 2.0 + model._reports_by_source()[:, None, None] / 2.0
    model.alpha_ = model.confusion_ * strength
    settled, variances = fitted.settled, fitted.state.variances
    if not settled.converged and settled.n_iter:  # not when a file is read
        _warn_not_converged(settled.n_iter, settled.change)
    model.scale_ = np.array([1.0 / variances.smooth])
    model.lengthscale_ = setup.problem.kernel.lengthscales(model.places_.shape[1]).copy()
    model.engine_, model.communities_ = fitted.design.basis.name, None
    model.bound_, model.bound_history_ = settled.at.objective, np.array(settled.history)
    model.bound_terms_ = {"objective": settled.at.objective}
    model.n_iter_, model.converged_ = settled.n_iter, settled.converged


def _warn_not_converged(n_iter: int, change: float) -> None:
    """Warn that a fit ended before it converged. change: the largest change in the last sweep."""
    warnings.warn(
        f"HeatmapBCC had not converged after {n_iter} sweeps (the last changed something by {change:.1e}). "
        "Raise max_iter, or tol if that is exact enough.",
        ConvergenceWarning,
        stacklevel=6,  # point at the line that called `fit`, past keep_..., the fitting function, `learn` and `fit`
    )
