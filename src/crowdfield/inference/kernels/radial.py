"""Stationary kernels of unit variance that depend on the distance: covariance and spectral density, side by side.

Frequencies are in cycles per unit of the (unscaled) coordinates, so that k(x) = ∫ S(ξ) e^{2πi ξ·x} dξ and ∫ S = 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import gamma, pi

import numpy as np

from crowdfield.arrays import Array


class Kernel(ABC):
    """A covariance function of places [n, D] with k(x, x) = 1: what `HeatmapBCC(kernel=...)` takes.

    For a kernel of your own subclass `Radial` if it depends on the distance only, or `Matern` if only the smoothness is
    new.
    """

    level = 0.0  # variance of a constant part, the same everywhere

    @property
    def smooth(self) -> Kernel:
        """The kernel without its constant part."""
        return self

    @abstractmethod
    def covariance(self, X: Array, Z: Array) -> Array:
        """The covariance k(X, Z) between places: [n, m]."""

    @abstractmethod
    def spectral_density(self, frequencies: Array) -> Array:
        """S at frequencies [m, D]: [m]."""

    @abstractmethod
    def lengthscales(self, dimension: int) -> Array:
        """The length-scale of every input column: [D]."""

    @abstractmethod
    def with_lengthscale(self, lengthscale: float | Array) -> Kernel:
        """The same kernel with other length-scales: one number for all columns, or one per column."""

    def variance(self, X: Array) -> Array:
        """The prior variance k(x, x) at places: [n]."""
        return np.ones(len(X))

    def averaged(self, X: Array, Z: Array, sd: tuple[Array, Array], space: Sequence[int]) -> Array:
        """The covariance averaged over uncertain places: [n, m].

        E[k(x + u, z + v)] with independent normal u, v of standard deviations sd ([n], [m]) in the columns of `space`,
        by Gauss–Hermite quadrature, one pair of places after the other.
        """
        nodes, weights = np.polynomial.hermite_e.hermegauss(DISPLACEMENTS)
        grid = np.stack(np.meshgrid(*[nodes] * len(space), indexing="ij"), -1).reshape(-1, len(space))
        total = np.prod(np.meshgrid(*[weights / weights.sum()] * len(space), indexing="ij"), axis=0).ravel()
        together = np.sqrt(sd[0][:, None] ** 2 + sd[1] ** 2)
        out = np.empty((len(X), len(Z)))
        for i, j in np.ndindex(out.shape):  # only the difference of the two places matters
            moved = np.tile(X[i], (len(grid), 1))
            moved[:, list(space)] += together[i, j] * grid
            out[i, j] = total @ self.covariance(moved, Z[j : j + 1])[:, 0]
        return out


# Of the quadrature over displacements along each column, for kernels that have no closed form under a Gaussian.
DISPLACEMENTS = 7
# Matérn kernels as mixtures of squared exponentials: nodes in the logarithm of the squared length-scale, evenly spaced.
# The trapezoidal rule is exact to 1e-5 at this spacing; beyond the ends lies less than that of any blurred kernel.
MIXTURE_STEP, MIXTURE_FIRST, MIXTURE_LAST = 0.5, -9.0, 3.0


@dataclass(frozen=True)
class Radial(Kernel):
    """A kernel of the scaled distance r = ‖(x − x′) / l‖.

    Subclasses give the covariance, `of_distance`, and its spectral density, `density_of_frequency`.

    Parameters
    ----------
    lengthscale : float or tuple of float, default=1.0
        The length-scale l, one for all columns or one per column.
    """

    lengthscale: float | tuple[float, ...] = 1.0

    @abstractmethod
    def of_distance(self, r: Array) -> Array:
        """The covariance at scaled distances r ≥ 0; 1 at r = 0."""
        ...

    @abstractmethod
    def density_of_frequency(self, xi: Array, dimension: int) -> Array:
        """S of the radial frequency, in cycles per length-scale."""

    def lengthscales(self, dimension: int) -> Array:
        """The length-scale of every input column: [D]."""
        return np.broadcast_to(np.asarray(self.lengthscale, float), (dimension,))

    def with_lengthscale(self, lengthscale: float | Array) -> Radial:
        """The same kernel with other length-scales: one number for all columns, or one per column."""
        scales = np.atleast_1d(np.asarray(lengthscale, float))
        return type(self)(float(scales[0]) if scales.size == 1 else tuple(map(float, scales)))

    def covariance(self, X: Array, Z: Array) -> Array:
        """The covariance k(X, Z) between places: [n, m]."""
        scales = self.lengthscales(X.shape[1])
        # Differences column by column: |x|² + |z|² − 2xz loses the distance of places that nearly coincide.
        squared = np.zeros((len(X), len(Z)))
        for column in range(X.shape[1]):
            squared += np.subtract.outer(X[:, column] / scales[column], Z[:, column] / scales[column]) ** 2
        return self.of_distance(np.sqrt(squared, out=squared))

    def mixture(self) -> tuple[Array, Array] | None:
        """k(r) = Σ_g w_g exp(−r² / 2g) as nodes g and weights, where the kernel is such a mixture."""
        return None

    def averaged(self, X: Array, Z: Array, sd: tuple[Array, Array], space: Sequence[int]) -> Array:
        """A squared exponential averaged over a Gaussian is one again, wider; so is every part of a mixture."""
        parts = self.mixture()
        if parts is None:
            return super().averaged(X, Z, sd, space)
        scales = self.lengthscales(X.shape[1])
        variance = np.add.outer(sd[0] ** 2, sd[1] ** 2)
        squared = [np.subtract.outer(X[:, d], Z[:, d]) ** 2 for d in range(X.shape[1])]
        out = np.zeros((len(X), len(Z)))
        for g, weight in zip(*parts, strict=True):
            exponent, spread = np.zeros_like(out), np.ones_like(out)
            for d, each in enumerate(squared):
                wider = g * scales[d] ** 2 + variance if d in space else g * scales[d] ** 2
                exponent -= each / wider
                spread *= g * scales[d] ** 2 / wider
            exponent *= 0.5
            out += weight * np.sqrt(spread, out=spread) * np.exp(exponent, out=exponent)
        return out

    def spectral_density(self, frequencies: Array) -> Array:
        """S at frequencies [m, D]: [m]."""
        scales = self.lengthscales(frequencies.shape[1])
        xi = np.sqrt(((frequencies * scales) ** 2).sum(1))
        return np.asarray(self.density_of_frequency(xi, frequencies.shape[1]) * scales.prod())


class Matern(Radial):
    """Matérn kernels: ν is the smoothness; draws have ⌈ν⌉ − 1 derivatives.

    Subclasses give `nu` and the covariance, `of_distance`; the spectral density follows.
    """

    nu: float

    def mixture(self) -> tuple[Array, Array]:
        """Nodes and weights of g ~ Gamma(ν, ν): the density is Student's t, a normal with a gamma precision."""
        log_g = np.arange(MIXTURE_FIRST, MIXTURE_LAST, MIXTURE_STEP)
        log_weight = self.nu * (log_g + np.log(self.nu) - np.exp(log_g)) - np.log(gamma(self.nu))
        return np.exp(log_g), MIXTURE_STEP * np.exp(log_weight)

    def density_of_frequency(self, xi: Array, dimension: int) -> Array:
        """S of the radial frequency, in cycles per length-scale."""
        nu, d = self.nu, dimension
        constant = 2**d * pi ** (d / 2) * gamma(nu + d / 2) * (2 * nu) ** nu / gamma(nu)
        return np.asarray(constant * (2 * nu + 4 * pi**2 * xi**2) ** -(nu + d / 2))


class Matern12(Matern):
    """The Matérn kernel with ν = 1/2: continuous and rough; in time, an exponential decay.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdfield.inference.kernels import Matern12
    >>> Matern12(2.0).covariance(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.368]])
    """

    nu = 0.5

    def of_distance(self, r: Array) -> Array:
        """The covariance at scaled distances r ≥ 0; 1 at r = 0."""
        return np.asarray(np.exp(-r))


class Matern32(Matern):
    """The Matérn kernel with ν = 3/2, the default: draws have one derivative.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdfield.inference.kernels import Matern32
    >>> Matern32(2.0).covariance(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.483]])
    """

    nu = 1.5

    def of_distance(self, r: Array) -> Array:
        """The covariance at scaled distances r ≥ 0; 1 at r = 0."""
        z = np.sqrt(3.0) * r
        return np.asarray((1.0 + z) * np.exp(-z))


class Matern52(Matern):
    """The Matérn kernel with ν = 5/2: draws have two derivatives.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdfield.inference.kernels import Matern52
    >>> Matern52(2.0).covariance(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.524]])
    """

    nu = 2.5

    def of_distance(self, r: Array) -> Array:
        """The covariance at scaled distances r ≥ 0; 1 at r = 0."""
        z = np.sqrt(5.0) * r
        return np.asarray((1.0 + z + z**2 / 3.0) * np.exp(-z))


class RBF(Radial):
    """The squared exponential kernel: infinitely smooth, the limit ν → ∞ of the Matérn kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdfield.inference.kernels import RBF
    >>> RBF(2.0).covariance(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.607]])
    """

    def mixture(self) -> tuple[Array, Array]:
        """k(r) = Σ_g w_g exp(−r² / 2g) as nodes g and weights, where the kernel is such a mixture."""
        return np.ones(1), np.ones(1)

    def of_distance(self, r: Array) -> Array:
        """The covariance at scaled distances r ≥ 0; 1 at r = 0."""
        return np.asarray(np.exp(-0.5 * r**2))

    def density_of_frequency(self, xi: Array, dimension: int) -> Array:
        """S of the radial frequency, in cycles per length-scale."""
        return np.asarray((2 * pi) ** (dimension / 2) * np.exp(-2 * pi**2 * xi**2))
