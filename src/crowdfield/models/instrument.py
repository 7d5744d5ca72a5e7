"""The instrument model behind the estimator: from its settings to a problem, and from a fit to its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from crowdfield.data import Reports
from crowdfield.data.sites import distinct_places
from crowdfield.errors import InputError
from crowdfield.inference.explain import Shares
from crowdfield.inference.instrument import bases, fitting, link, responses, updating
from crowdfield.inference.instrument import model as instrument
from crowdfield.inference.instrument.fitting import Observed, Prior, State
from crowdfield.inference.instrument.influence import influence
from crowdfield.inference.instrument.iterate import Policy, Settled
from crowdfield.inference.instrument.kept import News
from crowdfield.inference.instrument.linear import Columns, Design
from crowdfield.inference.instrument.link import Checks, Link
from crowdfield.inference.instrument.methods import AnyObserved, method_for
from crowdfield.inference.instrument.model import AnyFitted, Fitted, Problem
from crowdfield.inference.instrument.sampling import Sampled
from crowdfield.inference.instrument.selection import Reported
from crowdfield.inference.instrument.several import scores as contrasts
from crowdfield.inference.instrument.several.observed import Observed as SeveralObserved
from crowdfield.inference.instrument.unsure_variances import Unsure, Widening
from crowdfield.inference.threads import one_blas_thread
from crowdfield.models import inexact, scored
from crowdfield.models import sources as sources_
from crowdfield.models.base import Array, confusion_priors, find_sites
from crowdfield.models.covariates import Covariates
from crowdfield.models.problem import scale_rate

if TYPE_CHECKING:
    from crowdfield.inference.posed import LatentMean
    from crowdfield.models.heatmap_bcc import HeatmapBCC
    from crowdfield.models.problem import Gold
    from crowdfield.models.queries import MapQueries

TRUSTED_STRENGTH = (
    20.0  # pseudo-counts per row: a source whose own prior has this many is trusted to see the true state
)
SCALE_RATE = 1.0  # of the prior on the smooth part's precision; the nugget and the intercept vary beside it


class InstrumentSetup(NamedTuple):
    """A problem of the instrument model, and how its places and labels map to those of the reports."""

    problem: Problem
    places: Array  # [P, D] distinct places, [P, D + 1] where some are inexact
    place: NDArray[np.int64]  # [N] the place of every thing reported on
    order: NDArray[np.int64]  # [L] labels in the model's order: the states' own first
    thing: NDArray[np.int64]  # [R] what every report is about
    source: NDArray[np.int64]  # [R] and by whom
    crowd: NDArray[np.bool_]  # [R] labels by sources that are not trusted to see the truth
    covariates: Covariates | None


def why_not(model: HeatmapBCC, states: tuple[Any, ...], labels: tuple[Any, ...]) -> str | None:
    """Why the instrument model cannot be used for these reports; None if it can."""
    missing = [state for state in states if state not in labels]
    if missing:
        return f"nobody can say {missing[0]!r}: it is a state and no label"
    if model.inference not in ("auto", "gibbs"):
        return f"inference={model.inference!r} is a method of the one-state model"
    if model.inference == "gibbs" and len(states) > 2:
        return f"inference='gibbs' samples the instrument model of two states, and there are {len(states)}"
    everybody = model.confusion_prior.get(None) if isinstance(model.confusion_prior, Mapping) else model.confusion_prior
    if everybody is not None and np.asarray(everybody, dtype=np.float64).sum(-1).min() >= TRUSTED_STRENGTH:
        return "confusion_prior says how right everybody is, which only the one-state model can take up"
    if isinstance(model.confusion_prior, Mapping):
        given = {name: matrix for name, matrix in model.confusion_prior.items() if name is not None}
        for name, matrix in given.items():
            if np.asarray(matrix, dtype=np.float64).sum(-1).min() < TRUSTED_STRENGTH:
                return (
                    f"confusion_prior says of {name!r} what only the one-state model can take up: fewer than "
                    f"{TRUSTED_STRENGTH:g} pseudo-counts in a row, so that it is not trusted to see the truth"
                )
    if model.communities is not None:
        return "communities share confusion matrices, which are those of the one-state model"
    return None


def set_up(
    model: HeatmapBCC,
    reports: Reports,
    states: tuple[Any, ...],
    gold: Gold,
    kernel: Any,
    mean_at: LatentMean,
    tasks: NDArray[np.int64] | None,
) -> InstrumentSetup:
    """The problem that the estimator's settings and these reports pose."""
    R = len(reports)
    reported = inexact.sites_of(reports)
    places, at = distinct_places(np.concatenate([reported, inexact.with_site_columns(reported, gold.places)]))
    thing, site = _things(at[:R], at[R:], tasks)
    first = [reports.labels.index(state) for state in states]
    order = np.array(first + [code for code in range(len(reports.labels)) if code not in first])
    label = np.argsort(order)[reports.label]
    trusted, checks = _checks(model, reports, states, site, thing, at[R:], gold.state)
    scores = scored.given(reports, states) & ~trusted[reports.source]
    crowd = ~trusted[reports.source] & ~scores
    count = np.ones(R, dtype=np.int64) if reports.count is None else reports.count
    rows = Reported(site, reports.source, label, count).take(crowd)
    labels = tuple(reports.labels[code] for code in order)
    observed = _observed(model, rows, len(thing), len(reports.sources), states, labels, checks)
    if isinstance(observed, Observed):
        observed = observed._replace(readings=scored.readings(reports, states, site, scores))
    else:
        observed = replace(observed, vectors=scored.vectors(reports, states, site, scores))
    X = np.asarray(places[thing])
    exact = X[:, : reports.places.shape[1]]
    covariates = None if model.covariates is None else Covariates.learn(model.covariates, exact)
    offset = None
    if callable(model.prior_mean) or np.any(model.prior_mean):
        offset = _Offset(mean_at) if observed.functions == 1 else _Offsets(mean_at, observed.state_scores)
    columns = Columns(covariates, 0 if covariates is None else covariates.count, offset)
    prior = Prior(float(model.scale_shape), scale_rate(model, SCALE_RATE))
    problem = Problem(X, rows, observed, columns, prior, kernel, model.engine, model.random_state)
    return InstrumentSetup(problem, np.asarray(places), thing, order, site, reports.source, crowd, covariates)


def _observed(
    model: HeatmapBCC,
    rows: Reported,
    n_sites: int,
    n_sources: int,
    states: tuple[Any, ...],
    labels: tuple[Any, ...],
    checks: Checks,
) -> AnyObserved:
    """The observations: on one scale for two or ordered states, else with a function per state."""
    if len(states) == 2 or model.ordered:
        scores = responses.label_scores(states, labels)
        return Observed.of(*rows, n_sites, n_sources, scores, checks, responses.state_scores(len(states)))
    of_labels, of_states = contrasts.label_scores(states, labels), contrasts.state_scores(len(states))
    return SeveralObserved(*rows, n_sites, n_sources, of_labels, checks, of_states)


class _Offsets:
    """The prior means of the states' functions as those of their contrasts: [M, D] -> [M, J − 1]."""

    def __init__(self, mean_at: LatentMean, state_scores: Array):
        self.mean_at, self.state_scores = mean_at, state_scores

    def __call__(self, X: Array) -> Array:
        # The columns of the scores are orthogonal, of squared length ½.
        return np.asarray(2.0 * self.mean_at(X) @ self.state_scores)


class _Offset:
    """The prior mean of the log odds as a function of places."""

    def __init__(self, mean_at: LatentMean):
        self.mean_at = mean_at

    def __call__(self, X: Array) -> Array:
        return np.asarray(self.mean_at(X)[:, 0], dtype=np.float64)


def _things(
    at: NDArray[np.int64], gold: NDArray[np.int64], tasks: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The things that reports are about: the place of each [N], and the thing of every report [R]."""
    n_places = int(max(at.max(initial=-1), gold.max(initial=-1))) + 1
    if tasks is None:
        return np.arange(n_places), at
    pairs, site = np.unique(np.stack([at, tasks], axis=1), axis=0, return_inverse=True)
    alone = np.setdiff1d(np.arange(n_places), pairs[:, 0])  # places with gold and no reports
    return np.concatenate([pairs[:, 0], alone]), site.ravel()


def _checks(
    model: HeatmapBCC,
    reports: Reports,
    states: tuple[Any, ...],
    site: NDArray[np.int64],
    thing: NDArray[np.int64],
    gold: NDArray[np.int64],
    state: NDArray[np.int64],
) -> tuple[NDArray[np.bool_], Checks]:
    """Which sources are trusted, and the states that they and gold give for places."""
    trusted = np.zeros(len(reports.sources), dtype=bool)
    said = np.zeros((len(thing), len(states)))
    if isinstance(model.confusion_prior, Mapping):
        alpha = confusion_priors(model.confusion_prior, states, reports.labels, reports.sources)
        named = np.array([source in model.confusion_prior for source in reports.sources])
        trusted = named & (alpha.sum(-1).min(-1) >= TRUSTED_STRENGTH)
        pi = alpha / alpha.sum(-1, keepdims=True)
        rows = np.flatnonzero(trusted[reports.source])
        log_pi = np.log(pi[reports.source[rows], :, reports.label[rows]])
        np.add.at(said, site[rows], log_pi if reports.count is None else log_pi * reports.count[rows, None])
    known = np.zeros(len(thing), dtype=bool)
    known[site[trusted[reports.source]]] = True
    if len(gold):
        by_place = np.argsort(thing, kind="stable")
        first = np.searchsorted(thing[by_place], gold, side="left")
        several = np.searchsorted(thing[by_place], gold, side="right") - first > 1
        if several.any():
            raise InputError("gold names a place that holds several tasks: it does not say which of them is meant.")
        said[by_place[first]] = np.where(np.arange(len(states)) == state[:, None], 0.0, -np.inf)
        known[by_place[first]] = True
    chosen = np.flatnonzero(known)
    return trusted, Checks(chosen, said[chosen])


def warm_start(before: AnyFitted, old: InstrumentSetup, new: InstrumentSetup) -> State | None:
    """The state of an earlier fit, rearranged for new reports. Things are matched by place.

    None if sources now have other parameters: the first scores were added, or the last ones removed.
    """
    if before.state.theta.shape[1] != new.problem.observed.parameters:
        return None
    S = new.problem.observed.n_sources
    return instrument.extended(before.state, _positions(old, new), len(new.place), S)


def _positions(old: InstrumentSetup, new: InstrumentSetup) -> NDArray[np.int64]:
    """The new number of everything that the earlier fit had reports on; −1 where it has none."""
    several = len(new.place) != len(new.places)  # at some place
    if several or new.places.shape[1] < old.places.shape[1]:
        return np.full(len(old.place), -1)
    return find_sites(new.places, inexact.with_site_columns(new.places, old.places[old.place]))


def updated(
    before: AnyFitted | Sampled, old: InstrumentSetup, new: InstrumentSetup, added: int, policy: Policy
) -> Fitted | None:
    """The earlier fit with the last `added` reports, at a cost that depends on them; None where all reports should be
    passed over again."""
    if isinstance(before, Sampled) or not 0 < added <= updating.MOST_NEW * len(new.thing):
        return None
    news = News(_positions(old, new), new.thing[-added:], new.source[-added:])
    return updating.update(before, new.problem, news, policy)


def posterior(setup: InstrumentSetup, fitted: AnyFitted | Sampled) -> Array:
    """P(t) at every distinct place, the mean over its things: [P, J]."""
    n, P = np.bincount(setup.place, minlength=len(setup.places)), len(setup.places)
    return np.stack([np.bincount(setup.place, column, minlength=P) / n for column in fitted.site_states.T], axis=1)


def confusion(
    setup: InstrumentSetup, fitted: AnyFitted | Sampled, reports: Reports, model: MapQueries, states: tuple[Any, ...]
) -> Array:
    """E[P(label | state)] of every source: [S, J, L]. Trusted sources have the matrix that the user gave."""
    out = fitted.confusion[:, :, np.argsort(setup.order)]
    trusted, alpha = trusted_sources(model, reports, states)
    out[trusted] = (alpha / alpha.sum(-1, keepdims=True))[trusted]
    return out


def trusted_sources(model: MapQueries, reports: Reports, states: Any) -> tuple[NDArray[np.bool_], Array]:
    """Which sources are trusted to see the true state [S], and the pseudo-counts given for them [S, J, L]."""
    alpha = confusion_priors(model.confusion_prior, tuple(states), reports.labels, reports.sources)
    if not isinstance(model.confusion_prior, Mapping):
        return np.zeros(len(reports.sources), dtype=bool), alpha
    named = np.array([source in model.confusion_prior for source in reports.sources])
    return named & (alpha.sum(-1).min(-1) >= TRUSTED_STRENGTH), alpha


def source_table(model: MapQueries, fitted: AnyFitted, confusion: Array, states: Any, level: float) -> pd.DataFrame:
    """One row per source: sensitivity, lean, accuracy and informativeness, with intervals."""
    z = ndtri(0.5 * (1.0 + level))
    sd = np.sqrt(np.einsum("sdd->sd", fitted.joint.sources))
    leans, lean_sd = fitted.leans()
    gain, gain_sd = fitted.sensitivities()
    sensitivity = Estimates(gain, gain - z * gain_sd, gain + z * gain_sd)
    lean = Estimates(leans, leans - z * lean_sd, leans + z * lean_sd)
    frame = source_frame(model, confusion, states, level, sensitivity, lean, _accuracy_interval(fitted, sd, z))
    if model.reports_.score is not None:
        frame["noise"] = fitted.noises()
    return frame


class Estimates(NamedTuple):
    """Estimates of one parameter of every source, with both ends of its interval: [S] each."""

    value: Array
    low: Array
    high: Array


def source_frame(
    model: MapQueries,
    confusion: Array,
    states: Any,
    level: float,
    sensitivity: Estimates,
    lean: Estimates,
    accuracy_ends: tuple[Array, Array],
) -> pd.DataFrame:
    """The table from its estimates; both ends of accuracy [S]."""
    reports = model.reports_
    said = [reports.labels.index(state) for state in states]
    accuracy = confusion[:, np.arange(len(said)), said].mean(1)
    low, high = np.minimum(accuracy_ends[0], accuracy), np.maximum(accuracy_ends[1], accuracy)
    trusted, alpha = trusted_sources(model, reports, states)
    given = sources_.table(reports, states, alpha, level)  # their reports are used as checks: the matrix stays as given
    low = np.where(trusted, given["accuracy_low"].to_numpy(), low)
    high = np.where(trusted, given["accuracy_high"].to_numpy(), high)
    frame = sources_.from_confusion(reports, confusion, accuracy, low, high)
    for name, estimates in (("sensitivity", sensitivity), ("lean", lean)):
        frame[name], frame[f"{name}_low"], frame[f"{name}_high"] = estimates
    return frame


def _slopes(fitted: AnyFitted) -> tuple[int, ...]:
    """The columns of sensitivities, and of gains where there are scores."""
    if isinstance(fitted, Fitted):
        observed = fitted.problem.one_appearance
        return (0,) if observed.readings is None else (0, len(observed.scores))
    return (0,) if fitted.observed.vectors is None else (0, fitted.observed.label_parameters)


def _accuracy_interval(fitted: AnyFitted, sd: Array, z: float) -> tuple[Array, Array]:
    """Accuracy with the sensitivity at both ends of its interval."""
    ends = []
    for sign in (-1.0, 1.0):
        theta = fitted.state.theta.copy()
        for column in _slopes(fitted):
            theta[:, column] += sign * z * sd[:, column]
        pi = fitted.implied_confusion(theta)
        ends.append(np.einsum("sjj->sj", pi[:, :, : pi.shape[1]]).mean(1))
    return np.minimum(*ends), np.maximum(*ends)


def shares(
    setup: InstrumentSetup,
    fitted: AnyFitted,
    x: Array,
    site: int,
    state: int,
    probability: float,
    count: NDArray[np.int64] | None,
) -> Shares:
    """Every report's share of the log odds of a state at x [1, D], which is a place reported on (its row) or −1. Shares
    of rows that count several times (count [R]) are of all their reports.

    E[f(x)] is a sum over places: each report has its own term of what its place adds, and an even part of the rest. The
    log odds are linear in the field with two states; with more it is their tangent at x that is shared out.
    """
    things = setup.problem.reported.site
    found = influence(fitted, x, state)
    N = len(found.by_place)
    multiplicity = np.ones(len(setup.thing)) if count is None else count.astype(np.float64)
    each = np.maximum(np.bincount(setup.thing, multiplicity, N), 1.0)
    rest = found.by_place - np.bincount(things, found.by_report, minlength=N)
    field = np.zeros(len(setup.thing))
    field[setup.crowd] = found.by_report
    field += multiplicity * (rest / each)[setup.thing]
    own = np.zeros(len(setup.thing))
    prior = found.prior
    total = float(np.log(probability) - np.log1p(-probability))
    if site >= 0:
        here = np.flatnonzero(setup.place[setup.thing] == site)
        # What the place's own reports add to the field's log odds, divided in proportion to each report's gradient.
        extra = total - prior - float(field.sum())
        weight = np.zeros(len(setup.thing))
        weight[setup.crowd] = np.abs(found.pull)
        weight = weight[here] + 1e-12
        own[here] = extra * weight / weight.sum() if len(here) else 0.0
    return Shares(prior, field, own, total - prior - float(field.sum()) - float(own.sum()))


def restore(model: HeatmapBCC, posed: Any, read: Any) -> tuple[InstrumentSetup, AnyFitted]:
    """A fit restored from a saved state."""
    setup = set_up(model, read.reports, read.states, read.gold, posed.kernel, posed.mean_at, read.tasks)
    problem = setup.problem
    with one_blas_thread():
        size = bases.FINAL.shared_by(problem.functions)
        basis = bases.choose(problem.engine, problem.kernel, problem.X, problem.rng(), size)
        design = Design(basis, problem.columns, problem.X)
        at = method_for(problem.observed, design, problem.prior).evaluate(read.state)
        settled = Settled(at, [at.objective], 0, read.learned["converged_"], 0.0)
        policy = Policy(tol=model.tol, max_iter=model.max_iter)
        unsure = read.unsure
        if unsure is not None and len(unsure.field.grown) != design.size:
            unsure = None  # of other features than those that this version chooses
        return setup, instrument.finished(problem, design, settled, policy, unsure)


def state_arrays(model: HeatmapBCC) -> dict[str, Any]:
    """The arrays that a file must hold to restore a fit."""
    state = cast(AnyFitted, model._instrument).state  # draws of Gibbs are not saved
    variances = state.variances
    arrays = {
        "eta": state.eta,
        "lam": state.lam,
        "theta": state.theta,
        "link": state.link.theta,
        "link_covariance": state.link.covariance,
        "link_scores": state.link.scores,
        "variances": np.array([variances.smooth, variances.nugget]),
        "population_mean": variances.population.mean,
        "population_variance": variances.population.variance,
    }
    if model._tasks is not None:
        arrays["tasks"] = model._tasks
    kept = getattr(model._instrument, "kept", None)
    return arrays if kept is None or kept.unsure is None else arrays | _unsure_arrays(kept.unsure)


def _unsure_arrays(unsure: Unsure) -> dict[str, Array]:
    """What the uncertainty of the variances adds to intervals: of many reports it takes several fits to find it."""
    return {
        "unsure_field_grown": unsure.field.grown,
        "unsure_field_moved": unsure.field.moved,
        "unsure_sources_grown": unsure.sources.grown,
        "unsure_sources_moved": unsure.sources.moved,
        "unsure_covariance": unsure.covariance,
        "unsure_variances": np.array([unsure.expected.smooth, unsure.expected.nugget]),
        "unsure_population": unsure.expected.population.variance,
    }


def read_unsure(arrays: Mapping[str, Any]) -> Unsure | None:
    """The same from the arrays of a file; None where it has none."""
    if "unsure_covariance" not in arrays:
        return None
    smooth, nugget = arrays["unsure_variances"].tolist()
    population = responses.Population(arrays["population_mean"], arrays["unsure_population"])
    return Unsure(
        Widening(arrays["unsure_field_grown"], arrays["unsure_field_moved"]),
        Widening(arrays["unsure_sources_grown"], arrays["unsure_sources_moved"]),
        arrays["unsure_covariance"],
        fitting.Variances(smooth, nugget, population),
    )


def read_state(arrays: Mapping[str, Any]) -> State:
    """The state of a fit from the arrays of a file."""
    population = responses.Population(arrays["population_mean"], arrays["population_variance"])
    smooth, nugget = arrays["variances"].tolist()
    truth_link = Link(arrays["link"], arrays["link_covariance"], arrays.get("link_scores", link.SCORES))
    variances = fitting.Variances(smooth, nugget, population)
    return State(arrays["eta"], arrays["lam"], arrays["theta"], truth_link, variances)
