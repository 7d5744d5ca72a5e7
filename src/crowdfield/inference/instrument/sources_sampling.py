"""Draws of sources and link given appearances, and of the population of sources.

Given the appearances, what source s said is a table of counts by label and appearance, and its posterior is
log-concave in θ_s: a Metropolis step proposes from Student's t around where Newton's step leads, which is nearly the
mode wherever it begins, so that most proposals are accepted. The link to the truth is one more source, whose reports
are the states of checked places.

The population's variances are drawn twice: given θ, and with (θ − μ)/s held (interweaving: the first is fast where
sources have many reports, the second where they have few).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.inference.instrument import fitting, link, responses
from crowdfield.inference.instrument.grid import Array

LONGEST_STEP = 2.0  # largest change of a parameter in one Newton step
FREEDOM = 8.0  # degrees of Student's t: tails that are heavier than the posterior's
MEAN_SD = 3.0  # logits: prior of the mean lean to a label that names no state
FIRST_SD = 0.3  # of sources around the population's mean, at the start


class Crowd(NamedTuple):
    """Sources, link and population of every chain."""

    theta: Array  # [C, S, d]
    link: Array  # [C, 2] slope, shift
    mean: Array  # [C, d] of the population: 1 and 0 for sensitivity and the first lean
    variance: Array  # [C, d]


def n_steps(labels: int) -> int:
    """Step sizes of a step: a variance for each parameter, a mean for each lean to a label that names no state."""
    return labels + labels - 2


def init(chains: int, sources: int, labels: int, rng: np.random.Generator) -> Crowd:
    """Sources around the average one, for every chain."""
    mean, variance = np.zeros((chains, labels)), np.tile(expected_variances(labels), (chains, 1))
    mean[:, 0] = 1.0
    theta = mean[:, None] + FIRST_SD * rng.standard_normal((chains, sources, labels))
    truth_link = np.array([1.0, 0.0]) + FIRST_SD * rng.standard_normal((chains, 2))
    return Crowd(theta, truth_link, mean, variance)


def expected_variances(labels: int) -> Array:
    """The prior variance of sensitivity and leans: [d]."""
    return np.array([fitting.SENSITIVITY_VARIANCE] + [fitting.LEAN_VARIANCE] * (labels - 1))


def step(
    crowd: Crowd, scores: Array, answers: Array, checked: Array, rng: np.random.Generator, step_size: Array
) -> tuple[Crowd, Array]:
    """One sweep. answers [C, S, L, K]: counts of sources' labels by appearance; checked [C, 2, K]: the same of the
    truth. Returns the acceptance of the steps [n_steps, C] too.
    """
    chains, S, d = crowd.theta.shape
    mean, variance = (np.repeat(values, S, axis=0) for values in (crowd.mean, crowd.variance))
    flat = answers.reshape(chains * S, d, -1)
    theta = _drawn(crowd.theta.reshape(-1, d), scores, flat, mean, variance, rng).reshape(crowd.theta.shape)
    expected = np.tile([1.0, 0.0], (chains, 1))
    spread = np.stack([crowd.variance[:, 0], np.full(chains, link.SHIFT_SD**2)], axis=1)
    truth_link = _drawn(crowd.link, link.SCORES, checked, expected, spread, rng)
    crowd = _population(crowd._replace(theta=theta, link=truth_link), rng)
    return _interweave(crowd, scores, flat, checked, rng, step_size)


def _drawn(
    theta: Array, scores: Array, weights: Array, mean: Array, variance: Array, rng: np.random.Generator
) -> Array:
    """One Metropolis step of every row of θ [n, d], given its counts [n, L, K] and its own normal prior [n, d]."""
    counts = weights.sum(1)
    said = counts.any(1)
    out = mean + np.sqrt(variance) * rng.standard_normal(theta.shape)  # rows without reports: their prior
    known = weights[said], counts[said], mean[said], variance[said]
    old = _proposal(theta[said], scores, *known)
    n, d = old.theta.shape
    noise = rng.standard_normal((n, d)) * np.sqrt(FREEDOM / rng.chisquare(FREEDOM, n))[:, None]
    new = _proposal(
        old.centre + np.linalg.solve(old.root.transpose(0, 2, 1), noise[:, :, None])[:, :, 0], scores, *known
    )
    gain = new.log_density - old.log_density + _log_proposal(new, old.theta) - _log_proposal(old, new.theta)
    out[said] = np.where((np.log(rng.random(n)) < gain)[:, None], new.theta, old.theta)
    return np.asarray(out)


class _Proposal(NamedTuple):
    """A quadratic approximation of the posterior of θ around its current value."""

    theta: Array  # [n, d]
    log_density: Array  # [n]
    centre: Array  # [n, d] one Newton step away
    root: Array  # [n, d, d] R with R Rᵀ the precision


def _proposal(theta: Array, scores: Array, weights: Array, counts: Array, mean: Array, variance: Array) -> _Proposal:
    """Newton's quadratic approximation of the posterior of θ at a point."""
    logs = responses.log_responses(theta, scores)
    p = np.exp(logs)
    prior = -0.5 * ((theta - mean) ** 2 / variance).sum(1)
    slope = responses.gradient_of(p, scores, weights) - (theta - mean) / variance
    precision = responses.information_of(p, scores, counts)
    np.einsum("nii->ni", precision)[:] += 1.0 / variance
    move = np.linalg.solve(precision, slope[:, :, None])[:, :, 0]
    move = responses.shortened(np.asarray(move, dtype=np.float64), LONGEST_STEP)
    log_density = prior + (weights * logs).sum((1, 2))
    return _Proposal(theta, np.asarray(log_density), theta + move, np.asarray(np.linalg.cholesky(precision)))


def _log_proposal(proposal: _Proposal, theta: Array) -> Array:
    """log density of Student's t around the centre, up to a constant."""
    d = theta.shape[1]
    apart = np.einsum("nij,ni->nj", proposal.root, theta - proposal.centre)
    log_det = np.log(np.einsum("nii->ni", proposal.root)).sum(1)
    return np.asarray(log_det - 0.5 * (FREEDOM + d) * np.log1p((apart**2).sum(1) / FREEDOM))


def _population(crowd: Crowd, rng: np.random.Generator) -> Crowd:
    """Means of leans to labels that name no state, then variances, given the sources and the link's slope."""
    chains, S, d = crowd.theta.shape
    mean = crowd.mean.copy()
    precision = S / crowd.variance[:, 2:] + MEAN_SD**-2
    centre = crowd.theta[:, :, 2:].sum(1) / crowd.variance[:, 2:] / precision
    mean[:, 2:] = centre + rng.standard_normal(centre.shape) / np.sqrt(precision)
    square = ((crowd.theta - mean[:, None]) ** 2).sum(1)
    square[:, 0] += (crowd.link[:, 0] - 1.0) ** 2
    number = np.full(d, S + fitting.PSEUDO_SOURCES)
    number[0] += 1.0
    rate = 0.5 * (square + fitting.PSEUDO_SOURCES * expected_variances(d))
    return crowd._replace(mean=mean, variance=rate / rng.standard_gamma(0.5 * number, (chains, d)))


def _interweave(
    crowd: Crowd, scores: Array, flat: Array, checked: Array, rng: np.random.Generator, step_size: Array
) -> tuple[Crowd, Array]:
    """Each variance with (θ − μ)/s held, and each free mean with θ − μ held: Metropolis steps."""
    chains, _, d = crowd.theta.shape
    accepted = np.zeros_like(step_size)
    shape, rate = 0.5 * fitting.PSEUDO_SOURCES, 0.5 * fitting.PSEUDO_SOURCES * expected_variances(d)
    current = _log_likelihood(crowd, scores, flat, checked)
    for i in range(len(step_size)):
        noise = step_size[i] * rng.standard_normal(chains)
        if i < d:
            new = _spread(crowd, i, noise)
            gain = -shape * noise - rate[i] * (1.0 / new.variance[:, i] - 1.0 / crowd.variance[:, i])
        else:
            new = _moved(crowd, i - d + 2, noise)
            gain = 0.5 * (crowd.mean[:, i - d + 2] ** 2 - new.mean[:, i - d + 2] ** 2) / MEAN_SD**2
        proposed = _log_likelihood(new, scores, flat, checked)
        accept = np.log(rng.random(chains)) < gain + proposed - current
        crowd = Crowd(*(_where(accept, one, other) for one, other in zip(new, crowd, strict=True)))
        current, accepted[i] = np.where(accept, proposed, current), accept
    return crowd, accepted


def _log_likelihood(crowd: Crowd, scores: Array, flat: Array, checked: Array) -> Array:
    """Log likelihood of all reports and checks given the appearances: [C]."""
    chains, S, d = crowd.theta.shape
    sources = responses.expected_log(crowd.theta.reshape(-1, d), scores, flat).reshape(chains, S).sum(1)
    return np.asarray(sources + responses.expected_log(crowd.link, link.SCORES, checked))


def _spread(crowd: Crowd, i: int, log_ratio: Array) -> Crowd:
    """Parameter i of all sources scaled around its mean, so that its variance is multiplied by e^log_ratio."""
    theta, truth_link, variance = crowd.theta.copy(), crowd.link.copy(), crowd.variance.copy()
    stretch = np.exp(0.5 * log_ratio)
    centre = crowd.mean[:, None, i]
    theta[:, :, i] = centre + stretch[:, None] * (theta[:, :, i] - centre)
    if i == 0:
        truth_link[:, 0] = 1.0 + stretch * (truth_link[:, 0] - 1.0)
    variance[:, i] *= np.exp(log_ratio)
    return crowd._replace(theta=theta, link=truth_link, variance=variance)


def _moved(crowd: Crowd, i: int, delta: Array) -> Crowd:
    """Parameter i of all sources and of their mean, shifted by delta."""
    theta, mean = crowd.theta.copy(), crowd.mean.copy()
    theta[:, :, i] += delta[:, None]
    mean[:, i] += delta
    return crowd._replace(theta=theta, mean=mean)


def _where(accept: Array, one: Array, other: Array) -> Array:
    """Rows of one array where accepted, else of the other."""
    return np.where(accept.reshape(-1, *([1] * (one.ndim - 1))), one, other)
