"""What a cell shows: map, score and predict_proba agree, under both models."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield import pipeline
from crowdfield.data import Grid, Reports
from crowdfield.errors import DataWarning
from crowdfield.pipeline.mapping import make_map
from crowdfield.pipeline.scoring import score

MODELS = ["one_state", "instrument"]


def reports(seed=0):
    """Thirty votes that make a few places nearly certain which their surroundings do not explain."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 20.0, (60, 2)).round(2)
    wet = rng.random(60) < 0.5
    at = np.repeat(np.arange(60), 30)
    said = np.where(rng.random(len(at)) < 0.9, wet[at], ~wet[at])
    return X, wet, (X[at], np.where(said, "wet", "dry"), rng.integers(0, 10, len(at)))


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    X, wet, said = reports()
    return X, wet, cf.HeatmapBCC(lengthscale=2.0, reports_model=request.param, random_state=0).fit(*said)


@pytest.fixture(scope="module")
def heatmap(fitted):
    grid = Grid(west=0, east=20, south=0, north=20, columns=80, rows=80)
    return make_map(fitted[2], grid, grid.counts(fitted[2].reports_.places))


def test_a_micrometre_beside_a_reported_place_is_the_same_place(fitted):
    X, _, model = fitted
    here, beside = model.predict_proba(X), model.predict_proba(X + 1e-6)
    np.testing.assert_array_equal(here, beside)
    assert np.abs(here[:, 1] - model.predict_rate(X)[0][:, 1]).max() > 0.2  # there was something to lose
    frame = model.explain(X[3] + 1e-6)
    p = min(beside[3].max(), 1.0 - 1e-15)
    assert frame["log_odds"].sum() == pytest.approx(np.log(p / (1.0 - p)), rel=1e-3)


def test_a_cell_shows_the_things_reported_in_it(fitted, heatmap):
    X, wet, model = fitted
    cell = heatmap.grid.index(X)
    alone = np.bincount(cell, minlength=heatmap.grid.size)[cell] == 1
    shown, sd = heatmap.of("wet").ravel()[cell], heatmap.sd[..., 1].ravel()[cell]
    np.testing.assert_allclose(shown[alone], model.predict_proba(X)[alone, 1])
    assert ((shown > 0.5) == wet).mean() > 0.95
    # What thirty votes settled is not drawn as unknown.
    assert (sd[alone] < model.predict_rate(X)[1][alone, 1] + 1e-12).all() and np.median(sd) < 0.2


def test_several_places_in_a_cell_are_averaged(fitted):
    X, _, model = fitted
    grid = Grid(west=0, east=20, south=0, north=20, columns=2, rows=2)
    shown = make_map(model, grid, grid.counts(X)).of("wet").ravel()
    p = model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(shown, [p[grid.index(X) == c].mean() for c in range(4)])


def test_cells_without_reports_show_the_field(fitted, heatmap):
    model, empty = fitted[2], heatmap.reports.ravel() == 0
    rate, sd = model.predict_rate(heatmap.grid.centres()[empty])
    np.testing.assert_allclose(heatmap.of("wet").ravel()[empty], rate[:, 1])
    np.testing.assert_allclose(heatmap.sd[..., 1].ravel()[empty], sd[:, 1])


def test_no_report_stands_out_of_a_published_map(fitted, heatmap):
    model, grid = fitted[2], heatmap.grid
    plain = make_map(model, grid, heatmap.reports, field_only=True)
    np.testing.assert_allclose(plain.of("wet").ravel(), model.predict_rate(grid.centres())[0][:, 1])


def test_gold_is_certain_and_known(fitted):
    X, wet, said = reports()
    model = cf.HeatmapBCC(lengthscale=2.0, reports_model=fitted[2].reports_model_, random_state=0)
    model.fit(said[0], said[1], said[2], gold=(X[:5], np.where(wet[:5], "wet", "dry")))
    known = model.at_reported_places()
    row = [int(np.flatnonzero((known.places == place).all(1))[0]) for place in X[:5]]
    np.testing.assert_allclose(known.probability[row, 1], wet[:5], atol=1e-12)
    np.testing.assert_allclose(known.sd[row], 0.0, atol=1e-12)


def test_score_judges_what_the_map_shows():
    rng = np.random.default_rng(0)
    places = np.array([34.85, -19.82]) + rng.uniform(-0.05, 0.05, (240, 2))
    said = np.where(rng.random(240) < 0.9, places[:, 0] > 34.85, places[:, 0] <= 34.85)
    crowd = Reports.from_arrays(places, np.where(said, "flooded", "dry"), rng.integers(0, 6, 240), crs="EPSG:4326")
    fused = pipeline.fuse(crowd, cell="500m", lengthscale="3km", seed=0)
    told = score(fused, crowd)
    from crowdfield import geography, metrics

    there = geography.transform(crowd.places, "EPSG:4326", str(fused.heatmap.grid.crs))
    p = fused.heatmap.of("flooded").ravel()[fused.heatmap.grid.index(there)]
    truth = (np.array(crowd.labels)[crowd.label] == "flooded").astype(float)
    assert told["cross_entropy_bits"] == pytest.approx(metrics.cross_entropy(truth, p))


@pytest.mark.parametrize("n", [5, 400])
def test_however_many_say_the_same_nothing_is_known_far_from_them(n):
    """Reports of one label teach that everything is so; nobody has said it of places that no report reaches."""
    rng = np.random.default_rng(1)
    X, sources = rng.uniform(0.0, 10.0, (n, 2)), rng.integers(0, 5, n)
    with pytest.warns(DataWarning, match="All reports say"):
        model = cf.HeatmapBCC(states=["no", "yes"], lengthscale=2.0).fit(X, np.full(n, "yes"), sources=sources)
    grid = Grid(west=0.0, east=60.0, south=0.0, north=10.0, columns=60, rows=10)
    made = make_map(model, grid, grid.counts(X))
    known = 1.0 - made.sd[..., 1] / made.metadata["prior_sd"][1]
    assert known[:, 30:].max() < 0.02 and made.of("yes").min() > 0.5
    if n > 5:
        assert known[:, :10].min() > 0.4
