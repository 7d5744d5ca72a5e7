"""Rows of confusion matrices as Gaussians in logits: π = softmax(0, v), v ~ N(v̂, V), one entry per label but the first.

Axes: S sources, J states, L labels, D = L − 1 logits of a row, F latent functions, d logits of the rows that answer one
function: both rows for two states (whose one function is a difference), one row for each of three or more.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, ndtri, zeta

from crowdfield.inference.fields.base import Array

SOURCES_AT_A_TIME = 1 << 13
NODES = {0: 1, 1: 16, 2: 7}  # Gauss–Hermite nodes along each logit of a row; more logits take quasi-random nodes
QUASI_RANDOM = 6  # log2 of half their number
MOST_ADDED = 1.0  # multiple of a source's prior variance that the uncertainty of the field may add


class RowMoments(NamedTuple):
    """Expectations under q(v) that the sites and the next step need."""

    log_pi: Array  # E[log π] [S, J, L]
    pi: Array  # E[π] [S, J, L]
    fisher: Array  # E[diag π − ππᵀ] over all labels but the first [S, J, D, D]


@lru_cache
def _nodes(dimension: int) -> tuple[Array, Array]:
    """Nodes and weights for averages over a standard normal: Gauss-Hermite in few dimensions, else quasi-random."""
    if dimension in NODES:
        x, w = np.polynomial.hermite_e.hermegauss(NODES[dimension])
        mesh = np.stack(np.meshgrid(*[x] * dimension, indexing="ij"), -1) if dimension else np.zeros((1, 0))
        weights = np.ones(1)
        for _ in range(dimension):
            weights = np.multiply.outer(weights, w / w.sum()).ravel()
        return mesh.reshape(len(weights), dimension), weights
    from scipy.stats import qmc  # takes long to load, and few models need it

    half = ndtri(qmc.Sobol(dimension, scramble=True, seed=20170919).random_base2(QUASI_RANDOM))
    mesh = np.concatenate([half, -half])
    return mesh, np.full(len(mesh), 1.0 / len(mesh))


def moments(logits: Array, covariance: Array) -> RowMoments:
    """logits [S, J, D], covariance [S, J, D, D]"""
    S, J, D = logits.shape
    out = RowMoments(np.empty((S, J, D + 1)), np.empty((S, J, D + 1)), np.empty((S, J, D, D)))
    mesh, weights = _nodes(D)
    for start in range(0, S, SOURCES_AT_A_TIME):
        part = slice(start, start + SOURCES_AT_A_TIME)
        root = np.linalg.cholesky(covariance[part] + 1e-12 * np.eye(D))
        v = logits[part][:, :, None] + np.einsum("sjde,qe->sjqd", root, mesh)
        v = np.concatenate([np.zeros((*v.shape[:-1], 1)), v], axis=-1)
        top = v.max(-1, keepdims=True)
        normaliser = top[..., 0] + np.log(np.exp(v - top).sum(-1))
        pi = np.exp(v - normaliser[..., None])
        out.pi[part] = np.einsum("sjql,q->sjl", pi, weights)
        second = np.einsum("sjqd,sjqe,q->sjde", pi[..., 1:], pi[..., 1:], weights)
        out.fisher[part] = np.einsum("sjd,de->sjde", out.pi[part][..., 1:], np.eye(D)) - second
        out.log_pi[part] = _with_first(logits[part]) - (normaliser @ weights)[..., None]
    return out


def _with_first(logits: Array) -> Array:
    """The logit of the first label is zero."""
    return np.concatenate([np.zeros((*logits.shape[:-1], 1)), logits], axis=-1)


def of_dirichlet(alpha: Array) -> tuple[Array, Array]:
    """Mean and covariance of the logits of a Dirichlet row.   alpha [S, J, L] -> [S, J, D], [S, J, D, D]"""
    trigamma = zeta(2.0, alpha)
    covariance = trigamma[..., 1:, None] * np.eye(alpha.shape[-1] - 1) + trigamma[..., :1, None]
    return digamma(alpha[..., 1:]) - digamma(alpha[..., :1]), covariance


def covariance_of(prior: Array, reports: Array) -> Array:
    """(prior + reports)⁻¹, where no direction is more uncertain than under the prior.   [..., d, d]"""
    root = np.linalg.inv(np.linalg.cholesky(prior))
    share, U = np.linalg.eigh(root @ reports @ root.swapaxes(-1, -2))
    reach = root.swapaxes(-1, -2) @ U
    return np.asarray((reach / (1.0 + np.maximum(share, 0.0))[..., None, :]) @ reach.swapaxes(-1, -2))


def as_dirichlet(pi: Array, fisher: Array) -> Array:
    """Dirichlet rows with the mean and the total variance that q(v) has.   -> alpha [S, J, L]

    tr E[diag π − ππᵀ] over all labels is 1 − E|π|²; for a Dirichlet it is (1 − |E π|²) Σα / (Σα + 1).
    """
    captured = np.einsum("sjdd->sj", fisher)
    first = pi[..., 0] - (pi[..., 0] ** 2 + _variance_of_first(pi, fisher))
    expected, flat = captured + first, 1.0 - (pi**2).sum(-1)
    lost = np.maximum(flat - expected, 1e-12 * flat + 1e-300)
    total = np.where(flat > 0.0, expected / lost, 1.0)  # a row of one label is always certain
    return np.asarray(pi * total[..., None])


def _variance_of_first(pi: Array, fisher: Array) -> Array:
    """Var(π_0) = Var(Σ_{l>0} π_l), from E[ππᵀ] = diag E[π] − fisher."""
    rest = pi[..., 1:]
    second = rest.sum(-1) - fisher.sum((-2, -1))
    return np.asarray(second - rest.sum(-1) ** 2)


def log_normaliser(alpha: Array) -> Array:
    """log of 1 / B(α), row by row: a Dirichlet's density of the logits is Π π^α / B(α).   [..., L] -> [...]"""
    return np.asarray(gammaln(alpha.sum(-1)) - gammaln(alpha).sum(-1))


class Layout(NamedTuple):
    """Which rows depend on which latent function, and with which sign."""

    rows: tuple[tuple[int, ...], ...]  # F
    signs: tuple[tuple[float, ...], ...]  # F
    logits: int  # D

    @classmethod
    def of(cls, states: int, labels: int) -> Layout:
        """The layout for J states and L labels."""
        if states == 2:
            return cls(((0, 1),), ((-1.0, 1.0),), labels - 1)
        return cls(tuple((j,) for j in range(states)), ((1.0,),) * states, labels - 1)

    @property
    def size(self) -> int:
        """d, the number of logits that depend on one function."""
        return len(self.rows[0]) * self.logits

    def stack(self, by_row: Array, signed: bool = False) -> Array:
        """Rearrange by function what is given by row.   [S, J, ..., D] -> [S, F, ..., d]"""
        groups = []
        for rows, signs in zip(self.rows, self.signs, strict=True):
            parts = [(s if signed else 1.0) * by_row[:, j] for j, s in zip(rows, signs, strict=True)]
            groups.append(np.concatenate(parts, axis=-1))
        return np.stack(groups, axis=1)

    def block(self, by_row: Array) -> Array:
        """Block-diagonal matrices by function from one matrix per row.   [S, J, D, D] -> [S, F, d, d]"""
        D, out = self.logits, np.zeros((len(by_row), len(self.rows), self.size, self.size))
        for f, rows in enumerate(self.rows):
            for i, j in enumerate(rows):
                part = slice(i * D, (i + 1) * D)
                out[:, f, part, part] = by_row[:, j]
        return out

    def unblock(self, by_function: Array) -> Array:
        """The blocks of single rows.   [S, F, d, d] -> [S, J, D, D]"""
        D, rows = self.logits, [j for group in self.rows for j in group]
        out = np.empty((len(by_function), len(rows), D, D))
        for f, group in enumerate(self.rows):
            for i, j in enumerate(group):
                part = slice(i * D, (i + 1) * D)
                out[:, j] = by_function[:, f, part, part]
        return out

    def unstack(self, by_function: Array, signed: bool = False) -> Array:
        """Rearrange by row what is given by function.   [S, F, d] -> [S, J, D]"""
        D, rows = self.logits, [j for group in self.rows for j in group]
        out = np.empty((len(by_function), len(rows), D))
        for f, (group, signs) in enumerate(zip(self.rows, self.signs, strict=True)):
            for i, j in enumerate(group):
                out[:, j] = (signs[i] if signed else 1.0) * by_function[:, f, i * D : (i + 1) * D]
        return out

    def directions(self, pi: Array) -> Array:
        """h: how the logits move the log odds that a report of each label stands for; E[∂ log π_c / ∂v].

        pi [S, J, L] -> [S, F, L, d]
        """
        said = np.concatenate([np.zeros((1, self.logits)), np.eye(self.logits)])
        return self.stack(said - pi[:, :, None, 1:], signed=True)


def share_that_may_be_added(prior: Array, through_field: Array) -> Array:
    """The factor of the slopes at which the field adds no more variance to a source than allowed: [S, 1, 1].

    x is treated as Gaussian, which log π is not: where its variance is large the objective would be too high, and
    sources and field would diverge together.   prior, through_field [S, d, d]
    """
    root = np.linalg.inv(np.linalg.cholesky(prior))
    relative = root @ through_field @ root.swapaxes(-1, -2)
    widest = np.linalg.eigvalsh(0.5 * (relative + relative.swapaxes(-1, -2)))[:, -1]
    return np.asarray(np.minimum(1.0, np.sqrt(MOST_ADDED / np.maximum(widest, 1e-300))))[:, None, None]
