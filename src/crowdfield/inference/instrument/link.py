"""How appearance and truth hang together: P(t = 1 | g) = σ(a g + c), and what checked places say about it.

A place is checked where its state is known (gold) or where a source reported that is trusted to see the truth itself:
one whose confusion matrix the user gave. With ℓ = Σ log π_1c − log π_0c over such reports (±∞ for gold) the likelihood
of the appearance is σ(h) e^ℓ + σ(−h), h = a g + c: the state is summed out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.instrument import responses
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.responses import Population

# Without checks nothing tells how the crowd's average relates to the truth. The truth reads the appearance with a slope
# that differs from the average one as the sources' own sensitivities differ: a crowd whose members see different things
# cannot be sure. And the crowd as a whole leans by a factor of about e either way.
SHIFT_SD = 1.0
SCORES: Array = np.array([-0.5, 0.5])


class Checks(NamedTuple):
    """Places about whose state something is known apart from the crowd."""

    site: NDArray[np.int64]  # [G]
    log_ratio: Array  # [G] ℓ of the second state against the first

    def within(self, rows: slice) -> Checks:
        """Those of a run of places, numbered from its first."""
        inside = (self.site >= rows.start) & (self.site < rows.stop)
        return Checks(self.site[inside] - rows.start, self.log_ratio[inside])


class Link(NamedTuple):
    theta: Array  # [2] a, c
    covariance: Array  # [2, 2]

    @property
    def log_odds(self) -> Array:
        """h on the grid: [K]."""
        return np.asarray(self.theta[0] * APPEARANCES + self.theta[1])

    @property
    def truth(self) -> Array:
        """P(t = 1 | g) on the grid, averaged over what is not known of the link: [K]."""
        variance = np.einsum("kd,de,ke->k", _features(), self.covariance, _features())
        return _logistic(self.log_odds / np.sqrt(1.0 + np.pi / 8.0 * variance))  # MacKay's approximation


def prior(population: Population) -> Population:
    """Of slope a and shift c, in a crowd that varies so much."""
    return Population(np.array([1.0, 0.0]), np.array([population.variance[0], SHIFT_SD**2]))


def start(population: Population) -> Link:
    expected = prior(population)
    return Link(expected.mean, np.diag(expected.variance))


def log_likelihood(link: Link, checks: Checks) -> Array:
    """log(σ(h) e^ℓ + σ(−h)) on the grid, less its part that goes to infinity with ℓ: [G, K]."""
    log_yes, log_no = -np.logaddexp(0.0, -link.log_odds), -np.logaddexp(0.0, link.log_odds)
    ratio = checks.log_ratio[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        # Written with the larger of the two first, so that gold (ℓ = ±∞) needs no case of its own.
        yes_first = log_yes + np.log1p(np.exp(log_no - log_yes - np.maximum(ratio, 0.0)))
        no_first = log_no + np.log1p(np.exp(log_yes - log_no + np.minimum(ratio, 0.0)))
    return np.asarray(np.where(ratio > 0.0, yes_first, no_first))


def state_given_appearance(link: Link, checks: Checks) -> Array:
    """P(t = 1 | g, ℓ): [G, K]."""
    return _logistic(link.log_odds + checks.log_ratio[:, None])


def answers(link: Link, checks: Checks, posterior: Array) -> Array:
    """How often checked places are in which state at which appearance.   posterior [G, K] -> [2, K]"""
    r = state_given_appearance(link, checks)
    return np.stack([(posterior * (1.0 - r)).sum(0), (posterior * r).sum(0)])


def update(link: Link, checked: Array, population: Population) -> Link:
    """Newton steps towards the mode.   checked [2, K]"""
    theta, covariance = responses.maximise(link.theta[None], SCORES, checked[None], prior(population))
    return Link(theta[0], covariance[0])


def slope(link: Link, checked: Array, population: Population) -> Array:
    """Of the objective in (a, c): [2]."""
    return np.asarray(responses.slope(link.theta[None], SCORES, checked[None], prior(population))[0])


def log_prior(link: Link, population: Population) -> float:
    return float(responses.log_prior(link.theta[None], prior(population))[0])


def _features() -> Array:
    return np.stack([APPEARANCES, np.ones_like(APPEARANCES)], axis=1)


def _logistic(x: Array) -> Array:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))
