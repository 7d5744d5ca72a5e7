"""One worker fits a map at a time. A lease runs out by itself, so either of two servers may die at any moment."""

import threading
import time
from types import TracebackType

from sqlalchemy import Connection, Engine, delete, insert, select, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from crowdfield.service.database import writing
from crowdfield.service.tables import lease


def clock(connection: Connection) -> float:
    """The database's clock where several machines share it: their own clocks may disagree."""
    if connection.dialect.name == "postgresql":
        return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
    return time.time()


def acquire(engine: Engine, situation: str, holder: str, seconds: float) -> bool:
    """Take or renew the lease; False where somebody else holds it."""
    try:
        with writing(engine) as connection:
            now = clock(connection)
            free = (lease.c.holder == holder) | (lease.c.until < now)
            taken = connection.execute(
                lease.update().where(lease.c.situation == situation, free).values(holder=holder, until=now + seconds)
            )
            if taken.rowcount:
                return True
            if connection.execute(select(lease.c.holder).where(lease.c.situation == situation)).first():
                return False
            connection.execute(insert(lease).values(situation=situation, holder=holder, until=now + seconds))
            return True
    except IntegrityError:  # both asked for a lease that nobody had yet
        return False


def release(engine: Engine, situation: str, holder: str) -> None:
    with writing(engine) as connection:
        connection.execute(delete(lease).where(lease.c.situation == situation, lease.c.holder == holder))


def holds(connection: Connection, situation: str, holder: str) -> bool:
    """Whether `holder` still has the lease; asked inside the transaction that publishes, and locked until its end."""
    query = select(lease.c.until).where(lease.c.situation == situation, lease.c.holder == holder)
    if connection.dialect.name == "postgresql":
        query = query.with_for_update()
    until = connection.execute(query).scalar()
    return until is not None and until >= clock(connection)


class Keeping:
    """Renews a lease in the background for as long as a fit takes."""

    def __init__(self, engine: Engine, situation: str, holder: str, seconds: float):
        self._arguments = (engine, situation, holder, seconds)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    def __enter__(self) -> "Keeping":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _renew(self) -> None:
        while not self._stop.wait(self._arguments[3] / 3):
            try:
                if not acquire(*self._arguments):
                    return
            except SQLAlchemyError:
                return  # the database is away; publishing checks the lease again and will say so
