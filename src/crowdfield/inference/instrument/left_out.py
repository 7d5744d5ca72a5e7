"""Leave-one-out: the probability of every report's label given all other reports.

The report is removed from everything it influenced: the appearance of its place is integrated without it, the field
is used without its place's own message (the cavity), and its source's parameters are moved back by its gradient step.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.instrument import places, responses, scoring
from crowdfield.inference.instrument.fitting import Evaluated, Observed
from crowdfield.inference.instrument.grid import APPEARANCES, Array

ROWS = 1 << 14  # reports processed at a time


class Labels(Protocol):
    """Who said what, in any table of reports."""

    @property
    def source(self) -> NDArray[np.int64]:
        """The source of every report: [R]."""
        ...

    @property
    def label(self) -> NDArray[np.int64]:
        """The label of every report: [R]."""
        ...


def log_probabilities(
    observed: Observed,
    at: Evaluated,
    site: NDArray[np.int64],
    source: NDArray[np.int64],
    label: NDArray[np.int64],
) -> Array:
    """log P(label | all other reports) of every report: [R]. Reports in any order."""
    out = np.empty(len(site))
    order = np.argsort(site, kind="stable")
    table = responses.log_responses(at.state.theta, observed.scores).reshape(-1, len(APPEARANCES))
    cavity_mean, cavity_variance = cavities(at)
    for start in range(0, len(order), ROWS):
        chosen = order[start : start + ROWS]
        sites, where = np.unique(site[chosen], return_inverse=True)
        first = int(sites[0])
        likelihood = observed.likelihood(slice(first, int(sites[-1]) + 1), table, at.state.link, at.state.theta)[
            sites - first
        ]
        prior = places.marginal(cavity_mean[sites], cavity_variance[sites], at.nugget[sites])
        own = table[source[chosen] * len(observed.scores) + label[chosen]]
        rest = likelihood[where] - own
        others = prior[where] * np.exp(rest - rest.max(1, keepdims=True))
        others /= others.sum(1, keepdims=True)
        out[chosen] = _predicted(observed, at, others, own, source[chosen], label[chosen])
    return out


def log_scores(observed: Observed, at: Evaluated) -> float:
    """Σ log p(score | all other reports), with the sources held: a part of the comparison of length-scales."""
    if observed.readings is None:
        return 0.0
    total, first = 0.0, len(observed.scores)
    table = responses.log_responses(at.state.theta, observed.scores).reshape(-1, len(APPEARANCES))
    cavity_mean, cavity_variance = cavities(at)
    for rows in observed.blocks():
        inside = observed.readings.within(rows)
        if not len(inside.site):
            continue
        likelihood = observed.likelihood(rows, table, at.state.link, at.state.theta)
        prior = places.marginal(cavity_mean[rows], cavity_variance[rows], at.nugget[rows])
        own = scoring.log_density(inside, at.state.theta[:, first:])
        rest = likelihood[inside.site] - own
        others = prior[inside.site] * np.exp(rest - rest.max(1, keepdims=True))
        others /= others.sum(1, keepdims=True)
        total += float(np.log((others * np.exp(own)).sum(1)).sum())
    return total


def cavities(at: Evaluated) -> tuple[Array, Array]:
    """Mean and variance of f at every place without that place's own message."""
    precision = 1.0 / at.variance - at.state.lam
    # A place that nothing else informs has its prior left; rounding must not make that negative.
    variance = 1.0 / np.maximum(precision, 1e-3 / at.variance)
    return variance * (at.mean / at.variance - at.state.eta), variance


def _predicted(
    observed: Observed, at: Evaluated, others: Array, own: Array, source: NDArray[np.int64], label: NDArray[np.int64]
) -> Array:
    """log P of labels without their own report. others, own [R, K]: P(g) without it, and log P(label | g)."""
    L = len(observed.scores)
    theta = at.state.theta[source, :L]
    posterior = others * np.exp(own)
    posterior /= posterior.sum(1, keepdims=True)
    weights = np.zeros((len(source), L, len(APPEARANCES)))
    weights[np.arange(len(source)), label] = posterior
    pulled = responses.gradient(theta, observed.scores, weights)
    before = theta - np.einsum("rij,rj->ri", at.covariance[source, :L, :L], pulled)
    said = np.exp(responses.log_responses(before, observed.scores)[np.arange(len(source)), label])
    return np.asarray(np.log((others * said).sum(1)))


class Habits(NamedTuple):
    """The label frequencies of every source, whatever the place."""

    counts: Array  # [S, L] how often every source said every label
    crowd: Array  # [L] the share of every label in all reports

    @classmethod
    def learn(
        cls, reports: Labels, n_sources: int, n_labels: int, multiplicity: NDArray[np.int64] | None = None
    ) -> Habits:
        """Count the labels of reports, each once, or as often as `multiplicity` [R] says."""
        pair = reports.source * n_labels + reports.label
        counts = np.bincount(pair, multiplicity, n_sources * n_labels).astype(np.float64).reshape(n_sources, n_labels)
        return cls(counts, (counts.sum(0) + 1.0) / (counts.sum() + n_labels))

    def left_out(self, reports: Labels) -> Array:
        """log P of every report's label by the frequencies of its source's other reports, plus one pseudo-report of the
        crowd: [R]."""
        said = self.counts[reports.source, reports.label] - 1.0 + self.crowd[reports.label]
        return np.asarray(np.log(said / self.counts[reports.source].sum(1)))

    def further(self, reports: Labels) -> Array:
        """log P of the labels of new reports by their sources' label frequencies: [R]."""
        said = self.counts[reports.source, reports.label] + self.crowd[reports.label]
        return np.asarray(np.log(said / (self.counts[reports.source].sum(1) + 1.0)))
