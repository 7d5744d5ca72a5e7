"""Situations: the maps there are, and starting a new one."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from crowdfield.service import intake
from crowdfield.service.auth import Principal, Role
from crowdfield.service.deps import Admin, AdminOfAll, Reader, ReaderOfAny, service_of, situation_of
from crowdfield.service.layouts import build, plan
from crowdfield.service.problems import Problem
from crowdfield.service.schemas import NewSituation, SituationChange, SituationChanged, SituationOut, Trust
from crowdfield.service.store import Situation, Store, VersionInfo

router = APIRouter(tags=["situations"])
NOT_RENEWED = "the operators of this service can see why"


def shown(situation: Situation, newest: VersionInfo | None, minimum: int = 3, *, exact: bool = True) -> SituationOut:
    """A situation as a caller may see it. Why a fit failed may quote reports, so that is only for trusted keys."""
    told = {name: getattr(situation, name) for name in SituationOut.model_fields if hasattr(situation, name)}
    if situation.failure is not None and not exact:
        told["failure"] = NOT_RENEWED
    return SituationOut(
        **told,
        version=newest.number if newest else None,
        reports=newest.reports if newest else 0,
        waiting=situation.head > (newest.head if newest else 0),
        minimum_count=minimum,
    )


def readable(situations: list[Situation], principal: Principal) -> list[Situation]:
    return [one for one in situations if principal.on(one.id).role >= Role.reader]


@router.get("/situations")
async def list_situations(request: Request, principal: ReaderOfAny) -> list[SituationOut]:
    """All situations that you may read, the newest first."""
    service = service_of(request)

    def read() -> list[SituationOut]:
        return [
            shown(one, service.store.version(one.id), exact=principal.on(one.id).role >= Role.trusted)
            for one in readable(service.store.situations(), principal)
        ]

    return await service.pools.reading.run(read)


@router.post("/situations", status_code=201)
async def start_situation(request: Request, new: NewSituation, principal: AdminOfAll) -> SituationOut:
    """Start a map of its own states, region and grid."""
    service = service_of(request)
    situation = await service.pools.operations.run(build, new)
    await service.pools.operations.run(service.store.create, situation)
    service.forget()
    return shown(situation, None)


@router.get("/situations/{situation}")
async def one_situation(
    request: Request, situation: Annotated[Situation, Depends(situation_of)], principal: Reader
) -> SituationOut:
    service = service_of(request)

    def read() -> SituationOut:
        newest = service.store.version(situation.id)
        exact = principal.role >= Role.trusted
        return shown(service.store.situation(situation.id), newest, service.settings.minimum_count, exact=exact)

    return await service.pools.reading.run(read)


@router.patch("/situations/{situation}")
async def change_situation(
    request: Request, situation: Annotated[Situation, Depends(situation_of)], change: SituationChange, principal: Admin
) -> SituationChanged:
    """Change a map: its title, the state it shows first, whether it is archived, its region.

    With another region every report stays in the log; those that lie in the new region make the next map. Versions of
    the old region are removed. Rows of a file that were outside before can be imported again."""
    service = service_of(request)

    def do() -> SituationChanged:
        now = _changed(service.store, situation.id, change, principal)
        standing = service.store.standing(now.id)
        outside = sum(not now.region.holds(row.longitude, row.latitude) for row in standing)
        told = shown(now, service.store.version(now.id), service.settings.minimum_count)
        return SituationChanged(**told.model_dump(), outside=outside)

    changed = await service.pools.operations.run(do)
    service.forget()
    return changed


def _changed(store: Store, name: str, change: SituationChange, principal: Principal) -> Situation:
    before = store.situation(name)
    if change.positive is not None and change.positive not in before.states:
        raise Problem(422, f"this situation has no such state; it has: {', '.join(before.states)}")
    options = {key: value for key in ("positive", "archived") if (value := getattr(change, key)) is not None}
    title = change.title or before.title
    if options or title != before.title:
        store.change(replace(before, title=title, model=before.model | options))
    if change.region is not None or change.columns is not None or change.rows is not None:
        region = change.region or before.region
        grid = plan(region, change.columns or before.columns, change.rows)
        moved = replace(
            before, region=region, crs=str(grid.crs), extent=grid.extent, columns=grid.columns, rows=grid.rows
        )
        store.change_region(moved, intake.region_entry(region, grid, principal))
    return store.situation(name)


@router.delete("/situations/{situation}", status_code=204)
async def remove_situation(
    request: Request, situation: Annotated[Situation, Depends(situation_of)], _: Admin
) -> Response:
    """Remove a map with its whole log. There is no way back but a backup."""
    service = service_of(request)
    await service.pools.operations.run(service.store.remove, situation.id)
    # A later map of the same name is another one: keys for this one must not open it.
    await service.pools.operations.run(service.keys.forget_map, situation.id)
    service.forget()
    return Response(status_code=204)


@router.put("/situations/{situation}/sources/{source}/trust", status_code=202)
async def set_trust(
    request: Request,
    situation: Annotated[Situation, Depends(situation_of)],
    source: Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")],
    trust: Trust,
    principal: Admin,
) -> dict[str, bool]:
    """Say how far a source is believed before it has shown anything. It is an entry of the log, as a report is."""
    service = service_of(request)
    if trust.matrix is not None and (
        len(trust.matrix) != len(situation.states) or any(len(row) != len(situation.labels) for row in trust.matrix)
    ):
        raise Problem(422, f"the matrix must be [{len(situation.states)}][{len(situation.labels)}]: one row per state")
    value = trust.matrix if trust.matrix is not None else trust.level
    await service.append(situation.id, [intake.trust_entry(source, value, principal)])
    service.forget()
    return {"accepted": True}
