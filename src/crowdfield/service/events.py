"""Server-sent events: one reader of the event table for all the streams of a server."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from crowdfield.service.auth import Keys
from crowdfield.service.metrics import Metrics
from crowdfield.service.pools import Pool
from crowdfield.service.problems import Problem
from crowdfield.service.store import Event, Store

log = logging.getLogger("crowdfield.service")
# Proxies close a silent connection after a minute or so.
HEARTBEAT_SECONDS = 15.0
# How often the keys of open streams are looked at again: a stream outlives its key by no more than this.
KEYS_SECONDS = 1.0
# Events that may wait for a slow client.
UNREAD = 500


@dataclass(frozen=True)
class Listener:
    """Who listens to a map: the id of a key, None for a stream without one; a stranger has no key for the map."""

    situation: str
    key: str | None
    stranger: bool


class Broadcast:
    """Tells every connected stream of new map versions and failures."""

    def __init__(self, store: Store, keys: Keys, metrics: Metrics, pool: Pool, poll_seconds: float):
        self._store, self._keys, self._metrics, self._pool, self._poll = store, keys, metrics, pool, poll_seconds
        self._listeners: dict[asyncio.Queue[Event | None], Listener] = {}
        self.on_version: Callable[[str], None] = lambda situation: None
        """Called for a new version of a map that somebody listens to."""
        self._task: asyncio.Task[None] | None = None
        self._after = 0

    async def start(self) -> None:
        self._after = await self._pool.run(self._store.last_event)
        self._task = asyncio.create_task(self._watch(), name="events")

    async def stop(self) -> None:
        """End every stream: an open one would hold up a graceful stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for listener in self._listeners:
            _tell(listener, None)

    @property
    def streams(self) -> int:
        return len(self._listeners)

    async def _watch(self) -> None:
        trouble, looked = False, 0.0
        while True:
            try:
                events = await self._pool.run(self._store.events, self._after)
                if time.monotonic() - looked >= KEYS_SECONDS:
                    await self._end_invalid()
                    looked = time.monotonic()
                trouble = False
            except (SQLAlchemyError, Problem) as error:
                if not trouble:
                    log.error("events cannot be read", extra={"error": type(error).__name__})
                trouble, events = True, []
            watched = {listener.situation for listener in self._listeners.values()}
            for event in events:
                self._after = event.id
                if event.kind == "version" and event.situation in watched:
                    self.on_version(event.situation)
                for listener in self._listeners:
                    _tell(listener, event)
            await asyncio.sleep(1.0 if trouble else self._poll)

    async def _end_invalid(self) -> None:
        """End the streams of keys that were revoked, here or elsewhere, or that have expired, and those of strangers
        to a map that is no longer for everybody."""
        used = {one.key for one in self._listeners.values() if one.key is not None}
        heard = {one.situation for one in self._listeners.values() if one.stranger}
        invalid = used - await self._pool.run(self._keys.valid, used) if used else set()
        closed = await self._pool.run(self._store.keys_only, heard) if heard else set()
        for listener, one in self._listeners.items():
            if one.key in invalid or (one.stranger and one.situation in closed):
                _tell(listener, None)

    async def stream(
        self, situation: str, last: int | None, key: str | None = None, *, exact: bool = True, stranger: bool = False
    ) -> AsyncIterator[str]:
        """What happened after event `last`, then what happens from now on, as long as the key is valid; for a stranger,
        as long as the map is for everybody. Why a fit failed, which may quote reports, is told only if `exact`."""
        listener: asyncio.Queue[Event | None] = asyncio.Queue(UNREAD)
        self._listeners[listener] = Listener(situation, key, stranger)
        self._metrics.streams.set(self.streams)
        try:
            # Listening began before the past is read, so nothing falls between the two.
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


def _tell(listener: "asyncio.Queue[Event | None]", event: Event | None) -> None:
    """Pass an event on. A client that reads too slowly loses its stream, and goes on from there when it comes back."""
    if listener.full() or event is None:
        while not listener.empty():
            listener.get_nowait()
        listener.put_nowait(None)
    else:
        listener.put_nowait(event)


def _frame(event: Event, exact: bool) -> str:
    told = event.data if exact else {name: value for name, value in event.data.items() if name != "message"}
    data = json.dumps(told | {"situation": event.situation})
    return f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n"
