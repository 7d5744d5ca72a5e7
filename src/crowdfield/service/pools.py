"""Separate, bounded pools for work that blocks, so that nobody waits for somebody else's export.

Each kind of work has its own threads, queue and deadline. If the queue is full, the answer is 503 at once; if one
client has too many requests in it, 429; if work takes longer than its deadline, 504. The time that a request took is
charged to its caller, and limits how soon the caller may cause more work.
"""

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from crowdfield.service.problems import Problem

P = ParamSpec("P")
T = TypeVar("T")

# The share of a queue that callers without a key may fill; the rest is reserved for callers with one.
ANONYMOUS_SHARE = 0.75
# The Retry-After, in seconds, of a full queue.
RETRY_SECONDS = 2
# Most work is finished within this time; only after it is it worth watching whether the client is still connected.
UNWATCHED_SECONDS = 0.5


@dataclass
class Caller:
    """The client that a request is counted for, and to whom the seconds of work that it causes are charged."""

    id: str
    anonymous: bool
    charge: Callable[[float], None] = field(default=lambda seconds: None)
    owed: Callable[[], float] = field(default=lambda: 0.0)
    """How many seconds this caller has to wait because of the work done so far."""
    gone: Callable[[], Awaitable[object]] | None = None
    """An awaitable that finishes when the client has closed its connection."""


# The caller of the current request; None for the service's own work, which has no limits.
current_caller: ContextVar[Caller | None] = ContextVar("current_caller", default=None)


class Pool:
    """Threads for one kind of work.

    Parameters
    ----------
    threads : how many tasks run at once
    waiting : how many tasks may be in the pool, running or queued
    per_client : how many of them may belong to one client
    seconds : the deadline of a task, including its time in the queue
    clock : what work is charged by: the processor time of its thread, or `time.perf_counter` if the thread waits for
        another process
    priced : whether callers who caused much work have to wait before they cause more
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        waiting: int,
        per_client: int,
        seconds: float,
        clock: Callable[[], float] = time.thread_time,
        priced: bool = False,
    ):
        self.name, self.threads, self.waiting, self.seconds = name, threads, waiting, seconds
        self._per_client, self._clock, self._priced = per_client, clock, priced
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._inside = 0
        self._held: Counter[str] = Counter()
        self.refused = 0

    @property
    def inside(self) -> int:
        """The number of tasks that are running or queued."""
        return self._inside

    async def run(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """The result of `work`, computed by a thread of this pool."""
        return await self.wait(self.submit(work, *args, **named))

    def submit(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> "Future[T]":
        """Queue the work; raises an error at once if the queue is full."""
        caller = current_caller.get()
        try:
            self._enter(caller)
        except Problem:
            self.refused += 1
            raise
        future = self._executor.submit(lambda: self._timed(caller, work, *args, **named))
        # The work counts until it has ended, even if nobody waits for it any more.
        future.add_done_callback(lambda _: self._leave(caller))
        return future

    async def wait(self, future: "Future[T]", *, shared: bool = False) -> T:
        """The result, within the deadline and as long as the client is connected. `shared`: others wait for the same
        work, so it is not cancelled."""
        waiting: asyncio.Future[T] = asyncio.wrap_future(future)
        if shared:
            waiting = asyncio.shield(waiting)
        try:
            done, _ = await asyncio.wait([waiting], timeout=min(UNWATCHED_SECONDS, self.seconds))
            if not done and self.seconds > UNWATCHED_SECONDS:
                done = await self._while_client_is_there(waiting)
        except BaseException:
            if not shared:
                future.cancel()
            raise
        if done:
            return waiting.result()
        if not shared:
            future.cancel()
        self.refused += 1
        raise Problem(
            504,
            f"this took longer than {self.seconds:g} s and was stopped; ask for less, or try again later",
            headers={"Retry-After": str(RETRY_SECONDS)},
        )

    async def _while_client_is_there(self, waiting: "asyncio.Future[T]") -> "set[asyncio.Future[T]]":
        """Wait for the result until the deadline; an error if the client disconnects first."""
        caller = current_caller.get()
        left = self.seconds - UNWATCHED_SECONDS
        if caller is None or caller.gone is None:
            return (await asyncio.wait([waiting], timeout=left))[0]
        gone = asyncio.ensure_future(caller.gone())
        try:
            pair: set[asyncio.Future[Any]] = {waiting, gone}
            done, _ = await asyncio.wait(pair, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if gone in done and waiting not in done:
            raise Problem(503, "the client closed the connection before the answer was ready")
        return {waiting} & done

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _timed(self, caller: Caller | None, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        began = self._clock()
        try:
            return work(*args, **named)
        finally:
            if caller is not None:
                caller.charge(self._clock() - began)

    def _enter(self, caller: Caller | None) -> None:
        """Count a task of this caller; an error if the queue is full or the caller has used up its share."""
        owed = caller.owed() if caller is not None and self._priced else 0.0
        if owed:
            seconds = str(math.ceil(owed))
            detail = f"your requests of this kind ({self.name}) have taken too much time; wait {seconds} s"
            raise Problem(429, detail, headers={"Retry-After": seconds})
        with self._lock:
            if caller is not None:
                room = self.waiting * (ANONYMOUS_SHARE if caller.anonymous else 1.0)
                if self._inside >= room:
                    raise busy(f"too many requests of this kind ({self.name}) are waiting")
                if self._held[caller.id] >= self._per_client:
                    raise Problem(
                        429,
                        f"one client may have {self._per_client} requests of this kind ({self.name}) at once; wait "
                        "until one of them has finished",
                        headers={"Retry-After": str(RETRY_SECONDS)},
                    )
                self._held[caller.id] += 1
            self._inside += 1

    def _leave(self, caller: Caller | None) -> None:
        with self._lock:
            self._inside -= 1
            if caller is not None:
                self._held[caller.id] -= 1
                if not self._held[caller.id]:
                    del self._held[caller.id]


def busy(what: str) -> Problem:
    """The error of a full queue."""
    return Problem(503, f"{what}; try again in a moment", headers={"Retry-After": str(RETRY_SECONDS)})
