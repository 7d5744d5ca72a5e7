"""The iteration of the instrument model: its state, one step, and the objective that the step raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from crowdfield.errors import NumericalError
from crowdfield.inference.instrument import linear, link, places, responses, scoring
from crowdfield.inference.instrument.grid import LEAST_NUGGET, Array
from crowdfield.inference.instrument.linear import Design, Weights
from crowdfield.inference.instrument.link import Link
from crowdfield.inference.instrument.observed import Observed as Observed
from crowdfield.inference.instrument.passes import Sums
from crowdfield.inference.instrument.passes import shares as shares
from crowdfield.inference.instrument.responses import Population

Progress = Callable[[int, float, float], None]


class Prior(NamedTuple):
    """Hyperpriors. Rates and shapes are of gamma distributions of inverse variances."""

    smooth_shape: float
    smooth_rate: float
    # The nugget: things at one place differ by about a logit. As informative as a few places.
    nugget_shape: float = 3.0
    nugget_rate: float = 3.0


class Variances(NamedTuple):
    """The variances, which are learned by empirical Bayes."""

    smooth: float  # v
    nugget: float  # τ²
    population: Population


class State(NamedTuple):
    """The state of the iteration."""

    eta: Array  # [N], or [N, F] with F functions
    lam: Array  # [N], or [N, F, F]
    theta: Array  # [S, d]
    link: Link
    variances: Variances


class Evaluated(NamedTuple):
    """A state, what it implies, and the state that one full step leads to."""

    state: State
    q: Weights
    mean: Array  # [N] of f
    variance: Array  # [N]
    nugget: Array  # [N] variance of what every place has to itself
    nugget_energy: float
    nugget_informed: float
    lost_energy: float  # the same of what inexact places have to themselves, which the smooth part's variance scales
    lost_informed: float
    objective: float  # a lower bound of log p(reports, θ, link | variances)
    evidence: float  # the objective with θ integrated by Laplace's approximation, and the hyperpriors
    image: State
    covariance: Array  # [S, d, d] of θ if all appearances were known
    gradient: Array  # [S·d + J] of the objective in θ and in the link


def start(observed: Observed, prior: Prior, labels: int) -> State:
    """The state before any step: no sites, average sources, prior variances."""
    n = observed.n_sites
    mean, variance = np.zeros(labels), np.full(labels, LEAN_VARIANCE)
    mean[0], variance[0] = 1.0, SENSITIVITY_VARIANCE
    J = len(observed.state_scores)
    # Grades in between start with even thresholds, each a logit above the one before; the crowd moves them.
    mean[1 : J - 1] = responses.even_thresholds(observed.state_scores)[1 : J - 1]
    population = Population(mean, variance)
    if observed.readings is not None:
        population = Population(np.append(mean, scoring.MEAN), np.append(variance, scoring.VARIANCE))
    theta = np.tile(population.mean, (observed.n_sources, 1))
    first = Variances(prior.smooth_rate / prior.smooth_shape, prior.nugget_rate / prior.nugget_shape, population)
    return State(np.zeros(n), np.zeros(n), theta, link.start(population, observed.state_scores), first)


SENSITIVITY_VARIANCE = 0.25  # prior variance of sensitivities around 1: most lie between 0 (guessing) and 2
LEAN_VARIANCE = 1.0  # before it is learned
PSEUDO_SOURCES = 2.0  # pseudo-sources with these variances: three sources alone cannot determine a variance


def evaluate(observed: Observed, design: Design, prior: Prior, state: State) -> Evaluated:
    """q(f), the objective, and the state that one full step leads to, from one pass over the reports."""
    v, rough, population = state.variances
    q = linear.posterior(design, state.eta, state.lam, v)
    mean, variance = design.moments(q)
    nugget = design.nuggets(v, rough)
    sums = observed.pass_over(state, mean, variance, nugget)
    objective = sums.expected - linear.kl(design, q, v) + link.log_prior(state.link, population)
    objective += float(responses.log_prior(state.theta, population).sum())
    if not np.isfinite(objective):
        raise NumericalError("the objective of the instrument model is not finite. Are coordinates far too large?")
    theta, covariance, slope = _sources(observed, state, sums)
    image = State(sums.eta, sums.lam, theta, link.update(state.link, sums.checked, population), state.variances)
    log_det = np.linalg.slogdet(covariance)[1].sum() + covariance.shape[0] * covariance.shape[1] * np.log(2.0 * np.pi)
    evidence = (
        objective
        + 0.5 * float(log_det)
        + log_hyperprior(state.variances, prior, _expected_source_variances(population, observed.scores))
    )
    gradient = np.concatenate([slope.ravel(), link.slope(state.link, sums.checked, population)])
    return Evaluated(
        state,
        q,
        mean,
        variance,
        nugget,
        sums.nugget_energy,
        sums.nugget_informed,
        sums.lost_energy,
        sums.lost_informed,
        objective,
        evidence,
        image,
        covariance,
        gradient,
    )


def _sources(observed: Observed, state: State, sums: Sums) -> tuple[Array, Array, Array]:
    """The updated parameters of every source [S, d], their covariance [S, d, d], and the gradient [S, d]."""
    given = state.theta, observed.scores, sums.answers, sums.scored, state.variances.population
    return *maximised(*given), slope(*given)


def maximised(theta: Array, scores: Array, answers: Array, scored: Array, crowd: Population) -> tuple[Array, Array]:
    """The mode of some sources' parameters [S, d] given what they said (`passes.Sums`), and their covariance [S, d, d]
    if all appearances were known."""
    L = len(scores)
    people, machines = _halves(crowd, L)
    labels, covariance = responses.maximise(theta[:, :L], scores, answers, people)
    if theta.shape[1] == L:
        return labels, covariance
    found, own = scoring.maximise(theta[:, L:], scored, machines)
    return np.hstack([labels, found]), scoring.joined(covariance, own)


def slope(theta: Array, scores: Array, answers: Array, scored: Array, crowd: Population) -> Array:
    """The gradient of the objective in the same parameters: [S, d]."""
    L = len(scores)
    people, machines = _halves(crowd, L)
    of_labels = responses.slope(theta[:, :L], scores, answers, people)
    return of_labels if theta.shape[1] == L else np.hstack([of_labels, scoring.slope(theta[:, L:], scored, machines)])


def _halves(crowd: Population, labels: int) -> tuple[Population, Population]:
    """The population's prior of the parameters of labels, and of those of scores."""
    mean, variance = crowd
    return Population(mean[:labels], variance[:labels]), Population(mean[labels:], variance[labels:])


def log_hyperprior(variances: Variances, prior: Prior, expected: Array) -> float:
    """Log prior density of the log inverse variances; expected [d]: the variances expected of sources."""
    smooth, nugget = -np.log(variances.smooth), -np.log(variances.nugget)
    total = prior.smooth_shape * smooth - prior.smooth_rate * np.exp(smooth)
    total += prior.nugget_shape * nugget - prior.nugget_rate * np.exp(nugget)
    spread = np.log(variances.population.variance) + expected / variances.population.variance
    return float(total - 0.5 * PSEUDO_SOURCES * spread.sum())


def _expected_source_variances(population: Population, scores: Array) -> Array:
    """The prior variances of a source's parameters: [d]."""
    variances = np.full(len(population.mean), LEAN_VARIANCE)
    variances[0] = SENSITIVITY_VARIANCE
    if len(variances) > len(scores):
        variances[len(scores) :] = scoring.VARIANCE
    return variances


def learned_variances(at: Evaluated, design: Design, prior: Prior, scores: Array, sources: Array) -> Variances:
    """The variances that maximise the evidence at this q (MacKay's updates, by the effective number of parameters).
    sources [S, d, d]: how unsure the sources are.
    """
    w, by = at.q.mean[: design.basis.size], informed(at, design, prior)
    smooth = (float(w @ w) + at.lost_energy + 2.0 * prior.smooth_rate) / float(by[0])
    rough = (at.nugget_energy + 2.0 * prior.nugget_rate) / float(by[1])
    population = _learned_population(at, at.state.variances.population, scores, sources)
    return Variances(smooth, max(rough, LEAST_NUGGET), population)


def informed(at: Evaluated, design: Design, prior: Prior) -> Array:
    """Effective number of observations of each variance, its prior's included: smooth, nugget, population [2 + d]."""
    m = design.basis.size
    weights = max(m - float(np.trace(at.q.covariance[:m, :m])) / at.state.variances.smooth, 0.0)
    places_ = at.nugget_informed + 2.0 * prior.nugget_shape
    sources, d = at.state.theta.shape
    weights += at.lost_informed
    return np.array([weights + 2.0 * prior.smooth_shape, places_, *[sources + PSEUDO_SOURCES] * d])


def _learned_population(at: Evaluated, population: Population, scores: Array, sources: Array) -> Population:
    """The average source and the spread around it that the sources' posterior implies (empirical Bayes)."""
    theta, own = at.image.theta, np.einsum("sdd->sd", sources)
    mean = population.mean.copy()
    # The average of the crowd is what fixes level and scale of the appearance: its sensitivity is 1, its lean from the
    # first state to the last is 0. Grades in between and labels that name no state have leans of their own.
    free = [d for d in range(1, len(scores)) if d != int(np.argmax(scores))]
    mean[free] = theta[:, free].mean(0)
    spread = ((theta - mean) ** 2 + own).sum(0)
    return Population(
        mean, (spread + PSEUDO_SOURCES * _expected_source_variances(population, scores)) / (len(theta) + PSEUDO_SOURCES)
    )


def between(a: State, b: State, share: float) -> State:
    """Interpolate between two states: linearly for sites and parameters, in logs for variances."""

    def mix(x: Any, y: Any) -> Any:
        return x + share * (y - x)

    def mix_logs(x: Any, y: Any) -> Any:
        return np.exp(mix(np.log(x), np.log(y)))

    one, other = a.variances, b.variances
    population = Population(
        mix(one.population.mean, other.population.mean), mix_logs(one.population.variance, other.population.variance)
    )
    variances = Variances(
        float(mix_logs(one.smooth, other.smooth)), float(mix_logs(one.nugget, other.nugget)), population
    )
    moved_link = a.link._replace(
        theta=mix(a.link.theta, b.link.theta), covariance=mix(a.link.covariance, b.link.covariance)
    )
    return State(mix(a.eta, b.eta), mix(a.lam, b.lam), mix(a.theta, b.theta), moved_link, variances)


def pack(state: State) -> Array:
    """A state as one unconstrained vector (`unpack` is the inverse)."""
    v = state.variances
    return np.concatenate(
        [
            state.eta.ravel(),
            state.lam.ravel(),
            state.theta.ravel(),
            state.link.theta,
            np.log([v.smooth, v.nugget]),
            v.population.mean,
            np.log(v.population.variance),
        ]
    )


def globals_of(state: State) -> int:
    """The number of entries of the vector that belong to no single place or source."""
    return len(state.link.theta) + 2 + 2 * len(state.variances.population.mean)


def unpack(like: State, z: Array) -> State:
    """The state that a vector of this layout describes. Precisions and variances stay in range."""
    d = like.theta.shape[1]
    ends = np.cumsum([like.eta.size, like.lam.size, like.theta.size, like.link.theta.size, 2, d])
    eta, lam, theta, truth, logs, means, log_variances = np.split(z, ends)
    population = Population(means.copy(), np.exp(log_variances))
    smooth, nugget = np.exp(logs).tolist()
    variances = Variances(smooth, max(nugget, LEAST_NUGGET), population)
    moved_link = like.link._replace(theta=truth.copy())
    sites = eta.reshape(like.eta.shape).copy(), _positive(lam.reshape(like.lam.shape))
    return State(*sites, theta.reshape(like.theta.shape).copy(), moved_link, variances)


def _positive(lam: Array) -> Array:
    """Precisions of sites, [N] or matrices [N, F, F], with nothing below zero."""
    if lam.ndim == 1:
        return np.maximum(lam, places.LEAST_PRECISION)
    value, vector = np.linalg.eigh(0.5 * (lam + lam.transpose(0, 2, 1)))
    return np.asarray((vector * np.maximum(value, 0.0)[:, None, :]) @ vector.transpose(0, 2, 1))
