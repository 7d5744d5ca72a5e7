"""Draws from the posterior of the instrument model, and the distribution of reports under each of them.

For the Gaussian posterior (`draw`), the field is drawn jointly over places, and every source from its own marginal: the
correlation of sources and field is in the variances (`coupled.py`), not in the draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference import blur
from crowdfield.inference.instrument import responses
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.link import Link
from crowdfield.inference.instrument.model import Fitted, Problem

ROWS = 1 << 12  # places or reports processed at a time


@dataclass(frozen=True, eq=False)
class DrawsOfReports:
    """Posterior draws of an instrument model, with the reports that they refer to."""

    problem: Problem

    @property
    def source(self) -> NDArray[np.int64]:
        """The source of every report: [R]."""
        return self.problem.reported.source

    @property
    def site(self) -> NDArray[np.int64]:
        """The site of every report: [R]."""
        return self.problem.reported.site

    @property
    def label(self) -> NDArray[np.int64]:
        """The label of every report: [R]."""
        return self.problem.reported.label


@dataclass(frozen=True, eq=False)
class InstrumentDraws(DrawsOfReports):
    """Draws for two states, or for ordered ones."""

    f: Array  # [D, N] the field at everything reported on
    theta: Array  # [D, S, d] sensitivity and leans of every source
    link: Array  # [D, J] slope and shifts
    linear: Array  # [D, 1 + C] intercept and weights of the covariates
    nugget: Array  # [D]
    scale: Array  # [D] inverse variance of the smooth part
    chains: int = 1

    @property
    def size(self) -> int:
        """The number of draws."""
        return len(self.f)

    def log_likelihood(self, draw: int) -> Array:
        """log P of every report's label given this draw and the other reports about the same thing: [R]."""
        out = np.empty(len(self.site))
        for rows, joint, own, _ in self._by_report(draw):
            out[rows] = _log_total(joint) - _log_total(joint - own)
        return out

    def predictive(self, draw: int) -> Array:
        """P(label) of every report given this draw and the other reports about the same thing: [R, L]."""
        out = np.empty((len(self.site), len(self.problem.observed.scores)))
        for rows, joint, own, p in self._by_report(draw):
            others = joint - own
            others = np.exp(others - others.max(1, keepdims=True))
            others /= others.sum(1, keepdims=True)
            out[rows] = np.einsum("rk,rlk->rl", others, p[self.source[rows]])
        return out

    def label_probabilities(self, draw: int, rng: np.random.Generator) -> Array:
        """P(label) of every report, given this draw and an appearance of its place that is drawn here: [R, L]."""
        table, likelihood = self._likelihood(draw)
        density = likelihood + self._log_prior(draw)
        density = np.exp(density - density.max(1, keepdims=True)).cumsum(1)
        chosen = (rng.random((len(density), 1)) * density[:, -1:] > density).sum(1)
        L = len(self.problem.observed.scores)
        p = np.exp(table.reshape(-1, L, len(APPEARANCES)))
        return np.asarray(p[self.source[:, None], np.arange(L), chosen[self.site][:, None]])

    def _by_report(self, draw: int) -> Iterator[tuple[slice, Array, Array, Array]]:
        """For blocks of reports: log P(g, all reports of the place), log P(own label | g), both [n, K]; responses."""
        table, likelihood = self._likelihood(draw)
        joint = likelihood + self._log_prior(draw)
        L = len(self.problem.observed.scores)
        p = np.exp(table.reshape(-1, L, len(APPEARANCES)))
        key = self.source * L + self.label
        for start in range(0, len(self.site), ROWS):
            rows = slice(start, start + ROWS)
            yield rows, joint[self.site[rows]], table[key[rows]], p

    def _likelihood(self, draw: int) -> tuple[Array, Array]:
        """ℓ(g) of every place, and log P(label | g) of every source, under one draw."""
        observed = self.problem.one_appearance
        table = responses.log_responses(self.theta[draw], observed.scores).reshape(-1, len(APPEARANCES))
        J = len(observed.state_scores)
        truth = Link(self.link[draw], np.zeros((J, J)), observed.state_scores)
        return table, observed.likelihood(slice(0, observed.n_sites), table, truth, self.theta[draw])

    def _log_prior(self, draw: int) -> Array:
        """log N(g; f, τ²) on the grid, normalised on it: [N, K]."""
        lost = blur.lost_variance(self.problem.kernel, self.problem.X)
        nugget = self.nugget[draw] + (0.0 if lost is None else lost[:, None] / self.scale[draw])
        out = -0.5 * (APPEARANCES - self.f[draw][:, None]) ** 2 / nugget
        return np.asarray(out - _log_total(out)[:, None])


def draw(fitted: Fitted, size: int, rng: np.random.Generator) -> InstrumentDraws:
    """Draws from the Gaussian posterior of a fit."""
    design, q = fitted.design, fitted.joint.q
    weights = q.mean + rng.standard_normal((size, len(q.mean))) @ root(q.covariance).T
    f = np.empty((size, len(design.X)))
    for start in range(0, len(design.X), ROWS):
        rows = slice(start, min(start + ROWS, len(design.X)))
        f[:, rows] = design.offset[rows] + weights @ design.features(rows).T
    theta = fitted.state.theta + np.einsum(
        "sij,rsj->rsi",
        np.stack([root(block) for block in fitted.joint.sources]),
        rng.standard_normal((size, *fitted.state.theta.shape)),
    )
    link = fitted.link.theta + rng.standard_normal((size, len(fitted.link.theta))) @ root(fitted.link.covariance).T
    variances = fitted.state.variances
    scale = np.full(size, 1.0 / variances.smooth)
    return InstrumentDraws(
        fitted.problem, f, theta, link, weights[:, design.basis.size :], np.full(size, variances.nugget), scale
    )


def root(covariance: Array) -> Array:
    """A with A Aᵀ = covariance; eigenvalues that rounding made negative count as zero."""
    value, vector = np.linalg.eigh(covariance)
    return np.asarray(vector * np.sqrt(np.maximum(value, 0.0)))


def _log_total(values: Array) -> Array:
    """log Σ exp over the grid of appearances."""
    top = values.max(1)
    return np.asarray(top + np.log(np.exp(values - top[:, None]).sum(1)))
