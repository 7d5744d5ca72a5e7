"""Metropolis moves along the ridge on which amplitude and level of the field trade off against the whole crowd.

A field of larger amplitude, or of another level, with other sources explains most reports nearly as well. What all
sources have in common then changes, and t, π and the prior that the sources share, drawn in turn, follow by small steps
only: the more sources and reports, the smaller. Here they move together. In the coordinates

    log ς,   the level c,   √ς w⊥,   the logits of every source relative to those of the crowd,   the crowd's logits

with w = c a + w⊥, where Φa is nearly constant, a move shifts log ς, c and the crowd's logits, and holds all else: the
shape of the field, and how sources differ. t is summed out.

The shift is a multiple of the difference between two other chains (differential evolution; ter Braak 2006), so that it
has the direction and the length of the ridge. Half of the chains move by differences within the other half, then the
other way round: each half's move leaves the posterior of all chains as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from crowdfield.arrays import Array
from crowdfield.inference.gibbs import Sampler, State
from crowdfield.inference.quadrature import logsumexp

LABELS = 2  # the axis of labels in tables [K, S, L, J]
BEST_FACTOR = 2.38  # over √(2d): of differences in d dimensions, the best factor for a Gaussian posterior
FEWEST_CHAINS = 4  # each half needs two for a difference


class Ridge:
    """What moves along the ridge need of a sampler: the weights of a level."""

    def __init__(self, sampler: Sampler):
        everywhere, ones = np.ones(sampler.data.n_sites, dtype=bool), np.ones(sampler.data.n_sites)
        gram, b = sampler.design.normal_equations(everywhere, ones, ones)
        self.sampler = sampler
        # a [m]: of all weights that are a level, about the smallest.
        self.level: Array = np.asarray(np.linalg.solve(gram + np.eye(len(b)), b), dtype=np.float64)
        self.at_sites = sampler.design.evaluate(self.level)  # Φa [N]

    def step(self, state: State, rng: np.random.Generator) -> tuple[State, float]:
        """One move of every chain, and the share that was accepted."""
        if len(state.scale) < FEWEST_CHAINS:
            return state, 0.0
        order = rng.permutation(len(state.scale))
        one, other = (_taken(state, rows) for rows in np.array_split(order, 2))
        one, first = self._move(one, self._coordinates(other), rng)
        other, second = self._move(other, self._coordinates(one), rng)
        joined = [np.concatenate(pair)[np.argsort(order)] for pair in zip(_arrays(one), _arrays(other), strict=True)]
        return _with_arrays(state, joined), float(np.concatenate([first, second]).mean())

    def _coordinates(self, state: State) -> Array:
        """What a move changes: log ς, the level of each function, the crowd's centred log π.   [K, 1 + F + L·J]"""
        common = self.sampler.confusion.common(state.confusion, state.log_pi)
        return np.concatenate(
            [np.log(state.scale)[:, None], self._levels(state.weights), common.reshape(len(common), -1)], axis=1
        )

    def _levels(self, weights: Array) -> Array:
        """c of every function: [K, F]."""
        return np.asarray(weights @ self.level / (self.level @ self.level))

    def _move(self, state: State, others: Array, rng: np.random.Generator) -> tuple[State, NDArray[np.bool_]]:
        """Propose shifts by differences of other chains' coordinates [K', d], and take what is accepted."""
        chains, sampler = len(state.scale), self.sampler
        a = rng.integers(0, len(others), chains)
        b = (a + rng.integers(1, len(others), chains)) % len(others)
        functions, (_, _, L, J) = sampler.functions, state.log_pi.shape
        free = 1 + functions + (L - 1) * J
        factor = BEST_FACTOR / np.sqrt(2.0 * free) * np.abs(rng.standard_normal(chains))
        shift = factor[:, None] * (others[a] - others[b])
        proposed = self._shifted(state, shift[:, 0], shift[:, 1 : 1 + functions], shift[:, 1 + functions :])
        gain = self._log_density(proposed) - self._log_density(state)
        accept = np.log(rng.random(chains)) < gain
        pairs = zip(_arrays(proposed), _arrays(state), strict=True)
        chosen = [np.where(accept.reshape(-1, *[1] * (new.ndim - 1)), new, old) for new, old in pairs]
        return _with_arrays(state, chosen), accept

    def _shifted(self, state: State, log_ratio: Array, level: Array, common: Array) -> State:
        """The state after shifts of log ς [K], of the levels [K, F] and of the crowd's logs [K, L·J]."""
        sampler = self.sampler
        stretch = np.exp(-0.5 * log_ratio)[:, None]
        before = self._levels(state.weights)
        moved = before + level - stretch * before  # what is added to the stretched level
        weights = stretch[..., None] * state.weights + moved[..., None] * self.level
        g = stretch[..., None] * state.g + moved[..., None] * self.at_sites
        by = common.reshape(len(common), *state.log_pi.shape[2:])
        log_pi = state.log_pi + np.where(sampler.confusion.moving[:, None, None], by[:, None], 0.0)
        log_pi = log_pi - logsumexp(log_pi, LABELS)[:, :, None]
        confusion = sampler.confusion.shifted(state.confusion, by)
        return State(weights, state.scale * np.exp(log_ratio), log_pi, confusion, g)

    def _log_density(self, state: State) -> Array:
        """log p(reports, state) in the coordinates above, t summed out, up to a constant: [K]."""
        sampler, prior = self.sampler, self.sampler.prior
        log_scale, size = np.log(state.scale), float(self.level @ self.level)
        levels = self._levels(state.weights)
        rest = state.weights - levels[..., None] * self.level
        out = prior.shape * log_scale - prior.rate * state.scale
        out += 0.5 * levels.shape[1] * log_scale
        out -= 0.5 * state.scale * (size * (levels**2).sum(1) + (rest**2).sum((1, 2)))
        out += sampler.log_evidence_of_field(state.g, sampler.log_likelihood(state.log_pi))
        alpha = np.broadcast_to(sampler.confusion.alpha0(state.confusion), state.log_pi.shape)
        rows = (alpha * state.log_pi - gammaln(alpha)).sum(LABELS) + gammaln(alpha.sum(LABELS))
        return np.asarray(out + rows.sum((1, 2)) + sampler.confusion.log_density(state.confusion, len(out)))


def _arrays(state: State) -> list[Array]:
    """All arrays of a state, each with the chains first."""
    of_confusion = [] if state.confusion is None else list(state.confusion)
    return [state.weights, state.scale, state.log_pi, state.g, *of_confusion]


def _with_arrays(like: State, arrays: list[Any]) -> State:
    """The state that has these arrays, in the order of `_arrays`."""
    weights, scale, log_pi, g, *of_confusion = arrays
    confusion = None if like.confusion is None else type(like.confusion)(*of_confusion)
    return State(weights, scale, log_pi, confusion, g)


def _taken(state: State, rows: NDArray[np.int64]) -> State:
    """Some of the chains."""
    return _with_arrays(state, [part[rows] for part in _arrays(state)])
