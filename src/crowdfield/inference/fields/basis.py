"""The protocol of a basis: finitely many features f(x) = φ(x)·w, and the products that inference needs of them."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from crowdfield.inference.fields.base import Array
from crowdfield.inference.kernels import Kernel

Codes = NDArray[np.int64]
ROWS = 1 << 13  # reports processed at a time


class Pairs(Protocol):
    """Pairs of a place x_i and a group g, whose own function is asked for there."""

    def evaluate(self, weights: Array) -> Array:
        """φ(x_i)·w_g of every pair: [R].   weights [G, m]"""
        ...

    def project(self, values: Array) -> Array:
        """Σ v φ(x_i) over the pairs of every group: [G, m].   values [R]"""
        ...


class Basis(Protocol):
    """A finite basis of the prior, g(x) = φ(x)·w with w ~ N(0, I/ς), and the products that inference needs.

    `points` are places that the basis has prepared once (sorted, scaled, or turned into features).
    """

    name: str
    size: int  # m
    dimension: int  # D, the number of input columns
    kernel: Kernel

    def locate(self, X: Array) -> Any:
        """Prepare places for repeated use."""
        ...

    def project(self, points: Any, eta: Array) -> Array:
        """Σ_i η_i φ(x_i): [m]."""
        ...

    def gram_statistics(self, points: Any, lam: Array) -> Array:
        """An additive form of Σ_i λ_i φ(x_i) φ(x_i)ᵀ, as small as the basis allows."""
        ...

    def gram(self, statistics: Array) -> Array:
        """The matrix Σ λ φφᵀ [m, m] of an additive form."""
        ...

    def evaluate(self, points: Any, weights: Array) -> Array:
        """φ(x_i)·w: [n] for weights [m], [n, k] for weights [m, k]."""
        ...

    def variance(self, points: Any, covariance: Array) -> Array:
        """φ(x_i)ᵀ C φ(x_i) for a symmetric C [m, m]: [n]."""
        ...

    def residual(self, X: Array) -> Array:
        """Prior variance that the basis leaves out: k(x, x) − φ(x)·φ(x) ≥ 0, [M]."""
        return self.residual_at(self.locate(X))

    def residual_at(self, points: Any) -> Array:
        """Prior variance that the basis leaves out at located places: [n]."""
        ...

    def residual_covariance(self, X: Array) -> Array | None:
        """The joint covariance of the truncated part, [M, M]: k(X, X) − φφᵀ."""
        return None

    def is_same_as(self, other: Basis) -> bool:
        """Whether both bases have the same features, so that their weights are interchangeable."""
        return self is other

    def prior_root(self, kernel: Kernel) -> Array:
        """R with w ~ N(0, RRᵀ/ς) if the field has another kernel: [m, m], or [m] if R is diagonal."""
        ...

    @property
    def visible(self) -> Array | None:
        """Orthonormal columns U [m, r] such that sites only see Uᵀw; None if they may see all weights."""
        return None

    def features(self, X: Array) -> Array:
        """φ as a dense matrix [M, m]: for Gibbs and for tests."""
        ...

    def features_at(self, points: Any) -> Array:
        """φ at located places, as a dense matrix [n, m]."""
        ...

    # Functions of groups: every report of a source asks for that source's own function at the report's place.

    def pairs(self, points: Any, rows: Codes, group: Codes, count: int) -> Pairs:
        """Prepare pairs of a place (one of `rows` [R]) and a group [R] for repeated use; `count` groups in all."""
        return DensePairs(self, points, rows, group, count)

    # What a pass over the sites asks, two at a time. A basis that shares work between the two overrides these.

    def summarise(self, points: Any, eta: Array, lam: Array) -> tuple[Array, Array]:
        """`project` of η and `gram_statistics` of λ."""
        return self.project(points, eta), self.gram_statistics(points, lam)

    def fold(self, mean: Array, covariance: Array) -> Any:
        """Precompute what depends only on q(w) = N(mean, covariance), once for all blocks of sites."""
        return mean, covariance

    def moments(self, points: Any, folded: Any) -> tuple[Array, Array]:
        """Mean and variance of φ(x_i)·w under a folded q(w): [n], [n]."""
        mean, covariance = folded
        return self.evaluate(points, mean), self.variance(points, covariance)


class DensePairs(NamedTuple):
    """Pairs by the dense features of their places."""

    basis: Basis
    points: Any
    rows: Codes  # [R] of the points
    group: Codes  # [R]
    n_groups: int  # G

    def evaluate(self, weights: Array) -> Array:
        """φ(x_i)·w_g of every pair: [R].   weights [G, m]"""
        phi, out = self.basis.features_at(self.points), np.empty(len(self.rows))
        for start in range(0, len(self.rows), ROWS):
            part = slice(start, start + ROWS)
            out[part] = np.einsum("rm,rm->r", phi[self.rows[part]], weights[self.group[part]])
        return out

    def project(self, values: Array) -> Array:
        """Σ v φ(x_i) over the pairs of every group: [G, m].   values [R]"""
        phi = self.basis.features_at(self.points)
        return np.asarray(csr_array((values, (self.group, self.rows)), shape=(self.n_groups, len(phi))) @ phi)
