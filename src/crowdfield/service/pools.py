"""Separate, bounded pools for work that blocks, so that nobody waits for somebody else's export.

Each kind of work has its own threads, its own queue and its own deadline. A full queue answers at once (503), a client
that holds too many places at once is told so (429), and work past its deadline is given up (504). What a request cost
is added to its caller's bill, which the rate limits read.
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

# Callers without a key may fill a queue only so far: the rest is kept for those who have one.
ANONYMOUS_SHARE = 0.75
# What a client is told to wait before it tries a full queue again.
RETRY_SECONDS = 2
# Most work is done within this time; only for longer work is it worth looking whether the client is still there.
PATIENCE_SECONDS = 0.5


@dataclass
class Caller:
    """Who a request is counted against, and whom to tell how many seconds of work it caused."""

    id: str
    anonymous: bool
    charge: Callable[[float], None] = field(default=lambda seconds: None)
    owed: Callable[[], float] = field(default=lambda: 0.0)
    """Seconds to wait until the work that was done for this caller is paid for."""
    gone: Callable[[], Awaitable[object]] | None = None
    """Ends when the client has closed its connection."""


# Set for every request before a route runs; None for the service's own work, which no limit holds up.
asking: ContextVar[Caller | None] = ContextVar("asking", default=None)


class Pool:
    """Threads for one kind of work.

    Parameters
    ----------
    threads : how many pieces of work run at once
    waiting : how many may be in the pool, running or queued
    per_client : how many of them may be one client's
    seconds : the deadline of a piece of work, its time in the queue included
    clock : what the work is charged by: processor time of its thread, or `time.perf_counter` where a thread waits for
        another process
    priced : whether callers who caused much work wait before they cause more
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
        """Pieces of work that run or wait."""
        return self._inside

    async def run(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """The result of `work`, computed by a thread of this pool."""
        return await self.wait(self.submit(work, *args, **named))

    def submit(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> "Future[T]":
        """Take a place and queue the work; refused at once where there is no place."""
        caller = asking.get()
        try:
            self._enter(caller)
        except Problem:
            self.refused += 1
            raise
        future = self._executor.submit(lambda: self._timed(caller, work, *args, **named))
        # The place is free when the work has ended, not when somebody stopped waiting for it.
        future.add_done_callback(lambda _: self._leave(caller))
        return future

    async def wait(self, future: "Future[T]", *, shared: bool = False) -> T:
        """The result, within the deadline and as long as the client is there. Work that others wait for as well is left
        to them."""
        waiting: asyncio.Future[T] = asyncio.wrap_future(future)
        if shared:
            waiting = asyncio.shield(waiting)
        try:
            done, _ = await asyncio.wait([waiting], timeout=min(PATIENCE_SECONDS, self.seconds))
            if not done and self.seconds > PATIENCE_SECONDS:
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
            f"this took longer than {self.seconds:g} s and was given up; ask for less, or again later",
            headers={"Retry-After": str(RETRY_SECONDS)},
        )

    async def _while_client_is_there(self, waiting: "asyncio.Future[T]") -> "set[asyncio.Future[T]]":
        caller = asking.get()
        left = self.seconds - PATIENCE_SECONDS
        if caller is None or caller.gone is None:
            return (await asyncio.wait([waiting], timeout=left))[0]
        gone = asyncio.ensure_future(caller.gone())
        try:
            pair: set[asyncio.Future[Any]] = {waiting, gone}
            done, _ = await asyncio.wait(pair, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if gone in done and waiting not in done:
            raise Problem(503, "the client did not wait for the answer")
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
        owed = caller.owed() if caller is not None and self._priced else 0.0
        if owed:
            seconds = str(math.ceil(owed))
            detail = f"you have asked for much work of this kind ({self.name}); wait {seconds} s"
            raise Problem(429, detail, headers={"Retry-After": seconds})
        with self._lock:
            if caller is not None:
                room = self.waiting * (ANONYMOUS_SHARE if caller.anonymous else 1.0)
                if self._inside >= room:
                    raise busy(f"too many requests of this kind ({self.name}) are waiting")
                if self._held[caller.id] >= self._per_client:
                    raise Problem(
                        429,
                        f"{self._per_client} requests of this kind ({self.name}) at once are the most for one client; "
                        "wait for one of them",
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
