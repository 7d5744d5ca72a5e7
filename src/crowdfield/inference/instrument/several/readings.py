"""What one report says about the appearance of its place and about its source, when both are uncertain.

With logits z = α A g + b and g ~ N(m, V) the expected log likelihood of a label is E[z_label] − E[log Σ exp z]. The
last term has no closed form; the tilted bound (Knowles and Minka 2011, with full covariance C = α² A V Aᵀ) is

    E[log Σ_l exp z_l] ≤ pᵀμ + log Σ_l exp(μ_l − pᵀμ + ½ w_l),   w_l = (e_l − p)ᵀ C (e_l − p)

for any p. It is convex in p, and least where p_l ∝ exp(μ_l + ½ C_ll − (C p)_l). There its gradient in μ is p, and that
in C is ½ (diag p − p pᵀ): what a Gaussian site needs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.quadrature import logsumexp, softmax

TILT_STEPS = 4  # of Newton's method towards the least bound; any p gives a bound


class Readings(NamedTuple):
    """The lower bound and its derivatives, report by report."""

    value: Array  # [R] lower bound of the expected log likelihood
    gradient: Array  # [R, F] in the mean appearance
    precision: Array  # [R, F, F] minus twice the gradient in the covariance of the appearance
    pull: Array  # [R, d] gradient in the source's parameters
    information: Array  # [R, d, d] minus the Hessian in them


def logits(theta: Array, scores: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Mean and covariance of z.   theta [R, 1 + L], mean [R, F], covariance [R, F, F] -> [R, L], [R, L, L]"""
    return theta[:, :1] * (mean @ scores.T) + theta[:, 1:], theta[:, :1, None] ** 2 * (scores @ covariance @ scores.T)


def tilted(mean: Array, covariance: Array) -> Array:
    """The p [R, L] that makes the bound tightest, by Newton's method."""
    half = 0.5 * np.einsum("rll->rl", covariance)
    p, identity = softmax(mean), np.eye(mean.shape[1])
    for _ in range(TILT_STEPS):
        there = softmax(mean + half - np.einsum("rlk,rk->rl", covariance, p))
        spread = there[:, :, None] * identity - there[:, :, None] * there[:, None, :]
        p = p - np.linalg.solve(identity + spread @ covariance, (p - there)[:, :, None])[:, :, 0]
    return p


def squared_distances(covariance: Array, p: Array) -> Array:
    """w_l = (e_l − p)ᵀ C (e_l − p), the squared distances of the bound.   C [R, L, L], p [R, L] -> [R, L]"""
    reached = np.einsum("rlk,rk->rl", covariance, p)
    return np.asarray(np.einsum("rll->rl", covariance) - 2.0 * reached + (p * reached).sum(1)[:, None])


def log_normaliser(mean: Array, covariance: Array, p: Array) -> tuple[Array, Array]:
    """The bound of E[log Σ exp z] at p [R], and the label probabilities [R, L] that it leads to."""
    centre = (p * mean).sum(1)
    exponent = mean - centre[:, None] + 0.5 * squared_distances(covariance, p)
    total = logsumexp(exponent)
    return centre + total, np.exp(exponent - total[:, None])


def read(theta: Array, scores: Array, said: Array, mean: Array, covariance: Array) -> Readings:
    """The bound of every report's expected log likelihood, and its derivatives.

    said [R, L]: the label as indicators, or the probability of every label.
    """
    mu, C = logits(theta, scores, mean, covariance)
    p = tilted(mu, C)
    bound, q = log_normaliser(mu, C, p)
    alpha, surplus = theta[:, 0], said - q
    spread = q[:, :, None] * np.eye(len(scores)) - q[:, :, None] * q[:, None, :]
    slopes = mean @ scores.T  # ∂μ / ∂α
    unit = squared_distances(scores @ covariance @ scores.T, p)  # w / α²
    J = np.zeros((len(theta), len(scores), theta.shape[1]))  # ∂ exponent / ∂θ but for what is common to all labels
    J[:, :, 0], J[:, :, 1:] = slopes + alpha[:, None] * unit, np.eye(len(scores))
    sensitivity = (said * slopes).sum(1) - (q * J[:, :, 0]).sum(1)
    information = J.transpose(0, 2, 1) @ spread @ J
    information[:, 0, 0] += (q * unit).sum(1)
    return Readings(
        value=(said * mu).sum(1) - bound,
        gradient=alpha[:, None] * (surplus @ scores),
        precision=alpha[:, None, None] ** 2 * (scores.T @ spread @ scores),
        pull=np.concatenate([sensitivity[:, None], surplus], axis=1),
        information=information,
    )
