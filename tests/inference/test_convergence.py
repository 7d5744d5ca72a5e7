"""Converged must mean converged; and what rises, rises."""

import warnings
from typing import Any

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import ConvergenceWarning
from crowdfield.simulate import simulate


def small(seed, side=10, reports=160, **kw):
    made = simulate(reports, rng=np.random.default_rng(seed), places=(side, side), lengthscale=7.0, **kw)
    return made.reports.places, made.reports.label, made.reports.source, made.truth.places


@pytest.mark.parametrize(
    "way",
    [
        dict(inference="vb", linearisation="polya_gamma"),
        dict(inference="vb", linearisation="ekf"),
        dict(inference="collapsed"),
    ],
    ids=lambda way: way.get("linearisation", "collapsed"),
)
@pytest.mark.parametrize("states", [2, 3])
def test_five_times_the_iterations_change_no_prediction(way, states):
    X, y, sources, grid = small(1, side=14, reports=250, states=states)
    model = cf.HeatmapBCC(lengthscale=7.0, **way).fit(X, y, sources=sources)
    assert model.converged_
    longer = cf.HeatmapBCC(lengthscale=7.0, tol=1e-9, max_iter=5 * 200, **way).fit(X, y, sources=sources)
    assert longer.n_iter_ > model.n_iter_
    np.testing.assert_allclose(model.predict_proba(grid), longer.predict_proba(grid), atol=1e-3)
    np.testing.assert_allclose(model.scale_, longer.scale_, rtol=5e-3)


@pytest.mark.parametrize("states", [2, 3])
@pytest.mark.parametrize("prior_mean", [0.0, 0.6])
def test_the_polya_gamma_bound_never_falls(states, prior_mean):
    X, y, sources, _ = small(2, states=states)
    mean = prior_mean if states == 2 else [prior_mean, 0.0, 0.0]
    model = cf.HeatmapBCC(lengthscale=7.0, inference="vb", prior_mean=mean, tol=1e-8, max_iter=500)
    model.fit(X, y, sources=sources)
    history = model.bound_history_
    assert np.diff(history).min() > -1e-9 * abs(history[-1])
    assert history[-1] - history[0] > 1.0
    assert model.bound_ == pytest.approx(sum(model.bound_terms_.values()), rel=1e-12)


def test_the_start_does_not_matter_to_the_scale():
    """r settles long before ς does; a stop on r alone would leave ς where it began. Here it begins at a0/b0, and the
    same prior reached through more reports must end where a fresh fit ends."""
    X, y, sources, grid = small(3)
    fresh = cf.HeatmapBCC(lengthscale=7.0, inference="vb").fit(X, y, sources=sources)
    continued = cf.HeatmapBCC(lengthscale=7.0, inference="vb").fit(X[:60], y[:60], sources=sources[:60])
    continued.partial_fit(X[60:], y[60:], sources=sources[60:])
    np.testing.assert_allclose(continued.scale_, fresh.scale_, rtol=5e-3)
    np.testing.assert_allclose(continued.predict_proba(grid), fresh.predict_proba(grid), atol=1e-3)


@pytest.mark.parametrize("states", [2, 3])
def test_an_accelerated_ekf_does_not_stop_at_an_unstable_fixed_point(states):
    """Few reports of many sources: the level field is a fixed point that plain steps leave, slowly, for another one."""
    X, y, sources, grid = small(1, states=states)
    way: dict[str, Any] = dict(lengthscale=7.0, inference="vb", linearisation="ekf", max_iter=1000)
    model = cf.HeatmapBCC(**way).fit(X, y, sources=sources)
    longer = cf.HeatmapBCC(tol=1e-8, **way).fit(X, y, sources=sources)
    assert model.converged_
    np.testing.assert_allclose(model.predict_proba(grid), longer.predict_proba(grid), atol=1e-3)


def test_acceleration_converges_for_a_crowd_with_mostly_one_label():
    """Half of the reporters nearly always say 0. The fit must end where many more steps lead to."""
    world = simulate(2400, rng=np.random.default_rng([2017, 2]), reliable=10, noisy=0, biased=10)
    reports, kept = world.reports, slice(1000)
    model = cf.HeatmapBCC(lengthscale=20.0, confusion_prior=[[2, 1], [1, 2]], inference="collapsed")
    model.fit(reports.places[kept], reports.label[kept], sources=reports.source[kept])
    assert model.converged_

    mean = model.predict_latent(world.truth.places)[0]
    longer = cf.HeatmapBCC(lengthscale=20.0, confusion_prior=[[2, 1], [1, 2]], tol=1e-7, max_iter=2000)
    longer.fit(reports.places[kept], reports.label[kept], sources=reports.source[kept])
    np.testing.assert_allclose(mean, longer.predict_latent(world.truth.places)[0], atol=0.01)
    assert abs(mean.mean() - world.truth.f.mean()) < 0.3  # and not at a map of zeros


def test_predictions_belong_to_the_accepted_q():
    """A step that was tried and refused must leave nothing behind: q(t) follows from the q that was accepted."""
    X, y, sources, _ = small(5, side=14, reports=400)
    ways: list[dict[str, Any]] = [
        dict(inference="collapsed"),
        dict(inference="vb"),
        dict(inference="vb", linearisation="ekf"),
    ]
    for way in ways:
        for sweeps in (9, 12, 15, 20):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = cf.HeatmapBCC(lengthscale=7.0, max_iter=sweeps, **way).fit(X, y, sources=sources)
            again = model._solved.solver.responsibilities(model._solved.fit.q)
            np.testing.assert_array_equal(model.posterior_, again)


def test_the_scale_does_not_diverge_at_the_start():
    """Weak reports on a map of long length-scale: a start at the prior ends where one at another fit's end does."""
    world = simulate(
        500, rng=np.random.default_rng([2017, 3]), lengthscale=30.0, inverse_scale=0.3, reliable=5, noisy=15
    )
    reports = world.reports
    given = reports.places, reports.label, reports.source
    settings: dict[str, Any] = dict(
        confusion_prior=[[2, 1], [1, 2]], scale_shape=0.5, scale_rate=5.0, reports_model="one_state"
    )
    cold = cf.HeatmapBCC(lengthscale=30.0, **settings).fit(*given)
    other = cf.HeatmapBCC(lengthscale=15.0, **settings).fit(*given)
    warm = other.set_params(lengthscale=30.0).forget(rows=[])
    assert cold.converged_ and warm.converged_ and cold.n_iter_ < 100
    assert cold.bound_ == pytest.approx(warm.bound_, abs=0.05)
    np.testing.assert_allclose(cold.predict_rate(reports.places), warm.predict_rate(reports.places), atol=5e-3)
