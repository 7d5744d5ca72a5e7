"""Figures of areas: a table with one row per polygon, as CSV, Excel workbook, GeoJSON and GeoPackage."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from crowdfield.geography import WGS84
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import GEOPACKAGE, flat, plain
from crowdfield.io.requirements import library
from crowdfield.io.table import safe, write_tagged
from crowdfield.io.vector import DIGITS, write_features

Column = tuple[str, str, Sequence[Any]]  # name, HXL tag, values
WIDEST = 40  # letters: a column of a workbook
NUMBER = 6  # significant digits: figures with intervals need no more


def write_csv(columns: Sequence[Column], shapes: NDArray[Any], about: Mapping[str, Any], path: Path) -> None:
    """One row per area, names first, HXL tags second. How it was made stands beside it, as for maps."""
    cells = [(safe(name), tag, [safe(_cell(value, "")) for value in values]) for name, tag, values in columns]
    write_tagged(cells, plain(about), path)


def write_xlsx(columns: Sequence[Column], shapes: NDArray[Any], about: Mapping[str, Any], path: Path) -> None:
    """A workbook: the table with its HXL row, frozen below it, and a second sheet that says how it was made."""
    Font = library("openpyxl.styles", "excel").Font
    book = library("openpyxl", "excel").Workbook()
    sheet = book.active
    sheet.title = "totals"
    sheet.append([safe(name) for name, _, _ in columns])
    sheet.append([tag for _, tag, _ in columns])
    for row in zip(*([safe(_cell(value, None)) for value in values] for *_, values in columns), strict=True):
        sheet.append(row)
    for cell in sheet[1]:
        cell.font = Font(bold=True)
        # The HXL row may be cut: it is for programs.
        longest = max(len(str(value)) for value in (cell.value, *columns[cell.column - 1][2]))
        sheet.column_dimensions[cell.column_letter].width = min(max(longest + 2, 10), WIDEST)
    for cell in sheet[2]:
        cell.font = Font(color="888888", size=9)
    sheet.freeze_panes = "B3"
    sheet = book.create_sheet("about")
    sheet.column_dimensions["A"].width = 24
    for name, value in flat(plain(about)).items():
        sheet.append([safe(str(name)), safe(value[:32_000])])  # what a cell of Excel can hold
    with replacing(path) as temporary:
        book.save(temporary)


def write_geojson(columns: Sequence[Column], shapes: NDArray[Any], about: Mapping[str, Any], path: Path) -> None:
    """GeoJSON (RFC 7946) in WGS 84, one feature per area."""
    names = [name for name, _, _ in columns]
    rows = zip(*([_cell(value, None) for value in values] for *_, values in columns), strict=True)
    rounded = shapely.orient_polygons(shapely.transform(shapes, lambda places: np.round(places, DIGITS)))
    features = (
        {
            "type": "Feature",
            "properties": dict(zip(names, row, strict=True)),
            "geometry": json.loads(shapely.to_geojson(shape)),
        }
        for row, shape in zip(rows, rounded, strict=True)
    )
    with replacing(path) as temporary:
        write_features(temporary, features, {"metadata": plain(about)})


def write_gpkg(columns: Sequence[Column], shapes: NDArray[Any], about: Mapping[str, Any], path: Path) -> None:
    """GeoPackage in WGS 84, layer `totals`."""
    pyogrio, geopandas = library("pyogrio"), library("geopandas")
    many = np.array([shapely.multipolygons([shape]) if shape.geom_type == "Polygon" else shape for shape in shapes])
    frame = geopandas.GeoDataFrame({name: values for name, _, values in columns}, geometry=many, crs=WGS84)
    with replacing(path) as temporary:
        pyogrio.write_dataframe(frame, temporary, layer="totals", dataset_metadata=flat(plain(about)), **GEOPACKAGE)


def _cell(value: Any, missing: Any) -> Any:
    """A value for a file: None if it is not known; numbers with `NUMBER` significant digits."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return missing
    return float(f"{value:.{NUMBER}g}") if isinstance(value, float) else value
