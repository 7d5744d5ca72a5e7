"""The same inference over Dask partitions: more reports than one machine holds, or more machines for them.

Every partition holds the reports of a range of eastings, so that all reports at one place are together, and reduces
them to sums: pseudo-counts of the sources and statistics of the field. Only q is sent to the workers, and only these
sums come back. The driver adds them up and continues as in a single process; it never holds the reports.

Every task is a function of its arguments. When a worker is lost, Dask computes again what was on it, from the files
on, and the fit ends where it would have ended (docs/distributed.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Reports
from crowdfield.distributed import instrument, reading
from crowdfield.distributed import partitions as partitions_
from crowdfield.distributed.partitions import Partitions
from crowdfield.errors import InputError, MissingDependencyError
from crowdfield.inference import lengthscale_selection, selection, solvers
from crowdfield.inference.instrument.linear import Design
from crowdfield.inference.posed import Posed
from crowdfield.inference.sites import Sites
from crowdfield.inference.solvers import Solver
from crowdfield.models import learned, learning, problem
from crowdfield.models.base import as_classes, validated_reports
from crowdfield.models.heatmap_bcc import HeatmapBCC
from crowdfield.models.instrument import set_up
from crowdfield.models.learned import FitInput

if TYPE_CHECKING:
    from dask.dataframe import DataFrame
    from distributed import Client

__all__ = ["DistributedHeatmapBCC", "fit", "fit_model"]

Progress = Callable[[int, float, float], None]

PARTITION = 500_000  # reports of a partition, about
CONNECT_SECONDS = 10
ONE_STATE = "fits over Dask take it unless reports_model asks for the other"
_QUIET = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}  # reports given in memory travel in the graph


class DistributedHeatmapBCC(HeatmapBCC):
    """A model fitted over Dask: the field and the sources, without the reports themselves.

    `predict_proba` is E[ρ*] everywhere, because the model does not hold the reports; `fit(..., sites_to=...)` writes
    E[t] of every place that has reports. The parameters and attributes are those of `crowdfield.HeatmapBCC`.
    """

    _counted: NDArray[np.int64]

    def _reports_by_source(self) -> NDArray[np.int64]:
        return self._counted

    def _without_reports(self, *_: Any, **__: Any) -> NoReturn:
        raise InputError(
            "this model was fitted to reports that are not in this process, so it cannot go back to them. "
            "Fit again over all files, or use HeatmapBCC.fit where the reports fit in memory."
        )

    def at_reported_places(self) -> None:
        """Maps show the field alone: E[t] of places with reports stays with the workers."""
        return None

    partial_fit = forget = explain = save = left_out = score_reports = to_arviz = _without_reports


def fit(
    reports: str | PathLike[str] | Sequence[str | PathLike[str]] | Reports | DataFrame,
    client: Client | str | None = None,
    *,
    model: HeatmapBCC | None = None,
    places: Sequence[str] | None = None,
    label: str = "label",
    source: str | None = "source",
    gold: tuple[ArrayLike, ArrayLike] | None = None,
    partitions: int | None = None,
    sites_to: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> HeatmapBCC:
    """Fit over Dask. The answer is that of one process (`HeatmapBCC.fit`, same settings), up to the order of sums.

    Parameters
    ----------
    reports : path, list of paths, Dask DataFrame, or Reports
        Parquet files (a path, a pattern such as ``"reports/*.parquet"``, a directory, a list of these), or a table.
    client : Client, str or None
        A Client, a scheduler's address, or None or "local" for workers on this machine.
    model : HeatmapBCC, optional
        The settings wanted; it is not changed.
    places, label, source : str
        Names of columns; ``source=None`` where all reports are from one source.
    gold : (array_like, array_like), optional
        Checked places and their states.
    partitions : int, optional
        By default one for each half million reports, and at least one for each thread of a worker.
    sites_to : path, optional
        A directory that the workers can write to; receives E[t] of every reported place, as Parquet.
    progress : callable, optional
        Called after each sweep with its number, the bound, and how far something moved.

    Returns
    -------
    HeatmapBCC
        An ordinary fitted model where the reports were in memory, a `DistributedHeatmapBCC` otherwise.

    Examples
    --------
    >>> import crowdfield as cf
    >>> model = cf.distributed.fit(
    ...     "reports/*.parquet", "tcp://scheduler:8786", model=cf.HeatmapBCC(lengthscale=2000.0)
    ... )  # doctest: +SKIP
    """
    settings = HeatmapBCC() if model is None else model
    problem.check_settings(settings)
    if settings.inference == "gibbs":
        raise InputError("Gibbs draws q(t) of all sites together; over Dask use inference='collapsed' or 'vb'.")
    if isinstance(reports, Reports) and reports.score is not None:
        raise InputError(
            "scores are not read over Dask. Leave them out to use the labels (no --score, --score-columns none), or "
            "fit in one process."
        )
    if isinstance(reports, Reports) and reports.count is not None:
        raise InputError("fits over a cluster count every row once. Use reports.one_row_per_report().")
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
    """Fit this very model to reports in memory, over Dask.

    Parameters
    ----------
    model : HeatmapBCC
        Is fitted in place.
    reports : Reports
        In memory.
    client : Client, str or None
        As for `fit`.

    Returns
    -------
    HeatmapBCC
        The model.

    Examples
    --------
    >>> import crowdfield as cf
    >>> cf.distributed.fit_model(cf.HeatmapBCC(), reports, "local")  # doctest: +SKIP
    """
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
    """Fit over Dask, and store the result in the model."""
    pieces, columns = reading.pieces(given, client, places, label, source)
    surveys: list[reading.Survey] = client.gather(
        [client.submit(reading.survey, p, columns, pure=False) for p in pieces]
    )
    whole = reading.joined(surveys)
    dimension, n_labels = len(whole.low), len(whole.labels)
    said, states = validated_reports(
        model, np.zeros((n_labels, dimension)), whole.labels, states=model.states, labels=model.labels
    )
    known = problem.gold(gold, states, dimension)
    everywhere = np.vstack([whole.low, whole.high, known.places])
    corners = np.stack([everywhere.min(0), everywhere.max(0)])
    # Two artificial reports that carry the extent, the labels and the sources of all reports; they differ if those do.
    two = np.arange(2)
    names = Reports(corners, two % n_labels, two % len(whole.sources), said.labels, whole.sources)
    reports = names.take(np.zeros(2, dtype=bool))
    if isinstance(given, Reports):
        reports = replace(given, **_recoded(given, names))
        posed = problem.pose(model, reports, states, known)
        if posed.engine().name == "exact":
            learning.learn(model, reports, states, known)  # few enough that one process is faster
            return
    if model.reports_model == "instrument":
        instrument.refuse(model, states, names.labels)
    wanted = partitions or max(-(-whole.count // PARTITION), sum(client.nthreads().values()))
    coding = client.submit(reading.hold, reading.Coding(names.labels, names.sources, len(states), known), pure=False)
    data = reading.shuffled(client, pieces, columns, coding, whole.cuts(wanted))
    del pieces
    sizes = client.gather([client.submit(partitions_.n_sites, d) for d in data])
    data = [d for d, n in zip(data, sizes, strict=True) if n]
    sizes = [n for n in sizes if n]
    named = [str(c) for c in columns.places], [f"p_{state}" for state in states]
    if model.reports_model == "instrument":
        posed = problem.pose(model, names, states, known)
        target = None if sites_to is None else (fspath(sites_to), *named)
        read = instrument.fit(model, client, data, names, states, posed, target, progress)
        _keep_instrument(model, read, FitInput(posed, reports, states, known), whole)
        return
    sample = partitions_.sample(client, problem.pose(model, names, states, known), data, sizes)
    start = None
    if problem.learns_lengthscale(model.lengthscale):
        found = lengthscale_selection.learn(sample, None)
        sample, start = found.posed, found.start
        model.lengthscale_log_sd_, model.lengthscale_tried_ = found.log_sd, found.tried
    engine = partitions_.region_engine(sample, corners)
    cluster = Partitions.laid_out(client, data, sizes, sample, engine)

    def lay_out(posed: Posed) -> Solver:
        here = Sites(posed.data, posed.prior, partitions_.moved(engine, posed.data.X))
        return solvers.over(posed, here, cluster.total)

    solved = selection.solve(sample, start, max_iter=model.max_iter, tol=model.tol, lay_out=lay_out, progress=progress)
    responsibilities, q = solved.solver.at_sites(solved.fit.q)
    if sites_to is not None:
        cluster.write(responsibilities, q, fspath(sites_to), *named)
    model.classes_ = as_classes(states)
    model.labels_seen_, model.sources_seen_ = as_classes(names.labels), as_classes(names.sources)
    model.inference_ = "collapsed" if model.inference == "auto" else model.inference
    model.reports_model_reason_, model.model_comparison_ = ONE_STATE, None
    model.reports_, model._gold_, model._posed = reports, known, sample
    if isinstance(model, DistributedHeatmapBCC):
        model.places_, model._counted = np.empty((0, dimension)), whole.by_source(names.sources)
        learned.keep_fit(model, solved, np.empty((0, len(states))))
        return
    learning.warn_about_one_label(reports)
    model._posed = replace(problem.pose(model, reports, states, known), kernel=sample.kernel)
    model.places_ = model._posed.data.X
    here = Sites(model._posed.data, model._posed.prior, partitions_.moved(engine, model.places_))
    local = solvers.over(model._posed, here).with_communities(solved.fit.state.communities)
    learned.keep_fit(model, selection.Solved(local, solved.fit), cluster.targets(responsibilities, q))


def _keep_instrument(model: HeatmapBCC, found: instrument.Found, given: FitInput, whole: reading.Survey) -> None:
    """Store a fit of the instrument model in the estimator."""
    setup, fitted, kernel = found.setup, found.fitted, found.setup.problem.kernel
    posed = given.posed.with_kernel(kernel)
    if isinstance(model, DistributedHeatmapBCC):
        model._counted = whole.by_source(given.reports.sources)
        J = len(given.states)
        fitted = replace(fitted, site_states=np.empty((0, J)), appearances=np.empty((0, 2)))
    else:
        learning.warn_about_one_label(given.reports)
        posed = replace(problem.pose(model, given.reports, given.states, given.gold), kernel=kernel)
        setup = set_up(model, given.reports, given.states, given.gold, kernel, posed.mean_at, None)
        design = Design(fitted.design.basis, setup.problem.columns, setup.problem.X)
        fitted = replace(fitted, problem=setup.problem, design=design)
    learned.keep_input(model, given._replace(posed=posed))
    if found.lengthscale is not None:
        model.lengthscale_log_sd_ = np.array([found.lengthscale.log_sd])
        model.lengthscale_tried_ = found.lengthscale.tried
    model._tasks = None
    model.reports_model_reason_, model.model_comparison_ = "reports_model asks for it", None
    learned.keep_instrument(model, setup, fitted, given.states)


@contextmanager
def _connected(client: Client | str | None) -> Iterator[Client]:
    """A Dask client: the given one, which stays open, or a new one, which is closed after the fit."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingDependencyError(
            "fitting over Dask needs dask and distributed. Install them with: pip install 'crowdfield[scale]'"
        ) from None
    if isinstance(client, Client):
        yield client
    elif client is None or client == "local":
        with LocalCluster(threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster, Client(cluster) as own:
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
