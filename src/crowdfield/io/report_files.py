"""Reports as files that everybody can read: a plain table, or points."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from crowdfield.data import Reports
from crowdfield.data.reports import WHOLE_AREA
from crowdfield.errors import InputError
from crowdfield.geography import WGS84, transform
from crowdfield.io import score_columns
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import GEOPACKAGE, plain
from crowdfield.io.requirements import library
from crowdfield.io.table import write_rows
from crowdfield.io.vector import write_features

REPORT_FORMATS = {
    ".csv": "plain table",
    ".geojson": "GeoJSON points",
    ".json": "GeoJSON points",
    ".gpkg": "GeoPackage points",
    ".parquet": "GeoParquet points",
}


def check_report_format(path: str | Path) -> str:
    """Say in which format reports would be written; an error when the suffix is unknown.

    Parameters
    ----------
    path : path
        The file to be written.

    Returns
    -------
    str
        The name of the format.

    Examples
    --------
    >>> import crowdfield as cf
    >>> cf.io.check_report_format("reports.geojson")
    'GeoJSON points'
    """
    try:
        return REPORT_FORMATS[Path(path).suffix.lower()]
    except KeyError:
        known = " ".join(REPORT_FORMATS)
        raise InputError(f"{Path(path).name}: reports can be written as {known}") from None


def write_reports(reports: Reports, path: str | Path) -> Path:
    """Write reports in degrees: source, latitude, longitude, label, and whatever else they have.

    Areas are written as their centroid, how far they reach (``accuracy_m``) and ``whole_area``, which `read` reads
    back; their outlines are not part of the reports.

    Parameters
    ----------
    reports : Reports
        With a reference system.
    path : path
        Its suffix says the format: .csv, .geojson, .json, .gpkg or .parquet.

    Returns
    -------
    pathlib.Path
        The path.

    Examples
    --------
    >>> import crowdfield as cf
    >>> reports = cf.Reports.from_arrays([[-72.3, 18.5]], ["flooded"], crs="EPSG:4326")
    >>> cf.io.write_reports(reports, "out.csv").read_text().splitlines()
    ['source,lat,lon,label', 'all,18.5,-72.3,flooded']
    """
    path = Path(path)
    kind = path.suffix.lower()
    check_report_format(path)
    names, rows = _rows(reports)
    if kind == ".csv":
        write_rows(names, rows, path)
        return path
    features = (
        {
            "type": "Feature",
            "properties": {n: v for n, v in zip(names, row, strict=True) if n not in ("lat", "lon") and v != ""},
            "geometry": {"type": "Point", "coordinates": [row[2], row[1]]},
        }
        for row in rows
    )
    if kind in (".geojson", ".json"):
        with replacing(path) as temporary:
            write_features(temporary, features, {})
        return path
    geopandas = library("geopandas")
    frame = geopandas.GeoDataFrame.from_features(features, crs=WGS84)
    with replacing(path) as temporary:
        if kind == ".gpkg":
            frame.to_file(temporary, layer="reports", **GEOPACKAGE)
        else:
            frame.to_parquet(temporary, index=False)
    return path


def _rows(reports: Reports) -> tuple[list[str], list[tuple[Any, ...]]]:
    if reports.crs is None:
        raise InputError("the reports have no reference system, so there are no latitudes and longitudes to write.")
    lonlat = np.round(transform(reports.places[:, :2], reports.crs, WGS84), 7)
    columns: dict[str, list[Any]] = {
        "source": [plain(reports.sources[code]) for code in reports.source],
        "lat": lonlat[:, 1].tolist(),
        "lon": lonlat[:, 0].tolist(),
        "label": [plain(reports.labels[code]) for code in reports.label],
    }
    if reports.time is not None:
        columns["time"] = ["" if np.isnan(t) else datetime.fromtimestamp(t, UTC).isoformat() for t in reports.time]
    if reports.id is not None:
        columns["id"] = ["" if name is None else plain(name) for name in reports.id]
    if reports.score is not None and reports.score.ndim == 2:
        columns |= score_columns.columns_of(reports)
    elif reports.score is not None:
        columns["score"] = ["" if np.isnan(sure) else round(sure, 6) for sure in reports.score.tolist()]
    if reports.count is not None:
        columns["count"] = reports.count.tolist()
    if reports.accuracy is not None:
        columns["accuracy_m"] = ["" if np.isnan(metres) else round(metres, 3) for metres in reports.accuracy.tolist()]
    if reports.area is not None:
        columns[WHOLE_AREA] = reports.area.tolist()
    return list(columns), list(zip(*columns.values(), strict=True))
