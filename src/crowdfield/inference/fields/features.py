"""Fields of finitely many features f(x) = φ(x)·w: the algebra that all bases share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.linalg as sla

from crowdfield.errors import NumericalError
from crowdfield.inference.fields.base import (
    BLOCK,
    Array,
    ScaleNodes,
    Statistics,
    cholesky,
    cut,
    expected_kl,
    integrate_scale,
    inverse_from_cholesky,
)
from crowdfield.inference.fields.basis import Basis, Codes, Pairs
from crowdfield.inference.fields.marginal import LostInformation, MarginalPosterior

T = TypeVar("T")


class Diagonal(NamedTuple):
    """A Gaussian likelihood of the weights, exp(bᵀw − ½ wᵀV diag(d) Vᵀw), with b = V p and orthonormal columns V."""

    d: Array  # [r], r ≤ m
    p: Array  # [r]
    V: Array  # [m, r]
    lost: LostInformation | None = None


@dataclass(frozen=True)
class FeatureField:
    """A Gaussian posterior q(w) of the weights of a basis."""

    basis: Basis
    mean: Array  # [m]
    readout: Array  # [m] the mean given one ς, where the other is over all of its nodes
    covariance: Array  # [m, m]
    spread: Array  # [m, nodes] the part of the covariance that comes from not knowing ς: spread spreadᵀ
    scale: ScaleNodes
    energy: float
    informed: float
    log_det: float
    kl: float
    marginal: MarginalPosterior | None = None  # when the sources are updated jointly with the field

    @cached_property
    def folded(self) -> Any:
        """q(w), prepared for its moments at places."""
        return self.basis.fold(self.mean, self.covariance)

    @cached_property
    def root_of_marginal(self) -> Array:
        """The Cholesky factor of the matrix M with E[w] = M⁻¹ Σ η φ."""
        assert self.marginal is not None
        return self.marginal.root()

    def at(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of f at any places, in blocks.   [M, D] -> [M], [M]"""
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for start in range(0, len(X), BLOCK):
            part = slice(start, start + BLOCK)
            points = self.basis.locate(X[part])
            mean[part], variance[part] = self.basis.moments(points, self.folded)
            variance[part] += self.basis.residual_at(points) * self.scale.mean_inverse
        return mean, variance

    def as_sites(self, X: Array) -> tuple[Array, Array]:
        return self.basis.moments(self.basis.locate(X), self.folded)

    def covariance_at(self, X: Array) -> Array:
        phi, left_out = self.basis.features(X), self.basis.residual_covariance(X)
        if left_out is None:
            left_out = np.diag(self.basis.residual(X))
        return np.asarray(phi @ self.covariance @ phi.T + self.scale.mean_inverse * left_out)

    def sample(self, X: Array, size: int, rng: np.random.Generator) -> Array:
        """Joint draws of f at the places: of the weights, and of what the features leave out.   [size, M]"""
        root = cholesky(
            self.covariance + 1e-12 * np.trace(self.covariance) * np.eye(len(self.mean)), "the posterior covariance"
        )
        weights = self.mean[:, None] + root @ rng.standard_normal((len(self.mean), size))
        draws = self.basis.evaluate(self.basis.locate(X), weights).T
        left_out = self.basis.residual_covariance(X)
        if left_out is not None:
            left_out *= self.scale.mean_inverse
            left_out[np.diag_indices_from(left_out)] += 1e-10 * self.scale.mean_inverse
            draws += rng.standard_normal(draws.shape) @ cholesky(left_out, "what the sites leave open").T
        return draws


class FeatureEngine:
    """Any basis as an engine: one pass over the sites, then algebra on m × m matrices."""

    def __init__(self, basis: Basis, X: Array, block: int | None = None):
        self.basis, self.name, self.size = basis, basis.name, basis.size
        self.kernel = basis.kernel
        self.n_sites = len(X)
        self.blocks = cut(len(X), block)
        self._points = {b.start: basis.locate(X[b]) for b in self.blocks}

    def points(self, block: slice) -> Any:
        """The places of a block, as the basis has prepared them."""
        return self._points[block.start]

    def summarise(self, block: slice, eta: Array, lam: Array) -> Statistics:
        points = self._points[block.start]
        return Statistics(*self.basis.summarise(points, eta, lam))

    def empty(self) -> Statistics:
        nowhere, nothing = self.basis.locate(np.empty((0, self.basis.dimension))), np.empty(0)
        return Statistics(*self.basis.summarise(nowhere, nothing, nothing))

    def at_sites(self, field: FeatureField, block: slice) -> tuple[Array, Array]:
        return self.basis.moments(self._points[block.start], field.folded)

    def influence(self, field: FeatureField, x: Array, block: slice) -> Array:
        """How far f(x) moves with the η of every site of a block.   [n]"""
        phi = self.basis.features(x)[0]
        if field.marginal is None:
            weights = field.covariance @ phi - field.spread @ (field.spread.T @ phi)
        else:
            weights = sla.cho_solve((field.root_of_marginal, True), phi, check_finite=False)
        return self.basis.evaluate(self._points[block.start], weights)

    def posterior(self, statistics: Statistics, precision: float) -> FeatureField:
        """q(w) of the feature weights for a given ς, and the field that it implies."""
        b, gram = statistics.linear, self.basis.gram(statistics.quadratic)
        root = cholesky(gram + precision * np.eye(self.size), "the posterior precision of the features")
        covariance = inverse_from_cholesky(root)
        mean = covariance @ b
        log_det = -2.0 * float(np.log(np.diag(root)).sum())
        trace = float(np.trace(covariance))
        energy = trace + float(mean @ mean)
        return FeatureField(
            basis=self.basis,
            mean=mean,
            readout=mean,
            covariance=covariance,
            spread=np.zeros((self.size, 0)),
            scale=ScaleNodes(np.array([precision]), np.ones(1)),
            energy=energy,
            informed=self.size - precision * trace,
            log_det=log_det,
            kl=0.5 * (precision * energy - self.size - self.size * np.log(precision) - log_det),
        )

    def readout(self, statistics: Statistics, precision: float) -> Array:
        return self._solve(self.basis.gram(statistics.quadratic), precision, statistics.linear)

    def _solve(self, gram: Array, ridge: float, b: Array) -> Array:
        root = cholesky(gram + ridge * np.eye(self.size), "the posterior precision of the features")
        return np.asarray(sla.cho_solve((root, True), b, check_finite=False))

    def posterior_integrated(
        self, statistics: Sequence[Statistics], shape: float, rate: float, near: float
    ) -> tuple[FeatureField, ...]:
        return self.posterior_of([self.diagonal(s) for s in statistics], shape, rate, near)

    def posterior_of(
        self, parts: Sequence[Diagonal], shape: float, rate: float, near: float
    ) -> tuple[FeatureField, ...]:
        """q(g) of functions whose sites' precisions come as eigenvalues and eigenvectors."""
        d, p = (np.concatenate(each) for each in zip(*((part.d, part.p) for part in parts), strict=True))
        scale = integrate_scale(d, p, shape, rate, near)
        return tuple(self._mixture(part, scale, near) for part in parts)

    def extrapolate(self, statistics: Statistics, precision: float, field: FeatureField, share: float) -> Statistics:
        """The statistics after a Newton step of the field alone, or a share of it."""

        def alone(gradient: Array, precision: float, roughly: Callable[[Array], Array]) -> tuple[Array, None]:
            return roughly(gradient), None

        found = self.newton(statistics, precision, field, share, alone)
        assert found is not None
        return found[0]

    def newton(
        self,
        statistics: Statistics,
        precision: float,
        field: FeatureField,
        share: float,
        step: Callable[[Array, float, Callable[[Array], Array]], tuple[Array, T] | None],
    ) -> tuple[Statistics, Array, T] | None:
        """Statistics of the mean to which `step` leads, that mean, and any further result of `step`.

        step is given the gradient in the weights, ς, and (ςI + shareΛ)⁻¹, which is roughly the inverse of the
        objective's curvature.
        """
        gram = self.basis.gram(statistics.quadratic)
        root = cholesky(share * gram + precision * np.eye(self.size), "the posterior precision of the features")
        gradient = statistics.linear - gram @ field.mean - precision * field.mean

        def roughly(b: Array) -> Array:
            return np.asarray(sla.cho_solve((root, True), b, check_finite=False))

        found = step(gradient, precision, roughly)
        if found is None:
            return None
        mean = field.mean + found[0]
        return replace(statistics, linear=gram @ mean + precision * mean), mean, found[1]

    def eigen(self, statistics: Statistics, lost: Array | None = None) -> tuple[Array, Array]:
        """Eigenvalues d [r] and eigenvectors V [m, r] of the sites' Gram matrix less HᵀH, `lost` being H [n, m].

        They come from the weights that the sites see, which are fewer than all weights.
        """
        gram, U = self.basis.gram(statistics.quadratic), self.basis.visible
        if U is not None:
            gram = U.T @ gram @ U
        if lost is not None:
            seen = lost if U is None else lost @ U
            gram = gram - seen.T @ seen  # a matrix times its own transpose is half the work
        d, V = sla.eigh(gram, driver="evd", check_finite=False)
        return d, V if U is None else U @ V

    def diagonal(self, statistics: Statistics) -> Diagonal:
        """The sites' Gram matrix as V diag(d) Vᵀ, and p = Vᵀb."""
        d, V = self.eigen(statistics)
        if d[0] < -1e-6 * max(d[-1], 1.0):
            raise NumericalError("the sites' Gram matrix has a negative eigenvalue; a site precision is negative.")
        return Diagonal(np.maximum(d, 0.0), V.T @ statistics.linear, V)  # rounding of zero eigenvalues

    def features(self, block: slice) -> Array:
        """φ at the sites of a block, as a dense matrix [n, m]."""
        return self.basis.features_at(self._points[block.start])

    def pairs(self, block: slice, rows: Codes, group: Codes, count: int) -> Pairs:
        """Pairs of a site of a block (`rows`, counted from its first) and a group."""
        return self.basis.pairs(self._points[block.start], rows, group, count)

    def _mixture(self, part: Diagonal, scale: ScaleNodes, near: float) -> FeatureField:
        """The field averaged over the nodes of ς, given the eigenvalues d of the likelihood's precision.

        Weights orthogonal to V have their prior N(0, 1/ς), so that the covariance is I E[1/ς] less what V is told.
        """
        d, p, V, lost = part
        shrink = 1.0 / (scale.nodes + d[:, None])  # [r, nodes]
        means = p[:, None] * shrink
        mean, average = means @ scale.weights, shrink @ scale.weights
        spread = V @ ((means - mean[:, None]) * np.sqrt(scale.weights))
        told = V * np.sqrt(np.maximum(scale.mean_inverse - average, 0.0))  # rounding of zero eigenvalues
        covariance = spread @ spread.T - told @ told.T  # a matrix times its own transpose is half the work
        covariance[np.diag_indices_from(covariance)] += scale.mean_inverse
        unseen = self.size - len(d)
        return FeatureField(
            basis=self.basis,
            mean=V @ mean,
            readout=V @ (p / (near + d)),
            covariance=covariance,
            spread=spread,
            scale=scale,
            energy=float(((shrink + means**2) @ scale.weights).sum() + unseen * scale.mean_inverse),
            informed=float(d @ shrink @ scale.weights),
            log_det=float(np.log(shrink).sum(0) @ scale.weights - unseen * scale.mean_log),
            kl=expected_kl(shrink, means, scale),
            marginal=None if lost is None else MarginalPosterior(V, average, scale.mean_inverse, lost),
        )
