"""From the reports of a situation to a map version. Only this module, `drawing` and `reasons` call the model.

Models are built, updated and evaluated by `crowdfield.pipeline`, with the defaults of `crowdfield fuse` and
`crowdfield next`. This module adds what a live map needs: how much a fit may cost, and what readers may see.
"""

import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from crowdfield.pipeline.fusing import SPACE
from crowdfield.pipeline.grading import with_grades
from crowdfield.pipeline.quiet import prevailing_label, with_silence
from crowdfield.pipeline.shores import land_cells
from crowdfield.service import moments, placed
from crowdfield.service.auth import TRUSTED
from crowdfield.service.drawing import draw, packed_map, shows_reports
from crowdfield.service.effort import UNLIMITED, Effort, describe_limits
from crowdfield.service.journal import Ledger
from crowdfield.service.records import LAYOUT, SHOWS_REPORTS, Published, Situation
from crowdfield.service.schemas import GRADES_WITHOUT_ORDER, finite
from crowdfield.silence import SOURCE as SILENCE

log = logging.getLogger("crowdfield.worker")
SUGGESTIONS = 8
# From LARGE reports on, a map is published after COLD sweeps (a new fit) or WARM sweeps (an updated one), and converges
# in later versions, ROUND sweeps at a time: most of a change at once is better than all of it later. MOST_SWEEPS: the
# limit for small maps.
LARGE, COLD, WARM, ROUND, MOST_SWEEPS = 2_000, 25, 5, 20, 500
# From this many reports times latent functions on, a sweep may take seconds: the time is checked every few sweeps.
HEAVY, FEW_SWEEPS = 15_000, 5
# A fit that has not converged after this many rounds oscillates; the changes are too small to matter.
MOST_ROUNDS = 50
# The tolerance on changes of log odds between sweeps, in fits that differ from those of `fuse` anyway: far below what a
# map can show.
TOLERANCE = 5e-3
# Share of the objective by which a fit that settles may fall: it varies by a twentieth of that (`slack_share` of the
# policy of inference), and where it goes astray it falls by many times as much.
ASTRAY = 1e-3
# Of a map with so many reports that it is fitted in another way than by `fuse`, the length-scale and the kind of model
# are found on one report in PART, and on no more than MOST_OF_PART: 250 of 100,000 reports by 200 sources chose the
# kind by chance, and 2,000 take half a second more (docs/benchmarks/service.md).
PART, MOST_OF_PART = 10, 2_000
# Up to so many reports times states both kinds of model are compared on maps of three or more states without an order,
# as `fuse` does: 2,000 reports of three states took 13 s of processor time, and 1 s with each report that came later.
SEVERAL = 6_000
# Up to so many reports grades are read in their order, which only the instrument model does.
GRADED = 20_000
# The kinds of inference that read the probabilities of states.
READ_SCORES = ("auto", "collapsed")
SCORES_NOT_READ = "Fits over a cluster, fits as in the paper, and fits of maps that move read labels and not scores."
# Of maps that move, the most reports (times latent functions) on which the scales of space and time are searched for:
# each fit of a search takes many times as long as on maps of space. Up to so many they are fitted without a limit.
MOVING_SEARCHED = 500
# A live map searches for its length-scale and its kind of model again when its reports have grown by this factor.
SEARCH_AGAIN = 1.5
SILENCE_ENDED = "Many reports now say where the opposite holds, so silence no longer counts as evidence."


@dataclass(frozen=True)
class Previous:
    """The model of an earlier version, the log position that it includes, and the number of reports when its
    length-scale was searched for."""

    head: int
    model: Any
    searched: int = 0


@dataclass(frozen=True)
class Fit:
    """A fitted model, or None where there are no reports. `whole`: it is the fit of `fuse` for the same reports, and
    depends on nothing else. `searched`: the number of reports when its length-scale and its kind were searched for.
    `cut_short`: it was only to converge further, and stopped because new reports came in."""

    model: Any
    whole: bool
    searched: int
    cut_short: bool = False


NO_REPORTS = Fit(None, True, 0)


def never() -> bool:
    """The default of `interrupted`: nothing interrupts the fit."""
    return False


def fit_map(
    situation: Situation,
    ledger: Ledger,
    previous: Previous | None,
    scheduler: str | None = None,
    effort: Effort = UNLIMITED,
    interrupted: Callable[[], bool] = never,
    *,
    period_hours: int = moments.DAY,
) -> tuple[Published | None, Any]:
    """Fit the active reports, starting from the previous model if there is one; returns the version to publish, and the
    model.

    The version is None if there were no new reports and `interrupted` asked to stop; the model has then had some more
    sweeps. With a `scheduler` that Dask cluster fits the model, without a warm start: a posterior of that size is too
    large to be sent to the cluster and back. `period_hours`: as in the settings, for maps that move.
    """
    began = time.perf_counter()
    mapped = placed.mapped(situation, ledger)
    reports = placed.chosen(situation, mapped, effort)
    if len(reports) < len(mapped):
        previous = None  # a model of other reports than these
    with _collected_warnings() as remarks:
        fit = (
            _fitted(situation, ledger, reports, period_hours, previous, scheduler, effort, interrupted)
            if len(reports)
            else NO_REPORTS
        )
    if fit.cut_short:
        return None, fit.model
    return _published(situation, ledger, mapped, reports, period_hours, fit, remarks, began, effort), fit.model


def map_of_log(
    situation: Situation,
    ledger: Ledger,
    interrupted: Callable[[], bool] = never,
    effort: Effort = UNLIMITED,
    *,
    period_hours: int = moments.DAY,
) -> tuple[Published, Any] | None:
    """The map of the log alone: fitted without a warm start, as `fuse` does. None if `interrupted` asked to stop.

    A warm start is quick, but where reports contradict each other several maps may fit them equally well, and which of
    them is found depends on the earlier versions. Without a warm start the same log always gives the same map.
    """
    began = time.perf_counter()
    mapped = placed.mapped(situation, ledger)
    reports = placed.chosen(situation, mapped, effort)
    with _collected_warnings() as remarks:
        fit = _fitted(situation, ledger, reports, period_hours, None, None, effort) if len(reports) else NO_REPORTS
        anew = False
        for _ in range(MOST_ROUNDS):
            if fit.whole or fit.model.converged_ or time.perf_counter() - began > effort.learning:
                # A fit that ran out of time depends on the machine's speed, so it is not marked as whole.
                fit = replace(fit, whole=fit.whole or bool(fit.model.converged_))
                break
            if interrupted():
                return None
            model = _swept(fit.model, ROUND)
            if model is not None:
                fit = replace(fit, model=model)
            elif not anew:
                fit = _fitted(situation, ledger, reports, period_hours, None, None, effort, at_once=MOST_SWEEPS)
                anew = True
            else:  # it would begin again at the same place, and go the same way
                fit = replace(fit, whole=True)
                break
        else:
            fit = replace(fit, whole=True)
    return _published(situation, ledger, mapped, reports, period_hours, fit, remarks, began, effort), fit.model


@contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """Collects the warnings of the model, to be shown with the map."""
    remarks: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CrowdfieldWarning)
        yield remarks
    # The page shows separately whether a map has converged.
    said = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
    remarks += sorted({str(w.message) for w in said if issubclass(w.category, CrowdfieldWarning)})


def _published(
    situation: Situation,
    ledger: Ledger,
    mapped: placed.Placed,
    reports: placed.Placed,
    period_hours: int,
    fit: Fit,
    remarks: list[str],
    began: float,
    effort: Effort,
) -> Published:
    """The version to publish: the map as arrays, the model, and facts about both."""
    grid, model, metres = situation.grid, fit.model, mapped.metres
    observations = placed.observations(mapped.entries)
    cells = grid.counts(metres, observations).astype(np.int32) if len(metres) else np.zeros(grid.shape, dtype=np.int32)
    in_time: dict[str, Any] = {}
    shown = model
    if situation.moving and model is not None:
        times = moments.event_times(situation, mapped.entries, period_hours)
        in_time = moments.described(situation, times, period_hours)
        shown = moments.at_moment(model, in_time)
    heatmap = draw(shown, situation, effort)
    numbers, words = describe_limits(effort, grid, heatmap.grid, len(metres), len(reports))
    about = _about(model) | {"rested": fit.whole, "searched": fit.searched, "remarks": words + remarks}
    about["unknown_source"] = _unknown_source(ledger, reports)
    about["people"] = len(metres) if observations is None else int(observations.sum())
    ashore = len(metres) > 0 and land_cells(heatmap.grid, metres) is not None
    about |= {LAYOUT: situation.layout, "land": ashore, "only_label": _only_label(situation, reports)}
    about |= numbers | in_time
    about[SHOWS_REPORTS] = shows_reports(situation, heatmap.grid)
    return Published(
        head=ledger.head,
        reports=len(metres),
        seconds=time.perf_counter() - began,
        arrays=packed_map(heatmap, cells),
        sources=_sources(model, situation),
        suggestions=_suggestions(shown, heatmap),
        info=about | {name: finite(value) for name, value in heatmap.metadata.items()},
        model=_saved(model),
    )


def _only_label(situation: Situation, reports: placed.Placed) -> str | None:
    """The label of all reports, if nothing says where its opposite holds; None otherwise."""
    said = {report.label for report in reports.entries}
    return said.pop() if len(said) == 1 and situation.model.get("silence") is None else None


def _unknown_source(ledger: Ledger, reports: placed.Placed) -> bool:
    """Whether all reports come from one source of which nobody has said how reliable it is (`one_source` of the
    pipeline)."""
    names = {report.source or "" for report in reports.entries}
    return len(reports) > 1 and len(names) == 1 and not any(n in ledger.trust or n.startswith(TRUSTED) for n in names)


def load_model(data: bytes) -> Any:
    """The model that was saved with a version; None for a map without reports."""
    if not data:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cf"
        try:
            path.write_bytes(data)
            return cf.HeatmapBCC.load(path)
        except Exception as error:
            # Damaged bytes may raise any error while a model is loaded; all of them mean the same here.
            raise InputError("the saved model is damaged; the next fit makes it again from the log") from error


def settings_of(situation: Situation, ledger: Ledger, sources: Sequence[str]) -> pipeline.Settings:
    """The settings of the pipeline for a map: its states, its model, and the trust in its sources."""
    options = situation.model
    certain = dict.fromkeys((name for name in sources if name.startswith(TRUSTED)), "certain")
    return pipeline.Settings(
        kernel=options["kernel"],
        lengthscale=options["lengthscale"] or "learn",
        inference=options["inference"],
        communities=options["communities"],
        states=situation.states,
        positive=situation.question,
        grades="none" if situation.grades is None else "auto",
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
    period_hours: int,
    previous: Previous | None,
    scheduler: str | None,
    effort: Effort,
    interrupted: Callable[[], bool] = never,
    at_once: int | None = None,
) -> Fit:
    """The model fitted to the reports: continued from the previous one where possible, else anew."""
    said = placed.as_reports(situation, reports, period_hours)
    if situation.moving:
        scheduler = None  # a cluster fits maps of space only
    reads_scores = scheduler is None and situation.model["inference"] in READ_SCORES and not situation.moving
    if said.is_score.any() and not reads_scores:
        said = replace(said, score=None)
        warnings.warn(SCORES_NOT_READ, DataWarning, 2)
    if situation.moving and situation.grades is not None:
        warnings.warn(GRADES_WITHOUT_ORDER, DataWarning, 2)
    settings = settings_of(situation, ledger, said.sources)
    if settings.silence is not None:
        # A few reports of the opposite, such as those of places that somebody has checked, do not end it.
        label = prevailing_label(said)
        if label is None:
            settings = replace(settings, silence=None)
            warnings.warn(SILENCE_ENDED, DataWarning, 2)
        else:
            said, settings = with_silence(said, situation.grid, None, settings, positive=label)
            settings = replace(settings, states=situation.states)
    if scheduler is None and len(said) <= GRADED and not situation.moving:
        settings = with_grades(settings, said, situation.grades)
    # Grades are read on one scale.
    graded = not isinstance(settings.grades, str)
    settings = settings if graded else replace(settings, grades="none")
    functions = 1 if graded or len(situation.states) == 2 else len(situation.states)
    quick = len(said) * functions >= LARGE or effort.uses_subset
    alike = previous is not None and previous.model is not None and _has_columns_of(previous.model, said)
    if previous is not None and alike and scheduler is None and settings.silence is None:
        new = np.array([ledger.seq[r.id] for r in reports.entries], dtype=np.int64) > previous.head
        if not new.any():
            settled = _settled(previous, interrupted)
            return settled or _from_nothing(settings, said, situation.grid, effort, functions, at_once=MOST_SWEEPS)
        continued = _continued(previous, said, new, WARM if quick else MOST_SWEEPS)
        if continued is not None:
            return Fit(continued, False, previous.searched)
    if scheduler is not None:
        return _fitted_on_cluster(settings, said, situation.grid, scheduler, effort)
    return _from_nothing(settings, said, situation.grid, effort, functions, at_once)


def _has_columns_of(model: Any, said: Reports) -> bool:
    """False if whether the map moves was changed since the model was fitted."""
    return bool(model.places_.shape[1] == said.places.shape[1])


class _Interrupted(Exception):
    """New reports came in during sweeps that were only to converge further."""


def _swept(model: Any, sweeps: int, interrupted: Callable[[], bool] = never) -> Any | None:
    """The model after more sweeps; None where they make it worse: a fit that cannot go on from its last state starts
    from the prior, for which these sweeps are too few. `_Interrupted` leaves the model as it was."""
    before = model.bound_

    def ask(sweep: int, objective: float, change: float) -> None:
        if interrupted():
            raise _Interrupted

    try:
        model = pipeline.settle(model, sweeps, ask)
    except np.linalg.LinAlgError:
        log.warning("a fit that was to settle failed; it begins again", exc_info=True)
        return None
    if model.bound_ >= before - ASTRAY * abs(before):
        return model
    log.warning("a fit that was to settle got worse; it begins again")
    return None


def _settled(previous: Previous, interrupted: Callable[[], bool]) -> Fit | None:
    """A round of sweeps for a map that was published before it had converged. New reports need not wait for all of
    them. None if the fit must begin again."""
    model = previous.model
    # To complete a fit of the instrument model takes as long as several sweeps: it is done once, and these can be
    # interrupted.
    instruments = model.reports_model_ == "instrument"
    at_once = ROUND if instruments else FEW_SWEEPS
    for _ in range(ROUND // at_once):
        if model.converged_:
            break
        try:
            model = _swept(model, at_once, interrupted if instruments else never)
        except _Interrupted:
            return Fit(previous.model, False, previous.searched, cut_short=True)
        if model is None:
            return None
        if interrupted():
            return Fit(model, False, previous.searched, cut_short=True)
    return Fit(model, False, previous.searched)


def _continued(previous: Previous, said: Reports, new: NDArray[np.bool_], sweeps: int) -> Any | None:
    """The model updated with the new reports; None if a new fit is needed."""
    fresh, known = (set(said.source[mask].tolist()) for mask in (new, ~new))
    if any(said.sources[code].startswith(TRUSTED) for code in fresh - known):
        return None  # a new trusted source needs a prior of its own
    if len(said) >= SEARCH_AGAIN * previous.searched:
        return None
    if len(np.unique(said.label[~new])) < 2 <= len(np.unique(said.label)):
        return None  # all reports said the same before, so the length-scale could not be learned
    if said.is_score.any() and previous.model.reports_model_ != "instrument":
        return None  # these are the first scores: only the instrument model reads them
    return pipeline.update(previous.model, said.take(new), sweeps=sweeps, tolerance=TOLERANCE)


def _from_nothing(
    settings: pipeline.Settings, said: Reports, grid: Grid, effort: Effort, functions: int, at_once: int | None = None
) -> Fit:
    """The fit of `fuse` if there are few enough reports for it; else as many sweeps as there is time for, or `at_once`
    sweeps."""
    began = time.perf_counter()
    in_time = said.places.shape[1] > SPACE
    searched = min(effort.searched, MOVING_SEARCHED) if in_time else effort.searched
    work = len(said) * functions
    part = searched if in_time else max(searched, min(work // PART, MOST_OF_PART))
    most = max(part // functions, 1)
    # With three or more states without an order the instrument model takes long, but only it reads scores.
    compared = functions == 1 or work <= min(SEVERAL, searched)
    # Only the one-state model has scales of both space and time.
    kind = "auto" if (compared or said.is_score.any()) and not in_time else "one_state"
    if work <= searched and not effort.uses_subset:
        return Fit(pipeline.hold(pipeline.learn(settings, said, grid, reports_model=kind)), True, len(said))
    if effort.uses_subset and settings.lengthscale == "learn":
        # Learning the length-scale takes many fits; a map that could not be fitted once in time uses a default.
        settings = replace(settings, lengthscale=max(grid.east - grid.west, grid.north - grid.south) / 10)
    quick = work >= LARGE or effort.uses_subset
    # A map that was too slow before starts with few sweeps; `_sweep_until_deadline` adds as many as there is time for.
    sweeps = at_once or (FEW_SWEEPS if work >= HEAVY or effort.uses_subset else COLD if quick else MOST_SWEEPS)
    settings = replace(settings, tol=TOLERANCE, max_iter=sweeps)
    model = pipeline.hold(pipeline.learn(settings, said, grid, most=most, reports_model=kind))
    return Fit(_sweep_until_deadline(model, began, effort, COLD if quick else MOST_SWEEPS), False, len(said))


def _fitted_on_cluster(settings: pipeline.Settings, said: Reports, grid: Grid, scheduler: str, effort: Effort) -> Fit:
    """The model fitted on a Dask cluster, with the one-state model; the length-scale is learned here."""
    from crowdfield import distributed  # Dask is an extra of its own

    def fit(model: Any, reports: Reports) -> Any:
        return distributed.fit_model(model.set_params(reports_model="one_state"), reports, scheduler)

    settings = replace(settings, tol=TOLERANCE, max_iter=MOST_SWEEPS)
    model = pipeline.learn(settings, said, grid, most=min(effort.searched, len(said) - 1), fit=fit)
    return Fit(model, bool(model.converged_), len(said))


def _sweep_until_deadline(model: Any, began: float, effort: Effort, most: int) -> Any:
    """The model after up to `most` sweeps in all, but none that could not finish within the time to learn."""
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


def _sources(model: Any, situation: Situation, level: float = 0.95) -> list[dict[str, Any]]:
    """How reliable each source is, those with the most reports first, as JSON values."""
    if model is None:
        return []
    table = model.source_table(level).sort_values(["reports", "source"], ascending=[False, True])
    order = [model.classes_.tolist().index(state) for state in situation.states]  # the model may have another one
    alpha = dict(zip(model.sources_seen_.tolist(), np.asarray(model.alpha_)[:, order], strict=True))
    rows = []
    for row in table.to_dict("records"):
        if row["source"] == SILENCE:
            continue  # silence is not a source
        a = alpha[row["source"]]
        total = a.sum(axis=-1, keepdims=True)
        # The marginal distribution of each entry of a Dirichlet row is a beta distribution.
        low, high = betaincinv(a, total - a, [[[(1 - level) / 2]], [[(1 + level) / 2]]])
        matrices = {"confusion": a / total, "confusion_low": low, "confusion_high": high}
        rows.append(plain(row | {name: np.round(m, 4) for name, m in matrices.items()}))
    return rows


def _suggestions(model: Any, heatmap: Heatmap) -> list[dict[str, Any]]:
    """Where a report would be most informative, the best place first: what `crowdfield next` suggests."""
    if model is None:
        return []
    places = pipeline.looks_of(model, heatmap, SUGGESTIONS)
    return [{"easting": place.easting, "northing": place.northing, "score": place.score} for place in places]


def _about(model: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"ordered": True} if getattr(model, "ordered", False) else {}
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
