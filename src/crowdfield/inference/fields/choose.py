"""Choose an engine by the number of sites, of input columns, and of features that the places need."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from crowdfield.errors import DataWarning, InputError
from crowdfield.inference import blur
from crowdfield.inference.blur import coordinates
from crowdfield.inference.fields.base import Array, Engine
from crowdfield.inference.fields.blurred import BlurredSpectralBasis
from crowdfield.inference.fields.exact import FOR_GIVEN_SCALES, Exact
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.inducing import SIZE, InducingBasis
from crowdfield.inference.fields.iterative import IterativeEngine
from crowdfield.inference.fields.lattice import MAX_SIZE, estimated_size, estimated_sizes
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import Kernel

ENGINES = ("auto", "exact", "inducing", "spectral")

EXACT_ALWAYS = 400  # sites: below, an N × N Cholesky is cheaper than setting anything else up
EXACT_AT_MOST = FOR_GIVEN_SCALES.at_most  # sites: the largest N for which `auto` takes N³
# Share of the prior variance that features may leave out at a site, where the exact engine takes no more sites.
NEARLY_EXACT = 0.02
ITERATIVE_AT_MOST = 60_000  # features: the largest m for products by FFT and sampled variances
AFFORDABLE = 800  # features whose Cholesky factorisation is fast (some 10 ms)
DENSE_FACTOR = 5  # times as many features are still worth an m × m matrix (125 times the work), more are not
# Tolerances on the kernel, from finest to coarsest. Truncated variance acts at every site, so that what it does to
# E[ς] grows with their number: the finest tolerance that costs nothing is the right default.
TOLERANCES = (2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 7e-3, 1e-2, 1.4e-2, 2e-2, 3e-2, 5e-2)
COARSEST = 2e-2  # the coarsest tolerance of a map


def default_tolerance(
    kernel: Kernel, X: Array, affordable: int = AFFORDABLE, coarsest: float = COARSEST
) -> tuple[float, float]:
    """The finest tolerance that affordably few features meet, or the coarsest; and about how many it needs."""
    X = coordinates(kernel, X)
    tried = [tolerance for tolerance in reversed(TOLERANCES) if tolerance <= coarsest]
    for tolerance, needed in zip(tried, estimated_sizes(kernel, X, tried), strict=True):
        if tolerance == coarsest:
            best = tolerance, needed
        if needed > affordable:
            break
        best = tolerance, needed
    return best


def spectral_basis(kernel: Kernel, X: Array, tolerance: float, max_size: int = MAX_SIZE) -> SpectralBasis:
    """Fourier features for places X [N, D], or [N, D + 1] with their standard deviation."""
    if X.shape[1] == coordinates(kernel, X).shape[1]:
        return SpectralBasis(kernel, X, tolerance, max_size=max_size)
    return BlurredSpectralBasis(kernel, X, tolerance, max_size=max_size)


def bulk(kernel: Kernel, X: Array, left_out: float = 1e-3) -> NDArray[np.bool_]:
    """Which places form the bulk of the map, without a few outliers that would make most of the lattice empty.

    An outlier lies more than ten length-scales beyond the central box, which leaves out at most the given fraction of
    the places along any column.
    """
    X = coordinates(kernel, X)
    low, high = np.quantile(X, [left_out / 2, 1.0 - left_out / 2], axis=0)
    reach = 10.0 * kernel.lengthscales(X.shape[1])
    return np.asarray((np.abs(X - (low + high) / 2.0) <= (high - low) / 2.0 + reach).all(1))


def choose(
    name: str,
    kernel: Kernel,
    X: Array,
    *,
    exact: Exact = FOR_GIVEN_SCALES,
    tolerance: float | None = None,
    affordable: int = AFFORDABLE,
    coarsest: float = COARSEST,
    nearly_exact: int = EXACT_AT_MOST,
    size: int = SIZE,
    rng: np.random.Generator | None = None,
) -> Engine:
    """The engine for sites at distinct places X [N, D]: the one named, or for "auto" the one that suits them.

    `exact` is the form of the exact engine that suits what will be done with ς.
    `tolerance` is on the kernel, for the spectral engine; without it, what `affordable` features can meet, or
    `coarsest`. `size` is the most inducing points, `nearly_exact` the most where these are to leave hardly anything
    out; `rng` draws the candidates for them among many places.
    """
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r}: choose one of {', '.join(ENGINES)}.")
    X = np.asarray(X, float)
    n, dimension = coordinates(kernel, X).shape
    if name == "exact" or (name == "auto" and n <= min(EXACT_ALWAYS, affordable)):
        return exact.over(kernel, X)
    if name == "spectral" and dimension > 3:
        raise InputError(
            f"the spectral engine takes one to three input columns, not {dimension}. Use engine='inducing'."
        )
    if name != "inducing" and dimension <= 3:
        tried = _spectral(name, kernel, X, tolerance, affordable, coarsest, rng)
        if tried is not None:
            return tried
    if name == "auto" and n <= EXACT_AT_MOST:
        if n <= min(exact.at_most, nearly_exact):
            return exact.over(kernel, X)
        return FeatureEngine(InducingBasis(kernel, X, nearly_exact, NEARLY_EXACT), X)
    return FeatureEngine(InducingBasis(kernel, X, size, rng=rng), X)


def _spectral(
    name: str,
    kernel: Kernel,
    X: Array,
    tolerance: float | None,
    affordable: int,
    coarsest: float,
    rng: np.random.Generator | None,
) -> Engine | None:
    """Fourier features over all places, or over all but a few outliers; None where another engine is better."""

    def features_for(places: Array) -> tuple[float, float]:
        if tolerance is not None:
            return tolerance, estimated_size(kernel, coordinates(kernel, places), tolerance)
        return default_tolerance(kernel, places, affordable, coarsest)

    def over(places: Array, at: float, needed: float) -> Engine:
        basis = spectral_basis(kernel, places, at, max_size=ITERATIVE_AT_MOST)
        return FeatureEngine(basis, X) if needed <= DENSE_FACTOR * affordable else IterativeEngine(basis, X, rng)

    finest, needed = features_for(X)
    if blur.blurred_part(kernel) is not None and needed > DENSE_FACTOR * affordable:
        if name == "spectral":
            raise InputError("so large a map of inexact places needs engine='inducing'.")
        return None  # the iterative engine takes exact places only
    if name == "auto" and needed >= len(X) and len(X) <= EXACT_AT_MOST:
        return None
    if needed <= ITERATIVE_AT_MOST:
        return over(X, finest, needed)
    near = bulk(kernel, X)
    if not near.all() and len(X) > EXACT_AT_MOST:
        near_finest, near_needed = features_for(X[near])
        if near_needed <= ITERATIVE_AT_MOST:
            warnings.warn(
                f"{int((~near).sum())} of {len(X)} places lie far from all others and are treated as unrelated to the "
                "map. Are their coordinates right?",
                DataWarning,
                stacklevel=3,
            )
            return over(X[near], near_finest, near_needed)
    return over(X, finest, needed) if name == "spectral" else None
