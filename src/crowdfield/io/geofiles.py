"""Files of points with properties, in any coordinate reference system, as a table with one feature per row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.errors import ReportFormatError
from crowdfield.io import columns, features, mapswipe
from crowdfield.io.collect import Batch
from crowdfield.io.delimited import Chunk
from crowdfield.io.features import Features
from crowdfield.io.kinds import Found
from crowdfield.io.layouts import Options
from crowdfield.io.points import Plan

LAT, LON, KIND = "<latitude>", "<longitude>", "<geometry>"


class GeoFile:
    """The features of a file as a table; rows are features, and a line is a feature's number."""

    def __init__(self, path: Path, found: Found, options: Options) -> None:
        self.path, self.kind = path, found.kind.name
        read = features.read(path, found)
        self.header = list(read.columns)
        self.notes = read.notes
        self.is_mapswipe = mapswipe.is_mapswipe([*self.header, "geometry"])
        self._frame = _table(read)
        self.crs = _system(read, self._frame, options, path)

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
            raise columns.missing_error(["label"], self.header, self.name)
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


def _table(read: Features) -> pd.DataFrame:
    shapes, kinds = read.shapes, read.kinds.copy()
    kinds[shapely.is_empty(shapes)] = None
    # A multi-point of one point is a point that some programs write so.
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
