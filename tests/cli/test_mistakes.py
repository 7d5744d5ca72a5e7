"""Mistakes that people make: each gets words that say what is wrong, where, and what to do, before any long work."""

import json
import re

import numpy as np
import pytest
from tests.io import exports

from crowdfield.cli import main
from crowdfield.errors import InputError
from crowdfield.pipeline import fusing

HEADER = "source,lat,lon,label,time\n"
ROWS = "".join(
    f"s{i % 5},{18.5 + i / 500},{-72.3 - (i % 7) / 100},{'dry' if i % 3 else 'flooded'},\n" for i in range(60)
)
GOOD = HEADER + ROWS
SQUARE_IN_METRES = [[780_000, 2_040_000], [790_000, 2_040_000], [790_000, 2_050_000], [780_000, 2_040_000]]

FILES = {
    "good.csv": GOOD,
    "swapped.csv": GOOD.replace("lat,lon", "lon,lat"),
    "swapped_far.csv": "lat,lon,label\n121.0,14.5,a\n121.1,14.6,b\n",
    "metres.csv": "lat,lon,label\n2045000,785000,a\n2046000,785100,b\n",
    "words.csv": "lat,lon,label\nnorth,west,a\nsouth,east,b\n",
    "no_label.csv": "lat,lon\n18.5,-72.3\n18.6,-72.3\n",
    "no_place.csv": "who,label\nann,a\nbob,b\n",
    "constant.csv": "lat,lon,status\n18.5,-72.3,sent\n18.6,-72.3,sent\n",
    "numbers.csv": "lat,lon,value\n" + "".join(f"18.{i},-72.3,{i / 7}\n" for i in range(30)),
    "empty.csv": "",
    "header.csv": HEADER,
    "colons.csv": "source:lat:lon:label\na:1:2:x\n",
    "quote.csv": HEADER + 'a,18.5,-72.3,"x,\nb,18.6,-72.3,y,\n',
    "two_orders.csv": HEADER + "a,18.5,-72.3,x,13/01/2010\nb,18.6,-72.3,y,01/25/2010\n",
    "all_missing.csv": HEADER + "a,NA,NA,x,\nb,NA,NA,y,\n",
    "world.csv": "lat,lon,label\n" + "".join(f"{10 + i},{-170 + 34 * i},{'ab'[i % 2]}\n" for i in range(10)),
    "seen.csv": "lat,lon,label,seen_by\n18.5,-72.3,a,12\n18.6,-72.3,b,3\n",
    "counts.csv": "lat,lon,label,seen_by\n18.5,-72.3,a,1.5\n18.6,-72.3,b,-1\n",
    "latin.csv": (HEADER + "é,18.5,-72.3,x,\n").encode("cp1252"),
    "old.xls": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
    "letter.docx": exports.zipped({"[Content_Types].xml": b"<x/>", "word/document.xml": b"<x/>"}),
    "page.html": "<!DOCTYPE html><html><body>Not found</body></html>",
    "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(30),
    "paper.pdf": b"%PDF-1.7\n" + bytes(30),
    "half.csv.gz": b"\x1f\x8b\x08\x00",
    "half.zip": b"PK\x03\x04" + bytes(60),
    "two.zip": exports.zipped({"a.csv": GOOD.encode(), "b.csv": GOOD.encode()}),
    "grading.zip": exports.grading_zip(),
    "areas.geojson": exports.features([{"label": "a"}, {"label": "b"}], exports.polygons(2)),
    "reference.geojson": exports.mapswipe(checked=True),
    "gbif.txt": exports.gbif(status=False),
    "other.json": '{"a": 1}',
    "broken.geojson": '{"type": "FeatureCollection", "features": [',
    "gold.csv": "lat,lon,truth,label\n18.51,-72.31,dry,odd\n18.52,-72.32,flooded,strange\n",
    "labels.toml": "not = TOML = at all",
    "bad.toml": "[model]\nlenghtscale = 3\n",
    "table.toml": "[modell]\nkernel = 'rbf'\n",
    "mask_metres.geojson": json.dumps({"type": "Polygon", "coordinates": [SQUARE_IN_METRES]}),
    "mask_points.geojson": exports.features([{"a": 1}], exports.points((-72.3, 18.5))),
    "mask_elsewhere.geojson": json.dumps({"type": "Polygon", "coordinates": [[[5, 50], [6, 50], [6, 51], [5, 50]]]}),
    "run.cf": "this is no run",
    "noise.csv": np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8).tobytes(),
    "zeros.csv": bytes(5000),
    "locked.xlsx": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    + bytes(504)
    + "EncryptedPackage".encode("utf-16-le")
    + bytes(99),
    "nested.zip": exports.zipped({"inner.zip": exports.zipped({"a.csv": GOOD.encode()})}),
    "hollow.zip": exports.zipped({}),
    "mark.csv": b"\xef\xbb\xbf",
    "mixed.csv": "lat;lon;label\n18.5,-72.3,a\n18.6,-72.3,b\n",
    "refusal.json": '{"detail": "Authentication credentials were not provided."}',
    "alone.shp": exports.shapefile([{"label": "a"}, {"label": "b"}], None)[".shp"],
    "country.csv": "lat,lon,label\n" + "".join(f"{40 + i / 10},{-3 + i / 10},{'ab'[i % 2]}\n" for i in range(40)),
    "shrunk.toml": "[model]\nlengthscale = -2\n",
    "nested.toml": "[x]\na = 1\n",
    "token": "",
}

FUSE = ("fuse", "good.csv", "-o", "map.csv")
# what was typed, the exit code, and what must be said: in order, what is wrong and what to do
MISTAKES = [
    # files
    (("fuse", "nothere.csv", "-o", "map.csv"), 1, "nothere.csv: there is no such file"),
    (("fuse", ".", "-o", "map.csv"), 1, "is a folder. Name a file in it"),
    (("fuse", "good.csv", "good2.csv", "-o", "map.csv"), 1, "good2.csv: there is no such file"),
    (("inspect", "noise.csv"), 1, "binary file of an unknown kind.*Save it as CSV"),
    (("inspect", "zeros.csv"), 1, "binary file of an unknown kind.*Save it as CSV"),
    (("inspect", "locked.xlsx"), 1, "with a password.*save it without"),
    (("inspect", "nested.zip"), 1, "'inner.zip' in it is an archive in an archive.*Unpack the outer one"),
    (("inspect", "hollow.zip"), 1, "zip file with nothing in it"),
    (("inspect", "mark.csv"), 1, "the file is empty. Export it again"),
    (("inspect", "mixed.csv"), 1, "line 2, column 'lat': .*'18.5,-72.3,a' is not a number"),
    (("inspect", "refusal.json"), 1, "not a list of records. Save it as one"),
    (("inspect", "alone.shp"), 1, "belong together, for example in a zip file"),
    (("inspect", "empty.csv"), 1, "the file is empty. Export it again"),
    (("inspect", "header.csv"), 1, "has a header but no reports"),
    (("inspect", "colons.csv"), 1, "is the delimiter one of"),
    (("inspect", "quote.csv"), 1, "line 2: .*opened and never closed"),
    (("inspect", "old.xls"), 1, "save it as .xlsx or CSV"),
    (("inspect", "letter.docx"), 1, "office program.*Save it as CSV"),
    (("inspect", "page.html"), 1, "without a table of reports.*Export it again"),
    (("inspect", "picture.png"), 1, "PNG picture.*tables and points"),
    (("inspect", "paper.pdf"), 1, "PDF document.*Save it as CSV"),
    (("inspect", "half.csv.gz"), 1, "Is the file complete"),
    (("inspect", "half.zip"), 1, "Is it complete"),
    (("inspect", "two.zip"), 1, "'a.csv', 'b.csv'.*--layer NAME"),
    (("inspect", "two.zip", "--layer", "c"), 1, "no layer has 'c'.*'a.csv', 'b.csv'"),
    (("inspect", "grading.zip"), 1, "settlements_poly_grading.*--layer NAME"),
    (("inspect", "grading.zip", "--layer", "poly_grading"), 1, "not a point.*--polygons inner-point"),
    (("inspect", "areas.geojson"), 1, "Polygon, not a point.*--polygons inner-point"),
    (("inspect", "areas.geojson", "--polygons", "centroid"), 1, "'inner-point', not 'centroid'"),
    (("inspect", "reference.geojson"), 1, "--format mapswipe.*--label 'Final Labe'"),
    (("inspect", "gbif.txt"), 1, "not clear which column.*--label species"),
    (("inspect", "other.json"), 1, "not a list of records"),
    (("inspect", "broken.geojson"), 1, "line 1: .*Is the file complete"),
    (("inspect", "good.csv", "--layer", "x"), 1, "has no layers. Leave out --layer"),
    (("inspect", "good.csv", "--format", "word"), 1, "no format 'word'; the formats are zooniverse"),
    (("inspect", "good.csv", "--format", "kobo"), 1, "does not look like.*Leave out --format"),
    (("inspect", "latin.csv", "--encoding", "ascii"), 1, "line 2: byte 0xe9 is not ASCII.*--encoding"),
    (("inspect", "good.csv", "--encoding", "klingon"), 1, "no encoding called 'klingon'"),
    # columns and cells
    (("fuse", "no_label.csv", "-o", "map.csv"), 1, "no column for the label.*--label NAME"),
    (("fuse", "no_place.csv", "-o", "map.csv"), 1, "latitude and longitude.*--lat NAME --lon NAME.*--place NAME"),
    (("fuse", "constant.csv", "-o", "map.csv"), 1, "'status' says 'sent' in every row.*--label NAME"),
    (("fuse", "numbers.csv", "-o", "map.csv"), 1, "30 different numbers.*--label NAME"),
    (("fuse", "good.csv", "-o", "map.csv", "--lat", "breite"), 1, "no column 'breite'.*the columns are"),
    (("fuse", "good.csv", "-o", "map.csv", "--label", "lable"), 1, "Did you mean 'label'"),
    (("fuse", "good.csv", "-o", "map.csv", "--place", "source"), 1, "is not a place"),
    (("fuse", "words.csv", "-o", "map.csv"), 1, "latitude 'north' is not a number"),
    (("fuse", "swapped.csv", "-o", "map.csv"), 1, "probably swapped.*--lat 'lon' --lon 'lat'"),
    (("fuse", "swapped_far.csv", "-o", "map.csv"), 1, "latitude 121 is outside.*--lat 'lon' --lon 'lat'"),
    (("fuse", "metres.csv", "-o", "map.csv"), 1, "Are these degrees.*--crs"),
    (("fuse", "all_missing.csv", "-o", "map.csv"), 1, "none of the 2 rows can be used.*has no latitude"),
    (("fuse", "two_orders.csv", "-o", "map.csv"), 1, "line 3.*month first.*--dates dmy"),
    (("fuse", "counts.csv", "-o", "map.csv", "--count", "seen_by"), 1, "not a count.*--count none"),
    (("fuse", "seen.csv", "-o", "map.csv"), 1, "seen_by.*number of people.*--count seen_by.*--count none"),
    (("fuse", "world.csv", "-o", "map.csv"), 1, "one of the world.*--region W,S,E,N"),
    ((*FUSE, "--positive", "fire"), 1, "no label is 'fire'.*Choose one of them"),
    ((*FUSE, "--map-labels", "labels.toml"), 1, "labels.toml: is not TOML"),
    ((*FUSE, "--dates", "ymd"), 1, "'dmy' or 'mdy'"),
    ((*FUSE, "--duplicates", "never"), 1, "'once', 'keep' or 'events'"),
    ((*FUSE, "--accuracy", "gps"), 1, "no column 'gps'"),
    ((*FUSE, "--crs", "EPSG:99999999"), 1, "Write it like EPSG:4326"),
    ((*FUSE, "--region", "5,50,6,51"), 1, "lies outside the region"),
    ((*FUSE, "--region=18,-73,19,-72"), 1, "lies outside the region"),
    ((*FUSE, "--positive", ""), 1, "the label to map is empty; the labels are 'flooded', 'dry'. Choose one"),
    ((*FUSE, "--crs", "EPSG:32618"), 1, "look like degrees.*Leave out --crs"),
    ((*FUSE, "--accuracy", "-5m"), 1, "'-5m' is not a length. Write it like"),
    ((*FUSE, "--accuracy", "0m"), 1, "must be above 0"),
    ((*FUSE, "--score", "label"), 1, "takes the column of the label.*--label NAME"),
    ((*FUSE, "--label", "lat"), 1, "takes the column of the latitude.*--lat NAME"),
    ((*FUSE, "--score-columns", "label"), 1, "'flooded' is not a probability"),
    ((*FUSE, "--place", "lat"), 1, "'18.5' is not a place"),
    ((*FUSE, "--lat", "lat", "--lon", "lat"), 1, "both name the column 'lat'"),
    ((*FUSE, "--swap"), 1, "with --swap nearly all places are at sea.*leave it out"),
    ((*FUSE, "--reading", "some"), 1, "use it with --polygons area"),
    ((*FUSE, "--map-labels", "nested.toml"), 1, 'must hold lines like "collapsed" = "damaged"'),
    ((*FUSE, "--map-labels", "nothere.toml"), 1, "nothere.toml: cannot be read"),
    # outputs
    (("fuse", "good.csv", "-o", "good.csv"), 2, "is what is read, and would be lost. Name another file"),
    (("convert", "good.csv", "good.csv"), 2, "is what is read, and would be lost. Name another file"),
    (("fuse", "good.csv", "-o", "map"), 2, "suffix '' is not supported. Use one of: .tif"),
    (("fuse", "good.csv", "-o", "map.tif", "-o", "map.xlsx"), 2, "'.xlsx' is not supported. Use one of"),
    (("fuse", "good.csv"), 2, "say where the map goes"),
    (("fuse", "good.csv", "-o", "map.shp"), 2, "Use one of: .tif"),
    (("fuse", "good.csv", "-o", "nowhere/map.csv"), 2, "no folder.*Create it first"),
    (("fuse", "good.csv", "-o", "good.csv/map.csv"), 2, "is a file"),
    (("fuse", "good.csv", "-o", "folder.csv"), 2, "is a folder. Name a file in it"),
    ((*FUSE, "--figure", "page.doc"), 2, "Use one of: .png"),
    ((*FUSE, "--figure", "nowhere/page.png"), 2, "no folder"),
    ((*FUSE, "--next", "looks.tif"), 2, "Use one of: .geojson"),
    ((*FUSE, "--state", "nowhere/run.cf"), 2, "no folder"),
    (("next", "good.csv", "-o", "nowhere/looks.kml"), 2, "no folder"),
    (("next", "good.csv", "-o", "looks.docx"), 2, "Use one of: .geojson .json .kml"),
    (("sources", "good.csv", "-o", "nowhere/sources.csv"), 2, "no folder"),
    (("check-model", "good.csv", "-o", "nowhere/check.json"), 2, "no folder"),
    # settings and the map
    ((*FUSE, "--cell", "1m", "--region=-73,18,-72,19"), 1, "11.*cells.*larger"),
    ((*FUSE, "--cell", "5m", "--region=-73,18,-72,19"), 1, "GiB of memory.*hours.*Use --cell"),
    (("fuse", "country.csv", "-o", "map.csv", "--cell", "1m"), 1, "cells are more than.*13 m or more"),
    ((*FUSE, "--cell", "0m"), 2, "must be above 0"),
    ((*FUSE, "--lengthscale", "-2km"), 2, "'-2km' is not a length"),
    ((*FUSE, "--region=-72.3,19,-72,18"), 2, "south = 19 and north = 18. The order is west,south,east,north"),
    ((*FUSE, "--region=-500,0,10,10"), 2, "west = -500"),
    ((*FUSE, "--seed", "-1"), 2, "greater than or equal to 0"),
    ((*FUSE, "--grades", "dry,wet,flooded"), 1, "no state 'wet'; the map has: dry, flooded"),
    ((*FUSE, "--projection", "EPSG:4326"), 1, "is in degrees, but a map is made in metres. Leave it out"),
    ((*FUSE, "--config", "shrunk.toml"), 1, "must be above 0, got -2"),
    ((*FUSE, "--covariate", "good.csv"), 1, "is not a GeoTIFF. Convert it"),
    ((*FUSE, "--cell", "wide"), 2, "is not a length. Write it like 250m"),
    ((*FUSE, "--cell", "-5m"), 2, "is not a length"),
    ((*FUSE, "--lengthscale", "far"), 2, "is not a length"),
    ((*FUSE, "--region", "1,2,3"), 2, "west,south,east,north"),
    ((*FUSE, "--inference", "magic"), 2, "auto, vb, collapsed, gibbs"),
    ((*FUSE, "--engine", "spektral"), 2, "did you mean 'spectral'"),
    ((*FUSE, "--communities", "many"), 2, "a whole number above 0, or learn"),
    ((*FUSE, "--states", "flooded"), 2, "two states at least"),
    ((*FUSE, "--trust", "s1"), 2, "SOURCE=LEVEL"),
    ((*FUSE, "--trust", "s1=huge"), 2, "certain, high"),
    ((*FUSE, "--silence", "-1"), 2, "above 0"),
    ((*FUSE, "--config", "nothere.toml"), 1, "nothere.toml: cannot be read"),
    ((*FUSE, "--config", "bad.toml"), 1, "did you mean 'lengthscale'"),
    ((*FUSE, "--config", "table.toml"), 1, "did you mean 'model'"),
    ((*FUSE, "--mask", "nothere.geojson"), 1, "no such file"),
    ((*FUSE, "--mask", "mask_metres.geojson"), 1, "coordinate reference system.*not degrees"),
    ((*FUSE, "--mask", "mask_points.geojson"), 1, "covers no area"),
    ((*FUSE, "--mask", "mask_elsewhere.geojson"), 1, "covers no cell of the map"),
    ((*FUSE, "--mask", "good.csv"), 1, "not GeoJSON or another file of polygons"),
    ((*FUSE, "--covariate", "nothere.tif"), 1, "nothere.tif"),
    (("sources", "run.cf"), 1, "run.cf"),
    (("score", "run.cf", "gold.csv"), 1, "run.cf"),
    (("score", "good.csv", "gold.csv", "--label", "true"), 1, "no column 'true'"),
    (("follow", "ftp://kobo.example/x", "-o", "map.csv"), 2, "must start with https://"),
    (("follow", "http://kobo.example/api/v2/assets/aB3/data.json"), 2, "unencrypted.*Use https://"),
    (
        ("follow", "https://kobo.example/", "-o", "map.csv"),
        2,
        "not the address of a form.*/api/v2/assets/UID/data.json",
    ),
    (
        ("follow", "http://localhost:9/v1/projects/1/forms/x.svc", "--token-file", "nothere"),
        2,
        "nothere cannot be read",
    ),
    (("follow", "http://localhost:9/v1/projects/1/forms/x.svc", "--token-file", "token"), 2, "must hold the token"),
    (("follow", "http://localhost:9/v1/projects/1/forms/x.svc", "-o", "map.doc"), 2, "Use one of: .tif"),
    (("follow", "http://localhost:9/v1/projects/1/forms/x.svc", "--every", "-5"), 2, "greater than or equal to 10"),
    (("follow", "https://ann:pw@kobo.example/api/v2/assets/aB3/data.json"), 2, "leave the password out of the address"),
    (("follow", "http://localhost:9/v1/projects/1/forms/x.svc", "-o", "map.csv"), 1, "cannot be reached"),
    (("fuse", "good.csv", "-o", "map.csv", "--wrong"), 2, "--wrong"),
    (("fuze",), 2, "fuze"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (made / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (made / "folder.csv").mkdir()
    return made


@pytest.mark.parametrize(("typed", "code", "words"), MISTAKES, ids=[" ".join(typed) for typed, _, _ in MISTAKES])
def test_a_mistake_is_explained_before_any_long_work(folder, monkeypatch, capsys, typed, code, words):
    monkeypatch.chdir(folder)
    before = {path.name for path in folder.iterdir()}

    def fit(*_):
        pytest.fail("the fit began")

    monkeypatch.setattr(fusing, "_fit", fit)
    with pytest.raises(SystemExit) as stop:
        main(list(typed))
    out, err = capsys.readouterr()
    said = " ".join(err.replace("│", " ").split())
    assert stop.value.code == code, said
    assert out == "" and "Traceback" not in err
    assert re.search(words, said), said
    assert {path.name for path in folder.iterdir()} - before <= {f"{typed[1]}.rejects.csv" if len(typed) > 1 else ""}


def test_at_least_65_mistakes_are_tried():
    assert len(MISTAKES) >= 65


def test_a_state_that_no_report_names_is_said(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)

    def fit(*_):
        raise InputError("stop here")

    monkeypatch.setattr(fusing, "_fit", fit)
    with pytest.raises(SystemExit):
        main([*FUSE, "--states", "flooded,wet"])
    assert "no report says 'wet', which the settings name as a state" in " ".join(capsys.readouterr().err.split())
