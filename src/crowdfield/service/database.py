"""Opening the database of a workspace: SQLite (with a write-ahead log and full sync) or PostgreSQL, with migrations."""

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
# The mode of files that contain names, places or keys: only their owner may read them.
PRIVATE = 0o600
# Numbers of advisory locks. They are arbitrary, but must be the same in every server and worker.
APPEND_LOCK = 7_316_001
MIGRATE_LOCK = 7_316_002
# How long a writer waits for another one to finish.
LOCK_SECONDS = 30.0


def address(database: str) -> str:
    """The SQLAlchemy URL of a database that is given as a file name or a PostgreSQL address."""
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


def connect(database: str, *, pool_size: int = 8, timeout: float | None = None) -> Engine:
    """An engine for either database.

    With `timeout`, a query that takes more seconds than that is cancelled, and every query opens a new connection: an
    open one could hide that the database is gone.
    """
    url = address(database)
    pool: dict[str, Any] = {"pool_size": pool_size} if timeout is None else {"poolclass": NullPool}
    if not url.startswith("sqlite"):
        limits: dict[str, Any] = {}
        if timeout is not None:
            options = f"-c statement_timeout={int(timeout * 1e3)} -c lock_timeout={int(timeout * 1e3)}"
            limits = {"connect_timeout": max(2, int(timeout)), "options": options}
        if timeout is None:
            pool |= {"max_overflow": pool_size, "pool_pre_ping": True}
        return create_engine(url, connect_args=limits, **pool)
    waits = {"timeout": LOCK_SECONDS if timeout is None else timeout, "check_same_thread": False}
    engine = create_engine(url, connect_args=waits, **pool)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # The driver must not begin transactions by itself: `begin` below does, in the right mode.
        connection.isolation_level = None
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",  # a report is acknowledged only once it would survive a power cut
            "foreign_keys=ON",
            "secure_delete=ON",  # deleted rows are overwritten
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
    """Migrate the tables to `revision`; two servers that start together do it only once."""
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


# The place of an entry in PostGIS. The index is used only by queries that contain this very expression.
POINT = "ST_SetSRID(ST_MakePoint(longitude, latitude), 4326)"


def index_points(engine: Engine) -> None:
    """Add a PostGIS index of places if an administrator has installed PostGIS, before the first start or later."""
    if is_sqlite(engine):
        return
    with writing(engine) as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATE_LOCK})
        # Look for one of its functions: the extension may be in a schema that is not on the search path.
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
    """The last migration that was applied, or None where there are no tables yet."""
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def open_database(database: str, *, pool_size: int = 8) -> Engine:
    """The database of a workspace with its tables up to date; a file that does not exist is created."""
    engine = connect(database, pool_size=pool_size)
    make_private(engine)
    with explaining_errors(engine):
        migrate(engine)
        index_points(engine)
    return engine


def make_private(engine: Engine) -> None:
    """Create the file of a new workspace so that only its owner can read it. SQLite gives its other files the same
    mode, but would create the file itself with the default permissions, which let everybody read it on most
    machines."""
    if not is_sqlite(engine) or not engine.url.database or Path(engine.url.database).exists():
        return
    try:
        # It will contain names and places of people.
        Path(engine.url.database).touch(mode=PRIVATE)
    except OSError as error:
        raise InputError(f"{engine.url.database} cannot be created: {error.strerror}") from error


def permission_warnings(database: str) -> list[str]:
    """Warnings about file permissions that let other users read or replace the workspace, and how to fix them."""
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


def open_existing(database: str, *, pool_size: int = 2) -> Engine:
    """The database of a workspace that must exist already; its tables are not migrated."""
    engine = connect(database, pool_size=pool_size)
    if is_sqlite(engine) and engine.url.database and not Path(engine.url.database).is_file():
        raise InputError(f"there is no file {engine.url.database}")
    with explaining_errors(engine):
        if revision(engine) is None:
            raise InputError("there is no crowdfield workspace in this database")
    return engine


@contextmanager
def explaining_errors(engine: Engine) -> Iterator[None]:
    """Turn database errors, such as a damaged file or an unreachable server, into an `InputError` that explains
    them."""
    try:
        yield
    except DatabaseError as error:
        engine.dispose()
        raise InputError(explain_error(error, engine)) from error


# Explanations by the names of SQLite's errors.
_EXPLANATIONS = {
    "SQLITE_NOTADB": "{file} is not a crowdfield database: choose another file, or move this one",
    "SQLITE_CORRUPT": "{file} is damaged: restore the last backup into a new file",
    "SQLITE_FULL": "the disk that holds {file} is full: free some space and start again",
    "SQLITE_READONLY": "{file} cannot be written: check the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "{file} cannot be opened: check that it is a file, and its permissions",
    "SQLITE_BUSY": "{file} is locked by another program: try again when that has finished",
}


def explain_error(error: DatabaseError, engine: Engine) -> str:
    """What is wrong with a database and what to do. The driver's own text is left out: it may contain a password."""
    name = str(getattr(error.orig, "sqlite_errorname", ""))
    for known, words in _EXPLANATIONS.items():
        if name.startswith(known):
            return words.format(file=engine.url.database)
    kind = type(error.orig).__name__
    return f"the database cannot be opened ({kind}): check that it is running, and its file or address"
