"""Limits per client: on its requests, the work that they cause, the bytes that it sends, and what it keeps open."""

import asyncio
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import Message, Receive

from crowdfield.service.pools import ANONYMOUS_SHARE, RETRY_SECONDS, Caller
from crowdfield.service.problems import Problem

# Methods that change nothing, and whose bodies are never read.
READING = frozenset({"GET", "HEAD", "OPTIONS"})
# How many seconds of work a client may cause per second, and in a burst: without a key, and with one.
WORK_ANONYMOUS, WORK_ANONYMOUS_BURST = 0.5, 30.0
WORK_OF_KEY, WORK_OF_KEY_BURST = 2.0, 120.0
# The most seconds between two parts of a body, and for all of it: slower clients only want to keep connections open.
BODY_IDLE_SECONDS, BODY_SECONDS = 30.0, 900.0
# How often the server measures its lag; the lag from which on readers without a key have to wait; how many times the
# lag they wait; and the longest wait.
LAG_CHECK_SECONDS, LAG_NOTICED_SECONDS, LAG_TIMES, LAG_LONGEST_PAUSE = 0.02, 0.01, 20.0, 2.0
# Receiving this many bytes counts as one request for a client without a key.
BYTES_PER_REQUEST = 64 * 1024


class BodyRefused(Problem):
    """A body that is not read to its end. The connection is closed, so that the rest is not taken for a request."""

    def __init__(self, status: int, detail: str):
        super().__init__(status, detail, headers={"Connection": "close"})


def too_large(limit: int) -> BodyRefused:
    """The error for a body above the limit."""
    return BodyRefused(413, f"the body is larger than {limit:,} bytes; send it in parts or import it as a file")


@dataclass
class _Bucket:
    """The tokens of one caller, and when they were last counted."""

    tokens: float
    at: float


class RateLimit:
    """A token bucket for each caller, of requests or seconds of work: short bursts pass, a steady flood is slowed."""

    def __init__(self, per_second: float, burst: float):
        self.per_second, self.burst = per_second, burst
        self._buckets: dict[str, _Bucket] = {}
        self._lock = threading.Lock()

    def wait(self, caller: str, cost: float = 1.0, now: float | None = None) -> float:
        """How many seconds the caller has to wait; 0 means that the request may go ahead, and has been counted."""
        with self._lock:
            bucket = self._bucket(caller, now)
            if bucket.tokens >= cost:
                bucket.tokens -= cost
                return 0.0
            return (cost - bucket.tokens) / self.per_second

    def owed(self, caller: str, cost: float = 1.0, now: float | None = None) -> float:
        """How many seconds until `cost` tokens are available; none are taken."""
        with self._lock:
            return max(0.0, cost - self._bucket(caller, now).tokens) / self.per_second

    def charge(self, caller: str, cost: float, now: float | None = None) -> None:
        """Take the tokens of work that is done already. The debt is limited to one full bucket."""
        with self._lock:
            bucket = self._bucket(caller, now)
            bucket.tokens = max(bucket.tokens - cost, -self.burst)

    def _bucket(self, caller: str, now: float | None) -> _Bucket:
        now = time.monotonic() if now is None else now
        if len(self._buckets) > 50_000:
            full = 2 * self.burst / self.per_second
            self._buckets = {name: b for name, b in self._buckets.items() if now - b.at < full}
        bucket = self._buckets.setdefault(caller, _Bucket(self.burst, now))
        bucket.tokens = min(self.burst, bucket.tokens + (now - bucket.at) * self.per_second)
        bucket.at = now
        return bucket


class Lag:
    """The lag of the server's event loop, and how long readers without a key have to wait because of it.

    All requests pass through one thread. When it falls behind, readers without a key wait a little, so that reports,
    which need little time, go first."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def watch(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(LAG_CHECK_SECONDS)
            late = max(0.0, time.perf_counter() - began - LAG_CHECK_SECONDS)
            # It rises at once, and falls over about ten measurements.
            self.seconds = max(late, 0.9 * self.seconds)

    @property
    def pause(self) -> float:
        if self.seconds < LAG_NOTICED_SECONDS:
            return 0.0
        return min(LAG_TIMES * self.seconds, LAG_LONGEST_PAUSE)


class Slots:
    """A number of slots, or of bytes, that callers hold for a while, with a limit for each and for all together."""

    def __init__(self, what: str, total: float, per_client: float):
        self._what, self._total, self._per_client = what, total, per_client
        self._held: Counter[str] = Counter()
        self._inside = 0.0
        self._lock = threading.Lock()

    def take(self, caller: Caller, amount: float = 1.0) -> Callable[[], None]:
        """Hold `amount` until the returned function is called."""
        room = self._total * (ANONYMOUS_SHARE if caller.anonymous else 1.0)
        retry = {"Retry-After": str(RETRY_SECONDS)}
        with self._lock:
            if self._held[caller.id] + amount > self._per_client:
                raise Problem(429, f"this client has too many {self._what} at once", headers=retry)
            if self._inside + amount > room:
                raise Problem(503, f"too many {self._what} at once; try again in a moment", headers=retry)
            self._held[caller.id] += amount  # type: ignore[assignment]
            self._inside += amount
        done = False

        def release() -> None:
            nonlocal done
            with self._lock:
                if done:
                    return
                done = True
                self._inside -= amount
                self._held[caller.id] -= amount  # type: ignore[assignment]
                if self._held[caller.id] <= 0:
                    del self._held[caller.id]

        return release


class LimitedBody:
    """Passes on the body of a request, decompressed if necessary, and raises an error when it exceeds a limit."""

    def __init__(self, receive: Receive, limit: int, *, encoding: str = "", expansion: int = 100):
        self._receive, self._limit, self._expansion = receive, limit, expansion
        # 32 makes zlib recognise gzip and zlib headers by itself.
        self._unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32) if encoding in ("gzip", "deflate") else None
        self._taken = self._given = 0
        self._ended = False
        self._until = time.monotonic() + BODY_SECONDS

    async def __call__(self) -> Message:
        message = await (self._receive() if self._ended else self._in_time())
        if message["type"] != "http.request":
            return message
        body: bytes = message.get("body", b"")
        more = bool(message.get("more_body"))
        self._ended = not more
        self._taken += len(body)
        if self._taken > self._limit:
            raise too_large(self._limit)
        if self._unpack is not None:
            body = self._decompress(body, more)
        self._given += len(body)
        return {"type": "http.request", "body": body, "more_body": more}

    async def _in_time(self) -> Message:
        left = self._until - time.monotonic()
        try:
            async with asyncio.timeout(min(BODY_IDLE_SECONDS, left)):
                return await self._receive()
        except TimeoutError as error:
            raise BodyRefused(408, "the body did not arrive in time; send it again, or in parts") from error

    def _decompress(self, packed: bytes, more: bool) -> bytes:
        assert self._unpack is not None
        allowed = min(self._limit, max(self._taken, 1024) * self._expansion) - self._given
        try:
            # One byte more than allowed is enough to detect a decompression bomb; it is not expanded further.
            body = self._unpack.decompress(packed, allowed + 1)
        except zlib.error as error:
            raise BodyRefused(400, "the body is not the gzip or deflate that its Content-Encoding says") from error
        if len(body) > allowed:
            raise BodyRefused(413, "the body expands to far more than its compressed size; send it uncompressed")
        if not more and not self._unpack.eof:
            raise BodyRefused(400, "the compressed body ends too early")
        return body
