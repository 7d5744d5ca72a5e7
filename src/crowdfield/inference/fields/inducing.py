"""Inducing points: irregular places, and inputs of any number of columns.

With Z a few of the places and LLᵀ = k(Z, Z), the features φ(x) = L⁻¹ k(Z, x) carry all that g(Z) says about g(x):
φ(x)·φ(x′) = k(x, Z) k(Z, Z)⁻¹ k(Z, x′), the Nyström approximation, and k(x, x) − |φ(x)|² is the variance that g(x)
keeps once g(Z) is known. The posterior of the weights is then the optimal variational one for these Z.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from crowdfield.errors import InputError
from crowdfield.inference.blur import coordinates
from crowdfield.inference.fields.base import Array, cholesky
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.kernels import Kernel

SIZE = 512
TOLERANCE = 1e-4  # a place whose conditional variance is below this adds nothing to the inducing points
CANDIDATES = 10_000  # places among which inducing points are chosen
JITTER = 1e-9  # share of the prior variance added to the diagonal: under a longer length-scale, points nearly coincide
ENTRIES = 1 << 21  # entries of the features processed at a time: 16 MB


def pivots(kernel: Kernel, X: Array, size: int, tolerance: float) -> tuple[NDArray[np.int64], Array]:
    """Places chosen by pivoted Cholesky, and the factor L of their covariance.

    Each choice is the place with the largest variance given the earlier ones: greedy, deterministic, and never two
    places so close that their covariance is singular. O(n · size²), without an n × n matrix.
    """
    remaining = kernel.variance(X).copy()
    factor = np.empty((len(X), min(size, len(X))))
    chosen: list[int] = []
    for j in range(factor.shape[1]):
        best = int(np.argmax(remaining))
        if remaining[best] <= tolerance:
            break
        column = kernel.covariance(X, X[best : best + 1])[:, 0] - factor[:, :j] @ factor[best, :j]
        factor[:, j] = column / np.sqrt(remaining[best])
        remaining -= factor[:, j] ** 2
        remaining[best] = 0.0  # exactly, whatever rounding says: a place is never picked twice
        chosen.append(best)
    picked = np.array(chosen)
    return picked, np.tril(factor[picked][:, : len(chosen)])


@dataclass(frozen=True)
class Points:
    """A block of places; their features too, where those are few enough to keep."""

    X: Array
    features: Array | None = field(default=None, repr=False)


class InducingBasis(Basis):
    """Nyström features of inducing points among the places `X` [N, D]: at most `size`, fewer where that is enough.

    Among more than `candidates` places the points are sought in a random subset, with the extremes of every column.
    """

    name = "inducing"

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        size: int = SIZE,
        tolerance: float = TOLERANCE,
        rng: np.random.Generator | None = None,
        *,
        candidates: int = CANDIDATES,
    ):
        X = np.asarray(X, float)
        if X.ndim != 2 or not len(X) or size < 1:
            raise InputError("the inducing engine takes places [N, D], at least one, and at least one inducing point.")
        rng = np.random.default_rng(0) if rng is None else rng
        if len(X) > candidates:
            extremes = np.concatenate([X.argmin(0), X.argmax(0)])
            X = X[np.union1d(extremes, rng.choice(len(X), candidates, replace=False))]
        self.kernel, self.dimension = kernel, coordinates(kernel, X).shape[1]
        picked, self.root = pivots(kernel, X, size, tolerance)
        self.Z = X[picked]
        self.size = len(picked)

    def features(self, X: Array) -> Array:
        """φ as a dense matrix [M, m]: for Gibbs and for tests."""
        cross = self.kernel.covariance(self.Z, X)
        return np.asarray(sla.solve_triangular(self.root, cross, lower=True, overwrite_b=True, check_finite=False)).T

    def prior_root(self, kernel: Kernel) -> Array:
        """L⁻¹ times the Cholesky factor of the other kernel's covariance of the inducing points: [m, m]."""
        covariance = kernel.covariance(self.Z, self.Z)
        covariance[np.diag_indices_from(covariance)] += JITTER * float(np.diag(covariance).max(initial=0.0))
        root = cholesky(covariance, "the covariance of the inducing points under another length-scale")
        return np.asarray(sla.solve_triangular(self.root, root, lower=True, check_finite=False))

    def locate(self, X: Array) -> Points:
        """Prepare places for repeated use."""
        X = np.asarray(X, float)
        return Points(X, self.features(X) if len(X) * self.size <= ENTRIES else None)

    def features_at(self, points: Points) -> Array:
        """φ at located places, as a dense matrix [n, m]."""
        return self.features(points.X) if points.features is None else points.features

    def _chunks(self, points: Points) -> list[slice]:
        """Slices of the points whose features fit into memory."""
        rows = len(points.X) if points.features is not None else max(1, ENTRIES // self.size)
        return [slice(i, i + rows) for i in range(0, len(points.X), max(rows, 1))]

    def _features(self, points: Points, rows: slice) -> Array:
        """The features of some of the points, kept or computed.   -> [n, m]"""
        return self.features(points.X[rows]) if points.features is None else points.features[rows]

    def summarise(self, points: Points, eta: Array, lam: Array) -> tuple[Array, Array]:
        """Σ η φ and Σ λ φφᵀ over the points.   [m], [m, m]"""
        linear, quadratic = np.zeros(self.size), np.zeros((self.size, self.size))
        for rows in self._chunks(points):
            phi = self._features(points, rows)
            linear += phi.T @ eta[rows]
            weighted = np.sqrt(lam[rows])[:, None] * phi
            quadratic += weighted.T @ weighted
        return linear, quadratic

    def project(self, points: Points, eta: Array) -> Array:
        """Σ_i η_i φ(x_i): [m]."""
        return self.summarise(points, eta, np.zeros(len(points.X)))[0]

    def gram_statistics(self, points: Points, lam: Array) -> Array:
        """An additive form of Σ_i λ_i φ(x_i) φ(x_i)ᵀ, as small as the basis allows."""
        return self.summarise(points, np.zeros(len(points.X)), lam)[1]

    def gram(self, statistics: Array) -> Array:
        """The matrix Σ λ φφᵀ [m, m] of an additive form."""
        return statistics

    def evaluate(self, points: Points, weights: Array) -> Array:
        """φ(x_i)·w: [n] for weights [m], [n, k] for weights [m, k]."""
        out = np.empty((len(points.X), *weights.shape[1:]))
        for rows in self._chunks(points):
            out[rows] = self._features(points, rows) @ weights
        return out

    def evaluate_draws(self, X: Array, weights: Array) -> Array:
        """φ(x)·w for many w [m, n]: k(x, Z) L⁻ᵀ w, without a triangular solve for every place.   [M, D] -> [M, n]"""
        dual = sla.solve_triangular(self.root, weights, lower=True, trans="T", check_finite=False)
        out = np.empty((len(X), weights.shape[1]))
        rows = max(1, ENTRIES // max(self.size, 1))
        for start in range(0, len(X), rows):
            out[start : start + rows] = self.kernel.covariance(X[start : start + rows], self.Z) @ dual
        return out

    def variance(self, points: Points, covariance: Array) -> Array:
        """φ(x_i)ᵀ C φ(x_i) for a symmetric C [m, m]: [n]."""
        return self.moments(points, (np.zeros(self.size), covariance))[1]

    def moments(self, points: Points, folded: tuple[Array, Array]) -> tuple[Array, Array]:
        """Mean and variance of the features' part of f at the points.   [n], [n]"""
        weights, covariance = folded
        mean, variance = np.empty(len(points.X)), np.empty(len(points.X))
        for rows in self._chunks(points):
            phi = self._features(points, rows)
            mean[rows] = phi @ weights
            variance[rows] = np.einsum("ij,ij->i", phi @ covariance, phi)
        return mean, variance

    def residual_at(self, points: Points) -> Array:
        """Prior variance that the basis leaves out at located places: [n]."""
        out = np.empty(len(points.X))
        for rows in self._chunks(points):
            captured = (self._features(points, rows) ** 2).sum(1)
            out[rows] = np.maximum(self.kernel.variance(points.X[rows]) - captured, 0.0)  # −1e-16 at Z itself
        return out
