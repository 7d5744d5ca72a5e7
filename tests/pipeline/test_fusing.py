"""From reports to a map: in the right place, by the right people, and honest about what it does not know."""

from dataclasses import replace

import numpy as np
import pytest
import shapely

from crowdfield import geography, pipeline
from crowdfield.data import Grid, Reports
from crowdfield.errors import InputError
from crowdfield.pipeline import learning, mapping, tables

CENTRE = (34.85, -19.82)
STATES = ("dry", "flooded")


def crowd(seed=0, size=240, accuracy=0.9):
    """Reports over about 10 km: the east is flooded, everybody is right nine times in ten."""
    rng = np.random.default_rng(seed)
    places = np.array(CENTRE) + rng.uniform(-0.05, 0.05, (size, 2))
    wet = places[:, 0] > CENTRE[0]
    said = np.where(rng.random(size) < accuracy, wet, ~wet)
    return Reports.from_arrays(
        places, np.where(said, "flooded", "dry"), rng.integers(0, 6, size), labels=STATES, crs="EPSG:4326"
    )


SETTINGS = pipeline.Settings(cell="500m", lengthscale="3km", seed=0)


@pytest.fixture(scope="module")
def fused():
    return pipeline.fuse(crowd(), SETTINGS)


def at(heatmap, lon, lat):
    cell = heatmap.grid.index(geography.transform([(lon, lat)], "EPSG:4326", heatmap.grid.crs))[0]
    return heatmap.of("flooded").ravel()[cell]


def test_the_map_is_right_and_in_its_place(fused):
    assert fused.heatmap.grid.crs == "EPSG:32736" and fused.heatmap.grid.cell_width == 500
    assert at(fused.heatmap, CENTRE[0] + 0.03, CENTRE[1]) > 0.85
    assert at(fused.heatmap, CENTRE[0] - 0.03, CENTRE[1]) < 0.15
    assert fused.heatmap.reports.sum() == 240 and fused.heatmap.metadata["reports"] == 240


def test_the_reference_system_of_the_reports_does_not_matter(fused):
    reports = crowd()
    metres = replace(reports, places=geography.transform(reports.places, "EPSG:4326", "EPSG:32736"), crs="EPSG:32736")
    other = pipeline.fuse(metres, SETTINGS)
    assert other.heatmap.grid == fused.heatmap.grid
    np.testing.assert_allclose(other.heatmap.probability, fused.heatmap.probability, atol=1e-6)


def test_the_map_is_unknown_far_from_all_reports(fused):
    """The yardstick of "nobody knows" is what the model itself says far from every report."""
    grid = fused.heatmap.grid
    _, sd = fused.model.predict_rate([[grid.east + 300_000, grid.north]])
    np.testing.assert_allclose(fused.heatmap.metadata["prior_sd"], sd[0], atol=0.02)
    assert np.nanmin(fused.heatmap.sd) < 0.5 * sd[0, 0]


def test_cells_are_predicted_the_same_in_blocks(fused, monkeypatch):
    monkeypatch.setattr(mapping, "BLOCK", 37)
    again = pipeline.make_map(fused.model, fused.heatmap.grid, fused.heatmap.reports)
    np.testing.assert_allclose(again.probability, fused.heatmap.probability, rtol=1e-12)


def test_nothing_is_mapped_outside_the_mask(tmp_path):
    west_half = shapely.box(CENTRE[0] - 1, CENTRE[1] - 1, CENTRE[0], CENTRE[1] + 1)
    grid = geography.make_grid(crowd(), cell="500m")
    mask = geography.mask(grid, west_half)
    heatmap = pipeline.fuse_on(geography.project(crowd(), grid.crs), grid, SETTINGS, mask=mask).heatmap
    assert np.isnan(at(heatmap, CENTRE[0] + 0.03, CENTRE[1])) and at(heatmap, CENTRE[0] - 0.03, CENTRE[1]) < 0.2
    np.testing.assert_array_equal(heatmap.mask, mask)
    # and the same from a file
    path = tmp_path / "land.geojson"
    path.write_text(shapely.to_geojson(west_half))
    np.testing.assert_array_equal(pipeline.fuse(crowd(), SETTINGS, mask=str(path)).heatmap.mask, mask)


def test_a_trusted_source_decides_where_others_disagree():
    here = (CENTRE[0] - 0.03, CENTRE[1])
    reports = crowd(size=80, accuracy=0.75)
    visited = Reports.from_arrays(
        np.vstack([reports.places, here]),
        [*tables.said_labels(reports), "flooded"],
        [*(f"volunteer {i}" for i in tables.said_sources(reports)), "fire-brigade"],
        labels=STATES,
        crs=reports.crs,
    )
    unknown, certain = (pipeline.fuse(visited, SETTINGS, sources=trust) for trust in ({}, {"fire-brigade": "certain"}))
    assert at(certain.heatmap, *here) > at(unknown.heatmap, *here) + 0.1
    table = certain.table().set_index("source")
    assert table["accuracy"]["fire-brigade"] > 0.98 and table["trusted"].sum() == 1


def test_a_region_leaves_out_what_lies_elsewhere():
    west, east, south, north = CENTRE[0] - 0.02, CENTRE[0] + 0.05, CENTRE[1] - 0.05, CENTRE[1] + 0.05
    fused = pipeline.fuse(crowd(), SETTINGS, region=(west, south, east, north))
    left_out = int((crowd().places[:, 0] < west).sum())
    # the region's edges are curves in the projection, so a few beyond them share its grid
    assert 0.8 * left_out <= fused.about["outside"] <= left_out
    assert len(fused.reports) + fused.about["outside"] == 240


def test_files_can_be_joined():
    whole = crowd()
    half = np.arange(240) < 100
    parts = [whole.take(half), whole.take(~half)]
    together = pipeline.joined(parts)
    np.testing.assert_array_equal(tables.keys(together), tables.keys(whole))


def test_keys_are_the_same_in_every_run_and_differ_between_reports():
    reports = crowd()
    np.testing.assert_array_equal(tables.keys(reports), tables.keys(crowd()))
    assert len(np.unique(tables.keys(reports))) == 240
    # through another projection and back
    moved = geography.project(geography.project(reports, "EPSG:32736"), "EPSG:3857")
    back = geography.project(moved, "EPSG:32736")
    np.testing.assert_array_equal(tables.keys(back), tables.keys(geography.project(reports, "EPSG:32736")))


def test_scores_rank_maps_and_undefined_measures_are_none(fused):
    truth = crowd(seed=5, size=150, accuracy=1.0)
    good = pipeline.score(fused, truth)
    lies = replace(truth, label=1 - truth.label)
    bad = pipeline.score(fused, lies)
    assert good["auc"] > 0.95 and good["auc"] == pytest.approx(1 - bad["auc"])
    assert good["cross_entropy_bits"] < 0.5 < bad["cross_entropy_bits"] and good["accuracy"] > 0.9
    one = truth.take(truth.label == 1)
    alone = pipeline.score(fused, one)
    assert alone["auc"] is None and "two different" in alone["notes"][-1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda fused: pipeline.fuse(replace(crowd(), crs=None), SETTINGS), "no reference system"),
        (lambda fused: pipeline.fuse(crowd(), SETTINGS, region=(0, 0, 1, 1)), "none of the 240 reports"),
        (lambda fused: pipeline.fuse(crowd(), SETTINGS, cell="-3km"), "length"),
        (lambda fused: pipeline.fuse(crowd(), SETTINGS, sources={3: [[1, 2, 3]]}), "confusion_prior"),
        (
            lambda fused: pipeline.score(fused, replace(crowd(), labels=("dry", "on fire"))),
            "'on fire', but the map's states",
        ),
        (
            lambda fused: pipeline.joined([crowd(), replace(crowd(), crs="EPSG:32736")]),
            "different reference systems",
        ),
        (lambda fused: pipeline.fuse_on(crowd(), Grid(0, 1, 0, 1, 2, 2), SETTINGS), "none of the"),
    ],
)
def test_what_cannot_be_done_is_said(fused, call, words):
    with pytest.raises(InputError, match=words):
        call(fused)


def test_a_search_on_some_of_the_reports_sees_every_label():
    """Of many reports that nearly all say the same, those spread evenly may hold nothing else."""
    labels = np.zeros(2000, dtype=np.int64)
    labels[[3, 5, 1001, 1003]] = 1
    rows = learning._sample_rows(labels, 100)
    assert set(np.flatnonzero(labels)) <= set(rows.tolist()) and 100 <= len(rows) <= 104
    even = learning._sample_rows(np.arange(2000) % 2, 100)
    assert len(even) == 100 and even[0] == 0 and even[-1] == 1999


def test_guessing_is_right_less_often_where_answers_name_no_state():
    rng = np.random.default_rng(0)
    places = rng.uniform([34.80, -19.85], [34.90, -19.78], (120, 2))
    said = np.where(np.arange(120) < 30, "maybe", np.where(places[:, 0] > CENTRE[0], "flooded", "dry"))
    reports = Reports.from_arrays(places, said, rng.integers(0, 5, 120), crs="EPSG:4326")
    fused = pipeline.fuse(reports, SETTINGS, cell="2km")
    assert fused.table().attrs["chance"] == pytest.approx(0.75 / 2)
