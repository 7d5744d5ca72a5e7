"""Whether the service works: a thread checks it all the time, and requests get the result of the last check.

So requests cause no work: `/health`, `/ready` and `/metrics` report what the last check found. If the check itself
does not end (a database that hangs), they report that.
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

# A database that has not answered a question within this many seconds is told as one that does not answer.
PATIENCE_SECONDS = 5.0
# Reports that wait longer than this to be stored mean that intake is down.
JOURNAL_LAG_SECONDS = 10.0
# A report that could not be stored counts for so many looks, unless one was stored since. Not forever: where nobody
# sends anything any more, because the service is down, the heartbeat decides.
FAILURE_LOOKS = 3
# A check that is overdue by this many seconds says nothing about the present.
STALE_SECONDS = 2 * PATIENCE_SECONDS
# A worker is missed when its heartbeat has stood still for so many lives of a lease: others have its maps by then.
SILENT_LEASES = 2.0
# A worker that is started with the server has this long to show its first heartbeats.
STARTING_SECONDS = 60.0
# Maps named one by one in the details, those that wait longest first.
MAPS_TOLD = 20
# A message of an alert is late after so many attempts, and one that was given up is told for so long.
ALERT_ATTEMPTS, GIVEN_UP_SECONDS = 3, 86400.0


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: a word for everybody with a key, details for admins."""

    ok: bool
    word: str
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Health:
    """What one look found, and when by the monotonic clock."""

    checks: dict[str, Check]
    at: float

    @property
    def intake(self) -> bool:
        """Whether a report that is sent now is stored."""
        return self.checks["database"].ok and self.checks["journal"].ok

    @property
    def status(self) -> Status:
        if not self.intake:
            return "down"
        return "ok" if all(check.ok for check in self.checks.values()) else "degraded"


class Monitor:
    """Looks again and again, on a connection that nobody else uses."""

    def __init__(self, settings: Settings, journal: Journal, metrics: Metrics):
        self._settings, self._journal, self._metrics = settings, journal, metrics
        self.name = f"server-{os.getpid()}-{uuid4().hex[:8]}"
        self._engine: Engine = connect(settings.database, patience=PATIENCE_SECONDS)
        self._began = time.monotonic()
        self._watch = Watch()
        self._unfitted: dict[str, tuple[int, float, float]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._latest: Health | None = None

    def start(self) -> None:
        """Look once, then every `health_seconds` in the background."""
        self.look()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_SECONDS)
            try:
                pulse.end(self._engine, self.name)
            except SQLAlchemyError as error:
                log.warning("the heartbeat could not be ended", extra={"error": type(error).__name__})
        self._engine.dispose()

    def _run(self) -> None:
        while not self._stop.wait(self._settings.health_seconds):
            try:
                self.look()
            except Exception:
                # The look is then too old, and `latest` says so; the next one may work.
                log.exception("health could not be looked at")

    @property
    def running(self) -> bool:
        return self._thread is not None

    def latest(self) -> Health:
        """What the last look found; that it is too old is itself a finding."""
        if self._latest is None or not self.running:
            return self.look()
        age = time.monotonic() - self._latest.at
        if age <= self._settings.health_seconds + STALE_SECONDS:
            return self._latest
        stuck = Check(False, "not answering", {"seconds": round(age, 1)})
        return Health(self._latest.checks | {"database": stuck}, self._latest.at)

    def look(self) -> Health:
        """Look at everything now."""
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
        # Before the status, so that `/metrics` is never behind `/health`.
        self._metrics.health(found, time.monotonic() - began)
        self._latest = found
        return found

    # One thing each

    def _database(self) -> Check:
        """Really written: a heartbeat of this server, durably, as a report would be."""
        began = time.monotonic()
        try:
            with writing(self._engine) as connection:
                pulse.beat(connection, self.name, "server", {})
        except SQLAlchemyError as error:
            return Check(False, "not writable", {"error": _kind(error)})
        return Check(True, "ok", {"write_seconds": round(time.monotonic() - began, 4)})

    def _journal_check(self) -> Check:
        """How long the oldest report that is waiting has waited to be stored."""
        lag, waiting = self._journal.lag(), self._journal.waiting
        detail = {"lag_seconds": round(lag, 3), "waiting": waiting, "commits": self._journal.commits}
        if not self._journal.alive:
            return Check(False, "stopped", detail)
        failed = self._journal.failing()
        if failed is not None and failed < FAILURE_LOOKS * self._settings.health_seconds:
            return Check(False, "failing", detail)
        return Check(lag <= JOURNAL_LAG_SECONDS, "ok" if lag <= JOURNAL_LAG_SECONDS else "late", detail)

    def _disk(self) -> Check:
        """Room where the database is, if that is a file, and where imports are unpacked."""
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
        """Whether any worker of this database is alive. None at all is as wanted where nothing waits for one."""
        limit = SILENT_LEASES * self._settings.lease_seconds
        pulses = pulse.read(connection, "worker")
        silent = {p.name: self._watch.silent(p.name, p.beat) for p in pulses}
        self._watch.only(set(silent))
        alive = [p for p in pulses if silent[p.name] <= limit and self._watch.moved(p.name)]
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
        """What is known of each map. A version's arrays are never read, only its first columns."""
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
        """For how many seconds the oldest entry after each position has waited for a map."""
        now, wall = time.monotonic(), time.time()
        kept: dict[str, tuple[int, float, float]] = {}
        for name, seen in behind.items():
            before = self._unfitted.get(name)
            if before is None or before[0] != seen:
                oldest = connection.execute(
                    select(func.min(entry.c.received)).where(entry.c.situation == name, entry.c.seq > seen)
                ).scalar()
                # The clock on the wall says how old it was when it was first seen; from then on it is not asked again.
                before = seen, now, max(0.0, wall - oldest) if oldest is not None else 0.0
            kept[name] = before
        self._unfitted = kept
        return {name: now - first + age for name, (_, first, age) in kept.items()}

    def _maps(self, maps: list["MapFacts"]) -> Check:
        behind = sorted((m for m in maps if m.behind), key=lambda m: -m.oldest_unfitted)
        late = any(m.oldest_unfitted > self._settings.late_seconds for m in behind)
        oldest = {m.name: round(m.oldest_unfitted, 1) for m in behind[:MAPS_TOLD]}
        return Check(not late, "late" if late else "ok", {"behind": len(behind), "oldest_unfitted_seconds": oldest})

    def _alerts(self, connection: Connection) -> Check:
        """Messages of alerts that do not arrive: tried again and again, or given up lately."""
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
            detail["maps"] = [m.name for m in failing[:MAPS_TOLD]]
        return Check(not failing, "failing" if failing else "ok", detail)


@dataclass(frozen=True)
class MapFacts:
    """What is known of one map: its newest version, how far behind it is, and since when its fits fail."""

    name: str
    number: int
    seconds: float
    behind: int
    oldest_unfitted: float
    failure: str | None
    failed: float | None
    failures: int


def _kind(error: SQLAlchemyError) -> str:
    """The name of an error; its text may hold values or a password."""
    orig = getattr(error, "orig", None) or error
    return str(getattr(orig, "sqlite_errorname", "") or type(orig).__name__)
