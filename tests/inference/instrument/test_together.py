"""Sources and field moved together, predictions of further reports, and the choice between the two models."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.inference.instrument.test_instrument import crowd, problem

import crowdfield as cf
from crowdfield.errors import InputError
from crowdfield.inference.instrument import coupled, iterate, link, model
from crowdfield.inference.instrument.responses import Population
from crowdfield.inference.instrument.selection import Reported
from crowdfield.models import comparison


def test_newtons_step_is_zero_after_convergence():
    X, site, source, label, *_ = crowd(31)
    asked = problem(X, site, source, label, 8)
    fitted = model.fit(asked, None, iterate.Policy(tol=1e-8, max_iter=400))
    at = fitted.settled.at
    step = coupled.image(asked.observed, fitted.design, at).image
    np.testing.assert_allclose(step.theta, at.state.theta, atol=1e-5)
    np.testing.assert_allclose(step.eta, at.state.eta, atol=1e-4)


def test_fits_converge_when_sources_report_on_separate_parts_of_the_map():
    """Leaning sources and a high field explain the same reports: in turn, sources and field would creep."""
    rng = np.random.default_rng(32)
    photos, points = 30, 12
    X = np.repeat(rng.uniform(0, 1000, (photos, 2)), points, axis=0) + rng.uniform(0, 1, (photos * points, 2))
    source = np.repeat(np.arange(photos), points)
    g = np.repeat(2.0 * rng.standard_normal(photos), points) + rng.standard_normal(photos * points)
    lean = 2.0 * rng.standard_normal(photos)
    everybody = rng.choice(photos * points, 100, replace=False)  # and a few places that a common source saw too
    site = np.concatenate([np.arange(photos * points), everybody])
    by = np.concatenate([source, np.full(100, photos)])
    said = g[site] + np.append(lean, 0.0)[by]
    label = (rng.random(len(site)) < 1.0 / (1.0 + np.exp(-said))).astype(int)
    fitted = model.fit(problem(X, site, by, label, photos + 1, lengthscale=2.0), None, iterate.Policy())
    assert fitted.settled.converged and fitted.settled.n_iter < 60
    assert (np.diff(fitted.settled.history) > -1e-6).all()


def test_what_a_source_would_say_sums_to_one():
    X, site, source, label, *_ = crowd(33)
    fitted = model.fit(problem(X, site, source, label, 8), None, iterate.Policy())
    places, sources = np.repeat(np.arange(60), 8), np.tile(np.arange(8), 60)
    no, yes = (
        fitted.log_probabilities(Reported(places, sources, np.full(480, said), np.ones(480, dtype=np.int64)))
        for said in (0, 1)
    )
    np.testing.assert_allclose(np.exp(no) + np.exp(yes), 1.0, atol=1e-9)


def test_the_choice_between_models_is_deterministic():
    X, site, source, label, *_ = crowd(34, n_places=80, reports=300)
    found = [cf.HeatmapBCC(lengthscale=3.0, states=[0, 1]).fit(X[site], label, sources=source) for _ in range(2)]
    assert found[0].model_comparison_ == found[1].model_comparison_
    assert found[0].model_comparison_.one_state > found[0].model_comparison_.habits


def test_few_reports_do_not_choose_between_models():
    X, site, source, label, *_ = crowd(35, n_places=30, reports=comparison.FEWEST_REPORTS - 1)
    fitted = cf.HeatmapBCC(lengthscale=3.0, states=[0, 1]).fit(X[site], label, sources=source)
    assert fitted.reports_model_ == "one_state" and fitted.model_comparison_ is None


def test_a_stream_compares_again_when_it_has_grown():
    X, site, source, label, *_ = crowd(36, n_places=60, reports=260)
    fitted = cf.HeatmapBCC(lengthscale=3.0, states=[0, 1]).fit(X[site[:200]], label[:200], sources=source[:200])
    assert fitted.model_comparison_ is not None
    fitted.partial_fit(X[site[200:230]], label[200:230], sources=source[200:230])
    assert fitted.model_comparison_ is None
    fitted.partial_fit(X[site[230:]], label[230:], sources=source[230:])
    assert fitted.model_comparison_ is not None


def test_a_confusion_prior_of_one_source_needs_the_one_state_model():
    X, site, source, label, *_ = crowd(37)
    prior = {3: [[8.0, 2.0], [4.0, 6.0]]}
    auto = cf.HeatmapBCC(lengthscale=3.0, states=[0, 1], confusion_prior=prior)
    assert auto.fit(X[site], label, sources=source).reports_model_ == "one_state"
    with pytest.raises(InputError, match="confusion_prior says of 3"):
        cf.HeatmapBCC(reports_model="instrument", states=[0, 1], confusion_prior=prior).fit(
            X[site], label, sources=source
        )


@pytest.mark.parametrize(
    ("instrument", "one_state", "habits", "taken"),
    [
        (-0.80, -0.81, -0.90, "one_state"),  # a little better is not clearly better
        (-0.80, -0.86, -0.90, "instrument"),
        (-0.80, -0.81, -0.805, "instrument"),  # one that predicts no better than habits has learned no map
        (-0.86, -0.81, -0.805, "one_state"),  # but a clearly worse one is no cure for that
    ],
)
def test_the_one_state_model_stays_unless_it_is_clearly_worse_or_no_better_than_habits(
    instrument, one_state, habits, taken
):
    assert (
        comparison.Comparison(instrument, one_state, habits, standard_error=0.01, habits_standard_error=0.01).better
        == taken
    )


@pytest.mark.parametrize(
    ("instrument", "one_state", "habits", "clear"),
    [
        (-0.50, -0.60, -0.90, True),  # far better: chosen whichever model is preferred
        (-0.70, -0.60, -0.90, True),  # far worse
        (-0.58, -0.60, -0.90, False),  # on the border: better by two standard errors
        (-0.60, -0.60, -0.60, False),  # the models are alike, and so are habits: which is preferred is open
    ],
)
def test_a_comparison_is_clear_when_further_reports_would_hardly_change_the_choice(
    instrument, one_state, habits, clear
):
    found = comparison.Comparison(instrument, one_state, habits, standard_error=0.01, habits_standard_error=0.01)
    assert bool(found.is_clear) == clear


def test_sources_without_reports_keep_their_prior_and_cost_nothing():
    """The covariances of field and sources together, against the inverse of the whole precision."""
    rng = np.random.default_rng(0)
    S, d, J, m = 6, 2, 2, 5
    p = S * d + J
    half = rng.normal(size=(m + p, m + p))
    precision = half @ half.T + np.eye(m + p)
    silent = m + np.r_[2 * d : 3 * d, 4 * d : 5 * d]  # two sources of whom no report tells
    precision[silent] = precision[:, silent] = 0.0
    precision[silent, silent] = 3.0
    state = SimpleNamespace(
        theta=np.zeros((S, d)),
        link=link.start(Population(np.ones(2), np.ones(2)), np.array([-0.5, 0.5])),
        variances=None,
    )
    at = SimpleNamespace(state=state, q=SimpleNamespace(mean=np.zeros(m)))
    found = coupled.solved(at, precision[:m, :m], precision[:m, m:], precision[m:, m:])
    expected = np.linalg.inv(precision)
    np.testing.assert_allclose(found.q.covariance, expected[:m, :m], atol=1e-12)
    for s in range(S):
        rows = slice(m + s * d, m + (s + 1) * d)
        np.testing.assert_allclose(found.sources[s], expected[rows, rows], atol=1e-12)
