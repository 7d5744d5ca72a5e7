"""The lattice of frequencies that a kernel needs on a domain: spacing, extent and number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from crowdfield.errors import InputError
from crowdfield.inference.fields.base import Array, extremes
from crowdfield.inference.kernels import Kernel

TOLERANCE = 0.02  # on the kernel, whose variance is 1: see docs/engines.md for what it means for a map
MARGIN = 0.25  # length-scales around the places in which predictions need no extrapolation
MAX_SIZE = 200_000


def alias_distance(kernel: Kernel, dimension: int, tolerance: float) -> Array:
    """How far apart copies of the domain must lie, along every axis, for k between copies to be ≤ tolerance: [D]."""
    return alias_distances(kernel, dimension, (tolerance,))[0]


def alias_distances(kernel: Kernel, dimension: int, tolerances: Sequence[float]) -> list[Array]:
    """`alias_distance` for several tolerances, from one look at the kernel."""
    scales = kernel.lengthscales(dimension)
    steps = np.linspace(0.0, 60.0, 6001)
    out = np.empty((len(tolerances), dimension))
    for axis in range(dimension):
        along = np.zeros((len(steps), dimension))
        along[:, axis] = steps * scales[axis]
        covariance = kernel.smooth.covariance(along, np.zeros((1, dimension)))[:, 0]
        for i, tolerance in enumerate(tolerances):
            last = np.flatnonzero(covariance > tolerance)[-1]
            out[i, axis] = steps[min(last + 1, len(steps) - 1)] * scales[axis]
    return list(out)


def frequencies(kernel: Kernel, period: Array, tolerance: float, max_size: int) -> tuple[NDArray[np.int64], Array]:
    """The fewest lattice points k [n, D] whose weights sum to 1 − tolerance, with those weights [n].

    Points are taken in the order of their density: a ball for an isotropic kernel, never a box. Raises where more
    than `max_size` would be needed.
    """
    dimension, h = len(period), 1.0 / period
    relative = period / kernel.lengthscales(dimension)  # lattice points to one cycle per length-scale
    radius = 0.5  # of the candidates, in cycles per length-scale
    while True:
        half = np.ceil(radius * relative).astype(np.int64)
        if np.prod(2.0 * half + 1.0) > 8.0 * max_size + 64:
            raise InputError(
                f"a tolerance of {tolerance:g} on the kernel needs more than {max_size} Fourier features here. "
                "Use a larger tolerance, a smoother kernel or a longer length-scale, or engine='inducing'."
            )
        axes = [np.arange(-n, n + 1) for n in half]
        k = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, dimension)
        weight = kernel.spectral_density(k * h) * h.prod()
        order = np.argsort(-weight, kind="stable")
        captured = np.cumsum(weight[order])
        # What lies on the faces of the box bounds what lies outside: stop only when all denser points are inside.
        outside = weight[(np.abs(k) == half).any(1)].max()
        needed = int(np.searchsorted(captured, 1.0 - tolerance)) + 1
        if needed <= len(k) and weight[order[needed - 1]] >= outside:
            # Points of equal weight come together, so that the set stays symmetric in k → −k and under reflections.
            last = weight[order[needed - 1]] * (1.0 - 1e-9)
            keep = order[: np.searchsorted(-weight[order], -last, side="right")]
            return k[keep], weight[keep]
        radius *= 1.3


def estimated_size(kernel: Kernel, X: Array, tolerance: float = TOLERANCE) -> float:
    """About how many features the places X need: cheap at any extent, for choosing an engine."""
    return next(estimated_sizes(kernel, X, (tolerance,)))


def estimated_sizes(kernel: Kernel, X: Array, tolerances: Sequence[float]) -> Iterator[float]:
    """About how many features the places X need for each tolerance, in turn.

    The frequencies kept fill a fixed volume of frequency space and the lattice's spacing is one over the period, so
    the count of a small lattice, scaled by the ratio of the periods, is the count of a large one.
    """
    dimension = X.shape[1]
    low, high = extremes(X) if len(X) else (np.zeros(dimension), np.zeros(dimension))
    widest = high - low + MARGIN * kernel.lengthscales(dimension)
    for tolerance, pad in zip(tolerances, alias_distances(kernel, dimension, tolerances), strict=True):
        reference = 2.0 * pad
        try:
            count = len(frequencies(kernel, reference, tolerance, MAX_SIZE // 10)[0])
        except InputError:
            yield float("inf")
        else:
            yield float(count * np.prod((widest + pad) / reference))


def waves_at(angles: Array, k: NDArray[np.int64]) -> NDArray[np.complex128]:
    """e^{i k·θ} at places, as the product of one wave along each axis.   [D, n], [H, D] -> [n, H]"""
    out = np.ones((), complex)
    for angle, along in zip(angles, k.T, strict=True):
        least = int(along.min())
        waves = np.exp(1j * np.multiply.outer(angle, np.arange(least, int(along.max()) + 1)))
        out = out * waves[:, along - least]
    return np.asarray(out)
