"""The Military Grid Reference System: "18S UJ 23371 06519" is a square metre, "18SUJ2306" a square kilometre."""

from __future__ import annotations

import re

import numpy as np

from crowdfield import geography
from crowdfield.io.area_places import RADIUS
from crowdfield.io.place_codes import Cell

# Zone, band of latitude, column and row of a square of 100 km, then as many digits of easting as of northing.
_REFERENCE = re.compile(r"(\d{1,2})\s?([C-HJ-NP-X])\s?([A-HJ-NP-Z])([A-HJ-NP-V])\s?(\d*)\s?(\d*)")
_BANDS = "CDEFGHJKLMNPQRSTUVWX"  # of 8 degrees, from 80 degrees south
_COLUMNS = ("ABCDEFGH", "JKLMNPQR", "STUVWXYZ")  # of zones 1, 2, 3, and so on in turn
_ROWS = "ABCDEFGHJKLMNPQRSTUV"  # from the equator; in even zones they begin at F
_SQUARE = 100_000.0  # metres
_AGAIN = 2_000_000.0  # metres of northing after which rows repeat


def mgrs(text: str) -> Cell | None:
    """The middle of the square that a reference names; None for anything else, and near the poles."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        return None
    zone, band, column, row = int(match[1]), match[2], match[3], match[4]
    digits = match[5] + match[6]
    half = len(digits) // 2
    if not 1 <= zone <= 60 or len(digits) % 2 or half > 5 or (match[6] and len(match[5]) != half):
        return None
    if column not in _COLUMNS[(zone - 1) % 3]:
        return None
    size = _SQUARE / 10**half
    inside = [size * (int(part or "0") + 0.5) for part in (digits[:half], digits[half:])]
    easting = _SQUARE * (1 + _COLUMNS[(zone - 1) % 3].index(column)) + inside[0]
    northing = _SQUARE * ((_ROWS.index(row) - (5 if zone % 2 == 0 else 0)) % len(_ROWS)) + inside[1]
    system = f"EPSG:{32600 + zone if band >= 'N' else 32700 + zone}"
    bottom = [6.0 * zone - 183.0, 8.0 * _BANDS.index(band) - 80.0]
    # A band is 900 km high and curved: a square below its lower edge is one of the next turn.
    lowest = geography.transform(np.array([bottom]), geography.WGS84, system)[0, 1] - _SQUARE
    northing += _AGAIN * max(np.ceil((lowest - northing) / _AGAIN), 0.0)
    lon, lat = geography.transform(np.array([[easting, northing]]), system, geography.WGS84)[0]
    return Cell(float(lon), float(lat), float(RADIUS * size / np.sqrt(12.0)))
