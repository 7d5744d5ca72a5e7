"""Inexact places: a report observes the average of f over the possible locations of its place.

A place has D coordinates and, where some places are inexact, one more column: the standard deviation s of each of its
first two coordinates. Where some reports are about whole areas, another column is 1 for these and 0 for the rest. The
smooth part at such a place is f̄(x) = E[f(x + u)], u ~ N(0, s² I): f is averaged, not the probability ρ. Averaging is a
convolution, so

    Cov(f̄(x), f̄(x′)) = E[k(x + u, x′ + u′)]      every frequency ξ of the kernel damped by exp(−2π² |ξ|² s²)

The value at the true place keeps its full variance: f(x + u) = f̄(x) + ε with Var ε = k(0) − Var f̄(x), the *lost
variance*, which is independent noise of that place. A report about a whole area (a tile, a village) is about f̄ itself,
and nothing is lost: the log odds of its state are f̄, not those of one place somewhere in it. Places with D columns are
exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import pi

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.kernels import Array, Kernel

SPACE = 2  # the columns that an accuracy is about: easting and northing
# A rule for averages over a normal distribution of the plane, exact for polynomials of degree five: the centre, and a
# hexagon of two standard deviations. On a line, three nodes do the same.
HEXAGON: Array = 2.0 * np.array([[np.cos(a), np.sin(a)] for a in np.arange(6) * pi / 3.0])
MACKAY = pi / 8.0  # E[σ(f + ε)] ≈ σ(f / √(1 + π/8 Var ε))


@dataclass(frozen=True)
class Blurred(Kernel):
    """A kernel of D columns for places that may have one column more, their standard deviation."""

    part: Kernel
    dimension: int  # D

    def lengthscales(self, dimension: int) -> Array:
        """The length-scale of every input column: [D]."""
        return self.part.lengthscales(self.dimension)

    def with_lengthscale(self, lengthscale: float | Array) -> Blurred:
        """The same kernel with other length-scales: one number for all columns, or one per column."""
        return Blurred(self.part.with_lengthscale(lengthscale), self.dimension)

    def spectral_density(self, frequencies: Array) -> Array:
        """S at frequencies [m, D]: [m]."""
        return self.part.spectral_density(frequencies)

    def covariance(self, X: Array, Z: Array) -> Array:
        """Covariances of places, averaged over the possible locations of the inexact ones.   [N, D], [M, D]
        -> [N, M]"""
        (x, of_x), (z, of_z) = split(X, self.dimension), split(Z, self.dimension)
        rows, columns = np.flatnonzero(of_x), np.flatnonzero(of_z)
        out = self.part.covariance(x, z)
        space = range(min(self.dimension, SPACE))
        if len(rows):
            out[rows] = self.part.averaged(x[rows], z, (of_x[rows], of_z), space)
        if len(columns):
            exact = np.flatnonzero(of_x == 0.0)
            out[np.ix_(exact, columns)] = self.part.averaged(
                x[exact], z[columns], (np.zeros(len(exact)), of_z[columns]), space
            )
        return out

    def variance(self, X: Array) -> Array:
        """The prior variance of f̄ at places: [n]."""
        out = np.empty(len(X))
        for sd, rows in by_level(split(X, self.dimension)[1]):
            here = np.append(np.zeros(self.dimension), sd)[None]
            out[rows] = self.covariance(here, here)[0, 0]
        return out


def split(X: Array, dimension: int) -> tuple[Array, Array]:
    """Coordinates [n, D], and the standard deviation of each place [n]; zero where there is no such column."""
    return X[:, :dimension], X[:, dimension] if X.shape[1] > dimension else np.zeros(len(X))


def is_area(X: Array, dimension: int) -> NDArray[np.bool_]:
    """Which places are whole areas: [n]."""
    return X[:, dimension + 1] > 0.0 if X.shape[1] > dimension + 1 else np.zeros(len(X), dtype=bool)


def by_level(sd: Array) -> Iterator[tuple[float, NDArray[np.int64]]]:
    """Every standard deviation that occurs, and the rows that have it."""
    levels, which = np.unique(sd, return_inverse=True)
    for i, level in enumerate(levels.tolist()):
        yield level, np.flatnonzero(which == i)


def blurred_part(kernel: Kernel) -> Blurred | None:
    """The part of a kernel that handles inexact places, if there is one."""
    return kernel.smooth if isinstance(kernel.smooth, Blurred) else None


def coordinates(kernel: Kernel, X: Array) -> Array:
    """Places without their standard deviation: [n, D]."""
    blurred = blurred_part(kernel)
    return X if blurred is None else X[:, : blurred.dimension]


def damping(frequencies: Array, sd: float) -> Array:
    """The factor by which averaging damps every frequency.   [m, D] -> [m]"""
    return np.asarray(np.exp(-2.0 * pi**2 * sd**2 * (frequencies[:, :SPACE] ** 2).sum(1)))


def lost_variance(kernel: Kernel, X: Array) -> Array | None:
    """k(0) − Var f̄ of one place somewhere in what is averaged over, in units of the smooth part's variance: [n]; zero
    for whole areas; None where all are exact."""
    blurred = blurred_part(kernel)
    if blurred is None or X.shape[1] == blurred.dimension:
        return None
    whole = blurred.part.variance(X[:, : blurred.dimension])
    lost = np.maximum(whole - blurred.variance(X), 0.0)
    return np.where(is_area(X, blurred.dimension), 0.0, lost)


def flattening(kernel: Kernel, X: Array, variance: float) -> Array | None:
    """κ with E[σ(f̄ + ε)] ≈ σ(κ f̄): an inexact place has less extreme probabilities. [n], or None if all are exact.

    `variance` is that of f before any report, 1/ς at its prior. At the ς that is learned κ would fall with it, and the
    reports could be explained by ever larger functions that are flattened ever more: ς ran away to zero.
    """
    lost = lost_variance(kernel, X)
    return None if lost is None else np.asarray(1.0 / np.sqrt(1.0 + MACKAY * variance * lost))


def averaged(function: Callable[[Array], Array], X: Array, dimension: int) -> Array:
    """A function of places, averaged over the possible locations of each: [n, ...]."""
    x, sd = split(X, dimension)
    rows = np.flatnonzero(sd)
    value = np.asarray(function(x))
    if not len(rows):
        return value
    around = _around(x[rows], sd[rows])
    weight = 1.0 / 6.0 if dimension == 1 else 1.0 / 12.0
    out = np.array(value)
    beside = sum(np.asarray(function(there)) for there in around)
    out[rows] = (1.0 - weight * len(around)) * value[rows] + weight * beside
    return out


def evaluated_places(X: Array, dimension: int) -> Array:
    """All places at which `averaged` evaluates its function: [n′, D]."""
    x, sd = split(X, dimension)
    rows = np.flatnonzero(sd)
    return np.concatenate([x, *_around(x[rows], sd[rows])])


def _around(x: Array, sd: Array) -> list[Array]:
    """The nodes beside the place itself, each [n, D]."""
    moves = np.array([[-np.sqrt(3.0)], [np.sqrt(3.0)]]) if x.shape[1] == 1 else HEXAGON
    moves = np.pad(moves, ((0, 0), (0, x.shape[1] - moves.shape[1])))
    return [x + sd[:, None] * move for move in moves]
