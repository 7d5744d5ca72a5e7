"""Places written as codes: geohashes ("u4pruyd"), full plus codes, also called Open Location Codes ("8FVC9G8F+6X"), and
H3 cells ("886725cf55fffff").

Each stands for a cell. The place is its middle, known as exactly as the cell is large.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crowdfield.io.area_places import METRES, RADIUS

_GEOHASH_DIGITS = "0123456789bcdefghjkmnpqrstuvwxyz"
_GEOHASH = re.compile(f"[{_GEOHASH_DIGITS}]{{4,12}}", re.IGNORECASE)
_FEWEST_GEOHASHES = 0.9  # share of the cells of a column that must be geohashes for it to hold them
_PLUS_DIGITS = "23456789CFGHJMPQRVWX"
_PLUS_CODE = re.compile(rf"([{_PLUS_DIGITS}0]{{8}})\+([{_PLUS_DIGITS}]{{2,7}})?", re.IGNORECASE)
_SHORT_PLUS_CODE = re.compile(rf"[{_PLUS_DIGITS}]{{2,6}}\+[{_PLUS_DIGITS}]{{2,7}}(\W.*)?", re.IGNORECASE)
_PAIRS = 5  # pairs of digits before the fine ones, each a twentieth of the one before
_FINE_ROWS, _FINE_COLUMNS = 5, 4  # into which every digit after the pairs divides a cell
_H3 = re.compile(r"(?:0x)?(0?8[0-9a-f]{14})|([56]\d{17})", re.IGNORECASE)  # in hexadecimal digits, or as a number
_H3_CELL_MODE = 1  # other modes are edges and corners of cells
_H3_BASE_CELLS = 122
_H3_PENTAGONS = frozenset({4, 14, 24, 38, 49, 58, 63, 72, 83, 97, 107, 117})  # base cells without their first child
_H3_FINEST = 15
_HEXAGON = 5.0 / (36.0 * np.sqrt(3.0))  # the variance of each coordinate over a regular hexagon of area 1
NO_H3 = (
    "is an H3 cell, for which the package h3 is needed. Install it with: pip install 'crowdfield[geo]'. Or write the "
    "centre of each cell to columns lat and lon, and say how large the cells are with --accuracy."
)
SHORT = "is a short plus code, which needs the place it is near. Use full codes such as 8FVC9G8F+6X."


class Cell(NamedTuple):
    """The middle of a cell in degrees, and how exactly it is known in metres (`io.area_places`)."""

    lon: float
    lat: float
    accuracy: float


def are_geohashes(cells: Sequence[str]) -> bool:
    """Whether a column holds geohashes: nearly all of its cells are, and most have digits and letters, unlike words."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    found = [cell for cell in filled if _GEOHASH.fullmatch(cell)]
    mixed = [cell for cell in found if not cell.isdecimal() and not cell.isalpha()]
    return len(found) >= max(1, _FEWEST_GEOHASHES * len(filled)) and 2 * len(mixed) >= len(found)


def geohash(text: str) -> Cell | None:
    """The cell of a geohash; None for anything else. Its bits halve longitude and latitude in turn."""
    if not _GEOHASH.fullmatch(text):
        return None
    bits = "".join(f"{_GEOHASH_DIGITS.index(digit):05b}" for digit in text.lower())
    (west, width), (south, height) = (
        (-half + 2.0 * half * int(own, 2) / 2 ** len(own), 2.0 * half / 2 ** len(own))
        for own, half in ((bits[::2], 180.0), (bits[1::2], 90.0))
    )
    return _cell(west, south, width, height)


def plus_code(text: str) -> Cell | None:
    """The cell of a full plus code; None for anything else."""
    match = _PLUS_CODE.fullmatch(text)
    if match is None:
        return None
    start = match[1].upper().rstrip("0")
    if "0" in start or len(start) % 2 or not start or (len(start) < 8 and match[2]):
        return None  # zeros stand only for pairs that are left out at the end, with nothing after the plus sign
    digits = [_PLUS_DIGITS.index(digit) for digit in start + (match[2] or "").upper()]
    south, west, height, width = -90.0, -180.0, 400.0, 400.0
    for pair in range(0, min(len(digits), 2 * _PAIRS), 2):
        height, width = height / 20.0, width / 20.0
        south, west = south + digits[pair] * height, west + digits[pair + 1] * width
    for digit in digits[2 * _PAIRS :]:
        height, width = height / _FINE_ROWS, width / _FINE_COLUMNS
        south, west = south + (digit // _FINE_COLUMNS) * height, west + (digit % _FINE_COLUMNS) * width
    return None if south >= 90.0 or west >= 180.0 else _cell(west, south, width, height)


def h3_number(text: str) -> int | None:
    """The number of an H3 cell; None for anything else.

    Four bits for the mode, three that are 0, four for the resolution, seven for the base cell, then fifteen digits of
    three bits, of which those finer than the cell are 7.
    """
    match = _H3.fullmatch(text)
    if match is None:
        return None
    number = int(match[1], 16) if match[1] else int(match[2])
    resolution, base = number >> 52 & 0xF, number >> 45 & 0x7F
    digits = [number >> 3 * (_H3_FINEST - level) & 7 for level in range(1, _H3_FINEST + 1)]
    is_cell = (
        number >> 56 == _H3_CELL_MODE << 3
        and base < _H3_BASE_CELLS
        and 7 not in digits[:resolution]
        and set(digits[resolution:]) <= {7}
        and not (base in _H3_PENTAGONS and next(filter(None, digits), 0) == 1)
    )
    return number if is_cell else None


def h3_cell(number: int) -> Cell | None:
    """The cell with a number; None if the package h3 is not installed."""
    try:
        import h3.api.basic_int as h3
    except ImportError:
        return None
    lat, lon = h3.cell_to_latlng(number)
    return Cell(lon, lat, float(RADIUS * np.sqrt(_HEXAGON * h3.cell_area(number, unit="m^2"))))


def is_short_plus_code(text: str) -> bool:
    """Whether a text is a plus code that lacks its area."""
    return _SHORT_PLUS_CODE.fullmatch(text) is not None


def _cell(west: float, south: float, width: float, height: float) -> Cell:
    lat = south + 0.5 * height
    sides = METRES * np.array([width * np.cos(np.radians(lat)), height])
    return Cell(west + 0.5 * width, lat, float(RADIUS * np.sqrt((sides**2).mean() / 12.0)))
