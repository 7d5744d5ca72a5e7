"""Expected information of a future report: mutual information of its label and the field; batches of places.

A report depends on the field only through f at its own place, so its information about the whole map is that about f
there: I(c; f) = H(E[p(c|f)]) − E[H(p(c|f))]. The model gives p(c|f) (`ReportPredictor`). In the one-state model
p(c|f) = Σ_j r_j(f) π_jc, r(f) = softmax(f Cᵀ + ℓ), with ℓ the log likelihood of the reports at that place so far. (The
state t is summed out: at a place whose state is nearly certain a report tells little.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from crowdfield.inference.fields.base import Array
from crowdfield.inference.quadrature import latent_nodes, softmax


class PredictedReports(NamedTuple):
    """The predicted label of a report at each of some places, at nodes of f there."""

    labels: Array  # p(c | f) [n, Q, L]
    slopes: Array  # ∂p(c | f) / ∂f [n, Q, F, L]
    with_states: Array  # P(t = j, c), over all f [n, J, L]
    weights: Array  # of the nodes [Q]


class ReportPredictor(Protocol):
    """Predicts reports at each of the candidates."""

    def predict(self, mean: Array, variance: Array) -> PredictedReports:
        """The predicted reports, given the mean and variance of f at the candidates [n, F]."""
        ...

    def importance(self, mean: Array) -> Array:
        """How strongly state probabilities depend on f, by the field alone: their squared slopes [n, F]."""
        ...


class ByStates(NamedTuple):
    """The one-state model: reports depend on a hidden state through a confusion matrix."""

    said: Array  # ℓ [n, J] log likelihood of the states by the reports at each place
    pi: Array  # [J, L] of who would report
    C: Array  # [J, F]

    def predict(self, mean: Array, variance: Array) -> PredictedReports:
        """The predicted report at places with these moments of f, and its derivative in f."""
        f, w = latent_nodes(mean, variance)
        r = softmax(f @ self.C.T + self.said[:, None, :])
        p, r_f = r @ self.pi, r @ self.C
        # ∂r_k/∂f_j = r_j (δ_jk − r_k), so ∂p_c/∂f_j = r_j (π_jc − p_c); with two states f is that of the second.
        own = self.pi[1:] if self.C.shape[1] == 1 else self.pi
        slopes = r_f[..., None] * (own - p[..., None, :])
        return PredictedReports(p, slopes, np.einsum("nqj,q->nj", r, w)[..., None] * self.pi, w)

    def importance(self, mean: Array) -> Array:
        """The squared slopes of the state probabilities in f, by the field alone: [n, F]."""
        rho = softmax(mean @ self.C.T) @ self.C
        return np.asarray((rho * (1.0 - rho)) ** 2)


def entropy(p: Array) -> Array:
    """Entropy in bits, over the last axis."""
    return np.asarray(-(p * np.log2(np.maximum(p, np.finfo(float).tiny))).sum(-1))


def about_field(predicted: PredictedReports) -> Array:
    """Expected information, in bits, of one report about the field: [n]."""
    return np.asarray(
        entropy(np.einsum("nql,q->nl", predicted.labels, predicted.weights))
        - entropy(predicted.labels) @ predicted.weights
    )


def about_state(predicted: PredictedReports) -> Array:
    """Expected information, in bits, of one report about the state of its own place: [n]."""
    both = predicted.with_states
    return np.asarray(entropy(both.sum(1)) + entropy(both.sum(2)) - entropy(both.reshape(len(both), -1)))


def precision(predicted: PredictedReports) -> Array:
    """E[(∂ log p(c|f) / ∂f)²], the precision that a report is expected to add at its place. [n, F]"""
    each = predicted.slopes**2 / np.maximum(predicted.labels[..., None, :], 1e-300)
    return np.asarray(np.einsum("nqfl,q->nf", each, predicted.weights))


def greedy(
    n: int, mean: Array, covariance: list[Array], reports: ReportPredictor, score: str, cost: Array
) -> tuple[list[int], list[float]]:
    """Pick places one after another, each with the posterior that the reports picked so far would leave.

    A report's label is not known in advance, so the means stay; its expected precision shrinks the variance around it,
    which is what makes a batch spread. `covariance` holds one matrix [n, n] for each latent function.
    """
    covariance = [c.copy() for c in covariance]
    chosen: list[int] = []
    scores: list[float] = []
    open_ = np.ones(len(mean), dtype=bool)
    matters = reports.importance(mean)
    for _ in range(min(n, len(mean))):
        variance = np.maximum(np.stack([np.diag(c) for c in covariance], 1), 0.0)
        predicted = reports.predict(mean, variance)
        value = np.where(open_, SCORES[score](predicted, variance, covariance, matters) / cost, -np.inf)
        best = int(np.argmax(value))
        chosen.append(best)
        scores.append(float(value[best]))
        open_[best] = False
        added = precision(predicted)[best]
        for j, c in enumerate(covariance):
            column = c[:, best].copy()
            c -= np.outer(column, column) * (added[j] / (1.0 + added[j] * column[best]))
    return chosen, scores


def _map_variance(predicted: PredictedReports, variance: Array, covariance: list[Array], matters: Array) -> Array:
    """How much the expected report reduces the variance of f, summed over all candidates and weighted by the squared
    slope of the state probabilities in f."""
    added = precision(predicted)
    gains = [
        added[:, j] / (1.0 + added[:, j] * variance[:, j]) * (matters[:, j] @ c**2) for j, c in enumerate(covariance)
    ]
    return np.asarray(np.sum(gains, axis=0))


Score = Callable[[PredictedReports, Array, list[Array], Array], Array]

SCORES: dict[str, Score] = {
    "information": lambda predicted, variance, covariance, matters: about_field(predicted),
    "state": lambda predicted, variance, covariance, matters: about_state(predicted),
    "map": _map_variance,
    "variance": lambda predicted, variance, covariance, matters: variance.sum(1),
    "entropy": lambda predicted, variance, covariance, matters: entropy(predicted.with_states.sum(2)),
}
