"""Prediction of future reports under the instrument model of two states or of grades.

A report reads the appearance g, so that p(c | f) = Σ_k P(g_k | f, reports there) P(c | g_k), with the appearance
integrated on the grid as in a fit. The states depend on g as well, so that P(t, c) gives a report's information about
them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.information import PredictedReports
from crowdfield.inference.instrument import places, responses, selection
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.link import Checks
from crowdfield.inference.instrument.model import Fitted
from crowdfield.inference.instrument.observed import Observed
from crowdfield.inference.quadrature import latent_nodes

ROWS = 512  # places processed at a time: each has a grid of appearances at every node of f


class Known(NamedTuple):
    """The likelihood of the appearance at places, from reports and checks there."""

    likelihood: Array  # ℓ(g) [M, K]
    checks: Checks

    @classmethod
    def of(cls, fitted: Fitted, things: list[NDArray[np.int64]]) -> Known:
        """At places with these things, of which there may be none. Where there are several, a report would be about
        any of them.
        """
        flat = np.concatenate([*things, np.empty(0, dtype=np.int64)])
        kept, where = np.unique(flat, return_inverse=True)
        likelihood = np.zeros((len(things), len(APPEARANCES)))
        if not len(kept):
            return cls(likelihood, Checks(kept, np.empty((0, len(fitted.link.scores)))))
        _, part = selection.at_places(fitted.problem.observed, fitted.problem.reported, kept)
        assert isinstance(part, Observed)
        state = fitted.state
        table = responses.log_responses(state.theta, part.scores).reshape(-1, len(APPEARANCES))
        said = part.likelihood(slice(0, len(kept)), table, state.link, state.theta)
        said -= said.max(1, keepdims=True)
        checked = dict(zip(part.checks.site.tolist(), part.checks.said, strict=True))
        rows, found = [], []
        ends = np.cumsum([len(own) for own in things])
        for i, own in enumerate(np.split(where, ends[:-1])):
            if len(own):
                likelihood[i] = np.logaddexp.reduce(said[own], axis=0)
            if len(own) == 1 and int(own[0]) in checked:
                rows.append(i)
                found.append(checked[int(own[0])])
        return cls(likelihood, Checks(np.array(rows, dtype=np.int64), np.reshape(found, (-1, len(fitted.link.scores)))))


class ByAppearance(NamedTuple):
    """Predicted reports at candidates, by a source with P(t = j, label = l | g)."""

    known: Known
    nugget: float
    together: Array  # [J, L, K]

    def predict(self, mean: Array, variance: Array) -> PredictedReports:
        """The predicted reports, given the mean and variance of f at the candidates."""
        starts, said = range(0, len(mean), ROWS), self.known.likelihood
        parts = [self._predict(*(part[start : start + ROWS] for part in (said, mean, variance))) for start in starts]
        labels, slopes, both = (np.concatenate([part[i] for part in parts]) for i in range(3))
        predicted = PredictedReports(labels, slopes, both, parts[0].weights)
        for site, states in zip(*self.known.checks, strict=True):
            # Where a place is checked, its state is not what its appearance alone says.
            weight = np.exp(states - states.max())[:, None]
            own = self.together * (weight / (weight * self.together.sum(1)).sum(0))[:, None, :]
            here = slice(site, site + 1)
            alone = self._replace(together=own)._predict(said[here], mean[here], variance[here])
            for whole, part in zip(predicted[:3], alone[:3], strict=True):
                whole[site] = part[0]
        return predicted

    def _predict(self, likelihood: Array, mean: Array, variance: Array) -> PredictedReports:
        """The predicted reports for a given log likelihood of the appearances [M, K]."""
        f, w = latent_nodes(mean, variance)
        appearance = places.given_field(likelihood, f[..., 0], np.full(len(mean), self.nugget))
        both = np.einsum("nqk,q->nk", appearance, w) @ self.together.reshape(-1, len(APPEARANCES)).T
        labels, slopes = _with_slopes(appearance, self.together.sum(0), self.nugget)
        return PredictedReports(labels, slopes[:, :, None, :], both.reshape(len(mean), *self.together.shape[:2]), w)

    def importance(self, mean: Array) -> Array:
        """The squared slopes of the state probabilities in f: [n, F]; with two states (∂ρ/∂f)²."""
        f = mean[:, :1]
        slopes = np.empty((len(f), len(self.together)))
        for start in range(0, len(f), ROWS):
            part = f[start : start + ROWS]
            nothing = np.zeros((len(part), len(APPEARANCES)))
            appearance = places.given_field(nothing, part, np.full(len(part), self.nugget))
            slopes[start : start + ROWS] = _with_slopes(appearance, self.together.sum(1), self.nugget)[1][:, 0]
        return np.asarray(0.5 * (slopes**2).sum(1, keepdims=True))


def _with_slopes(appearance: Array, of_g: Array, nugget: float) -> tuple[Array, Array]:
    """E[h(g) | f] and its derivative in f, Cov(h, g | f) / τ².   appearance [n, Q, K], h [H, K] -> [n, Q, H] both"""
    value = appearance @ of_g.T
    mean = (appearance @ APPEARANCES)[..., None]
    return value, (appearance @ (of_g * APPEARANCES).T - mean * value) / nugget


def reading(fitted: Fitted, weight: Array) -> Array:
    """P(t = j, l | g) of a report by one of the sources, each as likely as its weight [S] says: [J, L, K].

    They read the appearance; labels are in the model's order.
    """
    scores = fitted.problem.one_appearance.scores
    said = np.zeros((len(scores), len(APPEARANCES)))
    chosen = np.flatnonzero(weight)
    for start in range(0, len(chosen), ROWS):
        rows = chosen[start : start + ROWS]
        said += np.einsum("slk,s->lk", np.exp(responses.log_responses(fitted.state.theta[rows], scores)), weight[rows])
    return np.asarray(fitted.link.truth[:, None, :] * said)


def through_states(fitted: Fitted, pi: Array) -> Array:
    """P(t = j, l | g) of a report that depends on the state itself, by a confusion matrix [J, L]: [J, L, K]."""
    return np.asarray(fitted.link.truth[:, None, :] * pi[:, :, None])
