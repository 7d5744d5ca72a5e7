"""Figures of districts: they agree with the map, and what is odd about a district is said."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import openpyxl
import pytest
import shapely
from typer.testing import CliRunner

from crowdfield import pipeline
from crowdfield.cli.app import app
from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.io.amounts import read_amounts
from crowdfield.io.areas import NamedAreas, read_areas
from crowdfield.pipeline.districts import locate
from crowdfield.pipeline.totals import totals, write_totals, write_totals_style
from crowdfield.pipeline.totals_picture import choropleth, ways_to_write

WEST, SOUTH, SIZE = 36.80, -1.30, 0.05  # degrees


@pytest.fixture(scope="module")
def fused():
    rng = np.random.default_rng(0)
    places = np.array([WEST, SOUTH]) + SIZE * rng.random((150, 2))
    wet = places[:, 0] > WEST + SIZE / 2
    said = np.where(rng.random(150) < 0.9, wet, ~wet)
    reports = Reports.from_arrays(
        places, np.where(said, "flooded", "dry"), rng.integers(0, 8, 150).astype(str), crs="EPSG:4326"
    )
    region = (WEST, SOUTH, WEST + SIZE, SOUTH + SIZE)
    return pipeline.fuse(reports, region=region, cell="200m", lengthscale="1500m")


def box(west, south, east, north):
    """In shares of the region."""
    return shapely.box(WEST + west * SIZE, SOUTH + south * SIZE, WEST + east * SIZE, SOUTH + north * SIZE)


DISTRICTS = {
    "dry side": box(0, 0, 0.5, 1),
    "=wet side": box(0.5, 0, 1, 1),
    "both": box(0.25, 0.25, 0.75, 0.75),
    "half outside": box(0.5, 0, 1.5, 1),
    "elsewhere": box(5, 5, 6, 6),
    "tiny": box(0.61, 0.61, 0.62, 0.62),
}


@pytest.fixture(scope="module")
def areas():
    return NamedAreas(tuple(DISTRICTS), np.array(list(DISTRICTS.values()), dtype=object))


@pytest.fixture(scope="module")
def found(fused, areas):
    return totals(fused, areas, thresholds=[0.3])


def geojson(path, names, shapes, **more):
    features = [
        {
            "type": "Feature",
            "properties": {"name": name, **{key: values[i] for key, values in more.items()}},
            "geometry": json.loads(shapely.to_geojson(shape)),
        }
        for i, (name, shape) in enumerate(zip(names, shapes, strict=True))
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")
    return path


def test_the_expected_share_is_the_mean_of_the_map(fused, areas, found):
    located = locate(areas, fused.heatmap.grid, fused.heatmap.mask)
    shown = fused.heatmap.of("flooded").ravel()
    for number, row in enumerate(found.table.to_dict("records")):
        if row["cells"]:
            share = located.share[number].toarray().ravel()
            assert row["share_flooded"] == pytest.approx(share @ shown / share.sum())
            for state, what in (("flooded", "share"), ("flooded", "amount"), ("dry", "share")):
                assert row[f"{what}_low_{state}"] <= row[f"{what}_{state}"] <= row[f"{what}_high_{state}"]


def test_results_say_what_they_are_in_one_line(fused, found):
    from crowdfield.pipeline.assessing import assess
    from crowdfield.pipeline.sampling_plan import plan

    places = plan(fused.heatmap, size=40, seed=0)
    checked = places.places.assign(state="flooded")
    lines = [
        (found, r"<DistrictTotals of 'flooded' in 6 districts, in km², with 90 % intervals>"),
        (
            pipeline.compare(fused.heatmap, fused.heatmap),
            r"<Change of 'flooded' in [\d,]+ cells: rose in 0, fell in 0>",
        ),
        (places, r"<Plan: \d+ places to check, drawn with seed 0>"),
        (assess(fused.heatmap, checked), r"<Assessment of 'flooded': \d+ checks: .* of the map is right \(95 % int.*>"),
        (pipeline.check_model(fused.model), r"<ModelCheck of 150 reports: habits holds, agreement holds, .*>"),
    ]
    for result, line in lines:
        assert re.fullmatch(line, repr(result)), repr(result)


def test_notes_name_districts_that_the_map_does_not_cover_or_that_overlap(found):
    rows = found.table.set_index("area")
    assert rows.loc["elsewhere", "cells"] == 0 and np.isnan(rows.loc["elsewhere", "share_flooded"])
    assert "does not reach" in rows.loc["elsewhere", "note"]
    assert "49 % of it lies outside" in rows.loc["half outside", "note"]
    assert "covered share" in rows.loc["tiny", "note"]
    assert rows.loc["dry side", "note"] == ""
    assert any("overlap" in note for note in found.notes) and any("does not reach 1 of 6" in n for n in found.notes)
    assert rows.loc["=wet side", "share_flooded"] > 0.7 > 0.3 > rows.loc["dry side", "share_flooded"]


def test_small_districts_count_their_covered_share(fused, areas, found):
    """The figures of a district smaller than a cell are those of the cells that it touches."""
    grid = fused.heatmap.grid
    row = found.table.set_index("area").loc["tiny"]
    side = 0.01 * SIZE * 111_195 / 1000  # km
    assert row["weight"] == pytest.approx(side**2, rel=0.02)
    assert row["weight"] < grid.cell_width**2 / 1e6


def test_districts_of_one_name_are_one_district(fused, tmp_path):
    path = geojson(tmp_path / "d.geojson", "abc", list(DISTRICTS.values())[:3], province=["North", "North", "South"])
    assert read_areas(path).names == ("a", "b", "c")
    merged = read_areas(path, by="province")
    assert merged.names == ("North", "South")
    assert merged.shapes[0].area == pytest.approx(SIZE**2)
    with pytest.raises(InputError, match="It has: name, province"):
        read_areas(path, by="county")


@pytest.mark.parametrize(
    "content, message",
    [
        ('{"type": "Point", "coordinates": [36.8, -1.3]}', "contains no polygons"),
        ("lat,lon\n1,2\n", "not GeoJSON or another file of polygons"),
        ("{", "cannot be read"),
    ],
)
def test_files_without_polygons_are_refused(tmp_path, content, message):
    path = tmp_path / "d.geojson"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_areas(path)


def test_crossed_polygons_are_repaired_and_said(tmp_path):
    bow_tie = shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])
    read = read_areas(geojson(tmp_path / "d.geojson", ["tie"], [bow_tie]))
    assert shapely.is_valid(read.shapes).all() and "crossed themselves" in read.notes[0]


@pytest.mark.parametrize("pixel", [0.0005, 0.004], ids=["finer than cells", "coarser than cells"])
def test_people_under_the_map_are_kept(fused, tmp_path, pixel):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "people.tif"
    count = round(1.4 * SIZE / pixel)
    people = np.full((count, count), 3.0, dtype=np.float32)
    corner = rasterio.Affine(pixel, 0.0, WEST - 0.2 * SIZE, 0.0, -pixel, SOUTH + 1.2 * SIZE)
    with rasterio.open(
        path, "w", driver="GTiff", width=count, height=count, count=1, dtype="float32", crs="EPSG:4326",
        transform=corner,
    ) as file:  # fmt: skip
        file.write(people, 1)
    grid = fused.heatmap.grid
    amounts = read_amounts(path, grid)
    degrees = (grid.east - grid.west) / 111_320 * (grid.north - grid.south) / 110_574
    assert amounts.sum() == pytest.approx(3.0 * degrees / pixel**2, rel=0.03)
    weighed = totals(fused, NamedAreas(("all",), np.array([box(-1, -1, 2, 2)])), weights=path)
    assert weighed.table["weight"][0] == pytest.approx(amounts.sum())
    assert weighed.weights == "people"


def test_every_format_can_be_read_back(found, tmp_path):
    pyogrio = pytest.importorskip("pyogrio")
    for suffix in ("csv", "xlsx", "geojson", "gpkg", "png", "svg", "pdf"):
        write_totals(found, tmp_path / f"totals.{suffix}", title="Flooded, by district")
    with (tmp_path / "totals.csv").open(encoding="utf-8", newline="") as file:
        header, tags, *rows = list(csv.reader(file))
    assert header[0] == "area" and tags[0] == "#adm+name" and all(tag.startswith("#") for tag in tags)
    assert rows[1][0] == "'=wet side" and rows[4][header.index("share_flooded")] == ""
    sheet = openpyxl.load_workbook(tmp_path / "totals.xlsx")["totals"]
    assert sheet["A4"].value == "'=wet side" and sheet["A4"].data_type == "s"
    assert sheet.max_row == 2 + len(DISTRICTS)
    remarks = sheet.column_dimensions[sheet.cell(1, sheet.max_column).column_letter].width
    assert remarks == 40 > sheet.column_dimensions["A"].width > max(map(len, DISTRICTS))
    read = json.loads((tmp_path / "totals.geojson").read_text(encoding="utf-8"))
    assert read["features"][0]["properties"]["share_flooded"] == pytest.approx(
        found.table["share_flooded"][0], rel=1e-4
    )
    assert read["features"][4]["properties"]["share_flooded"] is None
    frame = pyogrio.read_dataframe(tmp_path / "totals.gpkg", layer="totals")
    assert frame["area"].tolist() == list(DISTRICTS)
    assert (tmp_path / "totals.png").read_bytes().startswith(b"\x89PNG")
    write_totals_style(found, tmp_path / "totals.gpkg")
    assert write_totals_style(found, tmp_path / "totals.csv") is None
    assert "to 100% flooded" in (tmp_path / "totals.qml").read_text(encoding="utf-8")
    assert ">Flooded, by district<" in (tmp_path / "totals.svg").read_text(encoding="utf-8")
    assert (tmp_path / "totals.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match="written as"):
        write_totals(found, tmp_path / "totals.shp")


def test_the_coloured_map_shows_the_state_in_question_wherever_it_stands(found):
    """Of two states, the same place has the same colour whichever of them is asked for."""
    renamed = found.table.rename(
        columns=lambda name: name.replace("_dry", "_damaged").replace("_flooded", "_undamaged")
    )
    turned = replace(found, table=renamed, states=("damaged", "undamaged"), positive="damaged")
    for asked in (found, turned):
        other = next(state for state in asked.states if state != asked.positive)
        first, second = choropleth(asked), choropleth(asked, other)
        assert first.get_suptitle() == f"Share: {asked.positive}"
        for one, two in zip(first.axes[0].patches, second.axes[0].patches, strict=True):
            np.testing.assert_allclose(one.get_facecolor(), two.get_facecolor(), atol=0.01)


def test_the_coloured_map_is_of_the_map_alone_and_its_names_do_not_overlap(fused):
    shapes = [*DISTRICTS.values(), shapely.Polygon(), box(0.1, 0.6, 0.4, 0.9).difference(box(0.2, 0.7, 0.3, 0.8))]
    names = (*DISTRICTS, "empty", "a district with a hole and a long name")
    found = totals(fused, NamedAreas(names, np.array(shapes, dtype=object)), draws=20)
    assert found.table.set_index("area").loc["empty", "note"] == "it has no outline in the file"
    figure = choropleth(found)
    axes, beside = figure.axes[:2]
    figure.draw_without_rendering()
    grid = fused.heatmap.grid
    assert np.ptp(axes.get_xlim()) < 1.2 * (grid.east - grid.west)  # "elsewhere" and "half outside" do not shrink it
    boxes = [shapely.box(*text.get_window_extent().extents) for text in axes.texts]
    assert not any(one.intersects(two) for at, one in enumerate(boxes) for two in boxes[:at])
    listed = " ".join(text.get_text() for text in beside.get_legend().get_texts())
    assert "tiny" in listed and "nobody knows" in listed and "elsewhere" not in listed
    written = {text.get_text().partition("\n")[0] for text in axes.texts}
    assert {"dry side", "both"} <= written
    assert "2 of them beyond the map" in figure.get_supxlabel()


def test_a_long_name_is_cut_only_where_its_district_has_no_room_for_it(fused):
    name = "Quartier La Savane et les environs du port"
    roomy = NamedAreas((name,), np.array([box(0, 0, 1, 1)], dtype=object))
    (written,) = [text.get_text() for text in choropleth(totals(fused, roomy)).axes[0].texts if "(" in text.get_text()]
    assert written.rsplit("\n", 1)[0].replace("\n", " ") == name
    assert ways_to_write(name)[1:] == ["Quartier La Savan…"]
    assert ways_to_write("Centre-ville") == ["Centre-ville"]
    assert ways_to_write("Quartier Nord-Ouest")[:2] == ["Quartier\nNord-Ouest", "Quartier Nord-\nOuest"]
    assert ways_to_write("a name of very many words that nobody can read as it goes on and on") == [
        "a name of very ma…"
    ]


def test_the_command_says_the_same(fused, found, tmp_path):
    run = tmp_path / "run.cf"
    pipeline.save_run(fused, run)
    path = geojson(tmp_path / "districts.geojson", list(DISTRICTS), list(DISTRICTS.values()))
    answer = CliRunner().invoke(
        app, ["totals", str(run), str(path), "--threshold", "0.3", "--json", "-q", "-o", str(tmp_path / "t.csv")]
    )
    assert answer.exit_code == 0, answer.output
    rows = json.loads(answer.stdout)["totals"]
    assert rows[0]["share_flooded"] == pytest.approx(found.table["share_flooded"][0])
    assert rows[0]["amount_low_flooded"] == pytest.approx(found.table["amount_low_flooded"][0])
    assert (tmp_path / "t.csv").is_file()
    text = CliRunner().invoke(app, ["totals", str(run), str(path), "-q"])
    assert "half outside" in text.stdout and text.exit_code == 0
    wrong = CliRunner().invoke(app, ["totals", str(run), str(path), "-o", "totals.doc"])
    assert wrong.exit_code == 2
