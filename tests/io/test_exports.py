"""Files as tools write them: each is read rightly with no options, or refused with words that name the option."""

import csv
import gzip
import io as streams
import json
from typing import Any

import numpy as np
import pytest
import shapely
from tests.io import exports

from crowdfield import io
from crowdfield.errors import ReportFormatError

SHAKING = ("intensity 2: weak shaking", "intensity 3: weak shaking", "intensity 5: moderate shaking")


@pytest.fixture(autouse=True)
def without_box(request, monkeypatch):
    """Read workbooks in this process, to save starting one for each; two cases do it as users do."""
    if not request.node.name.endswith(("[Excel]", "[plain Parquet]")):
        monkeypatch.setattr("crowdfield.io.features.common.is_inside", lambda: True)


HEADER = "source,lat,lon,label,time\n"
ROWS: list[list[Any]] = [["ann", 18.5, -72.3, "flooded", "2010-01-12"], ["bob", 18.6, -72.4, "dry", "2010-01-13"]]
TABLE = HEADER + "".join(",".join(map(str, row)) + "\n" for row in ROWS)
WANTED = [(-72.3, 18.5, "flooded", "ann"), (-72.4, 18.6, "dry", "bob")]


def said(result):
    """(longitude, latitude, label, source) of each report, as the file has them."""
    r = result.reports
    return [
        (*np.round(place, 6).tolist(), r.labels[label], r.sources[source])
        for place, label, source in zip(r.places, r.label.tolist(), r.source.tolist(), strict=True)
    ]


def one_column(name, *cells):
    out = streams.StringIO()
    writer = csv.writer(out)
    writer.writerows([("source", name, "label"), *zip(("ann", "bob"), cells, ("flooded", "dry"), strict=True)])
    return out.getvalue()


def two_columns(lat, lon):
    rows = [("source", "lat", "lon", "label"), ("ann", *lat[:1], *lon[:1], "flooded"), ("bob", lat[1], lon[1], "dry")]
    out = streams.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


HEADED = [["source", "lat", "lon", "label", "time"], *ROWS]
# Each says the same two reports.
SAME = {
    "Excel": exports.workbook({"Sheet1": HEADED}),
    "Excel with titles above the header": exports.workbook({"S": [["Flood survey"], [], *HEADED]}),
    "Excel with an HXL row": exports.workbook(
        {"S": [HEADED[0], ["#meta+source", "#geo+lat", "#geo+lon", "#status", "#date"], *ROWS]}
    ),
    "Excel with an empty second sheet": exports.workbook({"S": HEADED, "Sheet2": []}),
    "plain Parquet": exports.parquet({name: [row[i] for row in ROWS] for i, name in enumerate(HEADED[0])}),
    "JSON records": json.dumps([dict(zip(HEADED[0], row, strict=True)) for row in ROWS]),
    "JSON records, one per line": "\n".join(json.dumps(dict(zip(HEADED[0], row, strict=True))) for row in ROWS),
    "JSON records in an envelope": json.dumps({"records": [dict(zip(HEADED[0], row, strict=True)) for row in ROWS]}),
    "GeoJSON without geometries": exports.features(
        [dict(zip(HEADED[0], row, strict=True)) for row in ROWS], [None, None]
    ),
    "header cells padded with blanks": TABLE.replace(HEADER, " source , lat,lon  ,\u00a0label , time\n"),
    "UTF-16 without a mark": TABLE.encode("utf-16-le"),
    "UTF-16 with a mark": TABLE.encode("utf-16"),
    "geopoints": one_column("q", "18.5 -72.3 12.5 4.8", "18.6 -72.4 0 0"),
    "lat,lon in one cell": one_column("where", "18.5,-72.3", "18.6, -72.4"),
    "lat lon in brackets": one_column("_geolocation", "[18.5, -72.3]", "[18.6, -72.4]"),
    "lat;lon with decimal commas": one_column("position", "18,5; -72,3", "18,6; -72,4"),
    "lon,lat, as the name says": one_column("lon_lat", "-72.3,18.5", "-72.4,18.6"),
    "WKT": one_column("geom", "POINT (-72.3 18.5)", "POINT Z (-72.4 18.6 3)"),
    "EWKT": one_column("geom", "SRID=4326;POINT(-72.3 18.5)", "SRID=4326;POINT(-72.4 18.6)"),
    "GeoJSON in cells": one_column("shape", *(json.dumps(p) for p in exports.points((-72.3, 18.5), (-72.4, 18.6)))),
    "degrees and minutes": one_column("coordinates", "18°30'N 72°18'W", "N 18° 36′ 0″, W 72° 24′ 0″"),
    "degrees in two columns": two_columns(("18° 30' 0\" N", "18°36'N"), ("72° 18' 0\" W", "72.4 W")),
    "Excel with merged headings above the header": exports.workbook(
        {"S": [["Who", None, None, "What", None], *HEADED]}
    ),
    "Excel with a sheet of remarks": exports.workbook({"Read me": [["A survey."], ["Of 2010."]], "Data": HEADED}),
    "a table with titles above the header": "Flood survey 2010\n\n" + TABLE,
    "a table with merged headings above the header": "Who,,,What,\n" + TABLE,
    "a table that states its delimiter": "sep=;\n" + TABLE.replace(",", ";"),
    "a byte order mark and semicolons": "\ufeff" + TABLE.replace(",", ";"),
    "decimal commas": TABLE.replace(",", ";").replace(".", ","),
    "zipped with a readme": exports.zipped({"README.txt": b"A survey.", "reports.csv": TABLE.encode()}),
    "nested records": json.dumps(
        [
            {"form": {"id": 7}, "user": {"name": s}, "at": {"lat": y, "lng": x}, "answer": {"label": w}}
            for s, y, x, w, _ in ROWS
        ]
    ),
    "longitudes of 0 to 360": TABLE.replace("-72.3", "287.7").replace("-72.4", "287.6"),
    "names in German": TABLE.replace(HEADER, "Quelle,Breitengrad,Längengrad,Zustand,Datum\n"),
    "names in French": TABLE.replace(HEADER, "utilisateur,Latitude,Longitude,État,date\n"),
    "WKB in hexadecimal digits": one_column("geom", *(shapely.Point(lon, lat).wkb_hex for lon, lat, *_ in WANTED)),
    "degrees with signs": two_columns(("18 30 00", "18 36"), ("-72 18 00", "-72 24")),
}


@pytest.mark.parametrize("case", SAME)
def test_the_same_two_reports_are_read_from_every_kind_of_file(tmp_path, case):
    content = SAME[case]
    path = tmp_path / "reports"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert said(io.read(path)) == WANTED


# name: (content, options, what is read)
READ: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "Kobo's API as CSV": (exports.kobo_csv(), {}, {"labels": ("dt", "sw"), "reports": 3, "layout": "kobo"}),
    "Kobo's API as JSON": (exports.kobo_json(), {}, {"labels": ("dt", "sw"), "reports": 2, "layout": "kobo"}),
    "ODK Central's OData": (
        exports.odata(),
        {},
        {"labels": ("destroyed", "intact"), "reports": 2, "sources": ("enumerator 0", "enumerator 1")},
    ),
    "GBIF with absences": (
        exports.gbif(status=True),
        {},
        {"labels": ("ABSENT", "PRESENT"), "sources": ('"Bo0', '"Bo1'), "reports": 4, "layout": "gbif"},
    ),
    "GBIF of a species": (exports.gbif(status=False), {"label": "species"}, {"labels": ("Tapirus",), "reports": 4}),
    "Did You Feel It": (exports.dyfi(), {}, {"labels": SHAKING, "reports": 25}),
    "Did You Feel It, cells": (exports.dyfi(), {"count": "none"}, {"labels": SHAKING, "reports": 4}),
    "MapSwipe": (exports.mapswipe(), {}, {"labels": ("no", "yes"), "reports": 9}),
    "MapSwipe with a reference, as votes": (exports.mapswipe(checked=True), {"format": "mapswipe"}, {"reports": 9}),
    "MapSwipe with a reference, as truth": (
        exports.mapswipe(checked=True),
        {"label": "Final Labe", "polygons": "inner-point"},
        {"labels": (0, 1), "reports": 3},
    ),
    "Copernicus grading, points": (
        exports.grading_zip(),
        {"layer": "point_grading"},
        {"labels": ("Completely Destroyed", "Highly Damaged"), "reports": 2},
    ),
    "Copernicus grading, polygons": (
        exports.grading_zip(),
        {"layer": "settlements_poly_grading", "polygons": "inner-point"},
        {"labels": ("Completely Destroyed", "Highly Damaged", "Not Affected"), "reports": 4},
    ),
    "an Ushahidi 2 deployment as GeoJSON": (
        exports.features(
            [
                {"INCIDENT TITLE": "a", "INCIDENT DATE": "10/25/15 15:00", "CATEGORY": "Activities, ", "CODE": 1},
                {"INCIDENT TITLE": "b", "INCIDENT DATE": "02/03/14 20:55", "CATEGORY": "Activities, ", "CODE": 1},
            ],
            exports.points((110.4, -7.0), (110.5, -7.1)),
        ),
        {},
        {"labels": ("not reported", "reported"), "reports": 2, "first_time": 1445785200.0},
    ),
    "a sheet of several": (
        exports.workbook({"Readme": [["about"], ["this"]], "Reports": HEADED}),
        {"layer": "reports"},
        {"labels": ("dry", "flooded"), "reports": 2},
    ),
    "a sorted layer": (
        exports.features(
            [{"grading": "Not Affected" if i < 1500 else "Destroyed"} for i in range(2000)],
            exports.points(*((12 + i / 1e4, 43.0) for i in range(2000))),
        ),
        {},
        {"labels": ("Destroyed", "Not Affected"), "reports": 2000},
    ),
    "polygons in WKT": (
        one_column("geom", "POLYGON((-72.3 18.5,-72.2 18.5,-72.2 18.6,-72.3 18.5))", "POINT(-72.4 18.6)"),
        {"polygons": "inner-point"},
        {"labels": ("dry", "flooded"), "reports": 2},
    ),
    "missing words": (
        HEADER + "a,18.5,-72.3,flooded,2010-01-12\nb,NA,-72.3,dry,\nc,18.5,-72.3,n/a,\nNA,18.5,-72.3,dry,NA\n",
        {},
        {"labels": ("dry", "flooded"), "reports": 2, "sources": ("a", "unknown")},
    ),
    "missing words that are meant": (
        HEADER + "a,18.5,-72.3,flooded,\nb,18.4,-72.3,NA,\n",
        {"missing": "none"},
        {"labels": ("NA", "flooded"), "reports": 2},
    ),
    "ids that are missing": (
        "id,lat,lon,label,source\nNA,18.5,-72.3,a,x\nNA,18.6,-72.3,b,x\n",
        {},
        {"labels": ("a", "b"), "reports": 2},
    ),
    "times of Zooniverse": (
        HEADER + "a,18.5,-72.3,flooded,2015-05-01 10:41:59 UTC\na,18.5,-72.3,flooded,2015-05-01 10:42:00 UTC\n",
        {},
        {"labels": ("flooded",), "reports": 2, "first_time": 1430476919.0},
    ),
    "seen by several": (
        "lat,lon,label,seen_by\n18.5,-72.3,flooded,12\n18.6,-72.3,dry,1\n18.7,-72.3,dry,\n18.7,-72.3,dry,0\n",
        {"count": "seen_by"},
        {"labels": ("dry", "flooded"), "reports": 14},
    ),
    "cp1252": (
        (HEADER + "José,18.5,-72.3,détruit,\nb,18.6,-72.3,à vérifier,\n").encode("cp1252"),
        {},
        {"labels": ("détruit", "à vérifier"), "sources": ("José", "b"), "reports": 2},
    ),
    "Cyrillic": (
        (HEADER + "Иван,48.5,38.3,разрушен,\nПётр,48.6,38.2,повреждён,\n").encode("cp1251"),
        {},
        {"labels": ("повреждён", "разрушен"), "reports": 2},
    ),
    "an encoding that is named": (
        (HEADER + "a,18.5,-72.3,zniszczony,\nb,18.6,-72.3,w całości,\n").encode("cp1250"),
        {"encoding": "cp1250"},
        {"labels": ("w całości", "zniszczony"), "reports": 2},
    ),
    "cp1252 after much ASCII": (
        (HEADER + "a,18.5,-72.3,x,\n" * 40_000 + "é,18.6,-72.3,y,\n").encode("cp1252"),
        {"duplicates": "keep"},
        {"labels": ("x", "y"), "sources": ("a", "é"), "reports": 40_001},
    ),
}


@pytest.mark.parametrize("case", READ)
def test_an_export_is_read_correctly(tmp_path, case):
    content, options, wanted = READ[case]
    path = tmp_path / "export"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    result = io.read(path, **options)
    found = {
        "labels": result.reports.labels,
        "sources": result.reports.sources,
        "reports": result.reports.n_reports,
        "layout": result.layout,
        "first_time": None if result.reports.time is None else result.reports.time[0],
    }
    assert {name: found[name] for name in wanted} == wanted
    assert result.read == result.used + result.duplicate + result.rejected


# name: (content, what the message says); each names the option that reads the file, or what to do instead
ASKED: dict[str, Any] = {
    "several layers": ("layers", "holds 2 layers: 'damage', 'extent'.*--layer NAME"),
    "several sheets": (exports.workbook({"A": HEADED, "B": HEADED}), "holds 2 sheets: 'A', 'B'.*--layer NAME"),
    "several Shapefiles": (exports.grading_zip(), "holds 3 files.*settlements_poly_grading.shp.*--layer NAME"),
    "several tables": (exports.zipped({"a.csv": b"x", "b.csv": b"y"}), "holds 2 files.*--layer NAME"),
    "polygons": (exports.features([{"label": "a"}, {"label": "b"}], exports.polygons(2)), "--polygons inner-point"),
    "polygons in cells": (one_column("geom", *["POLYGON((0 0,1 0,1 1,0 0))"] * 2), "--polygons inner-point"),
    "presences only": (exports.gbif(status=False), "not clear which column.*--label species"),
    "votes and a checked answer": (exports.mapswipe(checked=True), "--format mapswipe.*--label 'Final Labe'"),
    "a constant": (
        "lat,lon,status\n18.5,-72.3,submitted\n18.6,-72.3,submitted\n",
        "'status' says 'submitted'.*--label",
    ),
    "a rank": (
        "lat,lon,class,kingdom,family\n1,2,Aves,Animalia,x\n1,3,Mammalia,Animalia,y\n",
        "taxonomy.*--label NAME",
    ),
    "a measurement": (
        "lat,lon,value\n" + "".join(f"18.{i},-72.3,{i / 7}\n" for i in range(30)),
        "'value' holds 30 different numbers.*--label NAME",
    ),
    "an old workbook": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), r"\(.xls\).*save it as .xlsx or CSV"),
    "a Word document": (
        exports.zipped({"[Content_Types].xml": b"<x/>", "word/document.xml": b"<x/>"}),
        "Save it as CSV",
    ),
    "an empty workbook": (exports.workbook({"S": []}), "the workbook is empty"),
    "no places": ("who,label\nann,a\nbob,b\n", "--lat NAME --lon NAME, or a column of whole places with --place NAME"),
    "JSON of another kind": ('{"a": 1}', "not a list of records"),
    "a format that it is not": (TABLE, "Leave out --format", {"format": "kobo"}),
    "a layer of a table": (TABLE, "Leave out --layer", {"layer": "x"}),
    "a layer that is not there": (exports.grading_zip(), "no layer has 'roads' in the name", {"layer": "roads"}),
    "a layer that several are": (exports.grading_zip(), "several layers have 'grading'", {"layer": "grading"}),
    "an unknown encoding": (TABLE, "no encoding called 'klingon'.*cp1252", {"encoding": "klingon"}),
    "the wrong encoding": ((HEADER + "é,1,2,x,\n").encode("cp1252"), "is not ASCII.*--encoding", {"encoding": "ascii"}),
    "no header": ("ann,18.5,-72.3,flooded\nbob,18.6,-72.4,dry\n", "no line of column names. Add one at its top"),
    "a label column without labels": (HEADER + "ann,1,2,,\nbob,1,3,,\n", "has no label.*--label NAME"),
    "west or east": (two_columns(("18°30'N", "18°36'N"), ("72°18'O", "72°24'O")), "west in French.*Write W or E"),
    "a place that is none": (
        one_column("at", "mill", "school"),
        "is not a place: 'lat, lon', WKT",
        {"place": "at"},
    ),
    "WKT in another system": (
        one_column("geom", *["SRID=32618;POINT(1 2)"] * 2),
        "is in EPSG:32618.*Save it in EPSG:4326",
        {"place": "geom"},
    ),
    "width and length in German": ("Breite,Länge,Zustand\n1,2,a\n1,3,b\n", "--lat NAME --lon NAME"),
    "a misspelt column": (TABLE, "Did you mean 'label'", {"label": "lable"}),
}


@pytest.mark.parametrize("case", ASKED)
def test_an_export_in_doubt_is_refused_with_what_reads_it(tmp_path, case):
    content, message, *options = ASKED[case]
    path = tmp_path / "export"
    if content == "layers":
        content = exports.geopackage(path, {"damage": [(1, 2, "a"), (1, 3, "b")], "extent": [(1, 2, "c")]})
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ReportFormatError, match=f"(?s)export.*{message}"):
        io.read(path, **(options[0] if options else {}))


def test_a_note_names_other_possible_label_columns_unless_one_was_chosen(tmp_path):
    path = tmp_path / "reports.csv"
    rows = [f"18.{i},-72.3,{'road' if i % 2 else 'house'},{'high' if i % 3 else 'low'}\n" for i in range(12)]
    path.write_text("lat,lon,type,severity\n" + "".join(rows))
    assert any("could also be 'type'; --label NAME" in note for note in io.read(path).notes)
    assert not any("could also be" in note for note in io.read(path, label="type").notes)


def test_a_layer_of_a_geopackage_is_read_by_its_name(tmp_path):
    path = tmp_path / "layers.gpkg"
    path.write_bytes(exports.geopackage(path, {"damage": [(1, 2, "a"), (1, 3, "b")], "extent": [(1, 2, "c")]}))
    assert io.read(path, layer="damage").reports.labels == ("a", "b")
    assert io.read(path, layer="EXT").reports.labels == ("c",)
    packed = tmp_path / "layers.zip"
    packed.write_bytes(exports.zipped({"layers.gpkg": path.read_bytes()}))
    assert io.read(packed, layer="damage").reports.labels == ("a", "b")


@pytest.mark.parametrize(
    ("content", "options", "wanted"),
    [
        (exports.kobo_csv(), {}, [4.803, 4.8, 12.5]),
        (exports.odata(), {}, [4.5, 5.5]),
        (exports.gbif(status=True), {}, [np.nan, 50, 100, 150]),
        ("lat,lon,label,gps_accuracy\n1,2,a,5\n1,3,b,NA\n", {}, [5, np.nan]),
        ("_q_latitude;_q_longitude;_q_precision;damage\n1;2;7,5;yes\n1;3;0;no\n", {}, [7.5, np.nan]),
        ("q-Latitude,q-Longitude,q-Accuracy,damage\n1,2,7.5,yes\n1,3,2,no\n", {}, [7.5, 2]),
        ("lat,lon,label\n1,2,a\n1,3,b\n", {"accuracy": "0.5km"}, [500, 500]),
        ("lat,lon,label,err\n1,2,a,3\n1,3,b,4\n", {"accuracy": "err"}, [3, 4]),
        ("lat,lon,label,accuracy\n1,2,a,0.9\n1,3,b,0.7\n", {}, None),  # a share of right answers
        ("lat,lon,label,gps_accuracy\n1,2,a,5\n1,3,b,6\n", {"accuracy": "none"}, None),
    ],
)
def test_how_exact_places_are_is_read_in_metres(tmp_path, content, options, wanted):
    path = tmp_path / "export"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    found = io.read(path, **options).reports
    if wanted is None:
        assert found.accuracy is None
    else:
        np.testing.assert_array_equal(found.accuracy, wanted)
        # and it survives being written and read again
        io.write_reports(found, tmp_path / "again.csv")
        np.testing.assert_array_equal(io.read(tmp_path / "again.csv").reports.accuracy, wanted)


def test_places_far_from_all_others_are_noted_and_left_out_of_the_region(tmp_path):
    rows = [f"{18.5 + i / 1000},{-72.3 - i / 1000},{'ab'[i % 2]}" for i in range(200)]
    rows[3] = "50.2,5.7,a"  # Belgium
    rows[7] = "-72.31,18.52,a"  # latitude and longitude exchanged
    path = tmp_path / "reports.csv"
    path.write_text("lat,lon,label\n" + "\n".join(rows) + "\n")
    result = io.read(path)
    (note,) = [note for note in result.notes if "far from all others" in note]
    assert note.startswith("2 of 200") and "1 of them would lie among the others" in note and "--region" in note
    assert -73 < result.region.west < result.region.east < -72 and len(result.reports) == 200


@pytest.mark.parametrize(
    ("lat", "lon", "suspected"),
    [(-72.3, 18.5, True), (18.5, -72.3, False), (84.1, 28.0, True), (-1.3, 36.8, False), (-36.0, -30.0, False)],
)
def test_swapped_coordinates_are_suspected_where_only_the_other_order_is_on_land(tmp_path, lat, lon, suspected):
    path = tmp_path / "reports.csv"
    path.write_text(f"lat,lon,label\n{lat},{lon},a\n{lat},{lon + 0.1},b\n")
    result = io.read(path)
    assert bool(result.suspected_swap) == suspected
    assert any("--lat 'lon' --lon 'lat'" in note for note in result.notes) == suspected
    assert not io.read(path, lat="lat", lon="lon").suspected_swap


def test_a_compressed_table_is_read_in_its_own_encoding(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress((HEADER + "é,18.5,-72.3,a,\nè,18.6,-72.3,b,\n").encode("cp1252")))
    result = io.read(tmp_path / "x.gz")
    assert result.reports.sources == ("è", "é") and any("read as cp1252" in note for note in result.notes)
