"""Whether the service works: a thread checks it regularly, and requests get the result of the last check.

So `/health`, `/ready` and `/metrics` cause no work. If a check does not finish, for example because the database hangs,
they report that.
"""

import logging
import os
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from crowdfield.service import pulse
from crowdfield.service.database import connect, is_sqlite, writing
from crowdfield.service.journal import Journal
from crowdfield.service.metrics import Metrics
from crowdfield.service.pulse import Watch
from crowdfield.service.settings import Settings
from crowdfield.service.tables import delivery, entry, situation, version

log = logging.getLogger("crowdfield.service")
Status = Literal["ok", "degraded", "down"]

# A database that has not answered a query within this many seconds counts as not answering.
TIMEOUT_SECONDS = 5.0
# If a report waits longer than this to be stored, intake is down.
JOURNAL_LAG_SECONDS = 10.0
# A report that could not be stored counts as a failure for this many checks, unless one was stored since. Not forever:
# if nobody sends reports any more, the heartbeat decides.
FAILURE_CHECKS = 3
# The result of a check is outdated when the next one is overdue by this many seconds.
STALE_SECONDS = 2 * TIMEOUT_SECONDS
# A worker counts as dead when its heartbeat has not moved for this many times the length of a lease: other workers have
# taken over its maps by then.
SILENT_LEASES = 2.0
# How long a worker that is started with the server may take until its first heartbeats.
STARTING_SECONDS = 60.0
# The most maps listed in the details, those that have waited longest first.
MAPS_LISTED = 20
# The message of an alert counts as late after this many attempts; one that was given up is reported for this long.
ALERT_ATTEMPTS, GIVEN_UP_SECONDS = 3, 86400.0


@dataclass(frozen=True)
class Check:
    """The result of one check: a word for every caller with a key, and details for admins."""

    ok: bool
    word: str
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Health:
    """The results of all checks, and when they were made, by the monotonic clock."""

    checks: dict[str, Check]
    at: float

    @property
    def intake(self) -> bool:
        """Whether reports can be stored now."""
        return self.checks["database"].ok and self.checks["journal"].ok

    @property
    def status(self) -> Status:
        if not self.intake:
            return "down"
        return "ok" if all(check.ok for check in self.checks.values()) else "degraded"


class Monitor:
    """Checks the service regularly, on a database connection of its own."""

    def __init__(self, settings: Settings, journal: Journal, metrics: Metrics):
        self._settings, self._journal, self._metrics = settings, journal, metrics
        self.name = f"server-{os.getpid()}-{uuid4().hex[:8]}"
        self._engine: Engine = connect(settings.database, timeout=TIMEOUT_SECONDS)
        self._began = time.monotonic()
        self._watch = Watch()
        self._unfitted: dict[str, tuple[int, float, float]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._latest: Health | None = None

    def start(self) -> None:
        """Check once now, then every `health_seconds` in the background."""
        self.check_now()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(TIMEOUT_SECONDS)
            try:
                pulse.end(self._engine, self.name)
            except SQLAlchemyError as error:
                log.warning("the heartbeat could not be ended", extra={"error": type(error).__name__})
        self._engine.dispose()

    def _run(self) -> None:
        while not self._stop.wait(self._settings.health_seconds):
            try:
                self.check_now()
            except Exception:
                # The last result becomes outdated, which `latest` reports; the next check may work.
                log.exception("the health check failed")

    @property
    def running(self) -> bool:
        return self._thread is not None

    def latest(self) -> Health:
        """The result of the last check; if that is outdated, the database counts as not answering."""
        if self._latest is None or not self.running:
            return self.check_now()
        age = time.monotonic() - self._latest.at
        if age <= self._settings.health_seconds + STALE_SECONDS:
            return self._latest
        stuck = Check(False, "not answering", {"seconds": round(age, 1)})
        return Health(self._latest.checks | {"database": stuck}, self._latest.at)

    def check_now(self) -> Health:
        """Run all checks now."""
        began = time.monotonic()
        database = self._database()
        checks = {"database": database, "journal": self._journal_check(), "disk": self._disk()}
        try:
            with self._engine.connect() as connection:
                maps = self._every_map(connection)
                checks["worker"] = self._worker(connection, waiting=any(m.behind for m in maps))
                checks["maps"] = self._maps(maps)
                checks["fits"] = self._fits(maps)
                checks["alerts"] = self._alerts(connection)
                self._metrics.maps(maps)
        except SQLAlchemyError as error:
            unknown = Check(False, "unknown", {"error": type(error).__name__})
            checks |= {name: unknown for name in ("worker", "maps", "fits", "alerts") if name not in checks}
            if database.ok:
                checks["database"] = Check(False, "not readable", {"error": _kind(error)})
        found = Health(checks, time.monotonic())
        before = self._latest.status if self._latest is not None else "ok"
        if found.status != before:
            failing = {name: check.word for name, check in checks.items() if not check.ok}
            log.log(logging.INFO if found.status == "ok" else logging.WARNING, "health changed",
                    extra={"status": found.status, "was": before, "failing": failing})  # fmt: skip
        # Set before `_latest`, so that `/metrics` is never older than `/health`.
        self._metrics.health(found, time.monotonic() - began)
        self._latest = found
        return found

    # The checks

    def _database(self) -> Check:
        """Write a heartbeat of this server, durably, as a report would be written."""
        began = time.monotonic()
        try:
            with writing(self._engine) as connection:
                pulse.beat(connection, self.name, "server", {})
        except SQLAlchemyError as error:
            return Check(False, "not writable", {"error": _kind(error)})
        return Check(True, "ok", {"write_seconds": round(time.monotonic() - began, 4)})

    def _journal_check(self) -> Check:
        """How long the oldest accepted report has waited to be stored."""
        lag, waiting = self._journal.lag(), self._journal.waiting
        detail = {"lag_seconds": round(lag, 3), "waiting": waiting, "commits": self._journal.commits}
        if not self._journal.alive:
            return Check(False, "stopped", detail)
        failed = self._journal.failing()
        if failed is not None and failed < FAILURE_CHECKS * self._settings.health_seconds:
            return Check(False, "failing", detail)
        return Check(lag <= JOURNAL_LAG_SECONDS, "ok" if lag <= JOURNAL_LAG_SECONDS else "late", detail)

    def _disk(self) -> Check:
        """Free space in the folder of the database, if that is a file, and in the folder for temporary files."""
        folders = {"temporary": Path(tempfile.gettempdir())}
        if is_sqlite(self._engine) and self._engine.url.database:
            folders["database"] = Path(self._engine.url.database).absolute().parent
        free: dict[str, int] = {}
        for name, folder in folders.items():
            try:
                free[name] = shutil.disk_usage(folder).free
            except OSError:
                free[name] = 0
        low = min(free.values()) < self._settings.disk_reserve
        return Check(not low, "low" if low else "ok", {"free_bytes": free})

    def _worker(self, connection: Connection, *, waiting: bool) -> Check:
        """Whether any worker of this database is alive. Without a worker all is well as long as no map waits for
        one."""
        limit = SILENT_LEASES * self._settings.lease_seconds
        pulses = pulse.read(connection, "worker")
        silent = {p.name: self._watch.silent_seconds(p.name, p.beat) for p in pulses}
        self._watch.forget_others(set(silent))
        alive = [p for p in pulses if silent[p.name] <= limit and self._watch.has_moved(p.name)]
        detail = {
            "alive": len(alive),
            "silent_seconds": round(min(silent.values(), default=0.0), 1),
            "fits": [fit for p in alive for fit in p.data.get("fits", [])],
        }
        if alive:
            return Check(True, "ok", detail)
        if self._settings.worker and time.monotonic() - self._began < STARTING_SECONDS:
            return Check(True, "starting", detail)
        needed = waiting or self._settings.worker
        return Check(not needed, "missing" if needed else "none", detail)

    def _every_map(self, connection: Connection) -> list["MapFacts"]:
        """The facts about every map. Only the first columns of versions are read, never their arrays."""
        newest = (
            select(version.c.situation, func.max(version.c.number).label("number"))
            .group_by(version.c.situation)
            .subquery()
        )
        same = (version.c.situation == newest.c.situation) & (version.c.number == newest.c.number)
        fitted = (
            select(version.c.situation, version.c.number, version.c.head, version.c.seconds)
            .join(newest, same)
            .subquery()
        )
        c = situation.c
        rows = connection.execute(
            select(
                c.id, c.head, fitted.c.number, fitted.c.head, fitted.c.seconds, c.failure, c.failed, c.failures
            ).join(fitted, fitted.c.situation == c.id, isouter=True)
        ).all()
        ages = self._ages(connection, {row[0]: row[3] or 0 for row in rows if row[1] > (row[3] or 0)})
        return [
            MapFacts(
                name, number or 0, seconds or 0.0, head - (seen or 0), ages.get(name, 0.0), failure,
                failed if failure is not None else None, failures,
            )
            for name, head, number, seen, seconds, failure, failed, failures in rows
        ]  # fmt: skip

    def _ages(self, connection: Connection, behind: dict[str, int]) -> dict[str, float]:
        """For each map, how many seconds its oldest entry after the given log position has waited for a fit."""
        now, wall = time.monotonic(), time.time()
        kept: dict[str, tuple[int, float, float]] = {}
        for name, seen in behind.items():
            before = self._unfitted.get(name)
            if before is None or before[0] != seen:
                oldest = connection.execute(
                    select(func.min(entry.c.received)).where(entry.c.situation == name, entry.c.seq > seen)
                ).scalar()
                # The system clock gives its age when it is first seen; from then on the monotonic clock counts.
                before = seen, now, max(0.0, wall - oldest) if oldest is not None else 0.0
            kept[name] = before
        self._unfitted = kept
        return {name: now - first + age for name, (_, first, age) in kept.items()}

    def _maps(self, maps: list["MapFacts"]) -> Check:
        behind = sorted((m for m in maps if m.behind), key=lambda m: -m.oldest_unfitted)
        late = any(m.oldest_unfitted > self._settings.late_seconds for m in behind)
        oldest = {m.name: round(m.oldest_unfitted, 1) for m in behind[:MAPS_LISTED]}
        return Check(not late, "late" if late else "ok", {"behind": len(behind), "oldest_unfitted_seconds": oldest})

    def _alerts(self, connection: Connection) -> Check:
        """Messages of alerts that do not arrive: tried several times, or given up recently."""
        c, lately = delivery.c, time.time() - GIVEN_UP_SECONDS
        waiting = (c.state == "waiting") & (c.attempts >= ALERT_ATTEMPTS)
        lost = (c.state == "given up") & (c.created > lately)
        late, given_up = (
            connection.execute(select(func.count()).select_from(delivery).where(which)).scalar() or 0
            for which in (waiting, lost)
        )
        failing = bool(late or given_up)
        detail = {"waiting": late, "given_up": given_up}
        return Check(not failing, "failing" if failing else "ok", detail)

    def _fits(self, maps: list["MapFacts"]) -> Check:
        failing = sorted((m for m in maps if m.failed is not None), key=lambda m: -(m.failed or 0.0))
        detail: dict[str, Any] = {"failing": len(failing), "failures": sum(m.failures for m in maps)}
        if failing:
            last = failing[0]
            detail["last"] = {"situation": last.name, "message": last.failure, "at": last.failed}
            detail["maps"] = [m.name for m in failing[:MAPS_LISTED]]
        return Check(not failing, "failing" if failing else "ok", detail)


@dataclass(frozen=True)
class MapFacts:
    """The facts about one map: its newest version, how far it is behind its log, and since when its fits fail."""

    name: str
    number: int
    seconds: float
    behind: int
    oldest_unfitted: float
    failure: str | None
    failed: float | None
    failures: int


def _kind(error: SQLAlchemyError) -> str:
    """The name of an error. Its text is not used: it may contain values or a password."""
    orig = getattr(error, "orig", None) or error
    return str(getattr(orig, "sqlite_errorname", "") or type(orig).__name__)
