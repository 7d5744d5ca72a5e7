"""HTTP connections whose requests have heads of bounded size and arrive in bounded time.

The parser beneath us keeps every header, and waits for the end of a head for ever: without a bound, anybody could fill
the server's memory with a single request that never gets as far as its body.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Bytes of a request beside its body: the line with the address, headers, trailers and the frames of chunks. For chunks
# as much as the body itself is allowed on top. What came in one piece (256 kB at most) is looked at when it is there.
HEAD_BYTES = 64 * 1024
# Seconds from the first byte of a request, or from the connection, to the end of its head.
HEAD_SECONDS = 30.0

TOO_LARGE = b'{"type":"about:blank","title":"Request Header Fields Too Large","status":431}'


class BoundedHeads(HttpToolsProtocol):
    """A connection that refuses large and slow request heads."""

    _waiting: asyncio.TimerHandle | None = None
    _begun = 0
    _in_head = True
    _other = _body = _fed = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        begun, self._fed = self._begun, 0
        super().data_received(data)
        if self._begun != begun:
            return  # a new request, of which all that is here came in one piece
        self._other += len(data) - self._fed
        if self._other > HEAD_BYTES + self._body and not self.transport.is_closing():
            self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun += 1
        self._in_head = True
        self._other = self._body = 0
        self._wait()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        self._fed += len(body)
        super().on_body(body)

    def _refuse(self) -> None:
        if not self._in_head:  # an answer may be under way
            self.transport.abort()
            return
        head = f"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: {len(TOO_LARGE)}\r\n"
        kind = "content-type: application/problem+json\r\nconnection: close\r\n\r\n"
        self.transport.write((head + kind).encode() + TOO_LARGE)
        self.transport.close()

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_SECONDS, self._late)

    def _late(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
