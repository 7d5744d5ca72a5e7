"""The page: our own files, MapLibre GL JS from the Python package that carries it, and a basemap."""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from crowdfield.service import basemap, tiles
from crowdfield.service.deps import service_of
from crowdfield.service.problems import Problem
from crowdfield.service.schemas import Latitude, Longitude

STATIC = Path(__file__).parent.parent / "static"
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
VENDOR = ("maplibre-gl.js", "maplibre-gl.css")


def vendor(name: str) -> Path | None:
    """A file of MapLibre GL JS; None where its package is not installed. It is found without being imported."""
    spec = find_spec("maplibre")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "srcjs" / name
        if path.is_file():
            return path
    return None


@lru_cache(maxsize=1)
def own_files() -> dict[str, Path]:
    """The files that may be asked for: a fixed list, so that no name can lead elsewhere."""
    return {path.name: path for path in STATIC.iterdir() if path.suffix in TYPES}


def send(path: Path) -> FileResponse:
    media = TYPES.get(path.suffix, "application/octet-stream")
    return FileResponse(path, media_type=f"{media}; charset=utf-8", headers={"Cache-Control": "no-cache"})


def install(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return send(STATIC / "index.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> FileResponse:
        path = own_files().get(name)
        if path is None:
            raise Problem(404, "there is no such file")
        return send(path)

    @app.get("/vendor/{name}", include_in_schema=False)
    async def library(name: str) -> FileResponse:
        path = vendor(name) if name in VENDOR else None
        if path is None:
            raise Problem(404, "MapLibre GL JS is not installed; pip install 'crowdfield[serve]' brings it")
        return send(path)

    @app.get("/legend/{layer}.png", include_in_schema=False)
    async def legend(layer: tiles.Layer) -> Response:
        return Response(tiles.legend(layer), media_type="image/png", headers={"Cache-Control": "max-age=3600"})

    @app.get("/basemap.json", include_in_schema=False)
    async def ground(
        request: Request,
        west: Longitude = -180.0,
        east: Longitude = 180.0,
        south: Latitude = -90.0,
        north: Latitude = 90.0,
    ) -> Response:
        """What lies under the map: the operator's own GeoJSON, else the outlines of the world, else nothing."""
        given = service_of(request).settings.basemap
        if given is not None:
            return FileResponse(given, media_type="application/geo+json", headers={"Cache-Control": "max-age=3600"})
        outlines = await service_of(request).pools.reading.run(basemap.around, west, east, south, north)
        return JSONResponse(outlines, media_type="application/geo+json", headers={"Cache-Control": "max-age=3600"})
