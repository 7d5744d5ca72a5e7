"""A fit of unordered states, and its predictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.instrument.coupled import Coupled
from crowdfield.inference.instrument.fitting import State
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.iterate import Settled
from crowdfield.inference.instrument.linear import Design
from crowdfield.inference.instrument.link import Link
from crowdfield.inference.instrument.several import coupled, left_out, scoring, weights
from crowdfield.inference.instrument.several.fitting import design_offset, offset_at
from crowdfield.inference.instrument.several.observed import Observed
from crowdfield.inference.instrument.several.weights import Places
from crowdfield.inference.quadrature import softmax
from crowdfield.inference.softmax_moments import logit_nodes, softmax_moments

if TYPE_CHECKING:
    from crowdfield.inference.instrument.model import Problem
    from crowdfield.inference.instrument.selection import Reported

ROWS = 1 << 12  # places processed at a time
MOST_PLACES = 500  # places over which implied confusion matrices are averaged


@dataclass(frozen=True)
class FittedStates:
    """A fitted instrument model of unordered states."""

    problem: Problem
    design: Design
    settled: Settled
    joint: Coupled
    places: Places  # with the joint covariance
    site_states: Array  # [N, J] P(t = j) of everything reported on
    site_sds: Array  # [N, J] its standard deviation

    @property
    def state(self) -> State:
        """The state in which the iteration converged."""
        state: State = self.settled.at.state
        return state

    @property
    def link(self) -> Link:
        """The link to the truth, with its joint covariance."""
        return self.joint.link

    @property
    def observed(self) -> Observed:
        """The reports of the problem."""
        observed = self.problem.observed
        assert isinstance(observed, Observed)
        return observed

    @cached_property
    def offset(self) -> Array:
        """The prior mean at everything reported on: [N, F]."""
        return design_offset(self.design, self.observed.functions)

    # --- the predictor of a map ---------------------------------------------------------------------------------

    def field_at(self, X: Array) -> tuple[Array, Array]:
        """Mean and covariance of f at places, with the prior variance that the basis leaves out: [M, F], [M, F, F]."""
        F, basis = self.observed.functions, self.design.basis
        mean, covariance = np.empty((len(X), F)), np.empty((len(X), F, F))
        for start in range(0, len(X), ROWS):
            rows = slice(start, start + ROWS)
            mean[rows], covariance[rows] = weights.field_moments(self.features(X[rows]), self.joint.q, F)
            covariance[rows] += (self.state.variances.smooth * basis.residual(X[rows]))[:, None, None] * np.eye(F)
        return mean + offset_at(self.problem.columns, X, F), covariance

    def features(self, X: Array) -> Array:
        """Features and covariates at places: [M, m + C]."""
        return np.hstack([self.design.basis.features(X), self.problem.columns.at(X)])

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of a h_j·f + c_j at places: both [M, J]."""
        mean, covariance = state_logits(self.link, *self.field_at(X))
        return mean, np.einsum("mjj->mj", covariance)

    def rate(self, X: Array) -> tuple[Array, Array]:
        """E[ρ] and its standard deviation, both [M, J]; what is not known of the very place (the field there, and its
        own nugget) and of the link is in the deviation.
        """
        mean, covariance = self.field_at(X)
        covariance += self.state.variances.nugget * np.eye(mean.shape[1])
        return softmax_moments(*state_logits(self.link, mean, covariance))

    def covariance(self, X: Array) -> list[Array]:
        """The covariance of a h_j·f between places, one matrix [M, M] per state; states are taken as uncorrelated."""
        features, F = self.features(X), self.observed.functions
        block = self.joint.q.covariance.reshape(F, features.shape[1], F, features.shape[1])
        a, h = self.link.theta[0], self.link.scores
        return [a**2 * features @ np.einsum("a,ambn,b->mn", row, block, row) @ features.T for row in h]

    def prior_rate_sds(self) -> Array:
        """Standard deviation of ρ far from all reports: the level is as uncertain as all reports leave it, the rest has
        its prior variance. [J]"""
        F, size, at, variances = self.observed.functions, self.design.size, self.design.basis.size, self.state.variances
        level = self.joint.q.mean.reshape(F, size)[:, at]
        covariance = self.joint.q.covariance.reshape(F, size, F, size)[:, at, :, at]
        covariance = covariance + (variances.smooth + variances.nugget) * np.eye(F)
        return np.asarray(softmax_moments(*state_logits(self.link, level[None], covariance[None]))[1][0])

    def prior_rate_sd(self) -> float:
        """Standard deviation of ρ of the second state, far from all reports."""
        return float(self.prior_rate_sds()[1])

    def covariate_weights(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the weights of the covariates in the logits of the states: [J, C], [J, C]."""
        F, size, h = self.observed.functions, self.design.size, self.link.scores
        first = self.design.basis.size + 1
        mean = self.joint.q.mean.reshape(F, size)[:, first:]
        block = np.diagonal(self.joint.q.covariance.reshape(F, size, F, size)[:, first:, :, first:], axis1=1, axis2=3)
        return h @ mean, np.sqrt(np.einsum("ja,abc,jb->jc", h, block, h))

    def sensitivities(self) -> tuple[Array, Array]:
        """The sensitivity of every source (the gain of one that gives only vectors), and its standard deviation."""
        rows, column = np.arange(len(self.state.theta)), np.where(self.scores_only, self.observed.label_parameters, 0)
        return self.state.theta[rows, column], np.sqrt(self.joint.sources[rows, column, column])

    # --- sources ------------------------------------------------------------------------------------------------

    @cached_property
    def confusion(self) -> Array:
        """The confusion matrices that the responses imply on this map: [S, J, L]."""
        return self.implied_confusion(self.state.theta)

    def implied_confusion(self, theta: Array) -> Array:
        """E[P(l | t = j)] over the places of the map: [S, J, L]."""
        few = np.linspace(0, len(self.places.mean) - 1, min(len(self.places.mean), MOST_PLACES)).astype(np.int64)
        nugget = self.design.nuggets(self.state.variances.smooth, self.state.variances.nugget)[few]
        own = nugget[:, None, None] * np.eye(self.observed.functions)
        mean, covariance = self.places.f_mean[few], self.places.f_covariance[few] + own
        value, vector = np.linalg.eigh(covariance)
        root = (vector * np.sqrt(np.maximum(value, 0.0))[:, None, :]) @ vector.transpose(0, 2, 1)
        # Nodes of the states' logits, symmetric in the states; H has orthogonal columns of length² ½.
        h, weight = logit_nodes(
            mean @ self.link.scores.T, self.link.scores @ root @ root @ self.link.scores.T, fine=False
        )
        g = (2.0 * h @ self.link.scores).reshape(-1, mean.shape[1])
        truth = softmax(self.link.theta[0] * (g @ self.link.scores.T) + self.link.theta[1:])
        truth *= np.tile(weight, len(few))[:, None]
        truth /= truth.sum(0)
        scores, first = self.observed.scores, self.observed.label_parameters
        out = np.stack([truth.T @ softmax(one[0] * (g @ scores.T) + one[1:first]) for one in theta])
        for s in np.flatnonzero(self.scores_only):
            out[s] = 0.0
            named = scoring.most_probable(theta[s, first:], g, self.observed.state_scores)
            out[s, :, : named.shape[1]] = truth.T @ named
        return out

    @property
    def scores_only(self) -> NDArray[np.bool_]:
        """The sources that gave probability vectors and no label: [S]."""
        observed = self.observed
        if observed.vectors is None:
            return np.zeros(observed.n_sources, dtype=bool)
        labelled, scored = (
            np.bincount(source, minlength=observed.n_sources) > 0
            for source in (self.problem.reported.source, observed.vectors.source)
        )
        return np.asarray(~labelled & scored)

    def noises(self) -> Array:
        """The standard deviation of the log ratios in every source's vectors; NaN where it gave none: [S]."""
        out = np.full(self.observed.n_sources, np.nan)
        if self.observed.vectors is not None:
            given = np.unique(self.observed.vectors.source)
            out[given] = np.exp(0.5 * self.state.theta[given, -1])
        return out

    def leans(self) -> tuple[Array, Array]:
        """Every source's lean to the state that it favours, against the mean of all, and its standard deviation."""
        J, first = len(self.link.scores), self.observed.label_parameters
        b = self.state.theta[:, 1 : 1 + J]
        contrast = np.zeros(self.state.theta.shape)
        contrast[:, 1 : 1 + J] = np.eye(J)[b.argmax(1)] - 1.0 / J
        for s in np.flatnonzero(self.scores_only):
            favoured = int((self.link.scores @ self.state.theta[s, first + 1 : -1]).argmax())
            contrast[s] = 0.0
            contrast[s, first + 1 : -1] = self.link.scores[favoured]
        sd = np.sqrt(np.einsum("sd,sde,se->s", contrast, self.joint.sources, contrast))
        return (contrast * self.state.theta).sum(1), sd

    def left_out(self) -> Array:
        """log P of every report given all others: [R].

        A report's message is removed from the q that it is a part of; removing it from the joint covariance, which is
        wider, could leave a negative precision.
        """
        return left_out.log_probabilities(self.observed, self.settled.at, *self.problem.reported[:3])

    def log_probabilities(self, new: Reported) -> Array:
        """log P of labels that some sources would give at the places of the problem, in further reports: [R]."""
        return left_out.further(self.observed, self.state, self.places, new[:3])


def state_logits(link: Link, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Moments of a h_j·g + c_j, including the uncertainty of the link.   [M, F], [M, F, F] -> [M, J], [M, J, J]"""
    a, V = link.theta[0], link.covariance
    base = mean @ link.scores.T
    spread = (a**2 + V[0, 0]) * (link.scores @ covariance @ link.scores.T)
    tied = base[:, :, None] * V[0, 1:]
    spread += V[0, 0] * base[:, :, None] * base[:, None, :] + tied + tied.transpose(0, 2, 1) + V[1:, 1:]
    return a * base + link.theta[1:], spread


def finished(problem: Problem, design: Design, settled: Settled) -> FittedStates:
    """Complete a converged fit: the joint covariance, and the state probabilities of everything reported on."""
    observed, at = problem.observed, settled.at
    assert isinstance(observed, Observed)
    joint = coupled.join(observed, design, at)
    offset = design_offset(design, observed.functions)
    state = at.state
    nugget = design.nuggets(state.variances.smooth, state.variances.nugget)
    known = weights.places(design, offset, joint.q, state.eta, state.lam, nugget)
    states, sds = softmax_moments(*state_logits(joint.link, known.mean, known.covariance))
    checks = observed.checks
    if len(checks.site):
        mean, covariance = state_logits(state.link, known.mean[checks.site], known.covariance[checks.site])
        h, weight = logit_nodes(mean, covariance, fine=True)
        soft = np.where(np.isfinite(checks.said), checks.said, -1e300)
        trusted = np.einsum("gqj,q->gj", softmax(h + soft[:, None, :]), weight)
        gold = np.isfinite(checks.said).astype(np.float64)  # gold is certain, whatever rounding says
        states[checks.site] = np.where(checks.certain[:, None], gold, trusted)
    return FittedStates(problem, design, settled, joint, known, states, sds)
