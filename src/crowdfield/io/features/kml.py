"""KML and KMZ: every placemark of a document, read as a stream without entities, without a document type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crowdfield.geography import WGS84
from crowdfield.io import limits
from crowdfield.io.features import xml_stream
from crowdfield.io.features.common import Features, table, too_many_columns
from crowdfield.io.features.shapes import from_json
from crowdfield.io.kinds import Found

# Where the text of a placemark's element goes, by the element and the one around it.
_TEXTS = {
    ("name", "Placemark"): "Name",
    ("description", "Placemark"): "description",
    ("address", "Placemark"): "address",
    ("when", "TimeStamp"): "timestamp",
    ("begin", "TimeSpan"): "begin",
    ("end", "TimeSpan"): "end",
}


def read(path: Path, found: Found) -> Features:
    """The placemarks of a document."""
    reading = _Placemarks(path)
    xml_stream.parse(path, found, reading)
    shapes, kinds = from_json(reading.geometries)
    return Features(table(path, reading.rows), shapes, kinds, WGS84)


class _Placemarks:
    """Gathers placemarks while a parser goes through a document."""

    def __init__(self, path: Path) -> None:
        self.rows: list[dict[str, str]] = []
        self.geometries: list[Any] = []
        self._path = path
        self._folders: list[str] = []  # the names of the folders around what is being read
        self._row: dict[str, str] | None = None  # the placemark that is being read
        self._parts: list[tuple[str, Any]] = []  # its geometries: kind and coordinates
        self._rings: list[Any] = []
        self._column: str | None = None  # where the value of a <Data> goes
        self._words: list[str] = []

    def start(self, name: str, around: list[str], attributes: dict[str, str]) -> None:
        self._words = []
        if name == "Folder":
            self._folders.append("")
        elif name == "Placemark":
            self._row, self._parts = ({"Folder": self._folders[-1]} if any(self._folders[-1:]) else {}), []
            if attributes.get("id"):
                self._row["id"] = attributes["id"]
        elif name == "Polygon":
            self._rings = []
        elif name in ("Data", "SimpleData"):
            self._column = attributes.get("name") or None

    def text(self, words: str) -> None:
        if self._row is not None or self._folders:
            self._words.append(words)

    def end(self, name: str, outer: list[str]) -> None:
        around = outer[-1] if outer else ""
        words = "".join(self._words).strip()
        self._words = []
        if name == "Folder":
            self._folders.pop()
        elif (name, around) == ("name", "Folder"):
            self._folders[-1] = words
        if self._row is None:
            return
        if name == "Placemark":
            self.rows.append(self._row)
            self.geometries.append(_joined(self._parts))
            self._row = None
        elif name == "coordinates":
            self._place(_vertices(words), around)
        elif name == "Polygon":
            self._parts.append(("Polygon", self._rings))
        elif (name == "value" and around == "Data") or name == "SimpleData":
            self._keep(self._column, words)
        else:
            self._keep(_TEXTS.get((name, around)), words)

    def _keep(self, column: str | None, words: str) -> None:
        if self._row is None or column is None or not words:
            return
        self._row.setdefault(column, words)
        if len(self._row) > limits.MOST_COLUMNS:
            raise too_many_columns(self._path)

    def _place(self, vertices: list[list[float]], around: str) -> None:
        if around == "LinearRing":
            self._rings.append(vertices)
        elif around == "Point":
            self._parts.append(("Point", vertices[0] if vertices else []))
        elif around == "LineString":
            self._parts.append(("LineString", vertices))


def _vertices(words: str) -> list[list[float]]:
    try:
        return [[float(part) for part in vertex.split(",")[:2]] for vertex in words.split()]
    except ValueError:
        return []


def _joined(parts: list[tuple[str, Any]]) -> dict[str, Any] | None:
    """The geometry of a placemark that may have several, of one kind or mixed."""
    kinds = {kind for kind, _ in parts}
    if len(parts) == 1:
        return {"type": parts[0][0], "coordinates": parts[0][1]}
    if len(kinds) == 1:
        return {"type": f"Multi{kinds.pop()}", "coordinates": [coordinates for _, coordinates in parts]}
    return {"type": "GeometryCollection"} if parts else None
