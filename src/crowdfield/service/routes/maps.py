"""Maps out: tiles, points with their reasons, where to look next, sources, exports, and events.

Every address exists twice: under its situation, and short (``/tiles/…``) for the newest or the one named in the query.
"""

import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from functools import cache
from typing import Annotated, Any, ParamSpec

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from crowdfield.service import answers, exports, tiles
from crowdfield.service.auth import Role
from crowdfield.service.deps import Reader, VersionQuery, service_of, situation_asked, situation_of
from crowdfield.service.mvt import MEDIA as MVT
from crowdfield.service.packing import PRIVATE, Packed, pack, pack_json, send
from crowdfield.service.problems import Problem
from crowdfield.service.routes.filters import PointsWanted, head_of
from crowdfield.service.schemas import EventTimes, Latitude, Longitude, VersionOut, finite
from crowdfield.service.store import Situation

P = ParamSpec("P")
StateQuery = Annotated[
    str | None, Query(max_length=200, description="a state; by default the one that the map shows first")
]
# A tile of a numbered version, a named state and named colours never changes; an admin may change the colours of a map,
# and one of "the newest" may change with the next report.
FOREVER, MINUTES, BRIEFLY = "public, max-age=31536000, immutable", "public, max-age=300", "no-cache"


@cache
def situated() -> APIRouter:
    """Routes under /situations/{id}."""
    return _routes("/situations/{situation}", situation_of)


@cache
def short() -> APIRouter:
    """The same routes without the id, for the newest map."""
    return _routes("", situation_asked)


def state_index(situation: Situation, state: str | None) -> int:
    """The column of a state; an error if the map has no such state."""
    if state is None:
        state = situation.positive
    if state not in situation.states:
        raise Problem(404, f"this situation has no such state; it has: {', '.join(situation.states)}")
    return situation.states.index(state)


def _routes(prefix: str, which: Callable[..., Any]) -> APIRouter:
    router = APIRouter(prefix=prefix, tags=["maps"])
    Situated = Annotated[Situation, Depends(which)]

    @router.get("/tiles/{layer}/{z}/{x}/{y}.png", response_class=Response, responses=_png())
    async def tile(
        request: Request,
        situation: Situated,
        layer: tiles.Layer,
        z: Annotated[int, Path(ge=0, le=22)],
        x: Annotated[int, Path(ge=0, lt=2**22)],
        y: Annotated[int, Path(ge=0, lt=2**22)],
        _: Reader,
        state: StateQuery = None,
        version: VersionQuery = None,
        base: Annotated[
            int | None, Query(ge=1, le=2**31 - 1, description="of a difference: the earlier version")
        ] = None,
        scale: Annotated[
            tiles.Scale | None, Query(description="colours of a probability; those of the map by default")
        ] = None,
    ) -> Response:
        """A tile of a layer; of a difference, to the version before or to any earlier one."""
        service = service_of(request)
        if x >= 2**z or y >= 2**z:
            raise Problem(404, f"at zoom {z} there are {2**z} tiles along a side")
        j = state_index(situation, state)
        question = {
            "task": "tile", "situation": situation.id, "version": version, "layer": layer, "z": z, "x": x, "y": y,
            "state": j, "base": base if layer == "difference" else None, "scale": scale or situation.scales[j],
        }  # fmt: skip
        if version is None:
            question["version"] = (await service.pools.reading.run(service.maps.info, situation)).number
        image = await service.image(question, situation)
        control = "private"
        if service.settings.anonymous_reading and situation.access == "public":
            coloured = scale is not None or layer != "probability"
            control = _kept(numbered=version is not None and state is not None, coloured=coloured)
        return Response(image, media_type="image/png", headers={"Cache-Control": control})

    @router.get("/tilejson")
    async def tilejson(
        request: Request,
        situation: Situated,
        _: Reader,
        layer: tiles.Layer = "probability",
        state: StateQuery = None,
        version: VersionQuery = None,
    ) -> JSONResponse:
        """How to put a layer into another map (TileJSON 3.0)."""
        service = service_of(request)
        now = await service.pools.reading.run(service.maps.info, situation, version)
        j = state_index(situation, state)
        return JSONResponse(answers.tilejson(str(request.base_url), situation, now.number, layer, j))

    @router.get("/point/{longitude},{latitude}")
    async def point(
        request: Request,
        situation: Situated,
        longitude: Annotated[Longitude, Path()],
        latitude: Annotated[Latitude, Path()],
        principal: Reader,
        state: StateQuery = None,
        version: VersionQuery = None,
    ) -> JSONResponse:
        """What is known of a place, how well, and why: which sources moved it and by how much, in log odds."""
        service = service_of(request)
        j = state_index(situation, state)
        at = await service.pools.reading.run(answers.place, service, situation, longitude, latitude, j, version)
        return JSONResponse(finite(await answers.point(service, situation, principal, at, j)))

    @router.get("/next", response_class=JSONResponse)
    async def look_next(request: Request, situation: Situated, _: Reader, version: VersionQuery = None) -> Response:
        """Where to look next, as GeoJSON areas with scores: the form that tasking tools import."""
        service = service_of(request)
        return await told(request, answers.suggestions, service, situation, version)

    @router.get("/sources", response_class=JSONResponse)
    async def sources(
        request: Request, situation: Situated, principal: Reader, version: VersionQuery = None
    ) -> Response:
        """How reliable each source turned out to be, with intervals and confusion matrices. Readers see no names."""
        service = service_of(request)
        return await told(request, answers.sources, service, situation, principal, version)

    @router.get("/points", response_class=JSONResponse)
    async def points(
        request: Request, situation: Situated, principal: Reader, version: VersionQuery = None
    ) -> Response:
        """The reports behind a version as the page draws them: one by one for trusted keys, by cells for readers."""
        service = service_of(request)
        exact = principal.role >= Role.trusted
        info = await service.pools.reading.run(service.store.version, situation.id, version)
        if info is None:
            if version is not None:
                raise Problem(404, f"there is no version {version} of this map")
            return JSONResponse({"type": "FeatureCollection", "exact": exact, "total": 0, "features": []})
        question = {"task": "points", "situation": situation.id, "version": info.number, "exact": exact}
        found = await service.made_file(service.pools.answers, question, situation)
        return send(request.headers, found, cache=PRIVATE)

    @router.get("/points/{z}/{x}/{y}.mvt", response_class=Response, responses=_mvt())
    async def point_tile(
        request: Request,
        situation: Situated,
        z: Annotated[int, Path(ge=0, le=22)],
        x: Annotated[int, Path(ge=0, lt=2**22)],
        y: Annotated[int, Path(ge=0, lt=2**22)],
        principal: Reader,
        wanted: PointsWanted,
        version: VersionQuery = None,
    ) -> Response:
        """The same as vector tiles, clustered by zoom (layer `points`: `count`, `label`). Where a point stands for one
        report or cell: `id`, `source` and `time`, or `cell`; where for several: how many `points`, how many say each
        label (`label_0` … in the order of the map's labels), `one_place` where they share a place. 204 where there is
        none. Readers may choose by time only, in whole published periods."""
        service = service_of(request)
        if x >= 2**z or y >= 2**z:
            raise Problem(404, f"at zoom {z} there are {2**z} tiles along a side")
        exact = principal.role >= Role.trusted
        if wanted.of_reports and not exact:
            raise Problem(403, "with this role points can be chosen by `since` and `until` only")
        info = await service.pools.reading.run(service.maps.info, situation, version)
        question = {
            "task": "point_tile", "situation": situation.id, "version": info.number, "z": z, "x": x, "y": y,
            "wanted": asdict(wanted), "exact": exact, "head": await head_of(service, situation) if exact else None,
        }  # fmt: skip
        found = base64.b64decode((await service.made(service.pools.tiles, question, situation))["image"])
        if not found:
            return Response(status_code=204, headers={"Cache-Control": PRIVATE})
        return send(request.headers, pack(found, MVT), cache=PRIVATE)

    @router.get("/times")
    async def times(
        request: Request, situation: Situated, principal: Reader, version: VersionQuery = None
    ) -> EventTimes:
        """When things happened: how many reports there are by steps of time. Readers get whole published periods and
        sums of published counts, and nothing where most reports do not say when things happened."""
        service = service_of(request)
        exact = principal.role >= Role.trusted
        info = await service.pools.reading.run(service.maps.info, situation, version)
        question = {
            "task": "times", "situation": situation.id, "version": info.number, "exact": exact,
            "head": await head_of(service, situation) if exact else None,
        }  # fmt: skip
        return EventTimes(**await service.made(service.pools.answers, question, situation))

    @router.get("/versions", response_model=list[VersionOut])
    async def versions(
        request: Request, situation: Situated, _: Reader, limit: Annotated[int, Query(ge=1, le=1000)] = 200
    ) -> Response:
        """The map versions that are kept, the newest first."""
        service = service_of(request)

        def read() -> list[dict[str, Any]]:
            found = service.store.versions(situation.id, limit=limit)
            return [{name: getattr(version, name) for name in VersionOut.model_fields} for version in found]

        return await told(request, read)

    @router.get(
        "/export/{form}", response_class=Response, responses={200: {"content": {"application/octet-stream": {}}}}
    )
    async def export(
        request: Request,
        situation: Situated,
        form: Annotated[str, Path(pattern=r"^[a-z0-9]{2,12}$", examples=["geojson"])],
        principal: Reader,
        version: VersionQuery = None,
    ) -> Response:
        """The map as a file: tif, geojson, gpkg, parquet, kml, csv, png, nc or html."""
        service = service_of(request)
        await service.pools.reading.run(exports.check_form, form)
        info = await service.pools.reading.run(service.maps.info, situation, version)
        question = {
            "task": "export", "situation": situation.id, "version": info.number, "form": form,
            "exact": principal.role >= Role.trusted,
        }  # fmt: skip
        made = await service.made_file(service.pools.exports, question, situation)
        return send(request.headers, made, cache=PRIVATE)

    @router.get("/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
    async def events(
        request: Request,
        situation: Situated,
        principal: Reader,
        last_event_id: Annotated[str | None, Header(max_length=30)] = None,
    ) -> Response:
        """Server-sent events: `version` when a new map is there, `failure` when it could not be renewed."""
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
                stranger=not principal.is_for(situation.id),
            ),
            release,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    return router


async def told(request: Request, answer: Callable[P, Any], *args: P.args, **named: P.kwargs) -> Response:
    """An answer as JSON, found and compressed by a thread for reading."""

    def make() -> Packed:
        return pack_json(finite(answer(*args, **named)))

    return send(request.headers, await service_of(request).pools.reading.run(make), cache=PRIVATE)


class EventStream(StreamingResponse):
    """A stream that frees its place however it ends."""

    def __init__(self, events: AsyncIterator[str], release: Callable[[], None], headers: dict[str, str]):
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()


def _kept(*, numbered: bool, coloured: bool) -> str:
    return (FOREVER if coloured else MINUTES) if numbered else BRIEFLY


def _mvt() -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {MVT: {}}, "description": "a vector tile"}, 204: {"description": "an empty tile"}}


def _png() -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {"image/png": {}}, "description": "256 × 256 pixels"}}
