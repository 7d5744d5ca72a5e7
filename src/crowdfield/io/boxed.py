"""Tasks that read one file in a box, which is a process without rights (`crowdfield.box`), and functions that run them.

The service reads every upload in a box. The command line and Python use one only for formats that a large library in
another language reads (GeoParquet, GeoTIFF, NetCDF), and for Excel workbooks.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.box import Limits, ask, believing
from crowdfield.box.message import as_codes, from_codes
from crowdfield.io import kinds, limits
from crowdfield.io.rejects import without_advice

if TYPE_CHECKING:
    from crowdfield.data import Reports
    from crowdfield.io.features import Features
    from crowdfield.io.result import ReadResult

TaskResult = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # a header that is JSON, and arrays by name
MOST_REJECTS = 1000  # rejected rows that are listed, one by one
LONGEST_NAME = 200  # characters that are kept of the name of an area
_POINT, _POLYGONS = 0, (3, 6)  # GEOS's type numbers: Point; Polygon and MultiPolygon
# Limits for files of the person who runs the program. They are generous: only that person's machine is affected.
_OWN_SECONDS = 3600.0
_OWN_ANSWER = 16 * 2**30  # bytes
_MEMORY_IF_UNKNOWN = 4 * 2**30  # bytes


def own_limits() -> Limits:
    """Limits for files of the person who runs the program: half of the machine's memory, and an hour."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # this system does not say how much there is
        memory = _MEMORY_IF_UNKNOWN
    return Limits(memory=memory, processor_seconds=_OWN_SECONDS, seconds=_OWN_SECONDS, answer=_OWN_ANSWER)


def reports(
    path: Path, *, positive: str | None, most: int, largest: int, options: dict[str, str] | None = None
) -> TaskResult:
    """Run in a box: the reports of a file in any known layout, without free text and contact details. `options`: those
    of the reader, such as columns by their roles, the layer, and how to read polygons."""
    options = options or {}
    limits.tighten(largest)
    kinds.look(
        path, options.get("layer")
    )  # refuses unsuitable files before anything is imported that takes long to load
    from crowdfield.io.columns import NONE, CountInDoubtError
    from crowdfield.io.reading import read

    given: dict[str, Any] = {"positive": positive, "most": most, **options}
    question = []
    try:
        result = read(path, **given)
    except CountInDoubtError as error:
        # The service has a preview in which the column can be chosen.
        question = [f"the column '{error.column}' {error.message} Every row counts once unless that column is chosen"]
        result = read(path, count=NONE, **given)
    table = result.reports
    scores = _vectors(table)
    if table.score is not None and scores is None:
        question.append(
            "how sure reports are of their own labels is not used where there are three or more: give the probability "
            "of every state"
        )
    ids = [None] * len(table) if table.id is None else _unique_ids(table.id)
    codes, names = as_codes(ids)
    header = {
        "labels": [str(label) for label in table.labels],
        "sources": [str(source) for source in table.sources],
        "ids": names,
        "on_earth": table.crs is not None,
        "statement": result.statement.replace(f"{path.name}: ", "", 1),
        "rejected": result.rejected,
        "about": _about(result, path, options.get("layer"), question),
        "rejects": [[r.line, r.column, without_advice(r.reason)] for r in result.rejects[:MOST_REJECTS]],
    }
    unknown = np.full(len(table), np.nan)
    time, accuracy = (unknown if column is None else column for column in (table.time, table.accuracy))
    arrays: dict[str, NDArray[Any]] = {
        "places": table.places[:, :2],
        "label": table.label.astype(np.int32),
        "source": table.source.astype(np.int32),
        "time": np.asarray(time, dtype=np.float64),
        "accuracy": np.asarray(accuracy, dtype=np.float64),
        "count": np.ones(len(table), dtype=np.int64) if table.count is None else table.count,
        "id": codes,
        "line": result.lines().astype(np.int64),
        "scores": np.empty((0, len(table.labels))) if scores is None else scores,
    }
    return header, arrays


def _vectors(table: Reports) -> NDArray[np.float64] | None:
    """The probability of every label: [R, L], NaN for reports without scores; None if no report has any."""
    from crowdfield.data.columns import aligned_scores

    if table.score is None or (table.score.ndim == 1 and len(table.labels) != 2):
        return None
    return aligned_scores(table.score, table.label, table.labels, table.labels)


def _unique_ids(ids: Sequence[Any]) -> list[str | None]:
    """Ids as text. A row that stands for several people gives several reports with one id; they get "#2", "#3" …"""
    seen: Counter[str] = Counter()
    out: list[str | None] = []
    for name in ids:
        own = None if name is None else str(name)
        if own is not None:
            seen[own] += 1
            own = own if seen[own] == 1 else f"{own}#{seen[own]}"
        out.append(own)
    return out


def _about(result: ReadResult, path: Path, layer: str | None, question: Sequence[str] = ()) -> dict[str, Any]:
    """How the file was read, for a preview in which the user can correct it."""
    found = result.summary()
    kept = ("layout", "columns", "read", "used", "duplicate", "labels", "time", "copied", "sources")
    header: list[str] = []
    if (kind := kinds.look(path, layer)).kind.name not in kinds.FEATURES:
        from crowdfield.io.delimited import Table

        header = [str(name) for name in Table(path, kind).header]
    return {
        **{name: found[name] for name in kept},
        # Without advice about options of the command line, which does not help on a page.
        "notes": [*question, *(note.partition("; --")[0] for note in found["notes"])],
        "header": header,
        "grades": [str(grade) for grade in result.grades or ()],
    }


def features(path: Path, layer: str | None = None) -> TaskResult:
    """Run in a box: the features of a file; points as coordinates, other geometries as well-known binary (WKB)."""
    import shapely

    from crowdfield.io.features import common

    read = common.read(path, kinds.look(path, layer))
    points = shapely.get_type_id(read.shapes) == _POINT
    others = shapely.to_wkb(np.where(points, np.array(None, dtype=object), read.shapes), hex=True)
    arrays: dict[str, NDArray[Any]] = {"x": shapely.get_x(read.shapes), "y": shapely.get_y(read.shapes)}
    header: dict[str, Any] = {"crs": read.crs, "notes": list(read.notes), "columns": [], "is_table": read.is_table}
    if read.lines is not None:
        arrays["line"] = read.lines
    arrays["shape"], header["shapes"] = as_codes(others)
    arrays["kind"], header["kinds"] = as_codes(read.kinds)
    for number, (name, values) in enumerate(read.columns.items()):
        arrays[f"column {number}"], texts = as_codes(values)
        header["columns"].append([name, texts])
    return header, arrays


def areas(path: Path, *, by: str | None, largest: int, most: int, corners: int) -> TaskResult:
    """Run in a box: the named polygons of a file, as well-known binary (WKB) in degrees, without other properties."""
    limits.tighten(largest)
    kinds.look(path)
    import shapely

    from crowdfield.errors import InputError, TooLargeError
    from crowdfield.io.areas import read_areas

    try:
        read = read_areas(path, by)
    except InputError as error:
        raise InputError(_without_path(str(error), path)) from None
    if len(read) > most:
        raise TooLargeError(f"the file contains {len(read):,} areas; the limit is {most:,}")
    if (count := int(shapely.get_num_coordinates(read.shapes).sum())) > corners:
        raise TooLargeError(f"the areas have {count:,} vertices in all; the limit is {corners:,}")
    header = {
        "names": [name[:LONGEST_NAME] for name in read.names],
        "shapes": shapely.to_wkb(_polygons_only(read.shapes), hex=True).tolist(),
        "notes": [_without_path(note, path) for note in read.notes],
    }
    return header, {}


def _without_path(message: str, path: Path) -> str:
    """The message without the path on the server, which means nothing to the person who uploaded the file."""
    for mention in (f"the file of areas {path}", f"the checks {path}", str(path), path.name):
        message = message.replace(mention, "the file")
    return message


def amounts(path: Path, *, extent: Sequence[float], columns: int, rows: int, crs: str, largest: int) -> TaskResult:
    """Run in a box that was started with `gdal.only("GTiff")`: the amount of a GeoTIFF in each cell of a grid."""
    from crowdfield.data import Grid
    from crowdfield.errors import InputError, TooLargeError
    from crowdfield.io.amounts import read_amounts

    if path.stat().st_size > largest:
        raise TooLargeError(f"the file is larger than {limits.size(largest)}")
    west, east, south, north = extent
    grid = Grid(west=west, east=east, south=south, north=north, columns=columns, rows=rows, crs=crs)
    try:
        return {}, {"amounts": read_amounts(path, grid)}
    except InputError as error:
        raise InputError(_without_path(str(error), path)) from None


# What `crowdfield assess result` needs of a check: words, and numbers.
CHECK_WORDS, CHECK_NUMBERS = ("state", "stratum"), ("stratum_cells", "easting", "northing", "longitude", "latitude")


def checks(path: Path, *, largest: int, most: int) -> TaskResult:
    """Run in a box: the answers to spot checks in a file, by column."""
    limits.tighten(largest)
    kinds.look(path)
    from crowdfield.errors import InputError, TooLargeError
    from crowdfield.io.checks import read_checked

    try:
        read = read_checked(path)
    except InputError as error:
        raise InputError(_without_path(str(error), path)) from None
    if len(read) > most:
        raise TooLargeError(f"the file contains {len(read):,} places; the limit is {most:,}")
    columns: dict[str, list[Any]] = {}
    for name in CHECK_WORDS:
        if name in read.columns:
            columns[name] = [None if _empty(value) else str(value)[:LONGEST_NAME] for value in read[name]]
    for name in CHECK_NUMBERS:
        if name in read.columns:
            columns[name] = [None if _empty(value) else _number(value, name) for value in read[name]]
    return {"columns": columns}, {}


def _empty(value: Any) -> bool:
    return value is None or value != value or not str(value).strip()


def _number(value: Any, column: str) -> float:
    from crowdfield.errors import InputError

    try:
        number = float(value)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"the column '{column}' holds {str(value)[:50]!r}, which is not a number")
    return number


def _polygons_only(shapes: NDArray[Any]) -> NDArray[Any]:
    """The shapes without the points and lines that the repair of an invalid polygon may leave."""
    import shapely

    unmixed = np.isin(shapely.get_type_id(shapes), _POLYGONS)
    out = shapes.copy()
    for number in np.flatnonzero(~unmixed):
        parts = shapely.get_parts(shapes[number])
        out[number] = shapely.union_all(parts[np.isin(shapely.get_type_id(parts), _POLYGONS)])
    return out


def read_features(path: Path, found: kinds.Found) -> Features:
    """The features of a file, read in a box."""
    answer = ask("crowdfield.io.boxed:features", path, own_limits(), shown=str(path), layer=found.layer)
    with believing(str(path)):
        return _features(answer.header, answer.arrays)


def _features(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Features:
    import shapely

    from crowdfield.io.features import Features
    from crowdfield.io.features.shapes import from_wkb

    others, _ = from_wkb([*(bytes.fromhex(text) for text in header["shapes"]), None])
    points = np.isfinite(arrays["x"]) & np.isfinite(arrays["y"])
    return Features(
        {str(name): from_codes(arrays[f"column {i}"], texts) for i, (name, texts) in enumerate(header["columns"])},
        np.where(points, shapely.points(arrays["x"], arrays["y"]), others[arrays["shape"]]),
        from_codes(arrays["kind"], header["kinds"]),
        header["crs"],
        tuple(header["notes"]),
        is_table=bool(header["is_table"]),
        lines=arrays["line"].astype(np.int64) if "line" in arrays else None,
    )
