"""Leave-one-out for unordered states: the probability of every report's label given all other reports.

The report's own Gaussian message is removed from the appearance of its place, and its source's parameters are moved
back by its gradient step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.instrument.fitting import State
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.several import scoring
from crowdfield.inference.instrument.several.fitting import REPORTS, Evaluated
from crowdfield.inference.instrument.several.observed import Observed
from crowdfield.inference.instrument.several.readings import logits, read
from crowdfield.inference.instrument.several.weights import Places
from crowdfield.inference.softmax_moments import softmax_moments

LEAST_SHARE = 1e-2  # smallest share of a precision that is left without a report: it must stay positive


def log_probabilities(
    observed: Observed,
    at: Evaluated,
    site: NDArray[np.int64],
    source: NDArray[np.int64],
    label: NDArray[np.int64],
) -> Array:
    """log P(label | all other reports): [R]."""
    out = np.empty(len(site))
    for start in range(0, len(site), REPORTS):
        rows = slice(start, start + REPORTS)
        i, s, c = site[rows], source[rows], label[rows]
        d = observed.label_parameters
        theta, said = at.state.theta[s, :d], np.eye(len(observed.scores))[c]
        own = read(theta, observed.scores, said, at.places.mean[i], at.places.covariance[i])
        mean, covariance = _without(at.places.mean[i], at.places.covariance[i], own.gradient, own.precision)
        before = theta - np.einsum("rij,rj->ri", at.covariance[s, :d, :d], own.pull)
        p, _ = softmax_moments(*logits(before, observed.scores, mean, covariance), fine=False)
        out[rows] = np.log(p[np.arange(len(c)), c])
    return out


def log_vectors(observed: Observed, at: Evaluated) -> float:
    """Σ log p(vector | all other reports), with the sources as they are: what length-scales are compared by as well."""
    if observed.vectors is None:
        return 0.0
    site, source, value = observed.vectors
    theta, F = at.state.theta[source, observed.label_parameters :], observed.functions
    own = scoring.read(theta, value, at.places.mean[site], at.places.covariance[site])
    mean, covariance = _without(at.places.mean[site], at.places.covariance[site], own.gradient, own.precision)
    spread = theta[:, :1, None] ** 2 * covariance + np.exp(theta[:, -1])[:, None, None] * np.eye(F)
    above = value - theta[:, :1] * mean - theta[:, 1:-1]
    squared = (above * np.linalg.solve(spread, above[:, :, None])[:, :, 0]).sum(1)
    return float(-0.5 * (squared + np.linalg.slogdet(spread)[1] + F * np.log(2.0 * np.pi)).sum())


def _without(mean: Array, covariance: Array, gradient: Array, precision: Array) -> tuple[Array, Array]:
    """The appearance without a report whose message has this gradient and precision at the mean."""
    root = np.linalg.cholesky(covariance)
    value, vector = np.linalg.eigh(root.transpose(0, 2, 1) @ precision @ root)  # its share of the precision
    kept = np.maximum(1.0 - value, LEAST_SHARE)
    half = root @ vector
    wider = (half / kept[:, None, :]) @ half.transpose(0, 2, 1)
    return mean - np.einsum("rab,rb->ra", wider, gradient), wider


def further(observed: Observed, state: State, at: Places, new: tuple[NDArray[np.int64], ...]) -> Array:
    """log P of labels that sources would give at the places, in further reports: [R]."""
    site, source, label = new
    out = np.empty(len(site))
    for start in range(0, len(site), REPORTS):
        rows = slice(start, start + REPORTS)
        i, c = site[rows], label[rows]
        theta = state.theta[source[rows], : observed.label_parameters]
        p, _ = softmax_moments(*logits(theta, observed.scores, at.mean[i], at.covariance[i]), fine=False)
        out[rows] = np.log(p[np.arange(len(c)), c])
    return out
