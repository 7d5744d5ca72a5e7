"""The link between appearance and true state, P(t = j | g) ∝ exp(a s_j g + c_j), informed by checked places.

With two states that is P(t = 1 | g) = σ(a g + c). The truth reads the appearance as a source does (`responses`), with
the states as its labels: s are the scores of the states, c = D γ. A place is checked where its state is known (gold) or
where a source reported that is trusted to see the truth itself: one whose confusion matrix the user gave. With
ℓ_j = Σ log π_jc over such reports (−∞ for all states but one for gold) the likelihood of the appearance is
Σ_j P(t = j | g) e^ℓ_j: the state is summed out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.instrument import responses
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.responses import Population

# Without checks, no data relate the crowd's average to the truth. A priori the slope of the truth varies around the
# average sensitivity as the sources' own sensitivities do, so that a crowd whose members disagree is uncertain; and the
# crowd as a whole leans by a factor of about e either way.
SHIFT_SD = 1.0
SCORES: Array = responses.state_scores(2)  # −½, ½


class Checks(NamedTuple):
    """Places whose state is known, at least in part, independently of the crowd."""

    site: NDArray[np.int64]  # [G]
    said: Array  # [G, J] ℓ: log likelihood of every state

    def within(self, rows: slice) -> Checks:
        """The checks at a slice of the places, which are numbered from its first."""
        inside = (self.site >= rows.start) & (self.site < rows.stop)
        return Checks(self.site[inside] - rows.start, self.said[inside])

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Which checks leave only one possible state (gold): [G]."""
        return np.asarray(np.isfinite(self.said).sum(1) == 1)


class Link(NamedTuple):
    """The link to the truth: its parameters and their covariance."""

    theta: Array  # [J] a, γ_1, …, γ_{J−1}
    covariance: Array  # [J, J]
    scores: Array = SCORES  # [J]

    @property
    def log_states(self) -> Array:
        """log P(t = j | g) on the grid, with the link at its mode: [J, K]."""
        return np.asarray(responses.log_responses(self.theta[None], self.scores)[0])

    def logits(self, g: Array) -> tuple[Array, Array]:
        """Mean and covariance of a s_j g + c_j under the posterior of the link.   g [K] -> [K, J], [K, J, J]"""
        features = np.zeros((len(g), len(self.scores), len(self.theta)))
        features[:, :, 0] = g[:, None] * self.scores
        features[:, :, 1:] = responses.lean_design(self.scores)
        return features @ self.theta, features @ self.covariance @ features.transpose(0, 2, 1)

    @property
    def truth(self) -> Array:
        """P(t = j | g) on the grid, averaged over the posterior of the link: [J, K]."""
        mean, V = self.logits(APPEARANCES)
        gap = mean[:, :, None] - mean[:, None, :]
        spread = np.einsum("kjj->kj", V)[:, :, None] + np.einsum("kjj->kj", V)[:, None, :] - 2.0 * V
        # MacKay's approximation of every state against every other; with two states it is his own.
        against = np.exp(-gap / np.sqrt(1.0 + np.pi / 8.0 * np.maximum(spread, 0.0)))
        probability = 1.0 / against.sum(2)
        return np.asarray((probability / probability.sum(1, keepdims=True)).T)


def prior(population: Population, states: int) -> Population:
    """Prior of slope a and shifts γ: those of an average source, with the variance of the crowd."""
    mean, variance = population.mean[:states].copy(), np.full(states, SHIFT_SD**2)
    variance[0] = population.variance[0]
    return Population(mean, variance)


def start(population: Population, scores: Array) -> Link:
    """The link of an average source."""
    expected = prior(population, len(scores))
    return Link(expected.mean, np.diag(expected.variance), scores)


def log_likelihood(link: Link, checks: Checks) -> Array:
    """log Σ_j P(t = j | g) e^ℓ_j on the grid, less the largest ℓ: [G, K]."""
    joint = link.log_states + (checks.said - checks.said.max(1, keepdims=True))[:, :, None]
    top = joint.max(1)
    return np.asarray(top + np.log(np.exp(joint - top[:, None]).sum(1)))


def state_given_appearance(link: Link, checks: Checks) -> Array:
    """P(t = j | g, ℓ): [G, J, K]."""
    joint = link.log_states + checks.said[:, :, None]
    joint = np.exp(joint - joint.max(1, keepdims=True))
    return np.asarray(joint / joint.sum(1, keepdims=True))


def answers(link: Link, checks: Checks, posterior: Array) -> Array:
    """Expected counts of the states of checked places by appearance.   posterior [G, K] -> [J, K]"""
    return np.asarray(np.einsum("gjk,gk->jk", state_given_appearance(link, checks), posterior))


def update(link: Link, checked: Array, population: Population) -> Link:
    """Newton steps towards the mode.   checked [J, K]"""
    if not checked.any():
        return start(population, link.scores)
    expected = prior(population, len(link.scores))
    theta, covariance = responses.maximise(link.theta[None], link.scores, checked[None], expected)
    return Link(theta[0], covariance[0], link.scores)


def slope(link: Link, checked: Array, population: Population) -> Array:
    """Gradient of the objective in (a, γ): [J]."""
    expected = prior(population, len(link.scores))
    return np.asarray(responses.slope(link.theta[None], link.scores, checked[None], expected)[0])


def log_prior(link: Link, population: Population) -> float:
    """log p(a, γ) of the link."""
    return float(responses.log_prior(link.theta[None], prior(population, len(link.scores)))[0])
