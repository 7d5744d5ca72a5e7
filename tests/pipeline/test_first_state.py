"""The state in question comes first in all that a run gives: files, bands, figures, tables, looks, the report."""

import csv
import json

import numpy as np
import pytest
import rasterio
from tests.label_sets import LABELS_AND_POSITIVE

import crowdfield as cf
from crowdfield import io, pipeline, plot
from crowdfield.data import Reports
from crowdfield.pipeline.sampling_plan import plan
from crowdfield.pipeline.totals import totals, write_totals


@pytest.fixture(scope="module", params=LABELS_AND_POSITIVE, ids=lambda crowd: "-".join(crowd[0]))
def run(request):
    labels, first = request.param
    rng = np.random.default_rng(1)
    places = rng.uniform([36.0, 37.0], [36.2, 37.2], (45, 2))
    # The state in question is the more common one here: that it is rarer must not be what decides.
    said = np.where(rng.random(45) < 0.6, first, np.array(labels)[rng.integers(0, len(labels), 45)])
    reports = Reports.from_arrays(places, said, rng.integers(0, 3, 45), crs="EPSG:4326")
    return pipeline.fuse(reports, cell="4km", lengthscale="8km"), first


def test_the_state_in_question_comes_first_in_files(run, tmp_path):
    fused, first = run
    heatmap = fused.heatmap
    assert heatmap.positive == first
    with open(io.write(heatmap, tmp_path / "map.csv"), encoding="utf-8") as file:
        assert next(csv.reader(file))[4] == f"probability_{first}"
    with rasterio.open(io.write(heatmap, tmp_path / "map.tif")) as file:
        assert file.descriptions[0] == f"probability_{first}"
    feature = json.loads(io.write(heatmap, tmp_path / "map.geojson").read_text(encoding="utf-8"))["features"][0]
    assert next(iter(feature["properties"])) == f"probability_{first}"
    page = io.write(heatmap, tmp_path / "map.html").read_text(encoding="utf-8")
    assert f'"states": ["{first}"' in page
    assert f"probability of {first}<" in io.write(heatmap, tmp_path / "map.svg").read_text(encoding="utf-8")


def test_the_state_in_question_comes_first_in_figures_and_looks(run, tmp_path):
    fused, first = run
    assert plot.sheet(fused.heatmap).get_suptitle() == f"Probability: {first}"
    pipeline.write_looks(fused, pipeline.next_looks(fused, 2), tmp_path / "next.geojson")
    look = json.loads((tmp_path / "next.geojson").read_text(encoding="utf-8"))["features"][0]
    assert look["properties"]["state"] == first
    report = pipeline.write_report(fused, tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"Expected to be {first}" in report


def test_the_state_in_question_comes_first_in_figures_of_districts(run, tmp_path):
    fused, first = run
    square = {"type": "Polygon", "coordinates": [[[36.0, 37.0], [36.2, 37.0], [36.2, 37.2], [36.0, 37.0]]]}
    (tmp_path / "area.geojson").write_text(json.dumps(square))
    found = totals(fused, tmp_path / "area.geojson", draws=20)
    shares = [name for name in found.table.columns if name.startswith("share_") and "low" not in name]
    assert shares[0] == f"share_{first}" and found.table.columns[-1] == "note"
    with open(write_totals(found, tmp_path / "totals.csv"), encoding="utf-8") as file:
        assert next(csv.reader(file))[6] == f"share_{first}"


def test_the_state_in_question_comes_first_in_spot_checks(run):
    fused, first = run
    places = plan(fused.heatmap, size=30, seed=1).places
    other = next(state for state in fused.heatmap.states if state != first)
    checked = places.assign(state=[first if i % 2 else other for i in range(len(places))])
    found = cf.assess(fused.heatmap, checked)
    assert found.states["state"].iloc[0] == first and found.positive == first
