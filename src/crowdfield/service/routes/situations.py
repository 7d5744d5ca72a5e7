"""Situations: listing maps, starting, changing and removing them."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from crowdfield.service import intake
from crowdfield.service.alerts import Alerts
from crowdfield.service.auth import Principal, Role
from crowdfield.service.deps import Admin, AdminOfAll, Reader, ReaderOfAny, may_see, service_of, situation_of
from crowdfield.service.layouts import build, plan
from crowdfield.service.problems import Problem
from crowdfield.service.records import Situation, VersionInfo
from crowdfield.service.schemas import (
    NO_SILENCE_IN_TIME,
    NewSituation,
    SituationChange,
    SituationChanged,
    SituationOut,
    Trust,
)
from crowdfield.service.store import Store

router = APIRouter(tags=["situations"])
NOT_RENEWED = "the operators of this service can see why"


def situation_out(
    situation: Situation, newest: VersionInfo | None, minimum: int = 3, *, exact: bool = True
) -> SituationOut:
    """A situation as a caller may see it. The reason why a fit failed may quote reports, so only trusted keys see
    it."""
    fields = {name: getattr(situation, name) for name in SituationOut.model_fields if hasattr(situation, name)}
    if situation.failure is not None and not exact:
        fields["failure"] = NOT_RENEWED
    return SituationOut(
        **fields,
        version=newest.number if newest else None,
        reports=newest.reports if newest else 0,
        waiting=situation.head > (newest.head if newest else 0),
        minimum_count=minimum,
    )


def readable(situations: list[Situation], principal: Principal) -> list[Situation]:
    """The situations that a caller may see."""
    return [one for one in situations if principal.on(one.id).role >= Role.reader and may_see(principal, one)]


@router.get("/situations")
async def list_situations(request: Request, principal: ReaderOfAny) -> list[SituationOut]:
    """All situations that you may read, the newest first."""
    service = service_of(request)

    def read() -> list[SituationOut]:
        return [
            situation_out(one, service.store.version(one.id), exact=principal.on(one.id).role >= Role.trusted)
            for one in readable(service.store.situations(), principal)
        ]

    return await service.pools.reading.run(read)


@router.post("/situations", status_code=201)
async def start_situation(request: Request, new: NewSituation, principal: AdminOfAll) -> SituationOut:
    """Start a map with its own states, region and grid."""
    service = service_of(request)
    situation = await service.pools.operations.run(build, new)
    await service.pools.operations.run(service.store.create, situation)
    service.forget()
    return situation_out(situation, None)


@router.get("/situations/{situation}")
async def one_situation(
    request: Request, situation: Annotated[Situation, Depends(situation_of)], principal: Reader
) -> SituationOut:
    service = service_of(request)

    def read() -> SituationOut:
        newest = service.store.version(situation.id)
        exact = principal.role >= Role.trusted
        return situation_out(service.store.situation(situation.id), newest, service.settings.minimum_count, exact=exact)

    return await service.pools.reading.run(read)


@router.patch("/situations/{situation}")
async def change_situation(
    request: Request, situation: Annotated[Situation, Depends(situation_of)], change: SituationChange, principal: Admin
) -> SituationChanged:
    """Change a map: its title, the state it shows first, its colours, who may see it, whether it is archived, the trust
    in its sources, its states and labels, its region, whether its state changes over time.

    With another region every report stays in the log, and the next map includes those inside the new region. Versions
    of the old region are removed. Rows of a file that were outside before can be imported again. With other states or
    labels versions are removed as well; labels that reports use must be kept. If `access` becomes `trusted`, or was
    it before, versions are removed, too, because a map that only those may see who may see its reports shows more."""
    service = service_of(request)
    _check(situation, change)

    def do() -> SituationChanged:
        now = _changed(service.store, situation.id, change, principal)
        standing = service.store.active_reports(now.id)
        outside = sum(not now.region.holds(row.longitude, row.latitude) for row in standing)
        fields = situation_out(now, service.store.version(now.id), service.settings.minimum_count)
        return SituationChanged(**fields.model_dump(), outside=outside)

    changed = await service.pools.operations.run(do)
    entries = [intake.trust_entry(source, level, principal) for source, level in (change.trust or {}).items()]
    if changed.moving != situation.moving:
        entries.append(intake.moving_entry(changed.moving, principal))
    if entries:
        await service.append(situation.id, entries)
    service.forget()
    return changed


def _check(before: Situation, change: SituationChange) -> None:
    """Raise an error for changes that contradict each other, before anything is changed."""
    states = change.states or before.states
    for name, values in (("states", change.states or ()), ("labels", change.labels or ())):
        if len(set(values)) != len(values):
            raise Problem(422, f"{name} must differ from each other")
    named = {*([change.positive] if change.positive is not None else []), *(change.colours or {})}
    if not named <= set(states):
        raise Problem(422, f"this situation has no such state; it has: {', '.join(states)}")
    if change.moving and before.model.get("silence") is not None:
        raise Problem(422, NO_SILENCE_IN_TIME)
    if (change.states or change.labels) and before.model.get("confusion_prior") is not None:
        raise Problem(422, "this map has a confusion_prior of its own for its states and labels; start another map")
    if len(_labels(before, change)) < len(states):
        raise Problem(422, "fewer labels than states need a confusion_prior, which only a new map can have")


def _labels(before: Situation, change: SituationChange) -> tuple[str, ...]:
    """The labels after a change; if they were the same as the states, they still are."""
    if change.labels is not None:
        return tuple(change.labels)
    same = change.states is not None and before.labels == before.states
    return tuple(change.states or ()) if same else before.labels


def _changed(store: Store, name: str, change: SituationChange, principal: Principal) -> Situation:
    before = store.situation(name)
    if change.states is not None or change.labels is not None:
        _change_states(store, before, change, principal)
        before = store.situation(name)
    options = {
        key: value
        for key in ("positive", "archived", "access", "moving")
        if (value := getattr(change, key)) is not None
    }
    if change.colours is not None:
        chosen = {**before.model.get("colours", {}), **change.colours}
        options["colours"] = {state: scale for state, scale in chosen.items() if scale is not None}
    title = change.title or before.title
    if options or title != before.title:
        after = replace(before, title=title, model=before.model | options)
        if after.private != before.private:
            store.change_private(after, intake.private_entry(after, principal))
        else:
            store.change(after)
    if change.region is not None or change.columns is not None or change.rows is not None:
        region = change.region or before.region
        grid = plan(region, change.columns or before.columns, change.rows)
        moved = replace(
            before, region=region, crs=str(grid.crs), extent=grid.extent, columns=grid.columns, rows=grid.rows
        )
        store.change_region(moved, intake.region_entry(region, grid, principal))
    return store.situation(name)


def _change_states(store: Store, before: Situation, change: SituationChange, principal: Principal) -> None:
    states, labels = tuple(change.states or before.states), _labels(before, change)
    if any(isinstance(value, list) for value in store.trust(before.id).values()):
        raise Problem(422, "the trust in a source is a matrix for the old states and labels; set a level for it first")
    used = {one.state for one in Alerts(store.engine).of_map(before.id)}
    if not used <= set(states):
        raise Problem(409, f"an alert is about {', '.join(sorted(used - set(states)))}; remove the alert first")
    moved = replace(before, states=states, labels=labels)
    store.change_states(moved, intake.states_entry(states, labels, principal))


@router.delete("/situations/{situation}", status_code=204)
async def remove_situation(
    request: Request, situation: Annotated[Situation, Depends(situation_of)], _: Admin
) -> Response:
    """Remove a map with its whole log. Only a backup can bring it back."""
    service = service_of(request)
    await service.pools.operations.run(service.store.remove, situation.id)
    # Keys for this map must not give access to a later map of the same name.
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
    """Set the prior trust in a source. It is an entry of the log, as a report is."""
    service = service_of(request)
    if trust.matrix is not None and (
        len(trust.matrix) != len(situation.states) or any(len(row) != len(situation.labels) for row in trust.matrix)
    ):
        raise Problem(422, f"the matrix must be [{len(situation.states)}][{len(situation.labels)}]: one row per state")
    value = trust.matrix if trust.matrix is not None else trust.level
    await service.append(situation.id, [intake.trust_entry(source, value, principal)])
    service.forget()
    return {"accepted": True}
