"""Inducing points: which places are picked, and what the features keep and leave out."""

from __future__ import annotations

import numpy as np
import pytest

from crowdfield.errors import InputError
from crowdfield.inference.fields import inducing
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.kernels import RBF, Matern32


def test_all_places_as_inducing_points_give_the_kernel_itself():
    X = np.random.default_rng(0).random((40, 4))
    basis = InducingBasis(Matern32(1.0), X, tolerance=1e-12)
    phi = basis.features(X)
    np.testing.assert_allclose(phi @ phi.T, Matern32(1.0).covariance(X, X), atol=1e-9)
    np.testing.assert_allclose(basis.residual(X), 0.0, atol=1e-9)


def test_the_residual_is_the_conditional_variance():
    rng = np.random.default_rng(1)
    X, outputs = rng.random((30, 2)) * 5, rng.random((20, 2)) * 5
    basis = InducingBasis(Matern32(1.0), X, size=8)
    kernel, Z = Matern32(1.0), basis.Z
    conditional = 1.0 - np.einsum(
        "ij,ji->i",
        kernel.covariance(outputs, Z),
        np.linalg.solve(kernel.covariance(Z, Z), kernel.covariance(Z, outputs)),
    )
    np.testing.assert_allclose(basis.residual(outputs), conditional, atol=1e-10)


def test_picks_stop_when_every_place_is_known():
    """Repeated places and a long length-scale need few points; none is picked twice."""
    X = np.repeat(np.random.default_rng(2).random((12, 2)), 5, axis=0)
    basis = InducingBasis(RBF(3.0), X, size=60)
    assert basis.size <= 12
    assert len(np.unique(basis.Z, axis=0)) == basis.size
    assert basis.residual(X).max() <= inducing.TOLERANCE


def test_picks_spread_out_and_reach_the_extremes():
    X = np.vstack([np.random.default_rng(3).random((3000, 2)), [[50.0, 50.0]]])
    basis = InducingBasis(Matern32(0.3), X, size=50, candidates=200)
    assert np.any(np.all(basis.Z == [50.0, 50.0], axis=1))
    assert basis.residual(X).mean() < 0.1


def test_no_features_of_all_places_are_kept(monkeypatch):
    monkeypatch.setattr(inducing, "ENTRIES", 500)
    rng = np.random.default_rng(4)
    X = rng.random((200, 3))
    basis = InducingBasis(Matern32(0.5), X, size=20)
    points, eta, lam = basis.locate(X), rng.standard_normal(200), rng.random(200)
    assert points.features is None
    assert max(rows.stop - rows.start for rows in basis._chunks(points)) * basis.size <= 500
    phi, C = basis.features(X), np.cov(rng.standard_normal((basis.size, 99)))
    linear, quadratic = basis.summarise(points, eta, lam)
    np.testing.assert_allclose(linear, phi.T @ eta, atol=1e-12)
    np.testing.assert_allclose(quadratic, phi.T @ (lam[:, None] * phi), atol=1e-12)
    np.testing.assert_allclose(basis.variance(points, C), np.einsum("ij,jk,ik->i", phi, C, phi), atol=1e-12)
    np.testing.assert_allclose(basis.evaluate(points, C[:, :2]), phi @ C[:, :2], atol=1e-12)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="at least one"):
        InducingBasis(Matern32(1.0), np.empty((0, 2)))
