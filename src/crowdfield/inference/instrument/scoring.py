"""Scores: reports that are a probability, of a classifier, a language model, or a volunteer who says how sure they are.

The log odds z of a score are a noisy reading of the appearance:

    z ~ N(α_s g + b_s, σ_s²)

with a gain α, a lean b and a noise σ of every source that gives scores. The information of such a reading is α²/σ²: an
overconfident classifier has a large α and a larger σ, both of which are learned. The parameters of a source are
(α, b, log σ²), besides those of its labels (`responses`); their normal priors are shared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtr

from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.responses import NEWTON_STEPS, Population, even_thresholds, shortened
from crowdfield.inference.quadrature import softmax

PARAMETERS = 3  # α, b, log σ²
# A calibrated score has a gain of about one. Machines differ far more than people do, and there are few of them.
MEAN: Array = np.array([1.0, 0.0, 0.0])
VARIANCE: Array = np.array([1.0, 1.0, 2.0])
# Scores nearer to 0 or 1 than this are moved to this distance: they are rounded, and their log odds mean nothing.
NEAREST = 1e-3
SCALE: Array = np.linspace(-15.0, 15.0, 6001)  # grid for `along_scale`; NEAREST keeps all values inside


class Readings(NamedTuple):
    """The scores, one row per report."""

    site: NDArray[np.int64]  # [Q]
    source: NDArray[np.int64]  # [Q]
    value: Array  # [Q] z, the log odds of the last state

    def within(self, rows: slice) -> Readings:
        """The scores at a slice of the places, which are numbered from its first."""
        inside = (self.site >= rows.start) & (self.site < rows.stop)
        return Readings(self.site[inside] - rows.start, self.source[inside], self.value[inside])

    def at_places(self, position: NDArray[np.int64]) -> Readings:
        """The scores at some places; position [N]: the new number of each place, or −1."""
        inside = position[self.site] >= 0
        return Readings(position[self.site[inside]], self.source[inside], self.value[inside])


def log_odds(probability: Array) -> Array:
    """The log odds of probabilities, kept away from 0 and 1."""
    p = np.clip(probability, NEAREST, 1.0 - NEAREST)
    return np.asarray(np.log(p) - np.log1p(-p))


def log_likelihood(readings: Readings, theta: Array, n: int) -> Array:
    """Σ log N(z; α g + b, σ²) of every place on the grid: [n, K].   theta [S, 3]"""
    gain, lean, log_noise = theta[readings.source].T
    weight, above = np.exp(-log_noise), readings.value - lean
    constant = -0.5 * (weight * above**2 + log_noise + np.log(2.0 * np.pi))
    terms = (constant, weight * gain * above, -0.5 * weight * gain**2)
    parts = [np.bincount(readings.site, each, minlength=n)[:, None] for each in terms]
    return np.asarray(parts[0] + parts[1] * APPEARANCES + parts[2] * APPEARANCES**2)


def log_density(readings: Readings, theta: Array) -> Array:
    """log N(z; α g + b, σ²) of every score on the grid: [Q, K].   theta [S, 3]"""
    gain, lean, log_noise = (part[:, None] for part in theta[readings.source].T)
    error = readings.value[:, None] - lean - gain * APPEARANCES
    return np.asarray(-0.5 * (np.exp(-log_noise) * error**2 + log_noise + np.log(2.0 * np.pi)))


def moments(readings: Readings, posterior: Array, n_sources: int) -> Array:
    """Σ over the scores of every source of 1, E[g], E[g²], z, z E[g] and z²: [S, 6].   posterior [n, K] of g"""
    g = (posterior @ APPEARANCES)[readings.site]
    squared = (posterior @ APPEARANCES**2)[readings.site]
    z = readings.value
    columns = np.stack([np.ones_like(z), g, squared, z, z * g, z**2], axis=1)
    by_source = sp.csr_matrix(
        (np.ones(len(z)), (readings.source, np.arange(len(z)))), shape=(n_sources, len(z)), dtype=np.float64
    )
    return np.asarray(by_source @ columns)


def slope(theta: Array, sums: Array, population: Population) -> Array:
    """Gradient of the expected log likelihood and the log prior in (α, b, log σ²): [S, 3]."""
    gain, lean, log_noise = theta.T
    n, g, squared, z, zg, zz = sums.T
    weight = np.exp(-log_noise)
    error = zz - 2.0 * (gain * zg + lean * z) + gain**2 * squared + 2.0 * gain * lean * g + n * lean**2
    steps = (weight * (zg - gain * squared - lean * g), weight * (z - gain * g - n * lean), 0.5 * (weight * error - n))
    return np.stack(steps, axis=1) - (theta - population.mean) * population.precision


def information(theta: Array, sums: Array) -> Array:
    """Expected, of the scores alone: [S, 3, 3]."""
    n, g, squared = sums[:, :3].T
    weight = np.exp(-theta[:, 2])
    out = np.zeros((len(theta), 3, 3))
    out[:, 0, 0], out[:, 0, 1], out[:, 1, 0], out[:, 1, 1] = weight * squared, weight * g, weight * g, weight * n
    out[:, 2, 2] = 0.5 * n
    return out


def maximise(theta: Array, sums: Array, population: Population) -> tuple[Array, Array]:
    """Newton steps towards every source's mode, and the covariance around it: [S, 3], [S, 3, 3]."""
    prior = np.diag(population.precision)
    for _ in range(NEWTON_STEPS):
        covariance = np.linalg.inv(information(theta, sums) + prior)
        step = np.einsum("sij,sj->si", covariance, slope(theta, sums, population))
        theta = theta + shortened(step)
    return theta, np.asarray(np.linalg.inv(information(theta, sums) + prior))


def report_information(theta: Array, g: Array) -> Array:
    """Fisher information of one score about (g, α, b, log σ²): [Q, 4, 4].   theta [Q, 3], g [Q]"""
    J = np.zeros((len(g), 4))
    J[:, 0], J[:, 1], J[:, 2] = theta[:, 0], g, 1.0
    out = np.exp(-theta[:, 2])[:, None, None] * J[:, :, None] * J[:, None, :]
    out[:, 3, 3] = 0.5
    return np.asarray(out)


def along_scale(probability: Array, state_scores: Array) -> Array:
    """Probability vectors of ordered states as numbers on the scale of the appearance: [Q, J] -> [Q].

    z is where a source with even thresholds between the grades would expect the same grade on average; of two states
    it is the log odds. The vector's mean is used and not its log ratios, because the small probabilities of far grades,
    which a file rounds to 0, would count most in those.
    """
    p = np.maximum(probability, NEAREST)
    logits = SCALE[:, None] * state_scores + even_thresholds(state_scores)
    expected = softmax(logits) @ state_scores  # rises with z
    return np.asarray(np.interp((p / p.sum(1, keepdims=True)) @ state_scores, expected, SCALE))


def implied_confusion(theta: Array, appearances: Array, truth: Array, scores: Array, offsets: Array) -> Array:
    """E[P(the state j' that a score speaks for | t = j)] over the places of the map, a confusion matrix: [S, J, J].

    A score z speaks for the state with the largest score_j z + offset_j: the one above one half where there are two.
    """
    mean, sd = theta[:, :1] * APPEARANCES + theta[:, 1:2], np.exp(0.5 * theta[:, 2:])
    joint = appearances * truth
    weight = joint / joint.sum(1, keepdims=True)
    columns = []
    for j in range(len(scores)):
        meets = [(offsets[i] - offsets[j]) / (scores[j] - scores[i]) if i != j else np.nan for i in range(len(scores))]
        low, high = max(meets[:j], default=-np.inf), min(meets[j + 1 :], default=np.inf)
        inside = np.maximum(ndtr((high - mean) / sd) - ndtr((low - mean) / sd), 0.0)  # [S, K]
        columns.append(np.einsum("sk,jk->sj", inside, weight))
    return np.stack(columns, axis=2)


def joined(labels: Any, scores: Any) -> Array:
    """Blocks of every source's two kinds of parameters on one diagonal.   [S, L, L], [S, 3, 3] -> [S, L + 3, L + 3]"""
    L = labels.shape[1]
    out = np.zeros((len(labels), L + PARAMETERS, L + PARAMETERS))
    out[:, :L, :L], out[:, L:, L:] = labels, scores
    return out
