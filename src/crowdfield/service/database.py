"""One engine for both databases: SQLite with write-ahead log and full sync, or PostgreSQL. Both migrate on opening."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError
from sqlalchemy.pool import NullPool

from crowdfield.errors import InputError

MIGRATIONS = Path(__file__).parent / "migrations"
# Files with names, places or keys in them are for their owner alone.
PRIVATE = 0o600
# Any number does, so long as every server and every worker asks for the same one.
APPEND_LOCK = 7_316_001
MIGRATE_LOCK = 7_316_002
# How long a writer waits for another one to end.
LOCK_SECONDS = 30.0


def address(database: str) -> str:
    """A file name or a PostgreSQL address, as SQLAlchemy writes it."""
    if "://" not in database:
        return f"sqlite:///{database}"
    try:
        url = make_url(database)
    except ArgumentError as error:
        raise InputError("the database address cannot be read: use a file name or postgresql://…") from error
    if url.get_backend_name() == "postgresql":
        return url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    if url.get_backend_name() == "sqlite":
        return database
    raise InputError(f"crowdfield stores in SQLite or PostgreSQL, not in {url.get_backend_name()}")


def connect(database: str, *, pool_size: int = 8, patience: float | None = None) -> Engine:
    """An engine for either database.

    With `patience`, a question that takes more seconds than that is given up, and every question opens the database
    anew: what a connection remembers could hide that the database is gone.
    """
    url = address(database)
    pool: dict[str, Any] = {"pool_size": pool_size} if patience is None else {"poolclass": NullPool}
    if not url.startswith("sqlite"):
        limits: dict[str, Any] = {}
        if patience is not None:
            options = f"-c statement_timeout={int(patience * 1e3)} -c lock_timeout={int(patience * 1e3)}"
            limits = {"connect_timeout": max(2, int(patience)), "options": options}
        if patience is None:
            pool |= {"max_overflow": pool_size, "pool_pre_ping": True}
        return create_engine(url, connect_args=limits, **pool)
    waits = {"timeout": LOCK_SECONDS if patience is None else patience, "check_same_thread": False}
    engine = create_engine(url, connect_args=waits, **pool)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # The driver must not open transactions by itself: `begin` below says when, and of which kind.
        connection.isolation_level = None
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",  # a report is acknowledged only when it would survive a power cut
            "foreign_keys=ON",
            "secure_delete=ON",  # what retention deletes is overwritten
            "cache_size=-32000",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # Taking the write lock at the start turns a possible deadlock in the middle into a short wait.
        mode = "IMMEDIATE" if connection.get_execution_options().get("writes") else "DEFERRED"
        connection.exec_driver_sql(f"BEGIN {mode}")

    return engine


def is_sqlite(engine: Engine) -> bool:
    """Whether an engine is SQLite."""
    return engine.dialect.name == "sqlite"


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that will write."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        yield connection


def _migrations() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def revisions() -> set[str]:
    """The migrations that this version of crowdfield knows."""
    return {script.revision for script in ScriptDirectory.from_config(_migrations()).walk_revisions()}


def migrate(engine: Engine, revision: str = "head") -> None:
    """Bring the tables to `revision`; two servers that start together do it once."""
    config = _migrations()
    with writing(engine) as connection:
        if not is_sqlite(engine):
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATE_LOCK})
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, revision)
        except CommandError as error:
            raise InputError(
                "this workspace was written by a newer crowdfield; upgrade crowdfield, or restore a backup made with "
                "this version"
            ) from error


# How PostGIS sees the place of an entry; a query is helped by the index only if it says the same.
POINT = "ST_SetSRID(ST_MakePoint(longitude, latitude), 4326)"


def index_points(engine: Engine) -> None:
    """Let PostGIS index the places where an administrator added it, be it before the first start or later."""
    if is_sqlite(engine):
        return
    with writing(engine) as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATE_LOCK})
        # By a function that it brings: the extension may be in a schema that is not searched.
        there = "SELECT 1 FROM pg_proc WHERE proname = 'st_makeenvelope' AND pg_function_is_visible(oid)"
        if connection.execute(text(there)).first():
            connection.execute(text(f"CREATE INDEX IF NOT EXISTS entry_by_point ON entry USING gist ({POINT})"))


def points_indexed(engine: Engine) -> bool:
    """Whether PostGIS indexes the places of reports."""
    if is_sqlite(engine):
        return False
    with engine.connect() as connection:
        return connection.execute(text("SELECT to_regclass('entry_by_point')")).scalar() is not None


def revision(engine: Engine) -> str | None:
    """The migration that the database is at, or None where there are no tables yet."""
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def open_database(database: str, *, pool_size: int = 8) -> Engine:
    """The database of a workspace with its tables up to date; a new file is made where there is none."""
    engine = connect(database, pool_size=pool_size)
    make_private(engine)
    with usable(engine):
        migrate(engine)
        index_points(engine)
    return engine


def make_private(engine: Engine) -> None:
    """Create the file of a new workspace so that only its owner can read it. SQLite gives its side files the same mode,
    but would create the file itself as the umask says: for everybody, on most machines."""
    if not is_sqlite(engine) or not engine.url.database or Path(engine.url.database).exists():
        return
    try:
        # Names and places of people: nobody else on this machine needs to read them.
        Path(engine.url.database).touch(mode=PRIVATE)
    except OSError as error:
        raise InputError(f"{engine.url.database} cannot be created: {error.strerror}") from error


def exposed(database: str) -> list[str]:
    """What others on this machine could do to the file of a workspace, and how to prevent it."""
    url = make_url(address(database))
    if url.get_backend_name() != "sqlite" or not url.database or not Path(url.database).is_file():
        return []
    path = Path(url.database)
    file, folder = path.stat().st_mode, path.absolute().parent.stat().st_mode
    found = []
    if file & (stat.S_IRWXG | stat.S_IRWXO):
        found.append(f"others on this machine can read {path}, which holds names and places: chmod 600 {path}")
    if folder & stat.S_IWOTH and not folder & stat.S_ISVTX:
        found.append(f"everybody on this machine can replace {path}: chmod o-w {path.absolute().parent}")
    return found


def existing(database: str, *, pool_size: int = 2) -> Engine:
    """The database of a workspace that must be there already; its tables are left as they are."""
    engine = connect(database, pool_size=pool_size)
    if is_sqlite(engine) and engine.url.database and not Path(engine.url.database).is_file():
        raise InputError(f"there is no file {engine.url.database}")
    with usable(engine):
        if revision(engine) is None:
            raise InputError("there is no crowdfield workspace in this database")
    return engine


@contextmanager
def usable(engine: Engine) -> Iterator[None]:
    """What a database says of a damaged file or a server that is away becomes an error in our words."""
    try:
        yield
    except DatabaseError as error:
        engine.dispose()
        raise InputError(trouble(error, engine)) from error


# By the names that SQLite gives to its errors.
_TROUBLE = {
    "SQLITE_NOTADB": "{file} is not a database of crowdfield: name another file, or move this one away",
    "SQLITE_CORRUPT": "{file} is damaged: restore the last backup into a new file",
    "SQLITE_FULL": "the disk that holds {file} is full: free some space and start again",
    "SQLITE_READONLY": "{file} cannot be written: who may write it, and its folder?",
    "SQLITE_CANTOPEN": "{file} cannot be opened: is it a file, and may it be read and written?",
    "SQLITE_BUSY": "{file} is locked by another program: try again when that has finished",
}


def trouble(error: DatabaseError, engine: Engine) -> str:
    """What is wrong with a database and what to do; never the driver's own text, which may hold a password."""
    name = str(getattr(error.orig, "sqlite_errorname", ""))
    for known, words in _TROUBLE.items():
        if name.startswith(known):
            return words.format(file=engine.url.database)
    return f"the database does not open ({type(error.orig).__name__}): is it running, and are file and address right?"
