"""Reading maps: tiles, places with their reasons, where to look next, sources, exports, and events.

Every route exists twice: under its situation, and as a short address (``/tiles/…``) for the newest situation or the one
in the query.
"""

import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from functools import cache
from typing import Annotated, Any, ParamSpec

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from crowdfield.service import answers, exports, moments, tiles
from crowdfield.service.auth import Role
from crowdfield.service.deps import (
    MomentQuery,
    Reader,
    VersionQuery,
    accesses,
    service_of,
    situation_from_query,
    situation_of,
)
from crowdfield.service.mvt import MEDIA as MVT
from crowdfield.service.packing import PRIVATE, Packed, pack, pack_json, send
from crowdfield.service.problems import Problem
from crowdfield.service.records import Situation
from crowdfield.service.routes.filters import PointsWanted, head_of
from crowdfield.service.schemas import EventTimes, Latitude, Longitude, VersionOut, finite

P = ParamSpec("P")
StateQuery = Annotated[
    str | None, Query(max_length=200, description="a state; by default the one that the map shows first")
]
# Cache-Control of tiles. A tile with a version, a state and colours in its address never changes. An admin may change
# the default colours of a map, and a tile of the newest version may change with the next report.
FOREVER, MINUTES, BRIEFLY = "public, max-age=31536000, immutable", "public, max-age=300", "no-cache"


@cache
def situation_routes() -> APIRouter:
    """Routes under /situations/{id}."""
    return _routes("/situations/{situation}", situation_of)


@cache
def short_routes() -> APIRouter:
    """The same routes without the id of a situation, for the newest map."""
    return _routes("", situation_from_query)


def state_index(situation: Situation, state: str | None) -> int:
    """The column of a state; an error if the map has no such state."""
    if state is None:
        state = situation.positive
    if state not in situation.states:
        raise Problem(404, f"this situation has no such state; it has: {', '.join(situation.states)}")
    return situation.states.index(state)


def _routes(prefix: str, which: Callable[..., Any]) -> APIRouter:
    router = APIRouter(prefix=prefix, tags=["maps"])
    SituationInPath = Annotated[Situation, Depends(which)]

    @router.get("/tiles/{layer}/{z}/{x}/{y}.png", response_class=Response, responses=_png())
    async def tile(
        request: Request,
        situation: SituationInPath,
        layer: tiles.Layer,
        z: Annotated[int, Path(ge=0, le=22)],
        x: Annotated[int, Path(ge=0, lt=2**22)],
        y: Annotated[int, Path(ge=0, lt=2**22)],
        _: Reader,
        state: StateQuery = None,
        version: VersionQuery = None,
        base: Annotated[
            int | None, Query(ge=1, le=2**31 - 1, description="for the layer difference: the earlier version")
        ] = None,
        scale: Annotated[
            tiles.Scale | None, Query(description="the colour scale of the layer probability; the map's by default")
        ] = None,
        moment: MomentQuery = None,
    ) -> Response:
        """A tile of a layer. The layer `difference` shows the change since the previous version, or since `base`."""
        service = service_of(request)
        _check_tile(z, x, y)
        if layer == "difference" and moment is not None:
            raise Problem(422, "the layer difference compares versions, each at its newest moment; leave out `moment`")
        j = state_index(situation, state)
        question = {
            "task": "tile", "situation": situation.id, "version": version, "layer": layer, "z": z, "x": x, "y": y,
            "state": j, "base": base if layer == "difference" else None, "scale": scale or situation.scales[j],
            "layout": situation.layout_tag,
        }  # fmt: skip
        if version is None:
            question["version"] = (await service.pools.reading.run(service.maps.info, situation)).number
        frame = await service.frame(situation, version, moment)
        if frame is not None:
            question["version"] = frame.version
        image = await service.image({**question, "frame": frame}, situation)
        control = "private"
        if service.settings.anonymous_reading and situation.access == "public":
            coloured = scale is not None or layer != "probability"
            control = _kept(numbered=version is not None and state is not None, coloured=coloured)
        return Response(image, media_type="image/png", headers={"Cache-Control": control})

    @router.get("/tilejson")
    async def tilejson(
        request: Request,
        situation: SituationInPath,
        _: Reader,
        layer: tiles.Layer = "probability",
        state: StateQuery = None,
        version: VersionQuery = None,
        moment: MomentQuery = None,
    ) -> JSONResponse:
        """A layer as TileJSON 3.0, to show it in other map software."""
        service = service_of(request)
        now = await service.pools.reading.run(service.maps.info, situation, version)
        j, at = state_index(situation, state), None if moment is None else moments.nearest(now.info, moment)
        return JSONResponse(answers.tilejson(str(request.base_url), situation, now.number, layer, j, at))

    @router.get("/point/{longitude},{latitude}")
    async def point(
        request: Request,
        situation: SituationInPath,
        longitude: Annotated[Longitude, Path()],
        latitude: Annotated[Latitude, Path()],
        principal: Reader,
        state: StateQuery = None,
        version: VersionQuery = None,
        moment: MomentQuery = None,
    ) -> JSONResponse:
        """What is known about a place, how well, and why: the contribution of each source in log odds."""
        service = service_of(request)
        j = state_index(situation, state)
        frame = await service.frame(situation, version, moment)
        number = version if frame is None else frame.version
        at = await service.pools.reading.run(answers.place, service, situation, longitude, latitude, j, number, frame)
        return JSONResponse(finite(await answers.point(service, situation, principal, at, j)))

    @router.get("/next", response_class=JSONResponse)
    async def look_next(
        request: Request, situation: SituationInPath, _: Reader, version: VersionQuery = None
    ) -> Response:
        """Where to look next: GeoJSON polygons with scores, which tasking tools can import. If the state of the map
        changes over time, at the newest moment of the version: nobody can look at the past."""
        service = service_of(request)
        return await json_answer(request, answers.suggestions, service, situation, version)

    @router.get("/sources", response_class=JSONResponse)
    async def sources(
        request: Request, situation: SituationInPath, principal: Reader, version: VersionQuery = None
    ) -> Response:
        """How reliable each source is, with intervals and confusion matrices. Readers see no names."""
        service = service_of(request)
        return await json_answer(request, answers.sources, service, situation, principal, version)

    @router.get("/points", response_class=JSONResponse)
    async def points(
        request: Request, situation: SituationInPath, principal: Reader, version: VersionQuery = None
    ) -> Response:
        """The reports of a version as the page draws them: single reports for trusted keys, cells for readers."""
        service = service_of(request)
        exact = principal.role >= Role.trusted
        info = await service.pools.reading.run(service.store.version, situation.id, version)
        if info is None:
            if version is not None:
                raise Problem(404, f"there is no version {version} of this map")
            return JSONResponse({"type": "FeatureCollection", "exact": exact, "total": 0, "features": []})
        question = {"task": "points", "situation": situation.id, "version": info.number, "exact": exact}
        found = await service.cached_file(service.pools.answers, question, situation)
        return send(request.headers, found, cache=PRIVATE)

    @router.get("/points/{z}/{x}/{y}.mvt", response_class=Response, responses=_mvt())
    async def point_tile(
        request: Request,
        situation: SituationInPath,
        z: Annotated[int, Path(ge=0, le=22)],
        x: Annotated[int, Path(ge=0, lt=2**22)],
        y: Annotated[int, Path(ge=0, lt=2**22)],
        principal: Reader,
        wanted: PointsWanted,
        version: VersionQuery = None,
    ) -> Response:
        """The same as vector tiles, clustered by zoom. The layer `points` has `count` and `label`. A point for one
        report also has `id`, `source` and `time`; for one cell, `cell`; for several of them, their number (`points`),
        how many have each label (`label_0` … in the order of the map's labels), and `one_place` if they share a place.
        An empty tile is answered with 204. Readers can filter by time only, in whole published periods."""
        service = service_of(request)
        _check_tile(z, x, y)
        exact = principal.role >= Role.trusted
        if wanted.needs_reports and not exact:
            raise Problem(403, "with this role points can be filtered by `since` and `until` only")
        info = await service.pools.reading.run(service.maps.info, situation, version)
        question = {
            "task": "point_tile", "situation": situation.id, "version": info.number, "z": z, "x": x, "y": y,
            "wanted": asdict(wanted), "exact": exact, "head": await head_of(service, situation) if exact else None,
        }  # fmt: skip
        found = base64.b64decode((await service.cached_answer(service.pools.tiles, question, situation))["image"])
        if not found:
            return Response(status_code=204, headers={"Cache-Control": PRIVATE})
        return send(request.headers, pack(found, MVT), cache=PRIVATE)

    @router.get("/times")
    async def times(
        request: Request, situation: SituationInPath, principal: Reader, version: VersionQuery = None
    ) -> EventTimes:
        """When events happened: the number of reports in each time step. Readers get whole published periods and sums
        of published counts, and nothing if most reports do not say when their event happened."""
        service = service_of(request)
        exact = principal.role >= Role.trusted
        info = await service.pools.reading.run(service.maps.info, situation, version)
        question = {
            "task": "times", "situation": situation.id, "version": info.number, "exact": exact,
            "head": await head_of(service, situation) if exact else None,
        }  # fmt: skip
        return EventTimes(**await service.cached_answer(service.pools.answers, question, situation))

    @router.get("/versions", response_model=list[VersionOut])
    async def versions(
        request: Request, situation: SituationInPath, _: Reader, limit: Annotated[int, Query(ge=1, le=1000)] = 200
    ) -> Response:
        """The stored map versions, the newest first."""
        service = service_of(request)

        def read() -> list[dict[str, Any]]:
            found = service.store.versions(situation.id, limit=limit)
            return [{name: getattr(version, name) for name in VersionOut.model_fields} for version in found]

        return await json_answer(request, read)

    @router.get(
        "/export/{form}", response_class=Response, responses={200: {"content": {"application/octet-stream": {}}}}
    )
    async def export(
        request: Request,
        situation: SituationInPath,
        form: Annotated[str, Path(pattern=r"^[a-z0-9]{2,12}$", examples=["geojson"])],
        principal: Reader,
        version: VersionQuery = None,
        moment: MomentQuery = None,
    ) -> Response:
        """The map as a file: tif, geojson, gpkg, parquet, kml, csv, png, nc or html."""
        service = service_of(request)
        await service.pools.reading.run(exports.check_form, form)
        info = await service.pools.reading.run(service.maps.info, situation, version)
        question = {
            "task": "export", "situation": situation.id, "version": info.number, "form": form,
            "exact": principal.role >= Role.trusted,
            "frame": await service.frame(situation, info.number, moment),
        }  # fmt: skip
        made = await service.cached_file(service.pools.exports, question, situation)
        return send(request.headers, made, cache=PRIVATE)

    @router.get("/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
    async def events(
        request: Request,
        situation: SituationInPath,
        principal: Reader,
        last_event_id: Annotated[str | None, Header(max_length=30)] = None,
    ) -> Response:
        """Server-sent events: `version` when a new version is published, `failure` when a fit failed."""
        service = service_of(request)
        release = service.streams.take(request.state.caller)
        last = int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else None
        last = min(last, 2**62) if last is not None else None
        service.warm(situation.id)
        return EventStream(
            service.broadcast.stream(
                situation.id,
                last,
                principal.id,
                exact=principal.role >= Role.trusted,
                accesses=accesses(principal, situation.id),
            ),
            release,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    return router


async def json_answer(request: Request, answer: Callable[P, Any], *args: P.args, **named: P.kwargs) -> Response:
    """The result of `answer` as a JSON response, computed and compressed in a thread of the pool for reading."""

    def make() -> Packed:
        return pack_json(finite(answer(*args, **named)))

    return send(request.headers, await service_of(request).pools.reading.run(make), cache=PRIVATE)


class EventStream(StreamingResponse):
    """A stream that releases its slot however it ends."""

    def __init__(self, events: AsyncIterator[str], release: Callable[[], None], headers: dict[str, str]):
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()


def _check_tile(z: int, x: int, y: int) -> None:
    if x >= 2**z or y >= 2**z:
        raise Problem(404, f"x and y must be below {2**z} at zoom {z}")


def _kept(*, numbered: bool, coloured: bool) -> str:
    return (FOREVER if coloured else MINUTES) if numbered else BRIEFLY


def _mvt() -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {MVT: {}}, "description": "a vector tile"}, 204: {"description": "an empty tile"}}


def _png() -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {"image/png": {}}, "description": "256 × 256 pixels"}}
