"""Error responses as problem+json (RFC 9457): what is wrong, where, and what to do next; never a stack trace."""

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from sqlalchemy.exc import DataError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from crowdfield.errors import CrowdfieldError, DataUnavailableError, MissingDependencyError, NumericalError
from crowdfield.service.journal import JournalClosed
from crowdfield.service.store import InUse, Taken, Unknown

MEDIA = "application/problem+json"
log = logging.getLogger("crowdfield.service")


class Problem(HTTPException):
    """An HTTP error with further fields besides its sentence."""

    def __init__(self, status: int, detail: str, *, headers: dict[str, str] | None = None, **more: Any):
        super().__init__(status, detail, headers=headers)
        self.more = more


def respond(status: int, detail: str, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    """An answer as problem+json."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail} | more
    return JSONResponse(body, status, headers=headers, media_type=MEDIA)


def faults(error: ValidationError | RequestValidationError, limit: int = 20) -> list[dict[str, str]]:
    """Where each value is wrong and why, without the value itself: it may be long, secret or hostile."""
    return [
        {"where": ".".join(map(str, e["loc"])), "what": e["msg"].removeprefix("Value error, ")}
        for e in error.errors()[:limit]
    ]


# The HTTP status of each of our error classes; the first match counts.
STATUS: tuple[tuple[type[CrowdfieldError], int], ...] = (
    (JournalClosed, 503),
    (Unknown, 404),
    (Taken, 409),
    (InUse, 409),
    (MissingDependencyError, 501),
    (DataUnavailableError, 404),
    (NumericalError, 422),
    (CrowdfieldError, 422),
)


def status_of(error: CrowdfieldError) -> int:
    """The HTTP status of one of our errors."""
    return next(status for kind, status in STATUS if isinstance(error, kind))


def install(app: FastAPI) -> None:
    """Turn every error into problem+json."""

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        more = error.more if isinstance(error, Problem) else {}
        return respond(error.status_code, str(error.detail), dict(error.headers or {}), **more)

    @app.exception_handler(RequestValidationError)
    async def request_invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return respond(422, "the request does not match its description in /openapi.json", faults=faults(error))

    @app.exception_handler(ValidationError)
    async def body_invalid(_: Request, error: ValidationError) -> JSONResponse:
        return respond(422, "the body does not match its description in /openapi.json", faults=faults(error))

    @app.exception_handler(CrowdfieldError)
    async def ours(_: Request, error: CrowdfieldError) -> JSONResponse:
        status = status_of(error)
        return respond(status, str(error), {"Retry-After": "2"} if status == 503 else None)

    @app.exception_handler(DataError)
    async def unstorable(_: Request, error: DataError) -> JSONResponse:
        log.warning("the database refused a value", extra={"error": type(error.orig).__name__})
        return respond(422, "the database cannot store one of these values")

    @app.exception_handler(SQLAlchemyError)
    async def database(_: Request, error: SQLAlchemyError) -> JSONResponse:
        # Only the class of the error is logged: its message may contain values.
        log.error("database error", extra={"error": type(getattr(error, "orig", None) or error).__name__})
        return respond(503, "the database did not answer; send the request again", {"Retry-After": "2"})

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        log.error("unexpected error", exc_info=error)
        return respond(500, "something went wrong in the service; its log has the details")
