"""Which model of reports `reports_model="auto"` takes."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.simulate import simulate


def crowd_with_bad_imagery(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Tiles with six answers each. In the south images are bad; what is damaged does not depend on that."""
    tiles = np.stack(np.meshgrid(np.arange(22.0), np.arange(22.0)), -1).reshape(-1, 2)
    damaged = (tiles[:, 0] < 7) & (tiles[:, 1] > 4)
    bad = tiles[:, 1] < 4
    tile = np.repeat(np.arange(len(tiles)), 6)
    misleading = rng.normal(0.0, 1.0, len(tiles))  # a shadow that misleads everybody who sees the tile
    says_yes = rng.random(len(tile)) < 1.0 / (1.0 + np.exp(-(np.where(damaged, 1.5, -1.5) + misleading)[tile]))
    says_bad = rng.random(len(tile)) < np.where(bad[tile], 0.9, 0.01)
    label = np.where(says_bad, "bad imagery", np.where(says_yes, "yes", "no"))
    return tiles, damaged, tile, label


def test_answers_that_name_no_state_do_not_decide_which_model_is_used():
    rng = np.random.default_rng(0)
    tiles, damaged, tile, label = crowd_with_bad_imagery(rng)
    source = rng.integers(0, 20, len(tile))
    model = cf.HeatmapBCC(lengthscale=4.0, states=["no", "yes"], random_state=0).fit(tiles[tile], label, source)
    seen = np.bincount(tile[label != "bad imagery"], minlength=len(tiles)) >= 3
    p = model.predict_proba(tiles)[:, 1]
    assert model.reports_model_ == "instrument"
    assert p[seen & damaged].mean() > 0.7
    assert p[seen & ~damaged].mean() < 0.3
    assert p[~seen].max() < 0.9  # where nobody could see anything, the map is not sure of damage


def test_few_reports_that_name_a_state_are_not_compared():
    rng = np.random.default_rng(0)
    tiles, _, tile, label = crowd_with_bad_imagery(rng)
    label = np.where(np.arange(len(label)) < 90, label, "bad imagery")
    model = cf.HeatmapBCC(lengthscale=4.0, states=["no", "yes"], random_state=0)
    model.fit(tiles[tile], label, rng.integers(0, 20, len(tile)))
    assert "reports that name a state" in model.reports_model_reason_


@pytest.mark.parametrize("sweeps", [2, 5])
def test_the_limit_of_sweeps_includes_those_that_learn_variances(sweeps):
    with pytest.warns(cf.errors.ConvergenceWarning):
        model = cf.HeatmapBCC(reports_model="instrument", lengthscale=3.0, max_iter=sweeps).fit(
            *cf.testing.example_crowd()
        )
    assert model.n_iter_ == sweeps


def answers(rng: np.random.Generator, right: np.ndarray, reports: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places, answers about the state on either side of a front, and who gave them. right [S, 2]: P(right | state)."""
    places = rng.uniform(0.0, 12.0, (reports, 2))
    state = (places[:, 0] + 0.5 * places[:, 1] > 9.0).astype(int)
    source = rng.integers(0, len(right), reports)
    return places, np.where(rng.random(reports) < right[source, state], state, 1 - state), source


def test_sources_share_a_prior_that_is_learned_unless_one_is_given():
    X, said, by = cf.testing.example_crowd()
    model = cf.HeatmapBCC(lengthscale=3.0, reports_model="one_state").fit(X, said, by)
    assert len(model.communities_.beta) == 1
    given = cf.HeatmapBCC(lengthscale=3.0, reports_model="one_state", confusion_prior=[[2, 1], [1, 2]]).fit(X, said, by)
    assert given.communities_ is None
    papers = cf.HeatmapBCC(lengthscale=3.0, reports_model="one_state", inference="vb").fit(X, said, by)
    assert papers.communities_ is None


def test_separate_matrices_are_used_where_they_predict_left_out_reports_clearly_better():
    """Half of the crowd guesses, each in a way of his own: a common prior says too much about everybody."""
    rng = np.random.default_rng(1)
    said = simulate(1_000, rng=rng, places=(30, 30), lengthscale=15.0, reliable=10, noisy=10).reports
    model = cf.HeatmapBCC(lengthscale=15.0, random_state=0).fit(said.places, said.label, said.source)
    found = model.model_comparison_
    assert found.separate > found.one_state + 0.01
    assert found.better == "separate"
    assert model.reports_model_ == "one_state"
    assert model.communities_ is None
    assert "little in common" in model.reports_model_reason_
    few = slice(0, 20)
    assert model.partial_fit(said.places[few], said.label[few], said.source[few]).communities_ is None  # kept


def test_communities_that_were_learned_are_kept_while_few_reports_come():
    rng = np.random.default_rng(2)
    right = np.repeat([[0.95, 0.95], [0.5, 0.5]], 30, axis=0)
    model = cf.HeatmapBCC(lengthscale=6.0, reports_model="one_state", communities="learn")
    model.fit(*answers(rng, right, 900))
    assert len(model.communities_.beta) == 2
    assert len(model.partial_fit(*answers(rng, right, 20)).communities_.beta) == 2


def test_of_two_named_states_the_second_is_expected_to_be_the_rarer():
    nowhere = np.array([[500.0, 500.0]])  # far from all reports
    X, said, by = np.array([[0.0, 0.0], [1.0, 0.0]]), ["damaged", "fine"], ["a", "b"]
    named = cf.HeatmapBCC(lengthscale=3.0, states=["fine", "damaged"]).fit(X, said, by)
    other = cf.HeatmapBCC(lengthscale=3.0, states=["damaged", "fine"]).fit(X, said, by)
    unnamed = cf.HeatmapBCC(lengthscale=3.0).fit(X, said, by)
    assert named.predict_proba(nowhere)[0, 1] < 0.4
    np.testing.assert_allclose(other.predict_proba(nowhere), named.predict_proba(nowhere), atol=1e-3)
    np.testing.assert_allclose(unnamed.predict_proba(nowhere), 0.5, atol=1e-3)


def test_an_alarmed_crowd_does_not_turn_a_rare_state_into_the_common_one():
    rng = np.random.default_rng(3)
    places = rng.uniform(0.0, 12.0, (400, 2))
    state = (np.hypot(*(places - 3.0).T) < 1.5).astype(int)
    source = rng.integers(0, 20, 400)
    right = np.where(np.arange(20)[:, None] < 12, [0.3, 0.95], [0.9, 0.9])  # twelve of twenty mostly raise the alarm
    said = np.where(rng.random(400) < right[source, state], state, 1 - state)
    model = cf.HeatmapBCC(lengthscale=3.0, states=[0, 1], reports_model="one_state").fit(places, said, source)
    assert said.mean() > 0.4
    assert model.predict_proba(places)[state == 0, 1].mean() < 0.2
    assert model.converged_
