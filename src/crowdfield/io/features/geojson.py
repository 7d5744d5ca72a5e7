"""GeoJSON: a collection, a feature, a bare geometry, or one feature per line; Esri's JSON and TopoJSON.

Also JSON records, one object per report, as KoboToolbox and ODK Central give them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from crowdfield.errors import ReportFormatError
from crowdfield.io import systems
from crowdfield.io.features import topojson
from crowdfield.io.features.common import Features, broken, plain_table, table
from crowdfield.io.features.shapes import NAMES, from_json
from crowdfield.io.kinds import Found, without_layers
from crowdfield.io.opening import document

_DEEPEST_GROUP = 8  # groups in groups of a form; what lies deeper stays JSON
_LONGEST_NUMBER = 400  # digits: longer numbers are not coordinates, and are slow to parse


def read(path: Path, found: Found) -> Features:
    """The features or records of a JSON file."""
    content = document(path, found)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise broken(path, found, "it is not UTF-8") from None
    del content
    root = _parsed(text, path, found)
    if isinstance(root, dict) and root.get("type") == "Topology":
        return topojson.features(root, path, found)
    if found.layer is not None:
        raise without_layers(found, path)
    if isinstance(root, dict) and isinstance(root.get("features"), list) and _is_esri(root):
        return _esri(root, path)
    if (found_records := records(root)) is not None:
        return plain_table(path, [flat(record) for record in found_records])
    features = _features(root, path)
    crs = _system(root, path)
    rows, geometries = [], []
    for feature in features:
        if not isinstance(feature, dict):
            raise broken(path, found, "one of its features is not an object")
        properties = feature.get("properties")
        row = dict(properties) if isinstance(properties, dict) else {}
        if isinstance(feature.get("id"), str | int):
            row.setdefault("id", feature["id"])
        rows.append(row)
        geometries.append(feature.get("geometry"))
    shapes, kinds = from_json(geometries)
    return Features(table(path, rows), shapes, kinds, crs)


def _parsed(text: str, path: Path, found: Found) -> Any:
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ReportFormatError("is JSON that is nested far too deeply.", file=str(path)) from None
    except ValueError as error:
        lines = text.split("\n", 2)
        if len(lines) > 1 and lines[1].lstrip("\x1e ").startswith("{"):
            return _sequence(text, path, found)
        where = getattr(error, "lineno", None)
        raise ReportFormatError(
            "looks like GeoJSON but cannot be read as such: it is not JSON. Is the file complete?",
            file=str(path),
            line=where,
        ) from None


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) < _LONGEST_NUMBER else float("nan")


def _sequence(text: str, path: Path, found: Found) -> Any:
    """One feature per line."""
    features = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not (line := line.strip("\x1e \r\t")):
            continue
        try:
            features.append(json.loads(line, parse_int=_whole))
        except (ValueError, RecursionError):
            raise ReportFormatError(
                "looks like GeoJSON with one feature per line, but this line is not JSON. Is the file complete?",
                file=str(path),
                line=number,
            ) from None
    if features and all(isinstance(item, dict) and "geometry" not in item for item in features):
        return features  # one record per line
    return {"type": "FeatureCollection", "features": features}


# Where services put the records of an answer: KoboToolbox and many others, OData (ODK Central), CKAN, Overpass.
_ENVELOPES = ("results", "value", "records", "data", "items", "elements")


_SUBMISSION = frozenset({"_uuid", "__id"})  # what a single submission of a form has


def records(root: Any) -> list[dict[str, Any]] | None:
    """The records of JSON that is not GeoJSON: a list of objects, alone or in an envelope; None if it is neither."""
    if isinstance(root, dict) and root.get("type") not in ("FeatureCollection", "Feature", *NAMES.values()):
        alone = [root] if _SUBMISSION & root.keys() else None
        root = next((root[name] for name in _ENVELOPES if isinstance(root.get(name), list)), alone)
    if not isinstance(root, list) or not all(isinstance(item, dict) for item in root):
        return None
    if root and all(item.get("type") == "Feature" for item in root):
        return None
    return root


def flat(record: dict[str, Any], before: str = "", depth: int = 0) -> dict[str, Any]:
    """A record with its groups opened: {"a": {"b": 1}} is {"a/b": 1}. Geometries and lists stay whole, as JSON."""
    out: dict[str, Any] = {}
    for name, value in record.items():
        is_group = isinstance(value, dict) and "coordinates" not in value and depth < _DEEPEST_GROUP
        out |= flat(value, f"{before}{name}/", depth + 1) if is_group else {f"{before}{name}": value}
    return out


def _features(root: Any, path: Path) -> list[Any]:
    kind = root.get("type") if isinstance(root, dict) else None
    if kind == "FeatureCollection" and isinstance(root.get("features"), list):
        features: list[Any] = root["features"]
        return features
    if kind == "Feature":
        return [root]
    if isinstance(root, list) and root:
        return root
    if kind in NAMES.values():
        return [{"type": "Feature", "geometry": root, "properties": {}}]
    what = f"of the type '{kind[:40]}'" if isinstance(kind, str) else "without a type"
    raise ReportFormatError(
        f"is JSON {what}, not a GeoJSON feature collection and not a list of records. Save it as one of them.",
        file=str(path),
    )


def _system(root: Any, path: Path) -> str | None:
    """The system that the old `crs` member names. A link to one is never followed."""
    stated = root.get("crs") if isinstance(root, dict) else None
    if stated is None:
        return None
    kind = stated.get("type") if isinstance(stated, dict) else None
    about = stated.get("properties") if isinstance(stated, dict) else None
    about = about if isinstance(about, dict) else {}
    try:
        if kind == "name":
            return systems.by_name(about.get("name"))
        if kind == "EPSG" and isinstance(about.get("code"), int):
            return systems.by_number("EPSG", about["code"])
    except systems.UnknownSystem as problem:
        raise ReportFormatError(f"{problem}, in its 'crs'.", file=str(path)) from None
    raise ReportFormatError(
        "its 'crs' is a link or something unknown; only names like urn:ogc:def:crs:EPSG::32618 are read. "
        "Remove it where the coordinates are longitude and latitude.",
        file=str(path),
    )


def _is_esri(root: dict[str, Any]) -> bool:
    first = root["features"][0] if root["features"] else None
    return root.get("type") is None and isinstance(first, dict) and "attributes" in first


def _esri(root: dict[str, Any], path: Path) -> Features:
    """Points as ArcGIS servers give them: attributes, and x and y in a system named by its number."""
    rows, places = [], []
    for feature in root["features"]:
        known = feature if isinstance(feature, dict) else {}
        attributes, geometry = known.get("attributes"), known.get("geometry")
        rows.append(attributes if isinstance(attributes, dict) else {})
        geometry = geometry if isinstance(geometry, dict) else {}
        places.append({"type": "Point", "coordinates": [geometry.get("x"), geometry.get("y")]})
    shapes, kinds = from_json(places)
    kinds[np.array([not shapely.is_geometry(shape) for shape in shapes], dtype=bool)] = None
    system = root.get("spatialReference")
    number = system.get("latestWkid", system.get("wkid")) if isinstance(system, dict) else None
    if not isinstance(number, int):
        return Features(table(path, rows), shapes, kinds, None)
    try:
        # Numbers from 100,000 on, and the one of Esri's own Web Mercator, are Esri's.
        crs = "EPSG:3857" if number == 102100 else systems.by_number("ESRI" if number >= 37001 else "EPSG", number)
    except systems.UnknownSystem as problem:
        raise ReportFormatError(f"{problem}, in its 'spatialReference'.", file=str(path)) from None
    return Features(table(path, rows), shapes, kinds, crs)
