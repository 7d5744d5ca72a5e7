"""Draws from the Gaussian posterior of unordered states, and the distribution of reports under each of them.

Field and appearances are drawn jointly over places, every source from its own marginal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdfield.inference.instrument.draws import DrawsOfReports, root
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.several import weights
from crowdfield.inference.instrument.several.model import FittedStates
from crowdfield.inference.quadrature import softmax


@dataclass(frozen=True, eq=False)
class StatesDraws(DrawsOfReports):
    """Draws for states without an order."""

    g: Array  # [D, N, F] the appearance of everything reported on
    f: Array  # [D, N, F] the field there
    theta: Array  # [D, S, d] sensitivity and leans of every source, and what belongs to its probability vectors
    link: Array  # [D, 1 + J] slope and shifts
    linear: Array  # [D, F, 1 + C] intercepts and weights of the covariates

    @property
    def size(self) -> int:
        """The number of draws."""
        return len(self.f)

    @property
    def chains(self) -> int:
        """Independent draws count as one chain."""
        return 1

    def log_likelihood(self, draw: int) -> Array:
        """log P of every report's label given this draw of its source and of the appearance of its place: [R]."""
        return np.asarray(np.log(self.predictive(draw)[np.arange(len(self.label)), self.label]))

    def predictive(self, draw: int) -> Array:
        """P(label) of every report given this draw: [R, L]."""
        scores = self.problem.observed.scores
        theta = self.theta[draw][self.source, : 1 + len(scores)]
        return softmax(theta[:, :1] * (self.g[draw][self.site] @ scores.T) + theta[:, 1:])

    def label_probabilities(self, draw: int, rng: np.random.Generator) -> Array:
        """P(label) of every report given this draw, which includes the appearance of its place: [R, L]."""
        return self.predictive(draw)


def draw(fitted: FittedStates, size: int, rng: np.random.Generator) -> StatesDraws:
    """Draws from the Gaussian posterior of a fit."""
    design, q, state, F = fitted.design, fitted.joint.q, fitted.state, fitted.observed.functions
    drawn = (q.mean + rng.standard_normal((size, len(q.mean))) @ root(q.covariance).T).reshape(size, F, design.size)
    f = np.empty((size, fitted.observed.n_sites, F))
    for rows in weights.blocks(f.shape[1]):
        f[:, rows] = (drawn @ design.features(rows).T).transpose(0, 2, 1)
    f += fitted.offset
    given = fitted.places.given_f
    nugget = design.nuggets(state.variances.smooth, state.variances.nugget)
    centre = np.einsum("nab,rnb->rna", given, f / nugget[:, None] + state.eta)
    g = centre + np.einsum("nab,rnb->rna", np.linalg.cholesky(given), rng.standard_normal(f.shape))
    own = np.stack([root(block) for block in fitted.joint.sources])
    theta = state.theta + np.einsum("sij,rsj->rsi", own, rng.standard_normal((size, *state.theta.shape)))
    noise = rng.standard_normal((size, len(fitted.link.theta)))
    link = fitted.link.theta + noise @ root(fitted.link.covariance).T
    return StatesDraws(fitted.problem, g, f, theta, link, drawn[:, :, design.basis.size :])
