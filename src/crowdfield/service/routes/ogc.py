"""Reports as OGC API Features (Part 1, core and GeoJSON): every situation is a collection."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from crowdfield.data.positive import display_order
from crowdfield.service import answers
from crowdfield.service.auth import Role
from crowdfield.service.deps import Reader, ReaderOfAny, service_of, situation_of
from crowdfield.service.packing import PRIVATE, Packed, pack_json, send
from crowdfield.service.problems import Problem
from crowdfield.service.records import Situation
from crowdfield.service.routes.filters import parse_box
from crowdfield.service.routes.situations import readable
from crowdfield.service.schemas import parse_time

router = APIRouter(prefix="/ogc", tags=["OGC API Features"])
CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
GEOJSON, COVERAGE_JSON = "application/geo+json", "application/vnd.cov+json"
CORE = "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf"
Collection = Annotated[Situation, Depends(situation_of)]


def link(request: Request, path: str, rel: str, kind: str = "application/json", **more: str) -> dict[str, str]:
    """A link of an OGC answer."""
    return {"href": f"{request.base_url}{path}", "rel": rel, "type": kind, **more}


@router.get("/")
async def landing(request: Request, _: ReaderOfAny) -> dict[str, Any]:
    return {
        "title": "crowdfield reports",
        "description": "The reports behind the maps. Readers see cells with enough reports; trusted keys see all.",
        "links": [
            link(request, "ogc/", "self"),
            link(request, "openapi.json", "service-desc", "application/vnd.oai.openapi+json;version=3.1"),
            link(request, "docs", "service-doc", "text/html"),
            link(request, "ogc/conformance", "conformance"),
            link(request, "ogc/collections", "data"),
        ],
    }


@router.get("/conformance")
async def conformance(_: ReaderOfAny) -> dict[str, list[str]]:
    # Not oas30: the description that is served is OpenAPI 3.1.
    return {"conformsTo": [f"{CORE}/core", f"{CORE}/geojson"]}


@router.get("/collections")
async def collections(request: Request, principal: ReaderOfAny) -> dict[str, Any]:
    service = service_of(request)
    situations = await service.pools.reading.run(service.store.situations)
    return {
        "links": [link(request, "ogc/collections", "self")],
        "collections": [describe(request, situation) for situation in readable(situations, principal)],
    }


def describe(request: Request, situation: Situation) -> dict[str, Any]:
    """A map as an OGC collection."""
    at, states = f"ogc/collections/{situation.id}", _in_order(situation)
    return {
        "id": situation.id,
        "title": situation.title,
        "itemType": "feature",
        "extent": {"spatial": {"bbox": [list(situation.region)], "crs": CRS84}},
        "crs": [CRS84],
        "links": [link(request, at, "self"), link(request, f"{at}/items", "items", GEOJSON)],
        # OGC API Environmental Data Retrieval: figures of any polygon.
        "data_queries": {
            "area": {
                "link": {
                    **link(request, f"{at}/area", "data", COVERAGE_JSON),
                    "variables": {"query_type": "area", "output_formats": ["CoverageJSON"]},
                }
            }
        },
        "parameter_names": {state: {"type": "Parameter", "observedProperty": {"label": state}} for state in states},
    }


def _in_order(situation: Situation) -> list[str]:
    """The states of a map, the one in question first."""
    return [str(state) for state in display_order(situation.states, situation.positive)]


@router.get("/collections/{situation}")
async def collection(request: Request, situation: Collection, _: Reader) -> dict[str, Any]:
    return describe(request, situation)


@router.get("/collections/{situation}/items", response_class=JSONResponse)
async def items(
    request: Request,
    situation: Collection,
    principal: Reader,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**53, description="where the page begins; use the link `next`")] = 0,
    bbox: Annotated[str | None, Query(max_length=200, description="west,south,east,north in degrees")] = None,
    datetime: Annotated[
        str | None, Query(max_length=100, description="a time, or an interval from/to; .. is open")
    ] = None,
) -> Response:
    """The reports: single ones for trusted keys; for readers, the cells with enough of them.

    Filters of readers use published data only: `bbox` the centres of cells, `datetime` whole days (or longer periods).
    """
    service = service_of(request)
    box, (since, until) = parse_box(bbox), parse_interval(datetime)
    at = f"ogc/collections/{situation.id}/items"
    links = [link(request, at, "self", GEOJSON), link(request, f"ogc/collections/{situation.id}", "collection")]

    def onwards(offset: int) -> dict[str, str]:
        """The link to the next page."""
        query = request.url.include_query_params(offset=offset, limit=limit).query
        return link(request, f"{at}?{query}", "next", GEOJSON)

    if principal.role >= Role.trusted:

        def read() -> Packed:
            rows = service.store.active_reports(
                situation.id, box=box, since=since, until=until, after=offset, limit=limit + 1
            )
            more = [onwards(rows[limit - 1].seq)] if len(rows) > limit else []
            return page(answers.exact_features(rows[:limit]), links + more)

        return send(request.headers, await service.pools.reading.run(read), cache=PRIVATE)
    info = await service.pools.reading.run(service.store.version, situation.id)
    if info is None:
        return send(request.headers, page([], links), cache=PRIVATE)
    question = {
        "task": "items", "situation": situation.id, "version": info.number, "box": box, "since": since, "until": until,
        "offset": offset, "limit": limit, "links": links, "onwards": onwards(offset + limit),
    }  # fmt: skip
    return send(request.headers, await service.cached_file(service.pools.answers, question, situation), cache=PRIVATE)


@router.get("/collections/{situation}/area", response_class=JSONResponse)
async def area(
    request: Request,
    situation: Collection,
    principal: Reader,
    coords: Annotated[
        str,
        Query(
            max_length=20_000,
            description="POLYGON((longitude latitude, …)) in well-known text",
            examples=["POLYGON((-72.5 18.3,-72.1 18.3,-72.1 18.7,-72.5 18.7,-72.5 18.3))"],
        ),
    ],
    parameter_name: Annotated[
        str | None, Query(alias="parameter-name", max_length=2000, description="states, separated by commas")
    ] = None,
    f: Annotated[Literal["CoverageJSON"], Query(description="the format of the answer")] = "CoverageJSON",
) -> Response:
    """What is known about an area (OGC API EDR): for each state its expected share and amount with 90 % intervals. If
    the map has weights, both count people (or what the weights count); otherwise, square kilometres."""
    service = service_of(request)
    states = [name.strip() for name in parameter_name.split(",")] if parameter_name else _in_order(situation)
    unknown = [name for name in states if name not in situation.states]
    if unknown:
        raise Problem(400, f"this collection has no such parameter; it has: {', '.join(situation.states)}")
    question = {
        "task": "area", "situation": situation.id, "coords": coords, "states": states,
        "exact": principal.role >= Role.trusted,
    }  # fmt: skip
    return send(request.headers, await service.figures(situation, question), cache=PRIVATE)


def page(features: list[dict[str, Any]], links: list[dict[str, str]]) -> Packed:
    """A page of features."""
    body = {"type": "FeatureCollection", "features": features, "numberReturned": len(features), "links": links}
    return pack_json(body, GEOJSON)


@router.get("/collections/{situation}/items/{item}", response_class=JSONResponse)
async def item(
    request: Request,
    situation: Collection,
    item: Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")],
    principal: Reader,
) -> Response:
    """One report for trusted keys; one cell for readers."""
    service = service_of(request)
    at = f"ogc/collections/{situation.id}"
    links = [link(request, f"{at}/items", "self", GEOJSON), link(request, at, "collection")]
    if principal.role >= Role.trusted:
        row = await service.pools.reading.run(service.store.entry, situation.id, item)
        if row is None:
            raise Problem(404, answers.NO_SUCH_REPORT)
        found = pack_json({**answers.exact_features([row])[0], "links": links}, GEOJSON)
        return send(request.headers, found, cache=PRIVATE)
    info = await service.pools.reading.run(service.store.version, situation.id)
    if info is None:
        raise Problem(404, answers.NO_SUCH_REPORT)
    question = {"task": "item", "situation": situation.id, "version": info.number, "item": item, "links": links}
    return send(request.headers, await service.cached_file(service.pools.answers, question, situation), cache=PRIVATE)


def parse_interval(text: str | None) -> tuple[float | None, float | None]:
    """The start and the end of an interval; both are the same for a single time."""
    if text is None:
        return None, None
    ends = text.split("/")
    if len(ends) > 2:
        raise Problem(400, "datetime must be a time or an interval from/to")
    try:
        moments = [None if end in ("", "..") else parse_time(end) for end in ends]
    except ValueError as error:
        raise Problem(400, f"datetime {error}") from error
    return moments[0], moments[-1]
