"""For those who run the service: health and metrics."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from crowdfield import __version__
from crowdfield.service.deps import ReaderOfAll, service_of

router = APIRouter(tags=["operations"])


@router.get("/health", responses={503: {"description": "not able to take reports"}})
async def health(request: Request) -> JSONResponse:
    """Whether reports are taken and maps renewed. Says nothing about the situations themselves."""
    service = service_of(request)

    def look() -> tuple[bool, int]:
        situations = service.store.situations()
        return True, sum(s.failure is not None for s in situations)

    storage, failing = await service.pools.operations.run(look)
    worker = service.worker.poll() is None if service.worker is not None else None
    body: dict[str, Any] = {
        "status": "ok" if storage and worker is not False and not failing else "degraded",
        "database": storage,
        "worker": worker,
        "failing": failing,
        "version": __version__,
    }
    return JSONResponse(body)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request, _: ReaderOfAll) -> Response:
    """Prometheus metrics."""
    service = service_of(request)

    def collect() -> bytes:
        m = service.metrics
        m.commits.set(service.journal.commits)
        m.committed.set(service.journal.entries)
        for situation in service.store.situations():
            newest = service.store.version(situation.id)
            m.version.labels(situation.id).set(newest.number if newest else 0)
            m.fit_seconds.labels(situation.id).set(newest.seconds if newest else 0)
            m.behind.labels(situation.id).set(situation.head - newest.head if newest else situation.head)
            m.failures.labels(situation.id).set(situation.failures)
            m.failed.labels(situation.id).set(situation.failure is not None)
        return generate_latest(m.registry)

    return Response(await service.pools.operations.run(collect), media_type=CONTENT_TYPE_LATEST)
