"""What is checked for every request before its route runs: host, key, rate limits and body; and headers of
responses."""

import asyncio
import base64
import binascii
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crowdfield.service.access import RouteAccess
from crowdfield.service.auth import Principal, Role
from crowdfield.service.clients import Clients
from crowdfield.service.limits import (
    BYTES_PER_REQUEST,
    READING,
    WORK_ANONYMOUS,
    WORK_ANONYMOUS_BURST,
    WORK_OF_KEY,
    WORK_OF_KEY_BURST,
    BodyRefused,
    LimitedBody,
    RateLimit,
    Slots,
    too_large,
)
from crowdfield.service.pools import Caller, current_caller
from crowdfield.service.problems import Problem, respond
from crowdfield.service.settings import EVERY_HOST

if TYPE_CHECKING:
    from crowdfield.service.app import Service

log = logging.getLogger("crowdfield.service")

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self' blob:",  # MapLibre starts its workers from a blob
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


def policy_within(origins: Sequence[str]) -> str:
    """The content security policy of a page that these sites may embed."""
    return POLICY.replace("frame-ancestors 'none'", f"frame-ancestors {' '.join(origins)}") if origins else POLICY


ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "geolocation=(self), camera=(), microphone=()",
}


class Gate:
    """Checks every request, and refuses bad ones before their bodies are read or anything is computed."""

    def __init__(self, app: ASGIApp, service: "Service", access: RouteAccess):
        self._app, self._service, self._access = app, service, access
        s = service.settings
        self._hosts = s.hosts
        self._clients = Clients(s.trusted_proxies)
        self._reads = RateLimit(s.reads_per_second, 5 * s.reads_per_second)
        self._writes = RateLimit(s.writes_per_second, 2 * s.writes_per_second)
        self._anonymous = RateLimit(s.anonymous_per_second, 5 * s.anonymous_per_second)
        self._anonymous_work = RateLimit(WORK_ANONYMOUS, WORK_ANONYMOUS_BURST)
        self._work = RateLimit(WORK_OF_KEY, WORK_OF_KEY_BURST)
        self._failures = RateLimit(s.failures_per_minute / 60, s.failures_per_minute)
        self._bodies = Slots("bytes of bodies", BODY_BYTES, BODY_BYTES_PER_CLIENT)
        self._waiting = Slots("requests", REQUESTS, REQUESTS_PER_CLIENT)
        self._uploads = Slots("uploads", UPLOADS, UPLOADS_PER_CLIENT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = uuid4().hex[:12]
        status = 500
        started = False

        async def reply(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                started = True
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in ALWAYS.items():
                    headers.setdefault(name, value)
                headers["X-Request-Id"] = request_id
                headers.setdefault("Cache-Control", "no-store")
                self._allow_origin(scope, headers)
            await send(message)

        try:
            await self._handle(scope, receive, reply)
        except Problem as problem:
            if started:
                raise
            answer = respond(problem.status_code, str(problem.detail), dict(problem.headers or {}), **problem.more)
            await answer(scope, receive, reply)
        finally:
            self._record(scope, status, time.perf_counter() - began, request_id)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check host, key, rate and body of a request, then pass it to its route."""
        headers = Headers(scope=scope)
        self._check_host(headers)
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            known = headers.get("origin") in self._service.settings.cors_origins
            if not known:
                raise Problem(403, "cross-origin requests from this origin are not allowed")
            await respond(200, "cross-origin requests")(scope, receive, send)
            return
        scope["scheme"] = self._clients.scheme(scope)
        client = self._clients.client(scope)
        principal = await self._principal(client, headers, scope["path"])
        caller = self._count_request(scope["method"], principal, client)
        scope.setdefault("state", {}).update(principal=principal, caller=caller)
        current_caller.set(caller)
        if scope["method"] in READING:
            caller.gone = lambda: _gone(receive)
            await self._read(scope, receive, send, caller)
            return
        body, release = self._body(scope, receive, headers, principal, caller)
        try:
            await self._app(scope, body, send)
        finally:
            release()

    async def _read(self, scope: Scope, receive: Receive, send: Send, caller: Caller) -> None:
        """A request without a body. Callers without a key wait when the server is busy, and are charged for the bytes
        that they receive."""
        release = None
        if caller.anonymous:
            release = self._waiting.take(caller)
            pause = self._service.lag.pause
            if pause and scope["path"] not in PROBES:
                await asyncio.sleep(pause)
        sent = 0

        async def count(message: Message) -> None:
            nonlocal sent
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, count)
        finally:
            if release is not None:
                release()
                self._anonymous.charge(caller.id, sent / BYTES_PER_REQUEST)

    def _check_host(self, headers: Headers) -> None:
        given = headers.get("host", "")
        host = given if given.endswith("]") else given.rsplit(":", 1)[0]
        if EVERY_HOST not in self._hosts and host not in self._hosts:
            raise Problem(421, "this host name is not allowed; the operator can add it to CROWDFIELD_ALLOWED_HOSTS")

    async def _principal(self, client: str, headers: Headers, path: str) -> Principal:
        """The caller of a request. Wrong keys are refused, and after several of them the address has to wait."""
        key = _key(headers)
        anonymous = Principal(Role.reader if self._service.settings.anonymous_reading else Role.nobody)
        if key is None:
            return anonymous
        keys = self._service.keys
        is_cached, owner = keys.cached(key)
        if not is_cached:
            # After wrong keys from an address, keys are still looked up, because others may share the address; but not
            # faster than requests without a key are answered.
            wait = self._anonymous.wait(client) if self._failures.owed(client) else 0.0
            if wait:
                raise _slow_down(wait)
            current_caller.set(Caller(client, anonymous=True))
            monitor = self._service.monitor
            if path in PROBES and monitor.running and not monitor.latest().intake:
                return anonymous  # health probes must not wait for a broken database
            try:
                owner = await self._service.pools.intake.run(keys.check, key)
            except SQLAlchemyError as error:
                log.error("keys cannot be read", extra={"error": type(error).__name__})
                if path in PROBES:
                    return anonymous
                raise Problem(
                    503, "the database did not answer; send the request again", headers={"Retry-After": "2"}
                ) from error
        if owner is None:
            wait = self._failures.wait(client)
            if wait:
                raise _slow_down(wait)
            detail = "this key is unknown, expired or revoked"
            raise Problem(401, detail, headers={"WWW-Authenticate": 'Bearer realm="crowdfield"', **CLOSE})
        return owner

    def _count_request(self, method: str, principal: Principal, client: str) -> Caller:
        """Count the request, or refuse it; the work that it causes is charged to the caller separately."""
        if principal.id is None:
            limit, name = self._anonymous, client
        else:
            limit, name = (self._reads if method in READING else self._writes), principal.id
        wait = limit.wait(name)
        if wait:
            raise _slow_down(wait)
        work = self._anonymous_work if principal.id is None else self._work
        return Caller(
            name, principal.id is None, lambda seconds: work.charge(name, seconds), lambda: work.owed(name, 0.0)
        )

    def _body(
        self, scope: Scope, receive: Receive, headers: Headers, principal: Principal, caller: Caller
    ) -> tuple[Receive, Callable[[], None]]:
        """The body of a request, after checks of the sender's role and of the size; and a function that releases it."""
        settings = self._service.settings
        access = self._access.find(scope)
        try:
            access.check(principal)
        except Problem as problem:
            raise Problem(
                problem.status_code, str(problem.detail), headers={**(problem.headers or {}), **CLOSE}
            ) from problem
        limit = settings.import_limit if access.imports else settings.body_limit
        length = headers.get("content-length", "")
        declared = int(length) if length.isascii() and length.isdigit() else limit
        if declared > limit:
            raise too_large(limit)
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "", "gzip", "deflate"):
            raise BodyRefused(415, "bodies may be uncompressed, or compressed with gzip or deflate")
        if access.imports:
            release = self._uploads.take(caller)
        else:
            expanded = declared if encoding in ("identity", "") else declared * settings.expansion_limit
            release = self._bodies.take(caller, min(expanded, limit))
        return LimitedBody(receive, limit, encoding=encoding, expansion=settings.expansion_limit), release

    def _allow_origin(self, scope: Scope, headers: MutableHeaders) -> None:
        origin = Headers(scope=scope).get("origin")
        if origin in self._service.settings.cors_origins:
            headers["Access-Control-Allow-Origin"] = origin or ""
            headers["Access-Control-Allow-Methods"] = "GET, POST, PUT, PATCH, DELETE"
            headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID"
            headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        if self._service.settings.cors_origins:
            headers.add_vary_header("Origin")

    def _record(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        """Log a request and count it in the metrics."""
        # The pattern of the route, not the path: paths may contain names of sources, and each would be a new series.
        route = scope.get("route")
        pattern = getattr(route, "path_format", None) or getattr(route, "path", None) or "other"
        metrics = self._service.metrics
        metrics.requests.labels(scope["method"] if scope["method"].isalpha() else "other", pattern, status).inc()
        metrics.seconds.labels(pattern).observe(seconds)
        principal: Principal | None = scope.get("state", {}).get("principal")
        # Full queues and deadlines are counted in the metrics only: a flood of requests must not fill the log.
        level = logging.WARNING if status == 500 else logging.DEBUG if pattern in QUIET else logging.INFO
        log.log(
            level,
            "request",
            extra={
                "request": request_id,
                "method": scope["method"],
                "route": pattern,
                "status": status,
                "ms": round(seconds * 1e3, 1),
                "role": principal.role.name if principal else None,
                "key": principal.id if principal else None,
            },
        )


# The connection is closed after a refusal, because an unread body may follow.
CLOSE = {"Connection": "close"}
# The most bytes of bodies in memory, and the most uploads at once, which are written to disk: in all, and per client.
BODY_BYTES, BODY_BYTES_PER_CLIENT = 512 * 2**20, 128 * 2**20
UPLOADS, UPLOADS_PER_CLIENT = 8, 3
# The most requests without a key at once, including event streams: in all, and per client.
REQUESTS, REQUESTS_PER_CLIENT = 2000, 200
# Health probes are answered even while keys cannot be read.
PROBES = frozenset({"/health", "/ready"})
QUIET = frozenset({"/health", "/ready", "/metrics", "other"})


def _key(headers: Headers) -> str | None:
    """The key of a request: a bearer token, an X-API-Key, or the password of basic authentication (for webhooks)."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(value.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return ""
        return password or user
    if scheme:
        return ""
    return headers.get("x-api-key")


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


def _slow_down(wait: float) -> Problem:
    seconds = str(max(1, round(wait + 0.5)))
    return Problem(429, f"too many requests; wait {seconds} s", headers={"Retry-After": seconds, **CLOSE})
