"""The features that few sites see: the same map from smaller matrices."""

from typing import Any

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.inference import iterate, solvers
from crowdfield.inference.fields.exact import ExactBasis
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.seen import MOST_ENTRIES, SeenBasis, seen_part
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import Matern32, WithLevel
from crowdfield.simulate import simulate

KERNEL = WithLevel(Matern32(6.0), 1.0)


def seen(n=200):
    X = np.random.default_rng(0).random((n, 2)) * 12.0
    basis = SpectralBasis(KERNEL, X, 5e-3)
    found = seen_part(basis, basis.locate(X), n)
    assert found is not None
    return X, basis, found


def posed(**settings: Any) -> Any:
    said = simulate(500, rng=np.random.default_rng(3)).reports
    model = cf.HeatmapBCC(lengthscale=20.0, random_state=0, reports_model="one_state", engine="spectral", **settings)
    return model.fit(said.places, said.label, sources=said.source)._posed


def test_sites_see_a_part_of_the_features_and_lose_nothing():
    X, basis, found = seen()
    assert found.size < 0.5 * basis.size
    np.testing.assert_allclose(
        found.features(X) @ found.features(X).T, basis.features(X) @ basis.features(X).T, atol=1e-3
    )
    np.testing.assert_allclose(found.residual(X), basis.residual(X), atol=1e-3)


def test_products_are_those_of_the_dense_matrix():
    X, _, found = seen()
    rng, phi, points = np.random.default_rng(1), found.features(X), found.locate(X)
    lam, eta, C = rng.random(len(X)), rng.standard_normal(len(X)), np.cov(rng.standard_normal((found.size, 400)))
    linear, quadratic = found.summarise(points, eta, lam)
    np.testing.assert_allclose(linear, phi.T @ eta)
    np.testing.assert_allclose(found.gram(quadratic), (phi.T * lam) @ phi, atol=1e-12)
    np.testing.assert_allclose(found.variance(points, C), np.diag(phi @ C @ phi.T))
    row, group = rng.integers(0, len(X), 300), rng.integers(0, 4, 300)
    weights, values, pairs = (
        rng.standard_normal((4, found.size)),
        rng.standard_normal(300),
        found.pairs(points, row, group, 4),
    )
    np.testing.assert_allclose(pairs.evaluate(weights), (phi[row] * weights[group]).sum(1))
    expected = np.zeros((4, found.size))
    np.add.at(expected, group, values[:, None] * phi[row])
    np.testing.assert_allclose(pairs.project(values), expected, atol=1e-12)


def test_the_lifted_field_is_the_one_that_all_features_give():
    X, basis, found = seen()
    rng = np.random.default_rng(2)
    lam, eta = 0.25 * rng.random(len(X)), rng.standard_normal(len(X))
    everywhere = np.random.default_rng(3).random((50, 2)) * 14.0 - 1.0  # beyond the box of the sites, too
    fields = []
    for each in (basis, found):
        engine = FeatureEngine(each, X)
        (field,) = engine.posterior_integrated([engine.summarise(slice(0, len(X)), eta, lam)], 1.0, 1.0, 1.0)
        fields.append(field)
    whole, lifted = fields[0], found.lifted(fields[1])
    assert lifted.basis is basis
    for a, b in zip(whole.at(everywhere), lifted.at(everywhere), strict=True):
        np.testing.assert_allclose(a, b, atol=0.02)  # a fit takes a step in all weights from here
    for name in ("energy", "informed", "log_det", "kl"):
        assert getattr(lifted, name) == pytest.approx(getattr(whole, name), rel=2e-3)


def test_the_prior_under_another_kernel_is_that_of_the_seen_part():
    _, basis, found = seen()
    other = WithLevel(Matern32(3.0), 1.0)
    root = found.prior_root(other)
    np.testing.assert_allclose(root @ root.T, (found.U.T * basis.prior_root(other) ** 2) @ found.U, atol=1e-10)


def test_nothing_is_left_out_where_sites_see_most_of_it_or_are_many():
    X = np.random.default_rng(0).random((40, 2)) * 100.0  # far apart: each is a feature of its own
    assert seen_part(ExactBasis(KERNEL, X), ExactBasis(KERNEL, X).locate(X), len(X)) is None
    _, basis, found = seen()
    assert seen_part(basis, None, MOST_ENTRIES) is None
    assert seen_part(found, None, 10) is None


@pytest.mark.parametrize("prior", [None, [[2, 1], [1, 2]]])
def test_a_fit_in_seen_weights_is_the_fit(prior):
    at = posed(confusion_prior=prior)
    solver: Any = solvers.here(at)
    assert isinstance(solver._seen.engine.basis, SeenBasis)
    plain: Any = solvers.JointSolver(solver.sites, solver.method)
    fast, slow = solver.run(None, 200, 1e-5), plain.run(None, 200, 1e-5)
    assert fast.converged and slow.converged
    assert fast.bound.total == pytest.approx(slow.bound.total, abs=0.01)
    np.testing.assert_allclose(fast.q.moments.pi, slow.q.moments.pi, atol=1e-3)
    X = at.data.X
    for a, b in zip(fast.q.fields[0].at(X), slow.q.fields[0].at(X), strict=True):
        np.testing.assert_allclose(a, b, atol=5e-3)
    again = solver.method.assemble(fast.state)  # what a stored model is made from
    np.testing.assert_allclose(again.fields[0].mean, fast.q.fields[0].mean, atol=1e-10)


def test_a_fit_goes_on_from_another():
    at = posed(confusion_prior=[[2, 1], [1, 2]])
    solver: Any = solvers.here(at)
    first = solver.run(None, 200, 1e-4)
    more = solver.run(solver.warm_start(first), 200, 1e-4)
    assert more.converged and more.n_iter < first.n_iter / 2
    np.testing.assert_allclose(more.q.moments.pi, first.q.moments.pi, atol=1e-3)


def test_a_fit_that_stalls_in_seen_weights_is_made_in_all(monkeypatch):
    solver: Any = solvers.here(posed(confusion_prior=[[2, 1], [1, 2]]))
    tried: list[int] = []

    def stalls_first(method, **settings):
        tried.append(method.engine.size)
        found = run(method, **settings)
        return found._replace(converged=False) if len(tried) == 1 else found

    run = iterate.run
    monkeypatch.setattr(iterate, "run", stalls_first)
    fit = solver.run(None, 200, 1e-4)
    assert fit.converged
    assert len(tried) == 2 and tried[0] < tried[1] == solver.method.engine.size


def test_a_fit_goes_on_in_all_weights_until_nothing_moves_by_more_than_the_tolerance(monkeypatch):
    solver: Any = solvers.here(posed(confusion_prior=[[2, 1], [1, 2]]))
    plain: Any = solvers.JointSolver(solver.sites, solver.method)
    monkeypatch.setattr(solvers, "REACHED", 0.0)
    fast, slow = solver.run(None, 200, 1e-8), plain.run(None, 200, 1e-8)
    assert fast.converged and fast.change < 1e-8
    np.testing.assert_allclose(fast.q.moments.pi, slow.q.moments.pi, atol=1e-7)


def test_a_tight_tolerance_is_met_in_all_weights():
    solver: Any = solvers.here(posed(confusion_prior=[[2, 1], [1, 2]]))
    plain: Any = solvers.JointSolver(solver.sites, solver.method)
    np.testing.assert_array_equal(solver.run(None, 200, 1e-6).q.moments.pi, plain.run(None, 200, 1e-6).q.moments.pi)
