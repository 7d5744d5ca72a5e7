"""q(π): one Dirichlet for every row of every source's confusion matrix.   alpha [S, J, L]"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, zeta

from crowdfield.arrays import Array
from crowdfield.inference.data import Block


def expected_log_pi(alpha: Array) -> Array:
    """E[log π] under q(π) = Dir(α); paper, "Confusion Matrix Rows".   alpha [S, J, L] -> [S, J, L]"""
    return np.asarray(digamma(alpha) - digamma(alpha.sum(axis=-1, keepdims=True)))


def expected_pi(alpha: Array) -> Array:
    """E[π].   alpha [S, J, L] -> [S, J, L]"""
    return np.asarray(alpha / alpha.sum(axis=-1, keepdims=True))


def covariance_of_log_pi(alpha: Array) -> Array:
    """Cov(log π_l, log π_m), row by row; also ∂E[log π_l] / ∂α_m.   alpha [S, J, L] -> [S, J, L, L]"""
    labels = range(alpha.shape[-1])
    out = -np.broadcast_to(zeta(2.0, alpha.sum(-1))[:, :, None, None], (*alpha.shape, len(labels))).copy()
    out[..., labels, labels] += zeta(2.0, alpha)  # trigamma
    return out


def counts(block: Block, r: Array, n_sources: int, n_labels: int) -> Array:
    """Pseudo-counts N_jl of every source: Σ_i r_ij δ(l, c_i); additive over blocks.   r [n, J] -> [S, J, L]"""
    rows = n_sources * n_labels
    each = block.times(r[block.site])
    columns = [np.bincount(block.key, weights=each[:, j], minlength=rows) for j in range(r.shape[1])]
    table = np.stack(columns, axis=1).astype(np.float64, copy=False)
    return table.reshape(n_sources, n_labels, -1).transpose(0, 2, 1)


def missing(block: Block, r: Array, n_sources: int, n_labels: int) -> Array:
    """Derivative of the counts, ∂N_jl / ∂ log π_kl = Σ_i δ(l, c_i) (r_ij δ_jk − r_ij r_ik).  [S, L, J, J]

    This is EM's missing information: it is large where q(t) is uncertain, and makes EM slow.
    """
    states, rows = r.shape[1], n_sources * n_labels
    table = np.zeros((rows, states, states))
    for j in range(states):
        for k in range(j):
            both = np.bincount(block.key, weights=block.times((r[:, j] * r[:, k])[block.site]), minlength=rows)
            table[:, j, k] = table[:, k, j] = -both
            table[:, j, j] += both
            table[:, k, k] += both
    return table.reshape(n_sources, n_labels, states, states)


class Response(NamedTuple):
    """How the expected counts of every source respond to a change, to first order and source by source.

    One update takes the counts N to N'. Around N it is linear with the Jacobian A, which follows from `missing` and
    from ∂E[log π]/∂N. A disturbance of the counts by d moves the fixed point of the update by (I − A)⁻¹ d.
    """

    counts: Array  # N [S, J, L]
    most: Array  # [S, 1, L] reports with each label
    inverse: Array  # (I − A)⁻¹ [S, J L, J L]
    slope: Array  # ∂E[log π_kl] / ∂N_km [S, J, L, L]
    step: Array  # from N to the fixed point [S, J, L]

    def counts_for(self, by_key: Array) -> Array:
        """The change of the counts' fixed point due to a change of the responsibilities by the field; two states.

        by_key: the change of Σ r_1 over the reports of every source and label.   [S · L] -> [S, J, L]
        """
        S, J, L = self.counts.shape
        moved = by_key.reshape(S, L)
        both = np.stack([-moved, moved], axis=1).reshape(S, J * L, 1)
        return np.asarray((self.inverse @ both).reshape(S, J, L))

    def log_odds(self, change: Array) -> Array:
        """The change of a report's log odds due to a change of the counts; two states.   [S, J, L] -> [S · L]"""
        moved = np.einsum("sklm,skm->skl", self.slope, change)
        return np.asarray(moved[:, 1] - moved[:, 0]).ravel()

    def replace_impossible(self, counts: Array, plain: Array) -> Array:
        """The counts, but those of the plain update for sources whose counts are negative or exceed their reports.

        [S, J, L], [S, J, L] -> [S, J, L]
        """
        possible = ((counts >= 0.0) & (counts <= self.most)).all(axis=(1, 2), keepdims=True)
        return np.asarray(np.where(possible, counts, plain))


def response(counts: Array, image: Array, alpha0: Array, missing: Array) -> Response:
    """The response of the expected counts to a change, and Newton's step to their fixed point."""
    S, J, L = counts.shape
    slope = covariance_of_log_pi(alpha0 + np.maximum(counts, 0.0))
    A = np.einsum("sljk,sklm->sjlkm", missing, slope).reshape(S, J * L, J * L)
    inverse = np.linalg.inv(np.eye(J * L) - A)
    step = (inverse @ (image - counts).reshape(S, J * L, 1)).reshape(S, J, L)
    return Response(counts, image.sum(axis=1, keepdims=True), inverse, slope, step)


def by_report(table: Array) -> Array:
    """A table [S, J, L] rearranged so that a report's key selects its row: [S·L, J]."""
    return np.ascontiguousarray(table.transpose(0, 2, 1).reshape(-1, table.shape[1]))


def likelihood_by_site(block: Block, table: Array) -> Array:
    """Σ over the reports of each site of the row that its key selects, as often as each counts.   [S·L, J] -> [n, J]"""
    return _sums(block, (column[block.key] for column in np.ascontiguousarray(table.T)))


def sum_by_site(block: Block, values: Array) -> Array:
    """Σ over the reports of each site, as often as each counts.   values [Rb, J] -> [n, J]"""
    return _sums(block, values.T)


def _sums(block: Block, columns: Iterable[Array]) -> Array:
    """Σ over the reports of each site, column by column.   -> [n, columns]"""
    return np.stack([np.bincount(block.site, block.times(column), block.n) for column in columns], axis=1)


def kl(alpha: Array, alpha0: Array) -> float:
    """Σ KL(Dir(α) ‖ Dir(α0)) over sources and rows."""
    total, total0 = alpha.sum(-1), alpha0.sum(-1)
    gap = ((alpha - alpha0) * expected_log_pi(alpha)).sum(-1)
    rows = gammaln(total) - gammaln(total0) - (gammaln(alpha) - gammaln(alpha0)).sum(-1) + gap
    return float(rows.sum())
