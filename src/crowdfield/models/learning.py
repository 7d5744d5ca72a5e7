"""How HeatmapBCC learns: a model of reports is chosen, fitted or sampled, and only then stored in the estimator."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Reports
from crowdfield.errors import DataWarning, FallbackWarning, InputError, NumericalError
from crowdfield.inference import lengthscale_selection, sampling, selection
from crowdfield.inference.blur import coordinates
from crowdfield.inference.communities import Communities
from crowdfield.inference.community_sampling import CommunityPrior
from crowdfield.inference.instrument.fitting import Progress
from crowdfield.inference.instrument.fitting import State as InstrumentState
from crowdfield.inference.instrument.iterate import Policy
from crowdfield.inference.instrument.model import AnyFitted, with_learned_lengthscale
from crowdfield.inference.instrument.model import fit as fit_instrument
from crowdfield.inference.instrument.sampling import Sampled
from crowdfield.inference.instrument.sampling import run as sample_instrument
from crowdfield.inference.instrument.selection import Learned
from crowdfield.inference.iterate import Fit
from crowdfield.inference.kernels import Kernel
from crowdfield.inference.posed import Posed
from crowdfield.inference.threads import one_blas_thread, quiet_blas
from crowdfield.models import (
    comparison,
    counted,
    inexact,
    instrument,
    learned,
    problem,
    reports_model,
    sampled_instrument,
)
from crowdfield.models.learned import FitInput
from crowdfield.models.reports_model import ReportsModel, says_one_thing

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC

FAILURES = (NumericalError, np.linalg.LinAlgError)  # failures of a fit after which the other model is tried


def learn(
    model: HeatmapBCC,
    reports: Reports,
    states: tuple[Any, ...],
    gold: problem.Gold,
    *,
    warm: bool = False,
    added: int = 0,
    tasks: NDArray[np.int64] | None = None,
    progress: Progress | None = None,
) -> None:
    """Fit the estimator to these reports. A fit that fails leaves the estimator as it was.

    warm: start from what was learned before, to which the last `added` reports are new. tasks [R]: what every report is
    about, where several things share a place. progress: called after each sweep with its number, the objective and the
    largest change.
    """
    warn_about_one_label(reports)
    reports = inexact.rounded(reports)
    if model.inference in ("vb", "gibbs"):
        inexact.refuse(f"inference={model.inference!r}", reports)
    counted.refuse(model, reports)
    given = FitInput(problem.pose(model, reports, states, gold), reports, states, gold, tasks)
    with quiet_blas(given.posed.data.n_sites):
        _learn(model, given, _From(warm, added, progress))


class _From(NamedTuple):
    """What a fit goes on from, and who is told of its sweeps."""

    warm: bool
    added: int = 0  # reports that are new since
    progress: Progress | None = None


def _learn(model: HeatmapBCC, given: FitInput, start: _From) -> None:
    """Choose a model of reports and fit it; the other one if that fails."""
    reports, warm = given.reports, start.warm
    choice = reports_model.choose(model, given, warm)
    kept = warm and choice.model != "compare" and _few_have_come(model, len(reports))
    if kept:
        given = given._replace(posed=_with_kept_hyperparameters(model, given.posed))
    attempt = _Attempt("one_state" if choice.model == "one_state" else "instrument", choice.why)
    try:
        attempt = _prepared(model, given, choice, warm)
        _fit(model, given, attempt, start if kept else start._replace(added=0))
    except FAILURES as failure:
        if not choice.is_open:
            raise
        attempt = _fall_back(model, given, attempt, failure, start._replace(added=0))
    model.reports_model_reason_ = attempt.why
    model.model_comparison_ = attempt.compared
    if attempt.compared is not None:
        model._compared_reports = len(reports)
    if not kept:
        model._learned_reports = len(reports)


def _few_have_come(model: HeatmapBCC, count: int) -> bool:
    """Whether few reports have come or gone since the hyperparameters were learned."""
    before = getattr(model, "_learned_reports", 0)
    return max(count, before) < comparison.GROWTH_BEFORE_COMPARING_AGAIN * min(count, before)


def _with_kept_hyperparameters(model: HeatmapBCC, posed: Posed) -> Posed:
    """With the length-scale of the last fit, and with its communities to start from, or separate matrices as it had.

    Learning them takes several fits, and a few reports among many do not change them.
    """
    if posed.communities is not None and hasattr(model, "_solved"):
        before: Communities | None = model._solved.fit.state.communities
        posed = replace(posed, communities=None if before is None else before._replace(free=~posed.own))
    if not posed.free:
        return posed
    dimension = coordinates(posed.kernel, posed.data.X).shape[1]
    return replace(posed.with_lengthscales(model._posed.kernel.lengthscales(dimension)), free=())


class _Attempt(NamedTuple):
    """A model that is to be fitted."""

    model: ReportsModel
    why: str
    prepared: _Prepared | None = None  # the instrument model's problem, where that is the one
    compared: comparison.Comparison | None = None
    # Of that comparison: where the one-state model's search for a length-scale starts, and whether sources have nothing
    # in common.
    kernel: Kernel | None = None
    separate: bool = False


def _prepared(model: HeatmapBCC, given: FitInput, choice: reports_model.Choice, warm: bool) -> _Attempt:
    """The model that was chosen, by a comparison where the choice leaves it to one."""
    if choice.model == "one_state":
        return _Attempt("one_state", choice.why)
    setup = _set_up_instrument(model, given)
    if choice.model == "instrument":
        return _Attempt("instrument", choice.why, _prepare_instrument(model, given, setup, warm))
    with one_blas_thread():
        compared, kernel = comparison.compare(model, setup, given)
    why = reports_model.why_compared(compared)
    if compared.better != "instrument":
        return _Attempt("one_state", why, None, compared, kernel, separate=compared.better == "separate")
    return _Attempt("instrument", why, _prepare_instrument(model, given, setup, warm), compared)


def _fit(model: HeatmapBCC, given: FitInput, attempt: _Attempt, start: _From) -> None:
    if attempt.prepared is not None:
        _learn_instrument(model, given, attempt.prepared, start)
    elif model.inference == "gibbs":
        _sample_one_state(model, given)
    else:
        posed = given.posed if attempt.kernel is None else given.posed.with_kernel(attempt.kernel)
        if attempt.separate:
            posed = replace(posed, communities=None)
        _learn_one_state(model, given._replace(posed=posed), start)


def _fall_back(model: HeatmapBCC, given: FitInput, failed: _Attempt, failure: Exception, start: _From) -> _Attempt:
    """Fit the other model of reports, and say so."""
    other: ReportsModel = "one_state" if failed.model == "instrument" else "instrument"
    name, failed_name = reports_model.IN_WORDS[other], reports_model.IN_WORDS[failed.model]
    try:
        prepared = None
        if other == "instrument":
            prepared = _prepare_instrument(model, given, _set_up_instrument(model, given), start.warm)
        _fit(model, given, _Attempt(other, "", prepared), start)
    except FAILURES as again:
        raise NumericalError(
            f"neither model of reports could be fitted. The {failed_name}: {failure}. The {name}: {again}."
        ) from again
    chosen = f", which was chosen because {failed.why}," if failed.why else ""
    why = f"the {failed_name}{chosen} could not be fitted: {str(failure).rstrip('.')}."
    warnings.warn(f"The {name} was used because {why}", FallbackWarning, stacklevel=4)
    return _Attempt(other, why, prepared, failed.compared)


# --- the one-state model --------------------------------------------------------------------------------------------


def _learn_one_state(model: HeatmapBCC, given: FitInput, begin: _From) -> None:
    posed = given.posed
    start = _warm_start(model, posed) if begin.warm else None
    found = lengthscale_selection.learn(posed, start) if posed.free else None
    if found is not None:
        posed, start = found.posed, found.start
    solved = selection.solve(posed, start, max_iter=model.max_iter, tol=model.tol, progress=begin.progress)
    learned.keep_input(model, given._replace(posed=posed))
    learned.keep_fit(model, solved, solved.solver.responsibilities(solved.fit.q))
    if found is not None:
        model.lengthscale_log_sd_, model.lengthscale_tried_ = found.log_sd, found.tried


def _warm_start(model: HeatmapBCC, posed: Posed) -> Fit | None:
    """The earlier fit, extended by new sources."""
    if not hasattr(model, "_solved") or model._posed.data.X.shape[1] < posed.data.X.shape[1]:
        return None  # the features of exact places know no others
    earlier = model._solved.fit
    return model._solved.solver.with_new_sources(earlier, posed.prior.alpha0[len(earlier.q.alpha0) :])


def _sample_one_state(model: HeatmapBCC, given: FitInput) -> None:
    if problem.learns_lengthscale(model.lengthscale):
        raise InputError("Gibbs takes a length-scale; learn it with inference='collapsed' and pass the result.")
    posed = given.posed
    rng = posed.rng()
    basis = sampling.basis_for(model.engine, posed.field_kernel, posed.data.X, rng)
    shared = None
    if posed.communities is not None:
        k = len(posed.communities.beta) if isinstance(posed.communities, Communities) else posed.communities
        shared = CommunityPrior(k, posed.base, posed.prior.alpha0, ~posed.own)
    draws = sampling.run(posed.data, posed.prior, basis, rng, confusion=shared)
    learned.keep_input(model, given)
    learned.keep_samples(model, posed, draws, basis.name, shared)


# --- the instrument model -------------------------------------------------------------------------------------------


class _Prepared(NamedTuple):
    """The instrument model's problem with its length-scale, where to start, and how the length-scale was learned."""

    setup: instrument.InstrumentSetup
    start: InstrumentState | None
    lengthscale: Learned | None


def _set_up_instrument(model: HeatmapBCC, given: FitInput) -> instrument.InstrumentSetup:
    posed = given.posed
    setup = instrument.set_up(model, given.reports, given.states, given.gold, posed.kernel, posed.mean_at, given.tasks)
    if setup.covariates is not None:
        setup.covariates.warn_about_gaps()
    return setup


def _prepare_instrument(model: HeatmapBCC, given: FitInput, setup: instrument.InstrumentSetup, warm: bool) -> _Prepared:
    posed = given.posed
    before, start = getattr(model, "_instrument", None), None
    if warm and before is not None and not isinstance(before, Sampled):
        start = instrument.warm_start(before, model._setup, setup)
    if not posed.free:
        return _Prepared(setup, start, None)
    log_prior = None if posed.lengthscale_prior is None else partial(log_gamma_density, *posed.lengthscale_prior)
    with one_blas_thread():
        found, lengthscale = with_learned_lengthscale(setup.problem, start, posed.lengthscale_bounds, log_prior)
    return _Prepared(setup._replace(problem=found), start, lengthscale)


def _learn_instrument(model: HeatmapBCC, given: FitInput, prepared: _Prepared, start: _From) -> None:
    setup = prepared.setup
    sampled = None
    fitted: AnyFitted | None = None
    with one_blas_thread():
        if model.inference == "gibbs":
            sampled = sample_instrument(setup.problem)
        else:
            # Steps that also update the variances are sweeps as well.
            sweeps = min(Policy().variance_sweeps, model.max_iter)
            policy = Policy(tol=model.tol, max_iter=model.max_iter, variance_sweeps=sweeps)
            if start.added and prepared.start is not None:
                fitted = instrument.updated(model._instrument, model._setup, setup, start.added, policy)
            if fitted is None:
                fitted = fit_instrument(setup.problem, prepared.start, policy, progress=start.progress)
    learned.keep_input(model, given._replace(posed=given.posed.with_kernel(setup.problem.kernel)))
    model._tasks = given.tasks
    if prepared.lengthscale is not None:
        model.lengthscale_log_sd_ = np.array([prepared.lengthscale.log_sd])
        model.lengthscale_tried_ = prepared.lengthscale.tried
    if sampled is not None:
        sampled_instrument.keep(model, setup, sampled, given.states)
    elif fitted is not None:
        learned.keep_instrument(model, setup, fitted, given.states)


def log_gamma_density(shape: float, rate: float, length: float) -> float:
    """The log density of a gamma distribution, up to its constant."""
    return float((shape - 1.0) * np.log(length) - rate * length)


def warn_about_one_label(reports: Reports) -> None:
    """Warn if all reports have the same label: then neither the length-scale nor the other states can be learned."""
    if len(reports) > 1 and says_one_thing(reports):
        warnings.warn(
            f"All reports say {reports.labels[int(reports.label[0])]!r}. Neither the length-scale nor the other states "
            "can be learned from them: they come from the priors.",
            DataWarning,
            stacklevel=4,
        )
