"""What is stored besides the log: situations, map versions and events; and queries for reports."""

import time
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Engine, Select, delete, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from crowdfield.data import Region
from crowdfield.errors import CrowdfieldError
from crowdfield.service import lease
from crowdfield.service.database import POINT, points_indexed, writing
from crowdfield.service.journal import Entry, write
from crowdfield.service.records import LAYOUT, Event, Published, Situation, VersionInfo
from crowdfield.service.tables import entry, event, situation, state, version


class Unknown(CrowdfieldError):
    """There is nothing with this name or number."""


class Taken(CrowdfieldError):
    """The name is in use already."""


class InUse(CrowdfieldError):
    """Something else depends on it, or a limit on their number is reached."""


def no_situation(name: str) -> Unknown:
    """The error for a map that does not exist."""
    return Unknown(f"there is no situation '{name}'; GET /situations lists those there are")


class Store:
    """Situations, versions and events in the database."""

    def __init__(self, engine: Engine):
        self.engine = engine

    @cached_property
    def _points_indexed(self) -> bool:
        return points_indexed(self.engine)

    # Situations

    def create(self, new: Situation) -> None:
        values = {name: getattr(new, name) for name in situation.c.keys()}  # noqa: SIM118 - columns, not a dict
        try:
            with writing(self.engine) as connection:
                connection.execute(insert(situation).values({k: _as_json(v) for k, v in values.items()}))
        except IntegrityError as error:
            raise Taken(f"there is already a situation '{new.id}'; choose another id or use that one") from error

    def situations(self) -> list[Situation]:
        with self.engine.connect() as connection:
            rows = connection.execute(select(situation).order_by(situation.c.created.desc(), situation.c.id))
            return [_situation(row) for row in rows]

    def situation(self, name: str) -> Situation:
        with self.engine.connect() as connection:
            row = connection.execute(select(situation).where(situation.c.id == name)).first()
        if row is None:
            raise no_situation(name)
        return _situation(row)

    def latest(self, among: frozenset[str] | None = None, *, access: Collection[str] | None = None) -> Situation:
        """The situation that was created last (among those in `among`, and those with one of these values of `access`),
        with archived ones after all others: the one that `/tiles/…` shows."""
        every = [one for one in self.situations() if among is None or one.id in among]
        found = [one for one in every if access is None or one.access in access]
        if not found:
            raise Unknown("there is no situation yet; POST /situations or drop a file on the page to start one")
        return min(found, key=lambda one: one.archived)

    def remove(self, name: str) -> None:
        with writing(self.engine) as connection:
            if not connection.execute(delete(situation).where(situation.c.id == name)).rowcount:
                raise Unknown(f"there is no situation '{name}'")

    def change(self, changed: Situation) -> None:
        """Change the title or the options; the log and the versions stay."""
        values = {"title": changed.title, "model": changed.model}
        with writing(self.engine) as connection:
            if not connection.execute(update(situation).where(situation.c.id == changed.id).values(values)).rowcount:
                raise Unknown(f"there is no situation '{changed.id}'")

    def change_region(self, changed: Situation, note: Entry) -> None:
        """Give a map another region or grid. Its versions are removed; the log stays, with an entry of the change."""
        self._replace_layout(changed, note, ("region", "crs", "extent", "columns", "rows"))

    def change_states(self, changed: Situation, note: Entry) -> None:
        """Give a map other states or labels. Its versions are removed, as with another region."""
        self._replace_layout(changed, note, ("states", "labels"))

    def change_private(self, changed: Situation, note: Entry) -> None:
        """Make a map private, or no longer private. Its versions are removed: those of a private map show what single
        reports say, and exact places can be computed from them."""
        self._replace_layout(changed, note, ("title", "model"))

    def _replace_layout(self, changed: Situation, note: Entry, columns: Sequence[str]) -> None:
        """Change the layout of a map in one transaction: a note in the log, the new layout, and no versions of the old
        one."""
        with writing(self.engine) as connection:
            here = situation.c.id == changed.id
            before = connection.execute(select(situation.c.numbered).where(here)).scalar()
            if before is None:
                raise Unknown(f"there is no situation '{changed.id}'")
            # Lock the log first, then the row of the situation, as intake does. In the other order the two could wait
            # for each other.
            write(connection, [(changed.id, [note])])
            unread = self._labels(connection, changed.id) - set(changed.labels) if "labels" in columns else set()
            if unread:
                raise InUse(f"reports use the labels {', '.join(sorted(unread))}, so the map must keep them")
            last = connection.execute(
                select(func.max(version.c.number)).where(version.c.situation == changed.id)
            ).scalar()
            values = {name: _as_json(getattr(changed, name)) for name in columns}
            values |= {"numbered": max(before, last or 0), "failure": None, "failed": None}
            connection.execute(update(situation).where(here).values(values))
            connection.execute(delete(version).where(version.c.situation == changed.id))
            connection.execute(delete(state).where(state.c.situation == changed.id))

    @staticmethod
    def _labels(connection: Connection, name: str) -> set[str]:
        """The labels of the active reports of a map."""
        c = entry.c
        query = select(c.label).where(c.situation == name, c.kind == "report", ~_retraction(name).exists()).distinct()
        return set(connection.execute(query).scalars())

    def access(self, names: Collection[str]) -> dict[str, str]:
        """Who may see each of these maps; those that do not exist are left out."""
        return {one.id: one.access for one in self.situations() if one.id in names}

    # Reports in the log

    def entry(self, name: str, report: str) -> Any:
        """An active report, or None if there is no such report or it was retracted."""
        c = entry.c
        with self.engine.connect() as connection:
            query = select(entry).where(c.situation == name, c.id == report, c.kind == "report")
            gone = select(c.seq).where(c.situation == name, c.kind == "retract", c.id == report)
            return None if connection.execute(gone).first() else connection.execute(query).first()

    def active_reports(
        self,
        name: str,
        *,
        box: Region | None = None,
        since: float | None = None,
        until: float | None = None,
        after: int = 0,
        limit: int | None = None,
        upto: int | None = None,
        newest: int | None = None,
        columns: Sequence[str] = (),
    ) -> list[Any]:
        """The active reports (those that were not retracted), in the order of the log.

        box: west, south, east, north; since, until: times of events; after, upto: log positions; newest: only the last
        so many; columns: those to read, which is quicker for large maps than reading all.
        """
        c, retracted = entry.c, _retraction(name, upto)
        query = (
            select(*(c[column] for column in columns or c.keys()))
            .where(c.situation == name, c.kind == "report", c.seq > after, ~retracted.exists())
            .order_by(c.seq)
        )
        if upto is not None:
            query = query.where(c.seq <= upto)
        if box is not None:
            west, south, east, north = box
            query = query.where(c.latitude.between(south, north))
            # A box with west > east goes across the antimeridian.
            inside = c.longitude.between(west, east)
            query = query.where(inside if west <= east else (c.longitude >= west) | (c.longitude <= east))
            if west <= east and self._points_indexed:
                # The conditions above decide; this one lets PostGIS find the candidates by its index.
                envelope = text(f"{POINT} && ST_MakeEnvelope(:west, :south, :east, :north, 4326)")
                query = query.where(envelope.bindparams(west=west, south=south, east=east, north=north))
        moment = func.coalesce(c.time, c.received)
        if since is not None:
            query = query.where(moment >= since)
        if until is not None:
            query = query.where(moment <= until)
        with self.engine.connect() as connection:
            if newest is not None:
                last = query.order_by(None).order_by(c.seq.desc()).limit(newest)
                return list(connection.execute(last))[::-1]
            return list(connection.execute(query.limit(limit) if limit else query))

    def entries(self, name: str, seqs: Collection[int]) -> list[Any]:
        """Reports by their log positions."""
        c = entry.c
        query = select(entry).where(c.situation == name, c.kind == "report", c.seq.in_(seqs))
        with self.engine.connect() as connection:
            return list(connection.execute(query))

    def retracted(self, name: str, newest: int) -> list[Any]:
        """The last retracted reports, the newest first."""
        c = entry.c
        query = select(entry).where(c.situation == name, c.kind == "report", _retraction(name).exists())
        with self.engine.connect() as connection:
            return list(connection.execute(query.order_by(c.seq.desc()).limit(newest)))

    def accepted(self, name: str) -> list[str]:
        """The ids of the reports that somebody has accepted."""
        query = select(entry.c.id).where(entry.c.situation == name, entry.c.kind == "accept")
        with self.engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def counts(self, name: str) -> dict[str, int]:
        """How many entries of each kind the log has."""
        c = entry.c
        with self.engine.connect() as connection:
            query = select(c.kind, func.count()).where(c.situation == name).group_by(c.kind)
            return {kind: count for kind, count in connection.execute(query)}

    def trust(self, name: str) -> dict[str, Any]:
        """The current trust in each source: the last that an admin set."""
        c = entry.c
        with self.engine.connect() as connection:
            query = select(c.source, c.value).where(c.situation == name, c.kind == "trust").order_by(c.seq)
            return {source: value for source, value in connection.execute(query)}

    # Map versions

    def versions(self, name: str, *, limit: int | None = None) -> list[VersionInfo]:
        """The versions of a map, the newest first."""
        query = select(*_INFO).where(version.c.situation == name).order_by(version.c.number.desc())
        with self.engine.connect() as connection:
            rows = connection.execute(query.limit(limit) if limit else query)
            return [VersionInfo(*row) for row in rows]

    def heads(self) -> list[tuple[str, int, int]]:
        """For every situation: its id, the head of its log, and the number of its newest version (0 if there is none).

        Workers call this many times a second. It reads only indexes: to read a column after the arrays of a version,
        SQLite would have to read the arrays too.
        """
        newest = select(func.max(version.c.number)).where(version.c.situation == situation.c.id).scalar_subquery()
        with self.engine.connect() as connection:
            rows = connection.execute(select(situation.c.id, situation.c.head, func.coalesce(newest, 0)))
            return [(name, head, number) for name, head, number in rows]

    def version(self, name: str, number: int | None = None) -> VersionInfo | None:
        """A version by its number, the newest by default; None if there is none."""
        query = select(*_INFO).where(version.c.situation == name).order_by(version.c.number.desc()).limit(1)
        if number is not None:
            query = query.where(version.c.number == number)
        with self.engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else VersionInfo(*row)

    def blob(self, name: str, number: int, column: str) -> Any:
        """One of the large columns of a version: arrays, sources or suggestions."""
        query = select(version.c[column]).where(version.c.situation == name, version.c.number == number)
        with self.engine.connect() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise Unknown(f"there is no version {number} of '{name}'; GET versions lists those that are kept")
        return row[0]

    def model_version(self, name: str) -> int | None:
        """The version that the saved model belongs to."""
        with self.engine.connect() as connection:
            number = connection.execute(select(state.c.number).where(state.c.situation == name)).scalar()
        return None if number is None else int(number)

    def model(self, name: str) -> tuple[int, int, bytes] | None:
        """The saved model to start the next fit from, with its version number and log position: number, head, model."""
        with self.engine.connect() as connection:
            query = select(state.c.number, state.c.head, state.c.model).where(state.c.situation == name)
            row = connection.execute(query).first()
        return None if row is None else (row[0], row[1], row[2])

    def publish(self, name: str, new: Published, *, holder: str, keep: int) -> int | None:
        """Store a version with the next number and add an event; returns the number, or None if the lease was lost."""
        now = time.time()
        with writing(self.engine) as connection:
            if not lease.holds(connection, name, holder):
                return None
            row = connection.execute(select(situation).where(situation.c.id == name)).first()
            if row is None or new.info.get(LAYOUT) not in (None, _situation(row).layout):
                return None  # the map was changed during the fit
            where = version.c.situation == name
            number: int = 1 + max(
                row.numbered, connection.execute(select(func.max(version.c.number)).where(where)).scalar() or 0
            )
            connection.execute(
                insert(version).values(
                    situation=name, number=number, head=new.head, reports=new.reports, created=now,
                    seconds=new.seconds, arrays=new.arrays, sources=new.sources, suggestions=new.suggestions,
                    info=new.info,
                )
            )  # fmt: skip
            connection.execute(delete(version).where(where, version.c.number <= number - keep))
            connection.execute(delete(state).where(state.c.situation == name))
            connection.execute(insert(state).values(situation=name, number=number, head=new.head, model=new.model))
            connection.execute(update(situation).where(situation.c.id == name).values(failure=None, failed=None))
            data = {"version": number, "reports": new.reports, "created": now, "seconds": new.seconds}
            _add_event(connection, name, "version", data, now)
            return number

    def mark_rested(self, name: str, number: int) -> None:
        """Mark a version as equal to the map of the log alone, up to invisible differences."""
        where = version.c.situation == name, version.c.number == number
        with writing(self.engine) as connection:
            info = connection.execute(select(version.c.info).where(*where)).scalar()
            if info is not None:
                connection.execute(update(version).where(*where).values(info=info | {"rested": True}))

    def record_failure(self, name: str, message: str) -> None:
        """Record a failed fit, and add an event about it; the last good version stays."""
        now = time.time()
        with writing(self.engine) as connection:
            count = situation.c.failures + 1
            changed = update(situation).where(situation.c.id == name)
            if not connection.execute(changed.values(failure=message, failed=now, failures=count)).rowcount:
                return  # the map was removed during the fit
            _add_event(connection, name, "failure", {"message": message, "at": now}, now)

    def count_failure(self, name: str) -> None:
        """Count a failed fit that was only to improve a good map, which is not reported as failing."""
        with writing(self.engine) as connection:
            count = situation.c.failures + 1
            connection.execute(update(situation).where(situation.c.id == name).values(failures=count))

    def clear_failure(self, name: str) -> None:
        """A fit succeeded without anything new to publish: remove the earlier failure."""
        with writing(self.engine) as connection:
            connection.execute(update(situation).where(situation.c.id == name).values(failure=None, failed=None))

    # Events

    def last_event(self) -> int:
        with self.engine.connect() as connection:
            return connection.execute(select(func.max(event.c.id))).scalar() or 0

    def events(self, after: int, *, name: str | None = None, limit: int = 1000) -> list[Event]:
        query = select(event.c.id, event.c.situation, event.c.kind, event.c.data).where(event.c.id > after)
        if name is not None:
            query = query.where(event.c.situation == name)
        with self.engine.connect() as connection:
            return [Event(*row) for row in connection.execute(query.order_by(event.c.id).limit(limit))]


_INFO: Sequence[Any] = [
    version.c[name] for name in ("situation", "number", "head", "reports", "created", "seconds", "info")
]
# How many events are kept, for clients that reconnect; those that were away for longer read the newest version.
_EVENTS_KEPT = 5_000


def _retraction(name: str, upto: int | None = None) -> Select[tuple[int]]:
    """The retraction of an entry, up to a log position, as a correlated subquery."""
    gone = entry.alias()
    query = select(gone.c.seq).where(gone.c.situation == name, gone.c.kind == "retract", gone.c.id == entry.c.id)
    return query if upto is None else query.where(gone.c.seq <= upto)


def _add_event(connection: Connection, name: str, kind: str, data: dict[str, Any], now: float) -> None:
    if connection.dialect.name == "postgresql":
        # Streams continue after the last number that they saw, so numbers must appear in order.
        connection.execute(text("LOCK TABLE event IN EXCLUSIVE MODE"))
    row = connection.execute(insert(event).values(situation=name, kind=kind, data=data, at=now))
    assert row.inserted_primary_key is not None
    number = row.inserted_primary_key[0]
    connection.execute(delete(event).where(event.c.id <= number - _EVENTS_KEPT))


def _situation(row: Any) -> Situation:
    values = dict(row._mapping)
    for name in ("states", "labels", "extent"):
        values[name] = tuple(values[name])
    values["region"] = Region(*values["region"])
    return Situation(**values)


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
