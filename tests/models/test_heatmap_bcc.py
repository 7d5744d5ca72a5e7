"""HeatmapBCC: limits that leave no choice, symmetries, convergence, and what a user may say about states and priors."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone

import crowdfield as cf
from crowdfield.errors import ConvergenceWarning

TRUSTED = [[450.0, 1.0], [1.0, 450.0]]
INFERENCE = [dict(inference="collapsed"), dict(inference="vb"), dict(inference="vb", linearisation="ekf")]
each_inference = pytest.mark.parametrize("how", INFERENCE, ids=["collapsed", "polya_gamma", "ekf"])


def crowd(seed=0, states=2, reports=240, side=10, sources=6):
    """Bands of states from west to east; the last source guesses, the others are right five times in six."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2).astype(float)
    truth = (grid[:, 0] * states // side).astype(int)
    place, source = rng.integers(0, len(grid), reports), rng.integers(0, sources, reports)
    right = rng.random(reports) < np.where(source < sources - 1, 0.8, 0.0)
    y = np.where(right, truth[place], rng.integers(0, states, reports))
    return grid, truth, grid[place], y, source


# --- limits -----------------------------------------------------------------------------------------------------------


@each_inference
def test_far_from_all_reports_there_is_the_prior(how):
    _, _, X, y, sources = crowd()
    model = cf.HeatmapBCC(lengthscale=3.0, prior_mean=-1.5, **how).fit(X, y, sources)
    mean, _ = model.predict_latent([[500.0, 500.0]])
    assert mean[0, 0] == pytest.approx(-1.5, abs=1e-3)
    rate, sd = model.predict_rate([[500.0, 500.0]])
    assert rate[0, 1] < 0.45 and sd[0, 1] > 0.05


def test_log_odds_of_two_states_vary_alike_however_many_states_there_are():
    """A report that says nothing leaves the prior. Log odds are one function of two states, a difference of three."""
    says_nothing = np.full(3, 100.0)
    two = cf.HeatmapBCC(
        lengthscale=1.0, states=[0, 1], confusion_prior=[says_nothing[:2]] * 2, reports_model="one_state"
    )
    three = cf.HeatmapBCC(
        lengthscale=1.0, states=[0, 1, 2], confusion_prior=[says_nothing] * 3, reports_model="one_state"
    )
    far, X = [[100.0, 0.0]], [[0.0, 0.0]]
    variance = two.fit(X, [0]).predict_latent(far)[1]
    each = three.fit(X, [0]).predict_latent(far)[1]
    assert each[0, 0] + each[0, 1] == pytest.approx(variance[0, 0], rel=0.02)


@each_inference
def test_one_trusted_source_decides(how):
    X = np.repeat([[0.0, 0.0], [300.0, 0.0]], 5, axis=0)
    y = np.array([1, 0, 0, 0, 0, 0, 1, 1, 1, 1])
    sources = np.array(["fire brigade", "a", "b", "c", "d"] * 2)
    model = cf.HeatmapBCC(lengthscale=10.0, confusion_prior={"fire brigade": TRUSTED}, **how).fit(X, y, sources)
    p = model.predict_proba([[0.0, 0.0], [300.0, 0.0]])[:, 1]
    assert p[0] > 0.9 and p[1] < 0.1
    voted = cf.HeatmapBCC(lengthscale=10.0, **how).fit(X, y, sources).predict_proba([[0.0, 0.0], [300.0, 0.0]])[:, 1]
    assert voted[0] < 0.5 < voted[1]


@each_inference
def test_a_tiny_lengthscale_leaves_each_site_to_its_own_reports(how):
    """Independent sites and an almost certain confusion matrix: Bayes' rule by hand."""
    X = np.repeat(np.arange(6.0)[:, None] * 10.0, [1, 2, 3, 1, 2, 3], axis=0)
    y = np.array([1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0])
    sure = {"only": np.array([[0.8, 0.2], [0.3, 0.7]]) * 1e7}
    # A prior mean that is given leaves no level to be learned, which all sites would share.
    even: dict[str, Any] = dict(prior_mean=lambda places: np.zeros(len(places)))
    model = cf.HeatmapBCC(lengthscale=1e-3, confusion_prior=sure, scale_shape=1e6, scale_rate=1e6, **even, **how)
    model.fit(X, y, ["only"] * len(y))
    said = np.where(y == 1, np.log(0.7 / 0.2), np.log(0.3 / 0.8))
    by_hand = expit(np.bincount(X[:, 0].astype(int) // 10, weights=said))
    # A prior symmetric around even odds: E[t] is σ(ℓ) exactly when t is summed out. Mean-field treats f and t as
    # independent, which makes it overconfident at every place: 0.82 instead of 0.78 in the worst case.
    found = model.predict_proba(np.unique(X, axis=0))[:, 1]
    summed_out = how["inference"] == "collapsed"
    np.testing.assert_allclose(found, by_hand, atol=1e-3 if summed_out else 0.05)
    assert summed_out or (np.abs(found - 0.5) > np.abs(by_hand - 0.5)).all()


def test_a_very_long_lengthscale_makes_one_place_of_all():
    _, _, X, y, sources = crowd()
    rate, _ = cf.HeatmapBCC(lengthscale=1e6).fit(X, y, sources).predict_rate([[0.0, 0.0], [9.0, 9.0], [4.0, 1.0]])
    np.testing.assert_allclose(rate, rate[:1].repeat(3, 0), atol=2e-3)


@each_inference
def test_gold_fixes_its_place_and_informs_about_sources(how):
    grid, truth, X, y, sources = crowd(3)
    model = cf.HeatmapBCC(lengthscale=4.0, **how).fit(X, y, sources, gold=(grid[::3], truth[::3]))
    p = model.predict_proba(grid[::3])
    np.testing.assert_array_equal(p[np.arange(len(p)), truth[::3]], 1.0)
    blind = cf.HeatmapBCC(lengthscale=4.0, **how).fit(X, y, sources)

    def right(m):
        others = np.delete(np.arange(len(grid)), np.s_[::3])
        return np.log(m.predict_proba(grid[others])[np.arange(len(others)), truth[others]]).mean()

    assert right(model) > right(blind)


def test_gold_alone_at_unreported_places_moves_the_map():
    _, _, X, y, sources = crowd()
    near = [[20.0, 5.0]]
    before = cf.HeatmapBCC(lengthscale=4.0).fit(X, y, sources).predict_proba(near)[0, 1]
    gold = ([[21.0, 5.0], [20.0, 6.0], [19.0, 4.0]], [0, 0, 0])
    after = cf.HeatmapBCC(lengthscale=4.0).fit(X, y, sources, gold=gold).predict_proba(near)[0, 1]
    assert after < before - 0.1


# --- symmetries -------------------------------------------------------------------------------------------------------


@each_inference
@pytest.mark.parametrize("states", [2, 3])
def test_permuting_states_permutes_the_answer(how, states):
    grid, _, X, y, sources = crowd(1, states)
    turn = np.roll(np.arange(states), 1)  # state s is called turn[s]
    here = cf.HeatmapBCC(lengthscale=4.0, tol=1e-6, max_iter=500, **how).fit(X, y, sources)
    there = cf.HeatmapBCC(lengthscale=4.0, tol=1e-6, max_iter=500, **how).fit(X, turn[y], sources)
    np.testing.assert_allclose(there.predict_proba(grid)[:, turn], here.predict_proba(grid), atol=1e-4)
    np.testing.assert_allclose(there.confusion_[:, turn][:, :, turn], here.confusion_, atol=1e-4)
    assert there.bound_ == pytest.approx(here.bound_, rel=1e-5)


@pytest.mark.parametrize("inference", ["collapsed", "vb"])
def test_sharp_borders_between_three_states_settle_and_permute(inference):
    """Strips drive ς down, where the likelihood is flat: the hardest case for convergence, at default settings."""
    rng = np.random.default_rng(3)
    grid = np.stack(np.meshgrid(np.arange(16.0), np.arange(16.0)), -1).reshape(-1, 2)
    truth = (grid[:, 0] // 6).astype(int)
    at, sources = rng.integers(0, 256, 900), rng.integers(0, 10, 900)
    y = np.where(rng.random(900) < np.where(sources < 5, 0.8, 0.34), truth[at], rng.integers(0, 3, 900))
    turn = np.array([2, 0, 1])
    here = cf.HeatmapBCC(lengthscale=5.0, inference=inference).fit(grid[at], y, sources)
    there = cf.HeatmapBCC(lengthscale=5.0, inference=inference).fit(grid[at], turn[y], sources)
    assert here.converged_ and there.converged_
    np.testing.assert_allclose(there.predict_proba(grid)[:, turn], here.predict_proba(grid), atol=1e-3)
    assert (here.predict(grid) == truth).mean() > 0.95


def test_the_order_of_reports_does_not_matter():
    grid, _, X, y, sources = crowd(2)
    order = np.random.default_rng(0).permutation(len(y))
    here = cf.HeatmapBCC(lengthscale=4.0).fit(X, y, sources)
    there = cf.HeatmapBCC(lengthscale=4.0).fit(X[order], y[order], sources[order])
    np.testing.assert_allclose(here.predict_proba(grid), there.predict_proba(grid), atol=1e-8)


@pytest.mark.parametrize(
    ("engine", "reports_model", "tolerance"),
    [
        ("exact", "one_state", 1e-4),
        ("exact", "instrument", 2e-3),  # its variances are learned to 0.003 of their logarithm
        ("spectral", "one_state", 0.02),  # a lattice of frequencies has its own directions
    ],
)
def test_turning_and_moving_the_map_turns_and_moves_the_answer(engine, reports_model, tolerance):
    grid, _, X, y, sources = crowd(4)
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def moved(places):
        return places @ turn.T + np.array([3e5, 5e6])

    model = cf.HeatmapBCC(lengthscale=4.0, engine=engine, reports_model=reports_model)
    here, there = clone(model).fit(X, y, sources), clone(model).fit(moved(X), y, sources)
    np.testing.assert_allclose(there.predict_rate(moved(grid))[0], here.predict_rate(grid)[0], atol=tolerance)


def test_stretching_map_and_lengthscale_together_changes_nothing():
    grid, _, X, y, sources = crowd(5)
    here = cf.HeatmapBCC(lengthscale=4.0).fit(X, y, sources)
    there = cf.HeatmapBCC(lengthscale=4000.0).fit(1000.0 * X, y, sources)
    np.testing.assert_allclose(there.predict_proba(1000.0 * grid), here.predict_proba(grid), atol=1e-6)


# --- convergence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("states", "engine"), [(2, "exact"), (2, "spectral"), (3, "exact")])
def test_the_bound_never_falls_with_polya_gamma(states, engine):
    _, _, X, y, sources = crowd(6, states)
    model = cf.HeatmapBCC(lengthscale=4.0, inference="vb", engine=engine).fit(X, y, sources)
    steps = np.diff(model.bound_history_)
    assert steps.min() > -1e-8 * abs(model.bound_)
    assert sum(model.bound_terms_.values()) == pytest.approx(model.bound_)


@each_inference
@pytest.mark.parametrize("seed", [0, 1])
def test_more_iterations_after_convergence_change_nothing(how, seed):
    """Five times the iterations, and a hundredth of the tolerance, move no prediction by more than 1e-3."""
    grid, _, X, y, sources = crowd(seed, reports=120)
    model = cf.HeatmapBCC(lengthscale=5.0, **how).fit(X, y, sources)
    assert model.converged_
    longer = cf.HeatmapBCC(lengthscale=5.0, tol=1e-6, max_iter=1000, **how).fit(X, y, sources)
    assert longer.n_iter_ > model.n_iter_
    assert np.abs(model.predict_proba(grid) - longer.predict_proba(grid)).max() < 1e-3
    assert np.abs(model.confusion_ - longer.confusion_).max() < 1e-3


def test_a_fit_that_did_not_converge_warns():
    _, _, X, y, sources = crowd()
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = cf.HeatmapBCC(lengthscale=4.0, max_iter=2).fit(X, y, sources)
    assert not model.converged_


# --- what a user may say ----------------------------------------------------------------------------------------------


def test_labels_that_are_not_states():
    """Two states, four labels: what "maybe" and "picture" are worth is learned from how they are used."""
    rng = np.random.default_rng(8)
    X = rng.integers(0, 12, (900, 2)).astype(float)
    truth = (X[:, 0] >= 6).astype(int)
    sources = rng.integers(0, 3, len(X))
    pi = np.array([[0.65, 0.05, 0.2, 0.1], [0.05, 0.65, 0.05, 0.25]])
    said = np.array([rng.choice(4, p=pi[t]) for t in truth])
    labels = ["dry", "flooded", "maybe", "picture"]
    model = cf.HeatmapBCC(lengthscale=5.0, states=["dry", "flooded"], labels=labels)
    model.fit(X, np.array(labels)[said], sources)
    assert list(model.classes_) == ["dry", "flooded"] and model.confusion_.shape == (3, 2, 4)
    # About 450 reports per state: the standard error of a frequency is at most √(0.65 · 0.35 / 450) = 0.022.
    np.testing.assert_allclose(model.confusion_.mean(0), pi, atol=0.06)
    places = np.unique(X, axis=0)
    assert (model.predict(places) == np.array(["dry", "flooded"])[(places[:, 0] >= 6).astype(int)]).mean() > 0.95


def test_a_state_without_a_label_gets_its_meaning_from_the_prior():
    _, _, X, y, sources = crowd()
    prior = np.array([[8.0, 1.0], [1.0, 8.0], [4.0, 4.0]])
    model = cf.HeatmapBCC(lengthscale=4.0, states=[0, 1, "unclear"], labels=[0, 1], confusion_prior=prior)
    p = model.fit(X, y, sources).predict_proba(X)
    assert p.shape[1] == 3 and np.isfinite(p).all()
    assert p[y == 1, 1].mean() > p[y == 0, 1].mean()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (1.2, [1.2]),
        ([0.0, 1.2], [1.2]),
        ([1.0, 2.2], [1.2]),
        (lambda X: np.full(len(X), 1.2), [1.2]),
        (lambda X: np.column_stack([np.zeros(len(X)), np.full(len(X), 1.2)]), [1.2]),
    ],
)
def test_all_forms_of_a_prior_mean_give_the_same_map(given, expected):
    grid, _, X, y, sources = crowd()
    model = cf.HeatmapBCC(lengthscale=4.0, prior_mean=given).fit(X, y, sources)
    reference = cf.HeatmapBCC(lengthscale=4.0, prior_mean=1.2).fit(X, y, sources)
    np.testing.assert_allclose(model.predict_latent([[900.0, 0.0]])[0][0], expected, atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(grid), reference.predict_proba(grid), atol=1e-9)


def test_a_prior_mean_of_three_states_counts_only_by_its_differences():
    grid, _, X, y, sources = crowd(1, 3)
    here = cf.HeatmapBCC(lengthscale=4.0, prior_mean=[0.0, 1.0, -1.0]).fit(X, y, sources)
    far = here.predict_rate([[900.0, 0.0]])[0][0]
    assert far[1] > far[0] > far[2]
    everywhere = cf.HeatmapBCC(lengthscale=4.0, prior_mean=lambda Z: np.tile([0.0, 1.0, -1.0], (len(Z), 1)))
    np.testing.assert_allclose(everywhere.fit(X, y, sources).predict_proba(grid), here.predict_proba(grid), atol=1e-9)


def test_a_prior_mean_from_a_physical_model_shows_where_nobody_reported():
    """A prior mean that falls from west to east, and reports in the west only."""
    _, _, X, y, sources = crowd()
    model = cf.HeatmapBCC(lengthscale=2.0, prior_mean=lambda Z: 0.1 * (Z[:, 0] - 50.0)).fit(X, y, sources)
    east = model.predict_rate(np.array([[40.0, 5.0], [60.0, 5.0], [80.0, 5.0]]))[0][:, 1]
    assert east[0] < 0.45 and east[1] > 0.55 and east[2] > east[1]


@each_inference
def test_the_source_table_ranks_sources_by_their_reliability(how):
    _, _, X, y, sources = crowd(9, reports=500)
    table = cf.HeatmapBCC(lengthscale=4.0, **how).fit(X, y, sources).source_table()
    assert table["source"].iloc[-1] == 5  # the guesser tells least
    good = table[table["source"] < 5]
    assert ((good.accuracy_low < 0.9) & (good.accuracy_high > 0.9)).mean() >= 0.8  # 0.8 + 0.2 / 2 is the truth
    assert table["reports"].sum() == 500


@pytest.mark.parametrize("states", [2, 3])
def test_engines_agree(states):
    grid, _, X, y, sources = crowd(10, states)
    prior = np.ones((states, states)) + np.eye(states)  # a learned one would follow the small differences
    maps = [
        cf.HeatmapBCC(lengthscale=4.0, engine=engine, random_state=0, confusion_prior=prior)
        .fit(X, y, sources)
        .predict_proba(grid)
        for engine in ("exact", "spectral", "inducing")
    ]
    for other in maps[1:]:
        assert np.abs(other - maps[0]).max() < 0.05 and np.abs(other - maps[0]).mean() < 0.01


def test_a_learned_lengthscale_is_near_the_truth_and_knows_its_doubt():
    from crowdfield.simulate import simulate

    world = simulate(600, rng=np.random.default_rng(3), places=(18, 18), lengthscale=5.0, reliable=12, noisy=3)
    r = world.reports
    # A scale of 1 is what the world was drawn with.
    model = cf.HeatmapBCC(lengthscale="learn", scale_rate=1.0, random_state=0).fit(r.places, r.label, r.source)
    # 600 reports leave a doubt of about a factor of e^0.5 either way; the truth lies within two and a half of it.
    assert abs(np.log(model.lengthscale_[0] / 5.0)) < 2.5 * model.lengthscale_log_sd_[0]
    assert 0.2 < model.lengthscale_log_sd_[0] < 0.7


def test_suggested_sources_are_mostly_good_and_sometimes_unknown():
    """Nine of ten draws go to those who are known to be right; the one with a single report is not written off."""
    rng = np.random.default_rng(5)
    X, source = rng.random((600, 2)) * 10.0, rng.integers(0, 4, 600)
    wet = (X[:, 0] > 5.0).astype(int)
    y = np.where(rng.random(600) < np.array([0.95, 0.95, 0.5, 0.5])[source], wet, 1 - wet)
    model = cf.HeatmapBCC(lengthscale=4.0).fit(np.vstack([X, [[1.0, 1.0]]]), np.r_[y, 0], np.r_[source, 9])
    asked = model.suggest_sources(400, random_state=1)
    share = {s: np.mean([a == s for a in asked]) for s in (0, 1, 2, 3, 9)}
    assert share[2] == share[3] == 0.0 and share[0] + share[1] > 0.9 and 0.005 < share[9] < 0.1
    assert set(model.suggest_sources(20, among=[2, 3], random_state=1)) <= {2, 3}
    with pytest.raises(cf.errors.InputError, match="among must name sources"):
        model.suggest_sources(3, among=[77])


def test_asking_nobody_is_an_error():
    _, _, X, y, sources = crowd(6)
    with pytest.raises(cf.errors.InputError, match="nobody"):
        cf.HeatmapBCC(lengthscale=4.0).fit(X, y, sources).suggest_sources(3, among=[])
