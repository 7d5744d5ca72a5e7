"""The polygons of a file, as one area in degrees: what a mask is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import shapely
from shapely.errors import ShapelyError

from crowdfield import geography
from crowdfield.errors import InputError, ReportFormatError
from crowdfield.io import features, kinds


def _check_system(path: Path, crs: str | None, polygons: Any) -> None:
    """Without a system the numbers must at least look like degrees."""
    if crs is not None or not len(polygons):
        return
    west, south, east, north = shapely.total_bounds(polygons)
    if west < -360 or east > 360 or south < -90.0001 or north > 90.0001:
        raise InputError(
            f"the mask {path} does not say its coordinate reference system, and its numbers ({west:g} to {east:g}, "
            f"{south:g} to {north:g}) are not degrees. "
            "Save it in degrees, or with its system (a Shapefile needs its .prj)."
        )


def read_area(path: Path) -> Any:
    """The union of all polygons in a GeoJSON, GeoPackage, GeoParquet, KML or Shapefile."""
    if not path.is_file():
        raise InputError(f"the mask {path} cannot be read: there is no such file.")
    try:
        found = kinds.look(path)
        if found.kind.name not in kinds.FEATURES:
            raise InputError(f"the mask {path} is {found.kind.title}, not GeoJSON or another file of polygons.")
        read = features.read(path, found)
    except ReportFormatError as problem:
        raise InputError(f"the mask {problem.without_advice}") from None
    polygons = read.shapes[np.isin(read.kinds.astype(str), ("Polygon", "MultiPolygon"))]
    polygons = polygons[shapely.is_geometry(polygons)]
    _check_system(path, read.crs, polygons)
    if read.crs not in (None, geography.WGS84) and len(polygons):
        change = geography.transformer(read.crs, geography.WGS84)
        polygons = shapely.transform(polygons, lambda places: np.column_stack(change.transform(*places.T)))
    try:
        return shapely.union_all(polygons)
    except ShapelyError:
        raise InputError(f"the mask {path} has polygons that cross themselves. Repair them first.") from None
