"""Grades from a file to maps: recognised, fitted in their order, and shown as an expected grade and as "at least"."""

import csv
from typing import Any

import numpy as np
import pytest
import shapely

from crowdfield import io, pipeline, plot
from crowdfield.cli import main
from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.io.areas import NamedAreas
from crowdfield.pipeline import totals as district_totals
from crowdfield.pipeline.report import district_table
from crowdfield.pipeline.report.page import read_texts

ORDER = ("none", "minor", "major", "destroyed")
FAST: dict[str, Any] = {"cell": "2km", "lengthscale": "5km"}


@pytest.fixture(scope="module")
def reports():
    """Grades that rise from west to east, by sources who mistake neighbours."""
    rng = np.random.default_rng(5)
    places = rng.uniform([36.0, 37.0], [36.3, 37.2], (160, 2))
    true = np.digitize(places[:, 0], [36.08, 36.16, 36.24])
    said = np.clip(true + rng.integers(-1, 2, 160) * (rng.random(160) < 0.3), 0, 3)
    return Reports.from_arrays(places, np.array(ORDER)[said], rng.integers(0, 5, 160), crs="EPSG:4326")


@pytest.fixture(scope="module")
def fused(reports):
    return pipeline.fuse(reports, **FAST)


@pytest.fixture(scope="module")
def file(reports, tmp_path_factory):
    path = tmp_path_factory.mktemp("grades") / "damage.csv"
    io.write_reports(reports, path)
    return path


def test_grades_are_fitted_in_their_order(fused):
    assert fused.model.ordered and fused.heatmap.grades == ORDER and fused.heatmap.positive == "destroyed"
    expected, _ = fused.heatmap.expected_grade()
    west, east = np.nanmean(expected[:, :2]), np.nanmean(expected[:, -2:])
    assert west < 1 < 2 < east


@pytest.mark.parametrize(
    "settings",
    [
        {"grades": "none"},
        {"inference": "collapsed"},
        {"sources": {"1": "low"}},
        {"communities": 2},
    ],
)
def test_states_have_no_order_where_none_is_wanted_or_can_be_used(reports, settings):
    model = pipeline.build_model(pipeline.Settings(**{**FAST, **settings}), reports, io_grid(reports))
    assert not model.ordered and set(model.states or ()) == set(ORDER)


def io_grid(reports):
    from crowdfield import geography

    return geography.make_grid(reports, cell="2km")


def test_an_order_that_is_given_counts(reports):
    settings = pipeline.Settings(grades=["destroyed", "major", "minor", "none"], **FAST)
    assert pipeline.build_model(settings, reports, io_grid(reports)).states == ["destroyed", "major", "minor", "none"]
    with pytest.raises(InputError, match=r"grades leave out major.*--states"):
        pipeline.fuse(reports, grades=["none", "minor", "destroyed"], **FAST)
    with pytest.raises(InputError, match="no state 'huge'"):
        pipeline.fuse(reports, grades=["none", "minor", "major", "huge"], **FAST)


@pytest.mark.parametrize("suffix", [".tif", ".nc"])
def test_a_map_of_grades_is_read_back_as_one(fused, suffix, tmp_path):
    again = io.read_map(io.write(fused.heatmap, tmp_path / f"map{suffix}"))
    assert again.grades == ORDER
    np.testing.assert_allclose(again.expected_grade()[0], fused.heatmap.expected_grade()[0], atol=1e-5)


def test_files_hold_the_expected_grade_and_at_least(fused, tmp_path):
    with open(io.write(fused.heatmap, tmp_path / "map.csv"), encoding="utf-8") as opened:
        names, tags, first, *_ = csv.reader(opened)
    row, tag = (dict(zip(names, cells, strict=True)) for cells in (first, tags))
    p = {state: float(row[f"probability_{state}"]) for state in ORDER}
    assert float(row["expected_grade"]) == pytest.approx(p["minor"] + 2 * p["major"] + 3 * p["destroyed"], abs=1e-5)
    assert float(row["at_least_major"]) == pytest.approx(p["major"] + p["destroyed"], abs=1e-5)
    assert tag["at_least_major"] == "#indicator+probability+at_least_major+num" and "at_least_none" not in row
    assert names[4] == "probability_destroyed"  # still the first


@pytest.mark.parametrize(
    ("show", "says"),
    [
        ("grade", "Expected grade"),
        ("at least major", "Probability: at least major"),
        ("most-probable", "Most probable"),
    ],
)
def test_pictures_show_what_is_made_of_all_grades(fused, show, says, tmp_path):
    assert plot.sheet(fused.heatmap, show).get_suptitle().startswith(says)
    path = io.write(fused.heatmap, tmp_path / "map.svg", show=show)
    assert "destroyed" in path.read_text(encoding="utf-8") or show.startswith("at least")


def command(*typed):
    """The exit code."""
    with pytest.raises(SystemExit) as stop:
        main(["fuse", *map(str, typed), "--cell", "4km", "--lengthscale", "5km"])
    return stop.value.code


def test_the_command_recognises_grades_says_so_and_draws_them(file, tmp_path, capsys):
    assert command(file, "-o", tmp_path / "map.png", "-o", tmp_path / "map.gpkg", "--show", "at least major") == 0
    assert "grades: none < minor < major < destroyed; --grades" in capsys.readouterr().err
    assert "sqrt(min(" in (tmp_path / "map.qml").read_text(encoding="utf-8")  # the doubt of grades


def test_the_command_takes_an_order_or_none(file, tmp_path, capsys):
    path = tmp_path / "map.tif"
    for given, ordered in (("none", False), ("none,minor,major,destroyed", True)):
        assert command(file, "-o", path, "--grades", given) == 0
        assert (io.read_map(path).grades is not None) == ordered
    assert command(file, "-o", path, "--grades", "major") == 2
    assert "two states at least" in capsys.readouterr().err


def test_totals_of_grades_tell_how_much_is_at_least_each(fused, tmp_path):
    half = shapely.box(36.15, 37.0, 36.3, 37.2)
    areas = NamedAreas(("west", "east"), np.array([shapely.box(36.0, 37.0, 36.15, 37.2), half], dtype=object))
    found = district_totals.totals(fused, areas, draws=100)
    table = found.table.set_index("area")
    for grade, worse in (("minor", ORDER[1:]), ("major", ORDER[2:])):
        together = sum(table[f"share_{state}"] for state in worse)
        assert table[f"share_at_least_{grade}"].to_numpy() == pytest.approx(together.to_numpy())
        low, high = table[f"amount_low_at_least_{grade}"], table[f"amount_high_at_least_{grade}"]
        assert (low <= table[f"amount_at_least_{grade}"]).all() and (table[f"amount_at_least_{grade}"] <= high).all()
        # Grades that are mistaken for each other make up for each other: their sum is known better than its parts.
        widths = sum(table[f"amount_high_{state}"] - table[f"amount_low_{state}"] for state in worse)
        assert (high - low < widths).all()
    assert "share_at_least_none" not in table and "share_at_least_destroyed" not in table
    for name in ("totals.csv", "totals.xlsx", "totals.geojson", "totals.png"):
        district_totals.write_totals(found, tmp_path / name, state="at least major")
    assert "#indicator+share+at_least_major+num" in (tmp_path / "totals.csv").read_text()
    assert found.column("at least major") == "at_least_major" and found.column() == "destroyed"
    with pytest.raises(InputError, match="at least minor"):
        found.column("at least none")
    page = district_table.html(found.table, "destroyed", read_texts())
    assert "at least major" in page
