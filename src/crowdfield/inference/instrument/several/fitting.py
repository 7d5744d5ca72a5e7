"""One step for states without an order: q from the sites, the bound, and the state that a full step leads to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.errors import NumericalError
from crowdfield.inference import blur
from crowdfield.inference.instrument import responses
from crowdfield.inference.instrument.fitting import (
    LEAN_VARIANCE,
    PSEUDO_SOURCES,
    SENSITIVITY_VARIANCE,
    Prior,
    State,
    Variances,
    log_hyperprior,
    shares,
)
from crowdfield.inference.instrument.grid import LEAST_NUGGET, Array
from crowdfield.inference.instrument.linear import Columns, Design, Weights
from crowdfield.inference.instrument.link import SHIFT_SD, Checks, Link
from crowdfield.inference.instrument.responses import Population, shortened
from crowdfield.inference.instrument.several import scoring, weights
from crowdfield.inference.instrument.several.observed import Observed
from crowdfield.inference.instrument.several.readings import Readings, read
from crowdfield.inference.instrument.several.weights import Places
from crowdfield.inference.quadrature import logsumexp, softmax

# Leans and shifts of two labels differ by as much as the one lean of two states.
USUAL_LEAN_VARIANCE = 0.5 * LEAN_VARIANCE
SHIFT_VARIANCE = 0.5 * SHIFT_SD**2
REPORTS = 1 << 15  # processed at a time


class Evaluated(NamedTuple):
    """A state, what it implies, and the state that one full step leads to."""

    state: State
    q: Weights
    places: Places
    nugget_energy: float
    nugget_informed: float
    lost_energy: float
    lost_informed: float
    objective: float  # a lower bound of log p(reports, θ, link | variances)
    evidence: float  # the objective with θ integrated by Laplace's approximation, and the hyperpriors
    image: State
    covariance: Array  # [S, d, d] of θ if all appearances were known

    @property
    def mean(self) -> Array:
        """The mean of f at every place: [N, F]."""
        return self.places.f_mean


class Sums(NamedTuple):
    """Sums over the reports (or the checks)."""

    value: float
    gradient: Array  # [N, F]
    precision: Array  # [N, F, F]
    pull: Array  # [S, d]
    information: Array  # [S, d, d]


def start(observed: Observed, prior: Prior) -> State:
    """The state before any step: no sites, average sources, prior variances."""
    n, F, L = observed.n_sites, observed.functions, len(observed.scores)
    mean, variance = np.zeros(1 + L), np.full(1 + L, USUAL_LEAN_VARIANCE)
    mean[0], variance[0] = 1.0, SENSITIVITY_VARIANCE
    population = Population(mean, variance)
    if observed.vectors is not None:
        machines = scoring.population(F)
        population = Population(np.append(mean, machines.mean), np.append(variance, machines.variance))
    first = Variances(prior.smooth_rate / prior.smooth_shape, prior.nugget_rate / prior.nugget_shape, population)
    expected = link_prior(population, len(observed.state_scores))
    truth = Link(expected.mean, np.diag(expected.variance), observed.state_scores)
    theta = np.tile(population.mean, (observed.n_sources, 1))
    if observed.vectors is not None:
        theta[:, -1] = scoring.spread(observed.vectors, observed.n_sources)
    return State(np.zeros((n, F)), np.zeros((n, F, F)), theta, truth, first)


def link_prior(population: Population, states: int) -> Population:
    """Prior of the link's slope and shifts: those of an average source."""
    mean, variance = np.zeros(1 + states), np.full(1 + states, SHIFT_VARIANCE)
    mean[0], variance[0] = 1.0, population.variance[0]
    return Population(mean, variance)


def offset_at(columns: Columns, X: Array, functions: int) -> Array:
    """The known offset of every function at places: [M, F]."""
    return np.zeros((len(X), functions)) if columns.offset is None else columns.offset(X)


def design_offset(design: Design, functions: int) -> Array:
    """The known offset at the places of the reports, averaged over the locations of inexact ones: [N, F]."""
    return blur.averaged(lambda X: offset_at(design.columns, X, functions), design.X, design.basis.dimension)


def evaluate(observed: Observed, design: Design, offset: Array, prior: Prior, state: State) -> Evaluated:
    """One pass over the reports: q, the bound, and the state that a full step leads to."""
    v, rough, population = state.variances
    nugget = design.nuggets(v, rough)
    q = weights.posterior(design, offset, state.eta, state.lam, v, nugget)
    at = weights.places(design, offset, q, state.eta, state.lam, nugget)
    said = pass_over(observed, state, at)
    checked, truth = _checked(observed.checks, state.link, at, population)
    own = weights.nuggets(at, state.eta, state.lam, nugget)
    by_variance = shares(own.energy, own.informed, nugget, state.variances)
    objective = said.value + checked.value - weights.kl(design, q, v, observed.functions) - own.kl
    objective += float(responses.log_prior(state.theta, population).sum())
    if not np.isfinite(objective):
        raise NumericalError("the objective of the instrument model is not finite. Are coordinates far too large?")
    covariance = np.asarray(np.linalg.inv(said.information + np.diag(population.precision)))
    slope = said.pull - (state.theta - population.mean) * population.precision
    theta = state.theta + shortened(np.einsum("sij,sj->si", covariance, slope))
    lam = said.precision + checked.precision
    eta = said.gradient + checked.gradient + np.einsum("nab,nb->na", lam, at.mean)
    image = State(eta, lam, theta, truth, state.variances)
    log_det = np.linalg.slogdet(covariance)[1].sum() + covariance.shape[0] * covariance.shape[1] * np.log(2.0 * np.pi)
    evidence = (
        objective + 0.5 * float(log_det) + log_hyperprior(state.variances, prior, expected_source_variances(observed))
    )
    return Evaluated(state, q, at, *by_variance, objective, evidence, image, covariance)


def expected_source_variances(observed: Observed) -> Array:
    """The variances of a source's parameters before they are learned: [d]."""
    out = np.full(observed.label_parameters, USUAL_LEAN_VARIANCE)
    out[0] = SENSITIVITY_VARIANCE
    return out if observed.vectors is None else np.append(out, scoring.population(observed.functions).variance)


def pass_over(observed: Observed, state: State, at: Places) -> Sums:
    """The sums over all labels and all probability vectors."""
    labels = _pass_over_labels(observed, state, at)
    if observed.vectors is None:
        return labels
    vectors, first = observed.vectors, observed.label_parameters
    (N, F), (S, d) = state.eta.shape, state.theta.shape
    theta = state.theta[vectors.source, first:]
    one = scoring.read(theta, vectors.value, at.mean[vectors.site], at.covariance[vectors.site])
    by_site, by_source = scoring.sums(vectors.site, N), scoring.sums(vectors.source, S)
    pull, information = np.zeros((S, d)), np.zeros((S, d, d))
    pull[:, :first], information[:, :first, :first] = labels.pull, labels.information
    pull[:, first:] = by_source @ one.pull
    information[:, first:, first:] = (by_source @ one.information.reshape(len(theta), -1)).reshape(S, d - first, -1)
    precision = (by_site @ one.precision.reshape(-1, F * F)).reshape(N, F, F)
    return Sums(
        labels.value + float(one.value.sum()),
        labels.gradient + by_site @ one.gradient,
        labels.precision + precision,
        pull,
        information,
    )


def _pass_over_labels(observed: Observed, state: State, at: Places) -> Sums:
    """The sums over all labels, in runs of reports, so that memory stays flat."""
    (N, F), S, d = state.eta.shape, len(state.theta), observed.label_parameters
    value, gradient, precision = 0.0, np.zeros((N, F)), np.zeros((N, F * F))
    pull, information = np.zeros((S, d)), np.zeros((S, d * d))
    for begin in range(0, len(observed.site), REPORTS):
        rows = slice(begin, min(begin + REPORTS, len(observed.site)))
        one = of_reports(observed, state, at, rows)
        value += float(one.value @ observed.multiplicity[rows])
        by_site, by_source = observed.by_site[:, rows], observed.by_source[:, rows]
        gradient += by_site @ one.gradient
        precision += by_site @ one.precision.reshape(-1, F * F)
        pull += by_source @ one.pull
        information += by_source @ one.information.reshape(-1, d * d)
    return Sums(value, gradient, precision.reshape(N, F, F), pull, information.reshape(S, d, d))


def of_reports(observed: Observed, state: State, at: Places, rows: slice) -> Readings:
    """The readings of some reports, given their places and sources."""
    site, source = observed.site[rows], observed.source[rows]
    theta = state.theta[source, : observed.label_parameters]
    return read(theta, observed.scores, observed.said[rows], at.mean[site], at.covariance[site])


def pass_reports(observed: Observed, state: State, at: Places) -> Array:
    """Gradient of every report's expected log likelihood in the mean appearance of its place: [R, F]."""
    runs = range(0, len(observed.site), REPORTS)
    parts = [of_reports(observed, state, at, slice(begin, begin + REPORTS)).gradient for begin in runs]
    return np.concatenate(parts) * observed.multiplicity[:, None] if parts else np.zeros((0, observed.functions))


def responsibilities(checks: Checks, truth: Link, mean: Array) -> tuple[Array, Array]:
    """log Σ_j exp(E[h_j] + ℓ_j), and q(t) of the checked places, from the mean appearance there: [G], [G, J]."""
    joint = truth.theta[0] * (mean @ truth.scores.T) + truth.theta[1:] + checks.said - checks.said.max(1, keepdims=True)
    return logsumexp(joint), softmax(joint)


def _checked(checks: Checks, truth: Link, at: Places, population: Population) -> tuple[Sums, Link]:
    """The sums over checked places, which are reports by the truth itself with q(t) as its label; and the link after a
    Newton step."""
    N, F = at.mean.shape
    mean, covariance = at.mean[checks.site], at.covariance[checks.site]
    total, r = responsibilities(checks, truth, mean)
    theta = np.broadcast_to(truth.theta, (len(r), len(truth.theta)))
    one = read(theta, truth.scores, r, mean, covariance)
    # log Σ_j e^(h_j + ℓ_j) is convex in h: at the mean of h it is below its expectation.
    value = total - (r * (truth.theta[0] * (mean @ truth.scores.T) + truth.theta[1:])).sum(1) + one.value
    gradient, precision = np.zeros((N, F)), np.zeros((N, F, F))
    gradient[checks.site], precision[checks.site] = one.gradient, one.precision
    expected = link_prior(population, len(truth.scores))
    slope = one.pull.sum(0) - (truth.theta - expected.mean) * expected.precision
    known = np.asarray(np.linalg.inv(one.information.sum(0) + np.diag(expected.precision)))
    moved = truth._replace(theta=truth.theta + shortened((known @ slope)[None])[0], covariance=known)
    log_prior = float(responses.log_prior(truth.theta[None], expected)[0])
    nothing = np.zeros((0, 0))
    return Sums(float(value.sum()) + log_prior, gradient, precision, nothing, nothing), moved


def learned_variances(observed: Observed, at: Evaluated, design: Design, prior: Prior) -> Variances:
    """The variances that maximise the evidence at this q (MacKay's updates), symmetric in the states."""
    v, _, population = at.state.variances
    F, m, size = at.mean.shape[1], design.basis.size, design.size
    w = at.q.mean.reshape(F, size)[:, :m]
    trace = float(np.diag(at.q.covariance).reshape(F, size)[:, :m].sum())
    informed = max(F * m - trace / v, 0.0)
    smooth = (float((w**2).sum()) + at.lost_energy + 2.0 * prior.smooth_rate) / (
        informed + at.lost_informed + 2.0 * prior.smooth_shape
    )
    rough = (at.nugget_energy + 2.0 * prior.nugget_rate) / (at.nugget_informed + 2.0 * prior.nugget_shape)
    return Variances(smooth, max(rough, LEAST_NUGGET), _learned_population(observed, at, population))


def _learned_population(observed: Observed, at: Evaluated, population: Population) -> Population:
    """The average source and the variance around it (empirical Bayes)."""
    theta, own = at.image.theta, np.einsum("sdd->sd", at.covariance)
    mean, first = population.mean.copy(), observed.label_parameters
    # The average of the crowd leans to no state; labels that name none have leans of their own.
    leans, others = slice(1, 1 + len(observed.state_scores)), slice(1 + len(observed.state_scores), first)
    mean[others] = theta[:, others].mean(0)
    spread = ((theta - mean) ** 2 + own).sum(0)
    variance = (spread + PSEUDO_SOURCES * expected_source_variances(observed)) / (len(theta) + PSEUDO_SOURCES)
    variance[leans] = variance[leans].mean()
    if observed.vectors is not None:
        variance[first + 1 : -1] = variance[first + 1 : -1].mean()
    return Population(mean, variance)
