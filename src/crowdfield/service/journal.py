"""The append-only log of reports, and the thread that makes many reports durable with one sync.

Everything that is accepted becomes an entry: a report, a retraction, a change of trust, a purge. Entries are never
edited. The map depends only on the entries and their order, so replaying them gives the same map.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Connection, Engine, func, select, text, update
from sqlalchemy.exc import DatabaseError, DataError, IntegrityError, SQLAlchemyError

from crowdfield.errors import CrowdfieldError
from crowdfield.service.database import APPEND_LOCK, writing
from crowdfield.service.tables import entry, situation

log = logging.getLogger("crowdfield.service")
Kind = Literal["report", "retract", "accept", "trust", "region", "states", "private", "moving", "purge"]
Outcome = Literal["stored", "duplicate", "conflict", "retracted"]

# The most entries in one transaction: many, so that a burst of reports shares one sync, but not so many that anybody
# waits noticeably. CHUNK: how many ids are looked up in one query.
BATCH = 5_000
CHUNK = 500
# How long the journal waits for further reports: too short to be noticed, but it saves most transactions of a burst.
LINGER_SECONDS = 0.005


class JournalClosed(CrowdfieldError):
    """The service is stopping. The report was not stored, and should be sent again."""


# The key in the `value` of a report under which the probabilities of all states are stored, if the report has them.
SCORES = "scores"


@dataclass(frozen=True)
class Entry:
    """One entry of the log: a report, a retraction, an acceptance, a change of trust, region, states, privacy or of
    whether the map moves, or a purge."""

    kind: Kind
    id: str
    longitude: float | None = None
    latitude: float | None = None
    label: str | None = None
    source: str | None = None
    time: float | None = None
    text: str | None = None
    value: Any = None
    author: str | None = None
    accuracy: float | None = None
    observations: int | None = None
    received: float | None = None  # set when the entry is stored

    @property
    def scores(self) -> dict[str, float] | None:
        """The probability of every state, if the report has them."""
        return scores_in(self.value) if self.kind == "report" else None

    @property
    def content(self) -> tuple[Any, ...]:
        """What must be equal for two entries with the same id to be duplicates. The accuracy is not compared: older
        reports were stored before it had a column."""
        return (
            self.longitude,
            self.latitude,
            self.label,
            self.source,
            self.time,
            self.text,
            self.value,
            self.observations,
        )


def scores_in(value: Any) -> dict[str, float] | None:
    """The probabilities of all states in the value of a report, if there are any."""
    return value.get(SCORES) if isinstance(value, dict) else None


@dataclass
class _Waiting:
    """Entries of a request that are not stored yet."""

    situation: str
    entries: Sequence[Entry]
    done: "Future[list[Outcome]]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class Journal:
    """Takes entries from any thread, and acknowledges them once their transaction is on the disk."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closed = False
        self.commits = 0
        self.entries = 0
        self._failed: float | None = None
        self._accepted: deque[_Waiting] = deque()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def submit(self, situation_id: str, entries: Sequence[Entry]) -> "Future[list[Outcome]]":
        """A future with the outcome of each entry, which is set once the entries are durable."""
        if self._closed:
            raise JournalClosed("the service is stopping; send the report again in a moment")
        waiting = _Waiting(situation_id, entries)
        # The future can no longer be cancelled: entries are stored even if the sender has disconnected.
        waiting.done.set_running_or_notify_cancel()
        with self._lock:
            self._accepted.append(waiting)
            self._forget_stored()
        self._queue.put(waiting)
        return waiting.done

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """The number of requests whose entries are not stored yet."""
        with self._lock:
            self._forget_stored()
            return len(self._accepted)

    def failing(self) -> float | None:
        """How many seconds ago storing failed last; None if something was stored since."""
        failed = self._failed
        return None if failed is None else time.monotonic() - failed

    def lag(self) -> float:
        """How many seconds the oldest request has waited to be stored."""
        with self._lock:
            self._forget_stored()
            return time.monotonic() - self._accepted[0].since if self._accepted else 0.0

    def _forget_stored(self) -> None:
        while self._accepted and self._accepted[0].done.done():
            self._accepted.popleft()

    def append(self, situation_id: str, entries: Sequence[Entry]) -> list[Outcome]:
        return self.submit(situation_id, entries).result()

    def close(self) -> None:
        """Store the accepted entries, then stop."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while True:
            batch, last = self._gather()
            if batch:
                self._commit(batch)
            if last:
                return

    def _gather(self) -> tuple[list[_Waiting], bool]:
        """The waiting requests that the next transaction stores, and whether the journal is to be closed after it."""
        batch: list[_Waiting] = []
        size = 0
        while size < BATCH:
            try:
                waiting = self._queue.get(block=not batch)
            except queue.Empty:
                break
            if not batch and not self._closed:
                time.sleep(LINGER_SECONDS)
            if waiting is None:
                return batch, True
            batch.append(waiting)
            size += len(waiting.entries)
        return batch, False

    def _commit(self, batch: list[_Waiting]) -> None:
        """Store a batch in one transaction, or request by request if that fails, and set the outcome of each."""
        try:
            with writing(self._engine) as connection:
                outcomes = write(connection, [(w.situation, w.entries) for w in batch])
        except Exception as error:
            if isinstance(error, DatabaseError) and not isinstance(error, DataError | IntegrityError):
                self._failed = time.monotonic()
            if len(batch) == 1:
                if not isinstance(error, SQLAlchemyError | CrowdfieldError):
                    log.exception("a report could not be stored")
                batch[0].done.set_exception(error)
                return
            # One bad request must not fail the others.
            for waiting in batch:
                self._commit([waiting])
            return
        self._failed = None
        self.commits += 1
        self.entries += sum(len(waiting.entries) for waiting in batch)
        for waiting, outcome in zip(batch, outcomes, strict=True):
            waiting.done.set_result(outcome)


def write(connection: Connection, groups: Iterable[tuple[str, Sequence[Entry]]]) -> list[list[Outcome]]:
    """Append to the log within the caller's transaction; returns the outcome of each entry."""
    if connection.dialect.name == "postgresql":
        # Sequence numbers are assigned before the commit: without this lock a reader could see 8 before 7 and skip 7.
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": APPEND_LOCK})
    groups = list(groups)
    now = time.time()
    known: dict[tuple[str, str, str], tuple[Any, ...]] = {}
    for name in {name for name, _ in groups}:
        kinds: dict[str, set[str]] = {}
        for group, entries in groups:
            if group == name:
                for e in entries:
                    kinds.setdefault(e.kind, set()).add(e.id)
        if "report" in kinds:
            # A retracted id stays retracted: a sender who uses it again must learn that the report does not count.
            kinds["retract"] = kinds.get("retract", set()) | kinds["report"]
        for kind, ids in kinds.items():
            known.update(_existing(connection, name, kind, sorted(ids)))
    outcomes: list[list[Outcome]] = []
    rows: list[dict[str, Any]] = []
    touched: set[str] = set()
    for name, entries in groups:
        result: list[Outcome] = []
        for e in entries:
            key = (name, e.kind, e.id)
            if e.kind == "report" and (name, "retract", e.id) in known:
                result.append("retracted")
                continue
            before = known.get(key)
            if before is not None:
                result.append("duplicate" if before == e.content else "conflict")
                continue
            known[key] = e.content
            result.append("stored")
            rows.append(
                {
                    "situation": name, "kind": e.kind, "id": e.id, "longitude": e.longitude, "latitude": e.latitude,
                    "label": e.label, "source": e.source, "time": e.time, "text": e.text, "value": e.value,
                    "author": e.author, "accuracy": e.accuracy, "observations": e.observations,
                    "received": now,
                }
            )  # fmt: skip
            touched.add(name)
        outcomes.append(result)
    if rows:
        connection.execute(entry.insert(), rows)
    for name in touched:
        head = select(func.max(entry.c.seq)).where(entry.c.situation == name).scalar_subquery()
        connection.execute(update(situation).where(situation.c.id == name).values(head=head))
    return outcomes


def _existing(
    connection: Connection, name: str, kind: str, ids: Sequence[str]
) -> Iterator[tuple[tuple[str, str, str], tuple[Any, ...]]]:
    c = entry.c
    columns = (c.id, c.longitude, c.latitude, c.label, c.source, c.time, c.text, c.value, c.observations)
    for start in range(0, len(ids), CHUNK):
        chunk = ids[start : start + CHUNK]
        query = select(*columns).where(c.situation == name, c.kind == kind, c.id.in_(chunk))
        for row in connection.execute(query):
            yield (name, kind, row.id), tuple(row[1:])


@dataclass
class Ledger:
    """The state of one situation after the entries up to `head`: the active reports, and the trust in sources."""

    situation: str
    head: int = 0
    reports: dict[str, Entry] = field(default_factory=dict)
    seq: dict[str, int] = field(default_factory=dict)
    """The log position of each active report."""
    retracted: set[str] = field(default_factory=set)
    trust: dict[str, Any] = field(default_factory=dict)
    invalidated: bool = False
    """Whether an entry since `clear_invalidated` removed or changed something that an earlier model has learned from,
    so that a warm start would be wrong."""

    def follow(self, engine: Engine, *, upto: int | None = None) -> int:
        """Read the new entries of the log (up to `upto`); returns how many."""
        c = entry.c
        columns = (
            c.seq, c.kind, c.id, c.longitude, c.latitude, c.label, c.source, c.time, c.text, c.value, c.author,
            c.accuracy, c.observations, c.received,
        )  # fmt: skip
        query = select(*columns).where(c.situation == self.situation, c.seq > self.head).order_by(c.seq)
        if upto is not None:
            query = query.where(c.seq <= upto)
        with engine.connect() as connection:
            rows = connection.execute(query).all()
        if self.head and any(row.kind == "purge" for row in rows):
            # Entries that were read before may have been deleted: forget everything, and read again what is left.
            self.__init__(self.situation, invalidated=True)  # type: ignore[misc]
            return self.follow(engine, upto=upto)
        for seq, *values in rows:
            self.apply(seq, Entry(*values))
        return len(rows)

    def apply(self, seq: int, e: Entry) -> None:
        """Take in one entry of the log."""
        self.head = seq
        if e.kind == "report" and e.id not in self.retracted:
            self.reports[e.id] = e
            self.seq[e.id] = seq
        elif e.kind == "retract":
            target = str(e.value)
            self.invalidated |= self.reports.pop(target, None) is not None
            self.seq.pop(target, None)
            self.retracted.add(target)
        elif e.kind == "trust":
            self.trust[str(e.source)] = e.value
            self.invalidated = True  # an earlier model used other priors
        elif e.kind in ("region", "states", "private", "moving"):
            self.invalidated = True  # an earlier model used other places, times or states, and perhaps other reports

    def clear_invalidated(self) -> None:
        self.invalidated = False
