"""Geometries from bytes and JSON. GEOS reads nested collections by recursion, so a small hostile file could crash the
process: only geometries without nested collections, checked here first, are passed to it."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

NAMES = {
    1: "Point",
    2: "LineString",
    3: "Polygon",
    4: "MultiPoint",
    5: "MultiLineString",
    6: "MultiPolygon",
    7: "GeometryCollection",
}
_ELEMENT = {4: 1, 5: 2, 6: 3}  # what each "multi" is made of
# Bits of PostGIS's extended form.
_HAS_Z, _HAS_M, _HAS_SRID = 0x80000000, 0x40000000, 0x20000000
# One word at the start and no other: so nothing is nested, and GEOS meets only what it reads without recursion.
_FLAT_TEXT = re.compile(
    r"\s*(?:SRID=\d{1,6};)?\s*(?:MULTI)?(?:POINT|LINESTRING|POLYGON)\s*(?:Z|M|ZM)?\s*(?:EMPTY|\([\deE+\-.,()\s]*\))\s*",
    re.IGNORECASE,
)
Shapes = tuple[NDArray[np.object_], NDArray[np.object_]]


class NotWKB(Exception):
    """Bytes that are not a geometry, or are one of an unsupported kind."""


def from_wkb(blobs: Sequence[bytes | None]) -> Shapes:
    """(shapes, kinds) of geometries in well-known binary; None where one cannot be used."""
    kinds = np.empty(len(blobs), dtype=object)
    good: list[bytes | None] = []
    for at, blob in enumerate(blobs):
        whole = None
        if blob:
            try:
                kind, end = _walk(blob, 0)
                kinds[at] = NAMES[kind]
                whole = blob if end <= len(blob) and kind != 7 else None
            except (NotWKB, struct.error):
                kinds[at] = "broken"
        good.append(whole)
    return shapely.from_wkb(np.array([*good, None], dtype=object)[:-1], on_invalid="ignore"), kinds


def _walk(blob: bytes, at: int, inside: int | None = None) -> tuple[int, int]:
    """(kind, end) of the geometry at a position. Its counts fit its length, and it holds no collection."""
    order = "<" if blob[at : at + 1] == b"\x01" else ">"
    (code,) = struct.unpack_from(f"{order}I", blob, at + 1)
    at += 9 if code & _HAS_SRID else 5
    kind, size = _kind(code)
    if inside is not None and kind != inside:
        raise NotWKB
    if kind == 7:
        return kind, at
    if kind == 1:
        return kind, _within(blob, at + size)
    (count,) = struct.unpack_from(f"{order}I", blob, at)
    at += 4
    if kind == 2:
        return kind, _within(blob, at + count * size)
    for _ in range(count):
        if kind == 3:
            (points,) = struct.unpack_from(f"{order}I", blob, at)
            at = _within(blob, at + 4 + points * size)
        else:
            _, at = _walk(blob, at, _ELEMENT[kind])
    return kind, at


def _kind(code: int) -> tuple[int, int]:
    """The kind of geometry and the bytes of a vertex, from a type code of ISO, OGC or PostGIS."""
    thousands, kind = divmod(code & 0x0FFFFFFF, 1000)  # 1001 is a point with z, 2001 with m, 3001 with both
    dimensions = 2 + {0: 0, 1: 1, 2: 1, 3: 2}.get(thousands, 3) + bool(code & _HAS_Z) + bool(code & _HAS_M)
    if kind not in NAMES or dimensions > 4:
        raise NotWKB
    return kind, 8 * dimensions


def _within(blob: bytes, end: int) -> int:
    if end > len(blob):
        raise NotWKB
    return end


def from_wkt(text: str) -> Any:
    """A geometry in well-known text; None where it is none, or a collection."""
    return shapely.from_wkt(text, on_invalid="ignore") if _FLAT_TEXT.fullmatch(text) else None


def from_json(geometries: Sequence[Any]) -> Shapes:
    """(shapes, kinds) of GeoJSON geometries; None where one cannot be used."""
    count = len(geometries)
    kinds = np.empty(count, dtype=object)
    shapes = np.empty(count, dtype=object)
    places = np.full((count, 2), np.nan)
    points: list[int] = []
    others: dict[int, str] = {}
    for at, geometry in enumerate(geometries):
        if not isinstance(geometry, dict):
            continue
        geometry = _only_member(geometry)
        kind, coordinates = geometry.get("type"), geometry.get("coordinates")
        kinds[at] = kind if kind in NAMES.values() else "broken"
        if kind == "Point" and coordinates is not None and _is_place(coordinates):
            places[at] = coordinates[:2]
            points.append(at)
        elif kind == "Point":
            kinds[at] = "broken" if coordinates else None
        elif kinds[at] not in ("broken", "GeometryCollection"):
            others[at] = json.dumps({"type": kind, "coordinates": coordinates})
    shapes[points] = shapely.points(places[points])
    if others:
        shapes[list(others)] = shapely.from_geojson(np.array(list(others.values()), dtype=object), on_invalid="ignore")
    return shapes, kinds


def _only_member(geometry: dict[str, Any]) -> dict[str, Any]:
    """The geometry in a collection of one, as Ushahidi writes it; any other as it is."""
    inside = geometry.get("geometries") if geometry.get("type") == "GeometryCollection" else None
    alone = inside[0] if isinstance(inside, list) and len(inside) == 1 else None
    return alone if isinstance(alone, dict) else geometry


def _is_place(value: Any) -> bool:
    return (
        isinstance(value, list)
        and 2 <= len(value) <= 4
        and all(isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < 1e300 for v in value[:2])
    )
