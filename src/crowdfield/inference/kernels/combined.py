"""Kernels made of others: a product over groups of columns, and a smooth part with a constant level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crowdfield.arrays import Array
from crowdfield.inference.kernels.radial import Kernel


@dataclass(frozen=True)
class Product(Kernel):
    """A separable kernel: a product of kernels of which each sees its own columns. `space_time` makes the usual one.

    Parameters
    ----------
    factors : tuple of Kernel
        The kernels.
    columns : tuple of tuples of int
        The columns of X that each of them sees.

    Examples
    --------
    >>> from crowdfield.inference.kernels import Matern12, Matern32, Product
    >>> Product((Matern32(3_000.0), Matern12(6.0)), columns=((0, 1), (2,))).lengthscales(3)
    array([3000., 3000.,    6.])
    """

    factors: tuple[Kernel, ...]
    columns: tuple[tuple[int, ...], ...]

    def lengthscales(self, dimension: int) -> Array:
        """The length-scale of every input column: [D]."""
        out = np.empty(dimension)
        for factor, columns in zip(self.factors, self.columns, strict=True):
            out[list(columns)] = factor.lengthscales(len(columns))
        return out

    def with_lengthscale(self, lengthscale: float | Array) -> Product:
        """The same kernel with other length-scales, one for all columns or one per column."""
        dimension = sum(map(len, self.columns))
        scales = np.broadcast_to(np.asarray(lengthscale, float), (dimension,))
        factors = []
        for factor, columns in zip(self.factors, self.columns, strict=True):
            own = scales[list(columns)]
            factors.append(factor.with_lengthscale(float(own[0]) if np.all(own == own[0]) else own))
        return Product(tuple(factors), self.columns)

    def covariance(self, X: Array, Z: Array) -> Array:
        """The covariance k(X, Z) between places: [n, m]."""
        product = np.ones((len(X), len(Z)))
        for factor, columns in zip(self.factors, self.columns, strict=True):
            product *= factor.covariance(X[:, columns], Z[:, columns])
        return product

    def averaged(self, X: Array, Z: Array, sd: tuple[Array, Array], space: Sequence[int]) -> Array:
        """Covariance averaged over uncertain places; factors that have no column of space stay as they are."""
        product = np.ones((len(X), len(Z)))
        for factor, columns in zip(self.factors, self.columns, strict=True):
            own = [position for position, column in enumerate(columns) if column in space]
            x, z = X[:, columns], Z[:, columns]
            product *= factor.averaged(x, z, sd, own) if own else factor.covariance(x, z)
        return product

    def spectral_density(self, frequencies: Array) -> Array:
        """S at frequencies [m, D]: [m]."""
        product = np.ones(len(frequencies))
        for factor, columns in zip(self.factors, self.columns, strict=True):
            product *= factor.spectral_density(frequencies[:, columns])
        return product


@dataclass(frozen=True)
class WithLevel(Kernel):
    """An intercept and a smooth part: k(x, x′) + v. The learned level also holds far from all reports."""

    part: Kernel
    level: float

    @property
    def smooth(self) -> Kernel:
        """The kernel without its constant part."""
        return self.part

    def lengthscales(self, dimension: int) -> Array:
        """The length-scale of every input column: [D]."""
        return self.part.lengthscales(dimension)

    def with_lengthscale(self, lengthscale: float | Array) -> WithLevel:
        """The same kernel with other length-scales: one number for all columns, or one per column."""
        return WithLevel(self.part.with_lengthscale(lengthscale), self.level)

    def covariance(self, X: Array, Z: Array) -> Array:
        """The covariance k(X, Z) between places: [n, m]."""
        return self.part.covariance(X, Z) + self.level

    def variance(self, X: Array) -> Array:
        """The prior variance k(x, x) at places: [n]."""
        return self.part.variance(X) + self.level

    def spectral_density(self, frequencies: Array) -> Array:
        """The density of the smooth part; a constant has all of its density at frequency zero."""
        return self.part.spectral_density(frequencies)
