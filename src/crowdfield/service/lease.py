"""One worker fits a map at a time: it holds the lease of the map for as long as its heartbeat moves.

A worker that dies keeps its leases until others have watched its heartbeat stand still for `lease_seconds`, each by its
own monotonic clock (see `pulse`). Publishing asks for the lease once more, inside its own transaction.
"""

from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from crowdfield.service.database import writing
from crowdfield.service.pulse import Watch
from crowdfield.service.tables import lease, pulse


class Leases:
    """The leases of one worker, and what it has seen of the workers that hold the others."""

    def __init__(self, engine: Engine, holder: str, seconds: float):
        self._engine, self._holder, self._seconds = engine, holder, seconds
        self._watch = Watch()

    def acquire(self, situation: str) -> bool:
        """Whether this worker holds the lease now; takes it where nobody does, or where the holder has gone silent."""
        with self._engine.connect() as connection:
            query = select(lease.c.holder, pulse.c.beat).select_from(
                lease.outerjoin(pulse, pulse.c.name == lease.c.holder)
            )
            found = connection.execute(query.where(lease.c.situation == situation)).first()
        if found is not None and found.holder == self._holder:
            return True
        if found is not None and self._watch.silent(found.holder, found.beat) < self._seconds:
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
        except IntegrityError:  # both asked for a lease that nobody had yet, or the situation was removed
            return False

    def release(self, *situations: str) -> None:
        """Give leases back, so that another worker need not wait."""
        if situations:
            with writing(self._engine) as connection:
                mine = lease.c.situation.in_(situations), lease.c.holder == self._holder
                connection.execute(delete(lease).where(*mine))

    def release_all(self) -> None:
        with writing(self._engine) as connection:
            connection.execute(delete(lease).where(lease.c.holder == self._holder))


def holds(connection: Connection, situation: str, holder: str) -> bool:
    """Whether `holder` still has the lease; asked inside the transaction that publishes, and locked until its end."""
    query = select(lease.c.holder).where(lease.c.situation == situation, lease.c.holder == holder)
    if connection.dialect.name == "postgresql":
        query = query.with_for_update()
    return connection.execute(query).first() is not None
