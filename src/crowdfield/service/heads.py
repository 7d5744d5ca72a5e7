"""HTTP connections that limit the size of request heads and the time in which they arrive.

The HTTP parser keeps every header, and waits forever for the end of a head. Without limits a single request could fill
the server's memory before its body begins.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# The most bytes of a request besides its body: request line, headers, trailers and chunk framing. Chunk framing may add
# as many bytes as the body has. Data that arrives in one piece (256 kB at most) is checked after it was parsed.
HEAD_BYTES = 64 * 1024
# The most seconds from the connection, or from the first byte of a request, to the end of the request's head.
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
            return  # a new request began in this piece of data
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
        if not self._in_head:  # a response may have begun already
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
