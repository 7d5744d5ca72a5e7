"""Polygons read as one report about all of each."""

import json

import numpy as np
import pytest
import shapely

import crowdfield as cf
from crowdfield.errors import InputError, ReportFormatError
from crowdfield.io import area_places

KILOMETRE = 1 / 111.195  # degrees of latitude


def square(lon, lat, side):
    half, wide = side * KILOMETRE / 2, side * KILOMETRE / 2 / np.cos(np.radians(lat))
    return shapely.box(lon - wide, lat - half, lon + wide, lat + half)


def test_the_spread_of_a_polygon_is_that_of_points_drawn_in_it():
    ring = shapely.Polygon([(0, 0), (6, 0), (6, 3), (0, 3)], [[(1, 1), (2, 1), (2, 2), (1, 2)]])
    both = shapely.MultiPolygon([ring, shapely.box(10, 0, 11, 4).reverse()])
    rng = np.random.default_rng(0)
    drawn = rng.uniform([0, 0], [11, 4], (400_000, 2))
    drawn = drawn[shapely.contains_xy(both, drawn)]
    assert area_places.spread(both) == pytest.approx(drawn.std(axis=0), rel=0.01)


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32618"])
def test_an_area_reaches_as_far_in_every_reference_system(crs):
    tile = square(-74.0, 10.0, 2.0)
    if crs != "EPSG:4326":
        corners = cf.geography.transform(shapely.get_coordinates(tile), "EPSG:4326", crs)
        tile = shapely.Polygon(corners)
    found = area_places.radii(np.array([tile], dtype=object), crs)[0]
    assert found == pytest.approx(1.51 * 2000 / np.sqrt(12), rel=0.01)


def test_a_file_of_polygons_is_one_report_each(tmp_path):
    shapes = [square(20.0, 10.0, 1.0), square(20.1, 10.0, 3.0), shapely.Point(20.2, 10.0)]
    features = [
        {"type": "Feature", "properties": {"label": word}, "geometry": json.loads(shapely.to_geojson(shape))}
        for word, shape in zip(["wet", "dry", "wet"], shapes, strict=True)
    ]
    path = tmp_path / "tiles.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    read = cf.io.read(path, polygons="area")
    assert len(read.reports) == 3
    assert read.reports.places[:, 0] == pytest.approx([20.0, 20.1, 20.2], abs=1e-6)
    assert read.reports.accuracy[:2] == pytest.approx(1.51 * np.array([1000, 3000]) / np.sqrt(12), rel=0.01)
    assert np.isnan(read.reports.accuracy[2])
    assert read.reports.area.tolist() == [True, True, False]
    assert cf.io.read(path, polygons="area", accuracy="50m").reports.area is None  # then every place is a rough one
    inner = cf.io.read(path, polygons="inner-point")
    assert inner.reports.accuracy is None


def test_polygons_in_cells_are_areas_too(tmp_path):
    path = tmp_path / "tiles.csv"
    rows = [f'"{square(20.0 + i / 10, 10.0, 2.0).wkt}",{word}' for i, word in enumerate(["wet", "dry", "wet"])]
    path.write_text("\n".join(["geom,label", *rows]))
    read = cf.io.read(path, polygons="area")
    assert read.reports.accuracy == pytest.approx(np.full(3, 1.51 * 2000 / np.sqrt(12)), rel=0.01)
    assert read.reports.area.all()


def test_sources_that_read_some_or_all_of_an_area_are_told_apart(tmp_path):
    path = tmp_path / "tiles.csv"
    words = ["wet,ann,some", "dry,ann,Some of it", "wet,bob,", "wet,ann,ALL", "dry,bob,a little"]
    rows = [f'"{square(20.0 + i / 10, 10.0, 2.0).wkt}",{word}' for i, word in enumerate(words)]
    path.write_text("\n".join(["geom,label,source,extent", *rows]))
    read = cf.io.read(path, polygons="area", reading="extent")
    assert [read.reports.sources[s] for s in read.reports.source] == [
        "ann (some of it)", "ann (some of it)", "bob", "ann (all of it)",
    ]  # fmt: skip
    assert read.rejected == 1 and "some or most or all" in str(read.rejects[0])
    assert read.reports.accuracy is not None and np.isfinite(read.reports.accuracy).all()
    one = cf.io.read(path, polygons="area", reading="all").reports
    assert one.sources == ("ann (all of it)", "bob (all of it)")
    assert cf.io.read(path, polygons="area", reading="most").reports.sources == ("ann", "bob")
    for options, message in (({}, "--polygons area"), ({"polygons": "area", "reading": "some of"}, "some of")):
        with pytest.raises((InputError, ReportFormatError), match=message):
            cf.io.read(path, **{"reading": "some"} | options)  # type: ignore[arg-type]


def test_nothing_seen_in_an_image_says_more_than_something_seen():
    """Of two tiles far apart, one answered yes and one no: what that says of most of each depends on the question."""
    rng = np.random.default_rng(0)
    points = rng.uniform([500_000, 0], [520_000, 20_000], (40, 2))
    shown = {}
    for reading in ("some", "most", "all"):
        tiles = np.array([[600_000.0, 0.0], [700_000.0, 0.0]])
        reports = cf.Reports.from_arrays(
            np.vstack([points, tiles]), ["dry", "wet"] * 20 + ["wet", "dry"], ["ann"] * 40 + ["image"] * 2,
            crs="EPSG:32618", accuracy=[np.nan] * 40 + [1500.0] * 2,
        )  # fmt: skip
        told = cf.readings.with_readings(reports, ["most"] * 40 + [reading] * 2)
        fused = cf.pipeline.fuse(told, cell=5000, lengthscale=4000)
        assert fused.model.reports_model_ == "one_state"
        yes, no = fused.model.predict_rate(tiles)[0][:, 1]
        middle = fused.model.predict_rate([[650_000.0, 0.0]])[0][0, 1]
        shown[reading] = (yes - middle, middle - no)
        assert not fused.table()["trusted"].any()
    assert shown["some"][1] > 1.5 * shown["some"][0] > 0 and shown["all"][0] > 1.5 * shown["all"][1] > 0
    assert shown["most"][0] == pytest.approx(shown["most"][1], rel=0.3)


def test_more_reports_with_a_new_reading_start_from_its_prior():
    rng = np.random.default_rng(1)
    places = rng.uniform([500_000, 0], [520_000, 20_000], (30, 2))
    reports = cf.Reports.from_arrays(places, ["dry", "wet"] * 15, ["ann"] * 30, crs="EPSG:32618")
    fused = cf.pipeline.fuse(reports, cell=2000, lengthscale=4000)
    look = cf.Reports.from_arrays(places[:1] + 100.0, ["wet"], ["ann"], labels=["dry", "wet"], crs="EPSG:32618")
    more = cf.readings.with_readings(look, "some")
    later = cf.pipeline.extend(fused, more)
    assert later.model.get_params()["confusion_prior"]["ann (some of it)"] == [[5.0, 5.0], [1.0, 9.0]]


def test_readings_of_three_states_are_about_the_state_in_question():
    states, sources = ["intact", "minor", "major"], ["ann", "ann (some of it)", "ann (all of it)"]
    found = cf.readings.priors(sources, states, states, "major")
    assert found["ann (some of it)"] == [[4.0, 1.0, 5.0], [1.0, 4.0, 5.0], [0.5, 0.5, 9.0]]
    assert found["ann (all of it)"] == [[8.0, 1.0, 1.0], [1.0, 8.0, 1.0], [2.5, 2.5, 5.0]]
    # However the states are ordered, and whether or not every state has been said.
    shuffled = cf.readings.priors(sources, ["major", "intact", "minor"], ["minor", "major"], "major")
    assert shuffled["ann (some of it)"] == [[0.5, 9.0], [1.0, 5.0], [4.0, 5.0]]
    with pytest.raises(InputError, match=r"'unsure' is not a state.*--reading"):
        cf.readings.priors(sources, states, [*states, "unsure"], "major")


def test_a_map_of_three_states_believes_no_major_damage_seen_more_than_some_seen():
    rng = np.random.default_rng(0)
    points = rng.uniform([500_000, 0], [520_000, 20_000], (42, 2))
    tiles = np.array([[600_000.0, 0.0], [700_000.0, 0.0]])
    reports = cf.Reports.from_arrays(
        np.vstack([points, tiles]), ["intact", "minor", "major"] * 14 + ["major", "intact"],
        ["ann"] * 42 + ["image"] * 2, crs="EPSG:32618", accuracy=[np.nan] * 42 + [1500.0] * 2,
    )  # fmt: skip
    told = cf.readings.with_readings(reports, ["most"] * 42 + ["some"] * 2)
    fused = cf.pipeline.fuse(told, cell=5000, lengthscale=4000, positive="major")
    major = fused.model.classes_.tolist().index("major")
    yes, no, middle = fused.model.predict_rate(np.vstack([tiles, [[650_000.0, 0.0]]]))[0][:, major]
    assert middle - no > 1.5 * (yes - middle) > 0


def test_another_word_for_polygons_is_refused(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_text("lat,lon,label\n1,1,a\n1,2,b\n")
    with pytest.raises(InputError, match="'area' or 'inner-point'"):
        cf.io.read(path, polygons="outline")  # type: ignore[arg-type]


def test_scores_are_read_and_what_is_none_is_rejected(tmp_path):
    path = tmp_path / "scored.csv"
    path.write_text(
        "lat,lon,label,source,sure\n10,20,wet,ann,\n10.1,20,wet,machine,0.9\n10.2,20,dry,machine,0.7\n10.3,20,dry,machine,70\n"
    )
    read = cf.io.read(path, score="sure")
    assert read.reports.score == pytest.approx([np.nan, 0.9, 0.7], nan_ok=True)
    assert read.rejected == 1 and "between 0 and 1" in str(read.rejects[0])
    assert cf.io.read(path).reports.score is None  # no column is taken for scores by its name


@pytest.mark.parametrize("suffix", ["csv", "geojson", "gpkg", "parquet"])
def test_a_converted_file_still_says_which_reports_are_about_areas(tmp_path, suffix):
    places = [[20.0, 10.0], [20.1, 10.0], [20.2, 10.0], [20.3, 10.0]]
    reports = cf.Reports.from_arrays(
        places,
        ["wet", "dry", "wet", "dry"],
        ["ann", "bob", "ann", "cy"],
        accuracy=[436.0, 1308.0, 12.0, np.nan],
        area=[True, True, False, False],
        crs="EPSG:4326",
    )
    again = cf.io.read(cf.io.write_reports(reports, tmp_path / f"again.{suffix}"))
    assert again.reports.area.tolist() == [True, True, False, False]
    assert again.reports.accuracy == pytest.approx([436.0, 1308.0, 12.0, np.nan], nan_ok=True)
    assert "whole areas from whole_area" in again.statement


def test_a_cell_that_does_not_say_whether_a_report_is_about_an_area_is_refused(tmp_path):
    head = "lat,lon,label,accuracy_m,whole_area\n"
    rows = ["10,20,wet,400,true", "10,20.1,dry,400,No", "10,20.2,wet,400,", "10,20.3,wet,,1"] * 300
    path = tmp_path / "a.csv"
    path.write_text(head + "\n".join(rows) + "\n10,20.4,wet,400,perhaps\n")
    read = cf.io.read(path)
    assert read.reports.area[:4].tolist() == [True, False, False, False]
    assert [(reject.line, reject.column) for reject in read.rejects] == [(1202, "whole_area")]
    path.write_text(head + "10,20,wet,400,perhaps\n10,20.1,dry,400,true\n")
    assert cf.io.read(path).reports.area is None  # a column of other words is not about this
