"""Draws of sources and link given appearances, and of the population that the sources come from.

Given the appearances, what source s said is a table of counts by label and appearance, and its posterior is
log-concave in θ_s: a Metropolis step proposes from Student's t around the mode (Newton's steps from the population's
mean, so that the proposal does not depend on where the chain is) and is nearly always accepted. The link to the truth
is one more source, whose reports are the states of checked places.

The population's variances are drawn twice: given θ, and with (θ − μ)/s held (interweaving: the first is fast where
sources have many reports, the second where they have few).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.inference.instrument import fitting, link, responses
from crowdfield.inference.instrument.grid import Array

NEWTON_STEPS = 5
LONGEST_STEP = 1.5  # of a parameter in one Newton step
FREEDOM = 8.0  # degrees of Student's t: tails that are heavier than the posterior's
MEAN_SD = 3.0  # logits: prior of the mean lean to a label that names no state
FIRST_SD = 0.3  # of sources around the population's mean at the start


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
    mean, variance = np.zeros((chains, labels)), np.tile(usual_variance(labels), (chains, 1))
    mean[:, 0] = 1.0
    theta = mean[:, None] + FIRST_SD * rng.standard_normal((chains, sources, labels))
    truth_link = np.array([1.0, 0.0]) + FIRST_SD * rng.standard_normal((chains, 2))
    return Crowd(theta, truth_link, mean, variance)


def usual_variance(labels: int) -> Array:
    """Of sensitivity and leans, before the crowd is known: [d]."""
    return np.array([fitting.SENSITIVITY_VARIANCE] + [fitting.LEAN_VARIANCE] * (labels - 1))


def step(
    crowd: Crowd, scores: Array, answers: Array, checked: Array, rng: np.random.Generator, step_size: Array
) -> tuple[Crowd, Array]:
    """answers [C, S, L, K]: how often sources said what at which appearance; checked [C, 2, K] the same of the truth.
    Returns the acceptance of the steps [n_steps, C] too.
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


def _drawn(theta: Array, scores: Array, weights: Array, mean: Array, variance: Array, rng: np.random.Generator) -> Array:
    """One Metropolis step of every row of θ [n, d], given its counts [n, L, K] and its own normal prior [n, d]."""
    n, d = theta.shape
    centre, counts, precision = mean.copy(), weights.sum(1), np.einsum("ni,ij->nij", 1.0 / variance, np.eye(d))
    said = counts.any(1)  # rows without reports are drawn from their prior
    some = weights[said], counts[said], precision[said]
    centre[said], covariance = _mode(centre[said], scores, *some)
    root = np.einsum("ni,ij->nij", np.sqrt(variance), np.eye(d))
    root[said] = np.linalg.cholesky(covariance)
    noise = rng.standard_normal((n, d)) * np.sqrt(FREEDOM / rng.chisquare(FREEDOM, n))[:, None]
    noise = np.where(said[:, None], noise, rng.standard_normal((n, d)))
    proposal = centre + np.einsum("nij,nj->ni", root, noise)
    out = proposal.copy()
    old, new = theta[said], proposal[said]
    before = np.linalg.solve(root[said], (old - centre[said])[:, :, None])[:, :, 0]
    gain = responses.expected_log(new, scores, some[0]) - responses.expected_log(old, scores, some[0])
    gain += 0.5 * (((old - mean[said]) ** 2 - (new - mean[said]) ** 2) / variance[said]).sum(1)
    gain += _log_student(before, d) - _log_student(noise[said], d)
    out[said] = np.where((np.log(rng.random(len(gain))) < gain)[:, None], new, old)
    return out


def _mode(theta: Array, scores: Array, weights: Array, counts: Array, precision: Array) -> tuple[Array, Array]:
    """Newton's steps from the prior's mean, and the covariance where they end."""
    mean = theta
    for _ in range(NEWTON_STEPS):
        slope = responses.gradient(theta, scores, weights) - np.einsum("nij,nj->ni", precision, theta - mean)
        move = np.linalg.solve(responses.information(theta, scores, counts) + precision, slope[:, :, None])[:, :, 0]
        theta = theta + move * np.minimum(1.0, LONGEST_STEP / np.maximum(np.abs(move).max(1, keepdims=True), 1e-300))
    return theta, np.linalg.inv(responses.information(theta, scores, counts) + precision)


def _log_student(standardised: Array, d: int) -> Array:
    return np.asarray(-0.5 * (FREEDOM + d) * np.log1p((standardised**2).sum(1) / FREEDOM))


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
    rate = 0.5 * (square + fitting.PSEUDO_SOURCES * usual_variance(d))
    return crowd._replace(mean=mean, variance=rate / rng.standard_gamma(0.5 * number, (chains, d)))


def _interweave(
    crowd: Crowd, scores: Array, flat: Array, checked: Array, rng: np.random.Generator, step_size: Array
) -> tuple[Crowd, Array]:
    """Each variance with (θ − μ)/s held, and each free mean with θ − μ held: Metropolis steps."""
    chains, _, d = crowd.theta.shape
    accepted = np.zeros_like(step_size)
    shape, rate = 0.5 * fitting.PSEUDO_SOURCES, 0.5 * fitting.PSEUDO_SOURCES * usual_variance(d)
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
    """Of all that sources and the link said, given the appearances: [C]."""
    chains, S, d = crowd.theta.shape
    sources = responses.expected_log(crowd.theta.reshape(-1, d), scores, flat).reshape(chains, S).sum(1)
    return np.asarray(sources + responses.expected_log(crowd.link, link.SCORES, checked))


def _spread(crowd: Crowd, i: int, log_ratio: Array) -> Crowd:
    """Parameter i of all sources drawn apart around its mean, its variance times e^log_ratio."""
    theta, truth_link, variance = crowd.theta.copy(), crowd.link.copy(), crowd.variance.copy()
    stretch = np.exp(0.5 * log_ratio)
    centre = crowd.mean[:, None, i]
    theta[:, :, i] = centre + stretch[:, None] * (theta[:, :, i] - centre)
    if i == 0:
        truth_link[:, 0] = 1.0 + stretch * (truth_link[:, 0] - 1.0)
    variance[:, i] *= np.exp(log_ratio)
    return crowd._replace(theta=theta, link=truth_link, variance=variance)


def _moved(crowd: Crowd, i: int, delta: Array) -> Crowd:
    theta, mean = crowd.theta.copy(), crowd.mean.copy()
    theta[:, :, i] += delta[:, None]
    mean[:, i] += delta
    return crowd._replace(theta=theta, mean=mean)


def _where(accept: Array, one: Array, other: Array) -> Array:
    return np.where(accept.reshape(-1, *([1] * (one.ndim - 1))), one, other)
