"""Districts of a map, and their figures: how much of each district is in which state, with intervals."""

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Form, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from crowdfield.service.auth import Principal, Role
from crowdfield.service.deps import Admin, MomentQuery, Reader, Reporter, service_of, situation_of
from crowdfield.service.packing import PRIVATE, send
from crowdfield.service.records import Situation
from crowdfield.service.routes.reports import Uploaded
from crowdfield.service.schemas import DistrictsOut, DistrictsStored

router = APIRouter(tags=["districts"])
SituationInPath = Annotated[Situation, Depends(situation_of)]
SetName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", examples=["communes"])]
SetQuery = Annotated[
    str, Query(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", examples=["communes"], description="a stored set of districts")
]
ByForm = Annotated[
    str | None, Form(max_length=200, description="the property that names districts; equal names are one district")
]
Level = Annotated[float, Query(ge=0.5, le=0.99, description="the level of the intervals")]
Threshold = Annotated[
    float,
    Query(ge=0.0, le=1.0, description="the answer has the probability that a state covers at least this share"),
]
TotalsForm = Annotated[
    Literal["json", "csv", "xlsx", "geojson", "gpkg", "png"], Query(description="the format of the answer")
]


@router.get("/situations/{situation}/districts")
async def list_districts(request: Request, situation: SituationInPath, _: Reader) -> list[DistrictsOut]:
    """The sets of districts that are stored with this map."""
    service = service_of(request)
    found = await service.pools.reading.run(service.districts.all, situation.id)
    return [DistrictsOut(name=one.name, areas=one.areas, created=one.created) for one in found]


@router.put("/situations/{situation}/districts/{name}")
async def store_districts(
    request: Request, situation: SituationInPath, name: SetName, principal: Admin, file: Uploaded, by: ByForm = None
) -> DistrictsStored:
    """Store a file of polygons (GeoJSON, GeoPackage, GeoParquet, KML, Shapefile) with this map, for everybody who may
    read it. Of their properties only the names are kept."""
    service = service_of(request)
    content = await service.pools.imports.run(service.reader.areas, file.file, by)
    stored = await service.pools.imports.run(service.districts.store, situation.id, name, content)
    shown = content["names"][:NAMES_LISTED]
    return DistrictsStored(name=name, areas=stored.areas, created=stored.created, names=shown, notes=content["notes"])


@router.delete("/situations/{situation}/districts/{name}", status_code=204)
async def remove_districts(request: Request, situation: SituationInPath, name: SetName, _: Admin) -> Response:
    """Remove a set of districts that no alert is about."""
    service = service_of(request)
    await service.pools.operations.run(service.districts.remove, situation.id, name)
    return Response(status_code=204)


@router.get("/situations/{situation}/totals", response_class=JSONResponse)
async def totals(
    request: Request,
    situation: SituationInPath,
    principal: Reader,
    districts: SetQuery,
    level: Level = 0.9,
    threshold: Threshold = 0.5,
    form: TotalsForm = "json",
    moment: MomentQuery = None,
) -> Response:
    """Figures of stored districts on the newest map, as `crowdfield totals` computes them: for every state its expected
    share and amount with intervals from joint draws, and the share that is unknown. Amounts are in `unit`: square
    kilometres, or what the weights of the map count (people). Readers see only published counts of reports, and null
    where none is published."""
    service = service_of(request)
    stored = await service.pools.reading.run(service.districts.find, situation.id, districts)
    question = _question(situation, principal, level, threshold, form) | {"districts": districts, "uploaded": None}
    return send(
        request.headers, await service.figures(situation, question, moment, since=stored.created), cache=PRIVATE
    )


@router.post("/situations/{situation}/totals", response_class=JSONResponse)
async def totals_of_file(
    request: Request,
    situation: SituationInPath,
    principal: Reporter,
    file: Uploaded,
    by: ByForm = None,
    level: Level = 0.9,
    threshold: Threshold = 0.5,
    form: TotalsForm = "json",
    moment: MomentQuery = None,
) -> Response:
    """The same figures for the polygons of a file. The file is not stored."""
    service = service_of(request)
    content = await service.pools.imports.run(service.reader.areas, file.file, by)
    path = service.files.new_file()
    try:
        await service.pools.imports.run(path.write_text, json.dumps(content))
        question = _question(situation, principal, level, threshold, form)
        question |= {"districts": None, "uploaded": str(path)}
        return send(request.headers, await service.figures(situation, question, moment), cache=PRIVATE)
    finally:
        path.unlink(missing_ok=True)


def _question(situation: Situation, principal: Principal, level: float, threshold: float, form: str) -> dict[str, Any]:
    return {
        "task": "totals", "situation": situation.id, "level": round(level, DIGITS),
        "threshold": round(threshold, DIGITS), "form": form, "exact": principal.role >= Role.trusted,
    }  # fmt: skip


# Levels and thresholds are rounded to this many decimals, so that almost equal requests share cached figures.
DIGITS = 2
# The most names of districts in the answer to an upload.
NAMES_LISTED = 1000
