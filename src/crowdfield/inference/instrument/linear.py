"""The smooth part and the linear parts of the appearance as one Gaussian vector of weights.

f(x) = φ(x)·w + z(x)·β with w ~ N(0, v I) in a basis of the kernel and β ~ N(0, diag s²) for the intercept and the
covariates. Only what every `Basis` offers is used, so that all engines serve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from crowdfield.inference import blur
from crowdfield.inference.fields.base import Array, cholesky, inverse_from_cholesky
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.sites import over_rows

BLOCK = 1 << 15  # places at a time
SMALLEST_VARIANCE = 1e-12  # smallest variance of f: rounding may make it negative where reports determine f
DENSE_SPECTRAL = 1 << 20  # entries of φ: beyond, transforms are faster than matrix products
DENSE_OTHER = 1 << 26  # 512 MB: an inducing basis has no transforms
COLUMN_ROWS = 1 << 14  # places at a time where many columns are projected
DENSE_ROWS = 1 << 12  # rows of φ at a time, on every core: enough for fast matrix products


INTERCEPT_SD = 2.0  # logits: states from 2 % to 98 % of the map are likely
COVARIATE_SD = 1.0  # logits that one standard deviation of a covariate moves the appearance


@dataclass(frozen=True)
class Columns:
    """z: the intercept, then covariates; the prior standard deviation of each weight; and a known offset of f."""

    covariates: Callable[[Array], Array] | None = None  # [M, D] -> [M, C], standardised
    count: int = 0  # C
    offset: Callable[[Array], Array] | None = None  # [M, D] -> [M]

    @property
    def sd(self) -> Array:
        """The prior standard deviation of every weight: [1 + C]."""
        return np.array([INTERCEPT_SD] + [COVARIATE_SD] * self.count)

    def at(self, X: Array) -> Array:
        """The columns at places: the intercept, then the covariates.   [M, D] -> [M, 1 + C]"""
        ones = np.ones((len(X), 1))
        return ones if self.covariates is None else np.hstack([ones, self.covariates(X)])

    def offset_at(self, X: Array) -> Array:
        """The known offset of f at places: [M]."""
        return np.zeros(len(X)) if self.offset is None else self.offset(X)


class Design:
    """The places of the reports, prepared once for a basis: as a dense matrix where that is small, else through the
    basis' own transforms, which never form it.
    """

    def __init__(self, basis: Basis, columns: Columns, X: Array):
        self.basis, self.columns, self.X = basis, columns, X
        self.Z = blur.averaged(columns.at, X, basis.dimension)  # [N, C]
        self.offset = blur.averaged(columns.offset_at, X, basis.dimension)  # [N]
        lost = blur.lost_variance(basis.kernel, X)
        self.lost = np.zeros(len(X)) if lost is None else lost  # [N], of places that are known only roughly
        self.size = basis.size + self.Z.shape[1]
        self.points = basis.locate(X)
        dense = self.prefers_dense(len(X), basis)
        self.phi = np.hstack([basis.features_at(self.points), self.Z]) if dense else None  # [N, m + C]

    @property
    def is_dense(self) -> bool:
        """Whether the problem is small enough for the joint Newton step of field and sources."""
        return self.phi is not None

    @staticmethod
    def prefers_dense(n: int, basis: Basis) -> bool:
        """Whether a dense matrix of features is faster than the basis' transforms."""
        most = DENSE_SPECTRAL if basis.name == "spectral" else DENSE_OTHER
        return n * basis.size <= most

    @property
    def coordinates(self) -> Array:
        """Places without how inexact they are: [N, D]."""
        return self.X[:, : self.basis.dimension]

    def nuggets(self, smooth: float, nugget: float) -> Array:
        """The variance of the independent noise of every place: the nugget, and the variance lost by averaging. [N]"""
        return nugget + smooth * self.lost

    def precision(self, variance: float) -> Array:
        """The diagonal of the prior precision of the weights: [m + C]."""
        return np.concatenate([np.full(self.basis.size, 1.0 / variance), 1.0 / self.columns.sd**2])

    def project(self, values: Array) -> Array:
        """Σ_i v_i (φ_i, z_i): [m + C]."""
        if self.phi is not None:
            return np.asarray(self.phi.T @ values)
        return np.concatenate([self.basis.project(self.points, values), self.Z.T @ values])

    def evaluate(self, weights: Array) -> Array:
        """(φ_i, z_i) · w at all places: [N]."""
        if self.phi is not None:
            return np.asarray(self.phi @ weights)
        m = self.basis.size
        return np.asarray(self.basis.evaluate(self.points, weights[:m]) + self.Z @ weights[m:])

    def gram(self, lam: Array) -> Array:
        """Σ_i λ_i (φ_i, z_i)(φ_i, z_i)ᵀ: [m + C, m + C]."""
        if self.phi is not None:
            phi, root = self.phi, np.sqrt(lam)[:, None]
            return np.asarray(sum(over_rows(lambda rows: _outer(root[rows] * phi[rows]), len(lam), DENSE_ROWS)))
        m = self.basis.size
        out = np.empty((self.size, self.size))
        out[:m, :m] = self.basis.gram(self.basis.gram_statistics(self.points, lam))
        out[m:, m:] = self.Z.T @ (lam[:, None] * self.Z)
        for c in range(self.Z.shape[1]):
            out[:m, m + c] = out[m + c, :m] = self.basis.project(self.points, lam * self.Z[:, c])
        return out

    def project_columns(self, values: sp.csr_matrix | Array) -> Array:
        """Σ_i (φ_i, z_i) v_iᵀ for several columns of values [N, p], of which most are zero: [m + C, p]."""

        def of(rows: slice) -> Array:
            some = values[rows]
            if self.phi is not None or isinstance(some, np.ndarray):
                return np.asarray(some.T @ self.features(rows))
            entries = some.tocoo()
            place, column = entries.row.astype(np.int64), entries.col.astype(np.int64)
            pairs = self.basis.pairs(self.basis.locate(self.X[rows]), place, column, values.shape[1])
            return np.hstack([pairs.project(entries.data), some.T @ self.Z[rows]])

        return np.asarray(sum(over_rows(of, len(self.X), COLUMN_ROWS))).T

    def summarised(self, values: Array, lam: Array) -> tuple[Array, Array]:
        """`gram` of λ and `project` of the values."""
        return self.gram(lam), self.project(values)

    def moments(self, q: Weights) -> tuple[Array, Array]:
        """Mean and variance of f at the places: [N], [N]."""
        if self.phi is not None:
            phi, covariance = self.phi, q.covariance
            parts = over_rows(lambda rows: _quadratic(phi[rows], covariance), len(phi), DENSE_ROWS)
            return self.offset + phi @ q.mean, np.maximum(np.concatenate(parts), SMALLEST_VARIANCE)
        mean, variance = _moments(self.basis, self.points, self.Z, q)
        return self.offset + mean, variance

    def features(self, rows: slice) -> Array:
        """(φ, z) of some places as a dense matrix [n, m + C]."""
        if self.phi is not None:
            return self.phi[rows]
        return np.hstack([self.basis.features(self.X[rows]), self.Z[rows]])


def _outer(rows: Array) -> Array:
    """Σ over rows of their outer products with themselves."""
    return np.asarray(rows.T @ rows)


def _quadratic(rows: Array, matrix: Array) -> Array:
    """The diagonal of rows · matrix · rowsᵀ."""
    return np.asarray(np.einsum("nm,nm->n", rows @ matrix, rows))


class Weights(NamedTuple):
    """The Gaussian posterior q(w, β) of all weights."""

    mean: Array  # [m + C]
    covariance: Array  # [m + C, m + C]
    log_det: float  # of the covariance


def posterior(design: Design, eta: Array, lam: Array, variance: float) -> Weights:
    """The posterior q(w, β) from Gaussian sites."""
    precision, linear = design.summarised(eta - lam * design.offset, lam)
    precision[np.diag_indices_from(precision)] += design.precision(variance)
    root = cholesky(precision, "the posterior precision of the map")
    covariance = inverse_from_cholesky(root)
    return Weights(covariance @ linear, covariance, -2.0 * float(np.log(np.diag(root)).sum()))


def kl(design: Design, q: Weights, variance: float) -> float:
    """KL(q(w, β) ‖ p(w, β))."""
    precision = design.precision(variance)
    trace = float(precision @ (np.diag(q.covariance) + q.mean**2))
    return 0.5 * (trace - len(precision) - q.log_det - float(np.log(precision).sum()))


def _moments(basis: Basis, points: Any, Z: Array, q: Weights) -> tuple[Array, Array]:
    """Mean and variance of f where the basis has located places, with columns Z."""
    m = basis.size
    mean, variance = basis.moments(points, basis.fold(q.mean[:m], q.covariance[:m, :m]))
    cross = basis.evaluate(points, np.ascontiguousarray(q.covariance[:m, m:]))  # [n, C]
    variance = variance + 2.0 * (cross * Z).sum(1) + np.einsum("nc,cd,nd->n", Z, q.covariance[m:, m:], Z)
    return mean + Z @ q.mean[m:], np.maximum(variance, SMALLEST_VARIANCE)


class Surface(NamedTuple):
    """The posterior q(f) as a function of places."""

    basis: Basis
    columns: Columns
    q: Weights
    variance: float  # v of the smooth part

    def at(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of f at places [M, D], with the prior variance that the basis leaves out."""
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for start in range(0, len(X), BLOCK):
            rows = slice(start, start + BLOCK)
            points = self.basis.locate(X[rows])
            mean[rows], variance[rows] = _moments(self.basis, points, self.columns.at(X[rows]), self.q)
            mean[rows] += self.columns.offset_at(X[rows])
            variance[rows] += self.variance * self.basis.residual_at(points)
        return mean, variance

    def covariance_at(self, X: Array) -> Array:
        """The joint covariance of f at up to a few thousand places: [M, M]."""
        features = np.hstack([self.basis.features(X), self.columns.at(X)])
        left_out = self.basis.residual_covariance(X)
        if left_out is None:
            left_out = np.diag(self.basis.residual(X))
        return np.asarray(features @ self.q.covariance @ features.T + self.variance * left_out)
