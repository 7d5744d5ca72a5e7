"""Migrations from the first version on, backups between databases, checks that find damage, deletion that deletes."""

import sqlite3
import time
from pathlib import Path

import pytest
from sqlalchemy import event, inspect, text
from tests.service.workspace import FLOOD, HERE

from crowdfield.data import Region
from crowdfield.errors import InputError
from crowdfield.service import operations, tables
from crowdfield.service.database import connect, migrate, open_database, revision


def test_every_migration_leads_to_the_tables_that_the_code_uses(database):
    engine = connect(database)
    for step in ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0009", "head"):
        migrate(engine, step)
        with engine.connect() as connection:  # a workspace of each version takes rows, and keeps them
            connection.execute(text("SELECT count(*) FROM situation"))
    with engine.connect() as connection:
        found = inspect(connection)
        for table in tables.metadata.tables.values():
            columns = {column["name"]: column["nullable"] for column in found.get_columns(table.name)}
            assert columns == {c.name: c.nullable for c in table.c}, table.name
            names = {index["name"] for index in found.get_indexes(table.name)}
            assert {index.name for index in table.indexes} <= names
    engine.dispose()


def test_a_workspace_of_the_first_version_keeps_its_rows(database):
    engine = connect(database)
    migrate(engine, "0001")
    values = {
        "states": '["a", "b"]', "region": "[2.0, 3.0, 50.0, 51.0]", "crs": "EPSG:32631",
        "model": '{"inference": "gibbs"}',
    }  # fmt: skip
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(
            text(
                "INSERT INTO situation (id, title, states, labels, region, crs, extent, columns, rows, model, created)"
                " VALUES ('old', 'Old', :states, :states, :region, :crs, :region, 4, 4, :model, 0)"
            ),
            values,
        )
        connection.execute(
            text("INSERT INTO entry (situation, kind, id, label, received) VALUES ('old', 'report', 'r', 'a', 1.5)")
        )
    engine.dispose()
    engine = open_database(database)
    from crowdfield.service.store import Store

    old = Store(engine).situation("old")
    assert old.states == ("a", "b") and old.failure is None
    assert old.model["inference"] == "auto"  # a live map never could be fitted with gibbs
    assert old.region._asdict() == {"west": 2, "south": 50, "east": 3, "north": 51}  # it was west, east, south, north
    assert [(row.id, row.accuracy) for row in Store(engine).active_reports("old")] == [("r", None)]
    engine.dispose()


@pytest.fixture
def filled(workspace):
    """A map with reports, one of them retracted, a trusted source, and words that must not outlive a purge."""
    client = workspace.client("admin")
    rows = [
        HERE | {"label": "flooded", "source": f"witness {i % 3}", "id": f"r{i}", "text": f"secretword{i % 3}"}
        for i in range(9)
    ]
    assert client.post("/situations/flood/reports", json=rows).json()["stored"] == 9
    assert client.delete("/situations/flood/reports/r0").status_code == 202
    client.put("/situations/flood/sources/witness 1/trust", json={"level": "high"})
    workspace.fit()
    return workspace


def content(database):
    engine = connect(database)
    with engine.connect() as connection:
        rows = {
            name: sorted(map(repr, connection.execute(table.select()).all()))
            for name, table in tables.metadata.tables.items()
            if name not in tables.TRANSIENT
        }
    engine.dispose()
    return rows


def test_a_backup_restores_into_either_database_and_back(filled, database, tmp_path):
    saved, again = tmp_path / "backup.zip", tmp_path / "again.zip"
    counts = operations.backup(filled.settings.database, saved)
    assert counts["entry"] == 11 and saved.stat().st_mode & 0o077 == 0
    target = f"{database}.restored" if "://" not in database else database
    assert operations.restore(saved, target) == counts
    assert content(target) == content(filled.settings.database)
    operations.backup(target, again)
    back = tmp_path / "back.db"
    operations.restore(again, str(back))
    assert content(str(back)) == content(filled.settings.database)
    found = operations.check(target)
    assert not found.problems
    assert found.facts["flood"]["replayed"] < operations.SAME_MAP


def test_a_restored_log_continues_its_numbering(filled, database, tmp_path, make_workspace):
    saved = tmp_path / "backup.zip"
    operations.backup(filled.settings.database, saved)
    target = f"{database}.restored" if "://" not in database else database
    operations.restore(saved, target)
    space = make_workspace(target)
    receipt = space.client("admin").post("/situations/flood/reports", json=HERE | {"label": "dry"}).json()
    assert receipt["stored"] == 1
    assert space.service.store.situation("flood").head == 12


@pytest.mark.parametrize("damage", ["cut", "changed", "not a zip", "missing", "filled"])
def test_a_damaged_backup_is_refused_before_anything_is_written(filled, tmp_path, damage):
    saved, target = tmp_path / "backup.zip", tmp_path / "new.db"
    operations.backup(filled.settings.database, saved)
    whole = saved.read_bytes()
    if damage == "cut":
        saved.write_bytes(whole[: len(whole) // 2])
    elif damage == "changed":
        import zipfile

        with zipfile.ZipFile(saved) as old:
            parts = {name: old.read(name) for name in old.namelist()}
        parts["entry.jsonl"] = parts["entry.jsonl"].replace(b"flooded", b"dryyyyy", 1)
        with zipfile.ZipFile(saved, "w") as new:
            for name, part in parts.items():
                new.writestr(name, part)
    elif damage == "not a zip":
        saved.write_text("hello")
    elif damage == "missing":
        saved.unlink()
    else:
        target = Path(filled.settings.database)
    with pytest.raises(InputError):
        operations.restore(saved, str(target))
    if damage != "filled":
        assert not target.exists() or revision(connect(str(target))) is None


def test_a_check_finds_what_is_wrong(filled):
    path = filled.settings.database
    assert not operations.check(path).problems
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE situation SET head = head + 5")
        connection.execute("UPDATE version SET head = 3")  # then the log up to there gives another map
    problems = operations.check(path).problems
    assert any("head" in p for p in problems) and any("replays" in p for p in problems)


def raw(database: str) -> bytes:
    return b"".join(Path(f"{database}{end}").read_bytes() for end in ("", "-wal") if Path(f"{database}{end}").exists())


def test_a_purged_source_leaves_no_trace_in_the_files(filled):
    path = filled.settings.database
    assert b"secretword1" in raw(path) and b"witness 1" in raw(path)
    assert operations.purge(path, source="witness 1") == {"flood": 4}  # three reports and its trust
    assert b"secretword1" not in raw(path) and b"witness 1" not in raw(path)
    assert b"secretword2" in raw(path)
    filled.fit()
    newest = filled.service.store.version("flood")
    assert newest.reports == 5
    assert not operations.check(path).problems


def test_old_reports_go_by_their_age_and_the_worker_notices(filled):
    client = filled.client("admin")
    old = HERE | {"label": "flooded", "source": "yesterday", "time": time.time() - 86_400, "text": "oldwords"}
    client.post("/situations/flood/reports", json=old)
    filled.fit()
    assert filled.service.store.version("flood").reports == 9
    assert operations.purge(filled.settings.database, older_than=3600.0) == {"flood": 1}
    assert b"oldwords" not in raw(filled.settings.database)
    filled.fit()  # the same worker, which had read the old report
    assert filled.service.store.version("flood").reports == 8
    assert operations.purge(filled.settings.database, older_than=3600.0) == {}


def test_purging_works_on_postgresql(postgres, make_workspace):
    space = make_workspace(postgres())
    client = space.client("admin")
    client.post("/situations", json=FLOOD)
    client.post("/situations/flood/reports", json=[HERE | {"label": "dry", "source": s} for s in ("a", "b")])
    assert operations.purge(space.settings.database, source="a") == {"flood": 1}
    assert [row.source for row in space.service.store.active_reports("flood")] == ["b"]


@pytest.mark.parametrize("wrong", [{}, {"older_than": 1.0, "source": "x"}])
def test_a_purge_without_an_age_or_a_source_is_refused(workspace, wrong):
    with pytest.raises(InputError, match="say what"):
        operations.purge(workspace.settings.database, **wrong)


def test_check_backup_keys_and_retention_work_from_the_command_line(filled, tmp_path, capsys):
    import json

    from crowdfield.cli import main

    database = filled.settings.database

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([*map(str, arguments), "--database", database, "--json"])
        return stop.value.code, json.loads(capsys.readouterr().out or "null")

    assert run("check", "--no-replay")[0] == 0
    assert run("backup", tmp_path / "b.zip")[1]["rows"]["entry"] == 11
    assert run("keys", "create", "--name", "Bob", "--role", "trusted")[1]["key"].startswith("cf_")
    listed = run("keys")[1]["keys"]
    assert run("keys", "revoke", listed[-1]["id"])[0] == 0
    assert run("keys")[1]["keys"][-1]["revoked"]
    assert run("keys", "create", "--name", "Eve", "--role", "emperor")[0] == 1
    assert run("retention", "--older-than", "90d")[1] == {"deleted": {}}
    assert run("retention", "--older-than", "soon")[0] == 1
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE situation SET head = 99")
    assert run("check", "--no-replay")[0] == 1


@pytest.fixture
def postgis(postgres):
    """A PostgreSQL database, and what an administrator does to it."""
    address = postgres()
    engine = connect(address)
    with engine.connect() as connection:
        there = connection.execute(text("SELECT 1 FROM pg_available_extensions WHERE name = 'postgis'")).first()
    if there is None:
        pytest.skip("PostGIS is not installed; `make test` as root installs it")

    def add():
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            connection.execute(text("CREATE EXTENSION postgis"))

    yield address, add
    engine.dispose()


@pytest.mark.parametrize("later", [False, True], ids=["before the first start", "later"])
def test_postgis_finds_reports_by_its_index(postgis, make_workspace, later):
    address, add = postgis
    if later:
        open_database(address).dispose()
    add()
    space = make_workspace(address)
    space.client("admin").post("/situations", json=FLOOD).raise_for_status()
    side = [round(0.01 * k, 2) for k in range(50)]
    rows = [
        {"longitude": -72.55 + x, "latitude": 18.25 + y, "label": "dry", "id": f"{x} {y}"} for x in side for y in side
    ]
    assert space.client("admin").post("/situations/flood/reports", json=rows).json()["stored"] == 2500
    box = Region(-72.4005, 18.4495, -72.3795, 18.4605)  # 3 columns and 2 rows of places
    asked = []
    engine = space.service.engine
    event.listen(engine, "before_cursor_execute", lambda _c, _cursor, sql, given, *_: asked.append((sql, given)))
    found = {row.id for row in space.service.store.active_reports("flood", box=box)}
    assert found == {f"{x} {y}" for x in (0.15, 0.16, 0.17) for y in (0.2, 0.21)}
    sql, given = next(a for a in asked if "ST_MakeEnvelope" in a[0])
    with engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE entry")
        plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {sql}", given).scalars())
    assert "entry_by_point" in plan, plan
    # Across the antimeridian the plain index serves.
    assert len(space.service.store.active_reports("flood", box=Region(170.0, 18.0, -72.3995, 19.0))) == 16 * 50


def test_a_backup_goes_from_postgis_to_postgis_without_its_tables(postgis, postgres, filled, tmp_path):
    address, add = postgis
    add()
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    counts = operations.backup(filled.settings.database, first)
    assert operations.restore(first, address) == counts
    assert operations.backup(address, second) == counts
    assert content(address) == content(filled.settings.database)
