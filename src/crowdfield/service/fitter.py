"""The process that fits: it reads the log of a map, fits, publishes a version, and reports the outcome.

The worker says which map is next and how long the fit may take (see `worker`). The two exchange short JSON messages,
never arrays, models or pickles. This process may be killed at any moment: publishing is one transaction, and everything
in its memory can be read from the database again.
"""

import gc
import json
import logging
import os
import signal
import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass, replace
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from crowdfield.errors import InputError, MissingDependencyError, NumericalError
from crowdfield.service import logs
from crowdfield.service.database import connect
from crowdfield.service.effort import Effort
from crowdfield.service.journal import Ledger
from crowdfield.service.records import Published, Situation, VersionInfo
from crowdfield.service.settings import Settings
from crowdfield.service.store import Store, Unknown

if TYPE_CHECKING:
    from crowdfield.service.fit import Previous

log = logging.getLogger("crowdfield.worker")
# A change of probability below this is not worth a version of its own.
VISIBLE_CHANGE = 0.005
# A version is also published if any of its first suggestions of where to look next changed: this many are compared.
SUGGESTIONS_COMPARED = 5
# The most reports, over all maps, whose logs and models one process keeps in memory; the least recently used maps are
# dropped first.
REPORTS_KEPT = 200_000
# A lower priority than the server: intake and readers go first when processors are scarce.
NICENESS = 5
# Modules that every fit needs; the server that these processes are forked from loads them once.
PRELOADED = [
    "crowdfield.service.fit", "crowdfield.models.heatmap_bcc", "crowdfield.service.fitter",
    "crowdfield.pipeline.fusing", "crowdfield.pipeline.learning", "crowdfield.pipeline.looks",
    "crowdfield.pipeline.mapping", "crowdfield.service.preloaded",
]  # fmt: skip

# The message of a process that can take jobs.
READY = b"ready"

Task = Literal["news", "settle", "rest", "finer"]
# Tasks that can wait, because they include no new reports.
CAN_WAIT: tuple[Task, ...] = ("rest", "finer")


@dataclass(frozen=True)
class Job:
    """One fit to do: the map, the worker that holds its lease, the reason, the level of coarseness, and the
    deadline."""

    situation: str
    holder: str
    task: Task
    level: int = 0
    seconds: float = 60.0

    @property
    def can_wait(self) -> bool:
        """Whether the job is one of the tasks that can wait."""
        return self.task in CAN_WAIT


@dataclass(frozen=True)
class Outcome:
    """How a fit ended.

    published: there is a new version; unchanged: it would equal the newest one; overtaken: new entries came in; lost:
    another worker has the lease now; failed: see `cause`, and `message`, which is public.
    """

    result: Literal["published", "unchanged", "overtaken", "lost", "failed"]
    version: int | None = None
    settled: bool = True
    rested: bool = False
    seconds: float = 0.0
    message: str = ""
    cause: Literal["", "error", "memory", "time", "crash", "storage"] = ""


@dataclass
class _Kept:
    """What is kept in memory between two fits of a map; `created` distinguishes it from another map of the same id."""

    created: float
    ledger: Ledger
    previous: "Previous | None" = None


class Fitter:
    """Runs fits, and keeps the logs and models of recent maps in memory."""

    def __init__(self, settings: Settings, engine: Engine | None = None):
        self._settings = settings
        self._engine = engine or connect(settings.database, pool_size=2)
        self._store = Store(self._engine)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def close(self) -> None:
        self._engine.dispose()

    def run(self, job: Job) -> Outcome:
        """Do the job. Errors become part of the outcome, and do not end this process."""
        try:
            try:
                return self._renew(job)
            except MemoryError:
                # The maps kept in memory may use too much, rather than this fit.
                self._kept.clear()
                gc.collect()
                return self._renew(job)
        except Unknown:
            return Outcome("lost")  # the map was removed meanwhile
        except Exception as error:
            # An error of one fit must not affect other maps: it is reported, and the last good version stays.
            log.exception("a fit failed", extra={"situation": job.situation, "task": job.task})
            self._kept.pop(job.situation, None)
            return failure(error)

    def _renew(self, job: Job) -> Outcome:
        """Fit the map again, and publish a version if it differs from the newest."""
        from crowdfield.service import fit

        situation = self._store.situation(job.situation)
        kept = self._catch_up(situation)
        ledger = kept.ledger
        effort = (Effort.rest if job.can_wait else Effort.live)(job.level, job.seconds)
        period = self._settings.period_hours
        made: tuple[Published | None, Any] | None
        if job.can_wait:
            made = fit.map_of_log(situation, ledger, lambda: self._overtaken(ledger), effort, period_hours=period)
        else:
            made = fit.fit_map(
                situation, ledger, kept.previous, self._scheduler(ledger), effort, lambda: self._overtaken(ledger),
                period_hours=period,
            )  # fmt: skip
        published, model = made or (None, None)
        if published is None:
            if model is not None and kept.previous is not None:
                kept.previous = replace(kept.previous, model=model)  # keep the sweeps done so far
            return Outcome("overtaken")
        published.info["moved"] = self._moved(situation, published)
        settled = model is None or bool(model.converged_) or bool(published.info["rested"])
        facts: dict[str, Any] = {
            "settled": settled,
            "rested": bool(published.info["rested"]),
            "seconds": published.seconds,
        }
        if not self._is_news(situation, ledger, published):
            if facts["rested"]:
                self._store.mark_rested(situation.id, self._newest(situation).number)
            if situation.failure is not None:
                self._store.clear_failure(situation.id)
            self._keep(kept, fit.Previous(ledger.head, model, published.info["searched"]), published)
            return Outcome("unchanged", **facts)
        number = self._store.publish(situation.id, published, holder=job.holder, keep=self._settings.keep_versions)
        if number is None:
            log.warning("the lease was lost during a fit", extra={"situation": situation.id})
            self._kept.pop(situation.id, None)
            return Outcome("lost")
        self._keep(kept, fit.Previous(ledger.head, model, published.info["searched"]), published)
        log.info(
            "map published",
            extra={
                "situation": situation.id, "version": number, "reports": published.reports,
                "seconds": round(published.seconds, 3), "coarser": published.info.get("coarser"),
            },
        )  # fmt: skip
        return Outcome("published", version=number, **facts)

    def _catch_up(self, situation: Situation) -> _Kept:
        """The log up to its end, and the model to start from: none if reports were removed that it still includes."""
        kept = self._kept.pop(situation.id, None)
        if kept is None or kept.created != situation.created:
            kept = _Kept(situation.created, Ledger(situation.id))
            stored = self._store.model(situation.id)
            if stored is not None:
                # Reports retracted before the stored model was fitted are not in it: only later entries matter.
                kept.ledger.follow(self._engine, upto=stored[1])
                kept.ledger.clear_invalidated()
                kept.previous = self._stored(situation, *stored)
        self._kept[situation.id] = kept
        kept.ledger.follow(self._engine)
        if kept.ledger.invalidated:
            kept.previous = None
        return kept

    def _stored(self, situation: Situation, number: int, head: int, data: bytes) -> "Previous | None":
        """The model that was stored with a version, as a start for the next fit; None if it cannot be continued."""
        from crowdfield.service import fit

        newest = self._store.version(situation.id, number)
        if newest is None or thinned(newest.info, newest.reports):
            return None
        try:
            return fit.Previous(head, fit.load_model(data), int(newest.info.get("searched", 0)))
        except InputError:
            # A model can be fitted from the log again: damage costs one slower fit.
            log.exception("a saved model is damaged and is fitted again", extra={"situation": situation.id})
            return None

    def _keep(self, kept: _Kept, previous: "Previous", published: Published) -> None:
        kept.ledger.clear_invalidated()
        kept.previous = None if thinned(published.info, published.reports) else previous
        while len(self._kept) > 1 and sum(len(k.ledger.reports) for k in self._kept.values()) > REPORTS_KEPT:
            self._kept.popitem(last=False)

    def _newest(self, situation: Situation) -> VersionInfo:
        newest = self._store.version(situation.id)
        if newest is None:
            raise Unknown(f"there is no version of '{situation.id}'")
        return newest

    def _overtaken(self, ledger: Ledger) -> bool:
        return self._store.situation(ledger.situation).head > ledger.head

    def _scheduler(self, ledger: Ledger) -> str | None:
        """The Dask cluster for a map above the size limit; None for one that is fitted here."""
        large = len(ledger.reports) >= self._settings.distribute_above
        return self._settings.dask_scheduler if large else None

    def _moved(self, situation: Situation, made: Published) -> float | None:
        """The largest change of a cell's probability since the newest version; None where there is no version yet."""
        import numpy as np

        from crowdfield.service.maps import unpack

        newest = self._store.version(situation.id)
        if newest is None or newest.info.get("layout") != situation.layout:
            return None
        before = unpack(self._store.blob(situation.id, newest.number, "arrays"))["probability"]
        return round(float(np.nanmax(np.abs(unpack(made.arrays)["probability"] - before))), 4)

    def _is_news(self, situation: Situation, ledger: Ledger, made: Published) -> bool:
        """Whether a map differs from the newest version: in its reports, cells or probabilities, or, if it is the map
        of the log alone, in its suggestions of where to look next."""
        newest = self._store.version(situation.id)
        if newest is None or newest.head != ledger.head:
            return True
        if newest.info.get("coarser") != made.info.get("coarser"):
            return True
        moved = made.info["moved"]
        if moved is None or moved > VISIBLE_CHANGE:
            return True
        before = self._store.blob(situation.id, newest.number, "suggestions")
        return bool(made.info["rested"]) and _places(made.suggestions) != _places(before)


def _places(suggestions: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """The places of the first suggestions."""
    return [(place["easting"], place["northing"]) for place in suggestions[:SUGGESTIONS_COMPARED]]


def thinned(info: dict[str, Any], reports: int) -> bool:
    """Whether a map was learned from only some of its reports: such a model cannot be updated with new ones."""
    return int(info.get("coarser", {}).get("reports", reports)) < reports


def failure(error: Exception) -> Outcome:
    """The outcome of a fit with an error. Its message is public, so it quotes the error only if that can contain
    neither the name of a source nor a place."""
    if isinstance(error, MemoryError):
        return Outcome("failed", cause="memory", message="The fit needed more memory than one fit may use.")
    if isinstance(error, SQLAlchemyError):
        return Outcome("failed", cause="storage", message="The database did not answer when the map was made.")
    if isinstance(error, NumericalError | MissingDependencyError):
        return Outcome("failed", cause="error", message=str(error)[:500])
    kind = type(error).__name__
    return Outcome("failed", cause="error", message=f"The fit ended with an error ({kind}); the server's log has more.")


def serve(connection: Connection, settings: str, memory: int) -> None:
    """The main loop of a fitting process: it takes jobs and sends outcomes until the worker ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the server, which then ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    logs.configure()
    threading.Thread(target=_end_with_worker, daemon=True).start()
    os.nice(NICENESS)
    limit_memory(memory)
    fitter = Fitter(Settings.model_validate_json(settings))
    connection.send_bytes(READY)
    while True:
        try:
            job = Job(**json.loads(connection.recv_bytes()))
        except EOFError:
            return
        connection.send_bytes(json.dumps(asdict(fitter.run(job))).encode())


def _end_with_worker() -> None:
    """End this process when the worker ends: a killed worker cannot stop its fits itself."""
    worker = parent_process()
    if worker is not None:
        wait([worker.sentinel])
        os._exit(1)


def limit_memory(more: int) -> None:
    """Limit the memory of this process to `more` bytes above what it uses now; further allocations fail."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return  # not Linux: only the deadline limits a fit
    limit = pages * resource.getpagesize() + more
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
