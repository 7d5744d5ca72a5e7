"""Alerts: messages when a state becomes probable in more than a given share of a district, and when that is over.

An alert is compared with every new version exactly once, and the comparison and its messages are stored in one
transaction. So two workers, or one that is killed and restarted, send no message twice and miss none. A message is sent
when a district exceeds the limit; the next one about it only after it has fallen below the lower limit (hysteresis).
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from crowdfield.service.alert_schemas import AlertFields
from crowdfield.service.database import writing
from crowdfield.service.records import Situation
from crowdfield.service.store import InUse, Unknown
from crowdfield.service.tables import alert, alert_area, delivery, version

# By default an alert is over when the share has fallen below this fraction of its limit.
HYSTERESIS = 0.8
MOST_ALERTS = 50
# How often sending a message is tried; the factor by which each pause is longer than the one before; the longest pause.
MOST_ATTEMPTS, LONGER, LONGEST_PAUSE = 8, 3.0, 3600.0
# How many messages of each alert are kept, so that admins can see why one did not arrive.
MESSAGES_KEPT = 100


class Alert(AlertFields):
    """It begins when `state` is more probable than `probability` in more than `share` of an area, and is over when that
    share falls below `clear`."""

    situation: str
    secret: str  # the key that signs messages to its webhook
    seen: int = 0  # the last version that the alert was compared with


@dataclass(frozen=True)
class Message:
    """A message of an alert, and how often sending it was tried."""

    id: str
    alert: Alert
    body: dict[str, Any]
    attempts: int

    @property
    def text(self) -> bytes:
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True)
class AreaStatus:
    """Whether the last message about an area said that it is over the limit, with its share at that time."""

    area: str
    raised: bool
    share: float
    since: float


@dataclass(frozen=True)
class AreaCoverage:
    """The share of each area where the state of an alert is probable; with weights, also the amount and its unit."""

    shares: Mapping[str, float]
    amounts: Mapping[str, float] | None = None
    unit: str | None = None

    def limited_to(self, area: str | None) -> "AreaCoverage":
        """The coverage of one area only; of all areas if none is named."""
        if area is None:
            return self
        shares = {name: share for name, share in self.shares.items() if name == area}
        return AreaCoverage(shares, self.amounts, self.unit)

    def as_rows(self, areas: Sequence[str]) -> list[dict[str, Any]]:
        """One entry per area, as messages contain them."""
        rows: list[dict[str, Any]] = [{"area": area, "share": round(self.shares[area], 4)} for area in areas]
        if self.amounts is not None:
            for row in rows:
                row["amount"] = round(self.amounts[row["area"]], 1)
        return rows


def changes(one: Alert, was_raised: Mapping[str, bool], shares: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """The areas that now exceed the limit, and those for which the alert is over; an area without a share keeps its
    status."""
    raised = [a for a, share in shares.items() if not was_raised.get(a, False) and share > one.share]
    cleared = [a for a, share in shares.items() if was_raised.get(a, False) and share < one.clear]
    return raised, cleared


class Alerts:
    """The alerts of all maps and their messages."""

    def __init__(self, engine: Engine):
        self._engine = engine

    def create(self, new: Alert) -> None:
        with writing(self._engine) as connection:
            here = select(func.count()).select_from(alert).where(alert.c.situation == new.situation)
            if (connection.execute(here).scalar() or 0) >= MOST_ALERTS:
                raise InUse(f"a map may have {MOST_ALERTS} alerts; remove one first")
            connection.execute(insert(alert).values(new.model_dump()))

    def of_map(self, situation: str) -> list[Alert]:
        query = select(*_COLUMNS).where(alert.c.situation == situation).order_by(alert.c.created)
        with self._engine.connect() as connection:
            return [_alert(row._mapping) for row in connection.execute(query)]

    def find(self, situation: str, identity: str) -> Alert:
        for one in self.of_map(situation):
            if one.id == identity:
                return one
        raise Unknown("there is no such alert")

    def remove(self, situation: str, identity: str) -> None:
        gone = delete(alert).where(alert.c.situation == situation, alert.c.id == identity)
        with writing(self._engine) as connection:
            if not connection.execute(gone).rowcount:
                raise Unknown("there is no such alert")

    def area_statuses(self, identity: str) -> list[AreaStatus]:
        """The areas that messages were sent about, those over their limit first."""
        c = alert_area.c
        query = select(c.area, c.raised, c.share, c.since).where(c.alert == identity)
        with self._engine.connect() as connection:
            return [AreaStatus(*row) for row in connection.execute(query.order_by(c.raised.desc(), c.area))]

    def messages(self, identity: str, newest: int) -> list[dict[str, Any]]:
        c = delivery.c
        query = select(c.id, c.created, c.attempts, c.state, c.error, c.body).where(c.alert == identity)
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(c.created.desc()).limit(newest))
            return [dict(row._mapping) for row in rows]

    # After a map was published

    def not_compared(self) -> list[tuple[Alert, int]]:
        """Alerts that were not compared with the newest version of their map yet, with the number of that version."""
        newest = (
            select(version.c.situation, func.max(version.c.number).label("number"))
            .group_by(version.c.situation)
            .subquery()
        )
        query = select(*_COLUMNS, newest.c.number).join(newest, newest.c.situation == alert.c.situation)
        with self._engine.connect() as connection:
            rows = connection.execute(query.where(alert.c.seen < newest.c.number))
            return [(_alert(row._mapping), row.number) for row in rows]

    def compare(self, one: Alert, situation: Situation, number: int, found: AreaCoverage) -> bool:
        """Store which areas are over the limit now, and queue a message if that changed; whether it changed."""
        known = {area: share for area, share in found.shares.items() if math.isfinite(share)}
        with writing(self._engine) as connection:
            mine = update(alert).where(alert.c.id == one.id, alert.c.seen < number).values(seen=number)
            if not connection.execute(mine).rowcount:
                return False  # removed, or another worker was faster
            # No message is sent for areas that no longer exist because the districts were replaced.
            gone = delete(alert_area).where(alert_area.c.alert == one.id, alert_area.c.area.not_in(list(found.shares)))
            connection.execute(gone)
            rows = connection.execute(select(alert_area).where(alert_area.c.alert == one.id))
            raised, cleared = changes(one, {row.area: row.raised for row in rows}, known)
            for area in (*raised, *cleared):
                _set_status(connection, one.id, area, area in raised, known[area])
            if raised or cleared:
                content: dict[str, Any] = {"raised": found.as_rows(raised), "cleared": found.as_rows(cleared)}
                content |= {} if found.unit is None else {"unit": found.unit}
                _queue(connection, one, situation, number, "alert", content)
        return bool(raised or cleared)

    def skip(self, one: Alert, number: int) -> None:
        """Do not compare the alert with this version again: the comparison failed."""
        with writing(self._engine) as connection:
            connection.execute(update(alert).where(alert.c.id == one.id, alert.c.seen < number).values(seen=number))

    def test(self, one: Alert, situation: Situation) -> str:
        """Queue a test message, which only shows whether messages arrive; returns its id."""
        with writing(self._engine) as connection:
            return _queue(connection, one, situation, one.seen, "test", {"raised": [], "cleared": []})

    # Messages

    def due(self, most: int) -> list[Message]:
        """Messages that are to be sent now, the oldest first."""
        c, now = delivery.c, time.time()
        # A clock that was set back must not hold a message up for longer than the longest pause.
        at_once = (c.due <= now) | (c.due > now + LONGEST_PAUSE)
        own = c.id.label("message"), c.body, c.attempts
        query = select(*own, *_COLUMNS).join(alert, alert.c.id == c.alert)
        with self._engine.connect() as connection:
            rows = connection.execute(query.where(c.state == "waiting", at_once).order_by(c.created).limit(most))
            return [Message(row.message, _alert(row._mapping), row.body, row.attempts) for row in rows]

    def claim(self, message: Message, first_pause: float) -> bool:
        """Whether this worker may send the message. The attempt is counted, and the message is due again later in case
        the worker dies."""
        pause = min(first_pause * LONGER**message.attempts, LONGEST_PAUSE)
        c = delivery.c
        mine = update(delivery).where(c.id == message.id, c.attempts == message.attempts, c.state == "waiting")
        with writing(self._engine) as connection:
            tried = mine.values(attempts=message.attempts + 1, due=time.time() + pause)
            return bool(connection.execute(tried).rowcount)

    def sent(self, message: Message) -> None:
        self._mark(message, "sent", None)

    def not_sent(self, message: Message, why: str, *, final: bool) -> str:
        """Store why the message was not sent; returns its new state."""
        state = "given up" if final or message.attempts + 1 >= MOST_ATTEMPTS else "waiting"
        self._mark(message, state, why)
        return state

    def _mark(self, message: Message, state: str, error: str | None) -> None:
        """Store the new state of a message, and delete the oldest ones of its alert."""
        c = delivery.c
        with writing(self._engine) as connection:
            connection.execute(update(delivery).where(c.id == message.id).values(state=state, error=error))
            if state == "waiting":
                return
            kept = select(c.id).where(c.alert == message.alert.id).order_by(c.created.desc()).limit(MESSAGES_KEPT)
            old = [row.id for row in connection.execute(kept)]
            gone = delete(delivery).where(c.alert == message.alert.id, c.state != "waiting", c.id.not_in(old))
            connection.execute(gone)


_COLUMNS: Sequence[Any] = [alert.c[name] for name in Alert.model_fields]


def _alert(row: Mapping[Any, Any]) -> Alert:
    """From a row that holds `_COLUMNS`, and perhaps others."""
    return Alert(**{name: row[name] for name in Alert.model_fields})


def _set_status(connection: Connection, identity: str, area: str, raised: bool, share: float) -> None:
    here = alert_area.c.alert == identity, alert_area.c.area == area
    values = {"raised": raised, "share": share, "since": time.time()}
    if not connection.execute(update(alert_area).where(*here).values(values)).rowcount:
        connection.execute(insert(alert_area).values({"alert": identity, "area": area} | values))


def _queue(
    connection: Connection, one: Alert, situation: Situation, number: int, kind: str, content: dict[str, Any]
) -> str:
    """Store a message to be sent."""
    identity, now = uuid4().hex, time.time()
    body = {
        "type": kind, "id": identity, "alert": one.id, "situation": situation.id, "title": situation.title,
        "districts": one.districts, "state": one.state, "probability": one.probability, "share": one.share,
        "clear": one.clear, "version": number,
        "created": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
    }  # fmt: skip
    row = {"id": identity, "alert": one.id, "body": body | content, "created": now, "due": now}
    connection.execute(insert(delivery).values(row | {"attempts": 0, "state": "waiting"}))
    return identity
