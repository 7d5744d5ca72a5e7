"""No approximation of the kernel: the reference that the other engines are tested against. In two forms.

Where ς is a number, one N × N Cholesky an update (`ExactEngine`). Where ς is integrated, there is an eigendecomposition
anyway, and as many features as places leave it to the algebra that all bases share (`ExactBasis`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np
import scipy.linalg as sla
from scipy.linalg import lapack

from crowdfield.errors import NumericalError
from crowdfield.inference.blur import coordinates
from crowdfield.inference.fields.base import Array, Engine, ScaleNodes, Statistics, cholesky
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.kernels import Kernel

FIXED = 1e-10  # share of the prior variance below which a place is determined by the others
SMALL_PRECISION = 1e-5  # precision of a site below which 1 − B⁻¹ has lost too many digits
PREDICTION_ENTRIES = 1 << 22  # entries of k(x, x*), the largest temporary of a prediction


class ExactBasis(InducingBasis):
    """Inducing points at all places `X` [N, D]: the features' covariance is the kernel's.

    A pivoted Cholesky factorisation takes the places in turn. One whose value the others fix (the same place again, or
    metres away on a map of kilometres) adds no feature, so that nothing is divided by it.
    """

    name = "exact"

    def __init__(self, kernel: Kernel, X: Array):
        self.kernel, self.dimension = kernel, coordinates(kernel, X).shape[1]
        factor, order, self.size, _ = lapack.dpstrf(kernel.covariance(X, X), tol=FIXED, lower=1)
        self.Z = X[order[: self.size] - 1]
        self.root = np.tril(factor[: self.size, : self.size])

    def residual_covariance(self, X: Array) -> Array:
        """The joint covariance of the truncated part, [M, M]: k(X, X) − φφᵀ."""
        phi = self.features(X)
        return np.asarray(self.kernel.covariance(X, X) - phi @ phi.T)


@dataclass(frozen=True)
class ExactField:
    """q(g) through its dual weights: E[g(x)] = k(x, X) β, var g(x) = k(x, x) / ς − |k(x, X) R|²."""

    kernel: Kernel
    X: Array
    beta: Array  # [N]
    reduction: Array  # R [N, N]
    readout: Array  # [N] E[g] at the sites
    site_variance: Array  # [N]
    scale: ScaleNodes
    energy: float
    informed: float
    log_det: float
    kl: float

    def _moments(self, cross: Array, prior_variance: Array) -> tuple[Array, Array]:
        """Mean and variance at places with these cross-covariances to the sites."""
        variance = self.scale.mean_inverse * prior_variance - ((cross @ self.reduction) ** 2).sum(1)
        # Rounding may leave −1e-16 where reports determine the function; anything larger would be an error.
        return cross @ self.beta, np.maximum(variance, 0.0)

    def at(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of f at any places, in blocks.   [M, D] -> [M], [M]"""
        mean, variance = np.empty(len(X)), np.empty(len(X))
        rows = max(1, PREDICTION_ENTRIES // max(len(self.X), 1))
        for start in range(0, len(X), rows):
            part = X[start : start + rows]
            moments = self._moments(self.kernel.covariance(part, self.X), self.kernel.variance(part))
            mean[start : start + rows], variance[start : start + rows] = moments
        return mean, variance

    def as_sites(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of g at X as the engine computes them at sites: without the basis' truncated variance."""
        return self.at(X)

    def covariance_at(self, X: Array) -> Array:
        """The joint covariance of g at up to a few thousand places: [M, M]."""
        reduced = self.kernel.covariance(X, self.X) @ self.reduction
        return np.asarray(self.scale.mean_inverse * self.kernel.covariance(X, X) - reduced @ reduced.T)

    def sample(self, X: Array, size: int, rng: np.random.Generator) -> Array:
        """Joint draws of g at places: [size, M]."""
        mean = self.kernel.covariance(X, self.X) @ self.beta
        covariance = self.covariance_at(X)
        jitter = 1e-10 * float(np.trace(covariance)) / max(len(X), 1) + 1e-14
        root = cholesky(covariance + jitter * np.eye(len(X)), "the posterior covariance")
        return mean + rng.standard_normal((size, len(X))) @ root.T


def _root(lam: Array) -> Array:
    """√λ; an error for a negative precision."""
    if lam.min(initial=0.0) < 0.0:
        raise NumericalError("a site precision is negative.")
    return np.sqrt(lam)


class ExactEngine:
    """Sites keep their own (η, λ); nothing is projected.

    Everything is written with B = I + Λ^½ (K/ς) Λ^½, whose eigenvalues are at least one, and never with K⁻¹:
    reports metres apart make K nearly singular.
    """

    name = "exact"

    def __init__(self, kernel: Kernel, X: Array):
        self.kernel, self.X = kernel, X
        self.size = self.n_sites = len(X)
        self.blocks = [slice(0, len(X))]
        self.K = kernel.covariance(X, X)

    def summarise(self, block: slice, eta: Array, lam: Array) -> Statistics:
        """Additive statistics of one block of sites: natural parameters eta, lam [n] as sums over features."""
        return Statistics(eta, lam)

    def empty(self) -> Statistics:
        """The statistics of no sites."""
        return Statistics(np.zeros(self.n_sites), np.zeros(self.n_sites))

    def posterior(self, statistics: Statistics, precision: float) -> ExactField:
        """q(f) from the sites, by a Cholesky factorisation of I + Λ^½ K Λ^½ / ς."""
        eta, root_lam = statistics.linear, _root(statistics.quadratic)
        scaled = root_lam[:, None] * self.K  # Λ^½ K
        B = scaled * root_lam / precision
        B[np.diag_indices_from(B)] += 1.0
        L = cholesky(B, "I + Λ^½ K Λ^½")
        inverse = lapack.dtrtri(L, lower=1)[0]
        half = inverse * root_lam  # L⁻¹ Λ^½
        prior_mean_part = self.K @ eta / precision
        beta = (eta - half.T @ (half @ prior_mean_part)) / precision
        reduction = half.T / precision
        mean = self.K @ beta
        variance = self._site_variance(statistics.quadratic, (inverse**2).sum(0), reduction, precision)
        log_det_B = 2.0 * float(np.log(np.diag(L)).sum())
        # ςK⁻¹g = η − Λg and ς tr(K⁻¹Σ) = N − tr(ΛΣ): no inverse of K is needed.
        informed = float(statistics.quadratic @ variance)
        energy = float(mean @ beta) + (self.size - informed) / precision
        return ExactField(
            kernel=self.kernel,
            X=self.X,
            beta=beta,
            reduction=reduction,
            readout=mean,
            site_variance=np.maximum(variance, 0.0),
            scale=ScaleNodes(np.array([precision]), np.ones(1)),
            energy=energy,
            informed=informed,
            log_det=-self.size * np.log(precision) - log_det_B,
            kl=0.5 * (precision * energy - self.size + log_det_B),
        )

    def _site_variance(self, lam: Array, diag_B_inverse: Array, reduction: Array, precision: float) -> Array:
        """Λ^½ΣΛ^½ = I − B⁻¹ gives the diagonal of Σ for free; where λ is too small to divide by, the long way."""
        small = lam < SMALL_PRECISION
        variance = (1.0 - diag_B_inverse) / np.where(small, 1.0, lam)
        if small.any():
            rows = np.flatnonzero(small)
            variance[rows] = np.diag(self.K)[rows] / precision - ((self.K[rows] @ reduction) ** 2).sum(1)
        return np.asarray(variance)

    def posterior_integrated(
        self, statistics: Sequence[Statistics], shape: float, rate: float, near: float
    ) -> NoReturn:
        """Not supported: use `ExactBasis`, whose engine integrates ς."""
        raise NotImplementedError("with ς integrated, the exact engine is a FeatureEngine of an ExactBasis.")

    def readout(self, statistics: Statistics, precision: float) -> Array:
        """The mean of f at the sites alone, without the variances that `posterior` also gives.   [N]"""
        eta, root_lam = statistics.linear, _root(statistics.quadratic)
        B = root_lam[:, None] * self.K * root_lam / precision
        B[np.diag_indices_from(B)] += 1.0
        L = cholesky(B, "I + Λ^½ K Λ^½")
        prior_mean_part = self.K @ eta / precision
        weighed = root_lam * sla.cho_solve((L, True), root_lam * prior_mean_part, check_finite=False)
        return np.asarray(self.K @ (eta - weighed) / precision)

    def extrapolate(self, statistics: Statistics, precision: float, field: ExactField, share: float) -> Statistics:
        """The statistics unchanged: with so few sites another plain step is cheap."""
        return statistics

    def at_sites(self, field: ExactField, block: slice) -> tuple[Array, Array]:
        """Mean and variance of g at the sites of a block."""
        return field.readout[block], field.site_variance[block]

    def influence(self, field: ExactField, x: Array, block: slice) -> Array:
        """a_i with E[g(x)] = Σ_i a_i η_i, for the sites of a block: how far each site's η moves the place x [1, D]."""
        cross = self.kernel.covariance(x, self.X)[0]
        return np.asarray(field.scale.mean_inverse * cross - self.K @ (field.reduction @ (field.reduction.T @ cross)))[
            block
        ]


def _features(kernel: Kernel, X: Array) -> Engine:
    return FeatureEngine(ExactBasis(kernel, X), X)


class Exact(NamedTuple):
    """A form of the exact engine."""

    over: Callable[[Kernel, Array], Engine]
    at_most: int  # sites: the largest N for which "auto" takes it


FOR_GIVEN_SCALES = Exact(ExactEngine, 3_000)
# Where ς is integrated, every sweep takes an eigendecomposition of as many rows as there are features.
FOR_INTEGRATED_SCALE = Exact(_features, 800)
