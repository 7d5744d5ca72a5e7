"""Fourier features: the kernel they stand for, the sums by non-uniform FFT, and what lies outside their domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdfield.errors import InputError
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.lattice import estimated_size
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import RBF, Matern12, Matern32, Matern52, Product, WithLevel

RADIAL = [Matern12(0.8), Matern32(0.8), Matern52(0.8), RBF(0.8)]


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("kernel", RADIAL, ids=lambda k: type(k).__name__)
def test_features_meet_their_tolerance_on_the_kernel(kernel, dimension):
    tolerance = {1: 0.01, 2: 0.03, 3: 0.1}[dimension]
    X = np.random.default_rng(dimension).random((60, dimension)) * 1.2
    basis = SpectralBasis(kernel, X, tolerance)
    phi = basis.features(X)
    assert basis.error <= tolerance
    # `error` looks at a fixed sample of distances; these pairs are others, so a little more is allowed.
    assert np.abs(phi @ phi.T - kernel.covariance(X, X)).max() <= 1.1 * tolerance


@pytest.mark.parametrize(
    "kernel",
    [Matern32((3.0, 0.5)), Product((Matern32(0.5), Matern52(2.0)), ((0,), (1,)))],
    ids=["anisotropic", "product"],
)
def test_features_follow_every_axis(kernel):
    X = np.random.default_rng(0).random((80, 2)) * [2.0, 1.0]
    phi = SpectralBasis(kernel, X, 0.02).features(X)
    assert np.abs(phi @ phi.T - kernel.covariance(X, X)).max() <= 0.022


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_sums_by_the_nonuniform_fft_are_the_dense_sums(dimension):
    rng = np.random.default_rng(3)
    X = rng.random((50, dimension)) * [1.0, 2.0, 0.5][:dimension]
    basis = SpectralBasis(Matern52(1.0), X, 0.04)
    # Some places lie outside the domain: their features are shrunk, in every sum alike.
    X = np.vstack([X, X[:5] + 1.5])
    eta, lam, weights = rng.standard_normal(len(X)), rng.random(len(X)), rng.standard_normal((basis.size, 3))
    phi, points = basis.features(X), basis.locate(X)
    close: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}  # a transform is good to 1e-9 of the sum of its terms' sizes
    np.testing.assert_allclose(basis.project(points, eta), phi.T @ eta, **close)
    np.testing.assert_allclose(basis.gram(basis.gram_statistics(points, lam)), phi.T @ (lam[:, None] * phi), **close)
    np.testing.assert_allclose(basis.evaluate(points, weights), phi @ weights, **close)
    np.testing.assert_allclose(basis.evaluate(points, weights[:, 0]), phi @ weights[:, 0], **close)
    np.testing.assert_allclose(basis.variance(points, weights @ weights.T), ((phi @ weights) ** 2).sum(1), **close)
    np.testing.assert_allclose(basis.residual(X), 1.0 - (phi**2).sum(1), **close)


@pytest.mark.parametrize(("dimension", "tolerance"), [(1, 0.001), (2, 0.01)])
def test_sites_see_only_the_visible_weights(dimension, tolerance):
    """Their features have hardly any component in the other weights; nor have those of sites far away."""
    rng = np.random.default_rng(dimension)
    X = rng.random((50, dimension))
    basis = SpectralBasis(WithLevel(Matern32(1.0), 1.0), X, tolerance)
    U = basis.visible
    assert U is not None and U.shape[1] < 0.5 * basis.size
    np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-12)
    phi = basis.features(np.vstack([X, X[:5] + 50.0]))
    np.testing.assert_allclose(phi @ U @ U.T, phi, atol=1e-3)


def test_on_wide_maps_sites_may_see_most_of_the_weights():
    X = np.random.default_rng(0).random((50, 2)) * 10.0
    assert SpectralBasis(Matern32(1.0), X, 0.05).visible is None


def test_fields_from_visible_weights_are_those_of_all_weights():
    rng = np.random.default_rng(1)
    X = rng.random((60, 2))
    basis = SpectralBasis(WithLevel(Matern32(1.0), 1.0), X, 0.01)
    engine, everything = FeatureEngine(basis, X), FeatureEngine(AllVisible(basis.kernel, X, 0.01), X)
    eta, lam = rng.standard_normal(60), rng.random(60)
    places = np.vstack([X, X[:5] + 1.5])
    few, all_ = (
        e.posterior_integrated([e.summarise(e.blocks[0], eta, lam)], 2.0, 1.0, near=1.0)[0]
        for e in (engine, everything)
    )
    for name in ("energy", "informed", "log_det", "kl"):
        assert getattr(few, name) == pytest.approx(getattr(all_, name), rel=1e-5)
    for one, other in zip(few.at(places), all_.at(places), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


class AllVisible(SpectralBasis):
    visible = None


def test_blocks_add_up():
    rng = np.random.default_rng(4)
    X, eta, lam = rng.random((40, 2)), rng.standard_normal(40), rng.random(40)
    basis = SpectralBasis(Matern32(0.5), X)
    whole, parts = FeatureEngine(basis, X), FeatureEngine(basis, X, block=9)
    total = parts.empty()
    for block in parts.blocks:
        total = total + parts.summarise(block, eta[block], lam[block])
    once = whole.summarise(whole.blocks[0], eta, lam)
    np.testing.assert_allclose(total.linear, once.linear, atol=1e-8)
    np.testing.assert_allclose(total.quadratic, once.quadratic, atol=1e-8)


def test_statistics_do_not_grow_with_sites():
    """What travels between blocks and machines is a lattice of frequencies, about 4ᴰ/V(D) · m numbers."""
    X = np.random.default_rng(5).random((30, 2)) * 5
    basis = SpectralBasis(Matern32(1.0), X)
    engine = FeatureEngine(basis, X)
    statistics = engine.summarise(engine.blocks[0], np.ones(30), np.ones(30))
    assert statistics.linear.size == basis.size
    assert statistics.quadratic.size < 8 * basis.size


def test_the_periodic_kernel_is_never_evaluated_outside_the_domain():
    X = np.random.default_rng(6).random((50, 2)) * 4
    basis = SpectralBasis(Matern32(1.0), X)
    engine = FeatureEngine(basis, X)
    field = engine.posterior(engine.summarise(engine.blocks[0], np.full(50, 3.0), np.full(50, 2.0)), 0.5)
    # One period away the raw features would repeat the map; the field has returned to its prior there.
    mean, variance = field.at(np.array([[2.0 + basis.period[0], 2.0], [1e9, -1e9]]))
    np.testing.assert_allclose(mean, 0.0, atol=1e-2)
    np.testing.assert_allclose(variance, 2.0, rtol=1e-2)
    # It returns monotonically, and without a step where the domain ends.
    path = np.column_stack([np.linspace(4.0, 9.0, 400), np.full(400, 2.0)])
    along, spread = field.at(path)
    beyond = path[:, 0] > basis.high[0]
    assert np.all(np.diff(along[beyond]) < 0) and np.all(np.diff(spread[beyond]) > 0)
    assert np.abs(np.diff(along)).max() < 0.05


def test_the_number_of_features_is_estimated_at_any_extent():
    for extent, kernel in [(2.0, Matern32(1.0)), (12.0, Matern32(1.0)), (6.0, RBF(1.0)), (3.0, Matern52((0.5, 2.0)))]:
        X = np.array([[0.0, 0.0], [extent, extent]])
        assert estimated_size(kernel, X) == pytest.approx(SpectralBasis(kernel, X).size, rel=0.35)
    assert estimated_size(Matern32(1.0), np.array([[0.0, 0.0], [1e6, 1e6]])) > 1e9


@pytest.mark.parametrize(
    ("kernel", "X", "options", "message"),
    [
        (Matern32(1.0), [[0.0, 0.0], [1e6, 1e6]], {}, "Fourier features"),
        (Matern12(1.0), [[0.0] * 3, [9.0] * 3], {}, "larger tolerance"),
        (Matern32(1.0), [[0.0] * 4], {}, "one to three columns"),
        (Matern32(1.0), np.empty((0, 2)), {}, "at least one place"),
        (Matern32(1.0), [[0.0, 0.0]], {"tolerance": 0.7}, "tolerance"),
        (Matern32(1.0), [[0.0, np.nan]], {}, "finite"),
    ],
)
def test_bad_input_is_refused(kernel, X, options, message):
    with pytest.raises(InputError, match=message):
        SpectralBasis(kernel, np.asarray(X, float), **options)
