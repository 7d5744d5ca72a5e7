"""Reading reports in pieces, and distributing them over partitions.

The driver holds only names and counts. Functions that run on the workers take a piece and return arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.data import Reports
from crowdfield.data.reports import COORDINATES
from crowdfield.data.sites import distinct_places
from crowdfield.errors import InputError
from crowdfield.inference.data import Data, arrange
from crowdfield.inference.fields.base import Array
from crowdfield.models.problem import Gold

if TYPE_CHECKING:
    from distributed import Client, Future

PIECE = 1_000_000  # reports that are read at a time
RANKS = 1024  # eastings per piece that describe how its reports are spread


def hold(value: Any) -> Any:
    """Data as a task: unlike scattered data it comes back when the worker that held it is lost."""
    return value


class Columns(NamedTuple):
    """The names of the columns to read."""

    places: list[str]
    label: str
    source: str | None


class Piece(NamedTuple):
    """Some row groups of a Parquet file."""

    path: str
    groups: list[int]


class Coding(NamedTuple):
    """What codes stand for, and what is known beforehand."""

    labels: tuple[Any, ...]
    sources: tuple[Any, ...]
    n_states: int
    gold: Gold


class Survey(NamedTuple):
    """A summary of all reports, needed before they can be partitioned."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks of it
    low: Array  # [D]
    high: Array  # [D]
    labels: list[Any]
    counted: dict[Any, int]  # reports by source
    eastings: Array  # at even ranks
    weight: Array  # how many reports each of them stands for

    @property
    def sources(self) -> tuple[Any, ...]:
        names = list(self.counted)
        return Reports.from_arrays(np.zeros((len(names), 1)), [0] * len(names), names).sources

    def by_source(self, sources: tuple[Any, ...]) -> NDArray[np.int64]:
        return np.array([self.counted[s] for s in sources], dtype=np.int64)

    def cuts(self, partitions: int) -> Array:
        """Eastings that divide the reports into about equal parts. Reports of one easting stay together."""
        order = np.argsort(self.eastings, kind="stable")
        below = np.cumsum(self.weight[order])
        shares = np.arange(1, partitions) / partitions * below[-1]
        return np.unique(self.eastings[order][np.searchsorted(below, shares)])


def _frame(piece: Any, columns: Columns) -> pd.DataFrame:
    """The needed columns of a piece of a Parquet file, or of a partition, as a table."""
    if not isinstance(piece, Piece):
        return pd.DataFrame(piece)  # a partition of a Dask DataFrame, or Reports
    import fsspec
    from pyarrow.parquet import ParquetFile

    wanted = [*columns.places, columns.label, *([] if columns.source is None else [columns.source])]
    with fsspec.open(piece.path, "rb") as file:
        frame: pd.DataFrame = ParquetFile(file).read_row_groups(piece.groups, columns=wanted).to_pandas()
        return frame


def _where(piece: Any) -> str:
    return f"{piece.path}: " if isinstance(piece, Piece) else ""


def _places(frame: pd.DataFrame, columns: Columns, where: str) -> Array:
    """The coordinates of all reports of a piece [R, D]; an error if one is missing."""
    try:
        values = frame[columns.places].to_numpy(dtype=np.float64) + 0.0  # −0.0 and 0.0 are one place
    except (TypeError, ValueError) as bad:
        raise InputError(f"{where}the columns {columns.places} must hold numbers ({bad}).") from bad
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise InputError(
            f"{where}report {row} of its part has {values[row, column]} as {columns.places[column]}. "
            "Leave out reports without a place."
        )
    return values


def survey(piece: Any, columns: Columns) -> Survey:
    """Summarise a piece: extent, labels, sources, and the spread of its eastings."""
    frame, where = _frame(piece, columns), _where(piece)
    places = _places(frame, columns, where)
    for name in (columns.label, columns.source):
        if name is not None and frame[name].isna().any():
            raise InputError(f"{where}a report has no {name}. Leave it out, or say what it is.")
    if not len(places):
        nothing = np.empty(0)
        D = len(columns.places)
        return Survey(0, np.full(D, np.inf), np.full(D, -np.inf), [], {}, nothing, nothing)
    counted = {"all": len(frame)}
    if columns.source is not None:
        found = frame[columns.source].value_counts(sort=False)
        counted = {name: int(n) for name, n in zip(found.index.tolist(), found.tolist(), strict=True) if n}
    eastings = np.sort(places[:, 0])[np.linspace(0, len(places) - 1, min(RANKS, len(places))).astype(np.int64)]
    return Survey(
        count=len(frame),
        low=places.min(0),
        high=places.max(0),
        labels=pd.unique(frame[columns.label].to_numpy()).tolist(),
        counted=counted,
        eastings=eastings,
        weight=np.full(len(eastings), len(frame) / len(eastings)),
    )


def joined(surveys: list[Survey]) -> Survey:
    """The summary of all pieces together."""
    counted: dict[Any, int] = {}
    for survey in surveys:
        for name, n in survey.counted.items():
            counted[name] = counted.get(name, 0) + n
    count = sum(s.count for s in surveys)
    if not count:
        raise InputError("there are no reports to fit.")
    return Survey(
        count=count,
        low=np.min([s.low for s in surveys], axis=0),
        high=np.max([s.high for s in surveys], axis=0),
        labels=list(dict.fromkeys(name for s in surveys for name in s.labels)),
        counted=counted,
        eastings=np.concatenate([s.eastings for s in surveys]),
        weight=np.concatenate([s.weight for s in surveys]),
    )


class Coded(NamedTuple):
    """Reports of a piece as codes."""

    places: Array
    label: NDArray[np.int32]
    source: NDArray[np.int32]

    def of(self, rows: NDArray[Any]) -> Coded:
        return Coded(self.places[rows], self.label[rows], self.source[rows])


def _split(piece: Any, columns: Columns, coding: Coding, cuts: Array) -> list[Coded]:
    """The reports of a piece, in codes, by the partition they belong to."""
    frame, where = _frame(piece, columns), _where(piece)
    places = _places(frame, columns, where)
    label = _codes(frame[columns.label], coding.labels)
    if len(label) and label.min() < 0:
        unknown = frame[columns.label].iloc[int(np.argmin(label))]
        raise InputError(f"{where}label {unknown!r} is not among the labels {list(coding.labels)}.")
    source = np.zeros(len(frame), np.int32)
    if columns.source is not None:
        source = _codes(frame[columns.source], coding.sources)
    coded = Coded(places, label, source)
    partition = np.searchsorted(cuts, places[:, 0], side="right")
    order = np.argsort(partition, kind="stable")
    ends = np.searchsorted(partition[order], np.arange(len(cuts) + 2))
    return [coded.of(order[ends[p] : ends[p + 1]]) for p in range(len(cuts) + 1)]


def _codes(values: pd.Series, names: tuple[Any, ...]) -> NDArray[np.int32]:
    index = pd.Index(list(names), dtype=object, tupleize_cols=False)
    codes, found = pd.factorize(values.to_numpy())
    return index.get_indexer(pd.Index(found.tolist(), dtype=object, tupleize_cols=False)).astype(np.int32)[codes]


def _arranged(pieces: list[Coded], coding: Coding, low: float, high: float) -> Data:
    """All reports and gold places with low ≤ easting < high, sorted by place as one process would sort them."""
    gold = coding.gold.places[:, 0]
    here = (gold >= low) & (gold < high)
    reported = np.concatenate([p.places for p in pieces])
    places, site = distinct_places(np.concatenate([reported, coding.gold.places[here] + 0.0]))
    known = np.full(len(places), -1, dtype=np.int64)
    known[site[len(reported) :]] = coding.gold.state[here]
    return arrange(
        places,
        site[: len(reported)],
        np.concatenate([p.source for p in pieces]).astype(np.int64),
        np.concatenate([p.label for p in pieces]).astype(np.int64),
        n_sources=len(coding.sources),
        n_labels=len(coding.labels),
        n_states=coding.n_states,
        known=known,
    )


def pieces(
    given: Any, client: Client, places: Sequence[str] | None, label: str, source: str | None
) -> tuple[list[Any], Columns]:
    """What can be read piece by piece (arguments of tasks), and the names of the columns."""
    if isinstance(given, Reports):
        frame = given.to_frame()
        columns = Columns(list(frame.columns[: given.places.shape[1]]), "label", "source")
        frame = frame[[*columns.places, "label", "source"]]
        starts = range(0, max(len(frame), 1), PIECE)
        return [client.submit(hold, frame.iloc[i : i + PIECE], pure=False) for i in starts], columns
    if isinstance(given, str | PathLike):
        given = [given]
    if isinstance(given, list | tuple):
        return _parquet([fspath(path) for path in given], places, label, source)
    if hasattr(given, "to_delayed") and hasattr(given, "columns"):
        columns = _columns([str(c) for c in given.columns], places, label, source, "the table")
        wanted = given[[*columns.places, columns.label, *([] if source is None else [source])]]
        return list(client.compute(list(wanted.to_delayed()))), columns
    raise InputError(
        f"reports must be Parquet files, a Dask DataFrame or crowdfield Reports, not {type(given).__name__}. "
        "HeatmapBCC.fit takes arrays."
    )


def _parquet(
    given: list[str], places: Sequence[str] | None, label: str, source: str | None
) -> tuple[list[Any], Columns]:
    """All row groups of Parquet files as pieces, and which columns to read."""
    import fsspec
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    pieces, columns = [], None
    for path in given:
        system, found = fsspec.url_to_fs(path)
        files = system.glob(f"{found.rstrip('/')}/**.parquet" if system.isdir(found) else found)
        if not files:
            raise InputError(f"{path}: there are no Parquet files.")
        for file in files:
            url = system.unstrip_protocol(file)
            try:
                with system.open(file, "rb") as opened:
                    about = ParquetFile(opened)
                    names = about.schema_arrow.names
                    rows = [about.metadata.row_group(g).num_rows for g in range(about.num_row_groups)]
            except (ArrowException, OSError) as bad:
                raise InputError(f"{file}: cannot be read as Parquet ({bad}).") from bad
            columns = _columns(names, places, label, source, file)
            pieces += [Piece(url, groups) for groups in _runs(rows)]
    assert columns is not None  # every path has a file, and every file columns
    return pieces, columns


def _runs(rows: list[int]) -> Iterator[list[int]]:
    """Row groups in runs of about PIECE rows."""
    run: list[int] = []
    for group, n in enumerate(rows):
        if run and sum(rows[g] for g in run) + n > PIECE:
            yield run
            run = []
        run.append(group)
    if run:
        yield run


def _columns(names: list[str], places: Sequence[str] | None, label: str, source: str | None, where: str) -> Columns:
    """Which columns to read; an error that names the argument if one is not there."""
    if places is None:
        places = next((pair for pair in COORDINATES if all(c in names for c in pair)), None)
        if places is None:
            raise InputError(
                f"{where}: no coordinate columns among {names}. Name them with places=(easting, northing)."
            )
    wanted = {"places": places, "label": [label], "source": [] if source is None else [source]}
    for argument, asked in wanted.items():
        for name in asked:
            if name not in names:
                hint = ", or pass source=None where all are from one" if argument == "source" else ""
                raise InputError(f"{where}: no column {name!r} among {names}. Name it with {argument}=…{hint}.")
    return Columns(list(places), label, source)


def shuffled(client: Client, pieces: list[Any], columns: Columns, coding: Future, cuts: Array) -> list[Future]:
    """The reports by partition: every piece is split once, and every partition gathers its share of each."""
    split = [client.submit(_split, piece, columns, coding, cuts, pure=False) for piece in pieces]
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    return [
        client.submit(
            _arranged,
            [client.submit(itemgetter(p), s) for s in split],
            coding,
            float(edges[p]),
            float(edges[p + 1]),
        )
        for p in range(len(cuts) + 1)
    ]
