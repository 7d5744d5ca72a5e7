"""Limits per client: how often it asks, how much work that causes, how much it sends, how much it keeps open."""

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

# Methods that change nothing and whose bodies are never read.
READING = frozenset({"GET", "HEAD", "OPTIONS"})
# Seconds of work that a client may cause per second, and at once: without a key, and with one.
WORK_ANONYMOUS, WORK_ANONYMOUS_BURST = 0.5, 30.0
WORK_OF_KEY, WORK_OF_KEY_BURST = 2.0, 120.0
# Bodies that arrive more slowly than this are refused: such clients only want to hold connections.
BODY_IDLE_SECONDS, BODY_SECONDS = 30.0, 900.0
# How often the server looks how late it is, from which delay on readers without a key wait, how many times that delay,
# and how long at most.
LAG_CHECK_SECONDS, LAG_NOTICED_SECONDS, LAG_TIMES, LAG_LONGEST_PAUSE = 0.02, 0.01, 20.0, 2.0
# Sending this many bytes counts as one request.
BYTES_PER_REQUEST = 64 * 1024


class BodyRefused(Problem):
    """A body that is not read further; what is left of it must not be taken for the next request."""

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
    """A token bucket for each caller, of requests or of seconds of work: short bursts pass, a steady flood waits."""

    def __init__(self, per_second: float, burst: float):
        self.per_second, self.burst = per_second, burst
        self._buckets: dict[str, _Bucket] = {}
        self._lock = threading.Lock()

    def wait(self, caller: str, cost: float = 1.0, now: float | None = None) -> float:
        """Seconds to wait before asking again; 0 means go ahead, and has been counted."""
        with self._lock:
            bucket = self._bucket(caller, now)
            if bucket.tokens >= cost:
                bucket.tokens -= cost
                return 0.0
            return (cost - bucket.tokens) / self.per_second

    def owed(self, caller: str, cost: float = 1.0, now: float | None = None) -> float:
        """Seconds until so much could be taken; nothing is taken."""
        with self._lock:
            return max(0.0, cost - self._bucket(caller, now).tokens) / self.per_second

    def charge(self, caller: str, cost: float, now: float | None = None) -> None:
        """Take what something cost, afterwards. Nobody owes more than one full bucket."""
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
    """How late the server is in what it does, and how long those without a key are asked to wait because of it.

    All requests pass through one thread. When it falls behind, whoever reads without a key waits a little before being
    served, so that reports, which need little, go first."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def watch(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(LAG_CHECK_SECONDS)
            late = max(0.0, time.perf_counter() - began - LAG_CHECK_SECONDS)
            # Rises at once, and falls over some ten checks.
            self.seconds = max(late, 0.9 * self.seconds)

    @property
    def pause(self) -> float:
        if self.seconds < LAG_NOTICED_SECONDS:
            return 0.0
        return min(LAG_TIMES * self.seconds, LAG_LONGEST_PAUSE)


class Slots:
    """A number of places, or of bytes, that callers hold for a while; each has a share, and all together a limit."""

    def __init__(self, what: str, total: float, per_client: float):
        self._what, self._total, self._per_client = what, total, per_client
        self._held: Counter[str] = Counter()
        self._inside = 0.0
        self._lock = threading.Lock()

    def take(self, caller: Caller, amount: float = 1.0) -> Callable[[], None]:
        """Hold `amount` until the function that is returned is called."""
        room = self._total * (ANONYMOUS_SHARE if caller.anonymous else 1.0)
        retry = {"Retry-After": str(RETRY_SECONDS)}
        with self._lock:
            if self._held[caller.id] + amount > self._per_client:
                raise Problem(429, f"one client may not hold so many {self._what} at once", headers=retry)
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
    """Passes a request's body on, unpacked when it is compressed, and stops it where a limit is passed."""

    def __init__(self, receive: Receive, limit: int, *, encoding: str = "", expansion: int = 100):
        self._receive, self._limit, self._expansion = receive, limit, expansion
        # 32: zlib recognises gzip and zlib headers by itself.
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
            body = self._unfold(body, more)
        self._given += len(body)
        return {"type": "http.request", "body": body, "more_body": more}

    async def _in_time(self) -> Message:
        left = self._until - time.monotonic()
        try:
            async with asyncio.timeout(min(BODY_IDLE_SECONDS, left)):
                return await self._receive()
        except TimeoutError as error:
            raise BodyRefused(408, "the body did not arrive in time; send it again, or in parts") from error

    def _unfold(self, packed: bytes, more: bool) -> bytes:
        assert self._unpack is not None
        allowed = min(self._limit, max(self._taken, 1024) * self._expansion) - self._given
        try:
            # One byte more than allowed is enough to know; a bomb is never unfolded further.
            body = self._unpack.decompress(packed, allowed + 1)
        except zlib.error as error:
            raise BodyRefused(400, "the body is not the gzip or deflate that its Content-Encoding says") from error
        if len(body) > allowed:
            raise BodyRefused(413, "the body unfolds to far more than it is; send it uncompressed or in parts")
        if not more and not self._unpack.eof:
            raise BodyRefused(400, "the compressed body ends too early")
        return body
