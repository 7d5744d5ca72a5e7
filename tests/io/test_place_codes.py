"""Geohashes and plus codes as places."""

import numpy as np
import pandas as pd
import pytest

import crowdfield as cf
from crowdfield.errors import ReportFormatError
from crowdfield.io import place_codes
from crowdfield.io.places import place


@pytest.mark.parametrize(
    ("code", "lat", "lon", "digits"),
    [
        ("8FVC9G8F+6X", 47.3655625, 8.5249375, 4),  # of Google's own documentation
        ("8fvc2222+22", 47.0000625, 8.0000625, 7),
        ("7FG49Q00+", 20.375, 2.775, 6),
        ("8FVC0000+", 47.5, 8.5, 6),
        ("22220000+", -89.5, -179.5, 6),
        ("CFX3X2X2+X2", 89.9998750, 1.0, 3),
        ("8FVC9G8F+6XQ", 47.3655875, 8.5249844, 6),
    ],
)
def test_a_plus_code_is_the_middle_of_its_cell(code, lat, lon, digits):
    cell = place_codes.plus_code(code)
    assert cell is not None
    if code != "CFX3X2X2+X2":
        assert cell.lon == pytest.approx(lon, abs=10.0**-digits)
    assert cell.lat == pytest.approx(lat, abs=10.0**-digits)
    assert place(code)[:2] == (cell.lon, cell.lat)


@pytest.mark.parametrize(
    ("code", "lat", "lon", "within"),
    [
        ("ezs42", 42.605, -5.603, 0.03),
        ("u4pruydqqvj", 57.64911, 10.40744, 1e-5),
        ("S000", 0.0879, 0.1758, 1e-3),
    ],
)
def test_a_geohash_is_the_middle_of_its_cell(code, lat, lon, within):
    cell = place_codes.geohash(code)
    assert cell is not None and (cell.lat, cell.lon) == pytest.approx((lat, lon), abs=within)


@pytest.mark.parametrize(
    ("code", "side"),
    [("u4pruyd", 153.0), ("8FVC9G8F+6X", 13.9), ("8FVC9G00+", 5560.0), ("s0000000", 38.2)],
)
def test_the_accuracy_is_that_of_a_tile_of_the_cells_size(code, side):
    cell = place_codes.plus_code(code) or place_codes.geohash(code)
    assert cell is not None and 0.43 * 0.55 * side < cell.accuracy < 0.44 * side  # cells are narrower far north


@pytest.mark.parametrize(
    "text",
    ["", "8FVC9G8F", "9G8F+6X", "8FVC9G8F+6", "8FVC0G8F+6X", "00000000+", "8FVC9G00+22", "XFVC9G8F+6X", "8XVC9G8F+6X"],
)
def test_text_that_is_not_a_full_plus_code_gives_no_place(text):
    assert place_codes.plus_code(text) is None


def encoded_geohash(lat, lon, length):
    """The usual way to write a geohash: halve, and note which half."""
    ranges, bits = {0: [-180.0, 180.0], 1: [-90.0, 90.0]}, ""
    for turn in range(5 * length):
        low, high = ranges[turn % 2]
        upper = (lon, lat)[turn % 2] >= (low + high) / 2
        ranges[turn % 2] = [(low + high) / 2, high] if upper else [low, (low + high) / 2]
        bits += str(int(upper))
    return "".join("0123456789bcdefghjkmnpqrstuvwxyz"[int(bits[i : i + 5], 2)] for i in range(0, len(bits), 5))


def encoded_plus_code(lat, lon):
    """Ten digits: both coordinates in units of 1/8000 of a degree, in base 20."""
    north, east = int((lat + 90) * 8000), int((lon + 180) * 8000)
    digits = "23456789CFGHJMPQRVWX"
    code = "".join(digits[north // 20**k % 20] + digits[east // 20**k % 20] for k in range(4, -1, -1))
    return f"{code[:8]}+{code[8:]}"


PORT_AU_PRINCE = [(18.5432, -72.3388), (18.5601, -72.3002)]


def test_what_an_independent_encoder_writes_is_read_back():
    for lat, lon in [*PORT_AU_PRINCE, (-33.9, 151.2), (64.1, -21.9), (0.1, 0.1)]:
        near = place_codes.geohash(encoded_geohash(lat, lon, 9))
        far = place_codes.plus_code(encoded_plus_code(lat, lon))
        assert near is not None and (near.lat, near.lon) == pytest.approx((lat, lon), abs=3e-5)
        assert far is not None and (far.lat, far.lon) == pytest.approx((lat, lon), abs=7e-5)


HASHES = [encoded_geohash(lat, lon, 9) for lat, lon in PORT_AU_PRINCE]
PLUS_CODES = [encoded_plus_code(lat, lon) for lat, lon in PORT_AU_PRINCE]


def write(tmp_path, *lines):
    file = tmp_path / "reports.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("plus_code", PLUS_CODES),
        ("where", PLUS_CODES),
        ("geohash", HASHES),
        ("Location", HASHES),
    ],
)
def test_a_column_of_codes_is_recognised_and_says_how_exact_it_is(tmp_path, header, cells):
    result = cf.io.read(write(tmp_path, f"{header},label", f"{cells[0]},wet", f"{cells[1]},dry"))
    assert result.used == 2 and result.columns["lat"] == header
    assert result.reports.places[:, ::-1] == pytest.approx(np.array(PORT_AU_PRINCE), abs=1e-4)
    assert result.reports.accuracy is not None and (result.reports.accuracy > 0).all()
    frame = pd.DataFrame({header: cells, "label": ["wet", "dry"]})
    again = cf.io.from_frame(frame)
    assert again.places == pytest.approx(result.reports.places)
    assert again.accuracy == pytest.approx(result.reports.accuracy)


def test_a_stated_accuracy_goes_before_that_of_the_code(tmp_path):
    lines = ["geohash,label,accuracy_m", "d7q8u4xkb,wet,50", "d7q8uf1mz,dry,"]
    accuracy = cf.io.read(write(tmp_path, *lines)).reports.accuracy
    assert accuracy[0] == 50 and 0 < accuracy[1] < 5


@pytest.mark.parametrize("cells", [("u1023", "u1024"), ("wet7", "dry9")])
def test_names_that_look_like_geohashes_are_not_taken_for_places(tmp_path, cells):
    with pytest.raises(ReportFormatError, match="no column for the latitude"):
        cf.io.read(write(tmp_path, "user,label", f"{cells[0]},wet", f"{cells[1]},dry"))


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("GMXP+2V Port-au-Prince", "short plus code"),
        ("76RRGMXP+2", "is not a place"),
        ("76RRGMXPQ", "is not a place"),
    ],
)
def test_codes_that_are_not_places_are_refused_with_a_reason(tmp_path, cell, says):
    lines = ["plus_code,label", "76RRGMXP+2V,wet", f"{cell},dry"]
    result = cf.io.read(write(tmp_path, *lines), place="plus_code")
    assert result.used == 1 and says in result.rejects[0].reason


def test_a_named_column_may_hold_geohashes_whatever_it_is_called(tmp_path):
    lines = ["at,label", "d7q8u4xkb,wet", "123456789,dry", "d7q8uf1mz,dry", *["d7q8uf1my,dry"] * 9]
    result = cf.io.read(write(tmp_path, *lines), place="at", duplicates="keep")
    assert result.used == 12  # a geohash may consist of digits alone
