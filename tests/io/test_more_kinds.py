"""Waypoints of GPX, points of TopoJSON, and tables of web pages that are called .xls."""

import gzip
import json
import zipfile
from typing import Any

import pytest

import crowdfield as cf
from crowdfield.errors import ReportFormatError

GPX = """<?xml version="1.0" encoding="UTF-8"?>
<gpx version="1.1" creator="a receiver" xmlns="http://www.topografix.com/GPX/1/1" xmlns:x="urn:extra">
<metadata><name>survey</name><time>2024-05-01T00:00:00Z</time></metadata>
{points}
<trk><trkseg><trkpt lat="1" lon="2"/><trkpt lat="1" lon="3"/></trkseg></trk></gpx>"""


def waypoint(number, **fields):
    inside = "".join(f"<{name}>{text}</{name}>" for name, text in fields.items())
    return f'<wpt lat="{18.5 + number / 100}" lon="-72.3"><time>2024-05-01T10:0{number}:00Z</time>{inside}</wpt>'


def gpx(tmp_path, *fields):
    file = tmp_path / "points.gpx"
    file.write_text(GPX.replace("{points}", "\n".join(waypoint(n, **each) for n, each in enumerate(fields))))
    return file


WAYPOINTS: dict[str, tuple[list[dict[str, str]], dict[str, Any], str]] = {
    "the type": ([{"name": "001", "type": "wet"}, {"name": "002", "type": "dry"}], {}, "type"),
    "names that are few words": ([{"name": word} for word in ("wet", "dry", "wet", "dry")], {}, "name"),
    "a chosen field": ([{"name": "001", "desc": "wet"}, {"name": "002", "desc": "dry"}], {"label": "desc"}, "desc"),
    "an extension": (
        [
            {"name": f"{n}", "sym": f"Flag {n}", "extensions": f"<x:damage>{word}</x:damage>"}
            for n, word in enumerate(("wet", "dry"))
        ],
        {},
        "damage",
    ),
}


@pytest.mark.parametrize("case", WAYPOINTS)
def test_waypoints_are_reports(tmp_path, case):
    fields, options, label = WAYPOINTS[case]
    result = cf.io.read(gpx(tmp_path, *fields), **options)
    assert result.layout == "gpx" and result.used == len(fields) and result.columns["label"] == label
    assert result.reports.labels == ("dry", "wet") and result.reports.sources == ("all",)
    assert result.reports.places[1].tolist() == [-72.3, pytest.approx(18.51)]
    assert result.reports.time[1] - result.reports.time[0] == 60
    assert "2 points of tracks and routes are not read" in result.notes


def test_a_waypoint_without_a_place_is_rejected_alone(tmp_path):
    file = gpx(tmp_path, {"type": "wet"}, {"type": "dry"}, {"type": "dry"})
    file.write_text(file.read_text().replace('lat="18.51"', 'lat="north"'))
    result = cf.io.read(file)
    assert (result.used, result.rejected) == (2, 1)


def topojson(objects, transform=None):
    made = {"type": "Topology", "arcs": [[[0, 0], [1, 1]]], "objects": objects}
    return json.dumps(made | ({} if transform is None else {"transform": transform}))


def points(*places):
    inside = [
        {"type": "Point", "coordinates": list(place), "properties": {"label": label}, "id": n}
        for n, (place, label) in enumerate(zip(places, ("wet", "dry"), strict=True))
    ]
    return {"type": "GeometryCollection", "geometries": inside}


LINE = {"type": "LineString", "arcs": [0]}


@pytest.mark.parametrize(
    ("objects", "transform", "options"),
    [
        ({"reports": points([-72.3, 18.5], [-72.4, 18.6])}, None, {}),
        (
            {"reports": points([10, 100], [0, 200])},
            {"scale": [0.01, 0.001], "translate": [-72.4, 18.4]},
            {},
        ),
        ({"roads": LINE, "reports": points([-72.3, 18.5], [-72.4, 18.6])}, None, {}),
        (
            {"reports": points([-72.3, 18.5], [-72.4, 18.6]), "other": points([1, 1], [2, 2])},
            None,
            {"layer": "reports"},
        ),
    ],
)
def test_points_of_topojson_are_reports(tmp_path, objects, transform, options):
    file = tmp_path / "reports.topojson"
    file.write_text(topojson(objects, transform))
    result = cf.io.read(file, **options)
    assert result.used == 2 and "the object 'reports' of TopoJSON is read" in result.notes
    assert result.reports.places == pytest.approx(cf.Reports.from_arrays([[-72.3, 18.5], [-72.4, 18.6]], [0, 1]).places)


PAGE = """<html xmlns:o="urn:schemas-microsoft-com:office:office" xmlns:x="urn:schemas-microsoft-com:office:excel">
<head><meta http-equiv=Content-Type content="text/html; charset={charset}">
<!--[if gte mso 9]><xml><x:ExcelWorkbook></x:ExcelWorkbook></xml><![endif]-->
<style>td {{ mso-number-format: "<0>"; }}</style><title>Report</title></head><body>
<table border=1><caption>All</caption>
<tr><td colspan=4><b>Reports of the day</b></td></tr>
<tr><th>Latitude</th><th>Longitude</th><th>Label</th><th>Source</th></tr>
<tr><td x:num="18.512345">18.51</td><td>-72.3<td>d&eacute;truit &amp; vide</td><td>Zo&#235;</td></tr>
<TR><TD>18.6</TD><TD>-72.4</TD><TD><font color=red>sec</font><br></TD><TD>{name}</TD></TR>
<tr><td></td><td>&nbsp;</td></tr>
</table></body></html>"""


@pytest.mark.parametrize(
    ("charset", "encoding"),
    [("windows-1252", "cp1252"), ("utf-8", "utf-8"), ("utf-8", "utf-8-sig"), ("unicode", "utf-16")],
)
def test_a_web_page_called_xls_is_a_table(tmp_path, charset, encoding):
    file = tmp_path / "export.xls"
    file.write_bytes(PAGE.format(charset=charset, name="José").encode(encoding))
    result = cf.io.read(file)
    assert (result.used, result.rejected, result.layout) == (2, 0, "plain")
    assert "a plain table in a web page" in result.statement
    assert result.reports.labels == ("détruit & vide", "sec") and result.reports.sources == ("José", "Zoë")
    assert result.reports.places[0].tolist() == [-72.3, 18.512345]  # the number itself, not as it was shown


@pytest.mark.parametrize("packed", ["gz", "zip"])
@pytest.mark.parametrize("kind", ["gpx", "topojson", "xls"])
def test_gpx_topojson_and_html_may_be_compressed(tmp_path, packed, kind):
    content = {
        "gpx": gpx(tmp_path, {"type": "wet"}, {"type": "dry"}).read_bytes(),
        "topojson": topojson({"reports": points([-72.3, 18.5], [-72.4, 18.6])}).encode(),
        "xls": PAGE.format(charset="utf-8", name="Ann").encode(),
    }[kind]
    file = tmp_path / f"file.{packed}"
    if packed == "gz":
        file.write_bytes(gzip.compress(content))
    else:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"inside.{kind}", content)
    assert cf.io.read(file).used == 2


TABLE = "<table><tr><th>lat<th>lon<th>label<tr><td>1<td>2<td>a<tr><td>1<td>3<td>b</table>"
ROWS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "a second table": (f"<html>{TABLE}{TABLE.replace('<td>a', '<td>c')}</html>", {"layer": "table 2"}, ("b", "c")),
    "a table for the layout of the page": (f"<table><tr><td>menu<td>{TABLE}</table>", {}, ("a", "b")),
    "no closing tags, odd spaces": ("<!DOCTYPE html>\n" + TABLE.replace("<td>a", "<td > a\n b "), {}, ("a b", "b")),
    "words with brackets": (TABLE.replace("<td>a", "<td>3 < 4"), {}, ("3 < 4", "b")),
    "a number that is no character": (
        TABLE.replace("<td>a", f"<td>&#{'9' * 5000};"),
        {},
        (f"&#{'9' * 5000};", "b"),
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_tables_of_pages_are_read_as_people_see_them(tmp_path, case):
    content, options, labels = ROWS[case]
    file = tmp_path / "page.xls"
    file.write_text(content)
    assert cf.io.read(file, **options).reports.labels == labels


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "tracks alone": (GPX.replace("{points}", ""), {}, "without waypoints. It holds 2 points of tracks"),
    "names that tell nothing": (GPX.replace("{points}", waypoint(0, name="1") + waypoint(1, name="2")), {}, "--label"),
    "GPX that is cut off": (GPX.replace("{points}", waypoint(0, type="a"))[:300], {}, "cannot be read as such"),
    "a type that is always the same": (
        GPX.replace("{points}", waypoint(0, type="user") + waypoint(1, type="user")),
        {},
        "not clear which column holds the labels: 'type' says 'user' in every row.*--label NAME",
    ),
    "GPX with layers": (GPX.replace("{points}", waypoint(0, type="a")), {"layer": "x"}, "has no layers"),
    "arcs alone": (topojson({"roads": LINE}), {}, "TopoJSON without points.*Save it as GeoJSON"),
    "arcs that were asked for": (topojson({"roads": LINE}), {"layer": "roads"}, "holds a LineString.*shared arcs"),
    "two objects with points": (
        topojson({"a": points([1, 1], [2, 2]), "b": points([1, 1], [2, 2])}),
        {},
        "holds 2 objects: 'a', 'b'.*--layer NAME",
    ),
    "a transform that is none": (topojson({"a": points([1, 1], [2, 2])}, {"scale": [1]}), {}, "scale and a shift"),
    "a topology without objects": ('{"type": "Topology", "arcs": []}', {}, "topology without objects"),
    "GeoJSON with layers": ('{"type": "FeatureCollection", "features": []}', {"layer": "x"}, "has no layers"),
    "a page to log in": ("<!doctype html><html><form>Log in</form></html>", {}, "without a table.*login page"),
    "two tables": (TABLE + TABLE, {}, "holds 2 tables: 'table 1', 'table 2'.*--layer"),
    "merged rows": (TABLE.replace("<td>1<td>2", "<td rowspan=2>1<td>2"), {}, "reach over several rows"),
    "an encoding that is none": (f"<meta charset=klingon>{TABLE}", {}, "encoding that it names, 'klingon'"),
    "an encoding that is no text": (f"<meta charset=rot13>{TABLE}", {}, "encoding that it names, 'rot13'"),
    "a page and --encoding": (TABLE, {"encoding": "cp1252"}, "states its own encoding"),
    "other XML": ("<?xml version='1.0'?><svg/>", {}, "neither KML nor GPX"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_words(tmp_path, case):
    content, options, says = REFUSED[case]
    file = tmp_path / "file"
    file.write_text(content)
    with pytest.raises(ReportFormatError, match=f"(?s){says}"):
        cf.io.read(file, **options)


@pytest.mark.parametrize("encoding", ["utf-32-le", "utf-32-be"])
def test_utf_32_is_refused_with_what_to_do(tmp_path: Any, encoding: str) -> None:
    file = tmp_path / "wide.csv"
    file.write_bytes(("\ufeff" + "lat,lon,label\n18.5,-72.3,wet\n18.6,-72.4,dry\n").encode(encoding))
    with pytest.raises(ReportFormatError, match="Save it as CSV in UTF-8"):
        cf.io.read(file)
