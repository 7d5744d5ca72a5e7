"""GPX: the waypoints that a GPS receiver or a phone saved, one per report. Tracks and routes are not reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crowdfield.errors import ReportFormatError
from crowdfield.geography import WGS84
from crowdfield.io import limits
from crowdfield.io.features import xml_stream
from crowdfield.io.features.common import Features, table, too_many_columns
from crowdfield.io.features.shapes import from_json
from crowdfield.io.kinds import Found

_FIELDS = frozenset({"time", "name", "desc", "cmt", "sym", "type", "src", "ele", "hdop"})  # of a waypoint


def read(path: Path, found: Found) -> Features:
    """The waypoints of a file."""
    reading = _Waypoints(path)
    xml_stream.parse(path, found, reading)
    if not reading.rows:
        others = f" It holds {reading.others:,} points of tracks and routes, which are not reports."
        raise ReportFormatError(f"is GPX without waypoints.{others if reading.others else ''}", file=str(path))
    notes = (f"{reading.others:,} points of tracks and routes are not read",) if reading.others else ()
    shapes, kinds = from_json(reading.geometries)
    return Features(table(path, reading.rows), shapes, kinds, WGS84, notes)


class _Waypoints:
    """Gathers waypoints while a parser goes through a document."""

    def __init__(self, path: Path) -> None:
        self.rows: list[dict[str, str]] = []
        self.geometries: list[Any] = []
        self.others = 0
        self._path = path
        self._row: dict[str, str] | None = None  # the waypoint that is being read
        self._words: list[str] = []

    def start(self, name: str, around: list[str], attributes: dict[str, str]) -> None:
        self._words = []
        if name == "wpt":
            self._row = {}
            self.geometries.append({"type": "Point", "coordinates": _place(attributes)})
        elif name in ("trkpt", "rtept"):
            self.others += 1

    def text(self, words: str) -> None:
        if self._row is not None:
            self._words.append(words)

    def end(self, name: str, around: list[str]) -> None:
        if self._row is None:
            return
        words = "".join(self._words).strip()
        self._words = []
        if name == "wpt":
            self.rows.append(self._row)
            self._row = None
        elif words and ("extensions" in around or (name in _FIELDS and around[-1:] == ["wpt"])):
            self._row.setdefault(name, words)
            if len(self._row) > limits.MOST_COLUMNS:
                raise too_many_columns(self._path)


def _place(attributes: dict[str, str]) -> list[float]:
    try:
        return [float(attributes["lon"]), float(attributes["lat"])]
    except (KeyError, ValueError):
        return []
