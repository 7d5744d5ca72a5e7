"""Why a place is what it is: shares that add up, and point the right way."""

import numpy as np
import pytest
from scipy.special import logit

import crowdfield as cf

GRID = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), -1).reshape(-1, 2)


def crowd(seed=0, states=2, reports=160):
    rng = np.random.default_rng(seed)
    place, source = rng.integers(0, len(GRID), reports), rng.integers(0, 5, reports)
    truth = (GRID[place, 0] * states // 8).astype(int)
    y = np.where(rng.random(reports) < np.where(source < 4, 0.85, 0.0), truth, rng.integers(0, states, reports))
    return GRID[place], y, source


@pytest.mark.parametrize(
    ("how", "states"),
    [
        ({}, 2),
        ({}, 3),
        (dict(inference="vb"), 2),
        (dict(inference="vb"), 3),
        (dict(engine="spectral"), 2),
        (dict(communities=1), 2),
    ],
    ids=str,
)
def test_shares_sum_to_the_log_odds(how, states):
    X, y, s = crowd(1, states=states)
    model = cf.HeatmapBCC(lengthscale=3.0, prior_mean=0.3, tol=0.01, **how).fit(X, y, s)
    for place in ([0.0, 0.0], [3.5, 4.5], [7.0, 2.0], [40.0, 40.0]):
        p = model.predict_proba([place])[0]
        for j in range(states):
            table = model.explain(place, state=j)
            assert table.log_odds.sum() == pytest.approx(logit(p[j]), abs=1e-6)
            assert len(table) == len(y) + 2 and list(table.kind[-2:]) == ["prior", "uncertainty"]


def test_the_table_names_the_reports_and_their_distance():
    X, y, s = crowd()
    model = cf.HeatmapBCC(lengthscale=3.0).fit(X, y, s)
    table = model.explain([3.5, 4.5])
    reports = table[table.kind == "report"]
    expected = sorted(zip(s, y, np.hypot(*(X - [3.5, 4.5]).T).round(9), strict=True))
    assert sorted(zip(reports.source, reports.label, reports.distance.round(9), strict=True)) == expected
    assert (np.diff(reports.log_odds.abs()) <= 1e-12).all()  # the strongest first


def test_near_reports_by_good_sources_count_most():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 10, (300, 2))
    truth = (X[:, 0] > 5).astype(int)
    s = rng.integers(0, 4, 300)
    y = np.where(rng.random(300) < np.where(s < 3, 0.95, 0.5), truth, 1 - truth)  # source 3 guesses
    table = cf.HeatmapBCC(lengthscale=3.0).fit(X, y, s).explain([8.0, 5.0], state=1)
    reports = table[table.kind == "report"].copy()
    near, far = reports[reports.distance < 2.0], reports[reports.distance > 6.0]
    assert near.log_odds.abs().mean() > 5.0 * far.log_odds.abs().mean()
    good = near[near.source < 3]
    assert good[good.label == 1].log_odds.min() > 0.0
    strength = near.assign(size=near.log_odds.abs()).groupby("source")["size"].mean()
    assert strength[3] < 0.6 * strength[[0, 1, 2]].min()


def test_forgetting_the_strongest_source_moves_the_place_as_explained():
    X, y, s = crowd(2)
    model = cf.HeatmapBCC(lengthscale=3.0, reports_model="one_state").fit(X, y, s)
    table = model.explain([6.5, 3.5], state=1)
    by_source = table[table.kind == "report"].groupby("source").log_odds.sum()
    strongest = int(str(by_source.abs().idxmax()))
    before = logit(model.predict_proba([[6.5, 3.5]])[0, 1])
    after = logit(model.forget(strongest).predict_proba([[6.5, 3.5]])[0, 1])
    assert np.sign(before - after) == np.sign(by_source[strongest])


def test_far_away_only_the_prior_contributes():
    X, y, s = crowd()
    """In the paper's model. With an intercept, reports still speak for the level there."""
    model = cf.HeatmapBCC(lengthscale=3.0, prior_mean=-2.0, inference="vb").fit(X, y, s)
    table = model.explain([900.0, 900.0], state=1)
    assert table[table.kind == "report"].log_odds.abs().max() < 1e-6
    assert table[table.kind == "prior"].log_odds.item() == -2.0
