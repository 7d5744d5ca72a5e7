"""What a report would tell, under the instrument model: against literal sums, refits, and common sense."""

from __future__ import annotations

import numpy as np
import pytest
from tests.inference.instrument.test_ordered import estimator, graded, posed, some_checks

import crowdfield as cf
from crowdfield.inference import information
from crowdfield.inference.instrument import iterate, model, report_prediction, responses, selection
from crowdfield.inference.instrument.grid import APPEARANCES

EXACT = iterate.Policy(tol=1e-6, unsure_variances=False)


@pytest.fixture(scope="module")
def fitted():
    X, site, source, label, _ = graded(1)
    return model.fit(posed(X, site, source, label, 6, some_checks()), None, EXACT)


def alone(fitted, place, source):
    """What one source would say at one place of the problem."""
    weight = (np.arange(6) == source).astype(float)
    known = report_prediction.Known.of(fitted, [np.array([place])])
    return report_prediction.ByAppearance(
        known, fitted.joint.variances.nugget, report_prediction.reading(fitted, weight)
    )


def test_predicted_reports_are_the_literal_sum_over_field_and_appearance(fitted):
    place, source = 5, 2
    mean, variance = (part[place] for part in fitted.design.moments(fitted.joint.q))
    reports = alone(fitted, place, source)
    predicted = reports.predict(np.array([[mean]]), np.array([[variance]]))
    table = responses.log_responses(fitted.state.theta, fitted.problem.observed.scores)
    truth, nugget = fitted.link.truth, fitted.joint.variances.nugget
    rows = np.flatnonzero(fitted.problem.reported.site == place)
    labels, both, unsure = np.zeros(4), np.zeros((4, 4)), 0.0
    nodes = np.linspace(-6, 6, 121)
    for z, share in zip(nodes, np.exp(-0.5 * nodes**2) / np.exp(-0.5 * nodes**2).sum(), strict=True):
        f = mean + np.sqrt(variance) * z
        given_f = np.zeros(4)
        density = np.exp(-0.5 * (APPEARANCES - f) ** 2 / nugget)
        for r in rows:
            density *= np.exp(table[fitted.problem.reported.source[r], fitted.problem.reported.label[r]])
        density /= density.sum()
        for k in range(len(APPEARANCES)):
            said = density[k] * np.exp(table[source, :, k])
            given_f += said
            both += share * np.outer(truth[:, k], said)
        labels += share * given_f
        unsure += share * information.entropy(given_f)
    np.testing.assert_allclose(predicted.weights @ predicted.labels[0], labels, atol=1e-6)
    np.testing.assert_allclose(predicted.with_states[0], both, atol=1e-6)
    assert information.about_field(predicted)[0] == pytest.approx(information.entropy(labels) - unsure, abs=1e-6)


def test_slopes_agree_with_finite_differences(fitted):
    reports, step, narrow = alone(fitted, 9, 0), 1e-4, np.array([[1e-14]])
    at = {shift: reports.predict(np.array([[0.4 + shift]]), narrow) for shift in (-step, 0.0, step)}
    difference = (at[step].labels - at[-step].labels)[0, 0] / (2 * step)
    np.testing.assert_allclose(at[0.0].slopes[0, 0, 0], difference, atol=1e-7)
    rates = [
        fitted.state_moments(np.array([0.4 + shift]), np.array([fitted.joint.variances.nugget]))[0][0]
        for shift in (-1e-2, 1e-2)
    ]
    steepness = 0.5 * (((rates[1] - rates[0]) / 2e-2) ** 2).sum()
    assert reports.importance(np.array([[0.4]]))[0, 0] == pytest.approx(steepness, rel=0.05)


@pytest.mark.parametrize("place", [0, 5, 23])
def test_information_about_a_state_is_the_expected_gain_of_refits_with_each_label(fitted, place):
    """The posterior of the state, refitted with each label that the source could give."""
    source, asked = 1, fitted.problem
    mean, variance = (part[place] for part in fitted.design.moments(fitted.joint.q))
    predicted = alone(fitted, place, source).predict(np.array([[mean]]), np.array([[variance]]))
    now, later = information.entropy(fitted.site_states[place]), 0.0
    probability = predicted.weights @ predicted.labels[0]
    for label in range(4):
        columns = (np.append(a, b) for a, b in zip(asked.reported, (place, source, label, 1), strict=True))
        more = selection.Reported(*columns)
        again = asked._replace(reported=more, observed=asked.observed.with_reports(*more))
        refit = model.fit(again, fitted.state, EXACT, learn_variances=False)
        later += probability[label] * information.entropy(refit.site_states[place])
    assert information.about_state(predicted)[0] == pytest.approx(now - later, abs=0.03, rel=0.15)


@pytest.fixture(scope="module")
def west():
    """Grades that were reported on in the west only; the last of the sources guesses."""
    rng = np.random.default_rng(2)
    X, site, source, label, truth = graded(2, n_places=120, reports=500)
    X[:, 0] *= 0.4
    guessed = source == 5
    label[guessed] = rng.integers(0, 4, guessed.sum())
    gold = (X[:3], truth[:3])
    return estimator().fit(X[site], label, sources=source, gold=gold), X


CANDIDATES = np.stack(np.meshgrid(np.linspace(0.5, 9.5, 12), np.linspace(0.5, 9.5, 12)), -1).reshape(-1, 2)


@pytest.mark.parametrize("score", sorted(information.SCORES))
def test_batches_for_grades_go_where_nobody_was_and_their_scores_do_not_rise(west, score):
    chosen, scores = west[0].suggest(CANDIDATES, 6, score=score)
    assert len(set(chosen.tolist())) == 6 and np.isfinite(scores).all() and (np.diff(scores) <= 1e-5).all()
    if score in ("information", "map", "variance"):
        assert (CANDIDATES[chosen][:, 0] > 4.0).mean() >= 0.5


@pytest.mark.parametrize("score", ["information", "state", "map"])
def test_a_guessing_source_is_uninformative_and_a_trusted_one_most_informative(west, score):
    visitor = np.full((4, 4), 0.01) + 0.96 * np.eye(4)
    careful, typical, guesser = (
        west[0].suggest(CANDIDATES, 1, source=who, score=score)[1][0] for who in (visitor, None, 5)
    )
    assert min(careful, typical) > 3.0 * guesser
    assert score != "state" or careful > typical


def test_nothing_is_left_to_learn_of_the_state_of_a_checked_place(west):
    fitted, X = west
    _, scores = fitted.suggest(X[:3], 3, score="state")
    np.testing.assert_allclose(scores, 0.0, atol=1e-9)
    assert fitted.suggest(X[3:20], 1, score="state")[1][0] > 0.01


def test_suggested_sources_for_grades_do_not_guess(west):
    asked = west[0].suggest_sources(40, random_state=0)
    assert asked.count(5) < 4


def test_places_that_hold_several_things_can_be_suggested():
    X, site, source, label, _ = graded(3, reports=200)
    fitted = estimator().fit(X[site // 2], label, sources=source, tasks=site % 2)
    chosen, scores = fitted.suggest(X[:30], 5)
    assert len(set(chosen.tolist())) == 5 and (scores > 0).all()


def test_a_place_whose_state_is_certain_has_no_information_left():
    """Many reports at one place settle its state; the same source tells much more about a place next to it."""
    rng = np.random.default_rng(0)
    X = np.vstack([np.zeros((200, 2)), rng.uniform(-20, 20, (300, 2))])
    y = np.concatenate([np.ones(200), X[200:, 0] > 0]).astype(int)
    fitted = cf.HeatmapBCC(lengthscale=5.0, reports_model="instrument").fit(X, y, sources=np.arange(500) % 4)
    settled, beside = (fitted.suggest(np.array([place]), 1, score="state")[1][0] for place in ([0.0, 0.0], [0.5, 0.5]))
    assert settled < 0.1 * beside
