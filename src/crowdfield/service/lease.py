"""Only one worker at a time fits a map: the one that holds its lease, as long as that worker's heartbeat moves.

A worker that dies keeps its leases until another one has seen its heartbeat unchanged for `lease_seconds`, measured by
the other's monotonic clock (see `pulse`). The transaction that publishes a version checks the lease once more.
"""

from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from crowdfield.service.database import writing
from crowdfield.service.pulse import Watch
from crowdfield.service.tables import lease, pulse


class Leases:
    """The leases of one worker, and the heartbeats that it has seen of other workers."""

    def __init__(self, engine: Engine, holder: str, seconds: float):
        self._engine, self._holder, self._seconds = engine, holder, seconds
        self._watch = Watch()

    def acquire(self, situation: str) -> bool:
        """Whether this worker holds the lease now. It takes the lease if nobody has it, or if its holder seems dead."""
        with self._engine.connect() as connection:
            query = select(lease.c.holder, pulse.c.beat).select_from(
                lease.outerjoin(pulse, pulse.c.name == lease.c.holder)
            )
            found = connection.execute(query.where(lease.c.situation == situation)).first()
        if found is not None and found.holder == self._holder:
            return True
        if found is not None and self._watch.silent_seconds(found.holder, found.beat) < self._seconds:
            return False
        try:
            with writing(self._engine) as connection:
                if found is None:
                    connection.execute(insert(lease).values(situation=situation, holder=self._holder))
                    return True
                mine = update(lease).values(holder=self._holder)
                return bool(
                    connection.execute(
                        mine.where(lease.c.situation == situation, lease.c.holder == found.holder)
                    ).rowcount
                )
        except IntegrityError:  # two workers took a free lease at once, or the situation was removed
            return False

    def release(self, *situations: str) -> None:
        """Give up leases, so that another worker need not wait."""
        if situations:
            with writing(self._engine) as connection:
                mine = lease.c.situation.in_(situations), lease.c.holder == self._holder
                connection.execute(delete(lease).where(*mine))

    def release_all(self) -> None:
        with writing(self._engine) as connection:
            connection.execute(delete(lease).where(lease.c.holder == self._holder))


def holds(connection: Connection, situation: str, holder: str) -> bool:
    """Whether `holder` still has the lease. Called in the transaction that publishes; the lease is locked until its
    end."""
    query = select(lease.c.holder).where(lease.c.situation == situation, lease.c.holder == holder)
    if connection.dialect.name == "postgresql":
        query = query.with_for_update()
    return connection.execute(query).first() is not None
