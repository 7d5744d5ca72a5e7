"""For operators of the service: health, readiness and metrics. None of them queries the database: see `health`."""

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


async def _latest_health(request: Request) -> Health:
    service = service_of(request)
    if service.monitor.running:
        return service.monitor.latest()
    return await service.pools.operations.run(service.monitor.latest)


@router.get("/health", responses=DOWN)
async def health(request: Request) -> JSONResponse:
    """The state of the service: `ok`, `degraded` (reports are stored, but something else is wrong) or `down` (503).

    With a key the answer also has the result of each check in a word; with an admin key, details."""
    found = await _latest_health(request)
    principal = principal_of(request)
    body: dict[str, Any] = {"status": found.status}
    if principal.id is not None:
        body |= {"version": __version__, "checks": {name: check.word for name, check in found.checks.items()}}
    if principal.on(None).role >= Role.admin:
        body["details"] = {name: check.detail for name, check in found.checks.items()}
    return JSONResponse(body, 200 if found.intake else 503)


@router.get("/ready", responses=DOWN)
async def ready(request: Request) -> JSONResponse:
    """Whether this server takes reports: 200 if it stores them, 503 if it cannot."""
    service = service_of(request)
    intake = (await _latest_health(request)).intake and not service.stopping
    return JSONResponse({"ready": intake}, 200 if intake else 503)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request, principal: ReaderOfAll) -> Response:
    """Prometheus metrics."""
    service = service_of(request)
    await _latest_health(request)
    service.metrics.commits.set(service.journal.commits)
    service.metrics.committed.set(service.journal.entries)
    service.metrics.loop_lag.set(service.lag.seconds)
    for pool in service.pools:
        service.metrics.pool_work.labels(pool.name).set(pool.inside)
        service.metrics.pool_refused.labels(pool.name).set(pool.refused)
    text = service.metrics.text()
    # Callers who may not see a map must not see its id in the metrics either.
    hidden = await service.pools.operations.run(_hidden, service.store, principal)
    if hidden:
        text = b"".join(line for line in text.splitlines(keepends=True) if not any(name in line for name in hidden))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _hidden(store: Store, principal: Principal) -> list[bytes]:
    return [f'situation="{one.id}"'.encode() for one in store.situations() if not may_see(principal, one)]
