"""What a client may cost us: how often it asks, how much it sends, and how far that may unfold."""

import time
import zlib
from dataclasses import dataclass

from starlette.types import Message, Receive

# Methods that change nothing and whose bodies are never read.
READING = frozenset({"GET", "HEAD", "OPTIONS"})


class TooLarge(Exception):
    """A body past its limit."""

    def __init__(self, detail: str):
        super().__init__(detail)
        self.detail = detail


class Undecodable(Exception):
    """A body that is not what its Content-Encoding says."""


@dataclass
class _Bucket:
    tokens: float
    at: float


class RateLimit:
    """A token bucket for each caller: short bursts pass, a steady flood waits."""

    def __init__(self, per_second: float, burst: float):
        self.per_second, self.burst = per_second, burst
        self._buckets: dict[str, _Bucket] = {}

    def wait(self, caller: str, cost: float = 1.0, now: float | None = None) -> float:
        """Seconds to wait before asking again; 0 means go ahead, and has been counted."""
        now = time.monotonic() if now is None else now
        if len(self._buckets) > 50_000:
            self._forget(now)
        bucket = self._buckets.setdefault(caller, _Bucket(self.burst, now))
        bucket.tokens = min(self.burst, bucket.tokens + (now - bucket.at) * self.per_second)
        bucket.at = now
        if bucket.tokens >= cost:
            bucket.tokens -= cost
            return 0.0
        return (cost - bucket.tokens) / self.per_second

    def _forget(self, now: float) -> None:
        full = self.burst / self.per_second
        self._buckets = {caller: b for caller, b in self._buckets.items() if now - b.at < full}


class LimitedBody:
    """Passes a request's body on, unpacked when it is compressed, and stops it where a limit is passed."""

    def __init__(self, receive: Receive, limit: int, *, encoding: str = "", expansion: int = 100):
        self._receive, self._limit, self._expansion = receive, limit, expansion
        # 32: zlib recognises gzip and zlib headers by itself.
        self._unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32) if encoding in ("gzip", "deflate") else None
        self._taken = self._given = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request":
            return message
        body: bytes = message.get("body", b"")
        more = bool(message.get("more_body"))
        self._taken += len(body)
        if self._taken > self._limit:
            raise TooLarge(f"the body is larger than {self._limit:,} bytes; send it in parts or import it as a file")
        if self._unpack is not None:
            body = self._unfold(body, more)
        self._given += len(body)
        return {"type": "http.request", "body": body, "more_body": more}

    def _unfold(self, packed: bytes, more: bool) -> bytes:
        assert self._unpack is not None
        allowed = min(self._limit, max(self._taken, 1024) * self._expansion) - self._given
        try:
            # One byte more than allowed is enough to know; a bomb is never unfolded further.
            body = self._unpack.decompress(packed, allowed + 1)
        except zlib.error as error:
            raise Undecodable("the body is not the gzip or deflate that its Content-Encoding says") from error
        if len(body) > allowed:
            raise TooLarge("the body unfolds to far more than it is; send it uncompressed or in parts")
        if not more and not self._unpack.eof:
            raise Undecodable("the compressed body ends too early")
        return body
