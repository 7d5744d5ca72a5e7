"""TopoJSON: the points of one of its objects. Lines and polygons, which are made of shared arcs, are not read."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any

from crowdfield.errors import ReportFormatError
from crowdfield.geography import WGS84
from crowdfield.io.features.common import Features, broken, table
from crowdfield.io.features.shapes import from_json
from crowdfield.io.kinds import Found, pick

_POINTS = ("Point", "MultiPoint")


def features(root: dict[str, Any], path: Path, found: Found) -> Features:
    """The points of one object."""
    objects = root.get("objects")
    if not isinstance(objects, dict) or not objects:
        raise broken(path, found, "it is a topology without objects")
    geometries = {str(name): _geometries(each) for name, each in objects.items()}
    with_points = [name for name, each in geometries.items() if any(g.get("type") in _POINTS for g in each)]
    if found.layer is None and not with_points:
        raise ReportFormatError(
            "is TopoJSON without points. Its lines and polygons are made of shared arcs, which are not read. Save it "
            "as GeoJSON.",
            file=str(path),
        )
    name = with_points[0] if len(with_points) == 1 else ""
    if found.layer is not None or not name:
        name = pick(list(geometries) if found.layer is not None else with_points, found.layer, path, what="objects")
    scale, translate = _transform(root.get("transform"), path, found)
    rows, shapes = [], []
    for geometry in geometries[name]:
        kind, properties = geometry.get("type"), geometry.get("properties")
        if kind is not None and kind not in _POINTS:
            raise ReportFormatError(
                f"the object '{name[:60]}' holds a {str(kind)[:40]}, made of shared arcs, which are not read. Save it "
                "as GeoJSON.",
                file=str(path),
            )
        row = dict(properties) if isinstance(properties, dict) else {}
        if isinstance(geometry.get("id"), str | int):
            row.setdefault("id", geometry["id"])
        rows.append(row)
        shapes.append({"type": kind, "coordinates": _moved(geometry.get("coordinates"), scale, translate)})
    points, kinds = from_json(shapes)
    notes = (f"the object '{name[:60]}' of TopoJSON is read",)
    return Features(table(path, rows), points, kinds, WGS84, notes)


def _geometries(thing: Any) -> list[dict[str, Any]]:
    """The members of a collection, or a single geometry."""
    inside = (
        thing.get("geometries") if isinstance(thing, dict) and thing.get("type") == "GeometryCollection" else [thing]
    )
    return [geometry for geometry in inside if isinstance(geometry, dict)] if isinstance(inside, list) else []


def _transform(stated: Any, path: Path, found: Found) -> tuple[list[float], list[float]]:
    """Scale and shift of coordinates that are whole numbers; 1 and 0 where the file has none."""
    if stated is None:
        return [1.0, 1.0], [0.0, 0.0]
    parts: list[Any] = [stated.get(name) for name in ("scale", "translate")] if isinstance(stated, dict) else [None]
    if not all(isinstance(part, list) and len(part) == 2 and _numbers(part) for part in parts):
        raise broken(path, found, "its 'transform' is not a scale and a shift")
    return parts[0], parts[1]


def _moved(coordinates: Any, scale: list[float], translate: list[float]) -> Any:
    """Of a point, or of several; [] for anything else."""
    if isinstance(coordinates, list) and coordinates and all(isinstance(part, list) for part in coordinates):
        return [_moved(part, scale, translate) if _numbers(part) else [] for part in coordinates]
    if not isinstance(coordinates, list) or len(coordinates) < 2 or not _numbers(coordinates[:2]):
        return []
    return [scale[i] * coordinates[i] + translate[i] for i in (0, 1)]


def _numbers(values: list[Any]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) and isfinite(v) for v in values)
