"""The exact engine: one N × N covariance, one Cholesky an update. The reference that the others are tested against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla
from scipy.linalg import lapack

from crowdfield.errors import NumericalError
from crowdfield.inference.fields.base import Array, ScaleNodes, Statistics, cholesky, expected_kl, integrate_scale
from crowdfield.inference.kernels import Kernel

SMALL_PRECISION = 1e-5  # of a site: below, 1 − B⁻¹ has lost too many digits
PREDICTION_ENTRIES = 1 << 22  # of k(x, x*), the largest temporary of a prediction


@dataclass(frozen=True)
class ExactField:
    """q(g) through its dual weights: E[g(x)] = k(x, X) β, var g(x) = E[1/ς] k(x, x) − |k(x, X) R|² + var_ς(k β)."""

    kernel: Kernel
    X: Array
    beta: Array  # [N, nodes of ς]
    reduction: Array  # R [N, N]
    readout: Array  # [N] E[g] at the sites, given one ς
    site_variance: Array | None  # [N] where it came with the posterior
    scale: ScaleNodes
    energy: float
    informed: float
    log_det: float
    kl: float

    def _moments(self, cross: Array, prior_variance: Array) -> tuple[Array, Array]:
        means = cross @ self.beta
        mean = means @ self.scale.weights
        between = (means - mean[:, None]) ** 2 @ self.scale.weights
        within = self.scale.mean_inverse * prior_variance - ((cross @ self.reduction) ** 2).sum(1)
        # Rounding may leave −1e-16 where reports pin the function down; anything larger would be an error.
        return mean, np.maximum(within, 0.0) + between

    def at(self, X: Array) -> tuple[Array, Array]:
        mean, variance = np.empty(len(X)), np.empty(len(X))
        rows = max(1, PREDICTION_ENTRIES // max(len(self.X), 1))
        for start in range(0, len(X), rows):
            part = X[start : start + rows]
            moments = self._moments(self.kernel.covariance(part, self.X), self.kernel.variance(part))
            mean[start : start + rows], variance[start : start + rows] = moments
        return mean, variance

    def as_sites(self, X: Array) -> tuple[Array, Array]:
        return self.at(X)

    def covariance_at(self, X: Array) -> Array:
        cross = self.kernel.covariance(X, self.X)
        means = cross @ self.beta
        spread = (means - (means @ self.scale.weights)[:, None]) * np.sqrt(self.scale.weights)
        reduced = cross @ self.reduction
        return np.asarray(
            self.scale.mean_inverse * self.kernel.covariance(X, X) - reduced @ reduced.T + spread @ spread.T
        )

    def sample(self, X: Array, size: int, rng: np.random.Generator) -> Array:
        mean = self.kernel.covariance(X, self.X) @ (self.beta @ self.scale.weights)
        covariance = self.covariance_at(X)
        jitter = 1e-10 * float(np.trace(covariance)) / max(len(X), 1) + 1e-14
        root = cholesky(covariance + jitter * np.eye(len(X)), "the posterior covariance")
        return mean + rng.standard_normal((size, len(X))) @ root.T


def _root(lam: Array) -> Array:
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
        return Statistics(eta, lam)

    def empty(self) -> Statistics:
        return Statistics(np.zeros(self.n_sites), np.zeros(self.n_sites))

    def posterior(self, statistics: Statistics, precision: float) -> ExactField:
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
            beta=beta[:, None],
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
    ) -> tuple[ExactField, ...]:
        parts = [self._diagonal(s) for s in statistics]
        d = np.concatenate([d for d, _, _ in parts])
        p = np.concatenate([np.sqrt(d) * whitened for d, whitened, _ in parts])
        scale = integrate_scale(d, p, shape, rate, near)
        return tuple(self._mixture(*part, scale, near) for part in parts)

    def readout(self, statistics: Statistics, precision: float) -> Array:
        eta, root_lam = statistics.linear, _root(statistics.quadratic)
        B = root_lam[:, None] * self.K * root_lam / precision
        B[np.diag_indices_from(B)] += 1.0
        L = cholesky(B, "I + Λ^½ K Λ^½")
        prior_mean_part = self.K @ eta / precision
        weighed = root_lam * sla.cho_solve((L, True), root_lam * prior_mean_part, check_finite=False)
        return np.asarray(self.K @ (eta - weighed) / precision)

    def look_ahead(self, statistics: Statistics, precision: float, field: ExactField, share: float) -> Statistics:
        return statistics  # with so few sites a step more is cheap

    def _diagonal(self, statistics: Statistics) -> tuple[Array, Array, Array]:
        """Λ^½ K Λ^½ = U diag(d) Uᵀ: d, UᵀΛ^{-½}η, and Λ^½U."""
        eta, root_lam = statistics.linear, _root(statistics.quadratic)
        # In the basis of M = Λ^½ K Λ^½ = U diag(d) Uᵀ every ς is a division. Sites of λ = 0 carry η = 0 in every
        # linearisation, so (η, λ) is a Gaussian observation η/λ of g with precision λ.
        d, U = sla.eigh(root_lam[:, None] * self.K * root_lam, check_finite=False)
        safe = np.where(root_lam > 0, root_lam, 1.0)
        whitened = U.T @ np.where(root_lam > 0, eta / safe, 0.0)
        return np.maximum(d, 0.0), whitened, root_lam[:, None] * U  # rounding of zero eigenvalues

    def _mixture(self, d: Array, whitened: Array, root_U: Array, scale: ScaleNodes, near: float) -> ExactField:
        shrink = 1.0 / (scale.nodes + d[:, None])  # [N, nodes]
        beta = root_U @ (whitened[:, None] * shrink)
        reduction = root_U * np.sqrt((shrink / scale.nodes) @ scale.weights)
        means = np.sqrt(d)[:, None] * whitened[:, None] * shrink  # in coordinates of prior variance 1/ς
        return ExactField(
            kernel=self.kernel,
            X=self.X,
            beta=beta,
            reduction=reduction,
            readout=self.K @ (root_U @ (whitened / (near + d))),
            site_variance=None,
            scale=scale,
            energy=float(((means**2 + shrink) @ scale.weights).sum()),
            informed=float(d @ shrink @ scale.weights),
            log_det=float(np.log(shrink).sum(0) @ scale.weights),
            kl=expected_kl(shrink, means, scale),
        )

    def at_sites(self, field: ExactField, block: slice) -> tuple[Array, Array]:
        if field.site_variance is not None:
            return field.readout[block], field.site_variance[block]
        return field._moments(self.K[block], np.diag(self.K)[block])

    def influence(self, field: ExactField, x: Array, block: slice) -> Array:
        cross = self.kernel.covariance(x, self.X)[0]
        return np.asarray(field.scale.mean_inverse * cross - self.K @ (field.reduction @ (field.reduction.T @ cross)))[
            block
        ]
