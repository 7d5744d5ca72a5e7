"""GeoJSON, GeoPackage, GeoParquet, Shapefile and KML: points with properties, in any coordinate reference system."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.errors import MissingDependencyError, ReportFormatError
from crowdfield.io import columns, mapswipe, opening
from crowdfield.io.collect import Batch
from crowdfield.io.delimited import Chunk
from crowdfield.io.layouts import Options
from crowdfield.io.points import Plan

TITLES = {
    "geojson": "GeoJSON",
    "gpkg": "a GeoPackage",
    "geoparquet": "GeoParquet",
    "shapefile": "a Shapefile",
    "kml": "KML",
}
# What GDAL may take each for, and the endings by which it knows them.
_DRIVERS = {
    "geojson": ({"GeoJSON", "GeoJSONSeq", "ESRIJSON", "TopoJSON"}, {".json", ".geojson"}),
    "gpkg": ({"GPKG", "SQLite"}, {".gpkg"}),
    "shapefile": ({"ESRI Shapefile"}, {".shp", ".zip"}),
    "kml": ({"KML", "LIBKML"}, {".kml", ".kmz"}),
}
_XML_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>)?\s*(?:<!--.*?-->\s*)*<kml[\s>:]", re.DOTALL)
LAT, LON, KIND = "<latitude>", "<longitude>", "<geometry>"


def detect(path: Path) -> str | None:
    """Which of these formats a file is, by its first bytes; None if it is none of them."""
    start = opening.first_bytes(path, 4096)
    if start.startswith(b"SQLite format 3\x00"):
        return "gpkg"
    if start.startswith(b"PAR1"):
        return "geoparquet"
    if start.startswith(b"\x00\x00\x27\x0a"):
        return "shapefile"
    if start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return "geojson"
    if _XML_START.match(start):
        return "kml"
    if start.startswith(opening.ZIP):
        return _in_zip(path)
    return None


def _in_zip(path: Path) -> str | None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return None
    names = [member.filename.lower() for member in members]
    for ending, kind in ((".shp", "shapefile"), (".kml", "kml"), (".gpkg", "gpkg"), (".geojson", "geojson")):
        if any(name.endswith(ending) for name in names):
            unpacked = sum(member.file_size for member in members)
            if unpacked > opening.RATIO_COUNTS_FROM and unpacked > opening.LARGEST_RATIO * path.stat().st_size:
                raise ReportFormatError(
                    f"unpacks to more than {opening.LARGEST_RATIO} times its size. Unpack it yourself if you trust it.",
                    file=str(path),
                )
            return kind
    return None


class GeoFile:
    """The features of a file as a table; rows are features, and a line is a feature's number."""

    def __init__(self, path: Path, kind: str, options: Options) -> None:
        self.path, self.kind = path, kind
        frame = _load(path, kind)
        if len(frame) == 0:
            raise ReportFormatError("holds no features, so no reports.", file=str(path))
        self.crs = _system(frame, options, path)
        self.header = [str(name) for name in frame.columns if name != frame.geometry.name]
        self.is_mapswipe = mapswipe.is_mapswipe([*self.header, "geometry"])
        self._frame = self._table(frame)

    @property
    def name(self) -> str:
        return str(self.path)

    def plan(self, options: Options) -> Plan:
        given = {role: name for role, name in options.columns.items() if role not in ("lat", "lon")}
        chosen = columns.choose(self.header, self.name, given, needed=())
        if "label" not in chosen and self.kind == "kml":
            # A placemark has a name and little else: the name is what it says.
            chosen |= {"label": next((c for c in self.header if c.lower() == "name"), "")}
            if chosen.get("source") == chosen["label"]:
                del chosen["source"]
        if not chosen.get("label"):
            raise ReportFormatError(columns.missing_message(["label"], self.header), file=self.name)
        chosen |= {"lat": LAT, "lon": LON}
        shown = {"lat": "the geometry", "lon": "the geometry"}

        def refuse(frame: pd.DataFrame) -> Mapping[int, tuple[str, str]]:
            bad = np.flatnonzero(frame[KIND].to_numpy() != "Point")
            return {
                at: (
                    "geometry",
                    f"is {kind if isinstance(kind := frame[KIND].iloc[at], str) else 'empty'}, not a point.",
                )
                for at in bad.tolist()
            }

        return Plan(chosen, crs=self.crs, region=options.region, refuse=refuse, shown=shown)

    def chunks(self, wanted: Sequence[str]) -> Iterator[Chunk]:
        yield Chunk(self._frame, 0)

    def mapswipe_batches(self, options: Options) -> Iterator[Batch]:
        """MapSwipe's counts, where they come as polygons instead of WKT."""
        lower = {name.lower(): name for name in self.header}
        chosen = {"lat": LAT, "lon": LON}
        chosen |= {a: lower[key] for key, a in mapswipe.ANSWERS.items() if key in lower}
        if "task_id" in lower:
            chosen["id"] = lower["task_id"]
        votes, plan = mapswipe.Votes(), options.plan(chosen)
        frame = self._frame
        if self.crs not in (geography.WGS84, "local") and len(frame):
            places = frame[[LON, LAT]].to_numpy(dtype=np.float64)
            ok = np.isfinite(places).all(axis=1)
            places[ok] = geography.transform(places[ok], self.crs, geography.WGS84)
            frame = frame.assign(**{LON: places[:, 0], LAT: places[:, 1]})
        for number, cells in enumerate(frame.to_dict("records")):
            votes.add(number, {str(k): "" if pd.isna(v) else str(v) for k, v in cells.items()}, plan, options)
        yield votes.batch()

    def lines(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows + 1

    def _table(self, frame: Any) -> pd.DataFrame:
        import shapely

        shapes = frame.geometry.to_numpy()
        kinds = np.array([None if shape is None else shape.geom_type for shape in shapes], dtype=object)
        empty = np.array([shape is None or shape.is_empty for shape in shapes], dtype=bool)
        kinds[empty] = None
        # A multi-point of one point is a point that some programs write so.
        single = np.array(
            [s is not None and s.geom_type == "MultiPoint" and len(s.geoms) == 1 for s in shapes], dtype=bool
        )
        kinds[single & ~empty] = "Point"
        middle = shapely.centroid(shapes)
        table = pd.DataFrame(
            {str(name): _cells(frame[name]) for name in frame.columns if name != frame.geometry.name},
            index=pd.RangeIndex(len(frame)),
        )
        table[LON], table[LAT], table[KIND] = shapely.get_x(middle), shapely.get_y(middle), kinds
        return table


def _cells(values: pd.Series[Any]) -> Any:
    """Properties as a table would hold them: text, or nothing."""
    missing = values.isna().to_numpy(dtype=bool)
    if isinstance(values.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_any_dtype(values.dtype):
        text = [None if gone else stamp.isoformat() for stamp, gone in zip(values, missing, strict=True)]
    else:
        text = [None if gone else _text(value) for value, gone in zip(values.tolist(), missing, strict=True)]
    return np.array(text, dtype=object)


def _text(value: Any) -> str:
    # Whole numbers become floats where one of a column is missing: 1 must not turn into "1.0".
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _load(path: Path, kind: str) -> Any:
    try:
        import geopandas
        import pyogrio
        from pyogrio.errors import DataLayerError, DataSourceError, FeatureError, GeometryError
    except ImportError:
        raise MissingDependencyError(
            f"geopandas and pyogrio are needed to read {TITLES[kind]}. Install them with: pip install 'crowdfield[geo]'"
        ) from None
    import warnings

    try:
        with warnings.catch_warnings():
            # GDAL remarks on fields it reads as text; what could not be used is told by our own rejects.
            warnings.simplefilter("ignore")
            if kind == "geoparquet":
                frame = geopandas.read_parquet(path)
            else:
                drivers, endings = _DRIVERS[kind]
                # With another ending GDAL trusts the ending; bytes have none.
                where = path if path.suffix.lower() in endings | {".zip"} else path.read_bytes()
                driver = pyogrio.read_info(where)["driver"]
                if driver not in drivers:
                    raise DataSourceError(f"it is read as {driver}")
                frame = pyogrio.read_dataframe(where)
    except (
        DataSourceError,
        DataLayerError,
        FeatureError,
        GeometryError,
        OSError,
        ValueError,
        TypeError,
        KeyError,
    ) as error:
        raise ReportFormatError(
            f"looks like {TITLES[kind]} but cannot be read as such: {str(error)[:200]}. Is the file complete?",
            file=str(path),
        ) from None
    if not isinstance(frame, geopandas.GeoDataFrame) or frame._geometry_column_name is None:
        raise ReportFormatError("has no geometry: it holds a table and no places.", file=str(path))
    return frame


def _system(frame: Any, options: Options, path: Path) -> str:
    if options.crs is not None:
        return options.crs
    if frame.crs is not None:
        return geography.check_crs(frame.crs)
    bounds = frame.total_bounds if len(frame) else np.zeros(4)
    if np.isfinite(bounds).all() and (np.abs(bounds[[0, 2]]) > 180).any():
        raise ReportFormatError(
            "does not say its coordinate reference system, and its numbers are not degrees. Name it with --crs EPSG:n.",
            file=str(path),
        )
    return geography.WGS84
