"""Server-sent events: one task polls the event table and passes new events to every open stream of this server."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from crowdfield.service.auth import FOR_TRUSTED, Keys
from crowdfield.service.metrics import Metrics
from crowdfield.service.pools import Pool
from crowdfield.service.problems import Problem
from crowdfield.service.records import Event
from crowdfield.service.store import Store

log = logging.getLogger("crowdfield.service")
# Pause after which a comment is sent: proxies close a connection that is silent for a minute or so.
HEARTBEAT_SECONDS = 15.0
# How often the keys of open streams are checked again: a stream outlives its key by no more than this.
KEYS_SECONDS = 1.0
# Pause before the event table is read again after an error.
RETRY_SECONDS = 1.0
# Events that wait for a slow client; at the next one its stream ends.
MOST_UNREAD = 500


@dataclass(frozen=True)
class Listener:
    """Who follows a map. `key`: the id of their key, None without one. `accesses`: the values of `access` with which
    they may see this map."""

    situation: str
    key: str | None
    accesses: frozenset[str]


class Broadcast:
    """Passes new map versions and failures to every open stream."""

    def __init__(self, store: Store, keys: Keys, metrics: Metrics, pool: Pool, poll_seconds: float):
        self._store, self._keys, self._metrics, self._pool, self._poll = store, keys, metrics, pool, poll_seconds
        self._listeners: dict[asyncio.Queue[Event | None], Listener] = {}
        self.on_watched: Callable[[str], None] = lambda situation: None
        """Called with the id of a map when somebody begins to follow it, and when a followed map has a new version."""
        self._task: asyncio.Task[None] | None = None
        self._after = 0

    async def start(self) -> None:
        self._after = await self._pool.run(self._store.last_event)
        self._task = asyncio.create_task(self._poll_events(), name="events")

    async def stop(self) -> None:
        """End every stream: an open one would delay a graceful shutdown."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for listener in self._listeners:
            _pass_on(listener, None)

    @property
    def streams(self) -> int:
        return len(self._listeners)

    async def _poll_events(self) -> None:
        """Read new events from the database, again and again, and pass them to the streams."""
        failing, keys_checked = False, 0.0
        while True:
            try:
                events = await self._pool.run(self._store.events, self._after)
                if time.monotonic() - keys_checked >= KEYS_SECONDS:
                    await self._end_invalid()
                    keys_checked = time.monotonic()
                failing = False
            except (SQLAlchemyError, Problem) as error:
                if not failing:  # logged once, not at every attempt
                    log.error("events cannot be read", extra={"error": type(error).__name__})
                failing, events = True, []
            followed = {listener.situation for listener in self._listeners.values()}
            for event in events:
                self._after = event.id
                if event.kind == "version" and event.situation in followed:
                    self.on_watched(event.situation)
                for listener in self._listeners:
                    _pass_on(listener, event)
            await asyncio.sleep(RETRY_SECONDS if failing else self._poll)

    async def _end_invalid(self) -> None:
        """End the streams of keys that have expired or were revoked (here or on another server), and those of callers
        who may no longer see the map that they follow."""
        used = {one.key for one in self._listeners.values() if one.key is not None}
        followed = {one.situation for one in self._listeners.values() if one.accesses < FOR_TRUSTED}
        invalid = used - await self._pool.run(self._keys.valid, used) if used else set()
        access = await self._pool.run(self._store.access, followed) if followed else {}
        for listener, one in self._listeners.items():
            # A map that was removed has no further events.
            if one.key in invalid or access.get(one.situation, "public") not in one.accesses:
                _pass_on(listener, None)

    async def stream(
        self,
        situation: str,
        last: int | None,
        key: str | None = None,
        *,
        exact: bool = True,
        accesses: frozenset[str] = FOR_TRUSTED,
    ) -> AsyncIterator[str]:
        """Events after the one numbered `last`, then new ones, as long as the key is valid and the map has one of these
        values of `access`. `exact`: include why a fit failed, which may quote reports."""
        listener: asyncio.Queue[Event | None] = asyncio.Queue(MOST_UNREAD)
        self._listeners[listener] = Listener(situation, key, accesses)
        self.on_watched(situation)
        self._metrics.streams.set(self.streams)
        try:
            # The queue was open before past events are read, so that none is missed between the two.
            seen = self._after if last is None else last
            yield f"retry: 2000\nid: {seen}\n: connected\n\n"
            if last is not None:
                for past in await self._pool.run(self._store.events, last, name=situation):
                    seen = past.id
                    yield _frame(past, exact)
            while True:
                try:
                    event = await asyncio.wait_for(listener.get(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if event is None:
                    return
                if event.situation == situation and event.id > seen:
                    seen = event.id
                    yield _frame(event, exact)
        finally:
            self._listeners.pop(listener, None)
            self._metrics.streams.set(self.streams)


def _pass_on(listener: "asyncio.Queue[Event | None]", event: Event | None) -> None:
    """Queue an event for a stream; None ends it. A client that reads too slowly loses its stream: it reconnects with
    the id of the last event that it saw, and continues from there."""
    if listener.full() or event is None:
        while not listener.empty():
            listener.get_nowait()
        listener.put_nowait(None)
    else:
        listener.put_nowait(event)


def _frame(event: Event, exact: bool) -> str:
    content = event.data if exact else {name: value for name, value in event.data.items() if name != "message"}
    data = json.dumps(content | {"situation": event.situation})
    return f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n"
