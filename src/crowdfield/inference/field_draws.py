"""Joint draws of a latent function at any number of places: drawn once as weights, evaluated block by block.

What a basis leaves out of the prior must be drawn too, and jointly: far from all reports it is most of the variance,
and independent draws per cell would average out, so that a district would look well known. Two ways, by the kind of
basis:

    inducing points, exact   Matheron's rule: with h a draw of the prior, h(x) − φ(x)·L⁻¹h(Z) has the covariance
                             k(x, x′) − φ(x)·φ(x′) that is left out. h is drawn by Fourier features over all places.
    Fourier features         within their domain a white remainder (the truncated frequencies). Outside it, a smooth
                             draw of the prior, scaled to the variance that is left out at each place.

Both keep every place's mean and variance what the predictor says they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg as sla

from crowdfield.errors import InputError
from crowdfield.inference.blur import coordinates
from crowdfield.inference.fields import product
from crowdfield.inference.fields.base import Array, Field, cholesky
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.fields.choose import default_tolerance, spectral_basis
from crowdfield.inference.fields.exact import ExactBasis, ExactField
from crowdfield.inference.fields.features import FeatureField
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.fields.iterative import IterativeField
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import Kernel

PRIOR_FEATURES = 3_000  # features of a draw of the prior, which has the finest tolerance that they can meet
MOST_PRIOR_FEATURES = 60_000  # features: a map that needs more is drawn place by place
JITTER = 1e-12  # share of the trace added to the diagonal, so that a rounded covariance has a Cholesky factor


class FunctionDraws(Protocol):
    """n fixed draws of one function, and the variance of independent noise to be added to them."""

    @property
    def sd(self) -> Array:
        """ς^−½ of every draw: [n]."""
        ...

    def at(self, X: Array) -> Array:
        """The draws at places.   [M, D] -> [M, n]"""
        ...

    def noise_variance(self, X: Array) -> Array:
        """The prior variance, in units of 1/ς, that is to be added as independent noise: [M]."""
        ...


class PriorDraws(NamedTuple):
    """Draws of the prior with unit ς over a region."""

    basis: SpectralBasis
    weights: Array  # [m, n] standard normal

    def at(self, X: Array) -> Array:
        """The draws at places.   [M, D] -> [M, n]"""
        return product.evaluate(self.basis, X, self.weights)


def prior_draws(kernel: Kernel, places: Array, size: int, rng: np.random.Generator) -> PriorDraws | None:
    """Draws of the prior over the box of `places`; None where Fourier features cannot represent it."""
    if coordinates(kernel, places).shape[1] > 3:
        return None
    tolerance, _ = default_tolerance(kernel, places, PRIOR_FEATURES)
    try:
        basis = spectral_basis(kernel, places, tolerance, max_size=MOST_PRIOR_FEATURES)
    except InputError:
        return None
    return PriorDraws(basis, rng.standard_normal((basis.size, size)))


@dataclass(frozen=True)
class Interpolated:
    """Draws through the values at inducing points, by Matheron's rule."""

    basis: InducingBasis
    weights: Array  # [m, n] less those of the prior's draws
    prior: PriorDraws
    sd: Array  # [n] ς^−½

    def at(self, X: Array) -> Array:
        """The draws at places.   [M, D] -> [M, n]"""
        return np.asarray(product.evaluate(self.basis, X, self.weights) + self.sd * self.prior.at(X))

    def noise_variance(self, X: Array) -> Array:
        """The prior variance that is left for independent noise: [M]."""
        return np.zeros(len(X))


@dataclass(frozen=True)
class Truncated:
    """Draws of features; what they leave out is a scaled smooth draw of the prior, or white noise without one."""

    basis: Basis
    weights: Array  # [m, n]
    prior: PriorDraws | None
    sd: Array  # [n] ς^−½

    def at(self, X: Array) -> Array:
        """The draws at places.   [M, D] -> [M, n]"""
        out = product.evaluate(self.basis, X, self.weights)
        if self.prior is not None:
            scale = np.sqrt(self.basis.residual(X) / self.prior.basis.captured)
            out += scale[:, None] * self.sd * self.prior.at(X)
        return out

    def noise_variance(self, X: Array) -> Array:
        """The prior variance that is left for independent noise: [M]."""
        return self.basis.residual(X) if self.prior is None else np.zeros(len(X))


def through_basis(basis: Basis, weights: Array, sd: Array, region: Array, rng: np.random.Generator) -> FunctionDraws:
    """Draws of a function from draws of its weights [m, n]. `region` [2, D]: corners of the box of all places."""
    if isinstance(basis, InducingBasis):
        exact = np.pad(region, ((0, 0), (0, basis.Z.shape[1] - region.shape[1])))  # some of Z may be inexact
        prior = prior_draws(basis.kernel, np.vstack([exact, basis.Z]), weights.shape[1], rng)
        if prior is None:
            return Truncated(basis, weights, None, sd)
        known = sla.solve_triangular(basis.root, prior.at(basis.Z), lower=True, check_finite=False)
        return Interpolated(basis, weights - sd * known, prior, sd)
    prior = None
    if isinstance(basis, SpectralBasis) and not basis.covers(region).all():
        prior = prior_draws(basis.kernel.smooth, region, weights.shape[1], rng)
    return Truncated(basis, weights, prior, sd)


def of_field(field: Field, size: int, region: Array, rng: np.random.Generator) -> FunctionDraws:
    """Draws of a Gaussian posterior, its mean included."""
    sd = np.full(size, np.sqrt(field.scale.mean_inverse))
    basis: Basis
    if isinstance(field, FeatureField):
        basis, weights = field.basis, gaussian(field.mean, field.covariance, size, rng)
    elif isinstance(field, IterativeField):
        noise = rng.standard_normal((len(field.mean), size + size % 2))
        basis, weights = field.system.basis, field.mean[:, None] + field.system.draw(noise)[0][:, :size]
    elif isinstance(field, ExactField):
        basis, weights = _of_exact(field, size, rng)
    else:
        raise TypeError(f"no joint draws are known for {type(field).__name__}")
    return through_basis(basis, weights, sd, region, rng)


def _of_exact(field: ExactField, size: int, rng: np.random.Generator) -> tuple[Basis, Array]:
    """Draws of an exact posterior, as weights of a basis with a feature for every place that is not redundant."""
    basis = ExactBasis(field.kernel, field.X)
    mean, covariance = field.kernel.covariance(basis.Z, field.X) @ field.beta, field.covariance_at(basis.Z)
    half = sla.solve_triangular(basis.root, covariance, lower=True, check_finite=False)
    whitened = sla.solve_triangular(basis.root, half.T, lower=True, check_finite=False)
    centre = sla.solve_triangular(basis.root, mean, lower=True, check_finite=False)
    return basis, gaussian(centre, (whitened + whitened.T) / 2.0, size, rng)


def gaussian(mean: Array, covariance: Array, size: int, rng: np.random.Generator) -> Array:
    """n draws of N(mean, covariance): [m, n]."""
    jittered = covariance + JITTER * np.trace(covariance) * np.eye(len(covariance))
    root = cholesky(jittered, "the posterior covariance of the map")
    return np.asarray(mean[:, None] + root @ rng.standard_normal((len(mean), size)))


def corners(*places: Array) -> Array:
    """Opposite corners of the box around all places: [2, D]."""
    stacked = np.concatenate([p for p in places if len(p)])
    return np.stack([stacked.min(axis=0), stacked.max(axis=0)])
