"""Recognising a file: its kind, its layout, and a column for each role."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from crowdfield.errors import InputError, ReportFormatError
from crowdfield.geography.projection import is_geographic
from crowdfield.io import dyfi, features, geofiles, kinds, mapswipe, points, ushahidi
from crowdfield.io.collect import Batch
from crowdfield.io.columns import some
from crowdfield.io.delimited import Table
from crowdfield.io.layouts import Layout, Options, all_layouts
from crowdfield.io.opening import Progress
from crowdfield.io.places import longitude_is_first
from crowdfield.io.points import Plan
from crowdfield.io.tabular import Records, Tabular
from crowdfield.io.times import Times


@dataclass(frozen=True)
class Found:
    """An opened file with its layout and the plan for reading it."""

    table: Tabular | geofiles.GeoFile
    plan: Plan
    layout: str
    title: str
    labels: tuple[str, ...] | None
    states: tuple[str, ...] | None
    notes: tuple[str, ...]
    known: Layout | None

    @property
    def graded_by(self) -> str | None:
        """The column of numbers that the layout turns into labels, which are grades."""
        return self.plan.shown.get("label") if self.title == dyfi.TITLE else None

    def times(self, options: Options) -> Times | None:
        if self.known is not None and self.known.batches is not None:
            return None
        column = self.plan.column("time") or self.plan.columns.get("date")
        return None if column is None else Times(self.table.name, column, options.dates)

    def batches(self, options: Options, times: Times | None, progress: Progress | None) -> Iterator[Batch]:
        if isinstance(self.table, geofiles.GeoFile):
            if self.known is mapswipe.LAYOUT:
                return self.table.mapswipe_batches(options)
            return points.batches(self.table.chunks(self.plan.wanted()), self.plan, times)
        if self.known is not None and self.known.batches is not None:
            return self.known.batches(self.table, self.plan, options, progress)
        roles = ("lat", "lon", "accuracy", "count", "score")
        numeric = [name for role in roles if (name := self.plan.columns.get(role))] + self.plan.score_columns()
        missing = self.plan.missing
        chunks = self.table.chunks(self.plan.wanted(), numeric=numeric, missing=missing, progress=progress)
        return points.batches(chunks, self.plan, times)


def recognise(
    file: Path, options: Options, *, format: str | None = None, layer: str | None = None, encoding: str | None = None
) -> Found:
    """A file with its layout and its columns. ``format`` must agree with what the bytes and the columns show."""
    layouts = {layout.name: layout for layout in all_layouts()}
    known = [*layouts, *kinds.FEATURES]
    if format is not None and format not in known:
        raise InputError(f"there is no format {format!r}; the formats are {', '.join(known)}.")
    found = kinds.look(file, layer)
    if found.kind.name in kinds.FEATURES:
        if encoding is not None:
            raise ReportFormatError(
                f"is {found.kind.title}, which states its own encoding.", advice="Leave out --encoding.", file=str(file)
            )
        read = features.read(file, found)
        if not read.is_table and not any(kind is not None for kind in read.kinds.tolist()):
            read.is_table = True  # features without a geometry: the places may be among the properties
        if not read.is_table:
            return _of_features(geofiles.GeoFile(file, read, found.kind.name, options), found, options, format)
        table: Tabular = Records(file, read, found.kind.name)
        notes = read.notes
    elif format in kinds.FEATURES:
        raise ReportFormatError(f"is not {kinds.FEATURES[format].title}: it is {found.kind.title}.", file=str(file))
    else:
        table, notes = Table(file, found, encoding=encoding), ()
    return _of_table(table, layouts, options, None if format == found.kind.name else format, notes)


def _of_table(
    table: Tabular, layouts: Mapping[str, Layout], options: Options, format: str | None, notes: Sequence[str]
) -> Found:
    header = table.header
    layout = layouts[format] if format is not None else next(x for x in layouts.values() if x.matches(header))
    if not layout.matches(header):
        raise ReportFormatError(
            f"does not look like {layout.title}: the columns are {some(header)}.",
            advice="Leave out --format to find out what it is.",
            file=table.name,
            line=1,
        )
    if layout is mapswipe.LAYOUT and format is None and (column := mapswipe.checked_column(header)) is not None:
        if options.given("label") is None:
            raise mapswipe.in_doubt(column, table.name)
        layout = layouts["plain"]
    if layout is mapswipe.LAYOUT and format is None:
        mapswipe.refuse_own_answers(header, table.name)
    if options.swap and layout.batches is not None:
        raise InputError(f"--swap does not apply to {layout.title}.")
    plan = layout.plan(table, options)
    if not {"lat", "lon"} - plan.columns.keys():
        _refuse_degrees(options, table, [*map(plan.columns.__getitem__, ("lat", "lon"))])
    if (place := plan.columns.get("place")) is not None:
        plan.lon_first = longitude_is_first(place, table.column(place))
    labels = layout.labels if "label" in plan.made else None
    title = layout.title if layout.name != "plain" else table.title
    said = layout.notes if labels or layout.labels is None else ()
    return Found(table, plan, layout.name, title, labels, layout.states, (*notes, *said, *plan.notes), layout)


def _refuse_degrees(options: Options, table: Tabular, names: Sequence[str]) -> None:
    """It is an error to name a reference system in metres for coordinates that are all as small as degrees."""
    if options.crs is None or options.crs == "local" or is_geographic(options.crs):
        return
    cells = [pd.Series(table.column(name), dtype=object) for name in names if name in table.header]
    read = [points.numbers(column) for column in cells]
    lat, lon = (np.abs(numbers[np.isfinite(numbers)]) for numbers in read) if len(read) == 2 else (np.empty(0),) * 2
    if len(lat) and len(lon) and lat.max() <= 90 and lon.max() <= 180:
        raise ReportFormatError(
            f"its coordinates look like degrees, which those of {options.crs} are not.",
            advice="Leave out --crs. (--projection is the reference system of the map.)",
            file=table.name,
            column=names[0],
        )


def _of_features(table: geofiles.GeoFile, found: kinds.Found, options: Options, format: str | None) -> Found:
    kind = found.kind
    as_mapswipe = table.is_mapswipe and options.given("label") is None
    if format not in (None, kind.name) and not (format == mapswipe.LAYOUT.name and as_mapswipe):
        # A format that the user names must agree with the bytes of the file.
        raise ReportFormatError(f"is not of the format {format!r}: it is {kind.title}.", file=table.name)
    if as_mapswipe:
        if options.swap:
            raise InputError(f"--swap does not apply to {mapswipe.LAYOUT.title}.")
        if format is None and (column := mapswipe.checked_column(table.header)) is not None:
            raise mapswipe.in_doubt(column, table.name)
        if format is None:
            mapswipe.refuse_own_answers(table.header, table.name)
        layout = mapswipe.LAYOUT
        plan = options.plan({"lat": geofiles.LAT, "lon": geofiles.LON}, shown=dict.fromkeys(("lat", "lon"), "geometry"))
        title = f"{kind.name} ({layout.name})"
        return Found(table, plan, title, layout.title, None, layout.states, (*table.notes, *layout.notes), layout)
    layout = ushahidi.VERSION_2
    if layout.matches(table.header):
        plan = replace(layout.plan(table.with_places(), options), crs=table.crs)  # type: ignore[arg-type]
        labels = layout.labels if "label" in plan.made else None
        notes = (*table.notes, *(layout.notes if labels else ()))
        return Found(table, plan, f"{kind.name} ({layout.name})", layout.title, labels, layout.states, notes, None)
    plan = table.plan(options)
    if "label" in plan.made:
        return Found(table, plan, f"{kind.name} (dyfi)", dyfi.TITLE, None, None, (*table.notes, dyfi.NOTE), None)
    return Found(table, plan, kind.name, kind.title, None, None, table.notes, None)
