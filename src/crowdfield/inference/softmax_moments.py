"""State probabilities whose logits are jointly Gaussian: their mean and standard deviation, symmetric in the states."""

from __future__ import annotations

import numpy as np

from crowdfield.inference.quadrature import Array, nodes, softmax, symmetric

ENTRIES = 1 << 22  # numbers processed at a time
TWO_NODES, TWO_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
TWO_WEIGHTS = TWO_WEIGHTS / TWO_WEIGHTS.sum()


def softmax_moments(mean: Array, covariance: Array, fine: bool = True) -> tuple[Array, Array]:
    """E[ρ] and its standard deviation, ρ = softmax(h), h ~ N(mean, covariance).   [M, J], [M, J, J] -> twice [M, J]"""
    expected, sd = np.empty_like(mean), np.empty_like(mean)
    count = len(logit_nodes(mean[:1], covariance[:1], fine)[1]) * mean.shape[1]
    for start in range(0, len(mean), max(1, ENTRIES // count)):
        part = slice(start, start + max(1, ENTRIES // count))
        h, weight = logit_nodes(mean[part], covariance[part], fine)
        rho = softmax(h)
        expected[part] = np.einsum("mqj,q->mj", rho, weight)
        sd[part] = np.sqrt(np.einsum("mqj,q->mj", (rho - expected[part][:, None]) ** 2, weight))
    return expected, sd


def logit_nodes(mean: Array, covariance: Array, fine: bool) -> tuple[Array, Array]:
    """Values of the logits [M, Q, J] and weights [Q]. Only differences of logits matter.

    Two states have one difference. More have the symmetric root of their covariance, and nodes that, if fine ones of
    more than three states, are given out in the order of the means, so that permuting the states permutes the answer.
    """
    if mean.shape[1] == 2:
        gap = mean[:, 1] - mean[:, 0]
        sd = np.sqrt(np.maximum(covariance[:, 0, 0] + covariance[:, 1, 1] - 2.0 * covariance[:, 0, 1], 0.0))
        h = gap[:, None] + sd[:, None] * TWO_NODES
        return np.stack([np.zeros_like(h), h], axis=2), TWO_WEIGHTS
    centred = covariance - covariance.mean(1, keepdims=True)
    centred -= centred.mean(2, keepdims=True)
    value, vector = np.linalg.eigh(centred)
    root = (vector * np.sqrt(np.maximum(value, 0.0))[:, None, :]) @ vector.transpose(0, 2, 1)
    mesh, weight = nodes(mean.shape[1], fine)
    if symmetric(mean.shape[1], fine):
        return mean[:, None, :] + mesh @ root, weight
    rank = np.argsort(np.argsort(mean, axis=1, kind="stable"), axis=1)
    return mean[:, None, :] + mesh.T[rank].transpose(0, 2, 1) @ root, weight
