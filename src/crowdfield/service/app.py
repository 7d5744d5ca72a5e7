"""The application: one `Service` object that holds everything with the lifetime of the server, and the routes."""

import asyncio
import base64
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from crowdfield import __version__
from crowdfield.data import Region
from crowdfield.service import moments, problems
from crowdfield.service.access import RouteAccess
from crowdfield.service.alerts import Alerts
from crowdfield.service.assets import assets
from crowdfield.service.auth import Keys, Names, Role
from crowdfield.service.configuration import FILE_VARIABLE
from crowdfield.service.database import connect, open_database
from crowdfield.service.districts import Districts
from crowdfield.service.events import Broadcast
from crowdfield.service.health import Monitor
from crowdfield.service.helper_pool import (
    CLEAR_SECONDS,
    EXACT_SECONDS,
    FOREVER_SECONDS,
    KEPT_SECONDS,
    HelperPool,
    ResultCache,
)
from crowdfield.service.journal import Entry, Journal, Outcome
from crowdfield.service.limits import Lag, Slots
from crowdfield.service.maps import Frame, Maps, RecentCache
from crowdfield.service.metrics import Metrics
from crowdfield.service.middleware import Gate
from crowdfield.service.packing import BEST, Packed, pack
from crowdfield.service.pools import current_caller
from crowdfield.service.problems import Problem
from crowdfield.service.records import Situation
from crowdfield.service.routes import (
    alerts,
    checks,
    districts,
    keys,
    maps,
    ogc,
    operations,
    page,
    reports,
    situations,
    weights,
)
from crowdfield.service.serverpools import Pools
from crowdfield.service.settings import Settings
from crowdfield.service.store import Store
from crowdfield.service.uploads import Reader
from crowdfield.service.vectortiles import SUFFIX, VectorTiles
from crowdfield.service.weights import Weights

log = logging.getLogger("crowdfield.service")
# For how many seconds a server may use a situation, or its trusted sources, without reading them again.
FRESH_SECONDS = 1.0
TILE_BYTES = 64 * 2**20
# Tasks whose answers always contain exact reports.
EXACT_TASKS = ("reports", "report", "moderation")
# The model of a map that changes all the time is preloaded no more often than this.
WARM_SECONDS = 5.0
# A server preloads the models this long after its start: the page, the intake and the worker come first.
READY_AFTER_SECONDS = 3.0


class Service:
    """Everything with the lifetime of the server: database, journal, pools, caches and worker."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.engine = open_database(settings.database)
        # The intake of reports has connections of its own, so that it never waits for one that a reader holds.
        self.intake_engine = connect(settings.database)
        self.pools = Pools(
            {
                "database": settings.database,
                "minimum_count": settings.minimum_count,
                "minimum_sources": settings.minimum_sources,
                "period_hours": settings.period_hours,
            }
        )
        self.files = ResultCache()
        self.store = Store(self.engine)
        self.districts, self.alerts = Districts(self.engine), Alerts(self.engine)
        self.weights = Weights(self.engine)
        self.intake_store = Store(self.intake_engine)
        self.keys = Keys(self.intake_engine, Role.reader if settings.anonymous_reading else Role.nobody)
        self.names = Names(self.engine)
        self.journal = Journal(self.intake_engine)
        self.metrics = Metrics()
        self.monitor = Monitor(settings, self.journal, self.metrics)
        self.stopping = False
        self.reader = Reader(settings, self.metrics)
        own = settings.basemap
        self.streets = VectorTiles(own) if own is not None and own.suffix == SUFFIX else None
        self.maps = Maps(self.store)
        self.tiles: RecentCache[bytes] = RecentCache(TILE_BYTES, len)
        self.lag = Lag()
        self.broadcast = Broadcast(self.store, self.keys, self.metrics, self.pools.events, settings.poll_seconds)
        self.streams = Slots("event streams", settings.stream_limit, settings.streams_per_client)
        self.worker: subprocess.Popen[bytes] | None = None
        self._situations: dict[tuple[Any, ...], tuple[float, Situation]] = {}
        self._trust: dict[str, tuple[float, dict[str, Any]]] = {}
        self._supervisor: asyncio.Task[None] | None = None
        # Maps whose models are being preloaded, and whether a newer version was published meanwhile.
        self._warming: dict[str, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.broadcast.on_watched = self.warm

    async def start(self) -> None:
        await self.broadcast.start()
        await asyncio.to_thread(self.monitor.start)
        # Prepared now, so that the first page need not wait for its files.
        self._reading = asyncio.create_task(self.pools.operations.run(assets().prepare), name="assets")
        self._watching = asyncio.create_task(self.lag.watch(), name="lag")
        self._clearing = asyncio.create_task(self._clear(), name="clearing")
        self._in_background(self._preload_models())
        if self.settings.worker:
            self._supervisor = asyncio.create_task(self._supervise(), name="supervisor")

    async def _clear(self) -> None:
        """Delete files that were made for a request once they have been kept long enough."""
        while True:
            await asyncio.sleep(CLEAR_SECONDS)
            self.files.clear()

    async def stop(self) -> None:
        self.stopping = True
        for task in (self._clearing, self._watching, *self._tasks):
            task.cancel()
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        if self.worker is not None:
            self.worker.terminate()
        await self.broadcast.stop()
        # Not in a pool, which has a deadline: accepted reports are stored, however long that takes.
        await asyncio.to_thread(self.journal.close)
        if self.worker is not None:
            try:
                await asyncio.to_thread(self.worker.wait, 10.0)
            except subprocess.TimeoutExpired:
                self.worker.kill()
            if self.worker.stdin is not None:
                self.worker.stdin.close()
        self.close()

    def close(self) -> None:
        """Store the accepted reports, and close threads and connections."""
        self.journal.close()
        self.monitor.stop()
        self.pools.close()
        self.files.close()
        self.engine.dispose()
        self.intake_engine.dispose()

    async def append(self, situation: str, entries: list[Entry]) -> list[Outcome]:
        """The outcomes of the entries, once they are durable."""
        return await asyncio.wrap_future(self.journal.submit(situation, entries))

    async def situation(
        self,
        name: str | None,
        *,
        among: frozenset[str] | None = None,
        access: frozenset[str] | None = None,
        reporting: bool = False,
    ) -> Situation:
        """A situation by its id; for None the newest one (of those in `among`, and with one of these values of
        `access`). The database is asked at most once a second."""
        asked = (name, among, access)
        at, held = self._situations.get(asked, (0.0, None))
        if held is not None and time.monotonic() - at < FRESH_SECONDS:
            return held
        pool, store = (self.pools.intake, self.intake_store) if reporting else (self.pools.reading, self.store)
        found = await pool.run(lambda: store.latest(among, access=access) if name is None else store.situation(name))
        self._situations[asked] = (time.monotonic(), found)
        return found

    async def trust(self, name: str) -> dict[str, Any]:
        at, held = self._trust.get(name, (0.0, None))
        if held is not None and time.monotonic() - at < FRESH_SECONDS:
            return held
        found = await self.pools.intake.run(self.intake_store.trust, name)
        self._trust[name] = (time.monotonic(), found)
        return found

    async def cached_answer(self, pool: HelperPool, question: dict[str, Any], situation: Situation) -> Any:
        """The answer of a helper process to a question; it is cached, so the same question is answered only once."""
        key = (_identity(situation), json.dumps(question, sort_keys=True))
        return await self.files.get(key, pool, self._question_to(pool, question), seconds=_seconds_kept(question))

    async def image(self, question: dict[str, Any], situation: Situation | None = None) -> bytes:
        """A tile or a legend, drawn by a helper process unless it was drawn lately."""
        key = (_identity(situation), *question.values())
        held = self.tiles.cached(key)
        if held is None:
            ask = self._question_to(self.pools.tiles, question)
            drawn = await self.pools.tiles.run(lambda: base64.b64decode(ask()["image"]))
            held = self.tiles.get(key, lambda: drawn)
        return held

    async def cached_file(
        self, pool: HelperPool, question: dict[str, Any], situation: Situation | None = None, *, since: float = 0.0
    ) -> Packed:
        """The same for an answer that is a file. `since`: when the districts that the question names were stored, so
        that figures of earlier districts with the same name are not reused."""
        key = (_identity(situation), since, json.dumps(question, sort_keys=True))
        ask = self._question_to(pool, question | {"target": str(self.files.new_file())})
        return await self.files.get(key, pool, lambda: Packed.from_answer(ask()), seconds=_seconds_kept(question))

    async def frame(self, situation: Situation, version: int | None, moment: float | None) -> Frame | None:
        """The version of a map that moves at the moment that is nearest to a given one; None for its newest moment,
        which every version shows by default. Each moment is drawn when somebody asks for it, once for all who ask."""
        if moment is None:
            return None
        info = await self.pools.reading.run(self.maps.info, situation, version)
        at = moments.nearest(info.info, moment)
        if at == moments.newest(info.info):
            return None
        question = {"task": "frame", "situation": situation.id, "version": info.number, "moment": at}
        return Frame(info.number, at, str((await self.cached_file(self.pools.answers, question, situation)).plain))

    async def figures(
        self, situation: Situation, question: dict[str, Any], moment: float | None = None, *, since: float = 0.0
    ) -> Packed:
        """Figures of the newest version, the only one whose model is kept, at a moment if the map moves. If another
        version is published while they are made, figures of that one."""

        async def make(newest: dict[str, Any]) -> Packed:
            frame = await self.frame(situation, newest["version"], moment)
            whole = question | newest | {"frame": frame}
            return await self.cached_file(self.pools.exports, whole, situation, since=since)

        newest = await self._newest(situation)
        try:
            return await make(newest)
        except Problem:
            newer = await self._newest(situation)
            if newer == newest:
                raise
            return await make(newer)

    async def _newest(self, situation: Situation) -> dict[str, Any]:
        """What figures depend on besides the question: the newest version, and when the weights were stored."""
        info = await self.pools.reading.run(self.maps.info, situation)
        return {
            "version": info.number,
            "weights": await self.pools.reading.run(self.weights.created, situation.id),
        }

    async def ground_of(self, region: Region) -> Packed:
        """The ground around a region, made once; the operator's own tiles have their own rivers and names."""
        target = str(self.files.new_file())
        question = {"task": "basemap", "region": region, "landmarks": self.streets is None, "target": target}
        ask = self._question_to(self.pools.exports, question)
        make = self.files.get(
            ("ground", region), self.pools.exports, lambda: Packed.from_answer(ask()), seconds=FOREVER_SECONDS
        )
        return await make

    async def own_basemap(self) -> Packed:
        """The operator's own basemap file, as it was when it was first requested."""
        assert self.settings.basemap is not None
        path = self.settings.basemap
        return await self.files.get(
            "ground", self.pools.exports, lambda: pack(path.read_bytes(), "application/geo+json", level=BEST),
            seconds=FOREVER_SECONDS,
        )  # fmt: skip

    def _question_to(self, pool: HelperPool, question: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        caller = current_caller.get()
        return lambda: pool.ask(question, caller.charge if caller else lambda seconds: None)

    def warm(self, situation: str) -> None:
        """Somebody watches a map: load the model of its newest version before they ask for reasons."""
        if situation in self._warming:
            self._warming[situation] = True
            return
        self._warming[situation] = False
        self._in_background(self._warm(situation))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        # In an empty context: background work is not charged to the caller of a request.
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _preload_models(self) -> None:
        """Start a process that has loaded the models, so that the first question does not wait for that."""
        await asyncio.sleep(READY_AFTER_SECONDS)
        try:
            await self.pools.answers.run(self._question_to(self.pools.answers, {"task": "ready"}))
        except Problem as problem:
            log.warning("the models could not be preloaded", extra={"why": str(problem.detail)})

    async def _warm(self, situation: str) -> None:
        """Keep the model of a map loaded while somebody watches it."""
        pool = self.pools.answers
        ask = self._question_to(pool, {"task": "warm", "situation": situation})
        try:
            while True:
                await pool.run(ask)
                await asyncio.sleep(WARM_SECONDS)
                if not self._warming[situation]:
                    return
                self._warming[situation] = False
        except Problem as problem:
            # The map was removed, or the pool is busy with requests.
            log.debug("a model was not preloaded", extra={"situation": situation, "why": str(problem.detail)})
        finally:
            del self._warming[situation]

    def forget(self) -> None:
        """Drop cached situations and trust after a change, so that the next request reads the database."""
        self._situations.clear()
        self._trust.clear()

    async def _supervise(self) -> None:
        """Keep a worker running next to this server. One that dies is restarted, after longer pauses if that
        repeats."""
        pause = 0.5
        environment = os.environ | self.settings.environment()
        environment.pop(FILE_VARIABLE, None)  # the settings already include those of the file
        # One thread for linear algebra unless an operator says otherwise: while the server is busy too, several threads
        # wait for each other, and a fit takes many times as long.
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment.setdefault(name, "1")
        command = [sys.executable, "-m", "crowdfield.service.worker", "--with-parent"]
        while True:
            began = time.monotonic()
            self.worker = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE)
            while self.worker.poll() is None:
                await asyncio.sleep(0.2)
            log.error("the worker stopped and is started again", extra={"code": self.worker.returncode})
            if self.worker.stdin is not None:
                self.worker.stdin.close()
            pause = 0.5 if time.monotonic() - began > 30 else min(2 * pause, 30.0)
            await asyncio.sleep(pause)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The ASGI application with all its routes."""
    service = Service(settings or Settings())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="crowdfield",
        version=__version__,
        description="Maps you can trust, from reports you can't: reports in, numbered map versions out.",
        lifespan=lifespan,
        # The framework's own pages load scripts from other servers; ours are in routes/page.py.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        generate_unique_id_function=_operation_id,
        responses={
            "4XX": {
                "description": "what is wrong, and what to do next",
                "content": {problems.MEDIA: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}},
            }
        },
    )
    app.state.service = service
    problems.install(app)
    api_routers = routers()
    app.add_middleware(Gate, service=service, access=RouteAccess(api_routers))
    for router in api_routers:
        app.include_router(router)
    app.include_router(maps.short_routes(), include_in_schema=False)
    page.install(app)
    return app


def routers() -> list[APIRouter]:
    """All routers with API routes; the gate checks their requests before their bodies are read."""
    named = (situations, reports, districts, weights, checks, alerts, keys, ogc, operations)
    return [*(routes.router for routes in named), maps.situation_routes()]


def _identity(situation: Situation | None) -> tuple[float, str] | None:
    """What distinguishes a map from a removed one of the same name, and from the same one before a change of its
    layout: who may see it now may not see what was cached then."""
    return None if situation is None else (situation.created, situation.layout_tag)


def _seconds_kept(question: dict[str, Any]) -> float:
    return EXACT_SECONDS if question.get("exact") or question["task"] in EXACT_TASKS else KEPT_SECONDS


def _operation_id(route: APIRoute) -> str:
    return f"{route.name}_{'_'.join(sorted(route.methods or ())).lower()}_{len(route.path_format)}"
