"""Weights of a map: a raster of how many people, households or buildings there are at each place."""

from typing import Annotated

from fastapi import APIRouter, Depends, File, Form, Request, Response, UploadFile

from crowdfield.service.deps import Admin, Reader, service_of, situation_of
from crowdfield.service.records import Situation
from crowdfield.service.schemas import WeightsOut
from crowdfield.service.weights import StoredWeights

router = APIRouter(prefix="/situations/{situation}/weights", tags=["districts"])
SituationInPath = Annotated[Situation, Depends(situation_of)]
Raster = Annotated[
    UploadFile, File(description="a GeoTIFF with one band, the amount in each pixel, in any reference system")
]
UnitName = Annotated[
    str,
    Form(
        max_length=60,
        pattern=r"^[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$",
        description="what the raster counts, as figures should call it",
        examples=["people"],
    ),
]


@router.get("")
async def show_weights(request: Request, situation: SituationInPath, _: Reader) -> WeightsOut | None:
    """The weights of this map, in which amounts of districts are counted; null if they are square kilometres."""
    service = service_of(request)
    found = await service.pools.reading.run(service.weights.find, situation.id)
    return None if found is None else _weights_out(found, situation)


@router.put("")
async def store_weights(
    request: Request, situation: SituationInPath, _: Admin, file: Raster, name: UnitName = "people"
) -> WeightsOut:
    """Store the weight of each cell of this map, replacing earlier weights. Figures of districts, area queries and
    alerts then count people (or what `name` says) instead of square kilometres. Only the sum of each cell is stored;
    after a change of the region, the raster has to be uploaded again."""
    service = service_of(request)
    amounts = await service.pools.imports.run(service.reader.amounts, file.file, situation.grid)
    stored = await service.pools.imports.run(service.weights.store, situation, name, amounts)
    return _weights_out(stored, situation)


@router.delete("", status_code=204)
async def remove_weights(request: Request, situation: SituationInPath, _: Admin) -> Response:
    """Count square kilometres again."""
    service = service_of(request)
    await service.pools.operations.run(service.weights.remove, situation.id)
    return Response(status_code=204)


def _weights_out(found: StoredWeights, situation: Situation) -> WeightsOut:
    return WeightsOut(name=found.name, created=found.created, total=found.total, current=found.fits(situation))
