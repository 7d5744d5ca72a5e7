"""Joint draws of latent functions: the right moments at every place, and the right covariance between places."""

from typing import Any

import numpy as np
import pytest

from crowdfield.inference import area_totals, field_draws, rate_draws, reported_draws
from crowdfield.inference.fields import product
from crowdfield.inference.fields.choose import choose
from crowdfield.inference.fields.exact import FOR_INTEGRATED_SCALE, ExactEngine
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.fields.iterative import IterativeEngine
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import Matern32, WithLevel, kernel

SITES = np.random.default_rng(0).uniform(0.0, 30.0, (60, 2))
KERNEL = WithLevel(Matern32(8.0), 0.7)


def lattice(low, high, columns, rows):
    east, north = np.linspace(low, high, columns), np.linspace(low, high, rows)
    return np.stack(np.meshgrid(east, north), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize("low, high", [(2.0, 28.0), (-40.0, 70.0)], ids=["within the domain", "beyond it"])
@pytest.mark.parametrize("part", [slice(None), slice(None, None, 3)], ids=["whole rows", "with gaps"])
def test_products_of_rows_and_columns_give_what_the_transform_gives(low, high, part):
    basis = SpectralBasis(KERNEL, SITES, 0.01)
    weights = np.random.default_rng(1).standard_normal((basis.size, 5))
    X = lattice(low, high, 17, 11)[part]
    expected = basis.evaluate(basis.locate(X), weights)
    np.testing.assert_allclose(product.evaluate(basis, X, weights), expected, atol=1e-6)


def test_draws_through_inducing_points_need_no_features():
    basis = InducingBasis(KERNEL, SITES, 30)
    weights = np.random.default_rng(1).standard_normal((basis.size, 4))
    X = lattice(-5.0, 35.0, 9, 9)
    np.testing.assert_allclose(product.evaluate(basis, X, weights), basis.features(X) @ weights, atol=1e-8)


def field_of(name):
    rng = np.random.default_rng(2)
    eta, lam = rng.normal(0.0, 1.0, len(SITES)), rng.uniform(0.0, 0.5, len(SITES))
    engine: Any
    if name == "dual":
        engine = ExactEngine(KERNEL, SITES)
    elif name == "iterative":
        engine = IterativeEngine(SpectralBasis(KERNEL, SITES, 0.01), SITES, np.random.default_rng(0), probes=200)
    else:
        engine = choose(name, KERNEL, SITES, exact=FOR_INTEGRATED_SCALE, size=40)
    return engine.posterior(engine.summarise(slice(0, len(SITES)), eta, lam), 1.5)


@pytest.mark.parametrize("name", ["exact", "dual", "inducing", "spectral", "iterative"])
@pytest.mark.parametrize("low, high", [(2.0, 28.0), (-25.0, 60.0)], ids=["among the reports", "far from them too"])
def test_draws_have_the_moments_of_the_posterior(name, low, high):
    field, X, n = field_of(name), lattice(low, high, 9, 8), 3000
    rng = np.random.default_rng(3)
    draws = field_draws.of_field(field, n, field_draws.corners(X), rng)
    noise = np.sqrt(draws.noise_variance(X))[:, None] * draws.sd * rng.standard_normal((len(X), n))
    values = draws.at(X) + noise
    mean, variance = field.at(X)
    sd = np.sqrt(variance)
    assert np.abs((values.mean(axis=1) - mean) / sd).max() < 4.5 / np.sqrt(n)
    # Four standard errors of a sampled standard deviation, and what Fourier features miss of the kernel.
    tolerance = 0.1 if name == "iterative" else 0.07
    assert np.abs(values.std(axis=1) / sd - 1.0).max() < tolerance


@pytest.mark.parametrize("name", ["exact", "dual"])
def test_draws_of_the_exact_engine_have_the_joint_covariance(name):
    field, X = field_of(name), lattice(-20.0, 50.0, 6, 6)
    draws = field_draws.of_field(field, 4000, field_draws.corners(X), np.random.default_rng(3))
    found, expected = np.cov(draws.at(X)), field.covariance_at(X)
    assert np.abs(found - expected).max() < 0.1 * expected.diagonal().max()


def test_errors_at_unreported_places_are_correlated():
    """Beyond the domain of Fourier features, neighbours must not be drawn one by one: they would average out."""
    field = field_of("spectral")
    X = np.array([[90.0, 90.0], [91.0, 90.0], [200.0, 90.0]])
    draws = field_draws.of_field(field, 3000, field_draws.corners(X), np.random.default_rng(0))
    deviations = draws.at(X) - draws.at(np.array([[200.0, 200.0]]))  # less the level, which all places share
    together = np.corrcoef(deviations)
    assert together[0, 1] > 0.95


def test_draws_are_the_same_block_by_block():
    draws = field_draws.of_field(field_of("exact"), 50, np.array([[0.0, 0.0], [30.0, 30.0]]), np.random.default_rng(0))
    X = lattice(0.0, 30.0, 10, 10)
    np.testing.assert_allclose(np.vstack([draws.at(X[:37]), draws.at(X[37:])]), draws.at(X), atol=1e-9)


def test_many_columns_are_drawn_without_fourier_features():
    X = np.random.default_rng(0).uniform(0.0, 10.0, (40, 5))
    engine = choose("exact", kernel("rbf", 6.0), X, exact=FOR_INTEGRATED_SCALE)
    field = engine.posterior(engine.summarise(slice(0, 40), np.ones(40), np.ones(40)), 1.0)
    draws = field_draws.of_field(field, 2000, field_draws.corners(X), np.random.default_rng(0))
    np.testing.assert_allclose(draws.at(X).std(axis=1) ** 2, field.at(X)[1], rtol=0.15, atol=1e-3)
    assert draws.noise_variance(X + 3.0).max() > 0.0


@pytest.mark.parametrize("states", [2, 3])
def test_draws_at_reported_places_keep_the_mean_of_the_map(states):
    rng = np.random.default_rng(0)
    logits = rng.normal(0.0, 2.5, (states, 40, 300))
    mean = rng.dirichlet(np.full(states, 0.7), 40)
    mean[0] = np.eye(states)[1]  # gold
    p = reported_draws.shifted_to_mean(logits, mean)
    np.testing.assert_allclose(p.mean(axis=2).T, mean, atol=2e-4)
    np.testing.assert_allclose(p.sum(axis=0), 1.0, atol=1e-12)
    assert (p[1, 0] == 1.0).all()


def test_drawn_states_come_with_their_probabilities():
    rng = np.random.default_rng(0)
    p = np.array([0.5, 0.2, 0.3])[:, None, None] * np.ones((3, 1, 40_000))
    drawn = area_totals.drawn_states(p, rng)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(axis=(1, 2)), [0.2, 0.3], atol=0.01)
    two = area_totals.states_from(np.full((1, 1, 40_000), np.log(0.3 / 0.7)), rng)
    assert two.mean() == pytest.approx(0.3, abs=0.01)


def test_probabilities_of_many_functions_add_up_to_one():
    p = rate_draws.probabilities(np.random.default_rng(0).normal(size=(4, 3, 5)))
    np.testing.assert_allclose(p.sum(axis=0), 1.0)


@pytest.mark.parametrize(
    "values, level, expected",
    [
        (np.arange(1001.0), 0.9, (49.55, 950.45)),  # continuous: plain quantiles
        (np.repeat([2.0, 3.0], 500), 0.9, (2.0, 3.0)),
        (np.repeat([1.0, 2.0, 3.0], [100, 800, 100]), 0.9, (1.0, 3.0)),
        (np.repeat([1.0, 2.0, 3.0], [40, 920, 40]), 0.9, (1.0 + 0.03 / 0.48, 3.0 - 0.03 / 0.48)),
        (np.full(200, 7.0), 0.9, (7.0, 7.0)),
    ],
)
def test_intervals_of_counts_are_those_of_the_mid_distribution(values, level, expected):
    np.testing.assert_allclose(area_totals.interval(values[None], level)[0], expected, atol=1e-9)
