"""Whole places in one cell: geopoints ("lat lon alt acc"), "lat, lon", WKT, GeoJSON, degrees with minutes, codes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from crowdfield.geography import WGS84
from crowdfield.io import place_codes
from crowdfield.io.area_places import radii
from crowdfield.io.column_names import SYNONYMS, canonical
from crowdfield.io.columns import is_missing
from crowdfield.io.features.shapes import from_json, from_wkb, from_wkt
from crowdfield.io.mgrs import mgrs

_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE]-?\d+)?"
# Two to four numbers, with or without brackets around them: latitude, longitude, altitude, accuracy.
_NUMBERS = re.compile(
    rf"\s*[\[(]?\s*({_NUMBER})(?:\s*[,;]\s*|\s+)({_NUMBER})(?:(?:\s*[,;]\s*|\s+)({_NUMBER}))?"
    rf"(?:(?:\s*[,;]\s*|\s+)({_NUMBER}))?\s*[\])]?\s*"
)
_DECIMAL_COMMAS = re.compile(r"\s*[\[(]?([-+]?\d+,\d+)(?:\s*;\s*|,\s+|\s+)([-+]?\d+,\d+)[\])]?\s*")
_COMMAS_ALONE = re.compile(r"\s*[-+]?\d+,\d+,[-+]?\d+,\d+\s*")  # two numbers with decimal commas, or four
# Numbers with their names: "lat: 18.5, lon: -72.3".
_NAMED = re.compile(
    rf"\s*lat(?:itude)?\.?\s*[:=]?\s*({_NUMBER})\s*[,;]?\s*(?:lon|lng|long|longitude)\.?\s*[:=]?\s*({_NUMBER})\s*",
    re.IGNORECASE,
)
# Degrees with minutes and seconds, and the letter of the hemisphere before or after. The signs for them vary.
_PRIME, _SECOND = r"['’′‘`´]", r"(?:[\"”″“]|''|’’|′′)"
# Something must stand between them: "18.512.345" is a number that a spreadsheet has spoilt.
_DMS = (
    r"(?P<before{n}>[NSEWnsew])?\s*(?P<sign{n}>[-+])?\s*(?P<d{n}>\d{{1,3}}(?:[.,]\d+)?)"
    rf"(?:(?:\s*[°º˚d:]\s*|\s+)(?P<m{{n}}>\d{{{{1,2}}}}(?:[.,]\d+)?)"
    rf"(?:(?:\s*(?:{_PRIME}|[m:])\s*|\s+)(?P<s{{n}}>\d{{{{1,2}}}}(?:[.,]\d+)?)\s*(?:{_SECOND}|{_PRIME}{{{{2}}}}|s)?"
    rf"|\s*(?:{_PRIME}|m)?)|\s*[°º˚d]?)\s*(?P<after{{n}}>[NSEWnsew])?"
)
_ONE_DMS = re.compile(r"\s*" + _DMS.format(n=1) + r"\s*")
_TWO_DMS = re.compile(r"\s*" + _DMS.format(n=1) + r"\s*[,;]?\s+" + _DMS.format(n=2) + r"\s*")
_LON_FIRST = re.compile(r"(lon|lng|long|x|east)[a-z]*[\s_,;/&-]*(and)?[\s_,;/&-]*(lat|y|north)", re.IGNORECASE)
_SRID = re.compile(r"^SRID=(\d{1,6});", re.IGNORECASE)
_HEX = re.compile(r"0[01](?:[0-9a-f]{2}){20,}", re.IGNORECASE)  # well-known binary, as PostGIS writes it
_DEGREES = (0, 4326)  # SRIDs: none, and longitude and latitude
_WEST_OR_EAST = re.compile(r"\d\s*[°º˚'’′\"”″]\s*O\s*$", re.IGNORECASE)
# The pin of a place in an address of Google Maps; "@lat,lon" before it is only the middle of the screen.
_PIN = re.compile(rf"https?://\S*!3d({_NUMBER})!4d({_NUMBER})(?![\d.])", re.IGNORECASE)
# The pin of OpenStreetMap; "#map=…" behind it is the middle of the screen.
_MARKER = re.compile(rf"https?://\S*[?&]mlat=({_NUMBER})&mlon=({_NUMBER})(?![\d.])", re.IGNORECASE)
_ROUTE = re.compile(r"https?://\S*/maps/dir/\S+", re.IGNORECASE)
ROUTE = "is a link to a route, which has more than one place. Copy the link of the place itself."
# A place in the address of a web map: "?q=18.5,-72.3", "/@18.5,-72.3,17z", "#map=17/18.5/-72.3", "geo:18.5,-72.3".
_LINK = re.compile(
    rf"(?:https?://\S*?(?:[@=]|#map=\d{{1,2}}(?:\.\d+)?/)|geo:)({_NUMBER})(?:,|/|%2C)\+?({_NUMBER})(?![\d.])",
    re.IGNORECASE,
)
_AS_PYTHON = re.compile(r"\{\s*'")  # an object as Python writes it, with single quotes
_THREE_WORDS = re.compile(
    r"(?:https?://(?:w3w\.co|what3words\.com|map\.what3words\.com)/|/{3})?[^\W\d_]+\.[^\W\d_]+\.[^\W\d_]+",
    re.IGNORECASE,
)
THREE_WORDS = (
    "is an address of what3words, which cannot be read without its service. Export the places as latitude and "
    "longitude, or look them up at what3words.com."
)
_SHORT_LINK = re.compile(r"https?://(?:maps\.app\.goo\.gl|goo\.gl/maps|g\.co|osm\.org/go|bit\.ly)/\S+", re.IGNORECASE)
SHORT_LINK = (
    "is a short link, which does not contain the place. Open it and copy the whole address of the map, or its latitude "
    "and longitude."
)
# Signs as word processors write them, and those of Arabic and Chinese numbers, whose digits Python reads.
_MINUS = str.maketrans({"−": "-", "‒": "-", "–": "-", "\u00a0": " ", "\u202f": " ", "٫": ".", "．": ".", "－": "-"})
LONGEST = 120  # characters of a place in numbers; more would only keep the regular expressions busy
_POLYGONS = ("Polygon", "MultiPolygon")


class Place(NamedTuple):
    """The place in a cell; `why`: the reason if the cell is not a place."""

    lon: float = np.nan
    lat: float = np.nan
    accuracy: float = np.nan  # metres
    why: str | None = None
    is_area: bool = False  # a polygon, whether it is read or not, or a cell of a code that is read as one
    in_doubt: bool = False  # certainly a place, but one that cannot be read or could be one of two


def place(cell: str, *, lon_first: bool = False, polygons: str | None = None, geohashes: bool = False) -> Place:
    """The place in a cell. polygons: how to read them, "inner-point" or "area"; geohashes: whether the column contains
    geohashes, which cannot be distinguished from words or numbers one by one.
    """
    text = cell.strip()
    for known, why in ((_THREE_WORDS, THREE_WORDS), (_SHORT_LINK, SHORT_LINK), (_ROUTE, ROUTE)):
        if known.fullmatch(text):
            return Place(why=why, in_doubt=True)
    if (number := place_codes.h3_number(text)) is not None:
        hexagon = place_codes.h3_cell(number)
        return Place(why=place_codes.NO_H3, in_doubt=True) if hexagon is None else _of_code(hexagon, polygons)
    # References are in capitals and geohashes hardly ever: what could be both is a reference.
    code = mgrs(text) or (place_codes.geohash(text) if geohashes else None) or place_codes.plus_code(text)
    if code is not None:
        return _of_code(code, polygons)
    if text[:1] == "{":
        return _of_json(text, polygons)
    if text[:1].isalpha() and "(" in text:
        shape = from_wkt(_SRID.sub("", text))
        if shape is not None and (stated := _SRID.match(text)):
            shape = shapely.set_srid(shape, int(stated[1]))
        return Place(why="is not a geometry in WKT.") if shape is None else _of_shape(shape, polygons)
    if _HEX.fullmatch(text):
        shape = from_wkb([bytes.fromhex(text)])[0][0]
        return Place(why="is not a geometry in WKB.") if shape is None else _of_shape(shape, polygons)
    if link := _PIN.match(text) or _MARKER.match(text) or _LINK.match(text):
        return _pair(float(link[1]), float(link[2]), lon_first=False)
    if ";" in text and (shape := _of_corners(text)) is not None:
        return _of_shape(shape, polygons)
    if len(text) > LONGEST:
        return Place(why=f"'{text[:40]}…' is not a place.")
    text = text.translate(_MINUS)
    if _COMMAS_ALONE.fullmatch(text):
        why = f"'{text[:40]}' may be two numbers with decimal commas, or four. Write decimal points, or ; between them."
        return Place(why=why, in_doubt=True)
    if match := _NAMED.fullmatch(text):
        return _pair(float(match[1]), float(match[2]), lon_first=False)
    if match := _DECIMAL_COMMAS.fullmatch(text):
        first, second = (float(part.replace(",", ".")) for part in match.groups())
        return _pair(first, second, lon_first)
    if match := _NUMBERS.fullmatch(text):
        first, second, _, accuracy = (np.nan if part is None else float(part) for part in match.groups())
        return _pair(first, second, lon_first, accuracy)
    if match := _TWO_DMS.fullmatch(text):
        return _of_dms(match)
    if place_codes.is_short_plus_code(text):
        return Place(why=place_codes.SHORT)
    if _WEST_OR_EAST.search(text):
        return Place(why=f"'{text[:40]}' {why_not_degrees(text)}", in_doubt=True)
    return Place(
        why=f"'{text[:40]}' is not a place: 'lat, lon', WKT, WKB, GeoJSON, degrees with minutes, a grid reference, "
        "a full plus code or an H3 cell."
    )


def degrees(cell: str) -> float:
    """Degrees with minutes, seconds or the letter of a hemisphere (18° 32' 14.2" N, 72.3 W); NaN for anything else."""
    # Spreadsheets put an apostrophe before a number that is stored as text.
    text = cell.translate(_MINUS).strip().removeprefix("'")
    match = _ONE_DMS.fullmatch(text) if len(text) <= LONGEST else None
    return np.nan if match is None else _angle(match, 1)


def why_not_degrees(cell: str) -> str:
    """Why a cell is not a latitude or longitude, for an error message."""
    if _WEST_OR_EAST.search(cell):
        return "ends in 'O', which is west in French and Spanish and east in German. Write W or E."
    return "is not a number."


def places(cells: pd.Series[Any], *, lon_first: bool, polygons: str | None) -> list[Place]:
    """The place in each cell of a column. Each different text is read once."""
    codes, different = pd.factorize(cells.astype(object).where(cells.notna(), "").astype(str))
    geohashes = place_codes.are_geohashes(different.tolist())
    known = [place(text, lon_first=lon_first, polygons=polygons, geohashes=geohashes) for text in different]
    return [known[code] for code in codes]


def find_column(header: Sequence[str], samples: Mapping[str, Sequence[str]]) -> str | None:
    """The column with whole places: the one with the most filled cells, but one that also has accuracies first, and one
    that cannot be read last."""
    best: tuple[tuple[int, int, int, int], str] | None = None
    for name in header:
        filled = [cell for cell in samples.get(name, ()) if not is_missing(cell) and not _is_date(cell)]
        # Names of people and things may look like geohashes too: the column's name must agree.
        geohashes = place_codes.are_geohashes(filled) and _named_as_code(name)
        read = [place(cell, geohashes=geohashes) for cell in filled[:100]]
        good = [p for p in read if p.why is None or p.is_area or p.in_doubt]
        if not filled or len(good) < 0.9 * len(read):
            continue
        if not all(_on_earth(found) or _is_geometry(cell) for cell, found in zip(filled, read, strict=False)):
            continue
        if not (geohashes or _is_telling(name, filled)):
            continue
        readable = not any(p.in_doubt for p in good)
        worth = (
            readable,
            sum(np.isfinite(p.accuracy) for p in good) > 0,
            len(filled),
            not any(p.is_area for p in good),
        )
        if best is None or worth > best[0]:
            best = worth, name
    return None if best is None else best[1]


def longitude_is_first(name: str, cells: Sequence[str]) -> bool:
    """Whether pairs of numbers are (longitude, latitude): the column's name says so, or no other order is possible."""
    pairs = [match for cell in cells if (match := _NUMBERS.fullmatch(cell.strip()))]
    first, second = (np.array([float(match[i]) for match in pairs]) for i in (1, 2))
    if len(pairs) and (np.abs(first) > 90).any():
        return bool((np.abs(second) <= 90).all())
    if canonical(name.rsplit("/", 1)[-1]) == "coordinates" and all(cell.lstrip().startswith("[") for cell in cells):
        return bool((np.abs(second) <= 90).all())  # the member of a geometry in GeoJSON
    return bool(_LON_FIRST.search(name)) and not re.search(r"lat\w*[\s_,;/&-]*(lon|lng)", name, re.IGNORECASE)


def _of_code(cell: place_codes.Cell, polygons: str | None) -> Place:
    return Place(cell.lon, cell.lat, cell.accuracy, is_area=polygons == "area")


def _pair(first: float, second: float, lon_first: bool, accuracy: float = np.nan) -> Place:
    lon, lat = (first, second) if lon_first else (second, first)
    return Place(lon, lat, accuracy if accuracy > 0 else np.nan)


def _of_json(text: str, polygons: str | None) -> Place:
    try:
        geometry = json.loads(text.replace("'", '"') if _AS_PYTHON.match(text) else text)
    except (ValueError, RecursionError):
        return Place(why="is not a geometry in GeoJSON.")
    if (found := _of_members(geometry)) is not None:
        return found
    shapes, kinds = from_json([geometry])
    if shapes[0] is None:
        return Place(why=f"is {kinds[0] or 'empty'}, not a point.")
    found = _of_shape(shapes[0], polygons)
    properties = geometry.get("properties")  # where ODK Central puts how exact a place is
    stated = properties.get("accuracy") if isinstance(properties, dict) else None
    known = isinstance(stated, int | float) and not isinstance(stated, bool) and stated > 0
    return found._replace(accuracy=float(stated)) if known and stated is not None else found


def _of_members(value: dict[str, Any]) -> Place | None:
    """The place of an object that names its coordinates, {"lat": 18.5, "lng": -72.3}; None where it does not."""
    names = {canonical(str(name)): number for name, number in value.items()}
    lat, lon = (next((names[n] for n in SYNONYMS[role] if n in names), None) for role in ("lat", "lon"))
    if lat is None or lon is None:
        return None
    try:
        return _pair(float(lat), float(lon), lon_first=False)
    except (TypeError, ValueError, OverflowError):
        return Place(why="has coordinates that are not numbers.")


def _of_shape(shape: Any, polygons: str | None) -> Place:
    if shape.is_empty:
        return Place(why="its geometry is empty.")
    if (srid := shapely.get_srid(shape)) not in _DEGREES:
        return Place(why=f"is in EPSG:{srid}, but geometries in cells must be in degrees. Save it in EPSG:4326.")
    if shape.geom_type == "MultiPoint" and len(shape.geoms) == 1:
        shape = shape.geoms[0]  # as some programs write a single point
    if shape.geom_type == "Point":
        return Place(shape.x, shape.y)
    area = shape.geom_type in _POLYGONS
    if area and polygons == "area":
        middle = shapely.centroid(shape)
        reach = float(radii(np.array([shape], dtype=object), WGS84)[0])
        return Place(middle.x, middle.y, reach, is_area=True)
    if area and polygons is not None:
        point = shapely.point_on_surface(shape)
        return Place(point.x, point.y)
    return Place(why=f"is {shape.geom_type}, not a point.", is_area=area, in_doubt=not area)


_CORNER = re.compile(rf"\s*({_NUMBER})\s+({_NUMBER})(?:\s+{_NUMBER}){{0,2}}\s*")


def _of_corners(text: str) -> Any | None:
    """A line or an outline as Kobo and ODK write it, "lat lon alt acc; lat lon alt acc; …"; None if it is neither."""
    found = [_CORNER.fullmatch(part[:LONGEST]) for part in text.rstrip("; ").split(";")]
    corners = [(float(match[2]), float(match[1])) for match in found if match is not None]
    if len(corners) < len(found) or len(corners) < 2:
        return None
    if len(corners) > 3 and corners[0] == corners[-1]:
        return shapely.Polygon(corners)
    return shapely.LineString(corners)


def _of_dms(match: re.Match[str]) -> Place:
    angles = [_angle(match, n) for n in (1, 2)]
    letters = [(match[f"before{n}"] or match[f"after{n}"] or "").upper() for n in (1, 2)]
    if letters[0] and letters[0] in "EW" and letters[1] in "NS":
        angles.reverse()
    elif letters[0] in "EW" and letters[0]:
        return Place(why="names no latitude.")
    if not np.isfinite(angles).all():
        return Place(why=f"'{match[0].strip()[:40]}' is not a place.")
    return Place(lon=angles[1], lat=angles[0])


def _angle(match: re.Match[str], n: int) -> float:
    before, after, sign = match[f"before{n}"], match[f"after{n}"], match[f"sign{n}"]
    parts = [float((match[f"{part}{n}"] or "0").replace(",", ".")) for part in "dms"]
    if (before and after) or parts[1] >= 60 or parts[2] >= 60:
        return np.nan
    size = parts[0] + parts[1] / 60 + parts[2] / 3600
    negative = (before or after or "N").upper() in "SW" or sign == "-"
    return -size if negative else size


def _on_earth(found: Place) -> bool:
    lon, lat = sorted((abs(found.lon), abs(found.lat)), reverse=True)
    return found.is_area or found.in_doubt or (lon <= 180 and lat <= 90)


def _is_geometry(cell: str) -> bool:
    """Whether a cell is written as a geometry, in degrees or not."""
    return bool(re.match(r"\s*(?:[a-z =\d;]*\(|\{|0[01][0-9a-f]{20})", cell, re.IGNORECASE))


def _named_as_code(name: str) -> bool:
    return bool(re.search(r"hash|geo|loc(?!al)|place|cell|coord|gps", name, re.IGNORECASE))


def _is_telling(name: str, cells: Sequence[str]) -> bool:
    """Whether cells are certainly places: two whole numbers are a place only if the name of the column says so."""
    if re.search(
        r"geo|loc|coord|gps|point|place|lat|pos|wkt|cent(er|re)|shape|mgrs|usng|grid|h3|hex|words|w3w|address",
        name,
        re.IGNORECASE,
    ):
        return True
    if any(_THREE_WORDS.fullmatch(cell.strip()) and "/" not in cell for cell in cells[:100]):
        return False  # "example.org.uk" looks the same
    return all(
        set(".+(°") & set(cell) or ("," in cell and ";" in cell) or place_codes.h3_number(cell.strip())
        for cell in cells[:100]
    )


def _is_date(cell: str) -> bool:
    return bool(re.match(r"\s*\d{4}-\d{2}-\d{2}", cell))


def not_a_number(values: pd.Series[Any], where: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The cells at these rows, read as degrees, minutes and seconds; NaN where that fails, and at all other rows."""
    out = np.full(len(values), np.nan)
    at = np.flatnonzero(where)
    out[at] = [degrees(str(cell)) for cell in values.iloc[at].tolist()]
    return out
