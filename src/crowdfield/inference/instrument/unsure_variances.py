"""Intervals that include the uncertainty of the learned variances.

The variances are learned by empirical Bayes: ψ = log(v, τ², population) maximises the evidence. Six sources cannot
determine the variance of a population, so that sources at ψ̂ look more certain than they are. Each uncertain ψ_i is
displaced in turn and the fit converges again; the slopes of the evidence there give its curvature, and with Σ = Cov(ψ):

    Cov(x) ≈ E_ψ[Cov(x | ψ)] + J Σ Jᵀ,    J = ∂ mode / ∂ψ,    E_ψ[Var(x | ψ)] = Var(x | ψ̂) exp(ρᵀδ + ½ ρᵀ Σ ρ)

with ρ = ∂ log Var / ∂ψ, for x the weights of the field and the sources (the law of total variance, to first order in
the means and in the logarithms of the variances). Variances are skewed: with curvature κ at its mode a log variance is
taken for that of an inverse gamma distribution of shape κ, with mean δ = log κ − digamma(κ) above the mode and variance
trigamma(κ) in place of 1/κ.

The link keeps its covariance at ψ̂. Without checks its slope has the variance of the sources' sensitivities; a variance
that six sources leave open to a factor of six would make the slope 1 ± 1, as if the crowd might well mean the opposite
of what it says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

from crowdfield.inference.instrument import coupled, fitting, iterate
from crowdfield.inference.instrument.coupled import Coupled
from crowdfield.inference.instrument.fitting import Evaluated, Observed, Prior, Progress, State, Variances
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.iterate import log_variances
from crowdfield.inference.instrument.linear import Design
from crowdfield.inference.instrument.methods import OneAppearance
from crowdfield.inference.instrument.responses import Population

STEP = 0.5  # displacement of a log variance: about its posterior standard deviation where reports are few
LEAST_CURVATURE = 0.5  # smallest curvature of the log evidence in a log variance: that of its prior
MOST_WIDENING = 2.0  # largest increase of a log variance: beyond it, the first-order approximation fails
TOL, SWEEPS = 0.005, 8  # of the fits with a displaced variance: far below the effect of the displacement
KNOWN = 150.0  # observations: a variance learned from more is known to 12 %, and treated as known


class Converged(NamedTuple):
    """A converged fit at some ψ."""

    slope: Array  # of the log evidence in the n displaced ψ [n]
    joint: Coupled
    theta: Array  # [S, d]


def find(
    observed: Observed,
    design: Design,
    prior: Prior,
    at: Evaluated,
    joint: Coupled,
    policy: iterate.Policy,
    progress: Progress | None = None,
) -> Unsure | None:
    """The uncertainty of the variances; None where all of them are known well."""
    displaced = np.flatnonzero(fitting.informed(at, design, prior) < KNOWN)
    if not len(displaced) or coupled.too_many(at.state):
        return None
    held = policy._replace(tol=TOL, patience=1, max_iter=SWEEPS)
    here = Converged(_slope(observed, design, prior, at)[displaced], joint, at.state.theta)
    psi, method = log_variances(at.state), OneAppearance(observed, design, prior)
    there = []
    for i in displaced:
        moved = with_log_variances(at.state, psi + STEP * (np.arange(len(psi)) == i))
        settled = iterate.run(method, moved, held, learn=False, progress=progress)
        again = coupled.join(observed, design, settled.at, coupled.expected_appearances(settled.at))
        there.append(Converged(_slope(observed, design, prior, settled.at)[displaced], again, settled.at.state.theta))
    return _unsure(at.state, here, there, _posterior(here, there), displaced)


def with_log_variances(state: State, psi: Array) -> State:
    """The same state with other log variances ψ."""
    smooth, nugget = np.exp(psi[:2]).tolist()
    population = Population(state.variances.population.mean, np.exp(psi[2:]))
    return state._replace(variances=Variances(smooth, nugget, population))


def _slope(observed: Observed, design: Design, prior: Prior, at: Evaluated) -> Array:
    """Gradient of the log evidence in ψ, from the update of the variances and their effective number of
    observations."""
    target = OneAppearance(observed, design, prior).learning_image(at)
    ratio = np.exp(log_variances(target) - log_variances(at.state))
    return np.asarray(0.5 * fitting.informed(at, design, prior) * (ratio - 1.0))


class VariancePosterior(NamedTuple):
    """The posterior of those ψ that were displaced; the others are taken as known."""

    shift: Array  # δ: its mean less its mode [n]
    covariance: Array  # Σ [n, n]


def _posterior(here: Converged, there: list[Converged]) -> VariancePosterior:
    """A Gaussian for the logarithms of the variances, from how the objective's slope changes around the optimum."""
    curvature = -np.stack([(seen.slope - here.slope) / STEP for seen in there])
    value, vector = np.linalg.eigh(0.5 * (curvature + curvature.T))
    covariance = (vector / np.maximum(value, LEAST_CURVATURE)) @ vector.T
    shape = 1.0 / np.diag(covariance)
    skew = np.sqrt(shape * polygamma(1, shape))
    return VariancePosterior(np.log(shape) - digamma(shape), skew[:, None] * covariance * skew)


class Widening(NamedTuple):
    """What the uncertainty of the variances adds to a covariance, by the law of total variance: [...] is empty for the
    weights of the field, and [S] for sources."""

    grown: Array  # [..., a] factors of the standard deviations, from how they change with ψ
    moved: Array  # [..., a, n] J: how far the mode moves with each ψ

    def of(self, spread: Array, unsure: Array) -> Array:
        """The covariance [..., a, a] with that of the variances [n, n] in it."""
        grown, moved = self.grown, self.moved
        return np.asarray(grown[..., :, None] * spread * grown[..., None, :] + moved @ unsure @ moved.swapaxes(-1, -2))


class Unsure(NamedTuple):
    """The uncertainty of the variances, and what it adds to the covariances of the field and of the sources."""

    field: Widening
    sources: Widening
    covariance: Array  # Σ [n, n]
    expected: Variances

    def widened(self, held: Coupled) -> Coupled:
        """The joint covariance, with the variances held before."""
        q = held.q._replace(covariance=self.field.of(held.q.covariance, self.covariance))
        return Coupled(q, self.sources.of(held.sources, self.covariance), held.link, self.expected)

    def for_sources(self, count: int) -> Unsure:
        """The same for more sources, to which it adds nothing yet."""
        grown, moved = self.sources
        new = count - len(grown)
        more = Widening(
            np.concatenate([grown, np.ones((new, *grown.shape[1:]))]),
            np.concatenate([moved, np.zeros((new, *moved.shape[1:]))]),
        )
        return self._replace(sources=more)


def _unsure(
    state: State, here: Converged, there: list[Converged], unsure: VariancePosterior, displaced: NDArray[np.int64]
) -> Unsure:
    """What the uncertainty of the variances adds, from the fits with displaced ones."""
    sources = [
        _widening(here.theta[s], here.joint.sources[s], [t.theta[s] for t in there],
                  [t.joint.sources[s] for t in there], unsure)
        for s in range(len(here.theta))
    ]  # fmt: skip
    q = here.joint.q
    modes, spreads = [t.joint.q.mean for t in there], [t.joint.q.covariance for t in there]
    expected = log_variances(state)
    expected[displaced] += np.minimum(unsure.shift + 0.5 * np.diag(unsure.covariance), MOST_WIDENING)
    return Unsure(
        _widening(q.mean, q.covariance, modes, spreads, unsure),
        Widening(np.stack([s.grown for s in sources]), np.stack([s.moved for s in sources])),
        unsure.covariance,
        with_log_variances(state, expected).variances,
    )


def _widening(
    mode: Array, spread: Array, modes: list[Array], spreads: list[Array], unsure: VariancePosterior
) -> Widening:
    """The terms of the law of total variance for one Gaussian vector."""
    J = np.stack([(other - mode) / STEP for other in modes], axis=1)
    log_own = np.log(np.diag(spread))
    rho = np.stack([(np.log(np.diag(other)) - log_own) / STEP for other in spreads], axis=1)
    growth = rho @ unsure.shift + 0.5 * np.einsum("ai,ij,aj->a", rho, unsure.covariance, rho)
    return Widening(np.exp(0.5 * np.minimum(growth, MOST_WIDENING)), J)
