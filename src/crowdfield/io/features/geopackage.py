"""GeoPackage: an SQLite database, opened read-only by SQLite itself, asked for nothing but the cells of one table.

A database from a stranger can hold views, triggers, virtual tables and computed columns, all of which run code when
they are queried. So only plain tables are queried, no function may be called, and no other file is opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from crowdfield.errors import ReportFormatError
from crowdfield.io import limits, systems
from crowdfield.io.features.common import Features, broken, cells, too_many_columns
from crowdfield.io.features.shapes import from_wkb
from crowdfield.io.kinds import Found, pick
from crowdfield.io.limits import Allowance
from crowdfield.io.opening import document, too_much

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
_LONGEST_VALUE = 64 * 2**20  # bytes of a cell or of the text of a table's definition
_ENVELOPE = (0, 32, 48, 48, 64)  # bytes of the box before a geometry, by the header's indicator
_BATCH = 10_000


def read(path: Path, found: Found) -> Features:
    """The features of a layer."""
    connection = sqlite3.connect(":memory:" if found.member or found.gzipped else _address(path), uri=True)
    try:
        if found.member or found.gzipped:
            connection.deserialize(document(path, found))
        _confine(connection)
        return _Layers(connection, path, found).wanted()
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError):
        raise broken(path, found, "the database is damaged, or is not a GeoPackage") from None
    finally:
        connection.close()


def _address(path: Path) -> str:
    # Immutable: SQLite neither locks the file nor looks for a journal beside it.
    return f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"


def _confine(connection: sqlite3.Connection) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, limits.MOST_COLUMNS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")
    connection.execute("PRAGMA query_only = ON")
    connection.text_factory = lambda value: value.decode("utf-8", "replace")
    connection.set_authorizer(_authorise)


def _authorise(action: int, first: str | None, second: str | None, *_: Any) -> int:
    described = action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo"
    return sqlite3.SQLITE_OK if action in _ALLOWED or described else sqlite3.SQLITE_DENY


class _Layers:
    """The feature tables of a GeoPackage."""

    def __init__(self, connection: sqlite3.Connection, path: Path, found: Found) -> None:
        self._connection, self._path, self._found = connection, path, found

    def wanted(self) -> Features:
        """The only layer, or the one that was asked for; of several one must be named."""
        tables = {
            str(name): str(sql)
            for name, sql in self._rows("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL")
        }
        if not {"gpkg_contents", "gpkg_geometry_columns", "gpkg_spatial_ref_sys"} <= tables.keys():
            raise ReportFormatError(
                "is an SQLite database but not a GeoPackage. Save its points as GeoPackage, GeoJSON or CSV.",
                file=str(self._path),
            )
        named = [str(row[0]) for row in self._rows("SELECT table_name FROM gpkg_contents WHERE data_type = 'features'")]
        if not named:
            raise ReportFormatError("has no geometry: none of its tables contains places.", file=str(self._path))
        name = named[0] if len(named) == 1 and self._found.layer is None else self._pick(named)
        if name not in tables or tables[name].lstrip().upper().startswith("CREATE VIRTUAL"):
            raise ReportFormatError(
                f"its layer '{name[:60]}' is a view or a computed table, which is not read. Save it as a layer of its "
                "own.",
                file=str(self._path),
            )
        return self._layer(name)

    def _pick(self, named: list[str]) -> str:
        return pick(named, self._found.layer, self._path, what="layers")

    def _layer(self, name: str) -> Features:
        about = [
            (str(column), number)
            for table, column, number in self._rows(
                "SELECT table_name, column_name, srs_id FROM gpkg_geometry_columns LIMIT 10000"
            )
            if str(table).lower() == name.lower()
        ]
        columns = self._columns(name)
        if not about or about[0][0] not in columns:
            raise ReportFormatError("has no geometry: its table contains no places.", file=str(self._path))
        geometry, number = about[0]
        others = [column for column in columns if column != geometry]
        asked = ", ".join(_quoted(column) for column in [geometry, *others])
        blobs: list[bytes | None] = []
        values: list[list[Any]] = [[] for _ in others]
        for row in self._rows(f"SELECT {asked} FROM {_quoted(name)}"):  # noqa: S608 - names are quoted
            blobs.append(_geometry(row[0]))
            for column, value in zip(values, row[1:], strict=True):
                column.append(value)
        shapes, kinds = from_wkb(blobs)
        texts = {
            column: cells(_truths(value) if columns[column].upper() == "BOOLEAN" else value)
            for column, value in zip(others, values, strict=True)
        }
        return Features(texts, shapes, kinds, self._system(number))

    def _columns(self, name: str) -> dict[str, str]:
        """The plain columns of a table and their types; a primary key is only the row's number."""
        described = list(self._rows(f"PRAGMA table_xinfo({_quoted(name)})"))
        if len(described) > limits.MOST_COLUMNS:
            raise too_many_columns(self._path)
        return {
            str(column): str(kind)
            for _, column, kind, _, _, key, hidden in described
            if not hidden and not (key and str(kind).upper() == "INTEGER")
        }

    def _system(self, number: Any) -> str | None:
        if not isinstance(number, int) or number in (-1, 0):
            return None  # what GeoPackage calls undefined
        rows = self._rows("SELECT srs_id, organization, organization_coordsys_id, definition FROM gpkg_spatial_ref_sys")
        for own, organisation, code, definition in rows:
            if own == number:
                try:
                    if str(organisation).upper() in ("EPSG", "ESRI") and isinstance(code, int):
                        return systems.by_number(str(organisation).upper(), code)
                    return systems.by_definition(str(definition))
                except systems.UnknownSystem as problem:
                    raise ReportFormatError(f"{problem}.", file=str(self._path)) from None
        return None

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """The answer to a query. A damaged database can show one page a thousand times, so what comes is counted."""
        allowance = Allowance(self._path.stat().st_size)
        cursor = self._connection.execute(query)
        while rows := cursor.fetchmany(_BATCH):
            count = sum(
                limits.ROW_OVERHEAD + sum(len(value) for value in row if isinstance(value, str | bytes)) for row in rows
            )
            if not allowance.take(count):
                raise too_much(self._path)
            yield from rows


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _truths(values: list[Any]) -> list[Any]:
    return [value if value is None else bool(value) for value in values]


def _geometry(value: Any) -> bytes | None:
    """The well-known binary in a GeoPackage geometry, behind its header."""
    if not isinstance(value, bytes) or len(value) < 8 or value[:2] != b"GP":
        return None
    flags = value[3]
    indicator = (flags >> 1) & 0b111
    if flags & 0x20 or indicator >= len(_ENVELOPE):  # an extended geometry, or no GeoPackage
        return None
    return value[8 + _ENVELOPE[indicator] :]
