"""Kernels: covariance and spectral density are Fourier transforms of each other, and separable kernels multiply."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import j0

from crowdfield.errors import InputError
from crowdfield.inference.kernels import KERNELS, RBF, Matern32, Matern52, Product, kernel, space_time

NAMES = sorted(KERNELS)


def transform(k, distance: float, dimension: int) -> Any:
    """∫ S(ξ) e^{2πi ξ·x} dξ for a radial density, by quadrature over the radial frequency."""

    def density(xi: float) -> float:
        return float(k.density_of_frequency(np.array([xi]), dimension)[0])

    wave = {
        1: lambda xi: 2.0 * np.cos(2 * np.pi * xi * distance),
        2: lambda xi: 2 * np.pi * xi * j0(2 * np.pi * xi * distance),
        3: lambda xi: 4 * np.pi * xi**2 * np.sinc(2 * xi * distance),
    }[dimension]
    return quad(lambda xi: density(xi) * wave(xi), 0.0, 40.0, limit=2000, epsabs=1e-9)[0]


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_density_is_the_transform_of_the_covariance(name, dimension):
    k = KERNELS[name](1.0)
    for distance in (0.3, 1.0, 2.5):
        expected = float(k.of_distance(np.array([distance]))[0])
        # The quadrature stops at 40 cycles; what Matérn 1/2 has beyond falls off as 1/ξ and, as a wave, averages out.
        slack = {"matern12": 2e-2, "matern32": 1e-4}.get(name, 1e-6)
        assert transform(k, distance, dimension) == pytest.approx(expected, abs=slack)


@pytest.mark.parametrize("name", NAMES)
def test_densities_scale_with_every_axis(name):
    """Stretching an axis by l shrinks frequencies by l and keeps the integral one."""
    frequencies = np.random.default_rng(0).standard_normal((7, 2))
    scales = np.array([2.0, 0.3])
    stretched = kernel(name, scales).spectral_density(frequencies)
    unit = kernel(name, 1.0).spectral_density(frequencies * scales)
    np.testing.assert_allclose(stretched, unit * scales.prod())
    X = np.random.default_rng(1).random((5, 2))
    np.testing.assert_allclose(
        kernel(name, scales).covariance(X, X), kernel(name, 1.0).covariance(X / scales, X / scales)
    )


def test_a_product_multiplies_covariances_and_densities():
    k = Product((Matern52(2.0), RBF(0.5)), ((0, 2), (1,)))
    X, Z = np.random.default_rng(2).random((2, 6, 3))
    expected = Matern52(2.0).covariance(X[:, [0, 2]], Z[:, [0, 2]]) * RBF(0.5).covariance(X[:, [1]], Z[:, [1]])
    np.testing.assert_allclose(k.covariance(X, Z), expected)
    density = Matern52(2.0).spectral_density(X[:, [0, 2]]) * RBF(0.5).spectral_density(X[:, [1]])
    np.testing.assert_allclose(k.spectral_density(X), density)
    np.testing.assert_allclose(k.lengthscales(3), [2.0, 0.5, 2.0])
    np.testing.assert_allclose(k.with_lengthscale(np.array([1.0, 3.0, 4.0])).lengthscales(3), [1.0, 3.0, 4.0])


def test_space_and_time_have_their_own_scales():
    k = space_time("matern32", 10.0, "matern32", 3600.0)
    apart_in_space = k.covariance(np.array([[0.0, 0.0, 0.0]]), np.array([[10.0, 0.0, 0.0]]))
    apart_in_time = k.covariance(np.array([[0.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 3600.0]]))
    np.testing.assert_allclose(apart_in_space, apart_in_time)


def test_kernels_by_name():
    assert kernel("matern32", 3.0) == Matern32(3.0)
    assert kernel(RBF(2.0)) == RBF(2.0)
    assert kernel(RBF(2.0), 5.0) == RBF(5.0)
    with pytest.raises(InputError, match="matern12, matern32, matern52, rbf"):
        kernel("warp")
