"""Files that look right and would be read wrongly: read as they are meant, remarked on, or refused with what helps."""

from __future__ import annotations

import csv
import io as streams
import json
import re
import zipfile
from typing import Any

import numpy as np
import pytest

from crowdfield import io
from crowdfield.errors import ReportFormatError

PLACES = [(round(18.5 + i / 100, 2), round(-72.3 - i / 100, 2)) for i in range(12)]  # latitude, longitude
SAID = ["wet", "dry"]


def table(header: list[str], row: Any, delimiter: str = ",") -> str:
    """Twelve rows: row(i, latitude, longitude)."""
    out = streams.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([header, *(row(i, *place) for i, place in enumerate(PLACES))])
    return out.getvalue()


def plain(header: list[str], *columns: list[Any]) -> str:
    """Latitude, longitude, and further columns whose cells take turns."""
    return table(["lat", "lon", *header], lambda i, lat, lon: [lat, lon, *(cells[i % len(cells)] for cells in columns)])


def in_digits(signs: str) -> str:
    """Coordinates in the digits and with the decimal sign of other scripts."""
    other = str.maketrans("0123456789.", signs)
    return table(["lat", "lon", "label"], lambda i, *at: [*(str(x).translate(other) for x in at), SAID[i % 2]])


def linked(link: str) -> str:
    return table(["url", "label"], lambda i, lat, lon: [link.format(lat=lat, lon=lon, off=lat + 1), SAID[i % 2]])


def packed(**members: bytes) -> bytes:
    out = streams.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


BOTH = {"labels": ("dry", "wet")}
READ: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "Arabic digits": (in_digits("٠١٢٣٤٥٦٧٨٩٫"), {}, BOTH),
    "digits of full width": (in_digits("０１２３４５６７８９．"), {}, BOTH),
    "coordinates as GeoJSON writes them": (
        json.dumps([{"coordinates": [lon, lat], "label": SAID[i % 2]} for i, (lat, lon) in enumerate(PLACES)]),
        {},
        BOTH,
    ),
    "coordinates as GeoJSON writes them, in a table": (
        table(["coordinates", "label"], lambda i, lat, lon: [f"[{lon}, {lat}]", SAID[i % 2]]),
        {},
        BOTH,
    ),
    "coordinates in brackets under another name": (
        table(["_geolocation", "label"], lambda i, lat, lon: [f"[{lat}, {lon}]", SAID[i % 2]]),
        {},
        BOTH,
    ),
    "a pin beside the middle of the screen": (
        linked("https://www.openstreetmap.org/?mlat={lat}&mlon={lon}#map=12/{off}/{lon}"),
        {},
        BOTH,
    ),
    "names for degrees with decimals": (
        table(["LAT_DD", "LONG_DD", "label"], lambda i, lat, lon: [lat, lon, SAID[i % 2]]),
        {},
        BOTH,
    ),
    "the day of an event before that of its row": (
        plain(["label", "event_date", "timestamp"], SAID, ["06 February 2023"], [1675900000]),
        {},
        BOTH | {"first": "2023-02-06T00:00:00"},
    ),
    "years in Iran": (plain(["label", "date"], SAID, ["1401-11-17"]), {}, BOTH | {"note": "12 times.*calendar"}),
    "years in Thailand": (plain(["label", "date"], SAID, ["17/02/2566"]), {}, BOTH | {"note": "12 times.*calendar"}),
    "years long ago": (plain(["label", "date"], SAID, ["1851-11-17"]), {}, BOTH | {"first": "1851-11-17T00:00:00"}),
    "yes and no in many ways": (
        plain(["flooded"], ["TRUE", "true", "1", "0", "FALSE", "no"]),
        {},
        {"labels": ("no", "yes")},
    ),
    "yes and no in one way": (plain(["flooded"], ["TRUE", "FALSE"]), {}, {"labels": ("FALSE", "TRUE")}),
    "one of several answers": (
        plain(["category"], ["Flood", "Damage", "Flood, Damage"]),
        {"positive": "Flood"},
        {"labels": ("not Flood", "Flood"), "counts": (4, 8)},
    ),
    "one of several answers in brackets": (
        plain(["category"], ['["Flood"]', '["Damage"]', '["Flood", "Damage"]']),
        {"positive": "damage"},
        {"labels": ("not damage", "damage"), "counts": (4, 8)},
    ),
    "labels with commas": (
        plain(["damage"], ["yes, all", "no, none"]),
        {},
        {"labels": ("no, none", "yes, all")},
    ),
    "flags side by side": (
        plain(["flooded", "damaged", "fire"], [0, 1], [1, 0], [0, 0, 1]),
        {},
        {"labels": (0, 1), "note": "could also be 'damaged', 'fire'; --label"},
    ),
    "telephones that a spreadsheet has rounded": (
        plain(["label", "phone"], SAID, ["5.0937E+10"]),
        {},
        BOTH | {"note": "'5.0937E\\+10'.*rounded: several people"},
    ),
    "missing places at a pole": (
        plain(["label"], SAID) + "90,180,wet\n",
        {"duplicates": "keep"},
        BOTH | {"note": "1 report lies at a pole", "reports": 13},
    ),
    "the second of two latitudes": (
        table(["lat", "lon", "lat", "label"], lambda i, lat, lon: [lat + 1, lon, lat, SAID[i % 2]]),
        {"lat": "lat (2)"},
        BOTH,
    ),
    "two latitudes that are equal": (
        table(["lat", "lon", "lat", "label"], lambda i, lat, lon: [lat, lon, lat, SAID[i % 2]]),
        {},
        BOTH,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_files_are_read_as_they_are_meant(tmp_path, name):
    text, options, expected = READ[name]
    path = tmp_path / ("file.json" if text.startswith("[{") else "file.csv")
    path.write_text(text, encoding="utf-8")
    result = io.read(path, **options)
    reports = result.reports
    assert len(reports) == expected.get("reports", len(PLACES)) and result.rejected == 0
    np.testing.assert_allclose(reports.places[:12], [(lon, lat) for lat, lon in PLACES])
    assert reports.labels == expected["labels"]
    if "counts" in expected:
        assert tuple(np.bincount(reports.label)) == expected["counts"]
    if "first" in expected:
        assert reports.time[0] == np.datetime64(expected["first"], "s").astype(float)
    elif reports.time is not None:
        assert np.isnan(reports.time).all()
    note = expected.get("note", "$^")
    assert sum(re.search(note, said) is not None for said in result.notes) == ("note" in expected)


REFUSED: dict[str, tuple[str | bytes, str]] = {
    "several answers": (
        plain(["category"], ["Flood", "Damage", "Flood, Damage"]),
        "'Flood, Damage' is several answers at once. --positive 'Flood'",
    ),
    "several answers with semicolons": (
        plain(["category"], ["Flood", "Damage", "Damage;Flood"]),
        "--positive 'Damage'",
    ),
    "several answers in brackets": (
        plain(["category"], ['["Flood"]', '["Damage"]', '["Flood", "Damage"]']),
        "several answers at once. --positive 'Flood'",
    ),
    "two latitudes that differ": (
        table(["lat", "lon", "lat", "label"], lambda i, lat, lon: [lat, lon, lat + 1, SAID[i % 2]]),
        "two columns are called 'lat', and they differ. --lat 'lat' reads the first, --lat 'lat \\(2\\)'",
    ),
    "routes": (linked("https://www.google.com/maps/dir/18.1,-72.1/{lat},{lon}/@{off},{lon},12z"), "link to a route"),
    "degrees times ten million": (
        table(["lat", "lon", "label"], lambda i, lat, lon: [int(lat * 1e7), int(lon * 1e7), SAID[i % 2]]),
        "Are these degrees",
    ),
    "degrees and minutes run together": (
        table(["lat", "lon", "label"], lambda i, lat, lon: [f"18{i + 10}.5", f"-072{i + 10}.5", SAID[i % 2]]),
        "Are these degrees",
    ),
    "thousands in degrees": (
        table(["lat", "lon", "label"], lambda i, lat, lon: [f"18.5{i:02d}.000", f"-72.3{i:02d}.000", SAID[i % 2]]),
        "'18.500.000' is not a number",
    ),
    "degrees that became dates": (
        table(["lat", "lon", "label"], lambda i, lat, lon: [f"{i + 1}-May", lon, SAID[i % 2]]),
        "'1-May' is not a number",
    ),
    "names of rows without a heading": (
        table(["lat", "lon", "label"], lambda i, lat, lon: [i, lat, lon, SAID[i % 2]]),
        "more fields than the header",
    ),
    "a column for each person": (plain(["ann", "bob"], SAID, SAID[::-1]), "'ann', 'bob'.*--label NAME"),
    "where it starts and ends": (
        table(
            ["start_lat", "start_lon", "end_lat", "end_lon", "label"],
            lambda i, lat, lon: [lat, lon, lat + 1, lon, SAID[i % 2]],
        ),
        "--lat NAME --lon NAME",
    ),
    "a workbook of Numbers": (packed(**{"Index/Document.iwa": b"\0", "preview.jpg": b"x"}), "office program.*as CSV"),
    "a binary workbook": (
        packed(**{"[Content_Types].xml": b"<x/>", "xl/workbook.bin": b"\x83"}),
        "office program.*as CSV",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_could_mean_two_things_are_refused_with_what_helps(tmp_path, name):
    content, message = REFUSED[name]
    path = tmp_path / "file.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ReportFormatError, match=message):
        io.read(path)
