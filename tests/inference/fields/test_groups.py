"""Functions of groups at places of their own, against the dense features."""

import numpy as np
import pytest

from crowdfield.inference.fields import groups
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import Matern32, WithLevel


def bases(dimension):
    X = np.random.default_rng(dimension).uniform(0.0, 6.0, (300, dimension))
    kernel = WithLevel(Matern32(2.0), 1.0)
    yield X, SpectralBasis(kernel, X, 0.05)
    if dimension == 2:
        yield X, InducingBasis(kernel, X, 30)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_functions_and_sums_of_groups_are_those_of_the_dense_features(dimension):
    rng = np.random.default_rng(0)
    for X, basis in bases(dimension):
        # One group with most of the reports, many with a few, and some with none.
        group = np.where(rng.random(2_000) < 0.5, 7, rng.integers(0, 60, 2_000))
        rows, values = rng.integers(0, len(X), 2_000), rng.standard_normal(2_000)
        weights = rng.standard_normal((80, basis.size))
        phi, points = basis.features(X), basis.locate(X)
        expected = (phi[rows] * weights[group]).sum(1)
        pairs = basis.pairs(points, rows, group, 80)
        np.testing.assert_allclose(pairs.evaluate(weights), expected, atol=2e-5)
        sums = np.zeros((80, basis.size))
        np.add.at(sums, group, values[:, None] * phi[rows])
        np.testing.assert_allclose(pairs.project(values), sums, atol=2e-5)


def test_places_outside_the_domain_see_it_through_its_border():
    _, basis = next(bases(2))
    outside = np.array([[-30.0, 2.0], [3.0, 3.0], [40.0, 40.0]])
    rows, group = np.array([0, 1, 2, 0]), np.array([0, 1, 0, 1])
    weights = np.random.default_rng(1).standard_normal((2, basis.size))
    found = basis.pairs(basis.locate(outside), rows, group, 2).evaluate(weights)
    np.testing.assert_allclose(found, (basis.features(outside)[rows] * weights[group]).sum(1), atol=2e-5)


def test_every_row_is_in_exactly_one_batch():
    rng = np.random.default_rng(2)
    group = np.minimum(rng.geometric(0.02, 30_000) - 1, 400)
    seen = np.concatenate([batch.members[batch.present] for batch in groups.batches(group, 500)])
    np.testing.assert_array_equal(np.sort(seen), np.arange(len(group)))
    for batch in groups.batches(group, 500):
        inside = group[batch.members] == batch.groups[:, None]
        assert inside[batch.present].all()


def test_no_reports_make_no_sums():
    X, basis = next(bases(2))
    nothing = np.empty(0, np.int64)
    pairs = basis.pairs(basis.locate(X), nothing, nothing, 3)
    assert pairs.evaluate(np.ones((3, basis.size))).shape == (0,)
    assert not pairs.project(np.empty(0)).any()


def test_waves_that_are_too_many_to_keep_are_computed_again(monkeypatch):
    X, basis = next(bases(2))
    rng = np.random.default_rng(3)
    rows, group, values = rng.integers(0, 300, 500), rng.integers(0, 6, 500), rng.standard_normal(500)
    weights = rng.standard_normal((6, basis.size))
    kept = basis.pairs(basis.locate(X), rows, group, 6)
    monkeypatch.setattr(groups, "MOST_KEPT", 0)
    again = basis.pairs(basis.locate(X), rows, group, 6)
    assert kept.kept is not None and again.kept is None
    for _ in range(2):  # the first call leaves what is kept unchanged
        np.testing.assert_array_equal(kept.evaluate(weights), again.evaluate(weights))
        np.testing.assert_array_equal(kept.project(values), again.project(values))
