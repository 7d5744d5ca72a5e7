"""Communities of sources: a hierarchical prior over confusion matrices, learned from everybody's counts.

A source s belongs to a community k with probability m_sk; its matrix has rows π_j ~ Dir(β_kj), and β is learned. The
estimate of a source with many reports is its own; with few, it is shrunk to its community; with none, it is that of the
population. k = 1 is a learned prior that all share (Moreno et al. 2015; Venanzi et al. 2014).

Given the sources' pseudo-counts n [S, J, L], the model of the counts is a mixture of Dirichlet-multinomials, fitted by
EM with Minka's fixed point for β. For one community this maximises the variational bound over β, because
E[log p(c | t, π)] − KL(q(π) ‖ Dir(β)) = log B(β + n) − log B(β).
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from crowdfield.arrays import Array

STRENGTH_RATE = 0.01  # rate of the exponential prior on Σ_l β_kjl: a community may be as tight as some hundred reports
EM_STEPS = 60  # EM steps per sweep; the next sweep continues from there
SETTLED_STEPS = 500  # EM steps when numbers of communities are compared
SETTLED = 1e-4  # relative change of β
OVERSTEP = 1.6  # Minka's iteration is slow; a longer step in log β has the same fixed point
MOST_COMMUNITIES = 6
LEAST = 1e-3  # smallest β: with less, a label that was never used would be impossible
OPPOSITE = 1e-9  # contrasts that are as far below zero are not rounding errors
CROWD_WEIGHT = 1.0  # prior pseudo-count of a community's weight


class Communities(NamedTuple):
    """The learned communities, and the sources that they are a prior for."""

    beta: Array  # [K, J, L]
    weight: Array  # [K]
    free: NDArray[np.bool_]  # [S] sources without a prior of their own

    def equals(self, other: Communities | None) -> bool:
        """Whether the other communities are these, and are a prior for the same sources."""
        return other is not None and all(np.array_equal(a, b) for a, b in zip(self, other, strict=True))

    @property
    def population(self) -> Array:
        """The prior of a source without reports: [J, L]."""
        return np.asarray(np.einsum("k,kjl->jl", self.weight, self.beta))


def pseudo_sources(base: Array) -> Array:
    """The hyperprior as sources that have said something in every community: [B, 1, J, L] from [J, L] (one) or
    [B, J, L]."""
    return base.reshape(-1, 1, *base.shape[-2:])


def pack(c: Communities) -> Array:
    """The learned parameters as one unconstrained vector."""
    return np.concatenate([np.log(c.beta).ravel(), np.log(c.weight)])


def unpack(like: Communities, z: Array) -> Communities:
    """The communities that a packed vector describes; the inverse of `pack`."""
    beta = np.exp(z[: like.beta.size]).reshape(like.beta.shape)
    weight = np.exp(z[like.beta.size :])
    return Communities(np.maximum(beta, LEAST), weight / weight.sum(), like.free)


def part_way(old: Communities, new: Communities, length: float) -> Communities:
    """Communities between two, on the scale of `pack`: the new ones at length 1."""
    return new if length == 1.0 else unpack(new, (1.0 - length) * pack(old) + length * pack(new))


def start(k: int, base: Array, counts: Array, free: NDArray[np.bool_]) -> Communities:
    """k communities, by cutting the sources in the order of how well they agree with the map."""
    base = pseudo_sources(base).mean((0, 1))
    if k == 1 or not counts.any():
        spread = np.linspace(1.0, 0.0, k)[:, None, None] if k > 1 else np.ones((1, 1, 1))
        flat = base.mean(-1, keepdims=True) * np.ones_like(base)
        # From the prior itself down to uninformative sources: communities must differ at the start to separate.
        return Communities(spread * base + (1.0 - spread) * flat, np.full(k, 1.0 / k), free)
    pi = (base + counts) / (base + counts).sum(-1, keepdims=True)
    agreement = np.einsum("sjl,jl->s", pi, base / base.sum(-1, keepdims=True))
    chosen = np.flatnonzero(free)
    groups = np.array_split(chosen[np.argsort(agreement[chosen], kind="stable")[::-1]], k)
    beta = np.stack([base + counts[g].sum(0) * 10.0 / (10.0 + counts[g].sum()) for g in groups])
    return Communities(beta, np.full(k, 1.0 / k), free)


def log_dirichlet_multinomial(counts: Array, beta: Array, labels: int = -1) -> Array:
    """log of the Dirichlet-multinomial of counts, without its constant; `labels` is the axis that is summed out."""
    total = beta.sum(labels)
    inside = (gammaln(beta + counts) - gammaln(beta)).sum(labels)
    return np.asarray(inside - gammaln(total + counts.sum(labels)) + gammaln(total))


def log_marginal(counts: Array, beta: Array) -> Array:
    """log p(counts) of every source [S, J, L] in each community [K, J, L], all rows together: [S, K]."""
    return np.asarray(log_dirichlet_multinomial(counts[:, None], beta).sum(-1))


def memberships(c: Communities, counts: Array) -> Array:
    """The probability of every source to belong to each community: [S, K]."""
    joint = log_marginal(counts, c.beta) + np.log(c.weight)
    joint -= joint.max(1, keepdims=True)
    m = np.exp(joint)
    return np.asarray(m / m.sum(1, keepdims=True))


def alpha0(c: Communities, counts: Array, own: Array) -> Array:
    """The prior of every source given its membership; sources with a prior of their own keep it. [S, J, L]"""
    return np.where(c.free[:, None, None], np.einsum("sk,kjl->sjl", memberships(c, counts), c.beta), own)


def _log_densities(c: Communities, log_pi: Array) -> Array:
    """log weight + E[log Dir(π | β_k)] of each source in each community, as a density of logits: [S, K]."""
    normaliser = (gammaln(c.beta.sum(-1)) - gammaln(c.beta).sum(-1)).sum(-1)
    return np.asarray(np.einsum("kjl,sjl->sk", c.beta, log_pi) + normaliser + np.log(c.weight))


def expected_alpha0(c: Communities, log_pi: Array, own: Array) -> Array:
    """Every source's prior given its membership by E[log π]; sources with a prior of their own keep it. [S, J, L]"""
    joint = _log_densities(c, log_pi)
    m = np.exp(joint - joint.max(1, keepdims=True))
    m /= m.sum(1, keepdims=True)
    return np.where(c.free[:, None, None], np.einsum("sk,kjl->sjl", m, c.beta), own)


def log_prior(c: Communities, log_pi: Array) -> float:
    """E[log p(π)] of the free sources, memberships summed out: their share of the objective."""
    joint = _log_densities(c, log_pi)[c.free]
    top = joint.max(1, initial=-np.inf)
    return float((top + np.log(np.exp(joint - top[:, None]).sum(1))).sum())


def log_hyperprior(c: Communities, base: Array) -> float:
    """log p(β, weights) up to a constant: `base` seen in pseudo-sources of every community, β not too tight."""
    seen = log_dirichlet_multinomial(pseudo_sources(base), c.beta).sum()
    return float(seen - STRENGTH_RATE * c.beta.sum() + CROWD_WEIGHT * np.log(c.weight).sum())


def update(c: Communities, counts: Array, base: Array, steps: int = EM_STEPS) -> Communities:
    """EM on the sources' counts. `base` adds pseudo-sources to every community: without them a label that nobody has
    used yet would become impossible, and labels could swap their meaning."""
    n, pseudo = counts[c.free], pseudo_sources(base)
    beta, weight = c.beta, c.weight
    for _ in range(steps):
        m = memberships(Communities(beta, weight, c.free), n)
        weight = (m.sum(0) + CROWD_WEIGHT) / (m.sum() + CROWD_WEIGHT * len(beta))
        total = beta.sum(-1, keepdims=True)
        up = np.einsum("sk,skjl->kjl", m, digamma(n[:, None] + beta) - digamma(beta))
        up += (digamma(pseudo + beta) - digamma(beta)).sum(0)
        row = n.sum(-1, keepdims=True)[:, None]
        down = np.einsum("sk,skjl->kjl", m, digamma(row + total) - digamma(total))
        down += (digamma(pseudo.sum(-1, keepdims=True) + total) - digamma(total)).sum(0)
        down += STRENGTH_RATE
        new = np.maximum(beta * (up / down) ** OVERSTEP, LEAST)
        if len(new) == 1:
            new = _with_labels_that_mean_what_they_say(new[0], beta[0], up[0], down[0], pseudo.mean((0, 1)))[None]
        moved = np.abs(new / beta - 1.0).max()
        beta = new
        if moved < SETTLED:
            break
    return Communities(beta, weight, c.free)


def speaks_against(base: Array, rows: Array, j: int, k: int) -> Array:
    """Whether a crowd with these rows means the opposite of what it says about states j and k.

    Labels that `base` takes for evidence of j rather than k are then on average rarer in j than in k.
    base [J, L], rows [..., J, L] -> [...]
    """
    evidence = np.log(base[j]) - np.log(base[k])
    return np.asarray((rows[..., j, :] - rows[..., k, :]) @ evidence < -OPPOSITE)


def _with_labels_that_mean_what_they_say(new: Array, old: Array, up: Array, down: Array, base: Array) -> Array:
    """A step of one community's prior, with one mean row m for two states about which it would mean the opposite.

    That is the boundary of what is allowed: such a crowd cannot tell these states apart. Minka's steps for rows s_j m
    of a common mean are m ← m Σ_j s_j up_j, normalised, and s_j ← s_j Σ_l m_l up_jl / down_j.
    new, old, up, base [J, L], down [J, 1]
    """
    sums, steps = new.sum(-1, keepdims=True), old * up
    rows, sums_given_mean = new / sums, old.sum(-1, keepdims=True) ** (1.0 - OVERSTEP)
    sums_given_mean = sums_given_mean * (steps.sum(-1, keepdims=True) / down) ** OVERSTEP
    for j, k in combinations(range(len(rows)), 2):
        if speaks_against(base, rows, j, k):
            both = [j, k]
            rows[both] = steps[both].sum(0) / steps[both].sum()
            sums[both] = sums_given_mean[both]
    return np.asarray(np.maximum(sums * rows, LEAST))


def log_likelihood(c: Communities, counts: Array) -> float:
    """log p(counts) of the mixture at its parameters, without the constant: what `update` raises."""
    n = counts[c.free]
    joint = log_marginal(n, c.beta) + np.log(c.weight)
    top = joint.max(1)
    return float((top + np.log(np.exp(joint - top[:, None]).sum(1))).sum())


def penalty(c: Communities, counts: Array, base: Array) -> float:
    """The penalty for the parameters of the communities when numbers of communities are compared.

    Laplace's approximation of the evidence subtracts, for every parameter, half the log of the ratio of its posterior
    to its prior information. For the mean of a row that is the Fisher information of all counts and of `base` against
    that of `base` alone; for the weight of a community, one unit per source. The tightness Σ_l β of a community has a
    prior and is hardly determined by sources with few reports: it costs nothing.
    """
    n = counts[c.free].sum(-1)[:, None]  # [S, 1, J]
    tightness = c.beta.sum(-1)  # [K, J]
    information = np.einsum("sk,skj->kj", memberships(c, counts[c.free]), _information_about_mean(n, tightness))
    gained = 1.0 + information / _information_about_mean(pseudo_sources(base).sum(-1), tightness).sum(0)
    k, _, labels = c.beta.shape
    return float(0.5 * (labels - 1) * np.log(gained).sum() + 0.5 * (k - 1) * np.log(max(int(c.free.sum()), 1)))


def _information_about_mean(n: Array, tightness: Array) -> Array:
    """Fisher information of n labels by one source about the mean row of its community, in labels by the mean itself.

    Labels by one source are correlated: however many, they tell no more than 1 + Σ_l β independent ones.
    """
    return n * (1.0 + tightness) / (n + tightness)
