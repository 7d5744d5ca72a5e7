"""Files as people in other countries and other projects write them: read rightly, or refused with what reads them."""

import csv
import io as streams
import json
from typing import Any

import numpy as np
import pytest

from crowdfield import io
from crowdfield.data.positive import decide
from crowdfield.errors import ReportFormatError

PLACES = [(18.5, -72.3), (18.6, -72.4), (18.55, -72.35), (18.52, -72.31)]


def table(header, rows, delimiter=","):
    out = streams.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerows([header, *rows])
    return out.getvalue()


def reports(header, labels, *, when="2023-02-06", encoding="utf-8", delimiter=","):
    """Columns: source, latitude, longitude, label, time; four reports by two sources."""
    rows = [[("ann", "bob")[i % 2], *PLACES[i], labels[i % len(labels)], when] for i in range(4)]
    return table(header, rows, delimiter).encode(encoding)


# the names of the columns, the labels, the encoding; and which label is the state in question
LANGUAGES = {
    "Spanish": (["encuestador", "Latitud", "Longitud", "Nivel de daño", "Fecha"], ["dañado", "sin daño"], "cp1252"),
    "Portuguese": (["usuário", "latitude", "longitude", "situação", "data"], ["alagado", "seco"], "cp1252"),
    "French": (["Enquêteur", "Latitude", "Longitude", "Dégâts", "Date de collecte"], ["détruit", "intact"], "cp1252"),
    "Turkish": (["Gönderen", "Enlem", "Boylam", "Hasar Durumu", "Tarih"], ["yıkık", "hasarsız"], "cp1254"),
    "Russian": (["Источник", "Широта", "Долгота", "Состояние", "Дата"], ["разрушен", "цел"], "cp1251"),
    "Arabic": (["المصدر", "خط العرض", "خط الطول", "الحالة", "التاريخ"], ["مدمر", "سليم"], "cp1256"),
    "Chinese": (["上报人", "纬度", "经度", "状态", "时间"], ["淹没", "干燥"], "gb18030"),
    "Japanese": (["報告者", "緯度", "経度", "状況", "日時"], ["浸水", "なし"], "cp932"),
    "Indonesian": (["pelapor", "lintang", "bujur", "kondisi", "waktu"], ["banjir", "kering"], "utf-8"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_columns_and_labels_in_other_languages_are_understood(tmp_path, language):
    header, labels, encoding = LANGUAGES[language]
    path = tmp_path / "reports.csv"
    # Many rows: a few letters do not tell an encoding.
    body = reports(header, labels, encoding=encoding).splitlines(keepends=True)
    path.write_bytes(body[0] + b"".join(body[1:]) * 10)
    found = io.read(path, duplicates="keep").reports
    assert set(found.labels) == set(labels) and found.sources == ("ann", "bob")
    assert found.time is not None and np.isfinite(found.time).all()
    np.testing.assert_allclose(found.places[:4], [(lon, lat) for lat, lon in PLACES])
    assert decide(found.labels).state == labels[0]


def zooniverse(subject, *answers):
    needed = ["classification_id", "user_name", "created_at", "metadata", "annotations", "subject_data"]
    rows = [
        [
            i,
            "ann",
            "2015-05-01 10:41:59 UTC",
            "{}",
            json.dumps([{"task": "T0", "value": a}]),
            json.dumps({"9": subject}),
        ]
        for i, a in enumerate(answers)
    ]
    return table(needed, rows)


KOBO = ["_submission_time", "_gps_latitude", "_gps_longitude", "_gps_precision"]
DYFI = ["# Columns: Geocoded box", "CDI", "No. of responses", "Latitude", "Longitude", "City", "State"]
# name: (content, what is read)
READ: dict[str, tuple[str, dict[str, Any]]] = {
    "hemispheres in columns of their own": (
        table(["lat", "lat_dir", "lon", "lon_dir", "label"], [[18.5, "N", 72.3, "W", "a"], [1.5, "S", 72.4, "W", "b"]]),
        {"places": [(-72.3, 18.5), (-72.4, -1.5)]},
    ),
    "an N that means no": (
        table(["lat", "lon", "verified", "label"], [[18.5, 72.3, "N", "a"], [18.6, 72.4, "N", "b"]]),
        {"places": [(72.3, 18.5), (72.4, 18.6)]},
    ),
    "links to web maps": (
        table(
            ["who", "link", "label"],
            [
                ["ann", "https://www.google.com/maps?q=18.5,-72.3", "a"],
                ["bob", "https://www.google.com/maps/@18.6,-72.4,17z", "b"],
                ["bob", "https://www.openstreetmap.org/#map=17/18.55/-72.35", "b"],
                ["bob", "geo:18.52,-72.31", "b"],
            ],
        ),
        {"places": [(-72.3, 18.5), (-72.4, 18.6), (-72.35, 18.55), (-72.31, 18.52)]},
    ),
    "objects in cells": (
        table(["where", "label"], [['{"lat": 18.5, "lng": -72.3}', "a"], ["{'lat': 18.6, 'lng': -72.4}", "b"]]),
        {"places": [(-72.3, 18.5), (-72.4, 18.6)]},
    ),
    "accuracies in kilometres": (
        table(["lat", "lon", "label", "accuracy_km"], [[18.5, -72.3, "a", 0.5], [18.6, -72.4, "b", 2]]),
        {"accuracy": [500.0, 2000.0]},
    ),
    "whole numbers with decimals": (
        table(["lat", "lon", "severity"], [[18.5, -72.3, "1.0"], [18.6, -72.4, "2.0"], [18.6, -72.5, "10.0"]]),
        {"labels": (1, 2, 10)},
    ),
    "numbers that are not whole": (
        table(["lat", "lon", "label"], [[18.5, -72.3, "1.0"], [18.6, -72.4, "2.5"]]),
        {"labels": ("1.0", "2.5")},
    ),
    "a question in the name of a column": (
        table(["lat", "lon", "is_flooded", "floors"], [[*p, i % 2 == 0, 3] for i, p in enumerate(PLACES)]),
        {"labels": ("False", "True")},
    ),
    "errors of spreadsheets": (
        table(
            ["lat", "lon", "label"], [[*PLACES[0], "a"], [*PLACES[1], "b"], [*PLACES[2], "#VALUE!"], [1, 2, "(blank)"]]
        ),
        {"labels": ("a", "b")},
    ),
    "Ushahidi with a constant category": (
        table(
            ["Post ID", "Survey", "Post Status", "Contact ID", "At.lat", "At.lon", "Category", "Is it wet?"],
            [
                [""] * 8,
                *([i, "s", "published", i, *p, "Need, Water", ("yes", "no")[i % 2]] for i, p in enumerate(PLACES)),
            ],
        ),
        {"labels": ("no", "yes")},
    ),
    "Zooniverse with the places of subjects": (
        zooniverse({"latitude": "18.5", "longitude": "-72.3"}, "Yes", "No"),
        {"labels": ("No", "Yes"), "places": [(-72.3, 18.5)] * 2},
    ),
    "Zooniverse with marks around a place": (
        zooniverse({"lat": 18.5, "lon": -72.3}, [{"tool_label": "fire", "x": 1, "y": 2}] * 3, []),
        {"labels": ("fire", "nothing"), "places": [(-72.3, 18.5)] * 2},
    ),
    "a survey task of Zooniverse": (
        zooniverse(
            {"lat": 18.5, "lon": -72.3}, [{"choice": "LION", "answers": {}}, {"choice": "ZEBRA"}], [{"choice": "LION"}]
        ),
        {"labels": ("LION", "ZEBRA"), "places": [(-72.3, 18.5)] * 3},
    ),
    "Did You Feel It as text": (
        table(DYFI, [["UTM:(1)", 3.4, 2, 35.6, -117.7, "x", "CA"], ["UTM:(2)", 5.5, 1, 35.7, -117.6, "y", "CA"]]),
        {
            "labels": ("intensity 3: weak shaking", "intensity 6: strong shaking"),
            "places": [(-117.7, 35.6), (-117.6, 35.7)],
            "looks": 3,
        },
    ),
    "the probability of one state": (
        table(["lat", "lon", "p_flooded"], [[*PLACES[0], 0.9], [*PLACES[1], 0.2]]),
        {"labels": ("flooded", "not flooded"), "score": [[0.9, 0.1], [0.2, 0.8]]},
    ),
    "answers that are no states": (
        table(["lat", "lon", "label"], [[*p, ("yes", "no", "Unknown", "yes")[i]] for i, p in enumerate(PLACES)]),
        {"labels": ("Unknown", "no", "yes"), "states": ("no", "yes")},
    ),
}


@pytest.mark.parametrize("case", READ)
def test_a_variant_of_a_layout_is_read_correctly(tmp_path, case):
    content, wanted = READ[case]
    path = tmp_path / "reports"
    path.write_text(content, encoding="utf-8")
    result = io.read(path)
    found = {
        "labels": result.reports.labels,
        "states": result.states,
        "places": [tuple(np.round(place, 6).tolist()) for place in result.reports.places],
        "accuracy": None if result.reports.accuracy is None else result.reports.accuracy.tolist(),
        "looks": result.reports.n_reports,
        "score": None if result.reports.score is None else np.round(result.reports.score, 6).tolist(),
    }
    assert {name: found[name] for name in wanted} == wanted


ASKED = {
    "several answers at once": (
        table([*KOBO, "needs", "needs/water", "needs/food"], [["2023", *PLACES[0], 5, "water food", 1, 1]] * 4),
        "'needs' allows several answers.*--label 'needs/water'",
    ),
    "labels without a name that is known": (
        table(["lat", "lon", "esito"], [[*p, "AB"[i % 2]] for i, p in enumerate(PLACES)]),
        "few different values: 'esito'.*--label NAME",
    ),
    "a probability of nobody knows what": (
        table(["lat", "lon", "probability"], [[*p, 0.1 * i] for i, p in enumerate(PLACES)]),
        "'probability'.*--score-columns 'STATE=probability'",
    ),
    "west or east in one cell": (
        table(["coordonnées", "état"], [["18° 21' N, 72° 9' O", "sec"], ["18° 22' N, 72° 9' O", "inondé"]]),
        "west in French.*Write W or E",
    ),
    "subjects without a place": (zooniverse({"file": "x.jpg"}, "Yes"), "where it is.*Make a table with latitude"),
}


@pytest.mark.parametrize("case", ASKED)
def test_a_variant_in_doubt_is_refused_with_what_reads_it(tmp_path, case):
    content, message = ASKED[case]
    path = tmp_path / "reports"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ReportFormatError, match=f"(?s){message}"):
        io.read(path)


def test_a_probability_is_read_for_the_state_that_is_named(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("lat,lon,model,probability\n18.5,-72.3,unet,0.9\n18.6,-72.4,unet,0.2\n18.6,-72.3,unet,\n")
    result = io.read(path, score_columns="wet=probability", source="model")
    assert result.reports.labels == ("not wet", "wet") and result.rejected == 1
    assert result.reports.score is not None
    np.testing.assert_allclose(result.reports.score, np.array([[0.1, 0.9], [0.8, 0.2]]))


def test_a_note_names_a_second_geopoint_of_a_form_and_how_to_read_it(tmp_path):
    header = [*KOBO, "_site_latitude", "_site_longitude", "flooded"]
    path = tmp_path / "kobo.csv"
    path.write_text(
        table(header, [["2023", *p, 5, p[0] + 1, p[1], ("yes", "no")[i % 2]] for i, p in enumerate(PLACES)])
    )
    (note,) = [note for note in io.read(path).notes if "could also be" in note]
    assert "--lat '_site_latitude' --lon '_site_longitude'" in note
    there = io.read(path, lat="_site_latitude", lon="_site_longitude")
    assert there.reports.places[0].tolist() == [-72.3, 19.5]
    assert not any("could also be" in note for note in there.notes)


def test_notes_name_labels_that_are_not_states(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_text(READ["answers that are no states"][0])
    assert any("'Unknown' is an answer, not a state; --states" in note for note in io.read(path).notes)


def test_rows_with_exchanged_coordinates_are_noted_and_left_out_of_the_region(tmp_path):
    rows = [(18.5 + i / 1000, -72.3 - i / 700) for i in range(40)]
    rows[5::10] = [place[::-1] for place in rows[5::10]]
    path = tmp_path / "reports.csv"
    path.write_text(table(["lat", "lon", "label"], [[*place, "ab"[i % 2]] for i, place in enumerate(rows)]))
    result = io.read(path)
    (note,) = [note for note in result.notes if "far from all others" in note]
    assert note.startswith("4 of 40") and "4 of them would lie among the others" in note
    assert result.region.east < -72


def test_a_part_of_a_shapefile_is_refused_with_the_file_to_give(tmp_path):
    (tmp_path / "damage.shp").write_bytes(b"\x00\x00\x27\x0a")
    (tmp_path / "damage.dbf").write_bytes(b"\x03")
    with pytest.raises(ReportFormatError, match=r"part of the Shapefile damage\.shp\. Give that file"):
        io.read(tmp_path / "damage.dbf")


def test_the_name_of_a_feature_is_not_taken_for_its_source(tmp_path):
    features = [
        {
            "type": "Feature",
            "properties": {"name": ("Unknown", "School")[i % 2], "damage_gra": ("Destroyed", "Damaged")[i % 2]},
            "geometry": {"type": "Point", "coordinates": [lon, lat]},
        }
        for i, (lat, lon) in enumerate(PLACES)
    ]
    path = tmp_path / "grading.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert io.read(path).reports.sources == ("all",)
    assert io.read(path, source="name").reports.sources == ("School", "Unknown")
