"""From the reports of a situation to a map version. With `reasons`, the only module here that calls the model.

Models are built, continued, drawn and asked by `crowdfield.pipeline`, with the defaults of `crowdfield fuse` and
`crowdfield next`; here is only what a live map needs beside that: how much a fit may cost, and what readers may see.
"""

import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

import crowdfield as cf
from crowdfield import pipeline
from crowdfield.data import Grid, Heatmap, Reports
from crowdfield.errors import ConvergenceWarning, CrowdfieldWarning, DataWarning, InputError
from crowdfield.io.layers import plain
from crowdfield.pipeline.quiet import only_label, with_silence
from crowdfield.pipeline.shores import land_cells
from crowdfield.service import placed
from crowdfield.service.auth import TRUSTED
from crowdfield.service.effort import PROBE, UNLIMITED, Effort, told
from crowdfield.service.journal import Ledger
from crowdfield.service.maps import pack
from crowdfield.service.schemas import finite
from crowdfield.service.store import LAYOUT, Published, Situation
from crowdfield.service.tiles import NO_IDEA
from crowdfield.silence import SOURCE as SILENCE

log = logging.getLogger("crowdfield.worker")
SUGGESTIONS = 8
# From so many reports on, a map is published after a few sweeps and settles in the versions after it: a duty officer
# would rather see most of a change at once than all of it later.
LARGE, COLD, WARM, ROUND, MOST_SWEEPS = 2_000, 25, 5, 20, 500
# From so many reports times latent functions on, a sweep may take seconds: time is looked at after every few sweeps.
HEAVY, FEW_SWEEPS = 15_000, 5
# A fit that still moves after so many rounds of sweeps moves back and forth, too little to say which end is right.
MOST_ROUNDS = 50
# Of the log odds between sweeps, in fits that are not those of `fuse` anyway: far below what a map can show.
TOLERANCE = 5e-3
# Share of the objective by which a fit that settles may fall: it varies by a twentieth of that (`slack_share` of the
# policy of inference), and where it goes astray it falls by many times as much.
ASTRAY = 1e-3
# The kinds of inference that read the probabilities of states.
READ_SCORES = ("auto", "collapsed")
# A live map searches for its length-scale and its kind of model again when its reports have grown by this factor.
SEARCH_AGAIN = 1.5


@dataclass(frozen=True)
class Previous:
    """A model, the log position that it has seen, and how many reports its length-scale was found from."""

    head: int
    model: Any
    searched: int = 0


@dataclass(frozen=True)
class Fit:
    """A fitted model, or None where there are no reports. `whole`: it is what `fuse` gives for the same reports, and
    depends on nothing else. `searched`: how many reports its length-scale and its kind were found from. `cut_short`: it
    was only to settle further, and stopped for something more urgent."""

    model: Any
    whole: bool
    searched: int
    cut_short: bool = False


NO_REPORTS = Fit(None, True, 0)


def never() -> bool:
    """For fits that nothing may interrupt."""
    return False


def fit_map(
    situation: Situation,
    ledger: Ledger,
    previous: Previous | None,
    scheduler: str | None = None,
    effort: Effort = UNLIMITED,
    interrupted: Callable[[], bool] = never,
) -> tuple[Published | None, Any]:
    """Fit the standing reports, from the previous model where there is one; the version to publish, and the model.

    There is no version where nothing was new and `interrupted` asked to stop; the model has gone on all the same. With
    a `scheduler` the fit goes to that Dask cluster, from nothing: what is too large for one process is also too large
    to be carried there and back as a posterior.
    """
    began = time.perf_counter()
    mapped = placed.mapped(situation, ledger)
    reports = placed.chosen(situation, mapped, effort)
    if len(reports) < len(mapped):
        previous = None  # a model of other reports than these
    with _listening() as remarks:
        fit = (
            _fitted(situation, ledger, reports, previous, scheduler, effort, interrupted)
            if len(reports)
            else NO_REPORTS
        )
    if fit.cut_short:
        return None, fit.model
    return _published(situation, ledger, mapped, reports, fit, remarks, began, effort), fit.model


def rested_map(
    situation: Situation,
    ledger: Ledger,
    interrupted: Callable[[], bool] = never,
    effort: Effort = UNLIMITED,
) -> tuple[Published, Any] | None:
    """The map of the log alone: fitted from nothing, as `fuse` would. None where `interrupted` asked to stop.

    A warm start is quick, but where reports contradict each other there may be several maps that they fit as well, and
    which of them it ends at depends on the versions before. From nothing, the same log always gives the same map.
    """
    began = time.perf_counter()
    mapped = placed.mapped(situation, ledger)
    reports = placed.chosen(situation, mapped, effort)
    with _listening() as remarks:
        fit = _fitted(situation, ledger, reports, None, None, effort) if len(reports) else NO_REPORTS
        for _ in range(MOST_ROUNDS):
            if fit.whole or fit.model.converged_ or time.perf_counter() - began > effort.learning:
                # What ran out of time is not what the log alone gives, and does not claim to be.
                fit = replace(fit, whole=fit.whole or bool(fit.model.converged_))
                break
            if interrupted():
                return None
            model = _swept(fit.model, ROUND)
            anew = partial(_fitted, situation, ledger, reports, None, None, effort, at_once=MOST_SWEEPS)
            fit = anew() if model is None else replace(fit, model=model)
        else:
            fit = replace(fit, whole=True)
    return _published(situation, ledger, mapped, reports, fit, remarks, began, effort), fit.model


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Collects what the model warns of: it is for those who look at the map, not for the log alone."""
    remarks: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CrowdfieldWarning)
        yield remarks
    # That a map has not converged yet is shown separately, and is no reason for a warning.
    said = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
    remarks += sorted({str(w.message) for w in said if issubclass(w.category, CrowdfieldWarning)})


def _published(
    situation: Situation,
    ledger: Ledger,
    mapped: placed.Placed,
    reports: placed.Placed,
    fit: Fit,
    remarks: list[str],
    began: float,
    effort: Effort,
) -> Published:
    grid, model, metres = situation.grid, fit.model, mapped.metres
    looks = placed.looks(mapped.entries)
    cells = grid.counts(metres, looks).astype(np.int32) if len(metres) else np.zeros(grid.shape, dtype=np.int32)
    heatmap = _heatmap(model, situation, effort)
    numbers, words = told(effort, grid, heatmap.grid, len(metres), len(reports))
    about = _about(model) | {"rested": fit.whole, "searched": fit.searched, "remarks": words + remarks}
    ashore = len(metres) > 0 and land_cells(heatmap.grid, metres) is not None
    about |= {LAYOUT: situation.layout, "land": ashore, "only_label": _only_label(situation, reports)} | numbers
    return Published(
        head=ledger.head,
        reports=len(metres),
        seconds=time.perf_counter() - began,
        arrays=pack(
            probability=heatmap.probability.astype(np.float32), sd=heatmap.sd.astype(np.float32), reports=cells
        ),
        sources=_sources(model),
        suggestions=_suggestions(model, heatmap),
        info=about | {name: finite(value) for name, value in heatmap.metadata.items()},
        model=_saved(model),
    )


def _only_label(situation: Situation, reports: placed.Placed) -> str | None:
    """What all reports say, where nothing tells the places at which that is not so; None where something does."""
    said = {report.label for report in reports.entries}
    return said.pop() if len(said) == 1 and situation.model.get("silence") is None else None


def load_model(data: bytes) -> Any:
    """A model as it was saved with a version; None for the map of no reports."""
    if not data:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cf"
        try:
            path.write_bytes(data)
            return cf.HeatmapBCC.load(path)
        except Exception as error:
            # Bytes that were changed may fail anywhere on their way to a model; to us they are all the same.
            raise InputError("the saved model is damaged; the next fit makes it again from the log") from error


def settings_of(situation: Situation, ledger: Ledger, sources: Sequence[str]) -> pipeline.Settings:
    """What the pipeline is told of a map: its states, and the trust that admins and trusted keys gave."""
    options = situation.model
    certain = dict.fromkeys((name for name in sources if name.startswith(TRUSTED)), "certain")
    return pipeline.Settings(
        kernel=options["kernel"],
        lengthscale=options["lengthscale"] or "learn",
        inference=options["inference"],
        communities=options["communities"],
        states=situation.states,
        grades="none",  # grades are read by the instrument model, for which a live map has no time
        labels=situation.labels,
        sources=certain | ledger.trust,
        others=options.get("confusion_prior"),
        silence=options.get("silence"),
        seed=0,
    )


def _fitted(
    situation: Situation,
    ledger: Ledger,
    reports: placed.Placed,
    previous: Previous | None,
    scheduler: str | None,
    effort: Effort,
    interrupted: Callable[[], bool] = never,
    at_once: int | None = None,
) -> Fit:
    said = placed.as_reports(situation, reports)
    if said.is_score.any() and (scheduler is not None or situation.model["inference"] not in READ_SCORES):
        said = replace(said, score=None)
        warnings.warn("Fits over a cluster, and fits as in the paper, read labels and not scores.", DataWarning, 2)
    settings = settings_of(situation, ledger, said.sources)
    if settings.silence is not None:
        if only_label(said) is None:
            settings = replace(settings, silence=None)  # reports that differ tell by themselves where all is well
        else:
            said, settings = with_silence(said, situation.grid, None, settings)
            settings = replace(settings, states=situation.states)
    functions = 1 if len(situation.states) == 2 else len(situation.states)
    quick = len(said) * functions >= LARGE or effort.thins
    if previous is not None and previous.model is not None and scheduler is None and settings.silence is None:
        new = np.array([ledger.seq[r.id] for r in reports.entries], dtype=np.int64) > previous.head
        if not new.any():
            settled = _settled(previous, interrupted)
            return settled or _from_nothing(settings, said, situation.grid, effort, functions, at_once=MOST_SWEEPS)
        continued = _continued(previous, said, new, WARM if quick else MOST_SWEEPS)
        if continued is not None:
            return Fit(continued, False, previous.searched)
    if scheduler is not None:
        return _fitted_elsewhere(settings, said, situation.grid, scheduler, effort)
    return _from_nothing(settings, said, situation.grid, effort, functions, at_once)


def _swept(model: Any, sweeps: int) -> Any | None:
    """The model after more sweeps; None where they make it worse. They begin with a step whose length nothing judges,
    which now and then leads far away; the sweeps of one fit from nothing are all judged."""
    before = model.bound_
    try:
        model = pipeline.settle(model, sweeps)
    except np.linalg.LinAlgError:
        log.warning("a fit that was to settle failed; it begins again", exc_info=True)
        return None
    if model.bound_ >= before - ASTRAY * abs(before):
        return model
    log.warning("a fit that was to settle got worse; it begins again")
    return None


def _settled(previous: Previous, interrupted: Callable[[], bool]) -> Fit | None:
    """A round of sweeps for a map that was published before it had settled; a few at a time, so that whoever reports
    meanwhile need not wait for all of them. None where it must begin again."""
    model = previous.model
    for _ in range(ROUND // FEW_SWEEPS):
        if model.converged_:
            break
        model = _swept(model, FEW_SWEEPS)
        if model is None:
            return None
        if interrupted():
            return Fit(model, False, previous.searched, cut_short=True)
    return Fit(model, False, previous.searched)


def _continued(previous: Previous, said: Reports, new: NDArray[np.bool_], sweeps: int) -> Any | None:
    """The model after what is new; None where it takes a new fit."""
    fresh, known = (set(said.source[mask].tolist()) for mask in (new, ~new))
    if any(said.sources[code].startswith(TRUSTED) for code in fresh - known):
        return None  # a trusted source that was not there before needs a prior of its own
    if len(said) >= SEARCH_AGAIN * previous.searched:
        return None
    if len(np.unique(said.label[~new])) < 2 <= len(np.unique(said.label)):
        return None  # before, nothing told over what distance reports differ
    if said.is_score.any() and previous.model.reports_model_ != "instrument":
        return None  # the first probabilities: only the other model reads them
    return pipeline.update(previous.model, said.take(new), sweeps=sweeps, tolerance=TOLERANCE)


def _from_nothing(
    settings: pipeline.Settings, said: Reports, grid: Grid, effort: Effort, functions: int, at_once: int | None = None
) -> Fit:
    """The fit of `fuse` where its reports are few enough for that; else a few sweeps, as many as there is time for, or
    so many `at_once`."""
    began = time.perf_counter()
    work, most = len(said) * functions, max(effort.searched // functions, 1)
    # With three or more states the instrument model takes many times as long as there is, but only it reads scores.
    kind = "auto" if functions == 1 or said.is_score.any() else "one_state"
    if work <= effort.searched and not effort.thins:
        return Fit(pipeline.hold(pipeline.learn(settings, said, grid, reports_model=kind)), True, len(said))
    if effort.thins and settings.lengthscale == "learn":
        # Learning the length-scale takes many fits; a map that cannot be fitted even once in time keeps a default.
        settings = replace(settings, lengthscale=max(grid.east - grid.west, grid.north - grid.south) / 10)
    quick = work >= LARGE or effort.thins
    # What has been too slow once starts with few; `_within` adds as many as there is time for.
    sweeps = at_once or (FEW_SWEEPS if work >= HEAVY or effort.thins else COLD if quick else MOST_SWEEPS)
    settings = replace(settings, tol=TOLERANCE, max_iter=sweeps)
    model = pipeline.hold(pipeline.learn(settings, said, grid, most=most, reports_model=kind))
    return Fit(_within(model, began, effort, COLD if quick else MOST_SWEEPS), False, len(said))


def _fitted_elsewhere(settings: pipeline.Settings, said: Reports, grid: Grid, scheduler: str, effort: Effort) -> Fit:
    """Fitted over a Dask cluster, where reports are read by confusion matrices; the length-scale is found here."""
    from crowdfield import distributed  # Dask is an extra of its own

    def fit(model: Any, reports: Reports) -> Any:
        return distributed.fit_model(model.set_params(reports_model="one_state"), reports, scheduler)

    settings = replace(settings, tol=TOLERANCE, max_iter=MOST_SWEEPS)
    model = pipeline.learn(settings, said, grid, most=min(effort.searched, len(said) - 1), fit=fit)
    return Fit(model, bool(model.converged_), len(said))


def _within(model: Any, began: float, effort: Effort, most: int) -> Any:
    """Up to so many sweeps in all, but none that would begin after the time to learn is over."""
    done = model.n_iter_
    while not model.converged_ and done < most:
        spent = time.perf_counter() - began
        left = (effort.learning - spent) * done / spent  # sweeps, at the pace so far
        sweeps = min(ROUND if left >= ROUND else FEW_SWEEPS, most - done)
        if left < sweeps:
            break
        model = pipeline.settle(model, sweeps)
        done += sweeps
    return model


def _heatmap(model: Any, situation: Situation, effort: Effort) -> Heatmap:
    """The map in its own cells, or in larger ones where the effort allows no more; without counts of reports."""
    if model is not None:
        grid = effort.lay_out(situation.grid, len(situation.states), lambda: _seconds_per_cell(model, situation))
        # Published maps show the field: no cell may tell strangers what its one report said.
        return pipeline.make_map(model, grid, np.zeros(grid.shape, dtype=np.int64), field_only=True)
    # No reports: every state is as probable as the others, and nothing is known.
    grid = effort.lay_out(situation.grid, len(situation.states), lambda: 0.0)
    shape = (*grid.shape, len(situation.states))
    unknown = np.full(shape, 1 / shape[-1]), np.full(shape, NO_IDEA)
    return Heatmap(grid, situation.states, *unknown, np.zeros(grid.shape, dtype=np.int64))


def _seconds_per_cell(model: Any, situation: Situation) -> float:
    centres = situation.grid.centres()
    places = centres[:: max(1, len(centres) // PROBE)]
    began = time.perf_counter()
    model.predict_rate(places)
    return (time.perf_counter() - began) / len(places)


def _sources(model: Any, level: float = 0.95) -> list[dict[str, Any]]:
    """How reliable each source turned out to be, those with most reports first; numbers that JSON can hold."""
    if model is None:
        return []
    table = model.source_table(level).sort_values(["reports", "source"], ascending=[False, True])
    alpha = dict(zip(model.sources_seen_.tolist(), np.asarray(model.alpha_), strict=True))
    rows = []
    for row in table.to_dict("records"):
        if row["source"] == SILENCE:
            continue  # silence is not a source
        a = alpha[row["source"]]
        total = a.sum(axis=-1, keepdims=True)
        # Each entry of a Dirichlet row is a beta by itself.
        low, high = betaincinv(a, total - a, [[[(1 - level) / 2]], [[(1 + level) / 2]]])
        matrices = {"confusion": a / total, "confusion_low": low, "confusion_high": high}
        rows.append(plain(row | {name: np.round(m, 4) for name, m in matrices.items()}))
    return rows


def _suggestions(model: Any, heatmap: Heatmap) -> list[dict[str, Any]]:
    """Where a report would tell most about the map, best first: what `crowdfield next` says."""
    if model is None:
        return []
    looks = pipeline.looks_of(model, heatmap, SUGGESTIONS)
    return [{"easting": look.easting, "northing": look.northing, "score": look.score} for look in looks]


def _about(model: Any) -> dict[str, Any]:
    about: dict[str, Any] = {}
    for name in ("engine_", "inference_", "reports_model_", "n_iter_", "converged_", "lengthscale_"):
        value = getattr(model, name, None)
        if value is not None:
            about[name.rstrip("_")] = finite(np.asarray(value).tolist())
    return about


def _saved(model: Any) -> bytes:
    if model is None:
        return b""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cf"
        model.save(path)
        return path.read_bytes()
