"""Files of points with properties, in any coordinate reference system, as a table with one feature per row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.errors import ReportFormatError
from crowdfield.io import columns, dyfi, mapswipe, score_columns
from crowdfield.io.area_places import radii
from crowdfield.io.collect import Batch
from crowdfield.io.delimited import Chunk
from crowdfield.io.features import Features
from crowdfield.io.layouts import Options
from crowdfield.io.plain import with_scores
from crowdfield.io.points import REACH, Plan, refused_shape
from crowdfield.io.tabular import sampled

LAT, LON, KIND = "<latitude>", "<longitude>", "<geometry>"
POLYGONS = ("Polygon", "MultiPolygon")


class WithPlaces(NamedTuple):
    """A header, for layouts whose `plan` needs only the names of columns."""

    header: list[str]
    name: str


class GeoFile:
    """The features of a file as a table; rows are features, and a line is a feature's number."""

    def __init__(self, path: Path, read: Features, kind: str, options: Options) -> None:
        self.path, self.kind = path, kind
        self.header = list(read.columns)
        self.notes = read.notes
        self._frame = _table(read, options.polygons)
        self.crs = _system(read, self._frame, options, path)
        self._areas = options.polygons == "area"
        if self._areas:
            self._frame[REACH] = _reaches(read, self.crs)

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def is_mapswipe(self) -> bool:
        return mapswipe.is_mapswipe([*self.header, "geometry"])

    @property
    def is_dyfi(self) -> bool:
        return dyfi.matches(self.header)

    def with_places(self) -> WithPlaces:
        """The table with the geometry as two more columns, as layouts of text tables expect it."""
        return WithPlaces([*self.header, LAT, LON], self.name)

    def samples(self) -> dict[str, list[str]]:
        """Values of every column from all over the table."""
        return {name: sampled(self._frame[name]) for name in self.header}

    def plan(self, options: Options) -> Plan:
        if self.is_dyfi and options.given("label") is None:
            plan = dyfi.plan(self.header, self.name, options, {"lat": LAT, "lon": LON})
            return replace(plan, crs=self.crs)
        given = {role: name for role, name in options.columns.items() if role not in ("lat", "lon", "place")}
        samples = self.samples()
        scores = score_columns.find(self.header, self.name, options.score_columns, samples)
        chosen = columns.choose(self.header, self.name, given, samples, needed=())
        if options.given("source") is None and chosen.get("source", "").lower() == "name":
            del chosen["source"]  # the name of a feature does not say who reported it
        if "label" not in chosen and not scores and self.kind == "kml":
            # A placemark has little but its name, so the name is the label, unless all have a name of their own.
            name = next((c for c in self.header if c.lower() == "name"), "")
            words = samples.get(name, ())
            chosen |= {"label": name} if len(words) <= 2 or len(set(words)) < len(words) else {}
        if self.kind == "gpx":
            self._label_waypoints(chosen, samples)
        if not chosen.get("label") and not scores:
            likely = columns.with_few_values(self.header, samples)
            raise columns.missing_error(["label"], self.header, self.name, likely=likely, notes=self.notes)
        chosen = {role: name for role, name in chosen.items() if role not in ("lat", "lon")} | {"lat": LAT, "lon": LON}
        shown = {"lat": "the geometry", "lon": "the geometry"}
        if self._areas and "accuracy" not in chosen:
            chosen["accuracy"], shown["accuracy"] = REACH, "the geometry"
        plan = with_scores(options, chosen, scores, samples, refuse=_not_points, shown=shown)
        return replace(plan, crs=self.crs)

    def _label_waypoints(self, chosen: dict[str, str], samples: Mapping[str, Sequence[str]]) -> None:
        """If the type of a waypoint is not the label, use the only field with a few different words."""
        likely = columns.with_few_values([name for name in self.header if name not in chosen.values()], samples)
        if "label" not in chosen and len(likely) == 1:
            chosen["label"] = likely[0]

    def chunks(self, wanted: Sequence[str]) -> Iterator[Chunk]:
        yield Chunk(self._frame, 0)

    def mapswipe_batches(self, options: Options) -> Iterator[Batch]:
        """MapSwipe's counts in a file of polygons (instead of WKT in a table)."""
        lower = {name.strip().lower(): name for name in self.header}
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


def _not_points(frame: pd.DataFrame) -> Mapping[int, tuple[str, str]]:
    kinds = frame[KIND].tolist()
    return {
        at: (
            "geometry",
            refused_shape(f"is {kind if isinstance(kind, str) else 'empty'}, not a point.", kind in POLYGONS),
        )
        for at, kind in enumerate(kinds)
        if kind != "Point"
    }


def _reaches(read: Features, crs: str) -> NDArray[np.float64]:
    """The radius of every polygon in metres; NaN for points."""
    out = np.full(len(read), np.nan)
    areas = np.flatnonzero(np.isin(read.kinds.astype(str), POLYGONS) & shapely.is_geometry(read.shapes))
    areas = areas[~shapely.is_empty(read.shapes[areas])]
    out[areas] = radii(read.shapes[areas], crs)
    return out


def _table(read: Features, polygons: str | None) -> pd.DataFrame:
    shapes, kinds = read.shapes.copy(), read.kinds.copy()
    kinds[shapely.is_empty(shapes)] = None
    if polygons is not None:
        areas = np.isin(kinds.astype(str), POLYGONS) & shapely.is_geometry(shapes)
        place = shapely.centroid if polygons == "area" else shapely.point_on_surface
        shapes[areas] = place(shapes[areas])
        kinds[areas] = "Point"
    # Some programs write a single point as a multi-point.
    single = (kinds == "MultiPoint") & (shapely.get_num_geometries(shapes) == 1)
    kinds[single] = "Point"
    middle = shapely.centroid(shapes)
    places = {LON: shapely.get_x(middle), LAT: shapely.get_y(middle), KIND: kinds}
    return pd.DataFrame({**read.columns, **places}, index=pd.RangeIndex(len(read)))


def _system(read: Features, table: pd.DataFrame, options: Options, path: Path) -> str:
    if options.crs is not None:
        return options.crs
    if read.crs is not None:
        return read.crs
    lon = table[LON].to_numpy(dtype=np.float64)
    if (np.abs(lon[np.isfinite(lon)]) > 180).any():
        raise ReportFormatError(
            "does not say its coordinate reference system, and its numbers are not degrees.",
            advice="Name it with --crs EPSG:n.",
            file=str(path),
        )
    return geography.WGS84
