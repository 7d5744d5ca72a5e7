"""The probability of a source's labels given the appearance of a place: the nominal response model.

log P(l | g) = α a_l g + b_l − log Σ. The label scores a are −½ for the label of the first state, ½ for that of the
second, and 0 for labels that name no state ("maybe" is most probable in between). With two labels that is the
two-parameter logistic σ(α g + b). A source's parameters are its sensitivity, its lean from the first state to the last,
which moves its reading along the scale, and one number for every label in between: θ = (α, β_1, …, β_{L−1}), d = L
numbers, with b = D β (`lean_design`). Turning the scale round turns the sign of the lean and changes nothing else.

Ordered states (grades) have evenly spaced scores: the log odds of a grade against the one below it rise with g, which
is the adjacent-category logit (rating scale) model. Higher grades become more probable as g grows, whatever the leans.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from crowdfield.inference.instrument.grid import APPEARANCES, POWERS, Array

NEWTON_STEPS = 2  # Newton steps per sweep; the next sweep continues from there
LONGEST_STEP = 1.0  # largest change of a parameter in one Newton step: logits and sensitivities are of order one
ROWS = 512  # sources processed at a time: temporaries have the square of the number of labels


class Population(NamedTuple):
    """The population of sources: independent normal distributions of every parameter."""

    mean: Array  # [d]
    variance: Array  # [d]

    @property
    def precision(self) -> Array:
        """The inverse variances: [d]."""
        return 1.0 / self.variance


def state_scores(count: int) -> Array:
    """Evenly spaced scores of ordered states, two states being the least: [J].

    The spacing √(J − 1) divides the room that more grades need between a wider range of appearances and a sharper
    reading of them, so that grades read well stay within the grid (`grid.REACH`) and several appearances of it apart.
    """
    return np.asarray(np.sqrt(count - 1.0) * (np.arange(count) - 0.5 * (count - 1.0)))


def even_thresholds(scores: Array) -> Array:
    """Offsets of ordered states that make each threshold lie a logit above the one before; 0 for two states: [J]."""
    return np.asarray(0.5 * (scores[0] ** 2 - scores**2) / (len(scores) - 1.0))


def label_scores(states: tuple[object, ...], labels: tuple[object, ...]) -> Array:
    """a [L]: the score of the state that a label names; 0, the middle, for labels that name none."""
    scores = state_scores(len(states))
    return np.array([scores[states.index(label)] if label in states else 0.0 for label in labels])


def lean_design(scores: Array) -> Array:
    """D [L, L − 1]: what the parameters β_1, …, β_{L−1} add to the logits of the labels.

    The one of the last state's label is the lean along the scale, ½ for it and −½ for the first label; every other one
    is that of its own label.
    """
    return _lean_design(tuple(scores.tolist()))


@lru_cache
def _lean_design(scores: tuple[float, ...]) -> Array:
    """It is asked for several times in every sweep, and small sweeps take less time than making it."""
    last = int(np.argmax(scores))
    out = np.eye(len(scores))[:, 1:]
    out[:, last - 1] = np.array(scores) / (scores[last] - scores[0])
    out.setflags(write=False)
    return out


def log_responses(theta: Array, scores: Array) -> Array:
    """log P(l | g) on the grid.   theta [S, d] -> [S, L, K]"""
    logits = _logits(theta, scores)
    logits -= logits.max(1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    return logits


def _logits(theta: Array, scores: Array) -> Array:
    """The logits of the labels on the grid.   theta [S, d] -> [S, L, K]"""
    slope = theta[:, :1] * scores  # [S, L]
    offset = theta[:, 1 : len(scores)] @ lean_design(scores).T  # beyond are the parameters of scores (`scoring`)
    return np.asarray(slope[:, :, None] * APPEARANCES + offset[:, :, None])


def logistic(x: Array) -> Array:
    """1 / (1 + e^−x), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def log_prior(theta: Array, population: Population) -> Array:
    """log N(θ_s) for every source: [S]."""
    each = (theta - population.mean) ** 2 / population.variance + np.log(2.0 * np.pi * population.variance)
    return np.asarray(-0.5 * each.sum(1))


def information_of(p: Array, scores: Array, counts: Array) -> Array:
    """Σ_k n_k Cov_p(∂ logits / ∂θ): Fisher information about θ of n_k labels at each appearance, from P(l | g).
    p [S, L, K], counts [S, K] -> [S, d, d]"""
    L = len(scores)
    weighted = counts[:, None, :] * p  # [S, L, K]
    both = -weighted[:, :, None] * p[:, None]  # [S, L, L, K]: the covariance of the labels' indicators, n times
    diagonal = np.arange(L)
    both[:, diagonal, diagonal] += weighted
    sums = (both.reshape(-1, len(APPEARANCES)) @ POWERS).reshape(-1, L, L, 3)
    out = np.empty((len(p), 1 + L, 1 + L))  # in sensitivity and offsets b
    out[:, 1:, 1:] = sums[..., 0]
    out[:, 0, 1:] = out[:, 1:, 0] = sums[..., 1] @ scores
    out[:, 0, 0] = (sums[..., 2] @ scores) @ scores
    design = np.zeros((1 + L, L))
    design[0, 0], design[1:, 1:] = 1.0, lean_design(scores)
    return np.asarray(design.T @ out @ design)


def gradient(theta: Array, scores: Array, weights: Array) -> Array:
    """Gradient of Σ_lk w_lk log P(l | g_k) in θ.   weights [S, L, K] -> [S, d]"""
    return gradient_of(np.exp(log_responses(theta, scores)), scores, weights)


def gradient_of(p: Array, scores: Array, weights: Array) -> Array:
    """Gradient in θ from P(l | g) [S, L, K]."""
    surplus = weights - weights.sum(1, keepdims=True) * p
    sensitivity = (surplus @ APPEARANCES) @ scores
    return np.concatenate([sensitivity[:, None], surplus.sum(2) @ lean_design(scores)], axis=1)


def slope(theta: Array, scores: Array, weights: Array, population: Population) -> Array:
    """Gradient of the expected log likelihood and the log prior in θ: [S, d]."""
    return gradient(theta, scores, weights) - (theta - population.mean) * population.precision


def expected_log(theta: Array, scores: Array, weights: Array) -> Array:
    """Σ_lk w_lk log P(l | g_k): [S]."""
    return np.asarray(np.einsum("slk,slk->s", weights, log_responses(theta, scores)))


def maximise(theta: Array, scores: Array, weights: Array, population: Population) -> tuple[Array, Array]:
    """Newton steps towards every source's mode, given the counts of its labels by appearance; and the covariance of θ
    there if all appearances were known.   weights [S, L, K] -> [S, d], [S, d, d]"""
    new, covariance = np.empty_like(theta), np.empty((len(theta), theta.shape[1], theta.shape[1]))
    for start in range(0, len(theta), ROWS):
        rows = slice(start, start + ROWS)
        new[rows], covariance[rows] = _maximise(theta[rows], scores, weights[rows], population)
    return new, covariance


def shortened(step: Array, longest: float = LONGEST_STEP) -> Array:
    """Newton steps of sources, each scaled down so that no parameter changes by more than `longest`.   [S, d]"""
    return np.asarray(step * np.minimum(1.0, longest / np.maximum(np.abs(step).max(1, keepdims=True), 1e-300)))


def _maximise(theta: Array, scores: Array, weights: Array, population: Population) -> tuple[Array, Array]:
    """Newton's method for the mode of every source, and the covariance there.   [S, d], [S, d, d]"""
    counts, prior = weights.sum(1), np.diag(population.precision)
    p = np.exp(log_responses(theta, scores))
    for _ in range(NEWTON_STEPS):
        slopes = gradient_of(p, scores, weights) - (theta - population.mean) * population.precision
        step = np.linalg.solve(information_of(p, scores, counts) + prior, slopes[:, :, None])[:, :, 0]
        theta = theta + shortened(np.asarray(step, dtype=np.float64))
        p = np.exp(log_responses(theta, scores))
    return theta, np.asarray(np.linalg.inv(information_of(p, scores, counts) + prior), dtype=np.float64)


def implied_confusion(theta: Array, scores: Array, appearances: Array, truth: Array) -> Array:
    """E[P(l | t = j)] over the places of the map.   appearances [K]: how common each is; truth [J, K] P(t = j | g)
    -> [S, J, L]"""
    p = np.exp(log_responses(theta, scores))
    joint = appearances * truth
    return np.asarray(np.einsum("slk,jk->sjl", p, joint / joint.sum(1, keepdims=True)))
