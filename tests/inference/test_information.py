"""What a report would tell: information by hand, and batches that spread."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.inference import information
from crowdfield.inference.data import contrast

C = contrast(2)
GOOD, COIN = np.array([[0.9, 0.1], [0.1, 0.9]]), np.full((2, 2), 0.5)


def predicted(pi, mean=0.0, variance=1.0):
    """What a source with this confusion matrix would say at one place of two states."""
    return information.ByStates(np.zeros((1, 2)), pi, C).predict(np.full((1, 1), mean), np.full((1, 1), variance))


def test_a_guessing_source_is_uninformative_and_a_good_one_is_not():
    for score in (information.about_field, information.about_state):
        assert score(predicted(COIN))[0] == pytest.approx(0.0, abs=1e-12)
        assert score(predicted(GOOD))[0] > 0.05
    np.testing.assert_allclose(information.precision(predicted(COIN)), 0.0, atol=1e-15)


def test_information_by_hand_and_by_monte_carlo():
    """I(c; t) at even odds is a binary channel's 1 − H(0.1); I(c; f) cannot exceed it, nor what the field has."""
    by_hand = predicted(GOOD, variance=4.0)
    channel = 1.0 + 0.9 * np.log2(0.9) + 0.1 * np.log2(0.1)
    assert information.about_state(by_hand)[0] == pytest.approx(channel, abs=1e-9)
    f = 2.0 * np.random.default_rng(0).standard_normal(400_000)
    p = 0.1 + 0.8 / (1.0 + np.exp(-f))
    conditional = -(p * np.log2(p) + (1 - p) * np.log2(1 - p)).mean()
    by_sampling = 1.0 - conditional
    assert information.about_field(by_hand)[0] == pytest.approx(by_sampling, abs=2e-3)
    assert by_sampling < channel


def test_nothing_is_left_to_learn_where_all_is_known():
    assert information.about_field(predicted(GOOD, variance=1e-12))[0] == pytest.approx(0.0, abs=1e-9)
    assert information.about_state(predicted(GOOD, mean=30.0))[0] == pytest.approx(0.0, abs=1e-6)


def test_the_precision_a_report_adds_is_what_its_score_varies():
    """Fisher information by differences of log p(c | f)."""
    sigma = 1.0 / (1.0 + np.exp(-0.7))
    p = 0.1 + 0.8 * sigma
    slope = 0.8 * sigma * (1 - sigma)
    added = information.precision(predicted(GOOD, mean=0.7, variance=1e-10))[0, 0]
    assert added == pytest.approx(slope**2 / (p * (1 - p)), rel=1e-4)


def test_three_states_are_treated_alike():
    reports = information.ByStates(np.zeros((1, 3)), np.eye(3) * 0.7 + 0.1, np.eye(3))
    mean, variance = np.array([[0.3, -0.2, 0.8]]), np.array([[1.0, 0.5, 2.0]])
    turn = [2, 0, 1]
    for score in (information.about_field, information.about_state):
        one = score(reports.predict(mean, variance))
        other = score(reports.predict(mean[:, turn], variance[:, turn]))
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.fixture(scope="module")
def model():
    """Reports in the west only."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 4, 150), rng.uniform(0, 10, 150)])
    s = rng.integers(0, 4, 150)
    truth = X[:, 1] > 5
    y = np.where(rng.random(150) < np.where(s < 3, 0.9, 0.5), truth, ~truth).astype(int)
    return cf.HeatmapBCC(lengthscale=2.5).fit(X, y, s)


CANDIDATES = np.stack(np.meshgrid(np.linspace(0.25, 9.75, 14), np.linspace(0.25, 9.75, 14)), -1).reshape(-1, 2)


@pytest.mark.parametrize("score", sorted(information.SCORES))
def test_a_batch_has_no_repeats_and_its_scores_do_not_rise(model, score):
    chosen, scores = model.suggest(CANDIDATES, 8, score=score)
    assert len(set(chosen.tolist())) == 8
    # "state" scores differ by what the nodes of a quadrature leave: 1e-5 bits.
    assert (np.diff(scores) <= 1e-5).all() and np.isfinite(scores).all()


@pytest.mark.parametrize("score", ["information", "map", "variance"])
def test_batches_go_where_nobody_was_and_spread(model, score):
    chosen, _ = model.suggest(CANDIDATES, 6, score=score)
    picked = CANDIDATES[chosen]
    assert (picked[:, 0] > 4.0).mean() >= 0.5
    gaps = np.linalg.norm(picked[:, None] - picked[None], axis=-1)[np.triu_indices(6, 1)]
    assert gaps.min() > 0.7 and gaps.mean() > 2.5


def test_a_greedy_step_is_the_update_of_a_gaussian():
    """After a pick, the covariance left is that of a Gaussian that saw one more observation."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((6, 6))
    K = A @ A.T + np.eye(6)
    mean, reports = np.zeros((6, 1)), information.ByStates(np.zeros((6, 2)), GOOD, C)
    first, _ = information.greedy(1, mean, [K], reports, "variance", np.ones(6))
    best = first[0]
    lam = information.precision(predicted(GOOD, variance=K[best, best]))[0, 0]
    left = np.linalg.inv(np.linalg.inv(K) + lam * np.outer(np.eye(6)[best], np.eye(6)[best]))
    second, scores = information.greedy(2, mean, [K], reports, "variance", np.ones(6))
    others = [i for i in range(6) if i != best]
    assert scores[1] == pytest.approx(np.diag(left)[others].max()) and second[1] != best


def test_costs_and_sources_change_the_choice(model):
    cheap_west = np.where(CANDIDATES[:, 0] < 4.0, 1e-3, 1.0)
    chosen, _ = model.suggest(CANDIDATES, 4, cost=cheap_west)
    assert (CANDIDATES[chosen][:, 0] < 4.0).all()
    _, careful = model.suggest(CANDIDATES, 3, source=[[0.99, 0.01], [0.01, 0.99]])
    _, typical = model.suggest(CANDIDATES, 3)
    _, guesser = model.suggest(CANDIDATES, 3, source=3)
    assert careful[0] > typical[0] > guesser[0]


def test_information_about_states_is_largest_where_they_are_uncertain(model):
    chosen, _ = model.suggest(model.places_, 10, score="state")
    p = model.predict_proba(model.places_[chosen])[:, 1]
    everywhere = model.predict_proba(model.places_)[:, 1]
    assert np.abs(p - 0.5).mean() < 0.5 * np.abs(everywhere - 0.5).mean()
