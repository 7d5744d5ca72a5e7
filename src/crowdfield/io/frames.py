"""Reports from a data frame: pandas, GeoPandas, and through Narwhals polars, Arrow and others."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Reports
from crowdfield.errors import DataWarning, InputError, ReportFormatError
from crowdfield.io import columns, score_columns
from crowdfield.io.collect import settle_labels
from crowdfield.io.places import places as cell_places

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

WGS84 = "EPSG:4326"
_SAMPLE = 1_000  # cells of a column that say what it holds
_NAME = "the data frame"  # in messages, where a file's name would stand


def from_frame(
    frame: IntoDataFrame,
    *,
    lat: str | None = None,
    lon: str | None = None,
    label: str | None = None,
    source: str | None = None,
    time: str | None = None,
    id: str | None = None,
    count: str | None = None,
    crs: str | None = None,
    positive: str | Sequence[str] | None = None,
    label_map: Mapping[str, Any] | None = None,
) -> Reports:
    """Make reports from a data frame with one row per report.

    Columns are found by their names, as in files, or named here; columns called ``p_…``, ``prob_…`` or ``score_…`` that
    add up to 1 are the probability of every state. Rows without a place or a label are left out, with a
    warning that counts them.

    Parameters
    ----------
    frame : data frame
        Of pandas or GeoPandas (its points, or a point inside each polygon, are the places), or any frame in memory that
        Narwhals knows, for example of polars or Arrow.
    lat, lon, label, source, time, id : str, optional
        Names of columns.
    count : str, optional
        A column with the number of identical reports that each row stands for; by default every row counts once.
    crs : str, optional
        The reference system of the coordinate columns; degrees by default. GeoPandas frames have their own.
    positive : str or sequence of str, optional
        The label to map; all others become "not …".
    label_map : mapping, optional
        New names for labels.

    Returns
    -------
    Reports
        The reports, in the reference system of the frame.

    Examples
    --------
    >>> import pandas as pd
    >>> import crowdfield as cf
    >>> frame = pd.DataFrame({"lat": [18.5, 18.6], "lon": [-72.3, -72.3], "said": ["wet", "dry"], "by": ["ann", "bob"]})
    >>> reports = cf.io.from_frame(frame, label="said", source="by")
    >>> reports.labels, reports.sources, reports.crs
    (('dry', 'wet'), ('ann', 'bob'), 'EPSG:4326')
    """
    table, places, system = _opened(frame)
    given = {"lat": lat, "lon": lon, "label": label, "source": source, "time": time, "id": id}
    given |= {} if count is None else {"count": count}
    samples = _samples(table)
    scores = score_columns.find(list(table), _NAME, None, samples)
    needed = (*(() if places is not None else ("lat", "lon")), *(() if scores else ("label",)))
    try:
        chosen = columns.choose(list(table), _NAME, given, samples, needed=needed)
    except ReportFormatError as problem:
        raise InputError(str(problem)) from None
    accuracy = None
    if places is None and "place" in chosen:
        import pandas as pd

        texts = pd.Series(["" if _missing(cell) else str(cell) for cell in table[chosen["place"]]], dtype=object)
        cells = cell_places(texts, lon_first=False, polygons=None)
        accuracy = np.array([cell.accuracy for cell in cells])
        places, system = np.array([(cell.lon, cell.lat) for cell in cells]).reshape(-1, 2), WGS84
    elif places is None:
        places = np.column_stack([_numbers(table[chosen[role]], chosen[role]) for role in ("lon", "lat")])
        system = crs or WGS84
    elif system is None:
        raise InputError("the frame's geometry has no reference system: set it with frame.set_crs(...).")
    vectors = _vectors(table, scores) if scores else None
    scores = score_columns.spelt_as_labels(scores, samples.get(chosen.get("label", ""), ()))
    labels = _with_most_probable(table.get(chosen.get("label", "")), list(scores.values()), vectors)
    keep = np.isfinite(places).all(axis=1) & np.array([not _missing(value) for value in labels], dtype=bool)
    if lost := int(np.count_nonzero(~keep)):
        warnings.warn(
            f"{lost:,} of {len(keep):,} rows have no place or no label and are left out", DataWarning, stacklevel=3
        )
    _check_degrees(places[keep], system)
    rows = np.flatnonzero(keep)
    said, names = _labels([labels[row] for row in rows] + list(scores.values()), positive, label_map)
    said, states = said[: len(rows)], said[len(rows) :]
    used = said >= 0
    return Reports.from_arrays(
        places[rows[used]],
        [names[code] for code in said[used]],
        _optional(table, chosen, "source", rows[used]),
        time=_times(table, chosen, rows[used]),
        id=_optional(table, chosen, "id", rows[used]),
        labels=names if positive is not None or scores else None,
        crs=system,
        accuracy=None if accuracy is None or not np.isfinite(accuracy).any() else accuracy[rows[used]],
        score=None if vectors is None else score_columns.by_label(vectors[rows[used]], states, len(names)),
        count=None if count is None else [table[chosen["count"]][row] for row in rows[used]],
    )


def _vectors(table: Mapping[str, list[Any]], scores: Mapping[str, str]) -> NDArray[np.float64]:
    """The probability of every state, NaN in rows that just have a label: [n, K]."""
    stated = np.column_stack([_numbers(table[name], name) for name in scores])
    return np.where(np.isfinite(stated).any(axis=1, keepdims=True), stated, np.nan)


def _with_most_probable(labels: list[Any] | None, states: list[str], vectors: NDArray[np.float64] | None) -> list[Any]:
    """The label of every row, or the state that its probabilities make most probable; None where it has neither."""
    if vectors is None:
        return labels or []
    complete = np.asarray(np.isfinite(vectors).all(axis=1)).tolist()
    likely = [states[int(row.argmax())] if known else None for row, known in zip(vectors, complete, strict=True)]
    if labels is None:
        return list(likely)
    return [state if _missing(own) else own for own, state in zip(labels, likely, strict=True)]


def _samples(table: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """The first cells of every column that hold something."""
    return {name: [str(value) for value in values[:_SAMPLE] if not _missing(value)] for name, values in table.items()}


def _opened(frame: Any) -> tuple[dict[str, list[Any]], NDArray[np.float64] | None, str | None]:
    """(columns by name, places of a geometry column if there is one, their reference system)"""
    if hasattr(frame, "geometry") and hasattr(frame, "crs"):
        points = frame.geometry.representative_point()
        places = np.column_stack([points.x.to_numpy(float), points.y.to_numpy(float)])
        system = None if frame.crs is None else (":".join(frame.crs.to_authority() or ()) or frame.crs.to_wkt())
        plain = frame.drop(columns=frame.geometry.name)
        return {str(name): plain[name].tolist() for name in plain.columns}, places, system
    import narwhals

    try:
        known = narwhals.from_native(frame, eager_only=True)
    except TypeError:
        raise InputError(
            f"reports come as crowdfield Reports or as a data frame (pandas, GeoPandas, polars, Arrow), "
            f"not as {type(frame).__name__}."
        ) from None
    return {name: known.get_column(name).to_list() for name in known.columns}, None, None


def _numbers(values: list[Any], name: str) -> NDArray[np.float64]:
    try:
        return np.array([np.nan if _missing(value) else float(value) for value in values], dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the column {name!r} contains a value that is not a number.") from None


def _missing(value: Any) -> bool:
    # NaN and pandas.NaT do not equal themselves; comparing pandas.NA gives neither True nor False.
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True


def _labels(
    values: list[Any], positive: str | Sequence[str] | None, label_map: Mapping[str, Any] | None
) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
    """Codes of the labels, −1 for those that the map leaves out, and the labels."""
    if not values:
        raise InputError("no row of the frame has a place and a label.")
    if positive is None and label_map is None:
        names = sorted(set(values), key=lambda value: (str(type(value)), value))
        place = {name: number for number, name in enumerate(names)}
        return np.array([place[value] for value in values], dtype=np.int64), tuple(names)
    texts = [str(value).strip() for value in values]
    found = sorted(set(texts))
    wanted = positive if positive is None or isinstance(positive, str) else list(positive)
    code, labels, _ = settle_labels(found, positive=wanted, label_map=label_map)
    place = dict(zip(found, code.tolist(), strict=True))
    return np.array([place[text] for text in texts], dtype=np.int64), labels


def _check_degrees(places: NDArray[np.float64], system: str | None) -> None:
    if system != WGS84 or not len(places):
        return
    worst = places[np.argmax(np.abs(places[:, 1]))]
    if abs(worst[1]) > 90:
        raise InputError(
            f"latitude {worst[1]:g} is outside [-90, 90]. Are the coordinate columns swapped, or in another system? "
            "Then name it: crs='EPSG:…'."
        )


def _optional(
    table: Mapping[str, list[Any]], chosen: Mapping[str, str], role: str, rows: NDArray[np.int64]
) -> list[Any] | None:
    if role not in chosen:
        return None
    values = table[chosen[role]]
    # All rows without a name share one source, whose name is empty.
    return ["" if _missing(values[row]) else values[row] for row in rows]


def _times(
    table: Mapping[str, list[Any]], chosen: Mapping[str, str], rows: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """Seconds since 1970, NaN where a row says none; numbers are taken as they are."""
    if "time" not in chosen:
        return None
    import pandas as pd

    values = pd.Series([table[chosen["time"]][row] for row in rows])
    if pd.api.types.is_numeric_dtype(values):
        return values.to_numpy(np.float64)
    try:
        moments = pd.to_datetime(values, utc=True, format="mixed")
    except (ValueError, TypeError) as problem:
        raise InputError(f"the column {chosen['time']!r} contains a value that is not a time: {problem}.") from None
    seconds = (moments - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
    return np.asarray(seconds.to_numpy(), dtype=np.float64)
