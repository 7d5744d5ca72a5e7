"""GeoParquet, and Parquet without geometries, read by Arrow in small batches.

A few bytes of Parquet can stand for a column of millions of equal values, so what a file claims is checked first, equal
values are stored once, and what comes out is counted while it comes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.errors import MissingDependencyError, ReportFormatError
from crowdfield.geography import WGS84
from crowdfield.io import limits, systems
from crowdfield.io.features.common import Features, broken, text, too_many_columns
from crowdfield.io.features.shapes import from_wkb
from crowdfield.io.kinds import Found
from crowdfield.io.limits import Allowance
from crowdfield.io.opening import document, too_much

_BATCH = 2**14  # rows
_LONGEST_METADATA = 16 * 2**20  # bytes
_MOST_ENTRIES = 1_000_000  # row groups times columns
_CELL = 24  # bytes that a cell counts for at least


def read(path: Path, found: Found) -> Features:
    """The features, or the rows of plain Parquet."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingDependencyError(
            "pyarrow is needed to read GeoParquet. Install it with: pip install 'crowdfield[geo]'"
        ) from None
    packed = found.member is not None or found.gzipped
    source = document(path, found) if packed else None

    def opened(**options: Any) -> Any:
        return parquet.ParquetFile(
            path if source is None else io.BytesIO(source),
            pre_buffer=False,
            thrift_string_size_limit=_LONGEST_METADATA,
            thrift_container_size_limit=_MOST_ENTRIES,
            **options,
        )

    try:
        file = opened()
        about = _about(file, path)
        names = _columns(file.schema_arrow, None if about is None else about["primary_column"], path)
        allowance = Allowance(path.stat().st_size)
        if not allowance.take(_claimed(file.metadata, names)):
            raise too_much(path)
        repeated = [name for name in names if _is_text(file.schema_arrow.field(name).type)]
        return _features(opened(read_dictionary=repeated), names, about, Allowance(path.stat().st_size), path)
    except ReportFormatError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError, KeyError, IndexError):
        raise broken(path, found, "Arrow does not take it for Parquet") from None


def _about(file: Any, path: Path) -> dict[str, Any] | None:
    """What the file says of its geometry: the column, how it is stored, and in which system; None if it has none."""
    metadata = file.schema_arrow.metadata or {}
    if b"geo" not in metadata:
        return None
    try:
        stated = json.loads(metadata[b"geo"])
        column = stated["primary_column"]
        about = stated["columns"][column]
        encoding = about["encoding"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ReportFormatError(
            "is GeoParquet that does not say which column holds the places. Save it again, or as CSV.",
            file=str(path),
        ) from None
    if encoding not in ("WKB", "point"):
        raise ReportFormatError(
            f"its geometry is stored as '{str(encoding)[:40]}'; well-known binary (WKB) and points are read.",
            file=str(path),
        )
    return {"primary_column": str(column), "encoding": encoding, "crs": _system(about, path)}


def _system(about: dict[str, Any], path: Path) -> str | None:
    stated = about.get("crs", WGS84)  # without one it is longitude and latitude; null is: nobody knows
    if stated is None or stated == WGS84:
        return None if stated is None else WGS84
    try:
        return systems.by_definition(stated) if isinstance(stated, dict) else systems.by_name(stated)
    except systems.UnknownSystem as problem:
        raise ReportFormatError(f"{problem}.", file=str(path)) from None


def _columns(schema: Any, geometry: str | None, path: Path) -> list[str]:
    """The geometry, where there is one, and every column whose cells are single values."""
    import pyarrow.types as types

    if len(schema.names) > limits.MOST_COLUMNS:
        raise too_many_columns(path)
    if geometry is not None and schema.names.count(geometry) != 1:
        raise ReportFormatError(
            "has no geometry: the geometry column that its metadata names does not exist.", file=str(path)
        )
    simple = [
        field.name
        for field in schema
        if field.name != geometry
        and schema.names.count(field.name) == 1
        and not types.is_nested(field.type)
        and not types.is_binary(field.type)
        and not types.is_large_binary(field.type)
    ]
    return simple if geometry is None else [geometry, *simple]


def _claimed(metadata: Any, names: list[str]) -> int:
    """The bytes that the file says it will be, with something for each cell."""
    size = metadata.num_rows * (limits.ROW_OVERHEAD + _CELL * len(names))
    if metadata.num_rows < 0 or metadata.num_row_groups * metadata.num_columns > _MOST_ENTRIES:
        raise ValueError("too many row groups")
    for group in range(metadata.num_row_groups):
        size += max(metadata.row_group(group).total_byte_size, 0)
    return int(size)


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    )


def _features(file: Any, names: list[str], about: dict[str, Any] | None, allowance: Allowance, path: Path) -> Features:
    geometry = None if about is None else names[0]
    parts: dict[str, list[NDArray[np.object_]]] = {name: [] for name in names if name != geometry}
    shapes, kinds = [], []
    for batch in file.iter_batches(batch_size=_BATCH, columns=names, use_threads=False):
        if not allowance.take(batch.num_rows * limits.ROW_OVERHEAD):
            raise too_much(path)
        nothing = np.full(batch.num_rows, None, dtype=object)
        some, what = nothing, nothing
        if about is not None:
            some, what = _geometries(batch.column(geometry), about["encoding"], allowance, path)
        shapes.append(some)
        kinds.append(what)
        for name in parts:
            parts[name].append(_cells(batch.column(name), allowance, path))
    if not shapes:
        raise ReportFormatError("contains no features.", file=str(path))
    columns = {name: np.concatenate(pieces) for name, pieces in parts.items()}
    crs = None if about is None else about["crs"]
    return Features(columns, np.concatenate(shapes), np.concatenate(kinds), crs, is_table=about is None)


def _geometries(
    column: Any, encoding: str, allowance: Allowance, path: Path
) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    import shapely

    if encoding == "point":
        x, y = (_floats(column.field(axis)) for axis in ("x", "y"))
        if not allowance.take(2 * _CELL * len(x)):
            raise too_much(path)
        given = np.asarray(column.is_valid()) & np.isfinite(x) & np.isfinite(y)
        nothing = np.array(None, dtype=object)
        return np.where(given, shapely.points(x, y), nothing), np.where(given, np.array("Point", dtype=object), nothing)
    values, codes = _distinct(column, allowance, path)
    shapes, kinds = from_wkb(values)
    return shapes[codes], kinds[codes]


def _floats(column: Any) -> NDArray[np.float64]:
    return np.asarray(column.cast("float64").to_numpy(zero_copy_only=False), dtype=np.float64)


def _distinct(column: Any, allowance: Allowance, path: Path) -> tuple[list[Any], NDArray[np.int64]]:
    """The different values of a column, the last of them None, and which of them each row has."""
    import pyarrow.types as types

    packed = column if types.is_dictionary(column.type) else column.dictionary_encode()
    codes = np.asarray(packed.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    values = [*_python_values(packed.dictionary), None]
    sizes = np.array([_CELL + (len(value) if isinstance(value, str | bytes) else 0) for value in values])
    # Equal values are stored once here, but whoever works with them may not: each counts as often as it stands there.
    if not allowance.take(int(sizes[codes].sum())):
        raise too_much(path)
    return values, codes


def _cells(column: Any, allowance: Allowance, path: Path) -> NDArray[np.object_]:
    values, codes = _distinct(column, allowance, path)
    texts = np.empty(len(values), dtype=object)
    texts[:] = [text(value) for value in values]
    return np.asarray(texts[codes], dtype=object)


def _python_values(values: Any) -> Iterable[Any]:
    """Python's values; moments as ISO text, whatever year they claim."""
    import pyarrow.types as types

    kind = values.type
    if types.is_timestamp(kind):
        moments = values.cast("int64").to_numpy(zero_copy_only=False).view(f"datetime64[{kind.unit}]")
        return [f"{stamp}{'Z' if kind.tz else ''}" for stamp in np.datetime_as_string(moments, unit="s").tolist()]
    if types.is_date(kind):
        unit = "D" if types.is_date32(kind) else "ms"
        days = values.cast(f"int{kind.bit_width}").to_numpy(zero_copy_only=False).astype("int64")
        return list(np.datetime_as_string(days.view(f"datetime64[{unit}]"), unit="D").tolist())
    if types.is_decimal(kind):
        return [None if value is None else str(value) for value in values.to_pylist()]
    return list(values.to_pylist())
