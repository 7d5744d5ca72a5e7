"""From reports to a map, and from a map and more reports to the next map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from crowdfield.data import Grid, Heatmap, Reports
from crowdfield.errors import InputError
from crowdfield.pipeline import layers
from crowdfield.pipeline.checking import quick_warnings
from crowdfield.pipeline.quiet import offer, with_silence, without_silence
from crowdfield.pipeline.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[str], None]
# So many cells are predicted at once: enough to be fast, few enough to stay small in memory.
BLOCK = 65_536


@dataclass(frozen=True, eq=False)
class Fused:
    """A fitted model and its map.

    reports: all that were fused, in the map's reference system; seen: their keys, so that none counts twice; about:
    what the reader and the run say of themselves.
    """

    model: Any
    heatmap: Heatmap
    reports: Reports
    settings: Settings
    seen: NDArray[np.uint64]
    about: Mapping[str, Any] = field(default_factory=dict)

    def table(self) -> pd.DataFrame:
        """Who can be trusted: the model's source table, with those trusted beforehand marked."""
        table = self.model.source_table()
        table = table if "source" in table.columns else table.reset_index()
        return table.assign(trusted=[source in self.settings.sources for source in table["source"]])


def fuse(
    reports: Reports,
    settings: Settings | None = None,
    *,
    about: Mapping[str, Any] | None = None,
    progress: Progress = lambda _: None,
    fit: Callable[..., Any] | None = None,
    **keywords: Any,
) -> Fused:
    """A map from reports. Keywords are those of `Settings`; `fit(model, reports)`, which gives a fitted model, replaces
    the fit in this process (see `on_cluster`)."""
    from crowdfield import geography

    settings = replace(settings or Settings(), **keywords)
    if len(reports) == 0:
        raise InputError("there are no reports to fuse.")
    progress("Laying out the map")
    if reports.crs is None:
        raise InputError("the reports have no reference system; say which, for example crs='EPSG:4326' for degrees.")
    # The grid decides the projection: a region given by hand may suit another one than the reports do.
    grid = geography.make_grid(reports, cell=settings.cell, region=settings.region, crs=settings.projection)
    mask = None if settings.mask is None else geography.mask(grid, settings.mask)
    shown = geography.project(reports, grid.crs, unseen="drop")
    fused = fuse_on(shown, grid, settings, mask=mask, about=about, progress=progress, fit=fit)
    if lost := len(reports) - len(shown):
        # On the far side of the Earth, where the map's projection ends, is outside the map too.
        fused = replace(fused, about={**fused.about, "outside": fused.about["outside"] + lost})
    return fused


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
    """A map on a grid that is already there; the reports are in its reference system."""
    inside, outside = within(reports, grid)
    if settings.snap:
        inside = inside.snap(grid)
    told, believed = with_silence(inside, grid, mask, settings)
    model = build_model(believed, told, grid)
    work = "Learning the length-scale and fusing" if model.lengthscale == "learn" else "Fusing"
    progress(f"{work} {len(inside):,} reports by {len(np.unique(inside.source)):,} sources")
    if fit is not None and model.covariates is not None:
        raise InputError("covariates cannot be fitted over a cluster yet. Leave out the cluster, or the covariates.")
    model = fit(model, told) if fit is not None else _fit(model, told)
    said = {**dict(about or {}), "new": len(inside), "outside": outside}
    if fit is None:
        progress("Checking the model")
        said["warnings"] = [*offer(told, settings), *quick_warnings(model)]
    return _finish(model, inside, grid, mask, inside.places, settings, keys(inside), said, progress)


def extend(
    fused: Fused,
    reports: Reports,
    *,
    about: Mapping[str, Any] | None = None,
    progress: Progress = lambda _: None,
) -> Fused:
    """The same run with more reports: only those that it has not seen are folded in."""
    from crowdfield import geography

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
    if not len(fresh):
        return replace(fused, about=said)
    if fused.settings.silence is not None:
        # Cells that were silent may have spoken: silence is told anew, from all reports.
        everything = joined([without_silence(fused.reports), fresh])
        new_run = fuse_on(everything, grid, fused.settings, mask=mask, about=said, progress=progress)
        return replace(new_run, about={**new_run.about, **said})
    progress(f"Folding in {len(fresh):,} new reports")
    model = fused.model
    model.partial_fit(fresh.places, said_labels(fresh), sources=said_sources(fresh))
    said["warnings"] = [*offer(model.reports_, fused.settings), *quick_warnings(model)]
    seen = np.concatenate([fused.seen, keys(fresh)])
    counts = fused.heatmap.reports + grid.counts(fresh.places)
    everything = joined([fused.reports, fresh])
    return _finish(model, everything, grid, mask, counts, fused.settings, seen, said, progress)


def make_map(
    model: Any,
    grid: Grid,
    counts: NDArray[np.int64],
    *,
    mask: NDArray[np.bool_] | None = None,
    metadata: Mapping[str, Any] | None = None,
    field_only: bool = False,
) -> Heatmap:
    """The state of every cell of a grid and its standard deviation; NaN where the mask is False.

    A cell with reports shows the state of the things reported in it, one without what the field says at its centre.
    field_only: the field everywhere, so that no report stands out by itself.
    """
    wanted = np.ones(grid.size, dtype=bool) if mask is None else np.asarray(mask, dtype=bool).ravel()
    centres = grid.centres()[wanted]
    states = tuple(model.classes_.tolist() if hasattr(model.classes_, "tolist") else model.classes_)
    probability = np.full((grid.size, len(states)), np.nan)
    sd = np.full_like(probability, np.nan)
    rows = np.flatnonzero(wanted)
    for start in range(0, len(rows), BLOCK):
        part = slice(start, start + BLOCK)
        probability[rows[part]], sd[rows[part]] = model.predict_rate(centres[part])
    if not field_only:
        _show_reported_places(model, grid, wanted, probability, sd)
    shape = (*grid.shape, len(states))
    about = {**dict(metadata or {}), "prior_sd": prior_sd(model, len(states))}
    return Heatmap(grid, states, probability.reshape(shape), sd.reshape(shape), counts, about)


def _show_reported_places(
    model: Any,
    grid: Grid,
    wanted: NDArray[np.bool_],
    probability: NDArray[np.float64],
    sd: NDArray[np.float64],
) -> None:
    """Into cells with reports: the mean probability of the places in them, and the root mean square deviation."""
    known = model.at_reported_places() if hasattr(model, "at_reported_places") else None
    if known is None or known.places.shape[1] != 2:  # with time, places are of many moments and the map is of one
        return
    cell = grid.index(known.places)
    inside = cell >= 0
    count = np.bincount(cell[inside], minlength=grid.size)
    shown = (count > 0) & wanted
    for j in range(known.probability.shape[1]):
        total = np.bincount(cell[inside], known.probability[inside, j], minlength=grid.size)
        spread = np.bincount(cell[inside], known.sd[inside, j] ** 2, minlength=grid.size)
        probability[shown, j] = total[shown] / count[shown]
        sd[shown, j] = np.sqrt(spread[shown] / count[shown])


def prior_sd(model: Any, states: int, draws: int = 20_000) -> list[float]:
    """The standard deviation of each ρ_j where nobody reported, f ~ N(m, 1 / E[ς]): the yardstick of "nobody knows"."""
    if getattr(model, "reports_model_", None) == "instrument":
        return [round(float(sd), 4) for sd in model.prior_rate_sds()]
    functions = 1 if states == 2 else states
    # Drawn with a fixed seed: two digits are plenty for a scale of colours, and every run has the same ones.
    noise = np.random.default_rng(0).standard_normal((draws, functions))
    mean = 0.0 if callable(model.prior_mean) else np.asarray(model.prior_mean, dtype=np.float64)
    f = mean + noise / np.sqrt(np.broadcast_to(model.scale_, functions))
    logits = np.hstack([np.zeros_like(f), f]) if functions == 1 else f
    return [round(float(value), 4) for value in softmax(logits, axis=1).std(axis=0)]


def build_model(settings: Settings, reports: Reports, grid: Grid) -> Any:
    """The estimator that the settings describe."""
    from crowdfield import geography
    from crowdfield.models.heatmap_bcc import HeatmapBCC

    states = tuple(settings.states) if settings.states is not None else reports.labels
    labels = tuple(settings.labels) if settings.labels is not None else None
    order = labels or (*states, *(label for label in reports.labels if label not in states))
    lengthscale = settings.lengthscale
    if lengthscale == "learn" and len(np.unique(reports.label)) < 2:
        # Nothing varies, so nothing says over what distance it does.
        lengthscale = max(grid.east - grid.west, grid.north - grid.south) / 10
    elif lengthscale != "learn":
        lengthscale = geography.parse_length(lengthscale)
    return HeatmapBCC(
        kernel=settings.kernel,
        lengthscale=lengthscale,
        confusion_prior=settings.confusion_prior(states, order),
        scale_shape=settings.scale_shape,
        scale_rate=settings.scale_rate,
        prior_mean=settings.prior_mean,
        # Also those that nobody has reported yet: a reader may know them (Haiti: "no emergency").
        states=list(states),
        labels=list(labels) if labels is not None else None,
        inference=settings.inference,
        engine=settings.engine,
        communities=settings.communities,
        max_iter=settings.max_iter,
        tol=settings.tol,
        random_state=settings.seed,
        covariates=layers.of_settings(settings, grid),
    )


def within(reports: Reports, grid: Grid, *, allow_none: bool = False) -> tuple[Reports, int]:
    """The reports inside the grid, and how many are not."""
    keep = grid.index(reports.places[:, :2]) >= 0
    if not keep.any() and not allow_none:
        raise InputError(
            f"none of the {len(reports):,} reports lies in the region. Are longitude and latitude swapped?"
        )
    return (reports if keep.all() else reports.take(keep)), int(np.count_nonzero(~keep))


def joined(parts: Sequence[Reports]) -> Reports:
    """Several tables as one. A piece of knowledge that one of them lacks (time, id) is lacking in the whole."""
    if len({part.crs for part in parts}) > 1:
        raise InputError(
            "the files are in different reference systems; read them all in degrees, or project them first."
        )
    return reduce(Reports.join, parts)


def keys(reports: Reports) -> NDArray[np.uint64]:
    """A number for each report that stays the same in every run: from its id, else from who, what, where and when."""
    import pandas as pd

    if reports.id is not None:
        columns: dict[str, Any] = {"id": [str(value) for value in reports.id]}
    else:
        columns = {
            "source": said_sources(reports).astype(str),
            "label": said_labels(reports).astype(str),
            # To a millimetre: a projection there and back must not make a report new.
            **{f"place{d}": np.round(reports.places[:, d] * 1000).astype(np.int64) for d in range(2)},
            "time": np.zeros(len(reports)) if reports.time is None else np.nan_to_num(reports.time),
        }
    return pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy(dtype=np.uint64)


def said_labels(reports: Reports) -> NDArray[Any]:
    return names_of(reports.labels)[reports.label]


def said_sources(reports: Reports) -> NDArray[Any]:
    return names_of(reports.sources)[reports.source]


def names_of(names: tuple[Any, ...]) -> NDArray[Any]:
    if len({type(name) for name in names}) == 1 and isinstance(names[0], str | int | float):
        return np.asarray(names)
    out = np.empty(len(names), dtype=object)
    out[:] = names
    return out


def _fit(model: Any, reports: Reports) -> Any:
    return model.fit(reports.places, said_labels(reports), sources=said_sources(reports))


def on_cluster(address: str) -> Callable[[Any, Reports], Any]:
    """A `fit` for `fuse` that runs over Dask: at a scheduler's address, or on a cluster of this machine ("local")."""
    from crowdfield import distributed

    def fit(model: Any, reports: Reports) -> Any:
        return distributed.fit_model(model, reports, None if address == "local" else address)

    return fit


def _learned(model: Any) -> dict[str, Any]:
    """The central 95 % of each length-scale that was learned: its logarithm is about normal."""
    if getattr(model, "lengthscale_log_sd_", None) is None:
        return {}
    reach = np.ravel(model.lengthscale_).astype(np.float64)
    factor = np.exp(1.96 * np.broadcast_to(np.ravel(model.lengthscale_log_sd_), reach.shape))
    # All directions alike have one length-scale, however often it is written.
    pairs = dict.fromkeys(zip((reach / factor).tolist(), (reach * factor).tolist(), strict=True))
    return {"lengthscale_interval": [list(pair) for pair in pairs]}


def _finish(
    model: Any,
    reports: Reports,
    grid: Grid,
    mask: NDArray[np.bool_] | None,
    counted: NDArray[Any],
    settings: Settings,
    seen: NDArray[np.uint64],
    about: Mapping[str, Any],
    progress: Progress,
) -> Fused:
    progress(f"Drawing {grid.columns:,} × {grid.rows:,} cells")
    counts = counted if counted.shape == grid.shape else grid.counts(counted)
    metadata = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "reports": len(seen),
        "sources": len(model.sources_seen_),
        "engine": model.engine_,
        "lengthscale": np.ravel(model.lengthscale_).tolist(),
        **_learned(model),
        "iterations": int(model.n_iter_),
        **({"covariates": found} if (found := layers.told(model, grid)) else {}),
        "settings": settings.changed(),
        **{name: value for name, value in about.items() if name != "warnings" or value},
    }
    heatmap = make_map(model, grid, counts, mask=mask, metadata=metadata)
    return Fused(model, heatmap, reports, settings, seen, about)


@dataclass(frozen=True)
class AtTime:
    """A model of (easting, northing, time), asked about one moment: it can be mapped like any other."""

    model: Any
    time: float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def predict_rate(self, places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.model.predict_rate(np.column_stack([places, np.full(len(places), self.time)]))  # type: ignore[no-any-return]
