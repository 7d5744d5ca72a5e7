"""What happens to every request before a route sees it: host, body limits, who is asking, how often; headers after."""

import base64
import binascii
import logging
import time
from typing import TYPE_CHECKING
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crowdfield.service.auth import Principal, Role
from crowdfield.service.limits import READING, LimitedBody, RateLimit, TooLarge, Undecodable
from crowdfield.service.problems import respond

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
ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "geolocation=(self), camera=(), microphone=()",
}


class Gate:
    """One pass for every request; refuses before anything is read or computed."""

    def __init__(self, app: ASGIApp, service: "Service"):
        self._app, self._service = app, service
        s = service.settings
        self._reads = RateLimit(s.reads_per_second, 5 * s.reads_per_second)
        self._writes = RateLimit(s.writes_per_second, 2 * s.writes_per_second)
        self._anonymous = RateLimit(s.anonymous_per_second, 10 * s.anonymous_per_second)
        self._failures = RateLimit(s.failures_per_minute / 60, s.failures_per_minute)

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
            await self._pass(scope, receive, reply)
        except (TooLarge, Undecodable) as error:
            if started:
                raise
            code = 413 if isinstance(error, TooLarge) else 400
            await respond(code, str(error), {"Connection": "close"})(scope, receive, reply)
        finally:
            self._record(scope, status, time.perf_counter() - began, request_id)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        settings = self._service.settings
        host = (
            headers.get("host", "").rsplit(":", 1)[0] if not headers.get("host", "").endswith("]") else headers["host"]
        )
        if "*" not in settings.allowed_hosts and host not in settings.allowed_hosts:
            detail = "this name is not served; add it to CROWDFIELD_ALLOWED_HOSTS"
            await respond(421, detail)(scope, receive, send)
            return
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            known = headers.get("origin") in settings.cors_origins
            await respond(200 if known else 403, "cross-origin requests" + ("" if known else " from here are refused"))(
                scope, receive, send
            )
            return
        address = (scope.get("client") or ("unknown",))[0]
        key = _key(headers)
        principal = Principal(Role.reader if settings.anonymous_reading else Role.nobody)
        if key is not None:
            owner = await self._owner(key)
            if owner is None:
                wait = self._failures.wait(address)
                detail = "this key is not known, or was revoked"
                answer = (
                    _slow_down(wait)
                    if wait
                    else respond(401, detail, {"WWW-Authenticate": 'Bearer realm="crowdfield"'})
                )
                await answer(scope, receive, send)
                return
            principal = owner
        wait = self._wait(scope["method"], principal, address)
        if wait:
            await _slow_down(wait)(scope, receive, send)
            return
        limit = settings.import_limit if scope["path"].rstrip("/").endswith("/import") else settings.body_limit
        declared = headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > limit:
            raise TooLarge(f"the body is larger than {limit:,} bytes; send it in parts or import it as a file")
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "", "gzip", "deflate"):
            await respond(415, "bodies may be sent as they are, or packed with gzip or deflate")(scope, receive, send)
            return
        body = LimitedBody(receive, limit, encoding=encoding, expansion=settings.expansion_limit)
        scope.setdefault("state", {})["principal"] = principal
        await self._app(scope, body, send)

    async def _owner(self, key: str) -> Principal | None:
        keys = self._service.keys
        at_hand, principal = keys.known(key)
        return principal if at_hand else await self._service.pools.intake.run(keys.check, key)

    def _wait(self, method: str, principal: Principal, address: str) -> float:
        if principal.id is None:
            return self._anonymous.wait(address)
        return (self._reads if method in READING else self._writes).wait(principal.id)

    def _allow_origin(self, scope: Scope, headers: MutableHeaders) -> None:
        origin = Headers(scope=scope).get("origin")
        if origin in self._service.settings.cors_origins:
            headers["Access-Control-Allow-Origin"] = origin or ""
            headers["Access-Control-Allow-Methods"] = "GET, POST, DELETE"
            headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID"
            headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        if self._service.settings.cors_origins:
            headers.add_vary_header("Origin")

    def _record(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        # The route's pattern, never the path: a path may name sources, and would make a new series for each.
        route = scope.get("route")
        pattern = getattr(route, "path_format", None) or getattr(route, "path", None) or "other"
        metrics = self._service.metrics
        metrics.requests.labels(scope["method"] if scope["method"].isalpha() else "other", pattern, status).inc()
        metrics.seconds.labels(pattern).observe(seconds)
        principal: Principal | None = scope.get("state", {}).get("principal")
        level = logging.WARNING if status >= 500 else logging.DEBUG if pattern in QUIET else logging.INFO
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


QUIET = frozenset({"/health", "/metrics", "other"})


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


def _slow_down(wait: float):  # type: ignore[no-untyped-def]
    seconds = str(max(1, round(wait + 0.5)))
    return respond(429, f"too many requests; wait {seconds} s", {"Retry-After": seconds})
