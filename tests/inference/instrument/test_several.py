"""States without an order: against slow literal code, in their limits, and beside the grid of two states."""

import numpy as np
import pytest
from tests import reference_instrument as reference
from tests.inference.instrument.test_instrument import NO_CHECKS, crowd, problem
from tests.simulated_instrument import converged

import crowdfield as cf
from crowdfield.inference.fields.exact import ExactBasis
from crowdfield.inference.instrument import fitting, iterate, linear, link, methods, model, responses, selection
from crowdfield.inference.instrument.several import fitting as several
from crowdfield.inference.instrument.several import readings, scores
from crowdfield.inference.instrument.several.observed import Observed
from crowdfield.inference.kernels import kernel
from crowdfield.models.unknown import prior_rate_sd


def kinds(seed=0, n_places=60, n_sources=6, reports=300, J=3, nugget=0.5):
    """Reports drawn from the model itself."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n_places, 2))
    root = np.linalg.cholesky(kernel("matern32", 4.0).covariance(X, X) + 1e-9 * np.eye(n_places))
    g = 2.0 * root @ rng.standard_normal((n_places, J)) + np.sqrt(nugget) * rng.standard_normal((n_places, J))
    site, source = rng.integers(0, n_places, reports), rng.integers(0, n_sources, reports)
    sensitivity, lean = 1.0 + 0.3 * rng.standard_normal(n_sources), 0.5 * rng.standard_normal((n_sources, J))
    z = sensitivity[source, None] * g[site] + lean[source]
    label = (z + rng.gumbel(size=z.shape)).argmax(1)
    return X, site, source, label, g


def posed(X, site, source, label, n_sources, J=3, checks=None):
    h = scores.state_scores(J)
    checks = link.Checks(np.zeros(0, np.int64), np.zeros((0, J))) if checks is None else checks
    observed = Observed(site, source, label, np.ones(len(site), dtype=np.int64), len(X), n_sources, h, checks, h)
    rows = selection.Reported(site, source, label, np.ones(len(site), dtype=np.int64))
    prior = fitting.Prior(1.0, 1.0)
    return model.Problem(X, rows, observed, linear.Columns(), prior, kernel("matern32", 4.0), "exact", 0)


def some_checks():
    return link.Checks(np.array([2, 7]), np.array([[-np.inf, 0.0, -np.inf], [-3.0, -1.0, -0.1]]))


def estimator(**settings):
    return cf.HeatmapBCC(**{"lengthscale": 4.0, "states": [0, 1, 2], "reports_model": "instrument", **settings})


def test_states_are_one_unit_apart_from_each_other():
    for J in (2, 3, 6):
        h = scores.state_scores(J)
        apart = ((h[:, None] - h) ** 2).sum(-1)
        np.testing.assert_allclose(apart, 1.0 - np.eye(J), atol=1e-12)
        np.testing.assert_allclose(h.sum(0), 0.0, atol=1e-12)
    np.testing.assert_allclose(scores.state_scores(2)[:, 0], [-0.5, 0.5])
    np.testing.assert_allclose(scores.label_scores(("a", "b", "c"), ("a", "b", "c", "?"))[3], 0.0)


def test_a_reading_is_a_lower_bound_with_the_gradient_it_says():
    rng = np.random.default_rng(1)
    h, theta = scores.state_scores(3), np.array([[0.8, 0.2, -0.1, 0.4]])
    mean, root = rng.normal(size=(1, 2)), rng.normal(size=(1, 2, 2))
    covariance, said = root @ root.transpose(0, 2, 1), np.array([[0.0, 1.0, 0.0]])
    at = readings.read(theta, h, said, mean, covariance)
    drawn = mean + rng.standard_normal((200_000, 2)) @ root[0].T
    z = theta[0, 0] * drawn @ h.T + theta[0, 1:]
    exact = (z[:, 1] - np.log(np.exp(z).sum(1))).mean()
    assert exact - 0.15 < at.value[0] < exact + 0.005
    mu, C = readings.logits(theta, h, mean, covariance)
    assert at.value[0] == pytest.approx(reference.tilted_expectation(said[0], mu[0], C[0]), abs=1e-8)
    step = 1e-5
    for k in range(2):
        moved = mean + step * np.eye(2)[k]
        rise = readings.read(theta, h, said, moved, covariance).value - at.value
        assert rise[0] / step == pytest.approx(at.gradient[0, k], abs=1e-4)
    for k in range(4):
        rise = readings.read(theta + step * np.eye(4)[k], h, said, mean, covariance).value - at.value
        assert rise[0] / step == pytest.approx(at.pull[0, k], abs=1e-4)
    wider = readings.read(theta, h, said, mean, covariance + step * np.eye(2)).value - at.value
    assert wider[0] / step == pytest.approx(-0.5 * np.trace(at.precision[0]), abs=1e-4)


def test_the_objective_is_the_literal_bound():
    X, site, source, label, _ = kinds(2, n_places=9, n_sources=3, reports=20)
    checks = some_checks()
    asked = posed(X, site, source, label, 3, checks=checks)
    design = linear.Design(ExactBasis(asked.kernel, X), asked.columns, X)
    method = methods.method_for(asked.observed, design, asked.prior)
    state = asked.start()
    for _ in range(3):
        state = method.evaluate(state).image
    at = method.evaluate(state)
    crowd_of, h = state.variances.population, asked.observed.state_scores
    rest = responses.log_prior(state.theta, crowd_of).sum()
    rest += responses.log_prior(state.link.theta[None], several.link_prior(crowd_of, 3)).sum()
    literal = reference.several_bound(
        design.features(slice(0, 9)),
        design.precision(state.variances.smooth),
        state.eta,
        state.lam,
        state.variances.nugget,
        list(zip(site, source, label, strict=True)),
        state.theta,
        h,
        list(zip(checks.site, checks.said, strict=True)),
        state.link.theta,
        h,
    )
    assert at.objective - rest == pytest.approx(literal, abs=1e-6)


def test_the_bound_rises_at_every_step_and_more_steps_change_nothing():
    X, site, source, label, _ = kinds(3)
    converged(posed(X, site, source, label, 6, checks=some_checks()))


def test_two_states_come_out_as_on_the_grid():
    """The same model by a bound in place of a grid: what remains is the price of the bound."""
    X, site, source, label, *_ = crowd(3)
    one = problem(X, site, source, label, 8)
    h = scores.state_scores(2)
    other = one._replace(
        observed=Observed(site, source, label, np.ones(len(site), dtype=np.int64), len(X), 8, h, NO_CHECKS, h)
    )
    on_grid, by_bound = (model.fit(each, None, iterate.Policy(unsure_variances=False)) for each in (one, other))
    np.testing.assert_allclose(on_grid.site_states, by_bound.site_states, atol=0.02)
    np.testing.assert_allclose(on_grid.rate(X)[0], by_bound.rate(X)[0], atol=0.02)
    np.testing.assert_allclose(on_grid.rate(X)[1], by_bound.rate(X)[1], atol=0.04)
    np.testing.assert_allclose(on_grid.state.theta[:, 0], by_bound.state.theta[:, 0], atol=0.1)
    assert by_bound.settled.at.objective < on_grid.settled.at.objective


def test_permuting_the_states_permutes_the_map():
    X, site, source, label, _ = kinds(4, n_places=40, reports=200, J=4)
    order = np.array([2, 0, 3, 1])
    one = estimator(states=[0, 1, 2, 3]).fit(X[site], label, sources=source)
    other = estimator(states=[0, 1, 2, 3]).fit(X[site], order[label], sources=source)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X)[:, order], atol=1e-3)
    elsewhere = np.array([[5.0, 5.0], [1e4, 1e4]])
    np.testing.assert_allclose(one.predict_proba(elsewhere), other.predict_proba(elsewhere)[:, order], atol=1e-3)


def test_gold_and_trusted_sources_decide_their_places():
    X, site, source, label, g = kinds(5)
    truth = g.argmax(1)
    fitted = estimator().fit(X[site], label, sources=source, gold=(X, truth))
    np.testing.assert_array_equal(fitted.predict_proba(X), np.eye(3)[truth])
    matrix = np.ones((3, 3)) + 449.0 * np.eye(3)
    for said in (0, 2):
        turned = estimator(confusion_prior={"chief": matrix}).fit(
            np.vstack([X[site], X[:1]]), np.r_[label, said], sources=[*(f"v{s}" for s in source), "chief"]
        )
        assert turned.predict_proba(X[:1])[0, said] > 0.9


def test_far_from_all_reports_the_map_is_the_level_and_unsure():
    X, site, source, label, _ = kinds(6)
    fitted = estimator().fit(X[site], label, sources=source)
    mean, sd = fitted.predict_rate([[1e4, 1e4]])
    np.testing.assert_allclose(sd[0], prior_rate_sd(fitted), atol=1e-9)
    assert np.ptp(mean) < 0.5
    offset = estimator(prior_mean=[3.0, 0.0, 0.0]).fit(X[site], label, sources=source)
    assert offset.predict_rate([[1e4, 1e4]])[0][0, 0] > mean[0, 0]


def test_a_saved_model_predicts_the_same_and_can_be_updated(tmp_path):
    X, site, source, label, _ = kinds(7)
    fitted = estimator().fit(X[site[:220]], label[:220], sources=source[:220], gold=(X[:3], [0, 1, 2]))
    fitted.save(tmp_path / "model")
    again = cf.HeatmapBCC.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(X), fitted.predict_proba(X), atol=1e-9)
    again.partial_fit(X[site[220:]], label[220:], sources=source[220:])
    whole = estimator().fit(X[site], label, sources=source, gold=(X[:3], [0, 1, 2]))
    np.testing.assert_allclose(again.predict_proba(X), whole.predict_proba(X), atol=0.02)


def test_sources_reports_and_places_are_explained():
    X, site, source, label, _ = kinds(8, n_sources=5, reports=500)
    height = lambda places: places[:, 0]  # noqa: E731
    fitted = estimator(covariates={"height": height}).fit(X[site], label, sources=source)
    table = fitted.source_table()
    np.testing.assert_allclose(fitted.confusion_.sum(2), 1.0)
    assert table["accuracy"].between(1 / 3, 1.0).all() and (table["lean_low"] < table["lean_high"]).all()
    scored = fitted.score_reports()
    assert scored.attrs["bits"] > scored.attrs["habit_bits"]
    for place in (X[0], np.array([5.05, 5.05])):
        p = fitted.predict_proba(place[None])[0, 2]
        assert fitted.explain(place, state=2).log_odds.sum() == pytest.approx(np.log(p / (1 - p)), abs=1e-9)
    assert fitted.covariate_table()["state"].tolist() == [0, 1, 2]
    drawn = fitted.sample_rate(X[:5], n=300, random_state=0)
    np.testing.assert_allclose(drawn.mean(0), fitted.predict_rate(X[:5])[0], atol=0.08)
    chosen, _ = fitted.suggest(X, n=3)
    assert len(set(chosen.tolist())) == 3


def test_a_left_out_report_is_about_as_probable_as_in_a_fit_without_it():
    X, site, source, label, _ = kinds(9, n_places=40, n_sources=4, reports=200)
    asked = posed(X, site, source, label, 4)
    fitted = model.fit(asked, None, iterate.Policy(tol=1e-6))
    quick = fitted.left_out()
    for r in (3, 150, *np.argsort(quick)[:2]):  # ordinary reports, and the most surprising ones
        kept = np.arange(200) != r
        without = posed(X, site[kept], source[kept], label[kept], 4)
        refit = model.fit(without, fitted.state, iterate.Policy(tol=1e-6), learn_variances=False)
        exact = refit.log_probabilities(
            selection.Reported(*(column[[r]] for column in (site, source, label, np.ones_like(site))))
        )
        assert quick[r] == pytest.approx(exact[0], abs=0.3)


def test_auto_compares_the_models_for_three_states():
    X, site, source, label, _ = kinds(10, n_places=60, n_sources=6, reports=600, nugget=2.0)
    fitted = cf.HeatmapBCC(lengthscale=4.0, states=[0, 1, 2]).fit(X[site], label, sources=source)
    assert fitted.model_comparison_ is not None and fitted.reports_model_ == "instrument"
