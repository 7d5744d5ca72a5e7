"""Shapefile: geometries (.shp) and a table beside it (.dbf), in a folder or a zip file, read by their published layout.

Both parts are arrays of fixed records, so NumPy reads them; every count is checked against the bytes that are there.
"""

from __future__ import annotations

import codecs
import itertools
import struct
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from crowdfield.errors import ReportFormatError
from crowdfield.io import limits, systems
from crowdfield.io.archives import Archive
from crowdfield.io.features.common import Features, broken, cells, too_many_columns
from crowdfield.io.kinds import Found
from crowdfield.io.opening import document

_KINDS = {0: None, 1: "Point", 3: "LineString", 5: "Polygon", 8: "MultiPoint", 31: "MultiPatch"}
_HEADER = 100
NO_TABLE = (
    "its table is missing: the files of a Shapefile (.shp, .dbf, .shx, .prj) belong together, for example in a zip file"
)
# The language driver of a table, where no .cpg names its encoding.
_ENCODINGS = {0x01: "cp437", 0x02: "cp850", 0x03: "cp1252", 0x57: "cp1252", 0x58: "cp1252"}


class _Broken(Exception):
    """What is wrong, in a few words."""


def read(path: Path, found: Found) -> Features:
    """The features of a Shapefile and its table."""
    parts = _Parts(path, found)
    try:
        shapes, kinds = _geometries(document(path, found))
        dbf = parts.read(".dbf")
        columns = {} if dbf is None else _table(dbf, parts.encoding(), len(shapes), path)
    except (_Broken, struct.error) as problem:
        what = str(problem) if isinstance(problem, _Broken) else "it ends too early"
        raise broken(path, found, what) from None
    notes = () if dbf is not None else (NO_TABLE,)
    return Features(columns, shapes, kinds, parts.system(), notes)


class _Parts:
    """The files that belong together, beside each other in a folder or in a zip file."""

    def __init__(self, path: Path, found: Found) -> None:
        self._path, self._member = path, found.member

    def read(self, ending: str) -> bytes | None:
        if self._member is not None:
            with Archive(self._path) as archive:
                name = archive.beside(self._member, ending)
                return None if name is None else archive.read(name)
        for own in (ending, ending.upper()):
            beside = self._path.with_suffix(own)
            if beside.is_file():
                with beside.open("rb") as file:
                    return file.read(limits.LARGEST_DOCUMENT)
        return None

    def encoding(self) -> str | None:
        stated = (self.read(".cpg") or b"")[:100].decode("ascii", "ignore").strip().lower()
        name = {"": "", "1252": "cp1252", "65001": "utf-8"}.get(stated, stated.replace("ansi ", "cp"))
        try:
            known = codecs.lookup(name) if name else None
        except (LookupError, ValueError):
            return None
        return known.name if known is not None and known._is_text_encoding else None

    def system(self) -> str | None:
        text = (self.read(".prj") or b"")[: systems.LONGEST].decode("utf-8", "replace").strip()
        if not text:
            return None
        try:
            return systems.by_definition(text)
        except systems.UnknownSystem as problem:
            raise ReportFormatError(f"{problem} (.prj).", file=str(self._path)) from None


def _geometries(shp: bytes) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    shapes: list[Any] = []
    kinds: list[str | None] = []
    at = _HEADER
    while at + 12 <= len(shp):
        (words,) = struct.unpack_from(">i", shp, at + 4)
        start, end = at + 8, at + 8 + 2 * words
        if words < 2 or end > len(shp):
            raise _Broken(f"record {len(shapes) + 1} does not fit the file")
        (code,) = struct.unpack_from("<i", shp, start)
        if code not in range(32) or code % 10 not in (0, 1, 3, 5, 8):
            raise _Broken(f"record {len(shapes) + 1} is of no known shape")
        kind = _KINDS.get(code if code == 31 else code % 10)
        shapes.append(None if kind in (None, "MultiPatch") else _shape(kind, shp[start + 4 : end]))
        kinds.append(kind)
        at = end
    out = np.empty(len(shapes), dtype=object)
    out[:] = shapes
    names = np.empty(len(shapes), dtype=object)
    names[:] = kinds
    return out, names


def _shape(kind: str | None, record: bytes) -> Any:
    if kind == "Point":
        return shapely.Point(*struct.unpack_from("<2d", record))
    if kind == "MultiPoint":
        (count,) = struct.unpack_from("<i", record, 32)
        return shapely.MultiPoint(_vertices(record, 36, count))
    parts, count = struct.unpack_from("<2i", record, 32)
    if not 0 <= parts <= len(record) // 4:
        raise _Broken("a shape has more parts than bytes")
    starts = [*struct.unpack_from(f"<{parts}i", record, 40), count]
    vertices = _vertices(record, 40 + 4 * parts, count)
    if any(not 0 <= a <= b <= count for a, b in itertools.pairwise(starts)):
        raise _Broken("the parts of a shape overlap")
    rings = [vertices[a:b] for a, b in itertools.pairwise(starts)]
    return _polygon([ring for ring in rings if len(ring) >= 4]) if kind == "Polygon" else _lines(rings)


def _vertices(record: bytes, at: int, count: int) -> NDArray[np.float64]:
    if not 0 <= count <= (len(record) - at) // 16:
        raise _Broken("a shape has more vertices than bytes")
    return np.frombuffer(record, dtype="<f8", count=2 * count, offset=at).reshape(-1, 2).astype(np.float64)


def _lines(parts: list[NDArray[np.float64]]) -> Any:
    good = [part for part in parts if len(part) >= 2]
    return shapely.MultiLineString(good) if good else None


def _polygon(rings: list[NDArray[np.float64]]) -> Any:
    """Outer rings run clockwise, holes the other way round. Even-odd filling gives the same and forgives mistakes."""
    rings = [ring for ring in rings if np.isfinite(ring).all()]
    if not rings:
        return None
    closed = [ring if (ring[0] == ring[-1]).all() else np.vstack([ring, ring[:1]]) for ring in rings]
    if len(closed) == 1:
        return shapely.Polygon(closed[0])
    outer = [ring for ring in closed if not shapely.is_ccw(shapely.LinearRing(ring))]
    holes = [ring for ring in closed if shapely.is_ccw(shapely.LinearRing(ring))]
    if len(outer) == 1:
        return shapely.Polygon(outer[0], holes)
    filled = shapely.make_valid(shapely.polygons([shapely.LinearRing(ring) for ring in outer or closed]))
    whole = shapely.union_all(filled)
    if outer and holes:
        cut = shapely.make_valid(shapely.polygons([shapely.LinearRing(ring) for ring in holes]))
        whole = shapely.difference(whole, shapely.union_all(cut))
    return whole


def _table(dbf: bytes, encoding: str | None, count: int, path: Path) -> dict[str, NDArray[np.object_]]:
    rows, header, width = struct.unpack_from("<IHH", dbf, 4)
    fields = _fields(dbf, header, path)
    encoding = encoding or _ENCODINGS.get(dbf[29]) or _guessed(dbf)
    if not fields or width < 1 or sum(length for _, _, length, _ in fields) + 1 > width:
        raise _Broken("the table's fields do not fit its rows")
    rows = min(rows, (len(dbf) - header) // width, count)
    records = np.frombuffer(dbf, dtype=np.uint8, count=rows * width, offset=header).reshape(rows, width)
    columns: dict[str, NDArray[np.object_]] = {}
    for name, kind, length, offset in fields:
        raw = np.ascontiguousarray(records[:, offset : offset + length]).view(f"S{length}").ravel().tolist()
        values = [_value(cell, kind, encoding) for cell in raw] + [None] * (count - rows)
        columns[_unused(name.decode(encoding, "replace"), columns)] = cells(values)
    return columns


def _guessed(dbf: bytes) -> str:
    try:
        dbf[32:].decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _fields(dbf: bytes, header: int, path: Path) -> list[tuple[bytes, str, int, int]]:
    """(name, type, length, offset in a row) of every field."""
    fields, offset = [], 1  # the first byte of a row says whether it was deleted
    for at in range(32, min(header, len(dbf)) - 31, 32):
        if dbf[at] == 0x0D:
            break
        length = dbf[at + 16]
        if length == 0:
            raise _Broken("a field of its table has no width")
        fields.append((dbf[at : at + 11].split(b"\x00")[0], chr(dbf[at + 11]), length, offset))
        offset += length
        if len(fields) > limits.MOST_COLUMNS:
            raise too_many_columns(path)
    return fields


def _value(cell: bytes, kind: str, encoding: str) -> Any:
    words = cell.replace(b"\x00", b" ").decode(encoding, "replace").strip()
    if not words or set(words) == {"*"}:
        return None
    if kind == "D":
        return f"{words[:4]}-{words[4:6]}-{words[6:8]}" if len(words) == 8 and words.isdecimal() else words
    if kind == "L":
        return {"Y": True, "T": True, "N": False, "F": False}.get(words.upper())
    if kind in "NF":
        try:
            return int(words) if words.lstrip("+-").isdecimal() and len(words) < 30 else float(words)
        except ValueError:
            return None
    return words


def _unused(name: str, taken: dict[str, Any]) -> str:
    return name if name and name not in taken else f"{name or 'field'} ({len(taken) + 1})"
