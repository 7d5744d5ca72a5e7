"""Ordered states (grades): against slow literal code, in their limits, and against states without an order."""

import numpy as np
import pytest
from tests import reference_instrument as reference
from tests.simulated_instrument import converged

import crowdfield as cf
from crowdfield.data.heatmap import UNKNOWN_SHARE
from crowdfield.data.knowledge import doubt
from crowdfield.inference.fields.exact import ExactBasis
from crowdfield.inference.instrument import coupled, fitting, linear, link, model, responses, selection
from crowdfield.inference.kernels import kernel
from crowdfield.models.unknown import prior_rate_sd

GRADES = ["none", "slight", "severe", "destroyed"]


def graded(seed=0, n_places=60, n_sources=6, reports=300, J=4, read=1.5):
    """Places in a row of grades along a smooth field, and sources that confuse neighbouring grades."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n_places, 2))
    K = kernel("matern32", 4.0).covariance(X, X) + 1e-9 * np.eye(n_places)
    f = np.linalg.cholesky(K) @ rng.standard_normal(n_places)
    truth = np.searchsorted(np.quantile(f, np.arange(1, J) / J), f)
    site, source = rng.integers(0, n_places, reports), rng.integers(0, n_sources, reports)
    wrong = rng.standard_normal(reports) * 0.5 * read * rng.uniform(0.3, 1.0, n_sources)[source]
    label = np.clip(np.rint(truth[site] + wrong), 0, J - 1).astype(int)
    return X, site, source, label, truth


def estimator(**settings):
    return cf.HeatmapBCC(**{"lengthscale": 4.0, "states": [0, 1, 2, 3], "ordered": True, **settings})


def posed(X, site, source, label, n_sources, checks, J=4):
    scores = responses.state_scores(J)
    observed = fitting.Observed.of(
        site, source, label, np.ones(len(site), dtype=np.int64), len(X), n_sources, scores, checks, scores
    )
    rows = selection.Reported(site, source, label, np.ones(len(site), dtype=np.int64))
    prior = fitting.Prior(1.0, 1.0)
    return model.Problem(X, rows, observed, linear.Columns(), prior, kernel("matern32", 4.0), "exact", 0)


def some_checks():
    """One place of known state, and one about which a trusted source said something."""
    return link.Checks(np.array([2, 7]), np.array([[-np.inf, 0.0, -np.inf, -np.inf], [-3.0, -1.0, -0.1, -4.0]]))


def test_two_states_are_the_smallest_case_of_grades():
    np.testing.assert_allclose(responses.state_scores(2), [-0.5, 0.5])
    np.testing.assert_allclose(responses.label_scores(("no", "yes"), ("no", "yes", "maybe")), [-0.5, 0.5, 0.0])


def test_the_objective_is_the_literal_bound():
    X, site, source, label, _ = graded(2, n_places=12, n_sources=3, reports=40)
    checks = some_checks()
    asked = posed(X, site, source, label, 3, checks)
    design = linear.Design(ExactBasis(asked.kernel, X), asked.columns, X)
    state = asked.start()
    for _ in range(3):
        state = fitting.evaluate(asked.observed, design, asked.prior, state).image
    at = fitting.evaluate(asked.observed, design, asked.prior, state)
    said = [[(int(s), int(c)) for s, c in zip(source[site == i], label[site == i], strict=True)] for i in range(12)]
    phi = design.features(slice(0, 12))
    mean, covariance = phi @ at.q.mean, phi @ at.q.covariance @ phi.T
    prior_covariance = phi @ np.diag(1.0 / design.precision(state.variances.smooth)) @ phi.T
    population = state.variances.population
    rest = responses.log_prior(state.theta, population).sum() + link.log_prior(state.link, population)
    known = {int(i): ell for i, ell in zip(checks.site, checks.said, strict=True)}
    literal = reference.graded_bound(
        said, known, state.theta, state.link.theta, mean, covariance, state.variances.nugget, prior_covariance
    )
    assert at.objective - rest == pytest.approx(literal, abs=1e-6)


def test_the_gradient_of_sources_and_link_is_that_of_the_objective():
    X, site, source, label, _ = graded(3, n_places=20, n_sources=2, reports=60)
    asked = posed(X, site, source, label, 2, some_checks())
    design = linear.Design(ExactBasis(asked.kernel, X), asked.columns, X)
    at = fitting.evaluate(asked.observed, design, asked.prior, asked.start())
    step = 1e-5
    for k in (0, 3, 5):
        theta = at.state.theta.copy().ravel()
        theta[k] += step
        moved = at.state._replace(theta=theta.reshape(at.state.theta.shape))
        up = fitting.evaluate(asked.observed, design, asked.prior, moved).objective
        assert (up - at.objective) / step == pytest.approx(at.gradient[k], abs=1e-3)
    for k in range(4):
        theta = at.state.link.theta.copy()
        theta[k] += step
        moved = at.state._replace(link=at.state.link._replace(theta=theta))
        up = fitting.evaluate(asked.observed, design, asked.prior, moved).objective
        assert (up - at.objective) / step == pytest.approx(at.gradient[-4 + k], abs=1e-3)


def test_the_bound_rises_at_every_step_and_more_steps_change_nothing():
    X, site, source, label, _ = graded(4)
    asked = posed(X, site, source, label, 6, some_checks())
    _, longer = converged(asked)
    step = coupled.image(asked.observed, longer.design, longer.settled.at).image
    np.testing.assert_allclose(step.theta, longer.state.theta, atol=1e-4)


def test_the_reversed_order_reverses_the_map():
    X, site, source, label, _ = graded(16)
    one = estimator().fit(X[site], label, sources=source).predict_proba(X)
    other = estimator(states=[3, 2, 1, 0]).fit(X[site], label, sources=source).predict_proba(X)
    np.testing.assert_allclose(one, other[:, ::-1], atol=1e-3)


def test_with_few_reports_ordered_states_are_mapped_better_than_unordered_ones():
    gain = []
    for seed in range(6, 9):
        X, site, source, label, truth = graded(seed, n_places=80, reports=90)
        graded_map = estimator().fit(X[site], label, sources=source).predict_proba(X)
        plain = (
            estimator(ordered=False, reports_model="one_state", tol=5e-3)
            .fit(X[site], label, sources=source)
            .predict_proba(X)
        )
        rows = np.arange(len(X))
        gain.append(np.log2(graded_map[rows, truth] / plain[rows, truth]).mean())
    assert np.mean(gain) > 0.05 and min(gain) > -0.02


def test_with_gold_at_every_place_the_map_is_the_gold():
    X, site, source, label, truth = graded(10)
    fitted = estimator().fit(X[site], label, sources=source, gold=(X, truth))
    np.testing.assert_array_equal(fitted.predict_proba(X), np.eye(4)[truth])


def test_one_trusted_source_turns_its_place():
    X, site, source, label, _ = graded(11)
    matrix = np.full((4, 4), 1.0) + 449.0 * np.eye(4)
    for said in (0, 2):
        fitted = estimator(confusion_prior={"chief": matrix}).fit(
            np.vstack([X[site], X[:1]]), np.r_[label, said], sources=[*(f"v{s}" for s in source), "chief"]
        )
        assert fitted.predict_proba(X[:1])[0, said] > 0.9


def test_checked_places_move_the_thresholds():
    """A crowd that says one grade too much is found out where places were checked."""
    X, site, source, label, truth = graded(12, n_places=120, reports=900)
    low = np.maximum(truth - 1, 0)
    known = np.arange(0, 120, 2)
    without = estimator().fit(X[site], label, sources=source)
    informed = estimator().fit(X[site], label, sources=source, gold=(X[known], low[known]))
    rest = np.arange(1, 120, 2)
    scores = [np.log2(np.clip(m.predict_proba(X)[rest, low[rest]], 1e-9, 1)).mean() for m in (without, informed)]
    assert scores[1] > scores[0] + 0.5


def test_far_from_all_reports_the_map_is_the_level_and_unsure():
    X, site, source, label, _ = graded(13)
    fitted = estimator().fit(X[site], label, sources=source)
    sd = fitted.predict_rate([[1e4, 1e4]])[1][0]
    np.testing.assert_allclose(sd, prior_rate_sd(fitted), atol=1e-9)
    assert np.ptp(fitted.predict_proba([[1e4, 1e4]])) < 0.5


def test_where_a_trusted_survey_found_hardly_any_damage_most_places_are_known():
    """Seen with 2,314 graded buildings of which 8 were damaged: the level was taken as known, so that a place far from
    all reports had twice the standard deviation that it was compared with, and nearly all places seemed unknown."""
    X = np.random.default_rng(0).uniform(0, 50, (800, 2))
    from_corner, label = np.argsort(np.hypot(*X.T)), np.zeros(800, dtype=int)
    label[from_corner[:8]], label[from_corner[8:11]] = 2, 1
    settings = dict(states=[0, 1, 2], confusion_prior={"survey": 1.0 + 30.0 * np.eye(3)})
    fitted = estimator(**settings).fit(X, label, sources=["survey"] * 800)
    left = doubt(fitted.predict_rate(np.vstack([X, [[1e4, 1e4]]]))[1], prior_rate_sd(fitted), ordered=True)
    assert left[-1] == pytest.approx(1.0) and np.median(left) < UNKNOWN_SHARE


def test_expected_grades_and_at_least_follow_from_the_probabilities():
    X, site, source, label, _ = graded(14)
    names = np.array(GRADES)
    fitted = estimator(states=GRADES).fit(X[site], names[label], sources=source)
    p = fitted.predict_proba(X)
    mean, sd = fitted.predict_grade(X)
    np.testing.assert_allclose(mean, p @ np.arange(4))
    assert (sd >= 0.0).all()
    np.testing.assert_allclose(fitted.predict_at_least(X, "severe"), p[:, 2:].sum(1))
    np.testing.assert_allclose(fitted.predict_at_least(X, "none"), 1.0)
    with pytest.raises(cf.errors.InputError, match="not one of"):
        fitted.predict_at_least(X, "gone")


def test_a_saved_model_predicts_the_same_and_can_be_updated(tmp_path):
    X, site, source, label, _ = graded(15)
    fitted = estimator().fit(X[site[:220]], label[:220], sources=source[:220], gold=(X[:3], [0, 1, 2]))
    fitted.save(tmp_path / "model")
    again = cf.HeatmapBCC.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(X), fitted.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(again.predict_grade(X), fitted.predict_grade(X), atol=1e-9)
    again.partial_fit(X[site[220:]], label[220:], sources=source[220:])
    whole = estimator().fit(X[site], label, sources=source, gold=(X[:3], [0, 1, 2]))
    np.testing.assert_allclose(again.predict_proba(X), whole.predict_proba(X), atol=5e-3)


def test_sources_reports_and_places_are_explained():
    X, site, source, label, _ = graded(16)
    fitted = estimator().fit(X[site], label, sources=source)
    table = fitted.source_table()
    assert fitted.confusion_.shape == (6, 4, 4) and table["accuracy"].between(0.25, 1.0).all()
    np.testing.assert_allclose(fitted.confusion_.sum(2), 1.0)
    scores = fitted.score_reports()
    assert scores.attrs["bits"] > scores.attrs["habit_bits"]
    for place in (X[0], np.array([5.05, 5.05])):
        p = fitted.predict_proba(place[None])[0, 2]
        assert fitted.explain(place, state=2).log_odds.sum() == pytest.approx(np.log(p / (1 - p)), abs=1e-9)
    drawn = fitted.sample_rate(X[:5], n=50, random_state=0)
    np.testing.assert_allclose(drawn.sum(2), 1.0)


@pytest.mark.parametrize(
    ("settings", "labels", "words"),
    [
        ({"states": None}, np.array(GRADES), "states="),
        ({"reports_model": "one_state"}, np.arange(4), "ordered states are parts of the instrument model"),
        ({"ordered": "yes"}, np.arange(4), "True or False"),
    ],
)
def test_unsupported_uses_of_grades_are_refused(settings, labels, words):
    X, site, source, label, _ = graded(17, reports=60)
    with pytest.raises(cf.errors.InputError, match=words):
        estimator(**settings).fit(X[site], labels[label], sources=source)


def test_states_without_order_have_no_grades():
    X, site, source, label, _ = graded(18, reports=60)
    fitted = estimator(ordered=False, reports_model="one_state").fit(X[site], label, sources=source)
    with pytest.raises(cf.errors.InputError, match="no order"):
        fitted.predict_grade(X)
