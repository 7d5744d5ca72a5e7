"""One test for all engines: each against the dense Gaussian answer under the very covariance it stands for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln

from crowdfield.inference.fields.exact import ExactBasis, ExactEngine
from crowdfield.inference.fields.features import Diagonal, FeatureEngine
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import RBF, Matern32, Matern52, Product, WithLevel

# Everything is algebra on matrices of condition < 1e6, except that the non-uniform FFT is asked for 1e-9 and its
# errors add up over m² entries.
TOLERANCE: dict[str, Any] = {"rtol": 2e-6, "atol": 2e-6}
PRECISION = 0.7

PLACES = {
    "line": (Matern32(1.5), np.random.default_rng(1).random((17, 1)) * 4.0),
    "map": (Matern32(2.0), np.random.default_rng(2).random((23, 2)) * 3.0),
    "anisotropic map": (Matern52((2.0, 0.7)), np.random.default_rng(3).random((23, 2)) * 1.5),
    "volume": (RBF(1.5), np.random.default_rng(4).random((19, 3)) * 2.0),
    "space and time": (Product((Matern52(2.0), RBF(3.0)), ((0, 1), (2,))), np.random.default_rng(5).random((15, 3))),
    "one place": (Matern32(1.0), np.zeros((1, 2))),
    "one place, many sites": (Matern52(1.0), np.zeros((6, 2))),
}


def exact(kernel, X) -> tuple[Any, Callable[..., Any]]:
    return ExactEngine(kernel, X), kernel.covariance


def exact_features(kernel, X) -> tuple[Any, Callable[..., Any]]:
    return FeatureEngine(ExactBasis(kernel, X), X), kernel.covariance


def spectral(kernel, X) -> tuple[Any, Callable[..., Any]]:
    basis = SpectralBasis(kernel, X, 0.05)
    return FeatureEngine(basis, X, block=7), _covariance_of(basis)


def inducing(kernel, X) -> tuple[Any, Callable[..., Any]]:
    basis = InducingBasis(kernel, X, size=9)
    return FeatureEngine(basis, X, block=7), _covariance_of(basis)


def _covariance_of(basis):
    return lambda A, B: basis.features(A) @ basis.features(B).T


FEATURES = {"exact features": exact_features, "inducing": inducing, "spectral": spectral}
ENGINES = {"exact": exact, **FEATURES}


class Case(NamedTuple):
    engine: Any
    covariance: Callable[..., Any]
    X: np.ndarray
    outputs: np.ndarray
    eta: np.ndarray
    lam: np.ndarray


def name_of(param: tuple[str, str]) -> str:
    return f"{param[0]}-{param[1]}"


@pytest.fixture(params=[(e, p) for e in ENGINES for p in PLACES], ids=name_of)
def case(request) -> Case:
    return make(*request.param)


@pytest.fixture(params=[(e, p) for e in FEATURES for p in PLACES], ids=name_of)
def integrating(request) -> Case:
    """Engines that integrate ς."""
    return make(*request.param)


def make(name: str, where: str) -> Case:
    kernel, X = PLACES[where]
    engine, covariance = ENGINES[name](kernel, X)
    rng = np.random.default_rng(7)
    outputs = X[:4] + 0.1 * rng.standard_normal((min(len(X), 4), X.shape[1]))
    return Case(engine, covariance, X, outputs, rng.standard_normal(len(X)), rng.uniform(0.05, 2.0, len(X)))


def statistics(case: Case):
    total = case.engine.empty()
    for block in case.engine.blocks:
        total = total + case.engine.summarise(block, case.eta[block], case.lam[block])
    return total


def at_sites(case: Case, field):
    parts = [case.engine.at_sites(field, block) for block in case.engine.blocks]
    return np.concatenate([m for m, _ in parts]), np.concatenate([v for _, v in parts])


def expected_sites(case: Case, field) -> Any:
    """E_q[ηᵀg − ½ gᵀΛg], from which the KL divergences take what leaves the log evidence."""
    mean, variance = at_sites(case, field)
    return case.eta @ mean - 0.5 * case.lam @ (variance + mean**2)


def dense(case: Case, precision: float, A: np.ndarray):
    """Mean and covariance of g(A), log |I + ΛK/ς| and log evidence, by plain inverses."""
    K = case.covariance(case.X, case.X) / precision
    cross = case.covariance(A, case.X) / precision
    B = np.linalg.inv(np.eye(len(case.X)) + case.lam[:, None] * K)  # (I + ΛK)⁻¹
    mean = cross @ B @ case.eta
    covariance = case.covariance(A, A) / precision - cross @ B @ (case.lam[:, None] * cross.T)
    log_det = -np.linalg.slogdet(B)[1]
    return mean, covariance, log_det, 0.5 * (case.eta @ (K @ B @ case.eta) - log_det)


def test_moments_at_sites_are_the_dense_ones(case):
    mean, variance = at_sites(case, case.engine.posterior(statistics(case), PRECISION))
    expected, covariance, _, _ = dense(case, PRECISION, case.X)
    np.testing.assert_allclose(mean, expected, **TOLERANCE)
    np.testing.assert_allclose(variance, np.diag(covariance), **TOLERANCE)


def test_places_of_the_sites_have_the_moments_of_the_sites(case):
    """A warm start asks an earlier field about its own sites."""
    field = case.engine.posterior(statistics(case), PRECISION)
    for here, there in zip(at_sites(case, field), field.as_sites(case.X), strict=True):
        np.testing.assert_allclose(there, here, **TOLERANCE)


def test_an_integrated_field_has_the_moments_of_the_sites_at_their_places(integrating):
    case = integrating
    field = case.engine.posterior_integrated([statistics(case)], 2.0, 1.0, near=PRECISION)[0]
    for here, there in zip(at_sites(case, field), field.as_sites(case.X), strict=True):
        np.testing.assert_allclose(there, here, **TOLERANCE)


def test_the_readout_of_an_integrated_field_is_the_mean_at_its_central_scale(integrating):
    case = integrating
    integrated = case.engine.posterior_integrated([statistics(case)], 2.0, 1.0, near=PRECISION)[0]
    # At the sites: weights that no site sees may differ.
    phi, alone = case.engine.basis.features(case.X), case.engine.readout(statistics(case), PRECISION)
    np.testing.assert_allclose(phi @ integrated.readout, phi @ alone, **TOLERANCE)


def test_the_readout_alone_is_that_of_the_posterior(case):
    alone = case.engine.readout(statistics(case), PRECISION)
    np.testing.assert_allclose(alone, case.engine.posterior(statistics(case), PRECISION).readout, **TOLERANCE)


def test_moments_elsewhere_are_the_dense_ones_plus_what_the_basis_leaves_out(case):
    mean, variance = case.engine.posterior(statistics(case), PRECISION).at(case.outputs)
    expected, covariance, _, _ = dense(case, PRECISION, case.outputs)
    left_out = 0.0 if case.engine.name == "exact" else case.engine.basis.residual(case.outputs) / PRECISION
    np.testing.assert_allclose(mean, expected, **TOLERANCE)
    np.testing.assert_allclose(variance, np.diag(covariance) + left_out, **TOLERANCE)


def test_energy_log_det_and_evidence_do_not_depend_on_the_basis(case):
    """Directions that no site sees add 1/ς to the energy and −log ς to log |Σ|; the rest is the dense answer."""
    field = case.engine.posterior(statistics(case), PRECISION)
    mean, covariance, log_det, evidence = dense(case, PRECISION, case.X)
    # ςK⁻¹ĝ = η − Λĝ and ς tr(K⁻¹Σ) = N − tr(ΛΣ): true for singular K too.
    energy = (mean @ (case.eta - case.lam * mean) - case.lam @ np.diag(covariance)) / PRECISION
    np.testing.assert_allclose(field.energy - case.engine.size / PRECISION, energy, **TOLERANCE)
    np.testing.assert_allclose(field.log_det + case.engine.size * np.log(PRECISION), -log_det, **TOLERANCE)
    np.testing.assert_allclose(expected_sites(case, field) - field.kl, evidence, **TOLERANCE)


def test_integrating_the_scale_is_the_mixture_over_it(integrating):
    case = integrating
    shape, rate = 6.0, 5.0  # so narrow that the engine's grid, a factor of seven around `near`, holds all of it
    (field,) = case.engine.posterior_integrated([statistics(case)], shape, rate, near=1.0)

    def density(log_scale: float) -> Any:
        prior = shape * np.log(rate) - gammaln(shape) + shape * log_scale - rate * np.exp(log_scale)
        return np.exp(prior + dense(case, np.exp(log_scale), case.X)[3])

    def integral(value: Callable[[float], Any]) -> Any:
        return quad(lambda u: density(u) * value(np.exp(u)), -2.0, 2.0, epsrel=1e-6)[0]

    def moment(s: float, power: int) -> Any:
        mean, covariance, _, _ = dense(case, s, case.X[:1])
        return mean[0] if power == 1 else covariance[0, 0] + mean[0] ** 2

    evidence = integral(lambda s: 1.0)
    first, second = (integral(partial(moment, power=p)) / evidence for p in (1, 2))
    mean, variance = at_sites(case, field)
    # The engine's grid of a few dozen nodes is the coarser of the two integrals.
    grid: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-3}
    np.testing.assert_allclose(expected_sites(case, field) - field.kl - field.scale.kl, np.log(evidence), **grid)
    np.testing.assert_allclose(mean[0], first, **grid)
    np.testing.assert_allclose(variance[0], second - first**2, **grid)
    np.testing.assert_allclose(field.scale.mean, integral(lambda s: s) / evidence, **grid)


def test_samples_have_the_moments_of_the_posterior(case):
    field = case.engine.posterior(statistics(case), PRECISION)
    draws = field.sample(case.outputs, 4000, np.random.default_rng(11))
    expected, covariance, _, _ = dense(case, PRECISION, case.outputs)
    sd = np.sqrt(np.diag(covariance))
    # Five standard errors of 4,000 draws, for means and for covariances.
    np.testing.assert_allclose(draws.mean(0), expected, atol=5 * sd.max() / 63.0)
    np.testing.assert_allclose(np.cov(draws.T).reshape(covariance.shape), covariance, atol=7 * sd.max() ** 2 / 63.0)


def test_no_sites_give_the_prior(case):
    field = case.engine.posterior(case.engine.empty(), PRECISION)
    mean, variance = field.at(case.outputs)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    # The spectral basis may add copies of the kernel, up to its tolerance.
    np.testing.assert_allclose(variance, 1.0 / PRECISION, rtol=0.05)
    assert field.kl == pytest.approx(0.0, abs=1e-9)


def test_functions_that_share_the_scale_are_the_mixture_over_both(integrating):
    """Twice the same sites say twice as much about ς: log p(ς | both) = log prior + 2 log evidence."""
    case = integrating
    shape, rate = 6.0, 5.0
    first, second = case.engine.posterior_integrated([statistics(case)] * 2, shape, rate, near=1.0)
    log_scale = np.log(first.scale.nodes)
    log_evidence = np.array([dense(case, s, case.X)[3] for s in first.scale.nodes])
    density = np.exp(shape * log_scale - rate * first.scale.nodes + 2.0 * (log_evidence - log_evidence.max()))
    np.testing.assert_allclose(first.scale.weights, density / density.sum(), rtol=1e-6, atol=1e-9)
    assert first.scale is second.scale
    np.testing.assert_array_equal(at_sites(case, first)[0], at_sites(case, second)[0])


def test_marginalising_sources_widens_a_field_but_never_beyond_its_prior(integrating):
    """Sources that answer the field take information away: (ςI + ΦᵀΛΦ − B Q Bᵀ)⁻¹, at most the prior's variance."""
    case, rng = integrating, np.random.default_rng(3)
    root = 0.1 * rng.standard_normal((case.engine.size, 2))
    plain = case.engine.posterior(statistics(case), PRECISION)
    d, V = np.linalg.eigh(np.linalg.inv(plain.covariance) - PRECISION * np.eye(case.engine.size) - root @ root.T)
    d = np.maximum(d, 0.0)
    b = statistics(case).linear
    (released,) = case.engine.posterior_of([Diagonal(d, V.T @ b, V)], 1e9, 1e9 / PRECISION, PRECISION)
    np.testing.assert_allclose(released.covariance, (V / (PRECISION + d)) @ V.T, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(released.mean, (V / (PRECISION + d)) @ (V.T @ b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("basis", [InducingBasis, SpectralBasis])
def test_a_level_does_not_decay_away_from_the_places(basis):
    """φ(x)·φ(x′) and the residual together are k + v everywhere; far outside the covariance with the map is v."""
    rng = np.random.default_rng(0)
    X, far = rng.random((60, 2)) * 10.0, np.array([[500.0, -300.0], [11.0, 5.0]])
    kernel = WithLevel(Matern32(3.0), 1.7)
    made = basis(kernel, X)
    phi, phi_far = made.features(X), made.features(far)
    np.testing.assert_allclose(phi @ phi.T, kernel.covariance(X, X), atol=0.05)
    np.testing.assert_allclose(phi_far[:1] @ phi.T, np.full((1, 60), 1.7), atol=0.05)
    np.testing.assert_allclose((phi_far**2).sum(1) + made.residual(far), kernel.variance(far), atol=0.05)
    weights, covariance = rng.standard_normal(made.size), np.diag(rng.uniform(0.5, 1.0, made.size))
    points = made.locate(far)
    mean, variance = made.moments(points, made.fold(weights, covariance))
    np.testing.assert_allclose(mean, phi_far @ weights, atol=1e-6)
    np.testing.assert_allclose(variance, np.einsum("ij,jk,ik->i", phi_far, covariance, phi_far), atol=1e-6)
    np.testing.assert_allclose(made.evaluate(points, weights), mean, atol=1e-6)
