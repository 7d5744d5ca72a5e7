"""IBCC: independent Bayesian classifier combination by variational Bayes (Kim and Ghahramani 2012; Simpson 2013).

The model of the paper without a field: every site's state comes from the same class proportions κ ~ Dirichlet(ν0).
N sites, S sources, J states, L labels.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.special import digamma, gammaln

from crowdfield.arrays import Array

Codes = NDArray[np.int64]


class Posterior(NamedTuple):
    """q(t) as r [N, J], q(π) as alpha [S, J, L], q(κ) as nu [J]."""

    r: Array
    alpha: Array
    nu: Array


class Info(NamedTuple):
    """How the run went: the bound after every step, and whether it converged."""

    bound: Array
    converged: bool


class Counts(NamedTuple):
    """How often each (source, label) pair was said of each site: [N, S·L], sparse, by rows and by columns.

    Both orders are kept because one step sums over sites' reports and then over sources' reports.
    """

    by_site: csr_array
    by_source: csr_array


def count(site: Codes, source: Codes, label: Codes, shape: tuple[int, int, int]) -> Counts:
    """Reports as counts; shape is (N, S, L)."""
    N, S, L = shape
    table = coo_array((np.ones(len(site)), (site, source * L + label)), shape=(N, S * L)).tocsr()
    table.sum_duplicates()
    return Counts(table, csr_array(table.T.tocsr()))


def expected_log(alpha: Array) -> Array:
    """E[log π] under Dirichlet rows: Ψ(α) − Ψ(Σ α), over the last axis."""
    return np.asarray(digamma(alpha) - digamma(alpha.sum(axis=-1, keepdims=True)))


def dirichlet_kl(alpha: Array, alpha0: Array) -> float:
    """KL(Dir(α) ‖ Dir(α0)), summed over all rows."""
    log_normaliser = gammaln(alpha.sum(-1)) - gammaln(alpha).sum(-1)
    log_normaliser0 = gammaln(alpha0.sum(-1)) - gammaln(alpha0).sum(-1)
    return float((log_normaliser - log_normaliser0 + ((alpha - alpha0) * expected_log(alpha)).sum(-1)).sum())


def targets(counts: Counts, alpha: Array, nu: Array) -> tuple[Array, float]:
    """q(t) given q(π) and q(κ), and the log of its normaliser summed over sites; paper, eq. for q(t_i = j, c_i)."""
    S, J, L = alpha.shape
    log_pi = expected_log(alpha).transpose(0, 2, 1).reshape(S * L, J)
    joint = counts.by_site @ log_pi
    joint += expected_log(nu)
    # Column by column: NumPy reduces a short last axis ten times slower than it adds columns.
    top = reduce(np.maximum, joint.T)
    joint -= top[:, None]
    r = np.exp(joint, out=joint)
    total = reduce(np.add, r.T)
    r /= total[:, None]
    return r, float(top.sum() + np.log(total).sum())


def confusion_and_proportions(counts: Counts, alpha0: Array, nu0: Array, r: Array) -> tuple[Array, Array]:
    """q(π) and q(κ) given q(t): priors plus pseudo-counts."""
    S, J, L = alpha0.shape
    pseudo = (counts.by_source @ r).reshape(S, L, J).transpose(0, 2, 1)
    return alpha0 + pseudo, nu0 + r.sum(axis=0)


def run(counts: Counts, alpha0: Array, nu0: Array, *, max_iter: int, tol: float) -> tuple[Posterior, Info]:
    """Coordinate ascent from the prior until every probability is estimated to be within `tol` of its limit."""
    r, _ = targets(counts, alpha0, nu0)
    bound: list[float] = []
    before = np.inf
    alpha, nu = alpha0, nu0
    for _ in range(max_iter):
        alpha, nu = confusion_and_proportions(counts, alpha0, nu0, r)
        new, log_z = targets(counts, alpha, nu)
        # With r at its optimum the expectations over t collapse into the normaliser.
        bound.append(log_z - dirichlet_kl(alpha, alpha0) - dirichlet_kl(nu, nu0))
        change = float(np.abs(new - r).max())
        r = new
        # Steps shrink by a constant factor in the end, so what is left is a geometric series, not the last step.
        rate = min(change / before, 1.0) if before > 0 else 0.0
        if change <= tol * (1.0 - rate):
            return Posterior(r, alpha, nu), Info(np.array(bound), True)
        before = change
    return Posterior(r, alpha, nu), Info(np.array(bound), False)
