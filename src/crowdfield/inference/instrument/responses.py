"""What a source says, given the appearance of a place: the nominal response model.

log P(l | g) = α a_l g + b_l − log Σ, with b_0 = 0. The label scores a are −½ for the label of the first state, ½ for
that of the second, and 0 for labels that name no state ("maybe" is most probable in between). With two labels that is
the two-parameter logistic σ(α g + b). A source's parameters are θ = (α, b_1, …, b_{L−1}), d = L numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.inference.instrument.grid import APPEARANCES, Array

NEWTON_STEPS = 2  # a sweep; the next sweep goes on from there
LONGEST_STEP = 1.0  # of a parameter in one Newton step: logits and sensitivities are of order one
ROWS = 4096  # sources in hand at a time


class Population(NamedTuple):
    """Where sources come from: independent normal distributions of every parameter."""

    mean: Array  # [d]
    variance: Array  # [d]

    @property
    def precision(self) -> Array:
        return 1.0 / self.variance


def label_scores(states: tuple[object, ...], labels: tuple[object, ...]) -> Array:
    """a [L]: which labels name which state."""
    return np.array([-0.5 if label == states[0] else 0.5 if label == states[1] else 0.0 for label in labels])


def log_responses(theta: Array, scores: Array) -> Array:
    """log P(l | g) on the grid.   theta [S, d] -> [S, L, K]"""
    logits = _logits(theta, scores)
    logits -= logits.max(1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    return logits


def _logits(theta: Array, scores: Array) -> Array:
    slope = theta[:, :1] * scores  # [S, L]
    offset = np.concatenate([np.zeros((len(theta), 1)), theta[:, 1:]], axis=1)
    return np.asarray(slope[:, :, None] * APPEARANCES + offset[:, :, None])


def log_prior(theta: Array, population: Population) -> Array:
    """log N(θ_s) for every source: [S]."""
    each = (theta - population.mean) ** 2 / population.variance + np.log(2.0 * np.pi * population.variance)
    return np.asarray(-0.5 * each.sum(1))


def information(theta: Array, scores: Array, counts: Array) -> Array:
    """Σ_k n_k Cov_p(∂ logits / ∂θ): what n_k answers at each appearance tell about θ.   counts [S, K] -> [S, d, d]"""
    return information_of(np.exp(log_responses(theta, scores)), scores, counts)


def information_of(p: Array, scores: Array, counts: Array) -> Array:
    """The same from P(l | g) [S, L, K]."""
    d = p.shape[1]
    out = np.empty((len(p), d, d))
    weighted = counts[:, None, :] * p  # [S, L, K]
    mean_score = np.einsum("l,slk->sk", scores, p)
    spread = np.einsum("l,slk->sk", scores**2, p) - mean_score**2
    out[:, 0, 0] = (counts * spread) @ APPEARANCES**2
    for i in range(1, d):
        out[:, 0, i] = out[:, i, 0] = (weighted[:, i] * (scores[i] - mean_score)) @ APPEARANCES
        for j in range(1, i + 1):
            both = -(weighted[:, i] * p[:, j]).sum(1)
            out[:, i, j] = out[:, j, i] = both + (weighted[:, i].sum(1) if i == j else 0.0)
    return out


def gradient(theta: Array, scores: Array, weights: Array) -> Array:
    """Of Σ_lk w_lk log P(l | g_k).   weights [S, L, K] -> [S, d]"""
    return gradient_of(np.exp(log_responses(theta, scores)), scores, weights)


def gradient_of(p: Array, scores: Array, weights: Array) -> Array:
    """The same from P(l | g) [S, L, K]."""
    surplus = weights - weights.sum(1, keepdims=True) * p
    sensitivity = (surplus @ APPEARANCES) @ scores
    return np.concatenate([sensitivity[:, None], surplus[:, 1:].sum(2)], axis=1)


def slope(theta: Array, scores: Array, weights: Array, population: Population) -> Array:
    """The same with the log prior: [S, d]."""
    return gradient(theta, scores, weights) - (theta - population.mean) * population.precision


def expected_log(theta: Array, scores: Array, weights: Array) -> Array:
    """Σ_lk w_lk log P(l | g_k): [S]."""
    return np.asarray(np.einsum("slk,slk->s", weights, log_responses(theta, scores)))


def maximise(theta: Array, scores: Array, weights: Array, population: Population) -> tuple[Array, Array]:
    """Newton steps towards every source's mode, given how often it said what at which appearance; and the covariance
    of θ around it if all appearances were known.   weights [S, L, K] -> [S, d], [S, d, d]"""
    new, covariance = np.empty_like(theta), np.empty((len(theta), theta.shape[1], theta.shape[1]))
    for start in range(0, len(theta), ROWS):
        rows = slice(start, start + ROWS)
        new[rows], covariance[rows] = _maximise(theta[rows], scores, weights[rows], population)
    return new, covariance


def _maximise(theta: Array, scores: Array, weights: Array, population: Population) -> tuple[Array, Array]:
    counts, prior = weights.sum(1), np.diag(population.precision)
    for _ in range(NEWTON_STEPS):
        covariance = np.linalg.inv(information(theta, scores, counts) + prior)
        step = np.einsum("sij,sj->si", covariance, slope(theta, scores, weights, population))
        theta = theta + step * np.minimum(1.0, LONGEST_STEP / np.maximum(np.abs(step).max(1, keepdims=True), 1e-300))
    return theta, np.asarray(np.linalg.inv(information(theta, scores, counts) + prior), dtype=np.float64)


def implied_confusion(theta: Array, scores: Array, appearances: Array, truth: Array) -> Array:
    """E[P(l | t = j)] over the places of the map.   appearances [K]: how common each is; truth [K] P(t = 1 | g)
    -> [S, 2, L]"""
    p = np.exp(log_responses(theta, scores))
    joint = np.stack([appearances * (1.0 - truth), appearances * truth])  # [2, K]
    return np.asarray(np.einsum("slk,jk->sjl", p, joint / joint.sum(1, keepdims=True)))
