"""What changed, and whether it really did."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import rasterio

from crowdfield import pipeline
from crowdfield.data import Grid, Heatmap
from crowdfield.errors import InputError
from crowdfield.pipeline.comparing import probability_above, write_change

GRID = Grid(690_000, 702_000, 7_796_000, 7_806_000, 12, 10, "EPSG:32736")


def make(probability, sd=0.05, grid=GRID, states=("dry", "flooded"), **metadata):
    p = np.broadcast_to(np.asarray(probability, float), grid.shape)
    s = np.where(np.isnan(p), np.nan, sd)
    return Heatmap(grid, states, np.stack([1 - p, p], -1), np.stack([s, s], -1), np.zeros(grid.shape, int), metadata)


@pytest.mark.parametrize(
    ("high", "low", "least"),
    [
        ((0.6, 0.1), (0.5, 0.2), 0.0),
        ((0.02, 0.015), (0.01, 0.01), 0.0),
        ((0.9, 0.05), (0.4, 0.2), 0.3),
        ((0.5, 0.3), (0.5, 0.3), 0.1),
    ],
)
def test_the_probability_of_a_change_is_that_of_two_independent_betas(high, low, least):
    rng = np.random.default_rng(0)

    def draw(mean, sd):
        count = mean * (1 - mean) / sd**2 - 1
        return rng.beta(mean * count, (1 - mean) * count, 400_000)

    ones = [np.array([value]) for value in (*high, *low)]
    found = probability_above(ones[0], ones[1], ones[2], ones[3], least)
    assert found[0] == pytest.approx(np.mean(draw(*high) > draw(*low) + least), abs=4e-3)


def test_nothing_changes_between_a_map_and_itself():
    change = pipeline.compare(make(0.3), make(0.3))
    np.testing.assert_allclose(change.rose, 0.5, atol=1e-3)
    assert set(change.verdict().ravel()) == {"unchanged"} and change.summary()["rose"] == 0


def test_the_other_way_round_a_rise_is_a_fall():
    p = np.linspace(0.05, 0.95, GRID.size).reshape(GRID.shape)
    there, back = pipeline.compare(make(0.5), make(p)), pipeline.compare(make(p), make(0.5))
    np.testing.assert_allclose(there.rose, back.fell, atol=1e-12)
    np.testing.assert_allclose(there.difference, -back.difference, atol=1e-12)
    assert there.verdict()[-1, -1] == "rose" and there.verdict()[0, 0] == "fell"


def test_what_is_unknown_in_either_map_has_not_changed():
    change = pipeline.compare(make(0.1, sd=0.28), make(0.9))
    assert set(change.verdict().ravel()) == {"unknown"}


def test_maps_on_other_grids_are_laid_over_each_other():
    p = np.where(GRID.eastings()[None, :] < 696_000, 0.1, 0.9) * np.ones(GRID.shape)
    coarse = Grid(690_000, 714_000, 7_796_000, 7_806_000, 12, 5, "EPSG:32736")
    change = pipeline.compare(make(p), make(0.5, grid=coarse))
    assert np.isnan(change.after[:, 6:]).all() and (change.verdict()[:, 6:] == "").all()
    np.testing.assert_allclose(
        change.before[:, :6], np.where(coarse.eastings()[None, :6] < 696_000, 0.1, 0.9) * np.ones((5, 1))
    )


def test_the_state_is_the_same_in_both_maps_whatever_their_order():
    before = make(0.8, states=("flooded", "dry"))  # 0.2 flooded
    assert pipeline.compare(before, make(0.9)).before[0, 0] == pytest.approx(0.2)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_every_format_holds_the_same_change(tmp_path):
    p = np.full(GRID.shape, 0.9)
    p[0, 0] = np.nan
    change = pipeline.compare(make(0.2, reports=10), make(p, reports=30))
    with rasterio.open(write_change(change, tmp_path / "c.tif")) as file:
        assert file.descriptions[:2] == ("change", "change_sd") and file.crs.to_epsg() == 32736
        np.testing.assert_allclose(file.read(1)[1], 0.7, atol=1e-6)
        assert np.isnan(file.read(1)[0, 0])
    features = json.loads(write_change(change, tmp_path / "c.geojson").read_text())["features"]
    assert len(features) == GRID.size - 1 and features[0]["properties"]["verdict"] == "rose"
    with write_change(change, tmp_path / "c.csv").open(newline="") as file:
        assert float(next(csv.DictReader(file))["change"]) == pytest.approx(0.7)
    assert write_change(change, tmp_path / "c.gpkg").stat().st_size > 0
    assert write_change(change, tmp_path / "c.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pipeline.compare(make(0.5), make(0.5), state="wet"), "no state 'wet'"),
        (lambda: pipeline.compare(make(0.5), make(0.5), least=1.0), "below 1"),
        (lambda: pipeline.compare(make(0.5), make(0.5, states=("calm", "fire"))), "the later map is of 'fire'"),
        (lambda: pipeline.compare(make(0.5, grid=replace(GRID, crs=None)), make(0.5)), "no reference system"),
        (
            lambda: pipeline.compare(make(0.5), make(0.5, grid=Grid(0, 1, 0, 1, 2, 2, "EPSG:32736"))),
            "no cell in common",
        ),
        (lambda: write_change(pipeline.compare(make(0.5), make(0.5)), "c.doc"), ".geojson"),
    ],
)
def test_what_cannot_be_compared_is_named(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_more_reports_of_the_same_flood_make_a_change_only_where_they_teach_something(runs):
    first, second = runs
    change = pipeline.compare(first.heatmap, second.heatmap, least=0.1)
    found = change.summary()
    assert found["reports"] == {"before": 60, "after": 160}
    assert found["rose"] + found["fell"] + found["unchanged"] + found["unknown"] == found["cells"]


def test_maps_of_other_states_cannot_be_compared_and_both_are_named():
    p = np.full((*GRID.shape, 2), 0.5)
    flood, damage = (
        Heatmap(GRID, states, p, p / 5, np.ones(GRID.shape, int)) for states in (("dry", "flooded"), ("no", "yes"))
    )
    with pytest.raises(InputError, match=r"'yes'.* its states are dry, flooded"):
        pipeline.compare(flood, damage)
