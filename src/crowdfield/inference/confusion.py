"""q(π): one Dirichlet for every row of every source's confusion matrix.   alpha [S, J, L]"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from crowdfield.inference.data import Block

Array = NDArray[np.float64]


def expected_log_pi(alpha: Array) -> Array:
    """E[log π] under q(π) = Dir(α); paper, "Confusion Matrix Rows".   alpha [S, J, L] -> [S, J, L]"""
    return np.asarray(digamma(alpha) - digamma(alpha.sum(axis=-1, keepdims=True)))


def expected_pi(alpha: Array) -> Array:
    """E[π].   alpha [S, J, L] -> [S, J, L]"""
    return np.asarray(alpha / alpha.sum(axis=-1, keepdims=True))


def counts(block: Block, r: Array, n_sources: int, n_labels: int) -> Array:
    """Pseudo-counts N_jl of every source: Σ_i r_ij δ(l, c_i); additive over blocks.   r [n, J] -> [S, J, L]"""
    rows = n_sources * n_labels
    columns = [np.bincount(block.key, weights=r[block.site, j], minlength=rows) for j in range(r.shape[1])]
    table = np.stack(columns, axis=1).astype(np.float64, copy=False)
    return table.reshape(n_sources, n_labels, -1).transpose(0, 2, 1)


def by_report(table: Array) -> Array:
    """[S, J, L] as rows that a report's key selects: [S·L, J]."""
    return np.ascontiguousarray(table.transpose(0, 2, 1).reshape(-1, table.shape[1]))


def sum_by_site(block: Block, values: Array) -> Array:
    """Σ over the reports of each site.   values [Rb, J] -> [n, J]"""
    columns = [np.bincount(block.site, weights=values[:, j], minlength=block.n) for j in range(values.shape[1])]
    return np.stack(columns, axis=1)


def kl(alpha: Array, alpha0: Array) -> float:
    """Σ KL(Dir(α) ‖ Dir(α0)) over sources and rows."""
    total, total0 = alpha.sum(-1), alpha0.sum(-1)
    gap = ((alpha - alpha0) * expected_log_pi(alpha)).sum(-1)
    rows = gammaln(total) - gammaln(total0) - (gammaln(alpha) - gammaln(alpha0)).sum(-1) + gap
    return float(rows.sum())
