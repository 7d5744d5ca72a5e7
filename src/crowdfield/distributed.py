"""The same inference over Dask partitions: more reports than one machine holds, or more machines for them.

Every partition holds the reports of a range of eastings, so that all reports at one place are together, and turns
them into sums: pseudo-counts of the sources and statistics of the field. Only q goes out and only those sums come
back. The driver adds them up and does what it does with one process; it never holds the reports.

Every task is a function of its arguments. When a worker is lost, Dask computes again what was on it, from the files
on, and the fit ends where it would have ended (docs/distributed.md).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.data import Reports
from crowdfield.data.reports import COORDINATES, distinct_places
from crowdfield.errors import InputError, MissingDependencyError
from crowdfield.inference import vb
from crowdfield.inference.communities import Communities
from crowdfield.inference.data import Data, Prior, arrange
from crowdfield.inference.fields.base import Array, Basis, Engine, FeatureEngine, FeatureField
from crowdfield.inference.fields.exact import ExactEngine
from crowdfield.inference.fields.iterative import IterativeEngine
from crowdfield.models import learning, problem
from crowdfield.models.base import as_classes, validated_reports
from crowdfield.models.heatmap_bcc import HeatmapBCC, warn_about_one_label

if TYPE_CHECKING:
    from distributed import Client, Future

Progress = Callable[[int, float, float], None]

PIECE = 1_000_000  # reports that are read at a time
PARTITION = 500_000  # reports of a partition, about
RANKS = 1024  # eastings by which a piece says how its reports are spread
CONNECT_SECONDS = 10
_QUIET = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}  # reports given in memory travel in the graph


class DistributedHeatmapBCC(HeatmapBCC):
    """What a fit to reports that are elsewhere leaves: the map and the sources, without the reports themselves.

    `predict_proba` is E[ρ*] everywhere, because the reports at a place are not at hand; `fit(..., sites_to=...)` writes
    E[t] of every place that has reports.
    """

    _counted: NDArray[np.int64]

    def _reports_by_source(self) -> NDArray[np.int64]:
        return self._counted

    def _without_reports(self, *_: Any, **__: Any) -> NoReturn:
        raise InputError(
            "this model was fitted to reports that are not in this process, so it cannot go back to them. "
            "Fit again over all files, or use HeatmapBCC.fit where the reports fit in memory."
        )

    partial_fit = forget = explain = save = _without_reports  # type: ignore[assignment]


def fit(
    reports: Any,
    client: Client | str | None = None,
    *,
    model: HeatmapBCC | None = None,
    places: Sequence[str] | None = None,
    label: str = "label",
    source: str | None = "source",
    gold: tuple[Any, Any] | None = None,
    partitions: int | None = None,
    sites_to: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> HeatmapBCC:
    """Fit over Dask. The answer is that of one process (`HeatmapBCC.fit`, same settings), up to the order of sums.

    reports : Parquet files (a path, a pattern with *, a directory, a list of these), a Dask DataFrame, or Reports
    client : a Client, a scheduler's address, or None or "local" for workers on this machine
    model : a HeatmapBCC with the settings wanted; it is not changed
    places, label, source : names of columns; `source=None` where all reports are from one source
    partitions : how many; by default one for each half million reports, and at least one for each thread of a worker
    sites_to : a directory that the workers can write to; receives E[t] of every reported place, as Parquet
    progress : called after each sweep with its number, the bound, and how far something moved

    Reports in memory give an ordinary fitted HeatmapBCC. Files and DataFrames give a `DistributedHeatmapBCC`.
    """
    settings = HeatmapBCC() if model is None else model
    problem.check_settings(settings)
    if settings.inference == "gibbs":
        raise InputError("Gibbs draws q(t) of all sites together; over Dask use inference='collapsed' or 'vb'.")
    if settings.engine == "exact":
        raise InputError("the exact engine needs all places in one process. Use engine='spectral' or 'inducing'.")
    kind = HeatmapBCC if isinstance(reports, Reports) else DistributedHeatmapBCC
    fitted = kind(**settings.get_params(deep=False))
    with _connected(client) as at:
        from dask import config

        with config.set(_QUIET):
            _fit_into(fitted, reports, at, places, label, source, gold, partitions, sites_to, progress)
    return fitted


def fit_model(model: HeatmapBCC, reports: Reports, client: Client | str | None = None) -> HeatmapBCC:
    """Fit this very model to reports in memory, over Dask."""
    fitted = fit(reports, client, model=model)
    model.__dict__.update(fitted.__dict__)
    return model


def _fit_into(
    model: HeatmapBCC,
    given: Any,
    client: Client,
    places: Sequence[str] | None,
    label: str,
    source: str | None,
    gold: Any,
    partitions: int | None,
    sites_to: str | PathLike[str] | None,
    progress: Progress | None,
) -> None:
    pieces, columns = _pieces(given, client, places, label, source)
    surveys: list[Survey] = client.gather([client.submit(_survey, p, columns, pure=False) for p in pieces])
    whole = _joined(surveys)
    dimension, n_labels = len(whole.low), len(whole.labels)
    said, states = validated_reports(
        model, np.zeros((n_labels, dimension)), whole.labels, states=model.states, labels=model.labels
    )
    known = problem.gold(gold, states, dimension)
    everywhere = np.vstack([whole.low, whole.high, known.places])
    corners = np.stack([everywhere.min(0), everywhere.max(0)])
    # Two reports that nobody made: they stand for the extent, the labels and the sources of all.
    names = Reports(corners, np.zeros(2, np.int64), np.zeros(2, np.int64), said.labels, whole.sources)
    reports = names.take(np.zeros(2, dtype=bool))
    if isinstance(given, Reports):
        reports = replace(given, **_recoded(given, names))
        if isinstance(problem.pose(model, reports, states, known).engine(), ExactEngine):
            model._learn(reports, states, known, warm=None)  # so few places that one process is quicker
            return
    wanted = partitions or max(-(-whole.count // PARTITION), sum(client.nthreads().values()))
    coding = client.submit(_hold, Coding(names.labels, names.sources, len(states), known), pure=False)
    data = _shuffled(client, pieces, columns, coding, whole.cuts(wanted))
    del pieces
    sizes = client.gather([client.submit(_n_sites, d) for d in data])
    data = [d for d, n in zip(data, sizes, strict=True) if n]
    sizes = [n for n in sizes if n]
    sample = _sample(client, problem.pose(model, names, states, known), data, sizes)
    start = None
    if problem.learns_lengthscale(model.lengthscale):
        learned = learning.lengthscale(sample, None)
        sample, start = learned.posed, learned.q
        model.lengthscale_log_sd_, model.lengthscale_tried_ = learned.log_sd, learned.tried
    engine = _engine(sample, corners)
    cluster = Partitions.laid_out(client, data, sizes, sample, engine)

    def over(posed: problem.Posed, first: Communities | None) -> tuple[vb.Sites, vb.Iteration]:
        here = vb.Sites(posed.data, posed.prior, _on(engine, posed.data.X))
        return here, replace(vb.Iteration.over(here, posed.scheme, first, posed.base), sweep=cluster.sweep)

    solved = learning.solve(sample, start, max_iter=model.max_iter, tol=model.tol, over=over, progress=progress)
    if sites_to is not None:
        cluster.write(fspath(sites_to), [str(c) for c in columns.places], [f"p_{state}" for state in states])
    model.classes_ = as_classes(states)
    model.labels_seen_, model.sources_seen_ = as_classes(names.labels), as_classes(names.sources)
    model.inference_ = "collapsed" if model.inference == "auto" else model.inference
    model.reports_, model._gold_, model._posed = reports, known, sample
    if isinstance(model, DistributedHeatmapBCC):
        model.places_, model._counted = np.empty((0, dimension)), whole.by_source(names.sources)
        model._accept(solved, np.empty((0, len(states))))
        return
    warn_about_one_label(reports)
    model._posed = replace(problem.pose(model, reports, states, known), kernel=sample.kernel)
    model.places_ = model._posed.data.X
    targets = cluster.targets()
    here = vb.Sites(model._posed.data, model._posed.prior, _on(engine, model.places_))
    here.r = [targets[block.sites] for block in here.blocks]
    local = vb.Iteration.over(here, sample.scheme, solved.fit.state.communities, sample.base)
    model._accept(learning.Solved(here, local, solved.fit), targets)


# --- the cluster -----------------------------------------------------------------------------------------------------


@contextmanager
def _connected(client: Client | str | None) -> Iterator[Client]:
    """A client: the one given, which stays open, or one of our own, which does not outlive the fit."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingDependencyError(
            "fitting over Dask needs dask and distributed. Install them with: pip install 'crowdfield[scale]'"
        ) from None
    if isinstance(client, Client):
        yield client
    elif client is None or client == "local":
        with LocalCluster(threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as own:
            yield own
    elif isinstance(client, str):
        try:
            own = Client(client, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as problem_:
            raise InputError(
                f"no Dask scheduler answers at {client!r} ({problem_}). Start one with `dask scheduler`, "
                "give its address as tcp://host:8786, or 'local' for workers on this machine."
            ) from problem_
        with own:
            if not own.nthreads():
                raise InputError(f"the Dask scheduler at {client!r} has no workers. Start some with `dask worker`.")
            yield own
    else:
        raise InputError(f"client must be a dask Client, an address or 'local', not {client!r}.")


@dataclass
class Partitions:
    """Sites on the workers, and q(t) of their last sweep."""

    client: Client
    sites: list[Future]  # of vb.Sites
    scheme: vb.Scheme
    r: list[Future] | list[None]  # of list[Array]; None before the first sweep

    @classmethod
    def laid_out(
        cls, client: Client, data: list[Future], sizes: list[int], posed: problem.Posed, engine: Engine
    ) -> Partitions:
        bare = Prior(np.empty(0), posed.prior.shape, posed.prior.rate, np.empty(0))  # q brings the rest along
        layout = client.submit(_hold, (type(engine), engine.basis, posed.mean_at, bare), pure=False)  # type: ignore[attr-defined]
        first = np.concatenate([[0], np.cumsum(sizes)])
        sites = [client.submit(_sites, d, layout, int(first[i]), int(first[-1])) for i, d in enumerate(data)]
        return cls(client, sites, posed.scheme, [None] * len(sites))

    def sweep(self, q: vb.Posterior, foreign: bool) -> vb.Summary:
        light = q if foreign else q._replace(fields=tuple(map(_light, q.fields)), scale=())
        sent = self.client.submit(_hold, light, pure=False)
        # Only where t is summed out does a sweep look at the r of the last one.
        before = self.r if self.scheme.integrates_scale else [None] * len(self.sites)
        swept = [
            self.client.submit(_sweep, s, sent, self.scheme, foreign, r, pure=False)
            for s, r in zip(self.sites, before, strict=True)
        ]
        self.r = [self.client.submit(itemgetter(1), s) for s in swept]
        summaries: list[vb.Summary] = self.client.gather([self.client.submit(itemgetter(0), s) for s in swept])
        total = summaries[0]
        for summary in summaries[1:]:  # in the order of the partitions, so that equal inputs give equal sums
            total = total + summary
        return total

    def targets(self) -> Array:
        """q(t) at all sites, in the order of their places: [N, J]."""
        return np.concatenate([np.concatenate(r) for r in self.client.gather(self.r)])

    def write(self, directory: str, places: list[str], states: list[str]) -> None:
        tasks = [
            self.client.submit(_write, s, r, f"{directory}/part.{i:05d}.parquet", places, states, pure=False)
            for i, (s, r) in enumerate(zip(self.sites, self.r, strict=True))
        ]
        self.client.gather(tasks)


class Folded(NamedTuple):
    """As much of a field as its moments at sites need: what travels."""

    folded: Any


def _light(field: Any) -> Any:
    return Folded(field.folded) if isinstance(field, FeatureField) else field


def _engine(sample: problem.Posed, corners: Array) -> Engine:
    """The engine of the whole region: Fourier features depend on the places through their bounding box alone."""
    name = sample.engine_name
    if name == "auto":
        name = "spectral" if corners.shape[1] <= 3 else "inducing"
    around = replace(sample, engine_name=name, data=sample.data._replace(X=np.concatenate([sample.data.X, corners])))
    return around.engine()


def _on(engine: Engine, X: Array) -> Engine:
    """An engine with the same basis at other places."""
    return _engine_of(type(engine), engine.basis, X)  # type: ignore[attr-defined]


def _engine_of(kind: type, basis: Basis, X: Array) -> Engine:
    return IterativeEngine(basis, X) if kind is IterativeEngine else FeatureEngine(basis, X)  # type: ignore[arg-type]


# --- what runs on the workers ----------------------------------------------------------------------------------------


class Columns(NamedTuple):
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
    gold: problem.Gold


class Survey(NamedTuple):
    """What must be known of all reports before they can be put in order."""

    count: int
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
        """Eastings that part the reports into about equal shares. One easting is never parted."""
        order = np.argsort(self.eastings, kind="stable")
        below = np.cumsum(self.weight[order])
        shares = np.arange(1, partitions) / partitions * below[-1]
        return np.unique(self.eastings[order][np.searchsorted(below, shares)])


def _hold(value: Any) -> Any:
    """Data as a task: unlike scattered data it comes back when the worker that held it is lost."""
    return value


def _frame(piece: Any, columns: Columns) -> pd.DataFrame:
    if not isinstance(piece, Piece):
        return piece  # a partition of a Dask DataFrame, or Reports
    import fsspec
    from pyarrow.parquet import ParquetFile

    wanted = [*columns.places, columns.label, *([] if columns.source is None else [columns.source])]
    with fsspec.open(piece.path, "rb") as file:
        return ParquetFile(file).read_row_groups(piece.groups, columns=wanted).to_pandas()


def _where(piece: Any) -> str:
    return f"{piece.path}: " if isinstance(piece, Piece) else ""


def _places(frame: pd.DataFrame, columns: Columns, where: str) -> Array:
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


def _survey(piece: Any, columns: Columns) -> Survey:
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


def _joined(surveys: list[Survey]) -> Survey:
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


def _n_sites(data: Data) -> int:
    return data.n_sites


def _chosen(data: Data, sites: NDArray[np.int64]) -> Data:
    return learning.at_sites(data, sites)


def _sites(data: Data, layout: tuple[type, Basis, problem.LatentMean, Prior], first: int, total: int) -> vb.Sites:
    kind, basis, mean_at, prior = layout
    return vb.Sites(data, prior._replace(mean=mean_at(data.X)), _engine_of(kind, basis, data.X), first, total)


def _sweep(
    sites: vb.Sites, q: vb.Posterior, scheme: vb.Scheme, foreign: bool, r: list[Array] | None
) -> tuple[vb.Summary, list[Array]]:
    mine = copy.copy(sites)  # a sweep notes r; what Dask holds must stay as it was
    mine.r = [None] * len(sites.blocks) if r is None else list(r)
    summary = vb.sweep(mine, q, scheme, foreign)
    return summary, [r_ for r_ in mine.r if r_ is not None]


def _write(sites: vb.Sites, r: list[Array], path: str, places: list[str], states: list[str]) -> None:
    import fsspec

    frame = pd.DataFrame(np.hstack([sites.data.X, np.concatenate(r)]), columns=[*places, *states])
    with fsspec.open(path, "wb", auto_mkdir=True) as file:
        frame.to_parquet(file, index=False)


# --- reports in ------------------------------------------------------------------------------------------------------


def _pieces(
    given: Any, client: Client, places: Sequence[str] | None, label: str, source: str | None
) -> tuple[list[Any], Columns]:
    """What can be read piece by piece (arguments of tasks), and the names of the columns."""
    if isinstance(given, Reports):
        frame = given.to_frame()
        columns = Columns(list(frame.columns[: given.places.shape[1]]), "label", "source")
        frame = frame[[*columns.places, "label", "source"]]
        starts = range(0, max(len(frame), 1), PIECE)
        return [client.submit(_hold, frame.iloc[i : i + PIECE], pure=False) for i in starts], columns
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


def _recoded(reports: Reports, names: Reports) -> Mapping[str, Any]:
    """The codes of reports in the order of names that the model uses, as HeatmapBCC.fit would give them."""
    label = np.array([names.labels.index(x) if x in names.labels else -1 for x in reports.labels], dtype=np.int64)
    position = {name: i for i, name in enumerate(names.sources)}
    source = np.array([position.get(s, -1) for s in reports.sources], dtype=np.int64)
    return {
        "label": label[reports.label],
        "source": source[reports.source],
        "labels": names.labels,
        "sources": names.sources,
    }


def _shuffled(client: Client, pieces: list[Any], columns: Columns, coding: Future, cuts: Array) -> list[Future]:
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


def _sample(client: Client, posed: problem.Posed, data: list[Future], sizes: list[int]) -> problem.Posed:
    """The problem on the very sites on which one process would search for the length-scale."""
    total = sum(sizes)
    most = learning.SEARCH_SITES
    kept = np.arange(total)
    if total > most:
        kept = np.sort(posed.rng().choice(total, most, replace=False))
    first = np.concatenate([[0], np.cumsum(sizes)])
    ends = np.searchsorted(kept, first)
    tasks = [client.submit(_chosen, d, kept[ends[i] : ends[i + 1]] - first[i], pure=False) for i, d in enumerate(data)]
    parts: list[Data] = client.gather(tasks)
    offset = np.concatenate([[0], np.cumsum([p.n_sites for p in parts])])
    repeats = [p.repeats for p in parts]
    whole = parts[0]._replace(
        X=np.concatenate([p.X for p in parts]),
        site=np.concatenate([p.site + np.int32(offset[i]) for i, p in enumerate(parts)]),
        source=np.concatenate([p.source for p in parts]),
        label=np.concatenate([p.label for p in parts]),
        known=np.concatenate([p.known for p in parts]),
        repeats=None
        if all(r is None for r in repeats)
        else np.concatenate([np.ones((len(p.site), 2), np.int32) if p.repeats is None else p.repeats for p in parts]),
    )
    return replace(posed, data=whole, prior=posed.prior._replace(mean=posed.mean_at(whole.X)))
