"""The sums over sites after a few reports came or went, from those of the earlier fit."""

from typing import Any

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.inference import solvers
from crowdfield.inference.data import arrange
from crowdfield.inference.joint import state, sums, updating
from crowdfield.models import problem
from crowdfield.simulate import simulate

SAID = simulate(700, rng=np.random.default_rng(5), continuous=True).reports
PLACES, LABEL, SOURCE = SAID.places, SAID.label, SAID.source


def fitted(rows: Any, **settings: Any) -> Any:
    model = cf.HeatmapBCC(
        lengthscale=20.0, reports_model="one_state", engine="spectral", random_state=0, states=[0, 1], **settings
    )
    return model.fit(PLACES[rows], LABEL[rows], sources=SOURCE[rows])


@pytest.mark.parametrize("settings", [{}, {"confusion_prior": [[2, 1], [1, 2]]}, {"communities": None}])
@pytest.mark.parametrize(("first", "then"), [(600, 601), (600, 640), (600, 560)])
def test_the_sums_are_those_of_a_pass_over_all_sites(first, then, settings):
    before, after = fitted(np.arange(first), **settings), fitted(np.arange(then), **settings)
    q, earlier = before._solved.fit.q, before._solved.solver
    table = state.table(q)
    earlier.method.sweep(table)
    posed = after._posed
    now: Any = solvers.here(posed).sites
    changed = updating.changed_sites(earlier.sites, now)
    assert changed is not None and 0 < len(changed.before) + len(changed.now) <= abs(then - first)
    if not now.engine.basis.is_same_as(q.fields[0].basis):
        now = solvers.over(posed, type(now)(now.data, now.prior, type(now.engine)(q.fields[0].basis, now.data.X))).sites
    found, whole = updating.updated(earlier.sites, now, table), sums.sweep(now, table)
    assert found is not None
    a: Any
    b: Any
    for a, b in zip(found, whole, strict=True):
        if isinstance(a, tuple):
            for one, other in zip(a, b, strict=True):
                np.testing.assert_allclose(one.linear, other.linear, atol=1e-5)
                np.testing.assert_allclose(one.quadratic, other.quadratic, atol=1e-4)
        else:
            np.testing.assert_allclose(a, b, atol=1e-4)


def test_sums_of_another_q_are_not_used():
    model = fitted(np.arange(600))
    sites, table = model._solved.solver.sites, state.table(model._solved.fit.q)
    sums.sweep(sites, table)
    assert updating.updated(sites, sites, table) is not None
    assert updating.updated(sites, sites, table._replace(log_pi=table.log_pi + 0.1)) is None


def test_a_report_again_and_reports_that_count_several_times_are_left_to_a_whole_pass():
    model = fitted(np.arange(600))
    twice = problem.pose(model, model.reports_.take(np.r_[0, np.arange(600)]), (0, 1), model._gold_)
    assert updating.changed_sites(model._solved.solver.sites, solvers.here(twice).sites) is None


def test_rows_are_sorted_by_site_and_then_as_they_came():
    site = np.random.default_rng(0).integers(0, 50, 2000)
    data = arrange(
        np.zeros((50, 1)), site, np.arange(2000), np.zeros(2000, int), n_sources=2000, n_labels=1, n_states=2
    )
    np.testing.assert_array_equal(data.source, np.argsort(site, kind="stable"))
    assert data.repeats is None


def test_one_new_report_takes_one_pass_fewer_and_leads_to_the_same_fit(monkeypatch):
    first = np.arange(699)
    quick, slow = fitted(first), fitted(first)
    monkeypatch.setattr(solvers.LocalJointSolver, "_seen", None)  # as with many places
    quick.partial_fit(PLACES[699:], LABEL[699:], sources=SOURCE[699:])
    monkeypatch.setattr(updating, "updated", lambda *_: None)
    slow.partial_fit(PLACES[699:], LABEL[699:], sources=SOURCE[699:])
    assert quick.n_iter_ == slow.n_iter_
    np.testing.assert_allclose(quick.predict_proba(PLACES), slow.predict_proba(PLACES), atol=1e-4)
