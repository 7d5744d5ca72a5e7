"""Products by FFT and sampled variances, against the dense path of the same basis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdfield.errors import NumericalError
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.iterative import IterativeEngine
from crowdfield.inference.fields.krylov import Convolution, Preconditioner, conjugate_gradients, head_of
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import Matern32, Matern52

PRECISION = 0.8
# A head as large as the basis would make the preconditioner exact, and these tests empty.
HEAD = 20


def problem(dimension: int, n: int = 400):
    rng = np.random.default_rng(dimension)
    X = rng.beta(1.5, 3.0, (n, dimension)) * [4.0, 3.0, 2.0][:dimension]  # uneven: the Gram matrix is not diagonal
    basis = SpectralBasis((Matern32, Matern32, Matern52)[dimension - 1](1.0), X, (0.001, 0.02, 0.1)[dimension - 1])
    return X, basis, rng.standard_normal(n), rng.uniform(0.05, 0.3, n)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_products_by_fft_are_those_of_the_matrix(dimension):
    X, basis, _, lam = problem(dimension)
    quadratic = basis.gram_statistics(basis.locate(X), lam)
    W = np.random.default_rng(0).standard_normal((basis.size, 4))
    np.testing.assert_allclose(Convolution(basis, quadratic)(W), basis.gram(quadratic) @ W, atol=1e-9)


def test_the_preconditioner_is_the_matrix_on_its_head_and_diagonal():
    X, basis, _, lam = problem(2)
    quadratic = basis.gram_statistics(basis.locate(X), lam)
    P = Preconditioner.of(basis, quadratic, PRECISION, head_of(basis, HEAD))
    A = basis.gram(quadratic) + PRECISION * np.eye(basis.size)
    assert len(P.head) == 41 < basis.size
    inverse = P.spread(P.whiten(np.eye(basis.size)))
    np.testing.assert_allclose(np.linalg.inv(inverse)[np.ix_(P.head, P.head)], A[np.ix_(P.head, P.head)], atol=1e-8)
    np.testing.assert_allclose(np.diag(np.linalg.inv(inverse)), np.diag(A), atol=1e-8)
    np.testing.assert_allclose(P.log_det, -np.linalg.slogdet(inverse)[1], rtol=1e-9)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_iterative_engine_agrees_with_the_dense_one(dimension):
    X, basis, eta, lam = problem(dimension)
    dense, sampled = FeatureEngine(basis, X, block=150), IterativeEngine(basis, X, head=HEAD, probes=64, block=150)
    fields, sites = [], []
    engine: Any
    for engine in (dense, sampled):
        total = engine.empty()
        for block in engine.blocks:
            total = total + engine.summarise(block, eta[block], lam[block])
        fields.append(engine.posterior(total, PRECISION))
        sites.append(
            [np.concatenate(m) for m in zip(*(engine.at_sites(fields[-1], b) for b in engine.blocks), strict=True)]
        )
    a, b = fields
    np.testing.assert_allclose(b.mean, a.mean, atol=1e-6)
    np.testing.assert_allclose(sites[1][0], sites[0][0], atol=1e-6)
    # 64 draws know a variance to √(2/64) = 18 %; the preconditioner's exact part leaves a fraction of that to chance.
    np.testing.assert_allclose(np.sqrt(sites[1][1]), np.sqrt(sites[0][1]), rtol=0.25)
    assert np.abs(np.sqrt(sites[1][1] / sites[0][1]) - 1).mean() < 0.06
    assert b.energy == pytest.approx(a.energy, rel=0.01)
    assert b.informed == pytest.approx(a.informed, rel=0.05)  # a trace, from the same 64 draws
    # zᵀ log(Ã) z has standard deviation √2 ‖log Ã‖; its mean over 64 draws is known to about half a unit here. The KL
    # divergence holds half of it, and a trace whose error has the other sign.
    assert b.log_det == pytest.approx(a.log_det, abs=1.5)
    assert b.kl == pytest.approx(a.kl, abs=0.5)


def test_draws_have_the_moments_of_the_posterior():
    X, basis, eta, lam = problem(1, 60)
    engine, dense = IterativeEngine(basis, X, head=HEAD), FeatureEngine(basis, X)
    statistics = engine.summarise(engine.blocks[0], eta, lam)
    draws = engine.posterior(statistics, PRECISION).sample(X[:5], 2001, np.random.default_rng(1))
    mean, variance = dense.at_sites(dense.posterior(statistics, PRECISION), dense.blocks[0])
    assert draws.shape == (2001, 5)
    np.testing.assert_allclose(draws.mean(0), mean[:5], atol=5 * np.sqrt(variance.max() / 2000))
    np.testing.assert_allclose(draws.var(0), variance[:5], rtol=0.17)  # five standard errors


def test_the_scale_agrees_with_that_of_the_dense_engine():
    """Iterated to its fixed point, MacKay's form is the mode of what the dense path integrates on a grid."""
    X, basis, _, lam = problem(2)
    rng = np.random.default_rng(5)
    truth = basis.features(X) @ rng.standard_normal(basis.size) / np.sqrt(3.0)
    lam = 40.0 * lam
    eta = lam * (truth + rng.standard_normal(len(X)) / np.sqrt(lam))
    engine, dense = IterativeEngine(basis, X, head=HEAD, probes=64), FeatureEngine(basis, X)
    statistics = engine.summarise(engine.blocks[0], eta, lam)
    near = grid = 1.0
    for _ in range(10):
        near = engine.posterior_integrated([statistics], 1.0, 1.0, near)[0].scale.mean
        grid = dense.posterior_integrated([statistics], 1.0, 1.0, grid)[0].scale.mean
    assert near == pytest.approx(grid, rel=0.06)  # 64 draws know the trace in MacKay's form to a few percent


def test_no_sites_give_the_prior():
    X, basis, _, _ = problem(2)
    field = IterativeEngine(basis, X, head=HEAD).posterior(IterativeEngine(basis, X, head=HEAD).empty(), PRECISION)
    mean, variance = field.at(X[:9])
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(variance, 1.0 / PRECISION, rtol=0.02)  # copies of the kernel, up to the tolerance
    assert field.kl == pytest.approx(0.0, abs=1e-8)


def test_a_solve_that_does_not_converge_says_so():
    X, basis, eta, lam = problem(2)
    engine = IterativeEngine(basis, X, head=HEAD)
    statistics = engine.summarise(engine.blocks[0], eta, lam)
    A = basis.gram(statistics.quadratic) + PRECISION * np.eye(basis.size)
    x = conjugate_gradients(lambda w: A @ w, lambda r: r, statistics.linear)
    np.testing.assert_allclose(A @ x, statistics.linear, atol=1e-5)
    with pytest.raises(NumericalError, match=r"after 1 steps.*larger tolerance"):
        conjugate_gradients(lambda w: A @ w, lambda r: r, statistics.linear, most=1)
