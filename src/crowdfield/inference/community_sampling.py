"""Communities of sources, sampled: the same hierarchical prior as `communities`, as a part of the Gibbs sweep.

Given the states t, a source's counts n_s are Dirichlet-multinomial under the prior β of its community, with π summed
out. So, before π is drawn: z_s | n, β, weights (which community); weights | z; β | z, n by Metropolis steps on log β.
The rows of β are independent given z: all rows of all communities and chains are proposed and judged at once.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.arrays import Array
from crowdfield.inference.communities import (
    CROWD_WEIGHT,
    MOST_COMMUNITIES,
    STRENGTH_RATE,
    Communities,
    log_dirichlet_multinomial,
    pseudo_sources,
    speaks_against,
)
from crowdfield.inference.confusion_prior import centred

LABELS = -2  # the axis of labels: Gibbs keeps matrices as [..., L, J]

# Standard deviations of the proposals for log Σβ and for each log β: three Metropolis steps.
STEPS = ((0.7, 0.0), (0.0, 0.5), (0.25, 0.25))


class CommunityState(NamedTuple):
    """The state of the communities in every chain."""

    beta: Array  # [C, k, L, J] for C chains
    weight: Array  # [C, k]
    member: NDArray[np.int64]  # [C, S]


class CommunityPrior:
    """k communities, or at most MOST_COMMUNITIES with weights that prefer few (a finite Dirichlet process)."""

    def __init__(self, k: int | str, base: Array, own: Array, free: NDArray[np.bool_]):
        """base [J, L] or [B, J, L]: what pseudo-sources of every community have said; own [S, J, L]: priors of the
        sources that belong to none."""
        self.size = MOST_COMMUNITIES if k == "learn" else int(k)
        self.concentration = CROWD_WEIGHT / self.size if k == "learn" else CROWD_WEIGHT
        self.pseudo = np.ascontiguousarray(pseudo_sources(base).swapaxes(-1, -2))[:, 0]  # [B, L, J]
        self.base = self.pseudo.mean(0)  # [L, J]
        self.own = np.ascontiguousarray(own.transpose(0, 2, 1))
        self.free = free

    def init(self, chains: int, rng: np.random.Generator) -> CommunityState:
        """Communities at the start: from the prior down to uninformative ones, as in the variational fit."""
        share = np.linspace(1.0, 0.0, self.size)[:, None, None] if self.size > 1 else np.ones((1, 1, 1))
        beta = share * self.base + (1.0 - share) * self.base.mean(axis=0)
        return CommunityState(
            np.broadcast_to(beta, (chains, *beta.shape)) * np.exp(0.1 * rng.standard_normal((chains, *beta.shape))),
            np.full((chains, self.size), 1.0 / self.size),
            rng.integers(0, self.size, (chains, len(self.free))),
        )

    def at(self, found: Communities, chains: int, rng: np.random.Generator) -> CommunityState:
        """Chains that start from communities that were found before."""
        beta = np.ascontiguousarray(found.beta.transpose(0, 2, 1))
        return CommunityState(
            np.broadcast_to(beta, (chains, *beta.shape)).copy(),
            np.broadcast_to(found.weight, (chains, len(found.weight))).copy(),
            rng.choice(len(found.weight), (chains, len(self.free)), p=found.weight),
        )

    def alpha0(self, state: CommunityState) -> Array:
        """The prior pseudo-counts of every source, by its community: [C, S, L, J]."""
        chain = np.arange(len(state.member))[:, None]
        return np.where(self.free[:, None, None], state.beta[chain, state.member], self.own)

    def step(self, state: CommunityState, counts: Array, rng: np.random.Generator) -> CommunityState:
        """One Gibbs sweep: who belongs to which community, the sizes of the communities, then their matrices."""
        member = self._draw_members(state, counts, rng)
        weight = self._draw_weights(member, rng)
        beta = state.beta
        for strength, each in STEPS:
            beta = self._move(beta, member, counts, strength, each, rng)
        return CommunityState(beta, weight, member)

    @property
    def moving(self) -> NDArray[np.bool_]:
        """The sources that belong to communities."""
        return self.free

    def common(self, state: CommunityState, log_pi: Array) -> Array:
        """The log of the crowd's mean π, centred: [C, L, J]."""
        return centred(np.log(np.einsum("ck,cklj->clj", state.weight, _meaning(state.beta))))

    def shifted(self, state: CommunityState, shift: Array) -> CommunityState:
        """The same with the logs of all communities' mean π shifted; their tightness is held."""
        shifted = _meaning(state.beta) * np.exp(shift)[:, None]
        beta = state.beta.sum(LABELS, keepdims=True) * shifted / shifted.sum(LABELS, keepdims=True)
        return state._replace(beta=beta)

    def log_density(self, state: CommunityState, chains: int) -> Array:
        """The hyperprior's log density of log β; −∞ where the crowd would mean the opposite of what it says: [C]."""
        density = self._log_hyperprior(state.beta).sum((1, 2))
        return np.where(self._is_allowed(state.beta), density, -np.inf)

    def _log_hyperprior(self, beta: Array) -> Array:
        """What the pseudo-sources and the prior of the tightness say of log β, row by row: [C, k, J]."""
        seen = sum(log_dirichlet_multinomial(said, beta, LABELS) for said in self.pseudo)
        return np.asarray(seen + np.log(beta).sum(axis=2) - STRENGTH_RATE * beta.sum(axis=2))

    def _draw_members(self, state: CommunityState, counts: Array, rng: np.random.Generator) -> NDArray[np.int64]:
        """The community of every source, drawn given the matrices and sizes of the communities.   [C, S]"""
        if self.size == 1:
            return np.zeros_like(state.member)
        fit = log_dirichlet_multinomial(counts[:, :, None], state.beta[:, None], LABELS).sum(-1)  # [C, S, k]
        with np.errstate(divide="ignore"):  # a weight may underflow to zero
            fit += np.log(state.weight)[:, None]
        # The largest of log p + Gumbel noise is a draw from p.
        return np.asarray((fit + rng.gumbel(size=fit.shape)).argmax(-1))

    def _draw_weights(self, member: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """The sizes of the communities given their members: Dirichlet draws [C, k]."""
        sizes = (member[:, self.free, None] == np.arange(self.size)).sum(axis=1)
        draws = rng.standard_gamma(sizes + self.concentration)
        return np.asarray(draws / draws.sum(axis=1, keepdims=True))

    def _log_target(self, beta: Array, member: NDArray[np.int64], counts: Array) -> Array:
        """log p(β | z, n) of log β, row by row: [C, k, J]. Every community has the pseudo-sources, too."""
        chain = np.arange(len(member))[:, None]
        sources = np.flatnonzero(self.free)
        rows = log_dirichlet_multinomial(counts[:, sources], beta[chain, member[:, sources]], LABELS)  # [C, S, J]
        total = self._log_hyperprior(beta)
        np.add.at(total, (chain, member[:, sources]), rows)
        return total

    def _move(
        self,
        beta: Array,
        member: NDArray[np.int64],
        counts: Array,
        strength: float,
        each: float,
        rng: np.random.Generator,
    ) -> Array:
        """A Metropolis step of every matrix: its overall strength and its single entries are proposed together."""
        shape = (*beta.shape[:2], 1, beta.shape[3])
        proposed = beta * np.exp(strength * rng.standard_normal(shape) + each * rng.standard_normal(beta.shape))
        gain = self._log_target(proposed, member, counts) - self._log_target(beta, member, counts)
        accept = np.log(rng.random(gain.shape)) < gain
        for state in range(beta.shape[-1]):  # in turn: which rows are allowed depends on the others
            row = np.arange(beta.shape[-1]) == state
            moved = np.where(row & accept[:, :, None, state, None], proposed, beta)
            beta = np.where(self._is_allowed(moved)[:, None, None, None], moved, beta)
        return beta

    def _is_allowed(self, beta: Array) -> NDArray[np.bool_]:
        """Whether the labels of the whole crowd, which one community is, mean what they say: [C]."""
        if self.size > 1:
            return np.ones(len(beta), dtype=bool)
        rows = _meaning(beta)[:, 0].swapaxes(-1, -2)
        pairs = combinations(range(rows.shape[-2]), 2)
        return np.asarray(~np.any([speaks_against(self.base.T, rows, j, k) for j, k in pairs], axis=0))


def _meaning(beta: Array) -> Array:
    """The mean π of every community: [C, k, L, J]."""
    return np.asarray(beta / beta.sum(LABELS, keepdims=True))


def summarise(prior: CommunityPrior, states: list[CommunityState]) -> tuple[Communities, Array]:
    """The communities on average, and each source's share in them [S, k].

    Draws name communities in any order; here the first is the one that agrees most with the base prior.
    """
    meaning = prior.base / prior.base.sum(axis=0)
    beta_sum = np.zeros((prior.size, *prior.base.shape))
    weight_sum, share = np.zeros(prior.size), np.zeros((len(prior.free), prior.size))
    chains = len(states[0].weight)
    for state in states:
        rows = state.beta / state.beta.sum(axis=2, keepdims=True)
        order = np.argsort(-(rows * meaning).sum(axis=(2, 3)), axis=1, kind="stable")  # [C, k]
        place = np.argsort(order, axis=1)
        for c in range(chains):
            beta_sum += state.beta[c, order[c]]
            weight_sum += state.weight[c, order[c]]
            share[np.arange(len(share)), place[c, state.member[c]]] += 1.0
    draws = chains * len(states)
    beta = (beta_sum / draws).transpose(0, 2, 1)
    return Communities(beta, weight_sum / draws, prior.free), share / draws
