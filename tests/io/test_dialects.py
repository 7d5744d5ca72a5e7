"""Tables and exports in the dialects of programs, surveys and people: read rightly, or refused with what reads them."""

import csv
import datetime
import io as streams
import json
from typing import Any

import numpy as np
import openpyxl
import pytest
from tests.io import exports

from crowdfield import io
from crowdfield.data.positive import decide
from crowdfield.errors import ReportFormatError


@pytest.fixture(autouse=True)
def without_box(monkeypatch):
    """Read workbooks in this process, to save starting one for each."""
    monkeypatch.setattr("crowdfield.io.features.common.is_inside", lambda: True)


PLACES = [(18.5, -72.3), (18.6, -72.4), (18.55, -72.35), (18.52, -72.31)]  # latitude, longitude
SAID = ["destroyed", "intact", "destroyed", "intact"]
FOUR = [(lon, lat) for lat, lon in PLACES]


def table(header, rows, delimiter=","):
    out = streams.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([header, *rows])
    return out.getvalue()


def four(header, row, delimiter=","):
    """Four rows: row(i, latitude, longitude)."""
    return table(header, [row(i, *place) for i, place in enumerate(PLACES)], delimiter)


def many(header, row, count=20):
    """More rows at different places: row(i)."""
    return table(["lat", "lon", *header], [[18.5 + i / 100, -72.3, *row(i)] for i in range(count)])


def features(row, geometry=None):
    shapes = exports.points(*FOUR) if geometry is None else [geometry(lat, lon) for lat, lon in PLACES]
    return exports.features([row(i) for i in range(4)], shapes)


def sheet(rows, merge=()):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cells in merge:
        book.active.merge_cells(cells)
    out = streams.BytesIO()
    book.save(out)
    return out.getvalue()


def classifications(*values):
    header = ["classification_id", "user_name", "created_at", "metadata", "annotations", "subject_data"]
    subject = json.dumps({"9": {"latitude": "18.5", "longitude": "-72.3"}})
    tasks = [json.dumps([{"task": "T0", "value": value}]) for value in values]
    return table(header, [[i, "ann", "2015-05-01 10:41:59 UTC", "{}", t, subject] for i, t in enumerate(tasks)])


def votes(*more):
    shape = "POLYGON((-72.3 18.5,-72.2 18.5,-72.2 18.6,-72.3 18.5))"
    header = ["idx", "task_id", "0_count", "1_count", "2_count", "3_count", *more, "geom"]
    return table(header, [[i, f"20-{i}-1", 1, 2, 0, 0, *(3 for _ in more), shape] for i in range(3)])


def kml(*placemarks):
    head = '<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2"><Document>'
    return head + "".join(placemarks) + "</Document></kml>"


def placemark(i, inside="", name="House"):
    lat, lon = PLACES[i]
    return (
        f"<Placemark><name>{name} {i}</name>{inside}<Point><coordinates>{lon},{lat},0</coordinates></Point></Placemark>"
    )


def kobo(i, lat, lon):
    """A row of Kobo's export with the questions as headings."""
    status = "Not Approved" if i == 0 else "Approved"
    seen = [f"{lat} {lon} 12 4.5", lat, lon, 12, 4.5, SAID[i]]
    return [
        "2023-02-06T10:00:00+03:00",
        *seen,
        i,
        f"u{i}",
        f"2023-02-06T07:06:0{i}",
        status,
        "submitted_via_web",
        "ann",
    ]


KOBO = ["start", "Where?", "_Where?_latitude", "_Where?_longitude", "_Where?_altitude", "_Where?_precision"]
KOBO += ["How bad is the damage?", "_id", "_uuid", "_submission_time", "_validation_status", "_status", "_submitted_by"]
CENTRAL = ["SubmissionDate", "site-at-Latitude", "site-at-Longitude", "site-at-Accuracy", "site-damage", "KEY"]
CENTRAL += ["SubmitterName", "AttachmentsPresent", "Status", "ReviewState", "FormVersion"]
AGGREGATE = ["*meta-instance-id*", "*meta-submission-date*", "at:Latitude", "at:Longitude", "at:Accuracy", "damage"]
INATURALIST = [
    "id",
    "observed_on",
    "time_observed_at",
    "user_id",
    "created_at",
    "quality_grade",
    "latitude",
    "longitude",
]
INATURALIST += ["positional_accuracy", "scientific_name"]
GRADED = ["Destroyed", "Damaged", "Possibly damaged", "No visible damage", "Not Analysed"]
NULL_PLACE = json.loads(exports.odata())
NULL_PLACE["value"][0]["site"]["location"] = None


def inaturalist(i, lat, lon):
    seen = f"2023-02-0{i + 1}"
    return [i, seen, f"{seen} 10:00:00 UTC", i % 2, "2023-03-01 10:00:00 UTC", "research", lat, lon, 25, SAID[i]]


# name: (content, options, what is read)
READ: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "Kobo with questions as headings": (
        four(KOBO, kobo, ";"),
        {},
        {"label": "How bad is the damage?", "accuracy": [4.5] * 3, "time": "2023-02-06T07:06:01", "rejected": 1},
    ),
    "Kobo as a workbook with times as dates": (
        exports.workbook(
            {
                "survey": [
                    KOBO,
                    *([datetime.datetime(2023, 2, 6, 10), *kobo(i, *p)[1:]] for i, p in enumerate(PLACES)),
                ],
                "people": [["name", "_parent_index"], ["Bo", 1]],
            }
        ),
        {"layer": "survey"},
        {"label": "How bad is the damage?", "time": "2023-02-06T07:06:01", "sources": ("ann",)},
    ),
    "Kobo as GeoJSON": (
        features(
            lambda i: {"How bad is the damage?": SAID[i], "_uuid": f"u{i}", "_submission_time": "2023-02-06T07:06:00"}
        ),
        {},
        {"label": "How bad is the damage?", "time": "2023-02-06T07:06:00", "places": FOUR},
    ),
    "one answer beside several at once": (
        four(
            ["_submission_time", "_gps_latitude", "_gps_longitude", "grp/needs", "grp/needs/water", "grp/damage"],
            lambda i, lat, lon: ["2023-02-06", lat, lon, "water food", 1, SAID[i]],
        ),
        {},
        {"label": "grp/damage"},
    ),
    "ODK Central with groups": (
        four(
            CENTRAL,
            lambda i, lat, lon: [
                "2024-05-01T10:00:00Z",
                lat,
                lon,
                6.5,
                SAID[i],
                f"k{i}",
                f"e{i % 2}",
                0,
                "",
                "rejected" if i == 3 else "",
                1,
            ],
        ),
        {},
        {"label": "site-damage", "sources": ("e0", "e1"), "accuracy": [6.5] * 3, "rejected": 1},
    ),
    "ODK Aggregate": (
        four(AGGREGATE, lambda i, lat, lon: [f"uuid:{i}", "Feb 6, 2023 4:17:00 PM", lat, lon, 7, SAID[i]]),
        {},
        {"label": "damage", "accuracy": [7.0] * 4, "time": "2023-02-06T16:17:00"},
    ),
    "OData with an empty place": (json.dumps(NULL_PLACE), {}, {"used": 1, "rejected": 2, "label": "site/damage"}),
    "Survey123": (
        four(
            ["ObjectID", "GlobalID", "Damage level", "CreationDate", "Creator", "EditDate", "Editor", "x", "y"],
            lambda i, lat, lon: [
                i,
                i,
                SAID[i],
                "1/15/2023 2:05:11 PM",
                f"c{i % 2}",
                "1/16/2023 2:05:11 PM",
                "ed",
                lon,
                lat,
            ],
        ),
        {},
        {"label": "Damage level", "time": "2023-01-15T14:05:11", "sources": ("c0", "c1"), "places": FOUR},
    ),
    "iNaturalist": (
        four(INATURALIST, inaturalist),
        {"label": "scientific_name"},
        {"time": "2023-02-01T10:00:00", "accuracy": [25.0] * 4},
    ),
    "Ushahidi's GeoJSON, with collections of one": (
        features(
            lambda i: {"id": i, "damage": SAID[i]},
            lambda lat, lon: {
                "type": "GeometryCollection",
                "geometries": [{"type": "Point", "coordinates": [lon, lat]}],
            },
        ),
        {},
        {"places": FOUR},
    ),
    "notes of OpenStreetMap": (
        features(lambda i: {"id": i, "date_created": "2013-01-12 12:00:01 UTC", "status": ("open", "closed")[i % 2]}),
        {},
        {"label": "status", "time": "2013-01-12T12:00:01"},
    ),
    "Overpass": (
        json.dumps(
            {
                "elements": [
                    {"type": "node", "id": i, "lat": lat, "lon": lon, "tags": {"building": "yes", "damage": SAID[i]}}
                    for i, (lat, lon) in enumerate(PLACES)
                ]
            }
        ),
        {},
        {"label": "tags/damage", "places": FOUR},
    ),
    "felt reports behind comments": (
        "# Event 20230206\n# longitude,latitude,intensity\n-72.3,18.5,3\n-72.4,18.6,5\n",
        {},
        {"label": "intensity", "labels": (3, 5), "places": FOUR[:2]},
    ),
    "Copernicus, newer names": (
        exports.zipped(
            {
                f"builtUpA{end}": part
                for end, part in exports.shapefile(
                    [
                        {"obj_type": "11-Residential", "name": "Unknown", "damage_gra": g, "cd": "Not Applicable"}
                        for g in GRADED
                    ],
                    [exports.square(0.02 * i) for i in range(5)],
                    exports.WGS84,
                ).items()
            }
        ),
        {"polygons": "area"},
        {"label": "damage_gra", "grades": tuple(reversed(GRADED[:4])), "sources": ("all",)},
    ),
    "a list to choose from in Zooniverse": (
        classifications(*([{"select_label": "Main", "option": True, "value": 3, "label": w}] for w in ("Wet", "Dry"))),
        {},
        {"labels": ("Dry", "Wet")},
    ),
    "MapSwipe with answers of its own, as its four": (
        votes("4_count"),
        {"format": "mapswipe"},
        {"labels": ("no", "yes")},
    ),
    "merged cells": (
        sheet(
            [["Who", "Where", None, "What"], [None, "lat", "lon", "label"]]
            + [[who, *place, said] for who, place, said in zip(("ann", None, "bob", None), PLACES, SAID, strict=True)],
            merge=["A1:A2", "B1:C1", "D1:D1", "A3:A4", "A5:A6"],
        ),
        {"source": "Who"},
        {"sources": ("ann", "bob"), "places": FOUR},
    ),
    "a workbook with decimal commas as text": (
        sheet(
            [
                ["lat", "lon", "label"],
                *([*(str(x).replace(".", ",") for x in p), SAID[i]] for i, p in enumerate(PLACES)),
            ]
        ),
        {},
        {"places": FOUR},
    ),
    "a workbook with dates and times of day in two columns": (
        sheet(
            [["lat", "lon", "label", "date", "time"]]
            + [[*p, "ab"[i % 2], datetime.datetime(2023, 2, 6), datetime.time(4, 17)] for i, p in enumerate(PLACES)]
        ),
        {},
        {"time": "2023-02-06T04:17:00"},
    ),
    "a workbook with a last row of totals": (
        sheet([["lat", "lon", "label"], *([*p, SAID[i]] for i, p in enumerate(PLACES)), ["Total", None, 4]]),
        {},
        {"used": 4, "rejected": 1, "labels": ("destroyed", "intact")},
    ),
    "Unicode text of Excel": (
        four(["who", "lat", "lon", "label"], lambda i, *p: ["é", *p, SAID[i]], "\t").encode("utf-16"),
        {},
        {"places": FOUR, "sources": ("é",)},
    ),
    "commas after the last cell": ("lat,lon,label\r\n18.5,-72.3,wet,\r\n18.6,-72.4,dry,\r\n", {}, {"places": FOUR[:2]}),
    "the second of two columns of one name": (
        four(["lat", "lon", "label", "label"], lambda i, *p: [*p, "x", SAID[i]]),
        {"label": "label (2)"},
        {"labels": ("destroyed", "intact")},
    ),
    "an id of what was seen": (
        table(
            ["id", "user", "lat", "lon", "label"],
            [[i // 2, "ab"[i % 2], 18.5 + i // 2, -72.3, SAID[i]] for i in range(4)],
        ),
        {},
        {"used": 4},
    ),
    "ids that a spreadsheet has rounded": (
        four(["id", "lat", "lon", "label"], lambda i, *p: ["1.23457E+15", *p, SAID[i]]),
        {},
        {"used": 4},
    ),
    "labels that differ in how accents and spaces are written": (
        many(["label"], lambda i: [("détruit", "de\u0301truit", "non  détruit", "Non détruit")[i % 4]]),
        {},
        {"labels": ("détruit", "non  détruit")},
    ),
    "names with humps": (
        four(
            ["damageState", "reporterId", "Latitude", "Longitude", "reportedAt"],
            lambda i, *p: [SAID[i], f"r{i % 2}", *p, "2023-02-06"],
        ),
        {},
        {"label": "damageState", "sources": ("r0", "r1"), "time": "2023-02-06T00:00:00"},
    ),
    "west in the name of a column": (
        four(["Latitude (N)", "Longitude (W)", "label"], lambda i, lat, lon: [lat, -lon, SAID[i]]),
        {},
        {"places": FOUR},
    ),
    "west in the name of a column of negative numbers": (
        four(["Latitude (N)", "Longitude (W)", "label"], lambda i, lat, lon: [lat, lon, SAID[i]]),
        {},
        {"places": FOUR},
    ),
    "outlines of ODK": (
        four(
            ["area", "label"],
            lambda i, lat, lon: [
                f"{lat} {lon} 0 0; {lat} {lon + 0.02} 0 0; {lat + 0.02} {lon} 0 0; {lat} {lon} 0 0",
                SAID[i],
            ],
        ),
        {"polygons": "inner-point"},
        {"used": 4},
    ),
    "accuracies with units": (
        four(
            ["lat", "lon", "label", "gps_accuracy"], lambda i, *p: [*p, SAID[i], ("12 m", "1.5 km", "± 5 m", "30m")[i]]
        ),
        {},
        {"accuracy": [12.0, 1500.0, 5.0, 30.0]},
    ),
    "accuracies in feet": (
        four(["lat", "lon", "label", "accuracy_ft"], lambda i, *p: [*p, SAID[i], 10]),
        {},
        {"accuracy": [3.048] * 4},
    ),
    "scores in per cent": (
        four(["lat", "lon", "label", "confidence"], lambda i, *p: [*p, SAID[i], ("80 %", "75%", "100 %", "62,5 %")[i]]),
        {"score": "confidence"},
        {"score": [0.8, 0.75, 1.0, 0.625]},
    ),
    "the probability of one state in per cent": (
        four(["lat", "lon", "p_flooded"], lambda i, *p: [*p, ("80 %", "20 %")[i % 2]]),
        {},
        {"labels": ("flooded", "not flooded"), "score": [[0.8, 0.2], [0.2, 0.8]] * 2},
    ),
    "a number for no answer among grades": (
        many(["severity"], lambda i: [(1, 2, 3, 4, 99)[i % 5]]),
        {},
        {"grades": (1, 2, 3, 4), "states": (1, 2, 3, 4)},
    ),
    "words for no answer": (
        many(["label"], lambda i: [("wet", "dry", "NR", "sin dato", "pa konnen", "Prefer not to say")[i % 6]]),
        {},
        {"states": ("dry", "wet")},
    ),
    "what was seen before what kind of thing it is": (
        many(["type", "damage"], lambda i: [("house", "school")[i % 2], ("yes", "no")[i // 2 % 2]]),
        {},
        {"label": "damage"},
    ),
    "what was seen before what became of the report": (
        many(["status", "severity"], lambda i: [("verified", "new")[i % 2], ("high", "low")[i // 2 % 2]]),
        {},
        {"label": "severity"},
    ),
    "Haitian Creole": (
        four(["latitid", "lonjitid", "Nivo domaj"], lambda i, *p: [*p, ("kraze", "anfòm")[i % 2]]),
        {},
        {"label": "Nivo domaj", "places": FOUR},
    ),
    "a question in French": (
        four(["latitude", "longitude", "La maison est-elle inondée ?"], lambda i, *p: [*p, ("oui", "non")[i % 2]]),
        {},
        {"label": "La maison est-elle inondée ?", "positive": "oui"},
    ),
    "a question in Spanish": (
        four(["latitud", "longitud", "¿Está inundada la casa?"], lambda i, *p: [*p, ("sí", "no")[i % 2]]),
        {},
        {"label": "¿Está inundada la casa?", "positive": "sí"},
    ),
    "features with record separators": (
        "".join(
            "\x1e" + json.dumps({"type": "Feature", "properties": {"label": said}, "geometry": point}) + "\n"
            for said, point in zip(SAID, exports.points(*FOUR), strict=True)
        ),
        {},
        {"places": FOUR},
    ),
    "placemarks with data and times": (
        kml(
            *(
                placemark(
                    i,
                    "<TimeStamp><when>2023-02-06T04:17:00Z</when></TimeStamp><ExtendedData>"
                    f'<Data name="damage"><value>{SAID[i]}</value></Data></ExtendedData>',
                )
                for i in range(4)
            )
        ),
        {},
        {"label": "damage", "time": "2023-02-06T04:17:00", "sources": ("all",)},
    ),
    "placemarks in folders": (
        kml(
            *(
                f"<Folder><name>{name}</name>{placemark(i)}{placemark(i + 1)}</Folder>"
                for i, name in ((0, "Wet"), (2, "Dry"))
            )
        ),
        {"label": "Folder"},
        {"labels": ("Dry", "Wet"), "places": FOUR},
    ),
    "minus signs of a word processor": (
        four(["lat", "lon", "label"], lambda i, lat, lon: [lat, f"−{-lon}", SAID[i]]),
        {},
        {"places": FOUR},
    ),
    "numbers with an apostrophe": (
        four(["lat", "lon", "label"], lambda i, lat, lon: [f"'{lat}", f"'{lon}", SAID[i]]),
        {},
        {"places": FOUR},
    ),
    "GeoJSON with latitude first": (
        features(lambda i: {"label": SAID[i]}, lambda lat, lon: {"type": "Point", "coordinates": [lat, lon]}),
        {"swap": True},
        {"places": FOUR},
    ),
    "WKT with latitude first": (
        four(["geom", "label"], lambda i, lat, lon: [f"POINT({lat} {lon})", SAID[i]]),
        {"swap": True},
        {"places": FOUR},
    ),
    "WKT in metres": (
        four(["geom", "label"], lambda i, lat, lon: [f"POINT({lon * 111319.49079327358} {2098765 + i})", SAID[i]]),
        {"crs": "EPSG:3857"},
        {"used": 4},
    ),
}


def said(result):
    r = result.reports
    return {
        "label": result.columns.get("label"),
        "labels": r.labels,
        "sources": r.sources,
        "places": [tuple(np.round(place, 6).tolist()) for place in r.places],
        "accuracy": None if r.accuracy is None else np.round(r.accuracy, 6).tolist(),
        "time": None if r.time is None or np.isnan(r.time[0]) else str(np.datetime64(int(r.time[0]), "s")),
        "score": None if r.score is None else np.round(r.score, 6).tolist(),
        "states": result.states,
        "grades": result.grades,
        "used": result.used,
        "rejected": result.rejected,
        "positive": decide(r.labels).state,
    }


def written(tmp_path, content):
    path = tmp_path / "reports"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("case", READ)
def test_a_dialect_is_read_rightly(tmp_path, case):
    content, options, wanted = READ[case]
    result = io.read(written(tmp_path, content), **options)
    found = said(result)
    assert {name: found[name] for name in wanted} == wanted
    assert result.read == result.used + result.duplicate + result.rejected


# One place, however it is written.
WRITTEN_PLACES = [
    "18.5, -72.3",
    "18.5, −72.3",
    "(18.5 , -72.3)",
    "18,5, -72,3",
    "18,5; -72,3",
    "18.5N, 72.3W",
    "N18.5 W72.3",
    "18.5° N, 72.3° W",
    "18.5°, -72.3°",
    "18°30.0'N 72°18.0'W",
    "18º30´00´´N 72º18´00´´W",
    "18:30:00N 72:18:00W",
    "18 30 00 N 72 18 00 W",
    "lat: 18.5, lon: -72.3",
    "Latitude=18.5; Longitude=-72.3",
    "MULTIPOINT((-72.3 18.5))",
    "POINTZ(-72.3 18.5 10)",
    "https://www.google.com/maps/place/X/@18.6,-72.4,17z/data=!3m1!3d18.5!4d-72.3",
    "https://maps.apple.com/?ll=18.5,-72.3&q=x",
    "https://maps.google.com/maps?q=18.5%2C-72.3&z=17",
]


@pytest.mark.parametrize("cell", WRITTEN_PLACES)
def test_a_place_is_read_however_it_is_written(tmp_path, cell):
    result = io.read(written(tmp_path, table(["location", "label"], [[cell, "a"], [cell, "b"]])))
    np.testing.assert_allclose(result.reports.places, [(-72.3, 18.5)] * 2)
    assert result.reports.accuracy is None


# 6 February 2023, 04:17 UTC
WRITTEN_TIMES = [
    "2023-02-06T07:17:00+03:00",
    "2023-02-06 07:17:00 +0300",
    "2023/02/06 04:17",
    "2023-2-6 4:17",
    "20230206T041700Z",
    "20230206041700",
    "202302060417",
    "1675657020",
    "1675657020000",
    "1675657020000000",
    "Mon Feb 06 04:17:00 +0000 2023",
    "Mon, 06 Feb 2023 07:17:00 +0300",
    "Mon Feb 06 2023 07:17:00 GMT+0300 (Turkey Standard Time)",
    "06-Feb-23 04:17:00",
    "06-FEB-23 04.17.00.000000 AM",
    "6 février 2023 04:17",
    "lun. 6 févr. 2023 à 04h17",
    "6 de febrero de 2023 04:17",
    "6. Februar 2023 04:17 Uhr",
    "6 fev 2023 04:17",
    "6 Şubat 2023 04:17",
    "06/02/2023 à 04:17",
    "06/02/2023 4h17",
    "06.02.2023 04:17",
    "06/02/2023 04:17:00 a. m.",
    "06/02/2023 07:17 +03:00",
    "05/02/2023 23:47 -04:30",
]


@pytest.mark.parametrize("cell", WRITTEN_TIMES)
def test_a_time_is_read_however_it_is_written(tmp_path, cell):
    result = io.read(written(tmp_path, table(["lat", "lon", "label", "time"], [[1, 2, "a", cell], [1, 2, "b", cell]])))
    assert said(result)["time"] == "2023-02-06T04:17:00"


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        ("20230206", "2023-02-06T00:00:00"),
        ("mar. 7 févr. 2023", "2023-02-07T00:00:00"),  # a Tuesday, not in March
        ("7 mar 2023", "2023-03-07T00:00:00"),
        ("Feb 6 2023 4:17 PM EST", None),  # the names of time zones are ambiguous
        ("06 Feb 2023 04:17 (GMT+3)", None),
        ("20239999", None),
        ("30 Feb 2023", None),
    ],
)
def test_a_time_that_is_doubtful_is_not_guessed(tmp_path, cell, wanted):
    result = io.read(written(tmp_path, table(["lat", "lon", "label", "date"], [[1, 2, "a", cell], [1, 2, "b", cell]])))
    assert said(result)["time"] == wanted
    assert any("2 times in column 'date' could not be read" in note for note in result.notes) == (wanted is None)


def in_cells(name, *cells):
    return table([name, "label"], [[cell, SAID[i % 2]] for i, cell in enumerate(cells)])


# name: (content, options, what the message says)
ASKED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a form with repeated groups": (
        exports.zipped({"form.csv": b"a,b\n1,2\n", "form-people.csv": b"a,b\n1,2\n"}),
        {},
        "'form.csv', 'form-people.csv'.*--layer NAME",
    ),
    "Darwin Core in a zip file": (
        exports.zipped(
            {"meta.xml": b"<a/>", "occurrence.txt": b"a\tb\n", "verbatim.txt": b"a\tb\n", "rights.txt": b"r"}
        ),
        {},
        "'occurrence.txt', 'verbatim.txt'.*--layer NAME",
    ),
    "iNaturalist without a choice": (four(INATURALIST, inaturalist), {}, "no column for the label.*--label NAME"),
    "MapSwipe with answers of its own": (votes("4_count", "5_count"), {}, "'4_count', '5_count'.*--format mapswipe"),
    "MapSwipe about footprints": (
        table(["project_id", "user_id", "task_id", "result"], [["p", "u", f"t{i}", i % 2] for i in range(3)]),
        {},
        "not a map tile",
    ),
    "two columns of one name": (
        four(["lat", "lon", "status", "status"], lambda i, *p: [*p, "xyyx"[i], SAID[i]]),
        {},
        r"two columns are called 'status'.*--label 'status \(2\)'",
    ),
    "a state of a country": (
        table(["City", "State", "Zip", "lat", "lon"], [["x", ("FL", "GA")[i % 2], 1, *PLACES[i]] for i in range(4)]),
        {},
        "'State' may be a part of an address.*--label NAME",
    ),
    "descriptions": (
        many(["report"], lambda i: [f"Water is rising near house number {i}"], count=5),
        {},
        "'report' is different in every row.*--label NAME",
    ),
    "whole numbers that measure": (
        many(["value"], lambda i: [i % 15], count=60),
        {},
        "'value' holds 15 different numbers.*--label NAME",
    ),
    "scores from 0 to 100": (
        four(["lat", "lon", "label", "confidence"], lambda i, *p: [*p, SAID[i], 80]),
        {"score": "confidence"},
        "'80' is not a probability between 0 and 1, or a percentage with its % sign",
    ),
    "probabilities from 0 to 100": (
        four(["lat", "lon", "p_flooded"], lambda i, *p: [*p, (80, 20)[i % 2]]),
        {},
        "no column for the label",
    ),
    "confidence in words, and no label": (
        four(["lat", "lon", "confidence"], lambda i, *p: [*p, ("high", "low")[i % 2]]),
        {},
        "few different values: 'confidence'.*--label NAME",
    ),
    "names of placemarks that all differ": (
        kml(*(f"<Folder><name>F</name>{placemark(i)}</Folder>" for i in range(4))),
        {},
        "no column for the label among 'Folder', 'Name'.*--label NAME",
    ),
    "addresses in three words": (
        in_cells("what3words", "filled.count.soap", "index.home.raft"),
        {},
        "what3words, which.*latitude",
    ),
    "addresses in three words with slashes": (
        in_cells("where", "///filled.count.soap", "///index.home.raft"),
        {},
        "what3words",
    ),
    "links in three words": (in_cells("link", *["https://w3w.co/filled.count.soap"] * 2), {}, "what3words"),
    "short links": (in_cells("link", *["https://maps.app.goo.gl/abcDEF123"] * 2), {}, "short link.*whole address"),
    "several points in one cell": (
        in_cells("geom", *["MULTIPOINT((1 2),(3 4))"] * 2),
        {},
        "is MultiPoint, not a point",
    ),
    "outlines of ODK without a choice": (
        in_cells("area", *["18.5 -72.3 0 0; 18.5 -72.2 0 0; 18.6 -72.3 0 0; 18.5 -72.3 0 0"] * 2),
        {},
        "is Polygon, not a point.*--polygons area",
    ),
    "lines of ODK": (in_cells("track", *["18.5 -72.3 0 0;18.6 -72.3 0 0"] * 2), {}, "is LineString, not a point"),
    "lines in cells": (in_cells("geom", *["LINESTRING(1 2,3 4)"] * 2), {}, "is LineString, not a point"),
    "geometries in metres": (in_cells("geom", *["POINT(-8048399 2098765)"] * 2), {}, "Are these degrees.*--crs"),
    "four numbers, or two with decimal commas": (
        in_cells("location", *["18,5,-72,3"] * 2),
        {},
        "decimal commas, or four.*; between",
    ),
    "numbers that a spreadsheet has spoilt": (
        four(["lat", "lon", "label"], lambda i, *p: ["18.512.345", "-72.312.345", SAID[i]]),
        {},
        "'18.512.345' is not a number",
    ),
    "metres of which some could be degrees": (
        table(["x", "y", "label"], [[10 * i, 5 * i, "ab"[i % 2]] for i in range(100)]),
        {},
        "rows have coordinates that are not degrees.*--crs EPSG:n, or use --crs local",
    ),
    "a list of lists": (json.dumps([["lat", "lon", "label"], [18.5, -72.3, "a"]]), {}, "not an object"),
}


@pytest.mark.parametrize("case", ASKED)
def test_a_dialect_in_doubt_is_refused_with_what_reads_it(tmp_path, case):
    content, options, message = ASKED[case]
    with pytest.raises(ReportFormatError, match=f"(?s){message}"):
        io.read(written(tmp_path, content), **options)


@pytest.mark.parametrize("case", ["GeoJSON with latitude first", "WKT with latitude first"])
def test_latitude_first_is_suspected_with_the_option_that_reads_it(tmp_path, case):
    result = io.read(written(tmp_path, READ[case][0]))
    assert "probably swapped; --swap reads them so" in result.suspected_swap


def test_a_count_of_people_is_counted_in_the_summary(tmp_path):
    file = written(tmp_path, exports.dyfi())
    shaking = {"intensity 2: weak shaking": 1, "intensity 3: weak shaking": 22, "intensity 5: moderate shaking": 2}
    assert io.inspect(file)["reports"] == 25 and io.inspect(file)["labels"] == shaking
