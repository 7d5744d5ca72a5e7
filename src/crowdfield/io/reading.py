"""Read reports from a file of any known layout, and say how it was read."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.data.reports import Reports
from crowdfield.errors import InputError, ReportFormatError, TooLargeError
from crowdfield.io import geofiles, kinds, mapswipe, points
from crowdfield.io.collect import Batch, Collected, Collector, settle_labels
from crowdfield.io.columns import some
from crowdfield.io.delimited import Table
from crowdfield.io.layouts import Layout, Options, all_layouts
from crowdfield.io.opening import Progress
from crowdfield.io.points import Plan
from crowdfield.io.rejects import Refusal, Rejects, without_advice
from crowdfield.io.result import ReadResult
from crowdfield.io.times import Times

_DUPLICATES = 4  # a file that is read up to a number of reports may hold so many times as many before duplicates go
Duplicates = Literal["once", "keep", "events"]


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    lat: str | None = None,
    lon: str | None = None,
    label: str | None = None,
    source: str | None = None,
    time: str | None = None,
    id: str | None = None,
    text: str | None = None,
    positive: str | Sequence[str] | None = None,
    label_map: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    duplicates: Duplicates = "once",
    region: str | Sequence[float] | Mapping[str, float] | None = None,
    crs: str | None = None,
    cell: str | float | None = None,
    dates: Literal["dmy", "mdy"] | None = None,
    encoding: str | None = None,
    most: int | None = None,
    progress: Progress | None = None,
) -> ReadResult:
    """Read a file of reports. Layout and columns are found out; every choice can be made by hand.

    Parameters
    ----------
    path : path
        A table, a geographic file, or an export of Ushahidi, Zooniverse, MapSwipe or Kobo.
    format : str, optional
        The layout, where it should not be guessed.
    lat, lon, label, source, time, id, text : str, optional
        Names of columns.
    positive : str or sequence of str, optional
        The label to map; all others become "not …".
    label_map : mapping or path, optional
        New names for labels, as a mapping or a TOML file.
    duplicates : {"once", "keep", "events"}, default="once"
        Use duplicates once, use all of them, or use them once together with copied messages.
    region : str, sequence or mapping, optional
        West, south, east, north in degrees; what lies elsewhere is left out.
    crs : str, optional
        The system of the coordinates, or "local" for numbers that are nowhere on Earth.
    cell : str or float, optional
        Size of the cells that a Zooniverse image without marks covers.
    dates : {"dmy", "mdy"}, optional
        The order of day and month, where the file leaves it open.
    encoding : str, optional
        Of the text.
    most : int, optional
        More reports than this are an error.
    progress : callable, optional
        Called with bytes done and bytes in all.

    Returns
    -------
    ReadResult
        The reports, and an account of every row.

    Examples
    --------
    >>> from pathlib import Path
    >>> import crowdfield as cf
    >>> rows = ["lat,lon,label,source", "18.5,-72.3,flooded,ann", "18.6,-72.3,dry,bob", "18.6,,dry,bob"]
    >>> _ = Path("calls.csv").write_text(chr(10).join(rows))
    >>> result = cf.io.read("calls.csv")
    >>> result.read, result.used, result.rejected
    (3, 2, 1)
    >>> result.reports.labels
    ('dry', 'flooded')
    """
    file = Path(path)
    if not file.is_file():
        raise ReportFormatError("there is no such file.", file=str(file))
    if duplicates not in ("once", "keep", "events"):
        raise InputError(f"duplicates must be 'once', 'keep' or 'events', got {duplicates!r}.")
    options = Options(
        columns={"lat": lat, "lon": lon, "label": label, "source": source, "time": time, "id": id, "text": text},
        crs=None if crs is None else "local" if crs == "local" else geography.check_crs(crs),
        region=None if region is None else geography.parse_region(region),
        cell=None if cell is None else geography.parse_length(cell),
        positive=positive is not None,
        dates=dates,
    )
    mapping = _label_map(label_map)
    wanted = positive if positive is None or isinstance(positive, str) else list(positive)

    found = _open(file, format, options, encoding)
    times = found.times(options)
    collector = Collector()
    gathered = 0
    for batch in found.batches(options, times, progress):
        gathered += len(batch.row)
        # Duplicates do not count, and are known only at the end.
        if most is not None and gathered > _DUPLICATES * most:
            raise _too_many(most, file)
        collector.add(batch)
    if collector.rows == 0:
        raise ReportFormatError("has a header but no reports.", file=str(file), line=1)
    seconds = None if times is None else times.seconds(lambda row: int(found.table.lines(np.array([row]))[0]))
    collected = collector.finish(duplicates=duplicates, time=seconds)
    if most is not None and len(collected.row) > most:
        raise _too_many(most, file)
    return _result(found, collector, collected, options, times, wanted, mapping)


def _too_many(most: int, file: Path) -> TooLargeError:
    return TooLargeError(f"holds more than {most:,} reports. Split it.", file=str(file))


def inspect(path: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Say what a file holds and how it would be read, in plain values.

    Parameters
    ----------
    path : path
        The file.
    **options
        Those of `read`.

    Returns
    -------
    dict
        As ``crowdfield inspect --json`` prints it.

    Examples
    --------
    >>> from pathlib import Path
    >>> import crowdfield as cf
    >>> _ = Path("two.csv").write_text(chr(10).join(["lat,lon,label", "18.5,-72.3,flooded", "18.6,-72.3,dry"]))
    >>> cf.io.inspect("two.csv")["labels"]
    {'dry': 1, 'flooded': 1}
    """
    return read(path, **options).summary()


@dataclass(frozen=True)
class _Found:
    """A file, opened and understood."""

    table: Table | geofiles.GeoFile
    plan: Plan
    layout: str
    title: str
    labels: tuple[str, ...] | None
    states: tuple[str, ...] | None
    notes: tuple[str, ...]
    known: Layout | None

    def times(self, options: Options) -> Times | None:
        if self.known is not None and self.known.batches is not None:
            return None
        column = self.plan.column("time") or self.plan.columns.get("date")
        return None if column is None else Times(self.table.name, column, options.dates)

    def batches(self, options: Options, times: Times | None, progress: Progress | None) -> Iterator[Batch]:
        if isinstance(self.table, geofiles.GeoFile):
            if self.table.is_mapswipe:
                return self.table.mapswipe_batches(options)
            return points.batches(self.table.chunks(self.plan.wanted()), self.plan, times)
        if self.known is not None and self.known.batches is not None:
            return self.known.batches(self.table, self.plan, options, progress)
        numeric = [name for role in ("lat", "lon") if (name := self.plan.columns.get(role))]
        chunks = self.table.chunks(self.plan.wanted(), numeric=numeric, progress=progress)
        return points.batches(chunks, self.plan, times)


def _open(file: Path, format: str | None, options: Options, encoding: str | None) -> _Found:
    layouts = {layout.name: layout for layout in all_layouts()}
    known = [*layouts, *kinds.FEATURES]
    if format is not None and format not in known:
        raise InputError(f"there is no format {format!r}; the formats are {', '.join(known)}.")
    found = kinds.look(file)
    if found.kind.name in kinds.FEATURES:
        _check_format(format, found, file)
        return _geofile(geofiles.GeoFile(file, found, options), found, options)
    if format in kinds.FEATURES:
        raise ReportFormatError(f"is not {kinds.FEATURES[format].title}: it is {found.kind.title}.", file=str(file))
    text = Table(file, found, encoding=encoding)
    layout = layouts[format] if format is not None else next(x for x in layouts.values() if x.matches(text.header))
    if not layout.matches(text.header):
        raise ReportFormatError(
            f"does not look like {layout.title}: the columns are {some(text.header)}.",
            advice="Leave out --format to find out what it is.",
            file=str(file),
            line=1,
        )
    plan = layout.plan(text, options)
    labels = layout.labels if "label" in plan.made else None
    title = layout.title if layout.name != "plain" else f"{layout.title} cut at {_named(text.delimiter)}"
    return _Found(
        text, plan, layout.name, title, labels, layout.states, layout.notes if labels else _other(layout), layout
    )


def _check_format(format: str | None, found: kinds.Found, file: Path) -> None:
    """A format that was named must be the one that the bytes show: what a file is called opens nothing."""
    if format not in (None, found.kind.name):
        raise ReportFormatError(f"is not of the format {format!r}: it is {found.kind.title}.", file=str(file))


def _geofile(table: geofiles.GeoFile, found: kinds.Found, options: Options) -> _Found:
    kind = found.kind
    if not table.is_mapswipe:
        return _Found(table, table.plan(options), kind.name, kind.title, None, None, table.notes, None)
    layout = mapswipe.LAYOUT
    plan = options.plan({"lat": geofiles.LAT, "lon": geofiles.LON}, shown=dict.fromkeys(("lat", "lon"), "geometry"))
    title = f"{kind.name} ({layout.name})"
    return _Found(table, plan, title, layout.title, None, layout.states, (*table.notes, *layout.notes), layout)


def _other(layout: Layout) -> tuple[str, ...]:
    # Notes of layouts with one label hold only while that label is what was read.
    return () if layout.labels is not None else layout.notes


def _named(delimiter: str) -> str:
    return {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}[delimiter]


def _result(
    found: _Found,
    collector: Collector,
    collected: Collected,
    options: Options,
    times: Times | None,
    positive: str | list[str] | None,
    label_map: Mapping[str, Any] | None,
) -> ReadResult:
    file = found.table.name
    names = collector.labels.names
    refused = collector.refused
    row, keep = collected.row, np.ones(len(collected.row), dtype=bool)
    labels: tuple[Any, ...] = ()
    code = np.empty(0, dtype=np.int64)
    if len(row):
        if found.labels is not None and positive is None and label_map is None:
            labels = found.labels
            code = np.array([labels.index(name) for name in names], dtype=np.int64)
        else:
            code, labels, _ = settle_labels(names, positive=positive, label_map=label_map)
        keep = code[collected.label] >= 0
        for lost in np.setdiff1d(row[~keep], row[keep]).tolist() if not keep.all() else ():
            name = names[collected.label[np.searchsorted(row, lost)]]
            reason = f"the label '{name}' is mapped to nothing."
            refused.add([Refusal(lost, found.plan.column("label") or "", reason)])
        row = row[keep]
    used = int(np.count_nonzero(np.diff(row, prepend=-1)))
    rows, codes, reasons = refused.in_order()
    rejects = Rejects(found.table.lines(rows), codes, [(_shown(column), reason) for column, reason in reasons])
    if used == 0:
        first = rejects[0]
        several = f"none of the {collector.rows} rows can be used. The first: " if collector.rows > 1 else ""
        reason = without_advice(first.reason)
        raise ReportFormatError(
            several + reason,
            advice=first.reason.removeprefix(reason).strip(),
            file=file,
            line=first.line or None,
            column=first.column or None,
        )

    sources = collector.sources.names or ["all"]
    order = sorted(range(len(sources)), key=sources.__getitem__)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    every = bool(keep.all())

    def kept(values: Any) -> Any:
        return values if every else values[keep]

    reports = Reports(
        places=kept(collected.places),
        label=code[kept(collected.label)],
        source=place[kept(collected.source)],
        labels=labels,
        sources=tuple(sources[i] for i in order),
        time=None if collected.time is None else kept(collected.time),
        id=None if collected.id is None else tuple(v for v, k in zip(collected.id, keep.tolist(), strict=True) if k),
        crs=None if options.crs == "local" else geography.WGS84,
    )
    events = None if collected.event is None else kept(collected.event)
    region = geography.bounds(reports.places) if reports.crs else _extent(reports.places)
    columns = _told(found.plan)
    said = (f"{_ROLE[role]} {'' if where[0] == _QUOTE else 'from '}{where}" for role, where in columns.items())
    statement = f"{Path(file).name}: {found.title}; {', '.join(said)}"
    return ReadResult(
        file=file,
        layout=found.layout,
        columns=columns,
        statement=statement,
        reports=reports,
        read=collector.rows,
        used=used,
        duplicate=collected.duplicate_rows,
        rejected=len(rejects),
        rejects=rejects,
        region=region,
        notes=(*found.notes, *_remarks(reports, times, events, found)),
        events=events,
        states=found.states or found.labels,
        row=row,
        _lines=found.table.lines,
    )


def _remarks(reports: Reports, times: Times | None, events: NDArray[np.int64] | None, found: _Found) -> list[str]:
    said = []
    one = int(reports.label[0])
    if found.labels is None and (reports.label == one).all():
        said.append(
            f"all reports say '{reports.labels[one]}': where it is not the case cannot be learned from them alone"
        )
    if times is not None and times.unread:
        many = "1 time" if times.unread == 1 else f"{times.unread} times"
        said.append(f"{many} in column '{times.column}' could not be read: not known for those reports")
    if times is not None and times.ambiguous:
        said.append(f"dates in column '{times.column}' are taken as day/month/year; --dates mdy says otherwise")
    if reports.crs and (zero := np.count_nonzero((reports.places[:, 0] == 0) & (reports.places[:, 1] == 0))):
        said.append(f"{zero} reports lie at 0° N 0° E, where missing coordinates end up; leave them out with --region")
    if events is not None and (events >= 0).any():
        copies = int((events >= 0).sum() - len(np.unique(events[events >= 0])))
        said.append(f"{copies} reports repeat another's words within minutes; --duplicates events counts them once")
    return said


_QUOTE = "'"  # a value given to all rows is quoted, a column's name is not
_ROLE = {
    "lat": "latitude",
    "lon": "longitude",
    "label": "label",
    "source": "source",
    "time": "time",
    "id": "id",
    "text": "text",
}


def _told(plan: Plan) -> dict[str, str]:
    """Where each role comes from, in words."""
    told = {role: name for role, name in plan.columns.items() if role in _ROLE}
    if "date" in plan.columns:
        told["time"] = f"{plan.columns['date']} + {plan.columns['clock']}"
    if "geometry" in plan.columns:
        told["lat"] = told["lon"] = plan.columns["geometry"]
    told |= plan.shown
    return {role: told[role] for role in _ROLE if role in told}


def _shown(column: str) -> str:
    return {geofiles.LAT: "geometry", geofiles.LON: "geometry", "<label>": "", "<source>": ""}.get(column, column)


def _extent(places: NDArray[np.float64]) -> geography.Region:
    (west, south), (east, north) = places.min(axis=0).tolist(), places.max(axis=0).tolist()
    return geography.Region(west, south, east, north)


def _label_map(label_map: Mapping[str, Any] | str | os.PathLike[str] | None) -> Mapping[str, Any] | None:
    if label_map is None or isinstance(label_map, Mapping):
        return label_map
    try:
        with open(label_map, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise InputError(f"the label map {label_map} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the label map {label_map} is not TOML: {error}.") from None
    inner = table.get("labels", table)
    if not isinstance(inner, dict) or any(isinstance(v, (dict, list)) for v in inner.values()):
        raise InputError(f'the label map {label_map} must hold lines like "collapsed" = "damaged".')
    return inner
