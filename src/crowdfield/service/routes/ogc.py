"""Reports as OGC API Features (Part 1, core and GeoJSON): every situation is a collection."""

import math
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import JSONResponse

from crowdfield.data import Region
from crowdfield.service import answers
from crowdfield.service.auth import Role
from crowdfield.service.deps import Reader, service_of, situation_of
from crowdfield.service.problems import Problem
from crowdfield.service.schemas import parse_time
from crowdfield.service.store import Situation

router = APIRouter(prefix="/ogc", tags=["OGC API Features"])
CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
GEOJSON = "application/geo+json"
CORE = "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf"
Collection = Annotated[Situation, Depends(situation_of)]


def link(request: Request, path: str, rel: str, kind: str = "application/json", **more: str) -> dict[str, str]:
    return {"href": f"{request.base_url}{path}", "rel": rel, "type": kind, **more}


@router.get("/")
async def landing(request: Request, _: Reader) -> dict[str, Any]:
    return {
        "title": "crowdfield reports",
        "description": "The reports behind the maps. Readers see cells with enough reports; trusted keys see all.",
        "links": [
            link(request, "ogc/", "self"),
            link(request, "openapi.json", "service-desc", "application/vnd.oai.openapi+json;version=3.1"),
            link(request, "ogc/conformance", "conformance"),
            link(request, "ogc/collections", "data"),
        ],
    }


@router.get("/conformance")
async def conformance(_: Reader) -> dict[str, list[str]]:
    return {"conformsTo": [f"{CORE}/core", f"{CORE}/oas30", f"{CORE}/geojson"]}


@router.get("/collections")
async def collections(request: Request, _: Reader) -> dict[str, Any]:
    service = service_of(request)
    situations = await service.pools.reading.run(service.store.situations)
    return {
        "links": [link(request, "ogc/collections", "self")],
        "collections": [describe(request, situation) for situation in situations],
    }


def describe(request: Request, situation: Situation) -> dict[str, Any]:
    at = f"ogc/collections/{situation.id}"
    return {
        "id": situation.id,
        "title": situation.title,
        "itemType": "feature",
        "extent": {"spatial": {"bbox": [list(situation.region)], "crs": CRS84}},
        "crs": [CRS84],
        "links": [link(request, at, "self"), link(request, f"{at}/items", "items", GEOJSON)],
    }


@router.get("/collections/{situation}")
async def collection(request: Request, situation: Collection, _: Reader) -> dict[str, Any]:
    return describe(request, situation)


@router.get("/collections/{situation}/items")
async def items(
    request: Request,
    situation: Collection,
    principal: Reader,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**53, description="where to go on, from the link `next`")] = 0,
    bbox: Annotated[str | None, Query(max_length=200, description="west,south,east,north in degrees")] = None,
    datetime: Annotated[str | None, Query(max_length=100, description="a moment, or from/to with .. for open")] = None,
) -> JSONResponse:
    service = service_of(request)
    box, (since, until) = parse_box(bbox), parse_interval(datetime)

    def read() -> dict[str, Any]:
        # Exact rows are paged by the log's numbers; cells are few, and counted over all reports that match.
        exact = principal.role >= Role.trusted
        rows = service.store.standing(
            situation.id, box=box, since=since, until=until, after=offset if exact else 0,
            limit=limit + 1 if exact else None,
        )  # fmt: skip
        more = None
        if exact:
            if len(rows) > limit:
                rows = rows[:limit]
                more = rows[-1].seq
            features = answers.exact_features(rows)
        else:
            cells = answers.cell_features(service, situation, rows)
            features = cells[offset : offset + limit]
            more = offset + limit if len(cells) > offset + limit else None
        at = f"ogc/collections/{situation.id}/items"
        links = [link(request, at, "self", GEOJSON), link(request, f"ogc/collections/{situation.id}", "collection")]
        if more is not None:
            # The same question, further on.
            query = request.url.include_query_params(offset=more, limit=limit).query
            links.append(link(request, f"{at}?{query}", "next", GEOJSON))
        return {"type": "FeatureCollection", "features": features, "numberReturned": len(features), "links": links}

    return JSONResponse(await service.pools.reading.run(read), media_type=GEOJSON)


@router.get("/collections/{situation}/items/{item}")
async def item(
    request: Request,
    situation: Collection,
    item: Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")],
    principal: Reader,
) -> JSONResponse:
    service = service_of(request)
    features: list[dict[str, Any]] = []
    if principal.role >= Role.trusted:
        row = await service.pools.reading.run(service.store.entry, situation.id, item)
        features = answers.exact_features([row]) if row is not None else []
    else:
        rows = await service.pools.reading.run(service.store.standing, situation.id)
        cells = await service.pools.reading.run(answers.cell_features, service, situation, rows)
        features = [cell for cell in cells if cell["id"] == item]
    if not features:
        raise Problem(404, "there is no such report, it was retracted, or you may not see it")
    at = f"ogc/collections/{situation.id}"
    links = [link(request, f"{at}/items", "self", GEOJSON), link(request, at, "collection")]
    return JSONResponse({**features[0], "links": links}, media_type=GEOJSON)


def parse_box(text: str | None) -> Region | None:
    """A box of OGC API Features: west,south,east,north, or with two heights, west,south,low,east,north,high."""
    if text is None:
        return None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) == 6:
        del values[5], values[2]  # heights
    if len(values) != 4 or not all(map(math.isfinite, values)):
        raise Problem(400, "bbox is four numbers: west,south,east,north in degrees")
    box = Region(*values)
    if not (-180 <= box.west <= 180 and -180 <= box.east <= 180 and -90 <= box.south <= box.north <= 90):
        raise Problem(
            400,
            "bbox is west,south,east,north in degrees: longitudes in [-180, 180], -90 <= south <= north <= 90",
        )
    return box


def parse_interval(text: str | None) -> tuple[float | None, float | None]:
    if text is None:
        return None, None
    ends = text.split("/")
    if len(ends) > 2:
        raise Problem(400, "datetime is a moment or an interval from/to")
    try:
        moments = [None if end in ("", "..") else parse_time(end) for end in ends]
    except ValueError as error:
        raise Problem(400, f"datetime {error}") from error
    return moments[0], moments[-1]
