"""The polygons of a file in degrees: joined to one area (for a mask), or as named areas (for totals)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.errors import ShapelyError

from crowdfield import geography
from crowdfield.counting import counted
from crowdfield.errors import InputError, ReportFormatError
from crowdfield.io import features, kinds
from crowdfield.io.features import Features

# Properties that may contain the name of an area, in order of preference: those of HDX, geoBoundaries, H3 and others.
NAMES = ("name", "shapename", "adm4_en", "adm3_en", "adm2_en", "adm1_en", "adm0_en", "district", "area", "h3", "id")


@dataclass(frozen=True, eq=False)
class NamedAreas:
    """Polygons in degrees (WGS 84), each with a name and the properties that the file gives it."""

    names: tuple[str, ...]
    shapes: NDArray[np.object_]  # [A]
    properties: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)  # [A] each, text or None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)


def read_area(path: Path) -> Any:
    """The union of all polygons in a GeoJSON, GeoPackage, GeoParquet, KML or Shapefile."""
    _, polygons, _ = _polygons(path, "the mask")
    try:
        return shapely.union_all(polygons)
    except ShapelyError:
        raise InputError(f"the mask {path} has polygons that cross themselves. Repair them first.") from None


def read_areas(path: str | Path, by: str | None = None) -> NamedAreas:
    """The polygons of a GeoJSON, GeoPackage, GeoParquet, KML or Shapefile, one area each.

    by: a property; polygons with the same value of it become one area with that name. Without it every polygon is an
    area, named after the first property that looks like a name, or by its number in the file.
    """
    path = Path(path)
    read, polygons, rows = _polygons(path, "the file of areas")
    if not len(polygons):
        raise InputError(f"{path} contains no polygons. Areas must be polygons, not points or lines.")
    notes = []
    if left := len(read) - len(rows):
        notes.append(f"{left:,} of {len(read):,} features of {path.name} are not polygons and were left out")
    crossed = ~shapely.is_valid(polygons)
    if crossed.any():
        polygons = np.where(crossed, shapely.make_valid(polygons), polygons)
        notes.append(f"{path.name}: polygons that crossed themselves were repaired: {int(crossed.sum()):,}")
    columns = {name: values[rows] for name, values in read.columns.items()}
    if by is not None:
        return _merged(path, polygons, columns, by, notes)
    return NamedAreas(tuple(_names(columns, len(rows))), polygons, columns, tuple(notes))


def _merged(
    path: Path, polygons: NDArray[Any], columns: Mapping[str, NDArray[Any]], by: str, notes: list[str]
) -> NamedAreas:
    """One area per value of a property."""
    found = {name.lower(): name for name in columns}.get(by.lower())
    if found is None:
        known = ", ".join(columns) or "none"
        raise InputError(f"{path} has no property {by!r} to name areas by. It has: {known}.")
    values = columns[found]
    missing = np.array([value is None or value == "" for value in values])
    if missing.all():
        raise InputError(f"no polygon of {path} has a value for {found!r}.")
    if missing.any():
        notes.append(f"{path.name}: {counted(int(missing.sum()), 'polygon')} left out for want of a {found!r}")
    names = list(dict.fromkeys(str(value) for value in values[~missing]))
    shapes = np.empty(len(names), dtype=object)
    for number, name in enumerate(names):
        shapes[number] = shapely.union_all(polygons[~missing & (values.astype(str) == name)])
    return NamedAreas(tuple(names), shapes, {found: np.array(names, dtype=object)}, tuple(notes))


def _names(columns: Mapping[str, NDArray[Any]], count: int) -> list[str]:
    by_lower = {name.lower(): name for name in columns}
    for wanted in NAMES:
        values = columns.get(by_lower.get(wanted, ""))
        if values is not None and all(values) and len(set(values)) == count:
            return [str(value) for value in values]
    return [str(number) for number in range(1, count + 1)]


def _polygons(path: Path, what: str) -> tuple[Features, NDArray[Any], NDArray[np.int64]]:
    """All features, the polygons among them in degrees, and their rows."""
    if not path.is_file():
        raise InputError(f"{what} {path} cannot be read: there is no such file.")
    try:
        found = kinds.look(path)
        if found.kind.name not in kinds.FEATURES:
            raise InputError(f"{what} {path} is {found.kind.title}, not GeoJSON or another file of polygons.")
        read = features.read(path, found)
    except ReportFormatError as problem:
        raise InputError(f"{what} {problem.without_advice}") from None
    rows = np.flatnonzero(
        np.isin(read.kinds.astype(str), ("Polygon", "MultiPolygon")) & shapely.is_geometry(read.shapes)
    )
    polygons = read.shapes[rows]
    _check_system(path, what, read.crs, polygons)
    if read.crs not in (None, geography.WGS84) and len(polygons):
        change = geography.transformer(read.crs, geography.WGS84)
        polygons = shapely.transform(polygons, lambda places: np.column_stack(change.transform(*places.T)))
    return read, polygons, rows


def _check_system(path: Path, what: str, crs: str | None, polygons: Any) -> None:
    """Raise an error if the file has no reference system and its coordinates are not degrees."""
    if crs is not None or not len(polygons):
        return
    west, south, east, north = shapely.total_bounds(polygons)
    if west < -360 or east > 360 or south < -90.0001 or north > 90.0001:
        raise InputError(
            f"{what} {path} does not say its coordinate reference system, and its numbers ({west:g} to {east:g}, "
            f"{south:g} to {north:g}) are not degrees. "
            "Save it in degrees, or with its system (a Shapefile needs its .prj)."
        )
