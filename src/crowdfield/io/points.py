"""Tables with one report a row: whole columns at a time, from cells to coordinates, labels and sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.io.collect import Batch, clean
from crowdfield.io.delimited import EXTRA, Chunk
from crowdfield.io.rejects import Advised, Refusal
from crowdfield.io.times import Times


@dataclass
class Plan:
    """How a table is read: a column for each role, and what a layout does to its rows first."""

    columns: dict[str, str]  # role -> column; "date" and "clock" where the two stand apart
    crs: str = geography.WGS84  # "local" for coordinates that are nowhere on Earth
    region: geography.Region | None = None
    prepare: Callable[[pd.DataFrame], pd.DataFrame] | None = None  # may make columns, named by role in angle brackets
    refuse: Callable[[pd.DataFrame], Mapping[int, tuple[str, str]]] | None = None  # position -> (column, reason)
    extra_columns: tuple[str, ...] = ()  # read for prepare and refuse
    made: dict[str, str] = field(default_factory=dict)  # role -> column made by prepare
    shown: dict[str, str] = field(default_factory=dict)  # role -> where it is from, where that is no one column

    def wanted(self) -> list[str]:
        """The columns to read from the file."""
        return [*self.columns.values(), *self.extra_columns]

    def column(self, role: str) -> str | None:
        return self.made.get(role, self.columns.get(role))


def batches(chunks: Iterable[Chunk], plan: Plan, times: Times | None) -> Iterator[Batch]:
    """Each chunk as a batch. Times are handed to ``times``, which knows them only at the end."""
    for chunk in chunks:
        yield _batch(chunk, plan, times)


def _batch(chunk: Chunk, plan: Plan, times: Times | None) -> Batch:
    frame = plan.prepare(chunk.frame) if plan.prepare is not None else chunk.frame
    size = len(frame)
    why = _Refusals(size)
    if EXTRA in frame:
        why.add(frame[EXTRA].notna().to_numpy(dtype=bool), "", "has more fields than the header. Is a comma unquoted?")
    if plan.refuse is not None:
        for at, (column, reason) in plan.refuse(frame).items():
            why.one(at, column, reason)

    lat, lon = (_coordinate(frame, plan, role, why) for role in ("lat", "lon"))
    if plan.crs not in (geography.WGS84, "local"):
        lon, lat = _to_degrees(lon, lat, plan, why)
    if plan.crs != "local":
        lon = _in_range(lon, lat, plan, why)
    label, unlabelled = _names(frame[plan.column("label")])
    why.add(unlabelled, plan.column("label") or "", "has no label.")
    if plan.region is not None:
        usable = why.ok.copy()
        usable[usable] = ~geography.within(plan.region, lon[usable], lat[usable])
        why.add(usable, "", "lies outside the region.")

    ok = why.ok
    every = bool(ok.all())

    def kept(values: Any) -> Any:
        return values if every else values[ok]

    rows = np.arange(chunk.first, chunk.first + size, dtype=np.int64)
    if times is not None:
        times.add(kept(_when(frame, plan)), kept(rows))
    optional = {role: frame[name] for role in ("source", "id", "text") if (name := plan.column(role)) in frame}
    source = None
    if "source" in optional:
        source, nobody = _names(optional["source"])
        if nobody.any():
            # Nobody named is one source, not a row thrown away.
            source = source.add_categories(["unknown"]) if "unknown" not in source.categories else source
            source[nobody] = "unknown"
    ids = optional.get("id")
    return Batch(
        rows=size,
        row=kept(rows),
        lon=kept(lon),
        lat=kept(lat),
        label=kept(label),
        source=None if source is None else kept(source),
        id=None if ids is None else kept(ids),
        text=None if "text" not in optional else kept(optional["text"]),
        refused=why.refusals(chunk.first),
    )


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


def _empty(values: pd.Series[Any]) -> NDArray[np.bool_]:
    missing = values.isna().to_numpy(dtype=bool)
    if not pd.api.types.is_numeric_dtype(values.dtype):
        missing = missing | (values.fillna("").astype(str).str.strip() == "").to_numpy(dtype=bool)
    return missing


def _names(values: pd.Series[Any]) -> tuple[pd.Categorical, NDArray[np.bool_]]:
    """Names, each different one stored once, and which rows have none."""
    codes, seen = pd.factorize(values)
    names = distinct = clean(seen)
    if len(set(names)) < len(names):
        distinct = list(dict.fromkeys(names))
        place = {name: i for i, name in enumerate(distinct)}
        recode = np.array([place[name] for name in names], dtype=np.int64)
        codes = np.where(codes < 0, -1, recode[codes])
    empty = codes < 0
    if "" in distinct:
        empty |= codes == distinct.index("")
    return pd.Categorical.from_codes(codes, categories=pd.Index(distinct, dtype=object)), empty


def numbers(values: pd.Series[Any]) -> NDArray[np.float64]:
    """Numbers as people write them, also with a decimal comma; NaN where a cell holds something else."""
    if pd.api.types.is_bool_dtype(values.dtype):
        return np.full(len(values), np.nan)
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    text = values.astype(object).where(values.notna(), "").astype(str).str.strip()
    comma = text.str.fullmatch(r"[+-]?\d+,\d+")
    text = text.where(~comma.astype(bool), text.str.replace(",", ".", regex=False))
    # Python's float also reads "nan", "inf" and "1_000", none of which is a coordinate.
    plain = text.str.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", flags=0).astype(bool)
    return pd.to_numeric(text.where(plain), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


_TITLE = {"lat": "latitude", "lon": "longitude"}


def _coordinate(frame: pd.DataFrame, plan: Plan, role: str, why: _Refusals) -> NDArray[np.float64]:
    name = plan.column(role) or ""
    cells = frame[name]
    values = numbers(cells)
    bad = ~np.isfinite(values)
    if bad.any():
        why.add(bad & _empty(cells), name, f"has no {_TITLE[role]}.")
        why.add(bad, name, lambda at: f"{_TITLE[role]} '{str(cells.iloc[at])[:40]}' is not a number.")
    return values


def _to_degrees(
    x: NDArray[np.float64], y: NDArray[np.float64], plan: Plan, why: _Refusals
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ok = why.ok.copy()
    lon, lat = np.full(len(x), np.nan), np.full(len(x), np.nan)
    if ok.any():
        lon[ok], lat[ok] = geography.transformer(plan.crs, geography.WGS84).transform(x[ok], y[ok])
    lost = ok & ~(np.isfinite(lon) & np.isfinite(lat))
    why.add(lost, plan.column("lat") or "", f"its coordinates are nowhere in {plan.crs}.")
    return lon, lat


def _in_range(lon: NDArray[np.float64], lat: NDArray[np.float64], plan: Plan, why: _Refusals) -> NDArray[np.float64]:
    """The longitudes in [−180, 180]; places that are nowhere on Earth are refused."""
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
            f"Then read it with --lat '{lon_name}' --lon '{lat_name}'.",
        ),
    )
    remedy = "If they are metres, name their system with --crs."

    def outside(what: str, value: float, most: int) -> str:
        return Advised(f"{what} {value:g} is outside [-{most}, {most}]. Are these degrees?", remedy)

    why.add(far_north, lat_name, lambda at: outside("latitude", lat[at], 90))
    # 180 to 360 is the other way to write the western half.
    lon = np.where(far_east & (lon > 180) & (lon <= 360), lon - 360.0, lon)
    why.add(np.abs(lon) > 180, lon_name, lambda at: outside("longitude", lon[at], 180))
    return lon


def _when(frame: pd.DataFrame, plan: Plan) -> pd.Series[Any]:
    time = plan.column("time")
    if time is not None:
        return frame[time]
    date = frame[plan.columns["date"]].astype(object).fillna("").astype(str)
    clock = frame[plan.columns["clock"]].astype(object).fillna("").astype(str)
    return (date.str.strip() + " " + clock.str.strip()).str.strip()
