"""Spot checks of a map: how much of it is right, and how much area is really in each state."""

import json
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from crowdfield.service.deps import Reader, Reporter, VersionQuery, service_of, situation_of
from crowdfield.service.packing import PRIVATE, Packed, send
from crowdfield.service.records import Situation
from crowdfield.service.routes.reports import Uploaded

router = APIRouter(prefix="/situations/{situation}/checks", tags=["spot checks"])
SituationInPath = Annotated[Situation, Depends(situation_of)]
Level = Annotated[float, Query(ge=0.5, le=0.99, description="the level of the confidence intervals")]
# The most places of a plan: more than any team could visit.
MOST_PLACES = 10_000
Size = Annotated[
    int | None,
    Query(ge=2, le=MOST_PLACES, description="how many places; by default as many as the margin needs"),
]
Margin = Annotated[
    float, Query(ge=0.01, le=0.4, description="without a size: the wanted margin of error of the map's accuracy")
]
Seed = Annotated[int, Query(ge=0, le=2**31 - 1, description="the same seed gives the same random places")]
Form = Annotated[
    Literal["json", "csv", "geojson", "kml", "xlsx"],
    Query(description="json: a summary of the plan; the others: its places (xlsx: a form for KoboToolbox or ODK)"),
]
# Levels and margins are rounded to this many decimals, so that almost equal requests share a cached plan.
DIGITS = 3


@router.get("/plan", response_class=JSONResponse)
async def plan_checks(
    request: Request,
    situation: SituationInPath,
    _: Reader,
    size: Size = None,
    margin: Margin = 0.05,
    level: Level = 0.95,
    seed: Seed = 0,
    form: Form = "json",
    version: VersionQuery = None,
) -> Response:
    """A stratified random sample of places to check, as `crowdfield assess plan` draws it."""
    service = service_of(request)
    info = await service.pools.reading.run(service.maps.info, situation, version)
    question = {
        "task": "check_plan", "situation": situation.id, "version": info.number, "size": size,
        "margin": round(margin, DIGITS), "level": round(level, DIGITS), "seed": seed, "form": form,
    }  # fmt: skip
    return send(request.headers, await service.cached_file(service.pools.exports, question, situation), cache=PRIVATE)


@router.post("/result", response_class=JSONResponse)
async def check_result(
    request: Request,
    situation: SituationInPath,
    _: Reporter,
    file: Uploaded,
    level: Level = 0.95,
    version: VersionQuery = None,
) -> Response:
    """The result of spot checks, as `crowdfield assess result` computes it: the accuracy of the map, errors of both
    kinds, and how much area is really in each state, with intervals. The file is the plan with its column `state`
    filled in (CSV, GeoJSON or another file of points), `version` the one that the plan was drawn from. The file is not
    stored."""
    service = service_of(request)
    info = await service.pools.reading.run(service.maps.info, situation, version)
    columns = await service.pools.imports.run(service.reader.checks, file.file)
    path = service.files.new_file()
    try:
        await service.pools.imports.run(path.write_text, json.dumps(columns))
        question = {
            "task": "check_result", "situation": situation.id, "version": info.number, "level": round(level, DIGITS),
            "uploaded": str(path),
        }  # fmt: skip
        found: Packed = await service.cached_file(service.pools.exports, question, situation)
        return send(request.headers, found, cache=PRIVATE)
    finally:
        path.unlink(missing_ok=True)
