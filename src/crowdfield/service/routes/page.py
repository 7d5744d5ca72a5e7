"""The page: our own files, MapLibre GL JS from the Python package that contains it, and the basemap."""

import gzip
from functools import lru_cache
from typing import Annotated

from fastapi import FastAPI, Path, Query, Request
from fastapi.responses import Response

from crowdfield.data import Region
from crowdfield.data.region import parse_region
from crowdfield.service import apidocs, tiles
from crowdfield.service.assets import assets
from crowdfield.service.auth import Role
from crowdfield.service.deps import RequiredRole, principal_of, seen_by, service_of
from crowdfield.service.middleware import policy_within
from crowdfield.service.packing import ASK_AGAIN, BEST, FOREVER, PRIVATE, Packed, pack, pack_json, send
from crowdfield.service.problems import Problem

WORLD = Region(-180.0, -90.0, 180.0, 90.0)
Zoom = Annotated[int, Path(ge=0, le=22)]
Number = Annotated[int, Path(ge=0, lt=2**22)]
Named = Annotated[str | None, Query(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]


def install(app: FastAPI) -> None:
    """Add the routes of the page and its files."""

    @app.get("/", include_in_schema=False)
    async def index(request: Request, embed: Annotated[str | None, Query(max_length=10)] = None) -> Response:
        reply = send(request.headers, assets().entry_pages["index.html"], cache=ASK_AGAIN)
        if embed == "1":
            reply.headers["Content-Security-Policy"] = policy_within(service_of(request).settings.embed_origins)
        return reply

    @app.get("/field", include_in_schema=False)
    async def field() -> Response:
        return Response(status_code=308, headers={"Location": "field/", "Cache-Control": ASK_AGAIN})

    # A service worker controls only addresses below its own, so the page for the field has such an address.
    @app.get("/field/", include_in_schema=False)
    async def field_page(request: Request) -> Response:
        return send(request.headers, assets().entry_pages["field.html"], cache=ASK_AGAIN)

    @app.get("/field/worker.js", include_in_schema=False)
    async def field_worker(request: Request) -> Response:
        return send(request.headers, assets().entry_pages["field-worker.js"], cache=ASK_AGAIN)

    @app.get("/field/manifest.webmanifest", include_in_schema=False)
    async def field_manifest(request: Request) -> Response:
        return send(request.headers, assets().entry_pages["field.webmanifest"], cache=ASK_AGAIN)

    @app.get("/static/{name}", include_in_schema=False)
    @app.get("/static/{digest}/{name}", include_in_schema=False)
    async def static(request: Request, name: str, digest: str | None = None) -> Response:
        return _send(request, assets().own(name), digest, "there is no such file")

    @app.get("/vendor/{name}", include_in_schema=False)
    @app.get("/vendor/{digest}/{name}", include_in_schema=False)
    async def library(request: Request, name: str, digest: str | None = None) -> Response:
        missing = "MapLibre GL JS is not installed; pip install 'crowdfield[serve]' brings it"
        return _send(request, assets().library(name), digest, missing)

    @lru_cache(maxsize=1)
    def description() -> Packed:
        return pack_json(app.openapi(), level=BEST)

    @lru_cache(maxsize=1)
    def description_page() -> Packed:
        folder = f"/static/{assets().digest}"
        return pack(apidocs.render(app.openapi(), folder).encode(), "text/html; charset=utf-8", level=BEST)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        return send(request.headers, description(), cache=ASK_AGAIN)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        """The API documentation, without files of other servers."""
        return send(request.headers, description_page(), cache=ASK_AGAIN)

    @app.get("/legend/{layer}.png", include_in_schema=False)
    async def legend(request: Request, layer: tiles.LegendKind, scale: tiles.Scale = "plain") -> Response:
        image = await service_of(request).image({"task": "legend", "layer": layer, "scale": scale})
        return send(request.headers, pack(image, "image/png"), cache="max-age=3600")

    @app.get("/basemap/about.json", include_in_schema=False)
    async def streets(request: Request) -> Response:
        """The zoom levels and bounds of the operator's own vector tiles; null if there are none."""
        own = service_of(request).streets
        return send(request.headers, pack_json(own.about if own else None), cache=ASK_AGAIN)

    @app.get("/basemap/{z}/{x}/{y}.mvt", include_in_schema=False)
    async def street_tile(request: Request, z: Zoom, x: Number, y: Number) -> Response:
        own = service_of(request).streets
        if own is None or x >= 2**z or y >= 2**z:
            raise Problem(404, "there is no such tile")
        found = await service_of(request).pools.reading.run(own.tile, z, x, y)
        if found is None:
            return Response(status_code=204)
        headers = {"Cache-Control": "public, max-age=86400", "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            found = gzip.decompress(found)
            del headers["Content-Encoding"]
        return Response(found, media_type="application/vnd.mapbox-vector-tile", headers=headers)

    @app.get("/basemap.json", include_in_schema=False)
    async def ground(
        request: Request,
        situation: Named = None,
        at: Annotated[str | None, Query(max_length=64)] = None,
        around: Annotated[str | None, Query(max_length=100)] = None,
    ) -> Response:
        """What lies under the map: the operator's own GeoJSON, else outlines, rivers and names around a situation, or,
        for those who may start a map, around its region; without either, the outlines of the world."""
        service = service_of(request)
        if service.settings.basemap is not None and service.streets is None:
            return send(request.headers, await service.own_basemap(), cache=ASK_AGAIN)
        if around is not None:
            RequiredRole(Role.admin, "all maps").check(principal_of(request), None)
            return send(request.headers, await service.ground_of(_region(around)), cache=PRIVATE)
        if situation is None:
            return send(request.headers, assets().world or await service.ground_of(WORLD), cache=ASK_AGAIN)
        RequiredRole(Role.reader).check(principal_of(request), situation)
        shown = seen_by(principal_of(request), await service.situation(situation))
        found = await service.ground_of(shown.region)
        # The address contains the release of the page and the layout of the map, so it may be cached forever.
        known = at == f"{assets().digest}-{shown.layout_tag}"
        public = service.settings.anonymous_reading and shown.access == "public"
        keep = FOREVER if known and public else ASK_AGAIN if public else PRIVATE
        return send(request.headers, found, cache=keep)


def _region(text: str) -> Region:
    try:
        return parse_region([float(part) for part in text.split(",")])
    except ValueError as error:
        raise Problem(422, f"around: {error}") from error


def _send(request: Request, found: Packed | None, digest: str | None, missing: str) -> Response:
    if found is None:
        raise Problem(404, missing)
    # With the digest of another release the file may differ, so it must not be cached under that address.
    return send(request.headers, found, cache=FOREVER if digest == assets().digest else ASK_AGAIN)
