"""Totals of areas: they agree with the map, their intervals hold, and odd areas are said to be odd."""

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdfield as cf
from crowdfield import simulate
from crowdfield.errors import InputError
from crowdfield.inference import area_totals, refined_draws

SIDE = 12


def reports(n=160, states=2, seed=0):
    world = simulate.simulate(
        n, rng=np.random.default_rng(seed), places=(SIDE, SIDE), lengthscale=4.0, reliable=6, noisy=2, states=states
    )
    said = world.reports
    return said.places, np.array(said.labels)[said.label], np.array(said.sources)[said.source], world


def cells():
    return np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), axis=-1).reshape(-1, 2).astype(float)


MODELS: dict[str, dict[str, Any]] = {
    "collapsed, exact": {"reports_model": "one_state", "engine": "exact"},
    "collapsed, spectral": {"reports_model": "one_state", "engine": "spectral"},
    "collapsed, inducing": {"reports_model": "one_state", "engine": "inducing"},
    "vb": {"inference": "vb"},
    "gibbs": {"inference": "gibbs", "random_state": 0},
    "instrument, exact": {"reports_model": "instrument"},
    "instrument, spectral": {"reports_model": "instrument", "engine": "spectral"},
    "three states": {"reports_model": "one_state", "states": (0, 1, 2)},
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    settings = dict(MODELS[request.param])
    X, y, sources, _ = reports(50 if "gibbs" in request.param else 160, states=3 if "states" in settings else 2)
    return cf.HeatmapBCC(lengthscale=4.0, **settings).fit(X, y, sources=sources)


def test_draws_have_the_mean_and_deviation_of_the_map(fitted):
    places = np.vstack([cells()[::2], cells()[:5] + 30.0])
    mean, sd = fitted.predict_rate(places)
    draws = fitted.sample_rate(places, n=1500, random_state=0)
    assert draws.shape == (1500, len(places), len(fitted.classes_))
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, atol=1e-12)
    assert np.abs(draws.mean(axis=0) - mean).max() < 0.05
    assert np.abs(draws.std(axis=0) - sd).max() < 0.035


def test_totals_agree_with_the_map(fitted):
    places = cells()
    areas = (places[:, 0] >= 6).astype(int)
    weights = np.random.default_rng(0).uniform(1.0, 3.0, len(places))
    table = fitted.totals(places, areas, weights, level=0.9, thresholds=[0.2, 0.5])
    shown = fitted.predict_proba(places)
    for _, row in table.iterrows():
        here = areas == row["area"]
        for j, state in enumerate(fitted.classes_):
            expected = weights[here] @ shown[here, j]
            assert row[f"amount_{state}"] == pytest.approx(expected)
            assert row[f"share_{state}"] == pytest.approx(expected / weights[here].sum())
            low, high = row[f"amount_low_{state}"], row[f"amount_high_{state}"]
            assert 0.0 <= low < expected < high <= row["weight"]
            assert 0.0 <= row[f"probability_above_0.5_{state}"] <= row[f"probability_above_0.2_{state}"] <= 1.0
    assert table["places"].tolist() == [72, 72]
    assert table["reports"].sum() == len(fitted.reports_)


@pytest.fixture(scope="module")
def small():
    X, y, sources, _ = reports(60)
    return cf.HeatmapBCC(lengthscale=4.0, reports_model="one_state").fit(X, y, sources=sources)


def test_errors_of_neighbouring_cells_are_correlated(small):
    """Adding up the cells' own deviations, as if they had nothing to do with each other, would promise too much."""
    places = cells() + 0.3  # no reports at the very places
    _, sd = small.predict_rate(places)
    table = small.totals(places, np.zeros(len(places), int))
    apart = np.sqrt((sd[:, 1] ** 2).sum())
    joint = (table["amount_high_1"] - table["amount_low_1"])[0] / (2 * 1.645)
    assert joint > 2.0 * apart


def test_a_total_is_of_states_and_not_of_rates(small):
    """Even where all rates were known, how many of ten things are affected would not be."""
    places = cells()[:1] + 0.3
    row = small.totals(places, [0]).iloc[0]
    assert (row["amount_low_1"], row["amount_high_1"]) == (0.0, 1.0)
    rates = small.sample_rate(places, random_state=0)[:, 0, 1]
    assert np.quantile(rates, 0.95) < 1.0


def test_known_places_leave_nothing_open():
    X, y, sources, world = reports(60)
    gold = cells()[:20]
    model = cf.HeatmapBCC(lengthscale=4.0).fit(X, y, sources=sources, gold=(gold, world.truth.t[:20]))
    row = model.totals(gold, np.zeros(20, int)).iloc[0]
    assert row["amount_low_1"] == row["amount_high_1"] == row["amount_1"] == world.truth.t[:20].sum()
    assert row["unknown_share"] == 0.0


def test_things_at_one_place_count_as_the_mean_of_their_states():
    X, y, sources, _ = reports(200)
    tasks = np.arange(200) % 3
    model = cf.HeatmapBCC(lengthscale=4.0, reports_model="instrument").fit(X, y, sources=sources, tasks=tasks)
    places = np.unique(X, axis=0)
    table = model.totals(places, np.zeros(len(places), int))
    assert table["share_1"][0] == pytest.approx(model.predict_proba(places)[:, 1].mean())
    assert table["amount_low_1"][0] < table["amount_1"][0] < table["amount_high_1"][0]


def test_places_far_from_all_reports_are_counted_as_unknown(small):
    near, far = small.places_[:6] + 0.2, small.places_[:6] + 500.0
    table = small.totals(np.vstack([near, far]), ["near"] * 6 + ["far"] * 6)
    assert table["area"].tolist() == ["near", "far"]
    assert table["unknown_share"].tolist()[1] == 1.0


@pytest.mark.parametrize("kind", ["matrix", "masks", "rows", "names"])
def test_areas_may_overlap_be_empty_or_leave_places_out(small, kind):
    places = cells()
    west, all_of_it, nothing = places[:, 0] < 6, np.ones(len(places), bool), np.zeros(len(places), bool)
    masks = [west, all_of_it, nothing]
    areas = {
        "matrix": np.array(masks),
        "masks": masks,
        "rows": [np.flatnonzero(mask) for mask in masks],
        "names": {"west": west, "all": all_of_it, "none": nothing},
    }[kind]
    table = small.totals(places, areas)
    assert table["area"].tolist() == (["west", "all", "none"] if kind == "names" else [0, 1, 2])
    assert table["places"].tolist() == [72, 144, 0]
    assert table["amount_1"][2] == 0.0 and np.isnan(table["share_1"][2]) and np.isnan(table["share_low_1"][2])
    assert np.isnan(table["probability_above_0.5_1"][2])


def test_places_without_an_area_count_nowhere(small):
    codes = np.array(["a"] * 10 + [None] * (len(cells()) - 10), dtype=object)
    table = small.totals(cells(), codes)
    assert table["area"].tolist() == ["a"] and table["places"].tolist() == [10]
    again = small.totals(cells()[:10], ["a"] * 10)
    assert table["share_1"][0] == pytest.approx(again["share_1"][0])


def test_parts_of_places_count_in_part(small):
    share = np.full((1, len(cells())), 0.25)
    whole = small.totals(cells(), np.zeros(len(cells()), int))
    part = small.totals(cells(), share)
    assert part["amount_1"][0] == pytest.approx(whole["amount_1"][0] / 4)
    assert part["weight"][0] == pytest.approx(len(cells()) / 4)


def test_the_same_totals_twice_and_however_they_are_cut_into_blocks(small, monkeypatch):
    areas = (cells()[:, 0] // 3).astype(int)
    once = small.totals(cells(), areas)
    pd.testing.assert_frame_equal(once, small.totals(cells(), areas))
    monkeypatch.setattr(area_totals, "BLOCK_ENTRIES", 200 * 50)
    blocks = small.totals(cells(), areas)
    np.testing.assert_allclose(blocks["amount_1"], once["amount_1"])
    np.testing.assert_allclose(blocks["share_high_1"], once["share_high_1"], atol=0.12)  # another draw of the states


@pytest.mark.parametrize(
    "change, message",
    [
        ({"areas": [0, 1]}, "one area per place"),
        ({"areas": np.ones((2, 3))}, "one column per place"),
        ({"areas": np.full((1, 144), 2.0)}, "between 0 and 1"),
        ({"areas": [np.array([500])]}, "outside 0 to 143"),
        ({"areas": [np.array([0.5])]}, "a mask with one entry per place"),
        ({"weights": [1.0]}, "weights must be finite"),
        ({"weights": np.full(144, -1.0)}, "weights must be finite"),
        ({"level": 1.0}, "level must lie between 0 and 1"),
        ({"thresholds": [1.5]}, "shares between 0 and 1"),
        ({"draws": 0}, "draws"),
    ],
)
def test_what_cannot_be_totalled_is_refused(small, change, message):
    given = {"areas": np.zeros(144, int), **change}
    with pytest.raises(InputError, match=message):
        small.totals(cells(), **given)


def test_ninety_percent_intervals_hold_about_nine_times_in_ten():
    """A small version of `python -m benchmarks totals coverage`: districts of 10 and 100 cells of 16 worlds."""
    held = []
    for seed in range(16):
        X, y, sources, world = reports(120, seed=seed)
        rng = np.random.default_rng(seed)
        model = cf.HeatmapBCC(lengthscale=4.0, reports_model="one_state").fit(X, y, sources=sources)
        near = np.argsort(np.hypot(*(cells() - cells()[rng.integers(144)]).T), kind="stable")
        weights = rng.lognormal(0.0, 0.5, 144)
        areas = [near[:10], near[:100]]
        table = model.totals(cells(), areas, weights, draws=100, random_state=seed)
        for area, low, high in zip(areas, table["amount_low_1"], table["amount_high_1"], strict=True):
            held.append(low <= weights[area] @ world.truth.t[area] <= high)
    assert 0.78 <= np.mean(held) <= 0.99


def test_draws_of_a_live_map_are_made_once_and_anew_for_another_seed_or_fit(small, monkeypatch):
    made, areas = [], np.zeros(len(cells()), int)

    def counted(*given):
        made.append(given)
        return refined_draws.refined(*given)

    monkeypatch.setattr("crowdfield.models.totals.refined", counted)
    model = copy.copy(small)
    model.__dict__.pop("_last_draws", None)
    first = model.totals(cells(), areas, draws=50, random_state=1)
    pd.testing.assert_frame_equal(first, model.totals(cells(), areas, draws=50, random_state=1))
    assert len(made) == 1
    model.totals(cells()[:20], areas[:20], draws=50, random_state=1)
    assert len(made) == 1
    again = model.totals(cells(), areas, draws=50, random_state=2)
    assert again["amount_low_1"][0] != first["amount_low_1"][0]
    X, y, sources, _ = reports(61)
    model.fit(X, y, sources=sources).totals(cells(), areas, draws=50, random_state=2)
    assert len(made) == 3
