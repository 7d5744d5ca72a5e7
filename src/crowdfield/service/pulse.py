"""Heartbeats: each process increments a counter in the database as long as it works.

An observer decides whether the process is alive by how long ago it saw the counter change, by its own monotonic clock.
The clocks of two machines are never compared, so a wrong clock makes no process look dead or alive.
"""

import time
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Connection, Engine, delete, insert, select, update

from crowdfield.service.database import writing
from crowdfield.service.tables import pulse

Kind = Literal["worker", "server"]
# Rows of killed processes are deleted after this many seconds.
SWEPT_AFTER = 86_400.0


@dataclass(frozen=True)
class Pulse:
    """The heartbeat of a process."""

    name: str
    kind: str
    beat: int
    at: float
    data: dict[str, Any]


def beat(connection: Connection, name: str, kind: Kind, data: dict[str, Any]) -> None:
    """Increment the counter of this process, within the caller's transaction."""
    c = pulse.c
    now = time.time()
    moved = connection.execute(update(pulse).where(c.name == name).values(beat=c.beat + 1, at=now, data=data))
    if not moved.rowcount:
        connection.execute(delete(pulse).where(c.kind == kind, c.at < now - SWEPT_AFTER))
        connection.execute(insert(pulse).values(name=name, kind=kind, beat=1, at=now, data=data))


def end(engine: Engine, name: str) -> None:
    """Delete the counter of a process that stops normally."""
    with writing(engine) as connection:
        connection.execute(delete(pulse).where(pulse.c.name == name))


def read(connection: Connection, kind: Kind) -> list[Pulse]:
    """The heartbeats of all processes of a kind."""
    c = pulse.c
    rows = connection.execute(select(c.name, c.kind, c.beat, c.at, c.data).where(c.kind == kind))
    return [Pulse(*row) for row in rows]


@dataclass
class Watch:
    """The counters as one observer last saw them change, with times by its own clock."""

    _seen: dict[str, tuple[int | None, float]] = field(default_factory=dict)
    _moved: set[str] = field(default_factory=set)

    def silent_seconds(self, name: str, counter: int | None) -> float:
        """For how many seconds this observer has not seen the counter change."""
        now = time.monotonic()
        before = self._seen.get(name)
        if before is not None and before[0] == counter:
            return now - before[1]
        self._seen[name] = counter, now
        if before is not None:
            self._moved.add(name)
        return 0.0

    def has_moved(self, name: str) -> bool:
        """Whether this observer has ever seen the counter change; the counter of a dead process never does."""
        return name in self._moved

    def forget_others(self, names: set[str]) -> None:
        """Forget the counters of all other processes."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        self._moved &= names
