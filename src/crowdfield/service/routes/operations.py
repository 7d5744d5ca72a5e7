"""For those who run the service: health, readiness and metrics. None of them asks the database: see `health`."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from crowdfield import __version__
from crowdfield.service.auth import Principal, Role
from crowdfield.service.deps import ReaderOfAll, may_see, principal_of, service_of
from crowdfield.service.health import Health
from crowdfield.service.store import Store

router = APIRouter(tags=["operations"])
DOWN: dict[int | str, dict[str, Any]] = {503: {"description": "reports cannot be stored now"}}


async def _found(request: Request) -> Health:
    service = service_of(request)
    if service.monitor.running:
        return service.monitor.latest()
    return await service.pools.operations.run(service.monitor.latest)


@router.get("/health", responses=DOWN)
async def health(request: Request) -> JSONResponse:
    """Whether all is well: `ok`, `degraded` (reports are stored, something else is wrong) or `down` (503).

    Without a key that is all. A key sees a word for each thing that was looked at, an admin key the details."""
    found = await _found(request)
    principal = principal_of(request)
    body: dict[str, Any] = {"status": found.status}
    if principal.id is not None:
        body |= {"version": __version__, "checks": {name: check.word for name, check in found.checks.items()}}
    if principal.on(None).role >= Role.admin:
        body["details"] = {name: check.detail for name, check in found.checks.items()}
    return JSONResponse(body, 200 if found.intake else 503)


@router.get("/ready", responses=DOWN)
async def ready(request: Request) -> JSONResponse:
    """Whether to send reports here: 200 while they are stored, 503 while they cannot be."""
    service = service_of(request)
    intake = (await _found(request)).intake and not service.stopping
    return JSONResponse({"ready": intake}, 200 if intake else 503)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request, principal: ReaderOfAll) -> Response:
    """Prometheus metrics."""
    service = service_of(request)
    await _found(request)
    service.metrics.commits.set(service.journal.commits)
    service.metrics.committed.set(service.journal.entries)
    service.metrics.loop_lag.set(service.lag.seconds)
    for pool in service.pools:
        service.metrics.pool_work.labels(pool.name).set(pool.inside)
        service.metrics.pool_refused.labels(pool.name).set(pool.refused)
    text = service.metrics.text()
    # The names of maps that only keys may see are not for strangers either.
    hidden = await service.pools.operations.run(_hidden, service.store, principal)
    if hidden:
        text = b"".join(line for line in text.splitlines(keepends=True) if not any(name in line for name in hidden))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _hidden(store: Store, principal: Principal) -> list[bytes]:
    return [f'situation="{one.id}"'.encode() for one in store.situations() if not may_see(principal, one)]
