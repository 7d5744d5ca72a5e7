"""A fit of very many sites begins on a part of them, and ends where it would have ended anyway."""

from dataclasses import replace

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.data import Reports
from crowdfield.inference import selection, solvers
from crowdfield.inference.posed import ManySites
from crowdfield.models import problem


def _posed(sites, sources, seed, **settings):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (sites, 2))
    truth = rng.random(sites) < 1.0 / (1.0 + np.exp(-2.0 * np.sin(X[:, 0]) - np.cos(X[:, 1])))
    source = rng.integers(0, sources, sites)
    said = np.where(rng.random(sites) < rng.uniform(0.5, 0.95, sources)[source], truth, ~truth)
    reports = Reports.from_arrays(X, said.astype(int), source)
    return problem.pose(cf.HeatmapBCC(lengthscale=2.0, **settings), reports, (0, 1), problem.gold(None, (0, 1), 2))


# As with hundreds of thousands of sites, which would take a test too long.
MANY = ManySites(least=3_000, part=800)


def _without_start(posed):
    """As `solvers.here`; but only fits with that one begin on a part."""
    return solvers.here(posed)


def test_a_fit_that_begins_on_a_subset_converges_to_the_same_map():
    posed = _posed(4_000, 30, seed=0, confusion_prior=[[2, 1], [1, 2]])
    posed = replace(posed, many=MANY)
    at_once = selection.solve(posed, None, max_iter=200, tol=1e-6, lay_out=_without_start)
    in_two = selection.solve(posed, None, max_iter=200, tol=1e-6)
    assert in_two.fit.converged and in_two.fit.bound.total == pytest.approx(at_once.fit.bound.total, abs=1e-3)
    one, other = (s.solver.responsibilities(s.fit.q) for s in (at_once, in_two))
    np.testing.assert_allclose(one, other, atol=1e-4)
    np.testing.assert_allclose(in_two.fit.q.moments.pi, at_once.fit.q.moments.pi, atol=1e-4)


def test_where_a_fit_of_many_sites_starts_does_not_show():
    """Few features on a part of the sites, few on all of them, then all features: the same answer as at once."""
    posed = _posed(4_000, 100, seed=4, confusion_prior=[[2, 1], [1, 2]]).with_lengthscales(np.full(2, 1.2))
    posed = replace(posed, many=MANY)
    at_once = selection.solve(posed, None, max_iter=300, tol=1e-6, lay_out=_without_start)
    start = selection._start_of_very_many(posed, at_once.solver.sites.engine, None, 200)
    assert start.q.fields[0].basis.size < 0.5 * at_once.solver.sites.engine.size and not len(start.q.slope)
    in_steps = selection.solve(posed, None, max_iter=300, tol=1e-6)
    assert in_steps.fit.converged and in_steps.fit.bound.total == pytest.approx(at_once.fit.bound.total, abs=1e-3)
    one, other = (s.solver.responsibilities(s.fit.q) for s in (at_once, in_steps))
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_warm_start_with_known_sources_needs_no_subset():
    posed = _posed(1_500, 10, seed=1, confusion_prior=[[2, 1], [1, 2]])
    earlier = selection.solve(posed, None, max_iter=50, tol=1e-3).fit
    posed = replace(posed, many=ManySites(least=1_000))
    engine = posed.engine()
    assert selection._start_of_very_many(posed, engine, earlier, 50) is earlier


def test_very_many_sites_get_more_features():
    posed = _posed(1_500, 10, seed=1).with_lengthscales(np.full(2, 1.2))
    few = posed.engine().size
    assert replace(posed, many=ManySites(least=1_000)).engine().size > 1.3 * few


def test_communities_are_compared_by_the_objective_of_fits_that_have_settled(monkeypatch):
    """The fits are ranked; a higher objective does not help one that has not settled."""
    posed = _posed(300, 12, seed=2)
    ranked = selection.learn_communities(posed, None, solvers.here)
    sizes = [0 if fit.state.communities is None else len(fit.state.communities.beta) for fit in ranked]
    assert set(sizes) >= {0, 1, 2} and len(sizes) == len(set(sizes))
    assert all(fit.converged for fit in ranked)

    def worth(fit):
        at = replace(posed, communities=fit.state.communities)
        solver = solvers.here(at).with_communities(fit.state.communities)
        return selection._penalised_objective(posed, selection.Solved(solver, fit))

    assert np.diff([worth(fit) for fit in ranked]).max() <= 0.0
    best = sizes[0]
    rank = selection._rank

    def unsettled_if_best(posed, solved):
        k = 0 if solved.fit.state.communities is None else len(solved.fit.state.communities.beta)
        return rank(posed, solved._replace(fit=solved.fit._replace(converged=k != best)))

    monkeypatch.setattr(selection, "_rank", unsettled_if_best)
    again = selection.learn_communities(posed, None, solvers.here)
    sizes = [0 if fit.state.communities is None else len(fit.state.communities.beta) for fit in again]
    assert sizes[-1] == best
