"""Tables with one report per row: whole columns at a time, from cells to coordinates, labels and sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield import geography, readings
from crowdfield.data.columns import SUM_TOLERANCE
from crowdfield.io import places
from crowdfield.io.collect import Batch
from crowdfield.io.column_names import MISSING, NO, YES
from crowdfield.io.columns import metres_in, with_unit
from crowdfield.io.delimited import EXTRA, Chunk
from crowdfield.io.names import UNKNOWN, Coded, NameColumn, arrow_text
from crowdfield.io.rejects import Advised, Refusal
from crowdfield.io.score_columns import probability
from crowdfield.io.sources import SourceCells
from crowdfield.io.text_words import contains_any
from crowdfield.io.times import Times

NO_LABEL = "has no label."
NOT_DEGREES = "Are these degrees?"  # the end of the reason to refuse coordinates that are none
REACH = "<reach>"  # the column with how far the areas of a file of polygons reach
# A report seen by more people than this in one row is a mistake.
MOST_COUNTED = 100_000


@dataclass
class Plan:
    """How to read a table: a column for each role, and functions of the layout that prepare or refuse rows."""

    columns: dict[str, str]  # role -> column; "date" and "clock" where the two stand apart, "place" for whole places
    crs: str = geography.WGS84  # "local" for coordinates without a reference system
    region: geography.Region | None = None
    prepare: Callable[[pd.DataFrame], pd.DataFrame] | None = None  # may make columns, named by role in angle brackets
    refuse: Callable[[pd.DataFrame], Mapping[int, tuple[str, str]]] | None = None  # position -> (column, reason)
    extra_columns: tuple[str, ...] = ()  # read for prepare and refuse
    made: dict[str, str] = field(default_factory=dict)  # role -> column made by prepare
    shown: dict[str, str] = field(default_factory=dict)  # role -> description of its origin, if it is not one column
    missing: frozenset[str] = MISSING  # words that stand for an empty cell, in lower case
    lon_first: bool = False  # of pairs of numbers in one cell
    polygons: str | None = None  # what a polygon stands for
    swap: bool = False  # whether latitude and longitude are exchanged in the file
    all_reading: str | None = None  # what every report says of its area: "some", "most" or "all" of it
    scores: dict[str, str] = field(default_factory=dict)  # column -> the state whose probability it holds
    notes: tuple[str, ...] = ()  # what was chosen where the file allows something else

    def wanted(self) -> list[str]:
        """The columns to read from the file."""
        return [*self.columns.values(), *self.extra_columns, *self.score_columns()]

    def score_columns(self) -> list[str]:
        """The columns of the file with probabilities, without a column that is computed from the others."""
        return [name for name in self.scores if name[0] != "<"]

    def column(self, role: str) -> str | None:
        return self.made.get(role, self.columns.get(role))


def batches(chunks: Iterable[Chunk], plan: Plan, times: Times | None) -> Iterator[Batch]:
    """Each chunk as a batch. Times are passed to ``times``, which can read some of them only at the end."""
    labels, sources = NameColumn(plan.missing), NameColumn(plan.missing)
    for chunk in chunks:
        yield _batch(chunk, plan, times, labels, sources)


def _batch(chunk: Chunk, plan: Plan, times: Times | None, labels: NameColumn, sources: NameColumn) -> Batch:
    frame = plan.prepare(chunk.frame) if plan.prepare is not None else chunk.frame
    size = len(frame)
    why = _Refusals(size)
    if EXTRA in frame:
        why.add(frame[EXTRA].notna().to_numpy(dtype=bool), "", "has more fields than the header. Is a comma unquoted?")
    if plan.refuse is not None:
        for at, (column, reason) in plan.refuse(frame).items():
            why.one(at, column, reason)

    lat, lon, accuracy, area = _where(frame, plan, why)
    if plan.swap:
        lat, lon = lon, lat
    if plan.crs not in (geography.WGS84, "local"):
        lon, lat = _to_degrees(lon, lat, plan, why)
    if plan.crs != "local":
        lon = _in_range(lon, lat, plan, why)
    vectors = _vectors(frame, plan, why) if plan.scores else None
    label, unlabelled = _labels(frame, plan, vectors, labels)
    why.add(unlabelled, plan.column("label") or "", NO_LABEL)
    if plan.region is not None:
        usable = why.ok.copy()
        usable[usable] = ~geography.within(plan.region, lon[usable], lat[usable])
        why.add(usable, "", "lies outside the region.")
    counts = _counts(frame, plan, why)
    score = _scores(frame, plan, why) if vectors is None else vectors
    reading = _readings(frame, plan, why)

    ok = why.ok
    every, chosen = bool(ok.all()), np.flatnonzero(ok)

    def kept(values: Any) -> Any:
        if every:
            return values
        return values.iloc[chosen] if isinstance(values, pd.Series) else values[chosen]

    rows = np.arange(chunk.first, chunk.first + size, dtype=np.int64)
    if times is not None:
        times.add(kept(_when(frame, plan)), kept(rows))
    optional = {role: frame[name] for role in ("source", "id", "text") if (name := plan.column(role)) in frame}
    source: Any = None
    if "source" in optional:
        text = arrow_text(optional["source"]) if reading is None else None
        source = _coded(optional["source"], sources) if text is None else SourceCells(text, plan.missing)
    if reading is not None:
        source = _by_reading(source, reading)
    ids = None if "id" not in optional else _without(optional["id"], plan.missing)
    return Batch(
        rows=size,
        row=kept(rows),
        lon=kept(lon),
        lat=kept(lat),
        label=kept(label),
        source=None if source is None else kept(source),
        id=None if ids is None else kept(ids),
        text=None if "text" not in optional else kept(optional["text"]),
        accuracy=None if accuracy is None else kept(accuracy),
        score=None if score is None else kept(score),
        looks=None if counts is None else kept(counts),
        area=None if area is None else kept(area),
        refused=why.refusals(chunk.first),
    )


def _coded(cells: pd.Series[Any], sources: NameColumn) -> Coded:
    """The sources as codes. Rows that name nobody are kept: they share one source."""
    source, nobody = sources.read(cells)
    if nobody.any():
        source.codes[nobody] = sources.code(UNKNOWN)
    return source


class _Refusals:
    """The first reason to refuse each row."""

    def __init__(self, size: int) -> None:
        self.ok = np.ones(size, dtype=bool)
        self._why: list[Refusal] = []

    def add(self, bad: NDArray[np.bool_], column: str, reason: str | Callable[[int], str]) -> None:
        at = np.flatnonzero(bad & self.ok)
        if not len(at):
            return
        self.ok[at] = False
        if isinstance(reason, str):
            self._why.append(Refusal(at, column, reason))
        else:
            self._why += [Refusal(i, column, reason(i)) for i in at.tolist()]

    def one(self, at: int, column: str, reason: str) -> None:
        if self.ok[at]:
            self.ok[at] = False
            self._why.append(Refusal(at, column, reason))

    def refusals(self, first: int) -> list[Refusal]:
        return [why._replace(rows=why.rows + first) for why in self._why]


def _shown(cells: pd.Series[Any], at: int) -> str:
    """A cell as it was written, for a message: in a column of numbers with gaps, pandas stores 70 as 70.0."""
    return str(cells.iloc[at]).removesuffix(".0")[:40]


def _empty(values: pd.Series[Any], words: frozenset[str]) -> NDArray[np.bool_]:
    missing = values.isna().to_numpy(dtype=bool)
    if not pd.api.types.is_numeric_dtype(values.dtype):
        said = values.fillna("").astype(str).str.strip().str.casefold()
        missing = missing | said.isin(["", *words]).to_numpy(dtype=bool)
    return missing


def _without(values: pd.Series[Any], words: frozenset[str]) -> pd.Series[Any]:
    """The column with its words for "empty" replaced by empty cells."""
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values
    spelt = [form for word in words for form in (word, word.upper(), word.capitalize())]
    if (text := arrow_text(values)) is not None and not contains_any(text, spelt):
        return values
    absent = values.isin(spelt).to_numpy(dtype=bool, na_value=False)
    return values.mask(absent) if absent.any() else values


def numbers(values: pd.Series[Any]) -> NDArray[np.float64]:
    """Cells as numbers, also with a decimal comma; NaN for all other cells."""
    if pd.api.types.is_bool_dtype(values.dtype):
        return np.full(len(values), np.nan)
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    cells = values.to_numpy(dtype=object)
    absent = values.isna().to_numpy(dtype=bool)
    text = pd.Series(list(map(str, np.where(absent, "", cells) if absent.any() else cells)), dtype=object)
    out = np.array(pd.to_numeric(text, errors="coerce"), dtype=np.float64)
    odd = np.flatnonzero(~np.isfinite(out))
    if len(odd):
        rest = text.iloc[odd].str.strip()
        # "nan" and "inf", which pandas also reads, are not coordinates.
        plain = rest.str.fullmatch(_NUMBER).to_numpy(dtype=bool)
        pointed = rest.str.replace(",", ".", regex=False).where(plain)
        out[odd] = pd.to_numeric(pointed, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    # pandas rounds the last digit of some numbers with a plus sign wrongly, here but not when it reads a file.
    signed = np.flatnonzero(text.str.contains("+", regex=False).to_numpy(dtype=bool) & np.isfinite(out))
    out[signed] = [float(cell.replace(",", ".")) for cell in text.iloc[signed]]
    return out


# A decimal comma may stand wherever a point may, as it does for pandas where all numbers of a chunk have one.
_NUMBER = r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?"
_TITLE = {"lat": "latitude", "lon": "longitude"}


class Where(NamedTuple):
    """The places of a chunk."""

    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    accuracy: NDArray[np.float64] | None = None  # metres; NaN where it is not known
    area: NDArray[np.bool_] | None = None  # which are areas, as far as the accuracy reaches


def _where(frame: pd.DataFrame, plan: Plan, why: _Refusals) -> Where:
    """The places of a chunk, with their accuracy or the radius of their area, if the file has it."""
    if "place" in plan.columns:
        where = _whole_places(frame[plan.columns["place"]], plan, why)
    else:
        where = Where(_coordinate(frame, plan, "lat", why), _coordinate(frame, plan, "lon", why))
    name = plan.column("accuracy")
    if name is None or name not in frame:
        return where
    stated = numbers(frame[name]) * metres_in(name)
    if not pd.api.types.is_numeric_dtype(frame[name].dtype) and (odd := np.flatnonzero(np.isnan(stated))).size:
        stated[odd] = [with_unit(str(cell)) for cell in frame[name].iloc[odd].tolist()]
    # Receivers without a fix write 0 or a negative number.
    stated = np.where(stated > 0, stated, np.nan)
    known = np.isfinite(stated)
    if name == REACH:
        return where._replace(accuracy=stated, area=known)
    whole = _whole_areas(frame, plan, why)
    if where.accuracy is None:
        return where._replace(accuracy=stated, area=None if whole is None else whole & known)
    area = None if where.area is None else where.area & ~known
    if whole is not None:
        area = (whole & known) if area is None else area | (whole & known)
    return where._replace(accuracy=np.where(known, stated, where.accuracy), area=area)


def _whole_areas(frame: pd.DataFrame, plan: Plan, why: _Refusals) -> NDArray[np.bool_] | None:
    """Which rows say that they are about a whole area; None without a column that says so."""
    name = plan.column("area")
    if name is None or name not in frame:
        return None
    said = frame[name].astype(object).where(~_empty(frame[name], plan.missing), "no")
    said = said.astype(str).str.strip().str.casefold()
    why.add(
        ~said.isin(YES | NO).to_numpy(dtype=bool),
        name,
        lambda at: f"'{_shown(frame[name], at)}' does not say whether the report is about a whole area: true or false.",
    )
    return said.isin(YES).to_numpy(dtype=bool)


def _whole_places(cells: pd.Series[Any], plan: Plan, why: _Refusals) -> Where:
    name = plan.columns["place"]
    why.add(_empty(cells, plan.missing), name, "has no place.")
    found = places.places(cells, lon_first=plan.lon_first, polygons=plan.polygons)
    lat, lon, accuracy = (np.array([getattr(p, part) for p in found]) for part in ("lat", "lon", "accuracy"))
    why.add(~np.isfinite(lat), name, lambda at: refused_shape(found[at].why or "is not a place.", found[at].is_area))
    if not np.isfinite(accuracy).any():
        return Where(lat, lon)
    area = np.array([p.is_area for p in found]) & np.isfinite(accuracy)
    return Where(lat, lon, accuracy, area if area.any() else None)


def refused_shape(reason: str, is_area: bool) -> str:
    """Why a shape is refused; polygons are read only if the user says how."""
    advice = "--polygons area reads each as one report about all of it, --polygons inner-point as a point inside it."
    return Advised(reason, advice, {"polygons": ("area", "inner-point")}) if is_area else reason


def _counts(frame: pd.DataFrame, plan: Plan, why: _Refusals) -> NDArray[np.float64] | None:
    """How often each row counts; None without a column of counts. An empty cell counts once."""
    name = plan.column("count")
    if name is None or name not in frame:
        return None
    stated = np.where(_empty(frame[name], plan.missing), 1.0, numbers(frame[name]))
    whole = np.isfinite(stated) & (stated == np.floor(np.nan_to_num(stated)))
    why.add(stated == 0, name, "counts nobody.")
    why.add(
        ~(whole & (stated >= 1) & (stated <= MOST_COUNTED)),
        name,
        lambda at: Advised(
            f"'{_shown(frame[name], at)}' is not a count between 1 and {MOST_COUNTED:,}.",
            "--count none reads every row as one report.",
        ),
    )
    return stated


def _readings(frame: pd.DataFrame, plan: Plan, why: _Refusals) -> NDArray[Any] | None:
    """Whether every row is about "some", "most" or "all" of its area; an empty cell is "most". None without a
    column."""
    name = plan.column("reading")
    if name is None or name not in frame:
        return None if plan.all_reading is None else np.full(len(frame), plan.all_reading, dtype=object)
    words = frame[name].where(~_empty(frame[name], plan.missing), readings.MOST)
    words = words.astype(str).str.strip().str.casefold().str.removesuffix(" of it")
    known = " or ".join(readings.READINGS)
    why.add(~words.isin(readings.READINGS).to_numpy(dtype=bool), name, f"does not say {known} (of it).")
    return words.to_numpy(dtype=object)


def _by_reading(source: Coded | None, reading: NDArray[Any]) -> pd.Categorical:
    """Sources, with a separate one for each reading of areas ("some", "most", "all")."""
    who = np.full(len(reading), "all", dtype=object) if source is None else source.names()
    return pd.Categorical([readings.named(name, word) for name, word in zip(who, reading, strict=True)])


def _scores(frame: pd.DataFrame, plan: Plan, why: _Refusals) -> NDArray[np.float64] | None:
    """The probability that every row gives its label; NaN for an empty cell, None without a column of scores."""
    name = plan.column("score")
    if name is None or name not in frame:
        return None
    empty, stated = _empty(frame[name], plan.missing), probabilities(frame[name])
    why.add(~empty & ~((stated >= 0) & (stated <= 1)), name, partial(_not_a_probability, frame[name]))
    return np.where(empty, np.nan, stated)


def _vectors(frame: pd.DataFrame, plan: Plan, why: _Refusals) -> NDArray[np.float64]:
    """The probability of every state, NaN in rows whose cells are empty: [n, K]."""
    names = list(plan.scores)
    empty = np.stack([_empty(frame[name], plan.missing) for name in names], axis=1)
    stated = np.stack([probabilities(frame[name]) for name in names], axis=1)
    some: NDArray[np.bool_] = np.asarray(~empty.all(axis=1), dtype=np.bool_)
    for k, name in enumerate(names):
        why.add(some & empty[:, k], name, "is empty, but the row has other probabilities.")
        why.add(
            some & ~((stated[:, k] >= 0) & (stated[:, k] <= 1)),
            name,
            partial(_not_a_probability, frame[name]),
        )
    total: NDArray[np.float64] = np.asarray(stated.sum(axis=1), dtype=np.float64)
    why.add(
        some & why.ok & ~(np.abs(total - 1.0) <= SUM_TOLERANCE),
        names[0],
        lambda at: Advised(
            f"the probabilities of the row add up to {total[at]:.3g}, not to 1.",
            "--score-columns NAMES names the columns that add up to 1, --score-columns none reads only the labels.",
        ),
    )
    return np.where(some[:, None], stated, np.nan)


def probabilities(cells: pd.Series[Any]) -> NDArray[np.float64]:
    """Cells as numbers; percentages ("80 %") are divided by 100."""
    stated = numbers(cells)
    if not pd.api.types.is_numeric_dtype(cells.dtype) and (odd := np.flatnonzero(np.isnan(stated))).size:
        stated[odd] = [probability(str(cell)) for cell in cells.iloc[odd].tolist()]
    return stated


def _not_a_probability(cells: pd.Series[Any], at: int) -> str:
    return f"'{_shown(cells, at)}' is not a probability between 0 and 1, or a percentage with its % sign."


def _labels(
    frame: pd.DataFrame, plan: Plan, vectors: NDArray[np.float64] | None, labels: NameColumn
) -> tuple[Coded, NDArray[np.bool_]]:
    """The label of every row (the most probable state if it has only probabilities), and which rows have none."""
    name = plan.column("label")
    if vectors is None:
        return labels.read(frame[name])
    states = np.array(list(plan.scores.values()), dtype=object)
    complete = np.isfinite(vectors).all(axis=1)
    said = np.full(len(frame), "", dtype=object)
    said[complete] = states[vectors[complete].argmax(axis=1)]
    if name is not None:
        empty = _empty(frame[name], plan.missing)
        said = np.where(empty, said, frame[name].to_numpy(dtype=object))
    return labels.read(pd.Series(said, index=frame.index))


def _coordinate(frame: pd.DataFrame, plan: Plan, role: str, why: _Refusals) -> NDArray[np.float64]:
    name = plan.column(role) or ""
    cells = frame[name]
    values = numbers(cells)
    bad = ~np.isfinite(values)
    if bad.any():
        why.add(bad & _empty(cells, plan.missing), name, f"has no {_TITLE[role]}.")
        if not pd.api.types.is_numeric_dtype(cells.dtype):
            values = np.where(bad, places.not_a_number(cells, bad & why.ok), values)
            bad = ~np.isfinite(values)
        why.add(
            bad,
            name,
            lambda at: f"{_TITLE[role]} '{str(cells.iloc[at])[:40]}' {places.why_not_degrees(str(cells.iloc[at]))}",
        )
    return values


def _to_degrees(
    x: NDArray[np.float64], y: NDArray[np.float64], plan: Plan, why: _Refusals
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ok = why.ok.copy()
    lon, lat = np.full(len(x), np.nan), np.full(len(x), np.nan)
    if ok.any():
        lon[ok], lat[ok] = geography.transformer(plan.crs, geography.WGS84).transform(x[ok], y[ok])
    lost = ok & ~(np.isfinite(lon) & np.isfinite(lat))
    why.add(lost, plan.column("lat") or "", f"its coordinates lie outside the area of {plan.crs}.")
    return lon, lat


def _in_range(lon: NDArray[np.float64], lat: NDArray[np.float64], plan: Plan, why: _Refusals) -> NDArray[np.float64]:
    """The longitudes in [−180, 180]; impossible places are refused."""
    if len(lat) and lat.min() >= -90 and lat.max() <= 90 and lon.min() >= -180 and lon.max() <= 180:
        return lon
    with np.errstate(invalid="ignore"):
        far_north = np.abs(lat) > 90
        far_east = np.abs(lon) > 180
        swapped = far_north & (np.abs(lat) <= 180) & (np.abs(lon) <= 90)
    if not (far_north.any() or far_east.any()):
        return lon
    lat_name, lon_name = plan.column("lat") or "", plan.column("lon") or ""
    why.add(
        swapped,
        lat_name,
        lambda at: Advised(
            f"latitude {lat[at]:g} is outside [-90, 90]. Are the coordinate columns swapped?",
            f"Then read it with --lat '{lon_name}' --lon '{lat_name}'."
            if lat_name and lon_name
            else "Then use --swap.",
        ),
    )
    remedy = "If they are metres, name their system with --crs (--crs local if they have none)."

    def outside(what: str, value: float, most: int) -> str:
        return Advised(f"{what} {value:g} is outside [-{most}, {most}]. {NOT_DEGREES}", remedy)

    why.add(far_north, lat_name, lambda at: outside("latitude", lat[at], 90))
    # Some files count longitudes from 0 to 360: the western hemisphere is then 180 to 360.
    lon = np.where(far_east & (lon > 180) & (lon <= 360), lon - 360.0, lon)
    why.add(np.abs(lon) > 180, lon_name, lambda at: outside("longitude", lon[at], 180))
    return lon


def _when(frame: pd.DataFrame, plan: Plan) -> pd.Series[Any]:
    time = plan.column("time")
    if time is not None:
        return frame[time]
    date = frame[plan.columns["date"]].astype(object).fillna("").astype(str)
    clock = frame[plan.columns["clock"]].astype(object).fillna("").astype(str)
    # Spreadsheets write a date by itself with the time of midnight.
    date = date.where(clock.str.strip() == "", date.str.replace(r"[ T]00:00(?::00(?:\.0+)?)?$", "", regex=True))
    return (date.str.strip() + " " + clock.str.strip()).str.strip()
