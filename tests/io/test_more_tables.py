"""Grid references, H3 cells, dates of spreadsheets, confidences and surveys of one question, as tables hold them."""

import sys

import numpy as np
import pytest

from crowdfield import geography, io
from crowdfield.errors import ReportFormatError
from crowdfield.io import place_codes
from crowdfield.io.mgrs import mgrs


@pytest.mark.parametrize(
    ("reference", "lat", "lon", "accuracy"),
    [
        ("18SUJ2337106519", 38.8898, -77.0366, 0.44),  # the Jefferson Pier in Washington
        ("18S UJ 23371 06519", 38.8898, -77.0366, 0.44),
        ("4QFJ1234567890", 21.4098, -157.9161, 0.44),  # the example of the standard, on Oahu
        ("31UDQ4825111932", 48.8583, 2.2945, 0.44),  # the Eiffel tower
        ("56HLH3490052280", -33.8568, 151.2153, 0.44),  # the opera of Sydney
        ("18SUJ2306", 38.8898, -77.0366, 440.0),
    ],
)
def test_references_of_known_buildings(reference, lat, lon, accuracy):
    found = mgrs(reference)
    assert found is not None
    reach = 1e-3 if accuracy < 1 else 0.01
    assert [found.lat, found.lon] == pytest.approx([lat, lon], abs=reach)
    assert found.accuracy == pytest.approx(accuracy, rel=0.02)


def test_every_square_is_where_its_own_letters_say():
    rng = np.random.default_rng(3)
    for _ in range(200):
        lon, lat = rng.uniform(-180, 180), rng.uniform(-79, 83)
        zone = int((lon + 180) // 6) + 1
        system = f"EPSG:{(32600 if lat >= 0 else 32700) + zone}"
        east, north = geography.transform(np.array([[lon, lat]]), geography.WGS84, system)[0]
        band = "CDEFGHJKLMNPQRSTUVWX"[min(int((lat + 80) // 8), 19)]
        column = "ABCDEFGHJKLMNPQRSTUVWXYZ"[8 * ((zone - 1) % 3) + int(east // 100_000) - 1]
        row = "ABCDEFGHJKLMNPQRSTUV"[(int(north // 100_000) + (5 if zone % 2 == 0 else 0)) % 20]
        found = mgrs(f"{zone}{band}{column}{row}{int(east % 100_000):05d}{int(north % 100_000):05d}")
        assert found is not None and [found.lon, found.lat] == pytest.approx([lon, lat], abs=1e-4)


@pytest.mark.parametrize(
    "text", ["61SUJ2306", "18SAJ2306", "18SUJ230", "18SIJ23", "ann", "18SUJ1234567890123", "18suj2306"]
)
def test_text_that_is_not_a_grid_reference_gives_no_place(text):
    assert mgrs(text) is None


def test_a_table_of_grid_references_is_read_with_the_accuracy_of_their_squares(tmp_path):
    path = tmp_path / "patrols.csv"
    path.write_text("mgrs,label,source\n18SUJ2306,flooded,ann\n18S UJ 24 06,dry,bob\n")
    read = io.read(path)
    assert read.reports.places[:, 1] == pytest.approx(38.898, abs=0.01)
    assert read.reports.accuracy == pytest.approx([436, 436], rel=0.01)


HEXAGONS = ("8828308281fffff,flooded,ann", "8828308283fffff,dry,bob")
HEXAGONS_AS_NUMBERS = ("613196570331971583,flooded,ann", "613196570334068735,dry,bob")


@pytest.mark.parametrize("column", ["h3", "h3_index", "hex_id", "cell", "tile"])
@pytest.mark.parametrize("rows", [HEXAGONS, HEXAGONS_AS_NUMBERS])
def test_h3_cells_are_places_as_exact_as_they_are_large(tmp_path, column, rows):
    pytest.importorskip("h3")
    path = tmp_path / "hexagons.csv"
    path.write_text("\n".join([f"{column},label,source", *rows]))
    read = io.read(path)
    assert read.reports.places[0] == pytest.approx([-122.41827, 37.77352], abs=1e-5)
    assert read.reports.accuracy == pytest.approx([374, 374], rel=0.002)  # hexagons of 0.766 km²
    assert read.reports.area is None
    whole = io.read(path, polygons="area")
    assert whole.reports.area.all() and (whole.reports.accuracy == read.reports.accuracy).all()


@pytest.mark.parametrize("rows", [HEXAGONS, HEXAGONS_AS_NUMBERS])
def test_without_its_package_h3_cells_are_refused_with_what_to_do(tmp_path, monkeypatch, rows):
    monkeypatch.setitem(sys.modules, "h3.api.basic_int", None)
    path = tmp_path / "hexagons.csv"
    path.write_text("\n".join(["h3,label,source", *rows]))
    with pytest.raises(ReportFormatError, match=r"crowdfield\[geo\].*--accuracy"):
        io.read(path)


def test_numbers_of_h3_cells_are_those_that_its_package_takes_for_valid():
    h3 = pytest.importorskip("h3")
    rng = np.random.default_rng(0)
    for _ in range(500):
        lat, lon = np.degrees(np.arcsin(rng.uniform(-1, 1))), rng.uniform(-180, 180)
        cell = h3.latlng_to_cell(lat, lon, int(rng.integers(16)))
        number = h3.str_to_int(cell)
        for text in (cell, cell.upper(), f"0x{cell}", f"0{cell}", str(number)):
            assert place_codes.h3_number(text) == number
        flipped = f"{number ^ (1 << int(rng.integers(60))):x}"
        assert (place_codes.h3_number(flipped) is not None) == h3.is_valid_cell(flipped)
        assert place_codes.h3_number(h3.origin_to_directed_edges(cell)[0]) is None


@pytest.mark.parametrize("cells", [("45200.5", "45201.25"), ("45200.5", "")])
def test_numbers_of_days_are_dates_of_a_spreadsheet(tmp_path, cells):
    path = tmp_path / "sheet.csv"
    path.write_text(f"lat,lon,label,source,date\n18.5,-72.3,wet,ann,{cells[0]}\n18.6,-72.3,dry,bob,{cells[1]}\n")
    read = io.read(path)
    assert read.reports.time is not None
    assert read.reports.time[0] == np.datetime64("2023-10-01T12:00:00").astype("datetime64[s]").astype(float)
    assert any("spreadsheet" in note for note in read.notes)


def test_numbers_are_dates_only_if_all_can_be_counts_of_days(tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_text("lat,lon,label,source,date\n18.5,-72.3,wet,ann,45200.5\n18.6,-72.3,dry,bob,12\n")
    read = io.read(path)
    assert read.reports.time is None or np.isnan(read.reports.time).all()


@pytest.mark.parametrize(
    ("column", "cells", "said"),
    [
        ("confidence", "0.9 0.7", True),
        ("Certainty", "1 0.5", True),
        ("confidence", "high low", False),
        ("score", "3 4", False),
    ],
)
def test_a_note_names_a_column_of_confidences_that_is_not_used(tmp_path, column, cells, said):
    path = tmp_path / "sure.csv"
    first, second = cells.split()
    path.write_text(f"lat,lon,label,source,{column}\n18.5,-72.3,wet,ann,{first}\n18.6,-72.3,dry,bob,{second}\n")
    read = io.read(path)
    assert any(f"--score '{column}'" in note for note in read.notes) == said
    if said:
        assert io.read(path, score=column).reports.score is not None


def test_a_survey_of_one_question_is_not_taken_for_a_file_cut_wrongly(tmp_path):
    path = tmp_path / "kobo.csv"
    path.write_text(
        "start;_gps_latitude;_gps_longitude;_gps_precision;Is the road passable?;_id;_uuid;_submission_time\n"
        "2026-11-01T10:00:00;18.5;-72.3;5;yes;1;u1;2026-11-01T10:00:00\n"
        "2026-11-01T10:00:00;18.6;-72.3;4;no;2;u2;2026-11-01T10:05:00\n"
    )
    with pytest.raises(ReportFormatError, match="--label NAME") as refused:
        io.read(path)
    assert "delimiter" not in str(refused.value)
    assert io.read(path, label="Is the road passable?").reports.accuracy is not None
