"""The state in question comes first in all that a run gives: files, bands, figures, tables, looks, the report."""

import csv
import json
import re

import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pyogrio
import pytest
import rasterio
import shapely
from PIL import Image
from tests.label_sets import LABELS_AND_POSITIVE

import crowdfield as cf
from crowdfield import io, pipeline, plot
from crowdfield.data import Reports
from crowdfield.io.areas import NamedAreas
from crowdfield.io.picture import write_picture
from crowdfield.pipeline.sampling_plan import plan
from crowdfield.pipeline.totals import totals, write_totals, write_totals_style


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


def test_the_state_in_question_comes_first_in_every_file_of_districts(run, tmp_path):
    fused, first = run
    shape = shapely.box(36.0, 37.0, 36.2, 37.2)
    found = totals(fused, NamedAreas(("all",), np.array([shape], dtype=object)), draws=20)
    paths = {
        suffix: write_totals(found, tmp_path / f"totals.{suffix}") for suffix in ("xlsx", "gpkg", "geojson", "svg")
    }
    sheet = openpyxl.load_workbook(paths["xlsx"])["totals"]
    columns = {
        "xlsx": [cell.value for cell in sheet[1]],
        "gpkg": list(pyogrio.read_info(paths["gpkg"])["fields"]),
        "geojson": list(json.loads(paths["geojson"].read_text(encoding="utf-8"))["features"][0]["properties"]),
    }
    for suffix, names in columns.items():
        assert next(name for name in names if name.startswith("share_")) == f"share_{first}", suffix
    assert f">Share: {first}<" in paths["svg"].read_text(encoding="utf-8")
    assert f"100% {first}" in write_totals_style(found, paths["gpkg"]).read_text(encoding="utf-8")


def test_the_state_in_question_is_the_one_that_is_compared(run, tmp_path):
    fused, first = run
    change = pipeline.compare(fused.heatmap, fused.heatmap)
    assert change.state == first
    picture = pipeline.write_change(change, tmp_path / "change.svg").read_text(encoding="utf-8")
    assert f">What changed: {first}<" in picture


def test_the_state_in_question_comes_first_in_a_notebook_and_in_other_maps(run, tmp_path):
    fused, first = run
    heatmap = fused.heatmap
    assert repr(heatmap).startswith(f"<Heatmap of {first!r}")
    assert f"&quot;states&quot;: [&quot;{first}&quot;" in heatmap._repr_html_()
    with io.write(heatmap, tmp_path / "map.parquet").open("rb") as file:
        assert next(name for name in pq.read_schema(file).names if "_" in name) == f"probability_{first}"
    layers = re.findall(
        r'<SimpleField[^>]* name="([^"]*)"|<Data name="([^"]*)"',
        io.write(heatmap, tmp_path / "map.kml").read_text(encoding="utf-8"),
    )
    assert next(name for pair in layers for name in pair if name.startswith("probability_")) == f"probability_{first}"
    write_picture(heatmap, tmp_path / "bare.png", bare=True)
    shown = np.asarray(Image.open(tmp_path / "bare.png").convert("RGBA"))
    step = shown.shape[0] // heatmap.grid.rows
    np.testing.assert_array_equal(shown[::step, ::step], np.round(plot.colours(heatmap, first) * 255))
    with rasterio.open(io.write(heatmap, tmp_path / "map.tif")) as file:
        np.testing.assert_allclose(file.read(1), heatmap.of(first), atol=1e-6)


def test_the_state_in_question_comes_first_in_spot_checks(run):
    fused, first = run
    places = plan(fused.heatmap, size=30, seed=1).places
    other = next(state for state in fused.heatmap.states if state != first)
    checked = places.assign(state=[first if i % 2 else other for i in range(len(places))])
    found = cf.assess(fused.heatmap, checked)
    assert found.states["state"].iloc[0] == first and found.positive == first
