"""Read reports from a file of any known layout, and say how it was read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.data.grade_order import order_of
from crowdfield.data.positive import named_states
from crowdfield.data.reports import Reports
from crowdfield.errors import InputError, ReportFormatError, TooLargeError
from crowdfield.io import encodings, geofiles, remarks
from crowdfield.io.collect import Collected, Collector, settle_labels
from crowdfield.io.column_names import MISSING
from crowdfield.io.columns import NONE
from crowdfield.io.layouts import Options
from crowdfield.io.opening import NotInEncoding, Progress
from crowdfield.io.points import NO_LABEL, NOT_DEGREES, Plan
from crowdfield.io.recognise import Found, recognise
from crowdfield.io.rejects import Advised, Refusal, Rejects, without_advice
from crowdfield.io.result import ReadResult
from crowdfield.io.score_columns import by_label
from crowdfield.io.times import Times
from crowdfield.io.toml_files import read_toml
from crowdfield.readings import READINGS

_DUPLICATES = 4  # how many times the limit on reports may be read before duplicates are removed
_OTHER_LABEL = "If another column says what was seen, name it with --label NAME."
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
    place: str | None = None,
    accuracy: str | float | None = None,
    score: str | None = None,
    score_columns: str | None = None,
    count: str | None = None,
    layer: str | None = None,
    polygons: Literal["inner-point", "area"] | None = None,
    reading: str | None = None,
    swap: bool = False,
    missing: str | Sequence[str] | None = None,
    most: int | None = None,
    progress: Progress | None = None,
) -> ReadResult:
    """Read a file of reports. Its layout and columns are recognised; every choice can be overridden.

    Parameters
    ----------
    path : path
        A table, a geographic file, or an export of Ushahidi, Zooniverse, MapSwipe or Kobo.
    format : str, optional
        The layout, where it should not be guessed.
    lat, lon, label, source, time, id, text, place, count : str, optional
        Names of columns. ``place`` is one column with both coordinates; ``count`` says how many equal reports a row
        stands for.
    positive : str or sequence of str, optional
        The label to map; all others become "not …".
    label_map : mapping or path, optional
        New names for labels, as a mapping or a TOML file.
    duplicates : {"once", "keep", "events"}, default="once"
        Use duplicates once, use all of them, or use them once together with copied messages.
    region : str, sequence or mapping, optional
        West, south, east, north in degrees; what lies elsewhere is left out.
    crs : str, optional
        The reference system of the coordinates, or "local" if they have none.
    cell : str or float, optional
        Size of the cells that a Zooniverse image without marks covers.
    dates : {"dmy", "mdy"}, optional
        The order of day and month, where the file leaves it open.
    encoding : str, optional
        Of the text; by default UTF-8, or what the bytes look like where they are not UTF-8.
    accuracy : str or float, optional
        A column with the accuracy of each place in metres, or one length for all, such as "50m"; "none" leaves it out.
    score : str, optional
        A column that says how sure each report is of its label: probabilities, empty for reports that just say it.
    score_columns : str, optional
        The columns with the probability of every state, with commas between them; "none" leaves them out. By default
        those that are called ``p_…``, ``prob_…`` or ``score_…`` and add up to 1.
    layer : str, optional
        Which of several layers, sheets, or files in a zip file; a part of its name is enough.
    polygons : {"inner-point", "area"}, optional
        Read each polygon as a report at a point inside it, or as one report about the whole of it; by default a file of
        polygons is refused.
    reading : str, optional
        With ``polygons="area"``: what reports say of their areas, "some", "most" or "all" of it, or a column that says
        so; "most" by default (docs/accuracy.md).
    swap : bool, default=False
        Exchange latitude and longitude, for files that have them in the wrong order.
    missing : str or sequence of str, optional
        The words that mean that a cell of the table is empty; by default "NA", "n/a" and the like.
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
    if file.is_dir():
        raise ReportFormatError("is a folder. Name a file in it.", file=str(file))
    if not file.is_file():
        raise ReportFormatError("there is no such file.", file=str(file))
    if duplicates not in ("once", "keep", "events"):
        raise InputError(f"duplicates must be 'once', 'keep' or 'events', got {duplicates!r}.")
    if polygons not in (None, "inner-point", "area"):
        raise InputError(f"polygons can be read as 'area' or 'inner-point', not {polygons!r}.")
    if reading is not None and polygons != "area":
        raise InputError("--reading says how much of an area a report is about: use it with --polygons area.")
    of_all = reading if reading in READINGS else None
    if lat is not None and lat == lon:
        raise InputError(f"--lat and --lon both name the column {lat!r}. Name one for each.")
    named = {"lat": lat, "lon": lon, "label": label, "source": source, "time": time, "id": id, "text": text}
    length, column = _length_or_column(accuracy)
    options = Options(
        columns=named
        | {"place": place, "accuracy": column, "count": count, "score": score}
        | ({} if reading is None or of_all else {"reading": reading}),
        crs=None if crs is None else "local" if crs == "local" else geography.check_crs(crs),
        region=None if region is None else geography.parse_region(region),
        cell=None if cell is None else geography.parse_length(cell),
        positive=positive is not None,
        dates=dates,
        missing=_missing(missing),
        polygons=polygons,
        swap=swap,
        all_accuracy=length,
        all_reading=of_all,
        score_columns=score_columns,
    )
    wanted = positive if positive is None or isinstance(positive, str) else list(positive)
    job = _Job(file, format, layer, options, duplicates, most, wanted, _label_map(label_map), progress)
    try:
        return job.run(encoding)
    except NotInEncoding as problem:
        guessed = encodings.guess(problem.sample) if encoding is None else None
        if guessed is None:
            raise
    note = f"it is not UTF-8 and is read as {guessed}; if names look wrong, name another with --encoding"
    return job.run(guessed, note)


@dataclass(frozen=True)
class _Job:
    """A file and the options it is read with, except its encoding."""

    file: Path
    format: str | None
    layer: str | None
    options: Options
    duplicates: Duplicates
    most: int | None
    positive: str | list[str] | None
    label_map: Mapping[str, Any] | None
    progress: Progress | None

    def run(self, encoding: str | None, *notes: str) -> ReadResult:
        options = self.options
        found = recognise(self.file, options, format=self.format, layer=self.layer, encoding=encoding)
        found = replace(found, notes=(*notes, *found.notes))
        times = found.times(options)
        collector = Collector()
        gathered = 0
        for batch in found.batches(options, times, self.progress):
            gathered += len(batch.row)
            # Duplicates do not count, and are known only at the end.
            if self.most is not None and gathered > _DUPLICATES * self.most:
                raise _too_many(self.most, self.file)
            collector.add(batch)
        if collector.rows == 0:
            raise ReportFormatError("has a header but no reports.", file=str(self.file), line=1)
        seconds = None if times is None else times.seconds(lambda row: int(found.table.lines(np.array([row]))[0]))
        collected = collector.finish(duplicates=self.duplicates, time=seconds)
        if self.most is not None and len(collected.row) > self.most:
            raise _too_many(self.most, self.file)
        return _result(found, collector, collected, options, times, self.positive, self.label_map)


def _length_or_column(accuracy: str | float | None) -> tuple[float | None, str | None]:
    """An accuracy as one length for all reports ("50m") or as the name of a column."""
    if accuracy is None or accuracy == NONE:
        return None, accuracy if accuracy is None else NONE
    try:
        return geography.parse_length(accuracy), None
    except InputError:
        if re.fullmatch(r"[-+]?[\d.,]+\s*[a-z]*", str(accuracy).strip(), re.IGNORECASE):
            raise  # a length, but not one above 0
        return None, str(accuracy)


def _missing(words: str | Sequence[str] | None) -> frozenset[str]:
    if words is None:
        return MISSING
    given = words.split(",") if isinstance(words, str) else words
    return frozenset(word.strip().casefold() for word in given) - {"", NONE}


def _too_many(most: int, file: Path) -> TooLargeError:
    return TooLargeError(f"contains more than {most:,} reports. Split it.", file=str(file))


def inspect(path: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Describe what a file contains and how it would be read, as plain values.

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


def _refuse_metres(
    codes: NDArray[np.int32], reasons: Sequence[tuple[str, str]], used: int, rows: int, file: str
) -> None:
    """It is an error if most places are not degrees: those of the others are then hardly ever degrees either."""
    which = [code for code, (_, reason) in enumerate(reasons) if NOT_DEGREES in reason]
    outside = int(np.isin(codes, which).sum()) if which else 0
    if outside <= used:
        return
    column, reason = reasons[which[0]]
    raise ReportFormatError(
        f"{outside:,} of {rows:,} rows have coordinates that are not degrees; {without_advice(reason)}",
        advice="Name their system with --crs EPSG:n, or use --crs local if they have none.",
        file=file,
        column=column or None,
    )


def _result(
    found: Found,
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
        scored = collector.labels.of(np.array([*found.plan.scores.values()], dtype=object))  # also those no row names
        if found.labels is not None and positive is None and label_map is None:
            labels = found.labels
            code = np.array([labels.index(name) for name in names], dtype=np.int64)
        else:
            code, labels, _ = settle_labels(names, positive=positive, label_map=label_map, file=file)
        if (code < 0).any():
            keep = code[collected.label] >= 0
        for lost in np.setdiff1d(row[~keep], row[keep]).tolist() if not keep.all() else ():
            name = names[collected.label[np.searchsorted(row, lost)]]
            reason = f"the label '{name}' is mapped to nothing."
            refused.add([Refusal(lost, found.plan.column("label") or "", reason)])
        row = row[keep]
    used = int(np.count_nonzero(row[1:] != row[:-1])) + min(len(row), 1)
    rows, codes, reasons = refused.in_order()
    rejects = Rejects(rows, codes, [(_shown(column), reason) for column, reason in reasons], found.table.lines)
    if used == 0:
        first = rejects[0]
        several = f"none of the {collector.rows} rows can be used. The first: " if collector.rows > 1 else ""
        reason = without_advice(first.reason)
        raise ReportFormatError(
            several + reason,
            advice=_OTHER_LABEL if reason == NO_LABEL else first.reason.removeprefix(reason).strip(),
            file=file,
            line=first.line or None,
            column=first.column or None,
            choices=first.reason.choices if isinstance(first.reason, Advised) else None,
        )
    _refuse_metres(codes, reasons, used, collector.rows, file)

    every = bool(keep.all())

    def kept(values: Any) -> Any:
        return values if every else values[keep]

    sources, source = collector.sources.in_order(kept(collected.source))
    reports = Reports(
        places=kept(collected.places),
        label=code[kept(collected.label)],
        source=source,
        labels=labels,
        sources=sources or ("all",),
        time=None if collected.time is None else kept(collected.time),
        id=None if collected.id is None else kept(collected.id),
        crs=None if options.crs == "local" else geography.WGS84,
        accuracy=_accuracies(collected, kept, options),
        score=None if collected.score is None else by_label(kept(collected.score), code[scored], len(labels)),
        count=None if collected.looks is None else _looks(kept(collected.looks)),
        area=_areas(collected, kept, options),
    )
    events = None if collected.event is None else kept(collected.event)
    states = found.states or found.labels or _states(reports.labels, positive)
    grades = order_of(states or reports.labels, found.graded_by or found.plan.column("label"))
    region = geography.main_bounds(reports.places) if reports.crs else _extent(reports.places)
    swapped = remarks.swapped(reports, options, found)
    far = remarks.far_off(reports, options, region)
    columns = _columns_in_words(found.plan)
    if reports.accuracy is not None and "accuracy" not in columns:
        given = options.all_accuracy
        columns["accuracy"] = columns["lat"] if given is None else f"'{given:g} m' for all"
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
        notes=(
            *found.notes,
            *remarks.remarks(reports, times, events, found, options, grades),
            *([swapped] if swapped else far),
        ),
        events=events,
        states=states,
        grades=grades,
        row=row,
        suspected_swap=swapped,
        _lines=found.table.lines,
    )


def _states(labels: tuple[Any, ...], positive: str | list[str] | None) -> tuple[Any, ...] | None:
    """The labels that are states, without those that mean "cannot tell"; None if all labels are states."""
    shown = named_states(labels) if positive is None else labels
    return None if len(shown) == len(labels) else shown


def _accuracies(collected: Collected, kept: Any, options: Options) -> NDArray[np.float64] | None:
    """The accuracy of each place: from the file, else the one length given for all reports."""
    stated = None if collected.accuracy is None else kept(collected.accuracy)
    if options.given("accuracy") == NONE:
        return None
    if options.all_accuracy is None:
        return stated if stated is not None and np.isfinite(stated).any() else None
    count = len(kept(collected.row))
    return np.full(count, options.all_accuracy)


def _areas(collected: Collected, kept: Any, options: Options) -> NDArray[np.bool_] | None:
    """Which reports are about whole areas; None if none are, or if the user gave an accuracy."""
    given = options.given("accuracy") == NONE or options.all_accuracy is not None
    area = None if collected.area is None or given else kept(collected.area)
    return area if area is not None and area.any() else None


def _looks(stated: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """How many observations each report stands for; None if each stands for one."""
    count = np.where(np.isnan(stated), 1.0, stated).astype(np.int64)
    return count if (count > 1).any() else None


_QUOTE = "'"  # a fixed value for all rows is quoted; the name of a column is not
_ROLE = {
    "lat": "latitude",
    "lon": "longitude",
    "label": "label",
    "source": "source",
    "time": "time",
    "id": "id",
    "text": "text",
    "accuracy": "accuracy",
    "area": "whole areas",
    "count": "count",
    "score": "score",
    "reading": "reading",
}


def _columns_in_words(plan: Plan) -> dict[str, str]:
    """Where each role comes from, in words."""
    shown = {role: name for role, name in plan.columns.items() if role in _ROLE}
    if "date" in plan.columns:
        shown["time"] = f"{plan.columns['date']} + {plan.columns['clock']}"
    for whole in ("geometry", "place"):
        if whole in plan.columns:
            shown["lat"] = shown["lon"] = plan.columns[whole]
    shown = {role: _SHOWN.get(name, name) for role, name in (shown | plan.shown).items()}
    return {role: shown[role] for role in _ROLE if role in shown}


_SHOWN = {geofiles.LAT: "the geometry", geofiles.LON: "the geometry"}


def _shown(column: str) -> str:
    return {
        geofiles.LAT: "geometry",
        geofiles.LON: "geometry",
        "<label>": "",
        "<source>": "",
        "<lat>": "",
        "<lon>": "",
    }.get(column, column)


def _extent(places: NDArray[np.float64]) -> geography.Region:
    (west, south), (east, north) = places.min(axis=0).tolist(), places.max(axis=0).tolist()
    return geography.Region(west, south, east, north)


def _label_map(label_map: Mapping[str, Any] | str | os.PathLike[str] | None) -> Mapping[str, Any] | None:
    if label_map is None or isinstance(label_map, Mapping):
        return label_map
    table = read_toml(label_map, what="the label map")
    inner = table.get("labels", table)
    if not isinstance(inner, dict) or any(isinstance(v, (dict, list)) for v in inner.values()):
        raise InputError(f'the label map {label_map} must hold lines like "collapsed" = "damaged".')
    return inner
