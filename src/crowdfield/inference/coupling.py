"""How the map and the sources answer each other, where both are unsure: Cov(f, log π), for two states.

Reporters who always say 0 fit a world that is mostly 0, and a world where they are biased, and all between. A q that
holds the sources fixed while it looks at f is then far too sure of both. Here q(f, log π) is jointly Gaussian to second
order. A report of label l by source s enters only through δ_sl = log π_1l − log π_0l, so its place sees x = f + δ with
r = σ(x), and the curvature of its log likelihood in (f, δ) is that of log(1 + e^x) − log(1 + e^f):

    f, f: κ − E[ρ(1−ρ)]      f, δ: κ      δ, δ: κ      with κ = E[r(1−r)], the missing information.

With T = Cov(δ) if all t were known (Dirichlet rows), w the weights of the field and φ their features, sums over the
reports of each (s, l) say all that is needed: K = Σ κ and B = Σ κ φ.   docs/inference.md
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference import confusion
from crowdfield.inference.data import Block, Data
from crowdfield.inference.fields.base import Array, Engine, FeatureEngine

MOST_REPORTS = 20_000  # beyond, the covariance is dear, and sources are held
MOST_ENTRIES = 1 << 25  # of the features of all reports: 256 MB
MOST_COVARIANCES = 1 << 23  # between sources and weights, B: 64 MB, and as many times m operations a sweep
MOST_MISSING = 0.98  # of what is known about a source if all t were: a share of one would leave nothing known


class Coupling(NamedTuple):
    """Sums over reports; additive over blocks."""

    missing: Array  # K [S, L]
    projected: Array  # B [S, L, m]

    def __add__(self, other: Coupling) -> Coupling:  # type: ignore[override]
        return Coupling(self.missing + other.missing, self.projected + other.projected)


class Conditional(NamedTuple):
    """The sources given the field: δ = E[δ] + Q Bᵀ(w − E[w]) + what is left, of covariance Q."""

    complete: Array  # [S, J, L, L] Cov(log π_j) if all t were known
    left: Array  # Q [S, L, L]
    slope: Array  # Q Bᵀ [S, L, m]

    def relief(self, sums: Coupling) -> Array:
        """B Q Bᵀ [m, m]: how much less than its sites say the field is held, when the sources may answer."""
        m = self.slope.shape[-1]
        return np.asarray(sums.projected.reshape(-1, m).T @ self.slope.reshape(-1, m))


class Joint(NamedTuple):
    """The sources together with the field."""

    log_pi: Array  # [S, J, L] E[log π]
    variance: Array  # [S, L] Var(δ)
    with_field: Array  # [S, L, m] Cov(δ, w)


def worthwhile(data: Data, engine: Engine) -> bool:
    """Two states, dense features, and so few reports that sources are unsure, and that it costs little."""
    reports = len(data.site)
    return (
        data.n_states == 2
        and data.n_labels > 1  # a source that can say one thing only says nothing
        and isinstance(engine, FeatureEngine)
        and reports <= MOST_REPORTS
        and reports * engine.size <= MOST_ENTRIES
        and data.n_sources * data.n_labels * engine.size <= MOST_COVARIANCES
    )


def able(engine: Engine) -> FeatureEngine:
    if not isinstance(engine, FeatureEngine):
        raise TypeError(f"the {engine.name} engine cannot couple sources and field.")
    return engine


class Design(NamedTuple):
    """The reports of a block in the order of their (s, l), with the features of their sites."""

    order: NDArray[np.int64]  # [R]
    runs: list[tuple[int, slice]]  # every (s, l) that occurs, as a key, and its reports
    phi: Array  # [R, m]


def design(features: Array, block: Block) -> Design:
    """From the features [n, m] of a block's sites."""
    order = np.argsort(block.key, kind="stable")
    keys, first = np.unique(block.key[order], return_index=True)
    ends = [*first[1:].tolist(), len(order)]
    runs = [(k, slice(a, b)) for k, a, b in zip(keys.tolist(), first.tolist(), ends, strict=True)]
    return Design(order, runs, features[block.site[order]])


def of(data: Data, block: Block, design: Design, doubt: Array | None) -> Coupling:
    """K and B of a block, from κ [n] at its sites."""
    if doubt is None:
        raise TypeError("sources and field are coupled for two states only, with t summed out.")
    each, keys = doubt[block.site], data.n_sources * data.n_labels
    projected, ordered = np.zeros((keys, design.phi.shape[1])), each[design.order]
    for key, run in design.runs:
        projected[key] = ordered[run] @ design.phi[run]
    if block.repeats is not None:
        each = each * block.repeats[:, 0]  # the same said twice moves x twice as far, and its square four times
    missing = np.bincount(block.key, weights=each, minlength=keys).astype(np.float64, copy=False)
    shape = data.n_sources, data.n_labels
    return Coupling(missing.reshape(shape), projected.reshape(*shape, -1))


def added_variance(joint: Joint, block: Block, design: Design) -> Array:
    """Var(x) − Var(f) at the sites of a block, x = f + Σ δ over the reports there: [n]"""
    each = joint.variance.ravel()[block.key]
    if block.repeats is not None:
        each = each * block.repeats[:, 0]
    weights, shared = joint.with_field.reshape(-1, design.phi.shape[1]), np.empty(len(each))
    for key, run in design.runs:
        shared[run] = design.phi[run] @ weights[key]
    each[design.order] += 2.0 * shared
    return np.asarray(np.bincount(block.site, weights=each, minlength=block.n))


def extended(joint: Joint, alpha0: Array) -> Joint:
    """With sources that nobody has heard of yet, and their prior α0 [S_new, J, L]."""
    unsure = np.einsum("sjll->sl", confusion.covariance_of_log_pi(alpha0))
    nothing = np.zeros((len(alpha0), *joint.with_field.shape[1:]))
    new = Joint(confusion.expected_log_pi(alpha0), unsure, nothing)
    return Joint(*(np.concatenate(both) for both in zip(joint, new, strict=True)))


def given_field(alpha: Array, sums: Coupling) -> Conditional:
    """Q = (T⁻¹ − K)⁻¹, source by source: complete less missing information."""
    complete = confusion.covariance_of_log_pi(alpha)
    T = complete.sum(1)
    root = np.sqrt(np.maximum(sums.missing, 0.0))
    share, V = np.linalg.eigh(root[:, :, None] * T * root[:, None, :])
    reach = T @ (root[:, :, None] * V)  # T K^½ V
    left = T + (reach / (1.0 - np.minimum(share, MOST_MISSING))[:, None, :]) @ reach.transpose(0, 2, 1)
    return Conditional(complete, left, left @ sums.projected)


def with_field(alpha: Array, given: Conditional, covariance: Array) -> Joint:
    """What not knowing the field adds, once its covariance [m, m] is known."""
    S, L, m = given.slope.shape
    shared = (given.slope.reshape(-1, m) @ covariance).reshape(S, L, m)
    total = given.left + shared @ given.slope.transpose(0, 2, 1)
    T = given.complete.sum(1)
    # log π_j follows δ by ±T_j T⁻¹; what δ's variance exceeds T by, it takes along. A mean probability stays what it
    # is, so that its log falls by half of that: what the digamma function does for a Dirichlet alone.
    follow = np.linalg.solve(T[:, None], given.complete)  # T⁻¹ T_j
    wider = np.einsum("sjkl,skn,sjnl->sjl", follow, total - T, follow)
    return Joint(confusion.expected_log_pi(alpha) - 0.5 * wider, np.einsum("sll->sl", total), shared)
