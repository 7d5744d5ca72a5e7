"""The features of another basis that a few thousand places see, as one dense matrix.

Of the weights w of Fourier features, places in a box see only Uᵀw, a third of them or fewer (`visible`). In these
coordinates every matrix of a fit is smaller, and products with a dense matrix of features are faster than transforms.
The other weights keep their prior. The features hold in the box of the places alone: a map needs the whole basis again,
to which `lifted` leads back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sla

from crowdfield.inference.fields.base import Array
from crowdfield.inference.fields.basis import Basis, Codes, Pairs
from crowdfield.inference.fields.features import FeatureField
from crowdfield.inference.fields.marginal import LostInformation, MarginalPosterior
from crowdfield.inference.kernels import Kernel

# Information of all sites about a weight, in units of its prior precision, that is too little to be learned: q of such
# a weight is its prior to four digits.
UNLEARNED = 1e-4
REACHED = 1e-5  # smallest tolerance of a fit in these weights: what is left out moves some results by twice as much
LARGEST_PRECISION = 0.25  # of a site of two states; sites of several states are hardly more precise
LARGEST_SHARE = 0.8  # of all weights that are seen, for the smaller matrices to be worth it
MOST_ENTRIES = 1 << 18  # entries of the dense matrix: with more, transforms are faster
MOST_PAIRS = 1 << 18  # places times groups: with more, only the pairs that occur are computed


class Points(NamedTuple):
    """Located places."""

    features: Array  # φ [n, r]
    variance: Array  # of the kernel [n]


class SeenBasis(Basis):
    """The features φ(x) U of another basis, with orthonormal columns U [m, r]."""

    name = "seen"

    def __init__(self, whole: Basis, U: Array):
        self.whole, self.U = whole, U
        self.kernel: Kernel = whole.kernel
        self.dimension, self.size = whole.dimension, U.shape[1]

    def is_same_as(self, other: Basis) -> bool:
        """Whether both bases have the same features, so that their weights are interchangeable."""
        return self is other or (isinstance(other, SeenBasis) and self.whole.is_same_as(other.whole))

    def locate(self, X: Array) -> Points:
        """Prepare places for repeated use."""
        X = np.asarray(X, float)
        return Points(self.whole.features(X) @ self.U, self.kernel.variance(X))

    def features(self, X: Array) -> Array:
        """φ as a dense matrix [M, r]."""
        return self.locate(X).features

    def features_at(self, points: Points) -> Array:
        """φ at located places, as a dense matrix [n, r]."""
        return points.features

    def project(self, points: Points, eta: Array) -> Array:
        """Σ_i η_i φ(x_i): [r]."""
        return np.asarray(points.features.T @ eta)

    def gram_statistics(self, points: Points, lam: Array) -> Array:
        """Σ_i λ_i φ(x_i) φ(x_i)ᵀ, λ ≥ 0: [r, r]."""
        weighted = points.features * np.sqrt(lam)[:, None]
        return np.asarray(weighted.T @ weighted)  # a matrix times its own transpose is half the work

    def gram(self, statistics: Array) -> Array:
        """The matrix Σ λ φφᵀ [r, r] of an additive form."""
        return statistics

    def evaluate(self, points: Points, weights: Array) -> Array:
        """φ(x_i)·w: [n] for weights [r], [n, k] for weights [r, k]."""
        return np.asarray(points.features @ weights)

    def variance(self, points: Points, covariance: Array) -> Array:
        """φ(x_i)ᵀ C φ(x_i) for a symmetric C [r, r]: [n]."""
        return np.asarray(np.einsum("nr,nr->n", points.features @ covariance, points.features))

    def pairs(self, points: Points, rows: Codes, group: Codes, count: int) -> Pairs:
        """Prepare pairs of a place (one of `rows` [R]) and a group [R] for repeated use; `count` groups in all."""
        if len(points.features) * count > MOST_PAIRS:
            return super().pairs(points, rows, group, count)
        return AllPairs(points.features, rows * count + group, count)

    def residual_at(self, points: Points) -> Array:
        """Prior variance that the features leave out at located places: [n]."""
        return np.asarray(np.maximum(points.variance - np.einsum("nr,nr->n", points.features, points.features), 0.0))

    def prior_root(self, kernel: Kernel) -> Array:
        """A root of the prior covariance of these weights under another kernel: [r, r]."""
        root = self.whole.prior_root(kernel)
        seen = self.U.T * root if root.ndim == 1 else self.U.T @ root
        return np.asarray(np.linalg.qr(seen.T)[1]).T

    def lifted(self, field: FeatureField) -> FeatureField:
        """q of the seen weights as q of all weights of the whole basis, whose others have their prior."""
        U, unseen = self.U, self.whole.size - self.size
        prior, scale = field.scale.mean_inverse, field.scale
        covariance = (U @ field.covariance) @ U.T - (prior * U) @ U.T
        covariance[np.diag_indices_from(covariance)] += prior
        marginal = None
        if field.marginal is not None:
            V, average, _, lost = field.marginal
            marginal = MarginalPosterior(U @ V, average, prior, LostInformation(lost.H @ U.T, lost.e))
        return replace(
            field,
            basis=self.whole,
            mean=U @ field.mean,
            readout=U @ field.readout,
            covariance=covariance,
            spread=U @ field.spread,
            energy=field.energy + unseen * prior,
            log_det=field.log_det - unseen * scale.mean_log,
            marginal=marginal,
        )


class AllPairs(NamedTuple):
    """Pairs by products of all places with all groups, of which there are few."""

    features: Array  # φ [n, r]
    entry: Codes  # [R] of a table [n, G]
    n_groups: int  # G

    def evaluate(self, weights: Array) -> Array:
        """φ(x_i)·w_g of every pair: [R].   weights [G, r]"""
        return np.asarray((self.features @ weights.T).ravel()[self.entry])

    def project(self, values: Array) -> Array:
        """Σ v φ(x_i) over the pairs of every group: [G, r].   values [R]"""
        n = len(self.features)
        table = np.bincount(self.entry, values, n * self.n_groups).reshape(n, self.n_groups)
        return np.asarray(table.T @ self.features)


def seen_part(basis: Basis, points: Any, n: int) -> SeenBasis | None:
    """The features of a basis that n located places see; None where they are not many fewer, or would take long."""
    U = basis.visible
    if isinstance(basis, SeenBasis) or n * (basis.size if U is None else U.shape[1]) > MOST_ENTRIES:
        return None
    most = basis.gram(basis.gram_statistics(points, np.full(n, LARGEST_PRECISION)))
    d, V = sla.eigh(most if U is None else U.T @ most @ U, driver="evd", check_finite=False)
    kept = V[:, d > UNLEARNED]
    if kept.shape[1] > LARGEST_SHARE * basis.size:
        return None
    return SeenBasis(basis, np.ascontiguousarray(kept if U is None else U @ kept))
