"""What a report would tell: mutual information between a label not yet given and the field, and batches of places.

A report depends on the field only through f at its own place, so what it would tell about the whole map is what it
would tell about f there: I(c; f) = H(E[p(c|f)]) − E[H(p(c|f))], with p(c|f) = Σ_j r_j(f) π_jc, r(f) = softmax(f Cᵀ + ℓ)
and ℓ what reports at that place have said already. (With t summed out: a place whose state is settled tells little.)
"""

from __future__ import annotations

import numpy as np

from crowdfield.inference.fields.base import Array
from crowdfield.inference.quadrature import latent_nodes, softmax


def label_probabilities(mean: Array, variance: Array, said: Array, pi: Array, C: Array) -> tuple[Array, Array, Array]:
    """p(c | f) at the nodes of f [n, Q, L], with r(f) [n, Q, J] and the nodes' weights [Q]."""
    f, w = latent_nodes(mean, variance)
    r = softmax(f @ C.T + said[:, None, :])
    return r @ pi, r, w


def entropy(p: Array) -> Array:
    """In bits, over the last axis."""
    return np.asarray(-(p * np.log2(np.maximum(p, np.finfo(float).tiny))).sum(-1))


def about_field(mean: Array, variance: Array, said: Array, pi: Array, C: Array) -> Array:
    """Bits that one report would tell about the map.   mean, variance [n, F]; said [n, J]; pi [J, L] -> [n]"""
    p, _, w = label_probabilities(mean, variance, said, pi, C)
    return np.asarray(entropy(np.einsum("nql,q->nl", p, w)) - entropy(p) @ w)


def about_state(mean: Array, variance: Array, said: Array, pi: Array, C: Array) -> Array:
    """Bits that one report would tell about the state of its own place: which images to look at again. [n]"""
    p, r, w = label_probabilities(mean, variance, said, pi, C)
    now = np.einsum("nqj,q->nj", r, w)
    return np.asarray(entropy(np.einsum("nql,q->nl", p, w)) - now @ entropy(pi))


def precision(mean: Array, variance: Array, said: Array, pi: Array, C: Array) -> Array:
    """E[(∂ log p(c|f) / ∂f)²], the precision that a report is expected to add at its place. [n, F]"""
    p, r, w = label_probabilities(mean, variance, said, pi, C)
    r_f = r @ C
    # ∂r_k/∂f_j = r_j (δ_jk − r_k), so ∂p_c/∂f_j = r_j (π_jc − p_c); with two states f is that of the second.
    rows = pi[1:] if C.shape[1] == 1 else pi
    slope = r_f[..., None] * (rows - p[..., None, :])
    return np.asarray(np.einsum("nqfl,q->nf", slope**2 / np.maximum(p[..., None, :], 1e-300), w))


def greedy(
    n: int, mean: Array, covariance: list[Array], said: Array, pi: Array, C: Array, score: str, cost: Array
) -> tuple[list[int], list[float]]:
    """Pick places one after another, each with the posterior that the reports picked so far would leave.

    A report's label is not known in advance, so the means stay; its expected precision shrinks the variance around it,
    which is what makes a batch spread. `covariance` holds one matrix [n, n] for each latent function.
    """
    covariance = [c.copy() for c in covariance]
    chosen: list[int] = []
    scores: list[float] = []
    open_ = np.ones(len(mean), dtype=bool)
    for _ in range(min(n, len(mean))):
        variance = np.maximum(np.stack([np.diag(c) for c in covariance], 1), 0.0)
        value = np.where(open_, SCORES[score](mean, variance, said, pi, C, covariance) / cost, -np.inf)
        best = int(np.argmax(value))
        chosen.append(best)
        scores.append(float(value[best]))
        open_[best] = False
        added = precision(mean[best : best + 1], variance[best : best + 1], said[best : best + 1], pi, C)[0]
        for j, c in enumerate(covariance):
            column = c[:, best].copy()
            c -= np.outer(column, column) * (added[j] / (1.0 + added[j] * column[best]))
    return chosen, scores


def _map_variance(mean: Array, variance: Array, said: Array, pi: Array, C: Array, covariance: list[Array]) -> Array:
    """How much the expected report shrinks the variance of f, summed over all candidates and weighted by how much f
    matters there, ρ(1−ρ): the places where an answer could still change."""
    added = precision(mean, variance, said, pi, C)
    rho = softmax(mean @ C.T) @ C
    weight = (rho * (1.0 - rho)) ** 2
    gains = [
        added[:, j] / (1.0 + added[:, j] * variance[:, j]) * (weight[:, j] @ c**2) for j, c in enumerate(covariance)
    ]
    return np.asarray(np.sum(gains, axis=0))


def _entropy_now(mean: Array, variance: Array, said: Array, pi: Array, C: Array, covariance: list[Array]) -> Array:
    _, r, w = label_probabilities(mean, variance, said, pi, C)
    return entropy(np.einsum("nqj,q->nj", r, w))


SCORES = {
    "information": lambda m, v, s, pi, C, cov: about_field(m, v, s, pi, C),
    "state": lambda m, v, s, pi, C, cov: about_state(m, v, s, pi, C),
    "map": _map_variance,
    "variance": lambda m, v, s, pi, C, cov: v.sum(1),
    "entropy": _entropy_now,
}
