"""Spot checks of a map: is it right, and how much is really in each state?"""

import json
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from crowdfield.service.deps import Reader, Reporter, VersionQuery, service_of, situation_of
from crowdfield.service.packing import PRIVATE, Packed, send
from crowdfield.service.routes.reports import Uploaded
from crowdfield.service.store import Situation

router = APIRouter(prefix="/situations/{situation}/checks", tags=["spot checks"])
Situated = Annotated[Situation, Depends(situation_of)]
Level = Annotated[float, Query(ge=0.5, le=0.99, description="of the intervals")]
# Places of a plan: more than any team visits.
MOST_PLACES = 10_000
Size = Annotated[
    int | None,
    Query(ge=2, le=MOST_PLACES, description="how many places; without it as many as give the wanted margin"),
]
Margin = Annotated[
    float, Query(ge=0.01, le=0.4, description="without a size: know the share of the map that is right to ± this")
]
Seed = Annotated[int, Query(ge=0, le=2**31 - 1, description="of the random choice: the same seed, the same places")]
Form = Annotated[
    Literal["json", "csv", "geojson", "kml", "xlsx"],
    Query(description="json: what the plan holds; the others: its places (xlsx: a form for KoboToolbox or ODK)"),
]
# Digits of a level or a margin: plans that differ by less would be made again for nothing.
DIGITS = 3


@router.get("/plan", response_class=JSONResponse)
async def plan_checks(
    request: Request,
    situation: Situated,
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
    return send(request.headers, await service.made_file(service.pools.exports, question, situation), cache=PRIVATE)


@router.post("/result", response_class=JSONResponse)
async def check_result(
    request: Request,
    situation: Situated,
    _: Reporter,
    file: Uploaded,
    level: Level = 0.95,
    version: VersionQuery = None,
) -> Response:
    """What the answers say, as `crowdfield assess result` finds it: the share of the map that is right, errors of both
    kinds, and how much really is in each state, with intervals. The file is the plan with its column `state` filled in
    (CSV, GeoJSON or another file of points), `version` the one that the plan was drawn from. The file is not kept."""
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
        found: Packed = await service.made_file(service.pools.exports, question, situation)
        return send(request.headers, found, cache=PRIVATE)
    finally:
        path.unlink(missing_ok=True)
