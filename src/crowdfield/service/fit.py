"""The one place where the service meets the model: from the standing reports of a situation to a map version."""

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

import crowdfield as cf
from crowdfield.data import Grid, Heatmap, Reports
from crowdfield.errors import ConvergenceWarning, CrowdfieldWarning, InputError
from crowdfield.pipeline.fusing import make_map
from crowdfield.pipeline.settings import trusted
from crowdfield.service import places
from crowdfield.service.auth import TRUSTED
from crowdfield.service.effort import PROBE, UNLIMITED, Effort, told
from crowdfield.service.journal import Entry, Ledger
from crowdfield.service.maps import pack
from crowdfield.service.scatter import scattered
from crowdfield.service.schemas import finite
from crowdfield.service.store import LAYOUT, Published, Situation
from crowdfield.service.tiles import NO_IDEA

SUGGESTIONS = 8
# The reports named one by one when a place is explained.
EXPLAINED = 8
# Where to look next is chosen among so many cells at most, spread evenly.
CANDIDATES = 512
# From so many reports on, a map is published after a few sweeps and settles in the versions after it: a duty officer
# would rather see most of a change at once than all of it later.
LARGE, COLD, WARM, ROUND, MOST_SWEEPS = 2_000, 25, 5, 20, 500
# From so many reports times latent functions on, a sweep may take seconds: time is looked at after every few sweeps.
HEAVY, FEW_SWEEPS = 15_000, 5
# A fit that still moves after so many rounds of sweeps goes to and fro by less than anybody could say is right.
MOST_ROUNDS = 50
# Of the log odds between sweeps: far below what a map can show.
TOLERANCE = 5e-3


@dataclass(frozen=True)
class Previous:
    """A model and the log position that it has seen."""

    head: int
    model: Any


def fit_map(
    situation: Situation,
    ledger: Ledger,
    previous: Previous | None,
    scheduler: str | None = None,
    effort: Effort = UNLIMITED,
) -> tuple[Published, Any]:
    """Fit the standing reports, from the previous model where there is one; the version to publish, and the model.

    With a `scheduler` the fit goes to that Dask cluster, from nothing: what is too large for one process is also too
    large to be carried there and back as a posterior.
    """
    began = time.perf_counter()
    mapped = _mapped(situation, ledger)
    reports = effort.choose(mapped)
    if len(reports) < len(mapped):
        previous = None  # a model of other reports than these
    with _listening() as remarks:
        model = _fitted(situation, ledger, reports, previous, scheduler, effort) if reports else None
    alone = model is None or ((previous is None or model is not previous.model) and model.converged_)
    return _published(situation, ledger, reports, model, remarks, began, effort, rested=bool(alone)), model


def rested_map(
    situation: Situation,
    ledger: Ledger,
    interrupted: Callable[[], bool] = lambda: False,
    effort: Effort = UNLIMITED,
) -> tuple[Published, Any] | None:
    """The map of the log alone: fitted from nothing until it moves no more. None where `interrupted` asked to stop.

    A warm start is quick, but where reports contradict each other there may be several maps that they fit as well, and
    which of them it ends at depends on the versions before. From nothing, the same log always gives the same map.
    """
    began = time.perf_counter()
    reports = effort.choose(_mapped(situation, ledger))
    with _listening() as remarks:
        model = _fitted(situation, ledger, reports, None, None, effort) if reports else None
        for _ in range(MOST_ROUNDS):
            if model is None or model.converged_ or time.perf_counter() - began > effort.learning:
                break
            if interrupted():
                return None
            model = _settled_further(model)
        else:
            return _published(situation, ledger, reports, model, remarks, began, effort, rested=True), model
    # What ran out of time is not what the log alone gives, and does not claim to be.
    rested = model is None or bool(model.converged_)
    return _published(situation, ledger, reports, model, remarks, began, effort, rested=rested), model


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Collects what the model warns of: it is for those who look at the map, not for the log alone."""
    remarks: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CrowdfieldWarning)
        yield remarks
    # That a map has not settled is said in its own way, and is no cause for alarm.
    said = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
    remarks += sorted({str(w.message) for w in said if issubclass(w.category, CrowdfieldWarning)})


def _published(
    situation: Situation,
    ledger: Ledger,
    reports: Sequence[Entry],
    model: Any,
    remarks: list[str],
    began: float,
    effort: Effort,
    *,
    rested: bool,
) -> Published:
    grid = situation.grid
    metres = _metres(situation, _mapped(situation, ledger))
    cells = grid.counts(metres).astype(np.int32) if len(metres) else np.zeros(grid.shape, dtype=np.int32)
    heatmap = _heatmap(model, situation, effort)
    numbers, words = told(effort, grid, heatmap.grid, len(metres), len(reports))
    about = _about(model) | {"rested": rested, "remarks": words + remarks, LAYOUT: situation.layout} | numbers
    return Published(
        head=ledger.head,
        reports=len(metres),
        seconds=time.perf_counter() - began,
        arrays=pack(
            probability=heatmap.probability.astype(np.float32), sd=heatmap.sd.astype(np.float32), reports=cells
        ),
        sources=_sources(model),
        suggestions=_suggestions(model, grid, CANDIDATES // 4 if effort.thins else CANDIDATES),
        info=about | {name: finite(value) for name, value in heatmap.metadata.items()},
        model=_saved(model),
    )


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


def confusion_prior(situation: Situation, ledger: Ledger, sources: Sequence[str]) -> Any:
    """None, a matrix for all, or a matrix for each source that an admin or a trusted key gave one."""
    said = dict.fromkeys((name for name in sources if name.startswith(TRUSTED)), "certain") | ledger.trust
    own = {name: trusted(value, situation.states, situation.labels) for name, value in said.items()}
    everybody = situation.model.get("confusion_prior")
    if everybody is None or not own:
        return own or everybody
    return {None: everybody, **own}


def _mapped(situation: Situation, ledger: Ledger) -> list[Entry]:
    """The standing reports that lie in the region: one that was changed may have left others behind."""
    return [
        r
        for r in ledger.reports.values()
        if r.longitude is not None and r.latitude is not None
        and places.inside(situation.region, r.longitude, r.latitude)
    ]  # fmt: skip


def _metres(situation: Situation, reports: Sequence[Entry]) -> NDArray[np.float64]:
    """Where the model sees the reports.   [R, 2]"""
    metres = places.to_metres(situation.crs, [(r.longitude, r.latitude) for r in reports])
    # Situations that were started before there was a choice see exact places, as they always did.
    return scattered(situation.grid, metres) if situation.model.get("places") == "cell" else metres


def _fitted(
    situation: Situation,
    ledger: Ledger,
    reports: Sequence[Entry],
    previous: Previous | None,
    scheduler: str | None,
    effort: Effort,
) -> Any:
    began = time.perf_counter()
    metres = _metres(situation, reports)
    label = np.array([r.label for r in reports], dtype=object)
    source = np.array([r.source for r in reports], dtype=object)
    work = len(reports) * (1 if len(situation.states) == 2 else len(situation.states))
    quick = work >= LARGE or effort.thins
    if previous is not None and previous.model is not None and scheduler is None:
        model = previous.model
        new = np.fromiter((ledger.seq[r.id] > previous.head for r in reports), dtype=bool, count=len(reports))
        if not new.any():
            # Nothing new: some more sweeps for a map that was published before it had settled.
            return model if model.converged_ else _settled_further(model)
        # A trusted source that was not there before needs a prior of its own, which only a new fit takes up.
        if not any(name.startswith(TRUSTED) for name in set(source[new]) - set(source[~new])):
            model.set_params(max_iter=WARM if quick else MOST_SWEEPS)
            return model.partial_fit(metres[new], label[new], source[new])
    options = situation.model
    side = max(situation.grid.east - situation.grid.west, situation.grid.north - situation.grid.south)
    # To learn the length-scale is to fit many times over: a map that cannot be fitted once in time does without.
    lengthscale = None if effort.thins and options["lengthscale"] == "learn" else options["lengthscale"]
    model = cf.HeatmapBCC(
        reports_model="one_state",  # versions go on from one another, with few sweeps each
        kernel=options["kernel"],
        lengthscale=lengthscale or side / 10,
        inference=options["inference"],
        communities=options["communities"],
        confusion_prior=confusion_prior(situation, ledger, sorted(set(source))),
        states=list(situation.states),
        labels=list(situation.labels),
        max_iter=MOST_SWEEPS if scheduler else FEW_SWEEPS if work >= HEAVY else COLD if quick else MOST_SWEEPS,
        tol=TOLERANCE,
        random_state=0,
    )
    if scheduler is None:
        model.fit(metres, label, source)
        return _within(model, began, effort, COLD if quick else MOST_SWEEPS)
    from crowdfield import distributed  # Dask is an extra of its own

    reports_ = Reports.from_arrays(metres, label, source, labels=list(situation.labels))
    return distributed.fit_model(model, reports_, scheduler)


def _within(model: Any, began: float, effort: Effort, most: int) -> Any:
    """Up to so many sweeps in all, but none that would begin after the time to learn is over."""
    done = model.n_iter_
    while not model.converged_ and done < most:
        spent = time.perf_counter() - began
        left = (effort.learning - spent) * done / spent  # sweeps, at the pace so far
        sweeps = min(ROUND if left >= ROUND else FEW_SWEEPS, most - done)
        if left < sweeps:
            break
        model = _settled_further(model, sweeps)
        done += sweeps
    return model


def _settled_further(model: Any, sweeps: int = ROUND) -> Any:
    """Some more sweeps over the same reports."""
    return model.set_params(max_iter=sweeps).forget(rows=np.empty(0, dtype=int))


def _heatmap(model: Any, situation: Situation, effort: Effort) -> Heatmap:
    """The map in its own cells, or in larger ones where the effort allows no more; without counts of reports."""
    if model is not None:
        grid = effort.lay_out(situation.grid, len(situation.states), lambda: _seconds_per_cell(model, situation))
        # Published maps show the field: no cell may tell strangers what its one report said.
        return make_map(model, grid, np.zeros(grid.shape, dtype=np.int64), field_only=True)
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
        a = alpha[row["source"]]
        total = a.sum(axis=-1, keepdims=True)
        # Each entry of a Dirichlet row is a beta by itself.
        low, high = beta.ppf([[[(1 - level) / 2]], [[(1 + level) / 2]]], a, total - a)
        matrices = {"confusion": a / total, "confusion_low": low, "confusion_high": high}
        rows.append(finite(_plain(row) | {name: np.round(m, 4).tolist() for name, m in matrices.items()}))
    return rows


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: np.asarray(value).tolist() if isinstance(value, np.generic | np.ndarray) else value
        for name, value in row.items()
    }


def _suggestions(model: Any, grid: Grid, candidates: int) -> list[dict[str, Any]]:
    """Where a report would tell most about the map, best first."""
    if model is None:
        return []
    rows, columns = grid.shape
    step = max(1, int(np.ceil(np.sqrt(rows * columns / candidates))))
    spread = np.arange(rows * columns).reshape(rows, columns)[step // 2 :: step, step // 2 :: step].ravel()
    centres = grid.centres()[spread]
    chosen, scores = model.suggest(centres, n=min(SUGGESTIONS, len(centres)), score="map")
    return [
        {"easting": float(easting), "northing": float(northing), "score": float(score)}
        for (easting, northing), score in zip(centres[chosen], scores, strict=True)
    ]


def _about(model: Any) -> dict[str, Any]:
    about: dict[str, Any] = {}
    for name in ("engine_", "inference_", "n_iter_", "converged_", "lengthscale_"):
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


def explain(model: Any, situation: Situation, place: NDArray[np.float64], state: int) -> dict[str, Any] | None:
    """Which sources and which reports moved this place, and by how much, in log odds of the state; they add up."""
    if model is None or model.inference_ == "gibbs":
        return None
    table = model.explain(place, situation.states[state])
    said = table[table["kind"] == "report"]
    by_source = said.groupby("source", sort=False)["log_odds"].agg(["sum", "size"])
    strongest = said.head(EXPLAINED)
    return {
        "total": float(table["log_odds"].sum()),
        "prior": float(table.loc[table["kind"] == "prior", "log_odds"].sum()),
        "uncertainty": float(table.loc[table["kind"] == "uncertainty", "log_odds"].sum()),
        "sources": [
            {"source": str(name), "log_odds": float(share), "reports": int(count)}
            for name, share, count in by_source.itertuples()
        ],
        "shares": list(zip(said["source"].astype(str), said["log_odds"].astype(float), strict=True)),
        "reports": [
            {"source": str(r.source), "label": str(r.label), "metres": float(r.distance), "log_odds": float(r.log_odds)}
            for r in strongest.itertuples()
        ],
    }
