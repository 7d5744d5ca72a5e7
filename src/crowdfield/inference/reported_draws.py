"""Joint draws of the states of reported places. Those of q have the mean that the map shows there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdfield.inference.data import Data, contrast
from crowdfield.inference.fields.base import Array
from crowdfield.inference.instrument.model import Fitted
from crowdfield.inference.instrument.several.model import FittedStates
from crowdfield.inference.quadrature import softmax
from crowdfield.inference.rate_draws import InstrumentRates, StateRates
from crowdfield.inference.state_draws import confusion_draws

CERTAIN = 1e-12  # a probability this close to 0 or 1 is kept fixed in all draws
NEWTON_STEPS = 12  # Newton steps towards the known mean; four leave an error of 1e-3, twelve one of rounding
LONGEST_SHIFT = 3.0  # logits, of one such step
MOST_CONFUSIONS = 1 << 25  # entries of drawn confusion matrices; beyond, sources with few reports are held


class ReportDraws(NamedTuple):
    """Reports, place by place, for draws of the one-state model."""

    site: NDArray[Any]  # [R] in ascending order
    source: NDArray[Any]  # [R]
    label: NDArray[Any]  # [R]
    multiplicity: Array  # [R] how many reports each row stands for
    log_pi: Array  # [S, J, L] of the expected confusion matrices
    drawn: NDArray[np.int64]  # [S] the row of every source in `draws`, or −1
    draws: NDArray[np.float32]  # log π [n, S', J, L]

    @classmethod
    def of(cls, data: Data, alpha: Array, pi: Array, size: int, rng: np.random.Generator) -> ReportDraws:
        """π ~ Dirichlet(α) of the sources with the most reports, as many as memory allows; the rest are held."""
        most = MOST_CONFUSIONS // (size * alpha.shape[1] * alpha.shape[2])
        busiest = np.argsort(-np.bincount(data.source, data.multiplicity, len(alpha)), kind="stable")[:most]
        drawn = np.full(len(alpha), -1)
        drawn[busiest] = np.arange(len(busiest))
        log_draws = np.log(np.maximum(confusion_draws(alpha[busiest], size, rng), 1e-300)).astype(np.float32)
        return cls(data.site, data.source, data.label, _looks(data), np.log(pi), drawn, log_draws)

    @classmethod
    def of_joint(cls, data: Data, log_draws: Array, pi: Array) -> ReportDraws:
        """With draws of the confusion matrices of all sources, log π [n, S, J, L]."""
        drawn = np.arange(len(pi))
        return cls(data.site, data.source, data.label, _looks(data), np.log(pi), drawn, log_draws.astype(np.float32))

    def log_likelihood(self, rows: slice) -> Array:
        """log P(reports | state) of a run of places under every draw: [J, m, n]."""
        reports = slice(*np.searchsorted(self.site, [rows.start, rows.stop]))
        site, source, label = self.site[reports] - rows.start, self.source[reports], self.label[reports]
        J, n = self.log_pi.shape[1], len(self.draws)
        out = np.zeros((J, rows.stop - rows.start, n))
        at = self.drawn[source]
        multiplicity = self.multiplicity[reports]
        by_site = sp.csr_matrix((multiplicity, (site, np.arange(len(site)))), shape=(out.shape[1], len(site)))
        for j in range(J):
            each = np.where(at >= 0, self.draws[:, at, j, label], self.log_pi[source, j, label])  # [n, r]
            out[j] = by_site @ each.T
        return out


def _looks(data: Data) -> Array:
    """How often each report counts: [R]."""
    return np.ones(len(data.site)) if data.multiplicity is None else data.multiplicity


class StateLogitsAtReports(NamedTuple):
    """P(state | draw, reports) at places reported on, of the one-state model."""

    rates: StateRates
    said: ReportDraws
    X: Array  # [P, D]
    known: NDArray[Any]  # [P] the state where it is known, else −1

    def logits(self, rows: slice, rng: np.random.Generator) -> Array:
        """Logits of the states of some reported places in every draw: [J, m, n]."""
        f = self.rates.log_odds(self.X[rows], rng)
        prior = np.tensordot(contrast(len(self.said.log_pi[0])), f, axes=1)
        out = np.asarray(prior + self.said.log_likelihood(rows))
        known = self.known[rows]
        for j in range(len(out)):
            out[j, (known >= 0) & (known != j)] = -np.inf
        return out


class AppearanceLogitsAtReports(NamedTuple):
    """P(state | draw, reports) of everything that was reported on, under the instrument model.

    Given f the appearance is about Gaussian: its mean moves by K for every unit of f, and τ²K is left. With one
    function K is 1 − τ²λ, where λ is the precision of the thing's site; with several, K = Cov(g | f) / τ².
    """

    rates: InstrumentRates
    fitted: Fitted | FittedStates

    def logits(self, rows: slice, rng: np.random.Generator) -> Array:
        """Logits of the states of some reported places in every draw: [J, m, n]."""
        f = self.rates.field(self.fitted.design.coordinates[rows])
        mean, follows = self._appearances(rows)
        g = mean.T[:, :, None] + np.einsum("mab,bmn->amn", follows, f - f.mean(axis=2, keepdims=True))
        value, vector = np.linalg.eigh(self.rates.nugget * follows)
        root = vector * np.sqrt(np.maximum(value, 0.0))[:, None, :]
        g += np.einsum("mab,bmn->amn", root, rng.standard_normal(g.shape))
        return self.rates.logits(g)

    def _appearances(self, rows: slice) -> tuple[Array, Array]:
        """The mean of g [m, F] and K [m, F, F]."""
        fitted, nugget = self.fitted, self.rates.nugget
        if isinstance(fitted, FittedStates):
            return fitted.places.mean[rows], fitted.places.given_f[rows] / nugget
        follows = np.clip(1.0 - nugget * fitted.state.lam[rows], 0.0, 1.0)
        return fitted.appearances[rows, :1], follows[:, None, None]


def shifted_to_mean(logits: Array, mean: Array) -> Array:
    """Draws of state probabilities whose mean over the draws is the one that the map has.

    To the logits of every place and state a constant is added, found by Newton's method. The map's own probabilities at
    reported places account for the covariance of sources and field; the draws do not. So the draws say how places vary
    together, and the map says what their mean is.
    logits [J, m, n] of n draws; mean [m, J] -> [J, m, n]
    """
    target = np.clip(mean.T, CERTAIN, 1.0)
    shift = np.zeros_like(target)
    for _ in range(NEWTON_STEPS):
        p = softmax(logits + shift[:, :, None], axis=0)
        now = np.clip(p.mean(axis=2), CERTAIN, 1.0 - CERTAIN)
        slope = (p * (1.0 - p)).mean(axis=2) / (now * (1.0 - now))
        step = (np.log(target) - np.log(now)) / np.maximum(slope, 1e-3)
        shift += np.clip(step, -LONGEST_SHIFT, LONGEST_SHIFT)
    p = softmax(logits + shift[:, :, None], axis=0)
    certain = (mean > 1.0 - CERTAIN).any(axis=1)
    p[:, certain] = mean[certain].T[:, :, None]
    return p
