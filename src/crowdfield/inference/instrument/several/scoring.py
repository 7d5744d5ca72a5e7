"""Probability vectors of three or more states without an order: readings of all contrasts at once.

The log ratios of a vector p are those of one appearance y, the one under which a calibrated source would give p:

    h_j·y − h_k·y = log p_j − log p_k      so that      y = 2 hᵀ log p        (h has orthogonal columns of length² ½)

As a score of two states (`instrument.scoring`) it scatters around what the source sees,

    y ~ N(α_s g + b_s, σ_s² I)

with a gain α, a lean b in every contrast and one noise σ, the standard deviation of the log ratio of any two states.
One noise and one gain make the reading the same whatever the order of the states. With F contrasts the parameters of a
source are (α, b_1 … b_F, log σ²), beside those of its labels. A Gaussian reading of a Gaussian appearance needs no
bound: its expected log likelihood is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtr

from crowdfield.inference.instrument import scoring
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.responses import Population
from crowdfield.inference.instrument.several.readings import Readings

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Vectors(NamedTuple):
    """The probability vectors, one row per report."""

    site: NDArray[np.int64]  # [Q]
    source: NDArray[np.int64]  # [Q]
    value: Array  # [Q, F] y

    def at_places(self, position: NDArray[np.int64]) -> Vectors:
        """The vectors at some places; position [N]: the new number of each place, or −1."""
        inside = position[self.site] >= 0
        return Vectors(position[self.site[inside]], self.source[inside], self.value[inside])


def contrasts(probability: Array, state_scores: Array) -> Array:
    """y of probability vectors.   [Q, J], [J, F] -> [Q, F]"""
    return np.asarray(2.0 * np.log(np.maximum(probability, scoring.NEAREST)) @ state_scores)


def parameters(functions: int) -> int:
    """The number of parameters of a source for its vectors."""
    return functions + 2


def population(functions: int) -> Population:
    """Gain, leans and log σ² of sources before anything is learned: as of two states, the lean in every contrast."""
    gain, lean, noise = (Population(scoring.MEAN[i : i + 1], scoring.VARIANCE[i : i + 1]) for i in range(3))
    parts = [gain, *[lean] * functions, noise]
    return Population(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def spread(vectors: Vectors, n_sources: int) -> Array:
    """The initial log σ²: as if all variation of a source's vectors were noise; 0 without vectors: [S].

    The map then starts from people's labels, and the source is compared with it. A classifier that is trusted from the
    start would make a map of its own noise, to which the variances then adapt.
    """
    squared = np.bincount(vectors.source, (vectors.value**2).mean(1), n_sources)
    each = squared / np.maximum(np.bincount(vectors.source, minlength=n_sources), 1)
    return np.asarray(np.log(np.maximum(each, 1.0)))


def read(theta: Array, value: Array, mean: Array, covariance: Array) -> Readings:
    """Vector by vector, the appearance being N(mean, covariance).   theta [Q, F + 2], value, mean [Q, F]"""
    F = value.shape[1]
    gain, log_noise = theta[:, 0], theta[:, -1]
    weight, trace = np.exp(-log_noise), np.einsum("qaa->q", covariance)
    above = value - gain[:, None] * mean - theta[:, 1:-1]
    error = (above**2).sum(1) + gain**2 * trace
    identity = np.eye(F)
    pull = [weight * ((above * mean).sum(1) - gain * trace), *(weight[:, None] * above).T, 0.5 * (weight * error - F)]
    information = _information(weight, mean)
    information[:, 0, 0] += weight * trace
    return Readings(
        value=-0.5 * (weight * error + F * (log_noise + np.log(2.0 * np.pi))),
        gradient=(weight * gain)[:, None] * above,
        precision=(weight * gain**2)[:, None, None] * identity,
        pull=np.stack(pull, axis=1),
        information=information,
    )


def _information(weight: Array, mean: Array) -> Array:
    """Expected, of one vector in its source's parameters at a known appearance: [Q, F + 2, F + 2]."""
    Q, F = mean.shape
    J = np.zeros((Q, F, F + 2))
    J[:, :, 0], J[:, :, 1:-1] = mean, np.eye(F)
    out = weight[:, None, None] * (J.transpose(0, 2, 1) @ J)
    out[:, -1, -1] = 0.5 * F
    return np.asarray(out)


def joint_information(theta: Array, g: Array) -> Array:
    """Fisher information of one vector about (g, α, b, log σ²) at g: [Q, 2 F + 2, 2 F + 2].   theta [Q, F + 2]"""
    Q, F = g.shape
    J = np.zeros((Q, F, 2 * F + 2))
    J[:, :, :F] = theta[:, :1, None] * np.eye(F)
    J[:, :, F], J[:, :, F + 1 : -1] = g, np.eye(F)
    out = np.exp(-theta[:, -1])[:, None, None] * (J.transpose(0, 2, 1) @ J)
    out[:, -1, -1] = 0.5 * F
    return np.asarray(out)


def sums(index: NDArray[np.int64], size: int) -> sp.csr_matrix:
    """A sparse matrix [size, Q] that sums vectors by place, or by source."""
    return sp.csr_matrix((np.ones(len(index)), (index, np.arange(len(index)))), shape=(size, len(index)))


def most_probable(theta: Array, g: Array, state_scores: Array) -> Array:
    """P(state j has the largest probability in a vector of one source | g): [K, J].   theta [F + 2], g [K, F]

    But for what all states share, the noise of the logits is independent with variance ½ σ²: given that of state j,
    every other state is below it or not by itself, so that one integral is left.
    """
    mean = (theta[0] * g + theta[1:-1]) @ state_scores.T
    scaled = mean / np.sqrt(0.5 * np.exp(theta[-1]))
    out = np.empty_like(mean)
    for j in range(mean.shape[1]):
        others = np.delete(scaled, j, axis=1)
        below = ndtr(scaled[:, j, None, None] + NODES - others[:, :, None])  # [K, J − 1, Q]
        out[:, j] = below.prod(axis=1) @ WEIGHTS
    return np.asarray(out / out.sum(1, keepdims=True))
