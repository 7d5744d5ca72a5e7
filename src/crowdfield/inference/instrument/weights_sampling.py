"""The weights of the field given appearances: a linear regression g = offset + Φw + Zβ + ε, ε ~ N(0, τ²).

w ~ N(0, v I). The eigenvectors of ΦᵀΦ are found once; in their coordinates the posterior of w is independent
for any v and τ², so that the evidence of the variances and a draw of the weights cost a few vector products.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.linear import Design

DENSE_ENTRIES = (
    1 << 24
)  # of the features: a sweep multiplies by them twice per chain; beyond, the basis' own transforms


class Regression:
    """A design, its features turned to the eigenvectors of their Gram matrix."""

    def __init__(self, design: Design):
        self.design, m = design, design.basis.size
        dense = design.phi is None and len(design.X) * design.size <= DENSE_ENTRIES
        self.phi = design.features(slice(0, len(design.X))) if dense else design.phi
        gram = design.gram(np.ones(len(design.X)))
        values, self.vectors = np.linalg.eigh(gram[:m, :m])
        self.values = np.maximum(values, 0.0)  # [m]
        self.cross = self.vectors.T @ gram[:m, m:]  # VᵀΦᵀZ [m, c]
        self.linear = gram[m:, m:]  # ZᵀZ [c, c]

    def evaluate(self, weights: Array) -> Array:
        """f at the places: [C, N]."""
        if self.phi is None:
            return field_at_places(self.design, weights)
        return np.asarray(self.design.offset + weights @ self.phi.T)

    def given(self, g: Array) -> GivenAppearances:
        """The sufficient statistics of appearances g [C, N]."""
        m, rest = self.design.basis.size, g - self.design.offset
        projected = np.stack([self.design.project(row) for row in rest]) if self.phi is None else rest @ self.phi
        return GivenAppearances(self, projected[:, :m] @ self.vectors, projected[:, m:], (rest**2).sum(1), g.shape[1])


def field_at_places(design: Design, weights: Array) -> Array:
    """f at the places of the design.   weights [C, m + c] -> [C, N]"""
    if design.phi is not None:
        return np.asarray(design.offset + weights @ design.phi.T)
    m = design.basis.size
    smooth = design.basis.evaluate(design.points, np.ascontiguousarray(weights[:, :m].T)).T
    return np.asarray(design.offset + smooth + weights[:, m:] @ design.Z.T)


class GivenAppearances(NamedTuple):
    """Sufficient statistics of g − offset."""

    regression: Regression
    smooth: Array  # VᵀΦᵀ(g − offset) [C, m]
    linear: Array  # Zᵀ(g − offset) [C, c]
    square: Array  # |g − offset|² [C]
    n: int

    def log_evidence(self, v: Array, nugget: Array) -> Array:
        """log p(g | v, τ²) up to a constant: [C]."""
        own, schur, right = self._blocks(v, nugget)
        fitted = (own * self.smooth**2).sum(1) / nugget**2
        fitted += np.einsum("cp,cp->c", right, np.linalg.solve(schur, right[:, :, None])[:, :, 0])
        log_det = np.linalg.slogdet(schur)[1] - np.log(own).sum(1) + own.shape[1] * np.log(v)
        return np.asarray(0.5 * (fitted - self.square / nugget - log_det - self.n * np.log(nugget)))

    def draw(self, v: Array, nugget: Array, rng: np.random.Generator) -> Array:
        """A draw of the weights w, β given the variances: [C, m + c]."""
        own, schur, right = self._blocks(v, nugget)
        root = np.linalg.cholesky(schur)
        noise = rng.standard_normal(right.shape)
        linear = np.linalg.solve(schur, right[:, :, None]) + np.linalg.solve(root.transpose(0, 2, 1), noise[:, :, None])
        linear = linear[:, :, 0]
        mean = own * (self.smooth - linear @ self.regression.cross.T) / nugget[:, None]
        turned = mean + np.sqrt(own) * rng.standard_normal(own.shape)
        return np.concatenate([turned @ self.regression.vectors.T, linear], axis=1)

    def _blocks(self, v: Array, nugget: Array) -> tuple[Array, Array, Array]:
        """Variances of the turned w given β [C, m]; precision [C, c, c] and linear term [C, c] of β without w."""
        cross, sd = self.regression.cross, self.regression.design.columns.sd
        own = 1.0 / (self.regression.values / nugget[:, None] + 1.0 / v[:, None])
        schur = self.regression.linear / nugget[:, None, None] + np.diag(sd**-2.0)
        schur = schur - np.einsum("mp,cm,mq->cpq", cross, own, cross) / (nugget**2)[:, None, None]
        right = self.linear / nugget[:, None] - (own * self.smooth) @ cross / (nugget**2)[:, None]
        return own, schur, right
