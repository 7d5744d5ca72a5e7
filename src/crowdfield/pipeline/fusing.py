"""From reports to a map, and from a map and more reports to the next map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdfield import silence
from crowdfield.counting import crowd
from crowdfield.data import Grid, Heatmap, Reports
from crowdfield.data.positive import named_states
from crowdfield.errors import InputError
from crowdfield.inference.blur import SPACE as SPACE
from crowdfield.pipeline import layers, moving
from crowdfield.pipeline.area_readings import learn_area_readings, with_area_readings
from crowdfield.pipeline.checking import quick_warnings
from crowdfield.pipeline.fit_arguments import MOST_CLUSTER_ROWS, as_arguments, repeated
from crowdfield.pipeline.grading import grades
from crowdfield.pipeline.mapping import AtTime, make_map
from crowdfield.pipeline.question import doubts, in_question
from crowdfield.pipeline.quiet import offer, one_source, only_label, with_silence, without_silence
from crowdfield.pipeline.settings import Settings
from crowdfield.pipeline.sizes import check_size
from crowdfield.pipeline.tables import joined, keys, within

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.typing import IntoDataFrame

    from crowdfield.inference.kernels import Kernel
    from crowdfield.models.heatmap_bcc import HeatmapBCC, LengthScale

Progress = Callable[[str], None]
# Of maps in time: the share of the map's extent, and of the time span, from which the search for length-scales starts;
# and the least hours, for reports of a single moment (judgement).
FIRST_GUESS, SHORTEST_HOURS = 0.2, 1.0


@dataclass(frozen=True, eq=False)
class Fused:
    """A fitted model and its map, as `fuse` and `extend` return it.

    Attributes
    ----------
    model : HeatmapBCC
        The fitted model.
    heatmap : Heatmap
        Its map.
    reports : Reports
        All that were fused, in the map's reference system.
    settings : Settings
        How it was made.
    seen : ndarray of uint64
        The keys of all reports fused, so that none counts twice.
    about : mapping
        Information about the reading and the fit: counts, notes and warnings.

    Examples
    --------
    With `fused` of the example of `fuse`:

    >>> list(fused.table().columns[:3])
    ['source', 'reports', 'accuracy']
    """

    model: HeatmapBCC
    heatmap: Heatmap
    reports: Reports
    settings: Settings
    seen: NDArray[np.uint64]
    about: Mapping[str, Any] = field(default_factory=dict)

    def table(self) -> pd.DataFrame:
        """Who can be trusted: the model's source table, with those trusted beforehand marked."""
        table = self.model.source_table()
        table = table if "source" in table.columns else table.reset_index()
        table = table.assign(trusted=[source in self.settings.sources for source in table["source"]])
        # Accuracy is that of equally common states: of answers that name one of J states, guesses are right once in J.
        table.attrs["chance"] = _share_naming_a_state(self.reports, self.heatmap.states) / len(self.heatmap.states)
        return table

    def __repr__(self) -> str:
        return f"<Fused: {crowd(len(self.seen), _people(self.model))}; {self.heatmap!r}>"


def fuse(
    reports: Reports | IntoDataFrame,
    settings: Settings | None = None,
    *,
    about: Mapping[str, Any] | None = None,
    progress: Progress = lambda _: None,
    fit: Callable[..., Any] | None = None,
    **keywords: Any,
) -> Fused:
    """Make a map from reports.

    Parameters
    ----------
    reports : Reports or table
        Reports with a reference system, for example as `crowdfield.io.read` gives them, or a table of pandas, GeoPandas
        or polars, which `crowdfield.io.from_frame` reads.
    settings : Settings, optional
        How to make the map.
    about : mapping, optional
        Information about the reports, to be stored with the map.
    progress : callable, optional
        Called with a line of text before each step.
    fit : callable, optional
        ``fit(model, reports)`` gives a fitted model and replaces the fit in this process; see `on_cluster`.
    **keywords
        Fields of `Settings`, which override ``settings``.

    Returns
    -------
    Fused
        The fitted model and its map.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdfield as cf
    >>> rng = np.random.default_rng(0)
    >>> places = rng.uniform([-72.4, 18.5], [-72.3, 18.6], (60, 2))  # longitude, latitude
    >>> said = np.where(places[:, 0] > -72.35, "flooded", "dry")
    >>> reports = cf.Reports.from_arrays(places, said, rng.integers(0, 5, 60), crs="EPSG:4326")
    >>> fused = cf.pipeline.fuse(reports, cell="1km", lengthscale="3km")
    >>> fused.heatmap.states, fused.heatmap.grid.crs
    (('dry', 'flooded'), 'EPSG:32618')
    """
    from crowdfield import geography

    settings = replace(settings or Settings(), **keywords)
    if not isinstance(reports, Reports):
        reports = _from_frame(reports, settings)
    if len(reports) == 0:
        raise InputError("there are no reports to fuse.")
    progress("Laying out the map")
    if reports.crs is None:
        raise InputError("the reports have no reference system; say which, for example crs='EPSG:4326' for degrees.")
    # The grid decides the projection: a region given by hand may suit another one than the reports do.
    grid = geography.make_grid(reports, cell=settings.cell, region=settings.region, crs=settings.projection)
    check_size(grid, len(settings.states or reports.labels))
    mask = None if settings.mask is None else geography.mask(grid, settings.mask)
    if mask is not None and not mask.any():
        raise InputError(
            f"the mask {settings.mask} covers no cell of the map. Is it of another place, or not in degrees?"
        )
    shown = geography.project(reports, grid.crs, unseen="drop")
    fused = fuse_on(shown, grid, settings, mask=mask, about=about, progress=progress, fit=fit)
    if lost := len(reports) - len(shown):
        # On the far side of the Earth, where the map's projection ends, is outside the map too.
        fused = replace(fused, about={**fused.about, "outside": fused.about["outside"] + lost})
    return fused


def _from_frame(frame: Any, settings: Settings) -> Reports:
    """Reports from a table, with the reading options of the settings."""
    from crowdfield.io import from_frame

    known = ("lat", "lon", "label", "source", "time", "id", "count", "crs", "positive")
    options = {name: settings.read[name] for name in known if name in settings.read}
    return from_frame(frame, label_map=settings.read.get("map_labels"), **options)


def fuse_on(
    reports: Reports,
    grid: Grid,
    settings: Settings,
    *,
    mask: NDArray[np.bool_] | None = None,
    about: Mapping[str, Any] | None = None,
    progress: Progress = lambda _: None,
    fit: Callable[..., Any] | None = None,
) -> Fused:
    """Make a map on a grid that is already there; the reports are in its reference system.

    Parameters
    ----------
    reports : Reports
        In the reference system of the grid.
    grid : Grid
        Where the map is.
    settings : Settings
        How to make it; region, cell and projection are not used.
    mask : ndarray [rows, columns] of bool, optional
        The cells that the map covers.
    about, progress, fit
        As for `fuse`.

    Returns
    -------
    Fused
        The fitted model and its map.

    Examples
    --------
    With `fused` of the example of `fuse`:

    >>> again = cf.pipeline.fuse_on(fused.reports, fused.heatmap.grid, fused.settings)
    >>> again.heatmap.grid == fused.heatmap.grid
    True
    """
    inside, outside = within(reports, grid)
    if settings.moving:
        inside = moving.timed(inside, settings)
        settings = replace(settings, grades="none")  # grades are read by the instrument model, which knows no time
        if fit is not None:
            raise InputError("a map that moves cannot be fitted over a cluster. Leave out the cluster, or `moving`.")
    if settings.snap:
        inside = inside.snap(grid)
    augmented, with_priors = with_silence(inside, grid, mask, settings)
    with_priors = with_area_readings(augmented, with_priors)
    if settings.moving:
        moment, augmented = moving.moment_of(inside, settings), moving.with_hours(augmented)
    model = build_model(with_priors, augmented, grid)
    if settings.moving:
        model.set_params(reports_model="one_state")  # only this model has scales of both space and time
    # Before the fit, so that a misspelt state is noticed at once.
    chosen = in_question(model.states or (), inside, settings)
    work = "Learning the length-scale and fusing" if model.lengthscale == "learn" else "Fusing"
    progress(f"{work} {crowd(inside.n_reports, len(np.unique(inside.source)))}")
    if fit is not None and model.covariates is not None:
        raise InputError("covariates cannot be fitted over a cluster yet. Leave out the cluster, or the covariates.")
    model = fit(model, augmented) if fit is not None else _fit(model, augmented)
    said = {**dict(about or {}), "new": len(inside), "outside": outside}
    said |= {"positive": chosen.state, "positive_because": chosen.because}
    said["warnings"] = doubts(chosen, model.states)
    if fit is None:
        progress("Checking the model")
        said["warnings"] += [*offer(augmented, settings), *one_source(inside, settings), *quick_warnings(model)]
    counts = grid.counts(inside.places, inside.count)
    if settings.moving:
        said["moment"] = moving.moment_in_words(moment)
        said["lengthscale_hours"] = float(np.ravel(model.lengthscale_)[SPACE])
    shown = AtTime(model, moment / moving.HOUR) if settings.moving else model
    return _finish(shown, inside, grid, mask, counts, settings, keys(inside), said, progress)


def extend(
    fused: Fused,
    reports: Reports,
    *,
    about: Mapping[str, Any] | None = None,
    progress: Progress = lambda _: None,
) -> Fused:
    """Continue a run with more reports: only those that it has not seen are folded in.

    Parameters
    ----------
    fused : Fused
        The run so far. Its model is continued, and then holds the new reports too.
    reports : Reports
        More reports, in any reference system.
    about, progress
        As for `fuse`.

    Returns
    -------
    Fused
        The run with all reports; ``about["already_fused"]`` says how many it had before.

    Examples
    --------
    With `fused` and `reports` of the example of `fuse`:

    >>> cf.pipeline.extend(fused, reports).about["already_fused"]
    60
    """
    from crowdfield import geography

    if fused.settings.moving:
        raise InputError("a map that moves cannot be continued with more reports. Fuse all reports together.")
    grid, mask = fused.heatmap.grid, fused.heatmap.mask
    if reports.crs is None:
        raise InputError("the reports have no reference system; say which, for example crs='EPSG:4326' for degrees.")
    reports = geography.project(reports, grid.crs)
    inside, outside = within(reports, grid, allow_none=True)
    if fused.settings.snap and len(inside):
        inside = inside.snap(grid)
    new = ~np.isin(keys(inside), fused.seen)
    again = int(np.count_nonzero(~new))
    fresh = inside.take(new)
    said = {**dict(about or {}), "new": len(fresh), "outside": outside, "already_fused": again}
    # Keep the state in question, even if new reports make another state the rarer one.
    said |= {"positive": fused.heatmap.positive}
    if "positive_because" in fused.heatmap.metadata:
        said["positive_because"] = fused.heatmap.metadata["positive_because"]
    if not len(fresh):
        return replace(fused, about=said)
    if fused.settings.silence is not None:
        # New reports may lie in cells that were silent: count silence again, from all reports.
        everything = joined([without_silence(fused.reports), fresh])
        asked = replace(fused.settings, positive=fused.heatmap.positive)
        new_run = fuse_on(everything, grid, asked, mask=mask, about=said, progress=progress)
        return replace(new_run, about={**new_run.about, **said})
    progress(f"Folding in {len(fresh):,} new reports")
    model = fused.model
    learn_area_readings(model, fresh, fused.heatmap.positive)
    model.partial_fit(**as_arguments(model, fresh))
    said["warnings"] = [*offer(model.reports_, fused.settings), *quick_warnings(model)]
    seen = np.concatenate([fused.seen, keys(fresh)])
    counts = fused.heatmap.reports + grid.counts(fresh.places, fresh.count)
    everything = joined([fused.reports, fresh])
    return _finish(model, everything, grid, mask, counts, fused.settings, seen, said, progress)


def build_model(settings: Settings, reports: Reports, grid: Grid) -> HeatmapBCC:
    """The estimator that the settings describe."""
    from crowdfield import geography
    from crowdfield.models.heatmap_bcc import HeatmapBCC

    states = tuple(settings.states) if settings.states is not None else named_states(reports.labels)
    order_of_grades = grades(settings, reports, states)
    states = order_of_grades or _in_question_last(states, reports, settings)
    labels = tuple(settings.labels) if settings.labels is not None else None
    order = labels or (*states, *(label for label in reports.labels if label not in states))
    lengthscale: LengthScale = "learn"
    if settings.lengthscale != "learn":
        lengthscale = geography.parse_length(settings.lengthscale)
    elif len(np.unique(reports.label)) < 2:
        # All reports agree, so the length-scale cannot be learned.
        lengthscale = max(grid.east - grid.west, grid.north - grid.south) / 10
    kernel: str | Kernel = settings.kernel
    if reports.places.shape[1] > SPACE:
        kernel, lengthscale = _in_space_and_time(settings.kernel, lengthscale, reports, grid)
    return HeatmapBCC(
        kernel=kernel,
        lengthscale=lengthscale,
        confusion_prior=settings.confusion_prior(states, order),
        scale_shape=settings.scale_shape,
        scale_rate=settings.scale_rate,
        prior_mean=settings.prior_mean,
        # Also those that nobody has reported yet: a reader may know them (Haiti: "no emergency").
        states=list(states),
        labels=list(labels) if labels is not None else None,
        ordered=order_of_grades is not None,
        inference=settings.inference,
        engine=settings.engine,
        communities=settings.communities,
        max_iter=settings.max_iter,
        tol=settings.tol,
        random_state=settings.seed,
        covariates=layers.of_settings(settings, grid),
    )


def _in_question_last(states: tuple[Any, ...], reports: Reports, settings: Settings) -> tuple[Any, ...]:
    """Two states in the order that the model asks for: the second is the one in question, expected to be the rarer.

    Settings that have one entry per state follow the order in which the user knows them, which then stays.
    """
    by_state = [settings.others, *(trust for trust in settings.sources.values() if not isinstance(trust, str))]
    if len(states) != 2 or np.any(settings.prior_mean) or any(each is not None for each in by_state):
        return states
    asked = in_question(states, reports, settings).state
    return (*(state for state in states if state != asked), asked)


def _in_space_and_time(name: str, lengthscale: LengthScale, reports: Reports, grid: Grid) -> tuple[Kernel, LengthScale]:
    """The kernel for places with the hour as their third column, and the length-scales to learn or to keep."""
    from crowdfield.inference.kernels import space_time

    reach = max(grid.east - grid.west, grid.north - grid.south) * FIRST_GUESS if lengthscale == "learn" else lengthscale
    hours = max(float(np.ptp(reports.places[:, SPACE])) * FIRST_GUESS, SHORTEST_HOURS)
    kernel = space_time(name, float(np.ravel(np.asarray(reach, dtype=np.float64))[0]), "matern12", hours)
    if lengthscale == "learn":
        return kernel, "learn"
    varied = len(np.unique(reports.label)) > 1 and np.ptp(reports.places[:, SPACE]) > 0
    return kernel, [float(reach), float(reach), "learn" if varied else hours]  # type: ignore[arg-type]


def _fit(model: Any, reports: Reports) -> Any:
    return model.fit(**as_arguments(model, reports))


def on_cluster(address: str) -> Callable[[HeatmapBCC, Reports], HeatmapBCC]:
    """Give a `fit` for `fuse` that runs over Dask.

    Parameters
    ----------
    address : str
        A scheduler's address, or "local" for a cluster on this machine.

    Returns
    -------
    callable
        ``fit(model, reports)``.

    Examples
    --------
    >>> import crowdfield as cf
    >>> fused = cf.pipeline.fuse(reports, fit=cf.pipeline.on_cluster("local"))  # doctest: +SKIP
    """
    from crowdfield import distributed

    def fit(model: HeatmapBCC, reports: Reports) -> HeatmapBCC:
        every = np.ones(len(reports), dtype=bool)
        single = repeated(reports, every, "a fit over a cluster counts every row once", MOST_CLUSTER_ROWS)
        return distributed.fit_model(model, single, None if address == "local" else address)

    return fit


def _reports_fused(reports: Reports, seen: NDArray[np.uint64], about: Mapping[str, Any]) -> int:
    """How many reports a map is from: a row that counts several people is as many, where all rows are at hand."""
    return reports.n_reports if len(seen) == about.get("new", len(seen)) == len(reports) else len(seen)


def _people(model: Any) -> int:
    """How many sources reported; silence is not one of them."""
    return sum(source != silence.SOURCE for source in model.sources_seen_)


def _share_naming_a_state(reports: Reports, states: Sequence[Any]) -> float:
    """The share of reports whose label names a state, and is not, for example, "maybe"."""
    named = np.array([label in states for label in reports.labels])[reports.label]
    return float(np.average(named, weights=reports.count)) if named.any() else 1.0


def _learned(model: Any) -> dict[str, Any]:
    """The central 95 % of each length-scale that was learned: its logarithm is about normal."""
    if getattr(model, "lengthscale_log_sd_", None) is None:
        return {}
    reach, log_sd = np.ravel(model.lengthscale_).astype(np.float64), np.ravel(model.lengthscale_log_sd_)
    if isinstance(model, AtTime):
        if len(log_sd) == 1:
            return {}  # only the scale of time was learned
        log_sd = log_sd[:1]  # the scale of space comes first
    factor = np.exp(1.96 * np.broadcast_to(log_sd, reach.shape))
    # All directions alike have one length-scale, however often it is written.
    pairs = dict.fromkeys(zip((reach / factor).tolist(), (reach * factor).tolist(), strict=True))
    return {"lengthscale_interval": [list(pair) for pair in pairs]}


def _finish(
    model: Any,
    reports: Reports,
    grid: Grid,
    mask: NDArray[np.bool_] | None,
    counts: NDArray[np.int64],
    settings: Settings,
    seen: NDArray[np.uint64],
    about: Mapping[str, Any],
    progress: Progress,
) -> Fused:
    """Draw the map of a fitted model, check the model, and put the run together."""
    progress(f"Drawing {grid.columns:,} × {grid.rows:,} cells")
    metadata = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "reports": _reports_fused(reports, seen, about),
        "sources": _people(model),
        "engine": model.engine_,
        "lengthscale": np.ravel(model.lengthscale_).tolist(),
        **_learned(model),
        **({"ordered": True} if model.ordered and len(model.classes_) > 2 else {}),
        "iterations": int(model.n_iter_),
        **({"only_label": str(only_label(reports))} if settings.silence is None and only_label(reports) else {}),
        **({"covariates": found} if (found := layers.weights(model, grid)) else {}),
        "settings": settings.changed(),
        **{name: value for name, value in about.items() if name != "warnings" or value},
    }
    heatmap = make_map(model, grid, counts, mask=mask, metadata=metadata)
    return Fused(model, heatmap, reports, settings, seen, about)
