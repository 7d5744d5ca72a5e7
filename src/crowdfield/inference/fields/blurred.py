"""Fourier features of inexact places: frequencies are damped according to the accuracy of a place.

Places that are equally inexact share their damping d, so that each such level is one transform: with D = diag(d),

    Σ_i η_i φ̄_i = Σ_levels D Σ η φ,   Σ_i λ_i φ̄_i φ̄_iᵀ = Σ_levels D (Σ λ φφᵀ) D,   φ̄·w = φ·(D w)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference import blur
from crowdfield.inference.fields.base import Array
from crowdfield.inference.fields.basis import Codes, Pairs
from crowdfield.inference.fields.spectral import Folded, Points, SpectralBasis
from crowdfield.inference.kernels import Kernel


class Level(NamedTuple):
    """The places of a block with the same accuracy."""

    level: int  # its place among the levels of the basis
    rows: NDArray[np.int64]
    points: Points


class Levels(NamedTuple):
    """Located places, divided by accuracy."""

    size: int  # places in all
    parts: list[Level]


class LevelPairs(NamedTuple):
    """The pairs of a place and a group whose place has one level of accuracy."""

    damping: Array  # [m]
    chosen: Codes  # which of all pairs
    pairs: Pairs


class PairsByLevel(NamedTuple):
    """Pairs of a place and a group, divided by accuracy."""

    size: int  # pairs in all
    shape: tuple[int, int]  # groups, features
    parts: list[LevelPairs]

    def evaluate(self, weights: Array) -> Array:
        """φ(x_i)·w_g of every pair: [R].   weights [G, m]"""
        out = np.empty(self.size)
        for damping, chosen, pairs in self.parts:
            out[chosen] = pairs.evaluate(weights * damping)
        return out

    def project(self, values: Array) -> Array:
        """Σ v φ(x_i) over the pairs of every group: [G, m].   values [R]"""
        out = np.zeros(self.shape)
        for damping, chosen, pairs in self.parts:
            out += pairs.project(values[chosen]) * damping
        return out


class Folds:
    """q(w) prepared for every level of accuracy, when it is first needed."""

    def __init__(self, basis: BlurredSpectralBasis, mean: Array, covariance: Array):
        self._basis, self._mean, self._covariance = basis, mean, covariance
        self._known: dict[int, Folded] = {}

    def at(self, level: int) -> Folded:
        """q(w) with the damping of one level of accuracy."""
        if level not in self._known:
            d = self._basis.damping[level]
            self._known[level] = SpectralBasis.fold(self._basis, d * self._mean, d[:, None] * self._covariance * d)
        return self._known[level]


class BlurredSpectralBasis(SpectralBasis):
    """The features of `SpectralBasis` for places X [N, D + 1] whose last column is their standard deviation."""

    visible = None  # averages around inexact places reach beyond the box of the places

    def __init__(self, kernel: Kernel, X: Array, tolerance: float, *, max_size: int):
        x, sd = blur.split(X, blur.coordinates(kernel, X).shape[1])
        # Averages over a wide radius reach farther than the kernel: copies of the map must lie farther apart, too.
        beyond = np.maximum(2.0 * sd.max(initial=0.0) - kernel.lengthscales(x.shape[1]), 0.0)
        super().__init__(kernel, np.vstack([x, x.min(0) - beyond, x.max(0) + beyond]), tolerance, max_size=max_size)
        self.levels = np.union1d([0.0], sd)  # the first is that of exact places
        once = [blur.damping(self.lattice / self.period, float(sd)) for sd in self.levels]
        self.damping = [np.concatenate([d, d[1:]]) for d in once]  # the constant, cosines, sines

    def locate(self, X: Array) -> Points | Levels:  # type: ignore[override]
        """Prepare places for repeated use."""
        x, sd = blur.split(np.asarray(X, float), self.dimension)
        if X.shape[1] == self.dimension:
            return super().locate(x)
        parts = [
            Level(int(np.abs(self.levels - level).argmin()), rows, super(BlurredSpectralBasis, self).locate(x[rows]))
            for level, rows in blur.by_level(sd)
        ]
        return Levels(len(X), parts)

    def _parts(self, points: Points | Levels) -> Levels:
        """Located places by level of accuracy; exact ones are a single level."""
        if isinstance(points, Levels):
            return points
        n = points.angles.shape[1]
        return Levels(n, [Level(0, np.arange(n), points)])

    def residual_at(self, points: Points | Levels) -> Array:
        """The variance of f̄ that truncation leaves out."""
        if isinstance(points, Points):
            return super().residual_at(points)
        out = np.empty(points.size)
        for level, rows, _ in points.parts:
            here = np.append(np.zeros(self.dimension), self.levels[level])[None]
            captured = float(((self.amplitude * self.damping[level])[: len(self.lattice)] ** 2).sum())
            out[rows] = max(float(self.kernel.variance(here)[0]) - captured, 0.0)
        return out

    def features_at(self, points: Points | Levels) -> Array:
        """φ̄ at located places, as a dense matrix [n, m]."""
        if isinstance(points, Points):
            return super().features_at(points)
        out = np.empty((points.size, self.size))
        for level, rows, part in points.parts:
            out[rows] = super().features_at(part) * self.damping[level]
        return out

    def summarise(self, points: Points | Levels, eta: Array, lam: Array) -> tuple[Array, Array]:
        """`project` of η and `gram_statistics` of λ."""
        linear, quadratic = np.zeros(self.size), np.zeros((len(self.levels), 2 * self.entries))
        for level, rows, part in self._parts(points).parts:
            own, quadratic[level] = super().summarise(part, eta[rows], lam[rows])
            linear += self.damping[level] * own
        return linear, quadratic

    def gram(self, statistics: Array, part: NDArray[np.int64] | None = None) -> Array:
        """Σ λ φ̄φ̄ᵀ, a damped sum over the levels of accuracy."""
        if part is not None:
            raise NotImplementedError("the iterative engine does not know inexact places.")
        out = np.zeros((self.size, self.size))
        for d, own in zip(self.damping, statistics, strict=True):
            if own.any():
                out += d[:, None] * super().gram(own) * d
        return out

    def evaluate(self, points: Points | Levels, weights: Array) -> Array:
        """φ(x_i)·w: [n] for weights [m], [n, k] for weights [m, k]."""
        if isinstance(points, Points):
            return super().evaluate(points, weights)
        out = np.empty((points.size, *weights.shape[1:]))
        for level, rows, part in points.parts:
            out[rows] = super().evaluate(part, (weights.T * self.damping[level]).T)
        return out

    def pairs(self, points: Points | Levels, rows: Codes, group: Codes, count: int) -> Pairs:
        """Prepare pairs of a place (one of `rows` [R]) and a group [R] for repeated use; `count` groups in all."""
        levels, parts = self._parts(points), []
        for level, members, part in levels.parts:
            position = np.full(levels.size, -1)
            position[members] = np.arange(len(members))
            chosen = np.flatnonzero(position[rows] >= 0)
            if len(chosen):
                inside = super().pairs(part, position[rows[chosen]], group[chosen], count)
                parts.append(LevelPairs(self.damping[level], chosen, inside))
        return PairsByLevel(len(rows), (count, self.size), parts)

    def fold(self, mean: Array, covariance: Array) -> Folds:  # type: ignore[override]
        """Precompute what depends only on q(w) = N(mean, covariance), once for all blocks of sites."""
        return Folds(self, mean, covariance)

    def moments(self, points: Points | Levels, folded: Folds) -> tuple[Array, Array]:  # type: ignore[override]
        """Mean and variance of φ(x_i)·w under a folded q(w): [n], [n]."""
        levels = self._parts(points)
        mean, variance = np.empty(levels.size), np.empty(levels.size)
        for level, rows, part in levels.parts:
            mean[rows], variance[rows] = super().moments(part, folded.at(level))
        return mean, variance
