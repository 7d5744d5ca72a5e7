"""Backup, restore, check and purge of a workspace. A backup of either database can be restored into the other."""

import base64
import hashlib
import json
import sqlite3
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, MetaData, delete, func, insert, select, text, update
from sqlalchemy.exc import DatabaseError

from crowdfield import __version__
from crowdfield.errors import CrowdfieldError, InputError
from crowdfield.io.atomic import replacing
from crowdfield.service import tables
from crowdfield.service.database import (
    PRIVATE,
    connect,
    explain_error,
    explaining_errors,
    is_sqlite,
    make_private,
    migrate,
    open_database,
    open_existing,
    revision,
    revisions,
    writing,
)
from crowdfield.service.effort import UNLIMITED, Effort
from crowdfield.service.journal import Entry, Ledger, write
from crowdfield.service.maps import unpack
from crowdfield.service.moments import DAY, PERIOD
from crowdfield.service.store import Store

FORMAT = 1
# The columns with automatic numbers.
COUNTED = (("entry", "seq"), ("event", "id"))
CHUNK = 500
# The largest difference between a map and its replay that is ignored: twice the change that a worker ignores.
SAME_MAP = 0.01
# Errors that damaged rows may cause: in SQLite, JSON, NumPy's archives, or a fit of meaningless numbers.
UNREADABLE = (DatabaseError, CrowdfieldError, ValueError, KeyError, TypeError, ArithmeticError, EOFError, OSError,
              zipfile.BadZipFile)  # fmt: skip


# Backup and restore


def backup(database: str, target: Path) -> dict[str, int]:
    """Write everything to one file, as of one moment; the service may keep running.

    The file can be restored into SQLite or PostgreSQL. Returns the number of rows of each table. Leases and heartbeats
    are left out: they are about processes, not data.
    """
    engine = open_existing(database, pool_size=1)
    counts: dict[str, int] = {}
    sums: dict[str, str] = {}
    try:
        at = revision(engine)
        # One snapshot for all tables; SQLite's read transactions always are one.
        options = {} if is_sqlite(engine) else {"isolation_level": "REPEATABLE READ"}
        with (
            explaining_errors(engine),
            engine.connect().execution_options(**options) as connection,
            connection.begin(),
            replacing(target) as temporary,
            zipfile.ZipFile(_made_private(temporary), "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive,
        ):
            known = _our_tables(connection)
            for table in known.sorted_tables:
                if table.name in tables.TRANSIENT:
                    continue
                digest = hashlib.sha256()
                counts[table.name] = 0
                with archive.open(f"{table.name}.jsonl", "w", force_zip64=True) as out:
                    for row in connection.execution_options(yield_per=CHUNK).execute(select(table)):
                        line = json.dumps([_packed(value) for value in row]).encode() + b"\n"
                        digest.update(line)
                        out.write(line)
                        counts[table.name] += 1
                sums[table.name] = digest.hexdigest()
            about = {
                "format": FORMAT,
                "software": f"crowdfield {__version__}",
                "revision": at,
                "at": time.time(),
                "columns": {name: list(known.tables[name].c.keys()) for name in counts},
                "rows": counts,
                "sha256": sums,
            }
            archive.writestr("backup.json", json.dumps(about, indent=1))
    finally:
        engine.dispose()
    return counts


def _made_private(path: Path) -> Path:
    """Create the file so that only its owner can read it, before names, places and hashes of keys are written to it."""
    path.touch(mode=PRIVATE)
    return path


def restore(source: Path, database: str) -> dict[str, int]:
    """Restore a backup into an empty SQLite or PostgreSQL database, and migrate its tables."""
    if not source.is_file():
        raise InputError(f"there is no file {source}")
    engine = connect(database, pool_size=1)
    try:
        make_private(engine)
        with explaining_errors(engine):
            at = revision(engine)
        if at is not None:
            raise InputError("this database already contains a workspace; restore into an empty one")
        if is_sqlite(engine) and engine.url.database:
            Path(engine.url.database).chmod(PRIVATE)  # an empty file may have existed before
        with zipfile.ZipFile(source) as archive:
            about = json.loads(archive.read("backup.json"))
            if about.get("format") != FORMAT:
                raise InputError(f"{source} has format {about.get('format')}; this version reads {FORMAT}")
            _check_sums(archive, about, source)
            migrate(engine, about["revision"])
            with writing(engine) as connection:
                _fill(connection, archive, about)
        migrate(engine)
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        raise InputError(f"{source} is not a backup that crowdfield wrote, or it is damaged") from error
    finally:
        engine.dispose()
    return dict(about["rows"])


def _check_sums(archive: zipfile.ZipFile, about: dict[str, Any], source: Path) -> None:
    """Compare all checksums before anything is written, so that a damaged backup does not become a damaged
    workspace."""
    for name, expected in about["sha256"].items():
        digest = hashlib.sha256()
        with archive.open(f"{name}.jsonl") as lines:
            while block := lines.read(2**20):
                digest.update(block)
        if digest.hexdigest() != expected:
            raise InputError(f"{source} is damaged: the rows of {name} are not those that were saved")


def _fill(connection: Connection, archive: zipfile.ZipFile, about: dict[str, Any]) -> None:
    """Fill the tables of an empty database from a backup."""
    known = _our_tables(connection)
    for table in known.sorted_tables:
        if table.name not in about["columns"]:
            continue
        names = about["columns"][table.name]
        with archive.open(f"{table.name}.jsonl") as lines:
            for chunk in _chunks(lines):
                rows = [dict(zip(names, map(_unpacked, json.loads(line)), strict=True)) for line in chunk]
                connection.execute(insert(table), rows)
    if connection.dialect.name == "postgresql":
        for name, column in COUNTED:  # new rows continue the numbers of the restored ones
            most = f"SELECT coalesce(max({column}), 0) + 1 FROM {name}"  # noqa: S608 - our own names
            connection.execute(text(f"SELECT setval(pg_get_serial_sequence('{name}', '{column}'), ({most}), false)"))


def _our_tables(connection: Connection) -> MetaData:
    """Our tables in this database, without those of extensions such as PostGIS."""
    known = MetaData()
    known.reflect(connection, only=lambda name, _: name in tables.metadata.tables)
    return known


def _packed(value: Any) -> Any:
    return {"bytes": base64.b64encode(value).decode()} if isinstance(value, bytes | memoryview) else value


def _unpacked(value: Any) -> Any:
    return base64.b64decode(value["bytes"]) if isinstance(value, dict) and set(value) == {"bytes"} else value


def _chunks(lines: Any) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


# Checking


@dataclass
class Findings:
    """The result of a check; without `problems` all is well."""

    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def check(database: str, *, replay: bool = True) -> Findings:
    """Check that the database is intact, that the head of every situation is the end of its log, and that replaying the
    log gives the same map."""
    found = Findings()
    engine = open_existing(database)
    try:
        found.facts["revision"] = at = revision(engine)
        if at not in revisions():
            found.problems.append(
                f"the tables have revision {at}, which this version does not know: upgrade crowdfield"
            )
            return found
        if is_sqlite(engine):
            with engine.connect() as connection:
                said = connection.execute(text("PRAGMA integrity_check")).scalars().all()
                broken = connection.execute(text("PRAGMA foreign_key_check")).all()
            found.problems += [f"SQLite: {line}" for line in said if line != "ok"]
            found.problems += [f"SQLite: a row of {row[0]} refers to a row that does not exist" for row in broken]
        store = Store(engine)
        for situation in store.situations():
            try:
                _check_situation(engine, store, situation.id, found, replay)
            except UNREADABLE as error:
                found.problems.append(f"{situation.id}: its rows cannot be read or fitted ({type(error).__name__})")
    except DatabaseError as error:
        found.problems.append(explain_error(error, engine))
    except ValueError as error:
        found.problems.append(f"the table of situations cannot be read ({type(error).__name__})")
    finally:
        engine.dispose()
    return found


def _check_situation(engine: Engine, store: Store, name: str, found: Findings, replay: bool) -> None:
    """Check one map: its log, its versions and, if asked to, a replay of its log."""
    situation = store.situation(name)
    c = tables.entry.c
    with engine.connect() as connection:
        last = connection.execute(select(func.max(c.seq)).where(c.situation == name)).scalar() or 0
        twice = connection.execute(
            select(c.id).where(c.situation == name).group_by(c.kind, c.id).having(func.count() > 1)
        ).all()
    if situation.head != last:
        found.problems.append(f"{name}: the log ends at {last}, but the stored head is {situation.head}")
    if twice:
        found.problems.append(f"{name}: {len(twice)} entries are stored twice")
    newest = store.version(name)
    facts: dict[str, Any] = {
        "entries": store.counts(name),
        "version": newest.number if newest else None,
        "failure": situation.failure,
    }
    if replay and newest is not None:
        ledger = Ledger(name)
        ledger.follow(engine, upto=newest.head)
        # A coarser map is compared with a replay of the same coarseness.
        coarse = newest.info.get("coarser")
        effort = Effort(coarse["level"], shape=(coarse["rows"], coarse["columns"])) if coarse else UNLIMITED
        from crowdfield.service.fit import map_of_log  # imported here: only replays need the models

        # And a map that moves with one of the same periods.
        made = map_of_log(situation, ledger, effort=effort, period_hours=newest.info.get(PERIOD, DAY))
        assert made is not None  # nothing interrupts it here
        stored = unpack(store.blob(name, newest.number, "arrays"))["probability"]
        facts["replayed"] = float(np.nanmax(np.abs(unpack(made[0].arrays)["probability"] - stored)))
        # While reports come in, a version starts from the previous one; only a map at rest must equal the replay.
        facts["rested"] = bool(newest.info.get("rested"))
        if facts["rested"] and facts["replayed"] > SAME_MAP:
            found.problems.append(f"{name}: the log replays to a map that differs by up to {facts['replayed']:.3f}")
    found.facts[name] = facts


# Retention


def purge(
    database: str, *, older_than: float | None = None, source: str | None = None, situation: str | None = None
) -> dict[str, int]:
    """Delete reports for good: those older than `older_than` seconds, or all of one source; returns how many in each
    situation.

    Their rows are removed and overwritten, together with saved models, which contain reports, and tables of sources.
    The log records that something was purged, but not what. The next map is fitted without them.
    """
    if (older_than is None) == (source is None):
        raise InputError("say what to delete: reports older than an age, or those of one source")
    engine = open_database(database, pool_size=1)
    done: dict[str, int] = {}
    try:
        store = Store(engine)
        names = [situation] if situation is not None else [s.id for s in store.situations()]
        limit = None if older_than is None else time.time() - older_than
        for name in names:
            store.situation(name)
            with writing(engine) as connection:
                count = _purge(connection, name, limit, source)
            if count:
                done[name] = count
        _overwrite(engine)
    finally:
        engine.dispose()
    return done


def _purge(connection: Connection, name: str, limit: float | None, source: str | None) -> int:
    """Delete the reports of a map that are too old, or of one source, with all that was derived from them; returns how
    many."""
    c = tables.entry.c
    here = c.situation == name
    mine = func.coalesce(c.time, c.received) < limit if limit is not None else c.source == source
    gone = select(c.id).where(here, c.kind == "report", mine)
    connection.execute(delete(tables.entry).where(here, c.kind.in_(("retract", "accept")), c.id.in_(gone)))
    which = ("report",) if limit is not None else ("report", "trust")
    count = connection.execute(delete(tables.entry).where(here, c.kind.in_(which), mine)).rowcount
    if not count:
        return 0
    version = tables.version
    connection.execute(delete(tables.state).where(tables.state.c.situation == name))
    connection.execute(update(version).where(version.c.situation == name).values(sources=[]))
    if limit is not None:
        connection.execute(delete(version).where(version.c.situation == name, version.c.created < limit))
    write(connection, [(name, [Entry("purge", f"{time.time():.6f}", value={"entries": count})])])
    return count


def _overwrite(engine: Engine) -> None:
    """Remove deleted rows from the database files."""
    if not is_sqlite(engine):
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for name in ("entry", "version", "state"):
                connection.execute(text(f"VACUUM (FULL) {name}"))
        return
    raw: sqlite3.Connection = engine.raw_connection().driver_connection  # type: ignore[assignment]
    raw.execute("VACUUM")
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
