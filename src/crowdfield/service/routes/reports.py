"""Reports in: one or many, as JSON, GeoJSON or CSV, as a file, or from a webhook. Answered when they are durable."""

import itertools
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Header, Path, Query, Request, Response, UploadFile
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from crowdfield.service import intake, previews, uploads
from crowdfield.service.auth import Principal
from crowdfield.service.deps import AdminOfAll, Reporter, TrustedOne, VersionQuery, service_of, situation_of
from crowdfield.service.import_schemas import ImportPlan, ImportPreview, UnreadableFile
from crowdfield.service.packing import PRIVATE, send
from crowdfield.service.problems import Problem, faults
from crowdfield.service.routes.filters import ReportsWanted, head_of
from crowdfield.service.routes.situations import shown
from crowdfield.service.schemas import Receipt, ReportIn, StartedFromFile
from crowdfield.service.store import Situation, Store

router = APIRouter(tags=["reports"])
Situated = Annotated[Situation, Depends(situation_of)]
ReportId = Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
# A reply with hundreds of thousands of ids helps nobody.
IDS_TOLD = 1000

_REPORT = {"$ref": "#/components/schemas/ReportIn"}
BODIES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"anyOf": [_REPORT, {"type": "array", "items": _REPORT}]}},
            "application/geo+json": {"schema": {"type": "object"}},
            "text/csv": {"schema": {"type": "string"}},
        },
    }
}


@router.post(
    "/situations/{situation}/reports",
    status_code=201,
    openapi_extra=BODIES,
    responses={200: {"model": Receipt, "description": "nothing new: it was stored before"}},
)
async def send_reports(
    request: Request,
    response: Response,
    situation: Situated,
    principal: Reporter,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> Receipt:
    """Store one report or many. The same report twice (by id, by Idempotency-Key, or by all it says including its time)
    is stored once."""
    service = service_of(request)
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    trust = await service.trust(situation.id)
    if media in ("application/json", "application/geo+json"):
        rows, single = intake.parse_json(body, service.settings.row_limit)
        if len(rows) > 200:  # in a thread: long lists would block all other requests
            taken = await service.pools.imports.run(
                intake.admit, rows, situation, principal, trust, key=idempotency_key, single=single
            )
        else:
            taken = intake.admit(rows, situation, principal, trust, key=idempotency_key, single=single)
    elif media == "text/csv":
        read = await service.pools.imports.run(service.reader.body, body)
        taken = await service.pools.imports.run(admit_file, read, situation, principal, trust, key=idempotency_key)
    else:
        raise Problem(415, "reports are application/json, application/geo+json or text/csv; import other files")
    receipt = await store(request, situation, taken)
    if not receipt.stored:
        response.status_code = 200
    return receipt


async def store(request: Request, situation: Situation, taken: intake.Intake) -> Receipt:
    service = service_of(request)
    outcomes = []
    for chunk in intake.chunks(taken.entries):
        outcomes += await service.append(situation.id, list(chunk))
    if taken.single and outcomes == ["conflict"]:
        raise Problem(409, "another report is stored under this id; retract that one or choose another id")
    if taken.single and outcomes == ["retracted"]:
        raise Problem(409, "the report of this id was retracted and does not count; send this one under another id")
    counted = {name: outcomes.count(name) for name in ("stored", "duplicate", "conflict", "retracted")}
    for name, count in (counted | {"rejected": taken.rejected}).items():
        service.metrics.reports.labels(name).inc(count)
    return Receipt(
        stored=counted["stored"],
        duplicate=counted["duplicate"],
        conflict=counted["conflict"],
        retracted=counted["retracted"],
        rejected=taken.rejected,
        ids=[e.id for e in taken.entries] if len(taken.entries) <= IDS_TOLD else [],
        rejects=taken.rejects[:100],
        outside=taken.outside,
        note=taken.note,
    )


@router.get("/situations/{situation}/reports", response_class=JSONResponse)
async def list_reports(
    request: Request,
    situation: Situated,
    principal: TrustedOne,
    wanted: ReportsWanted,
    version: VersionQuery = None,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """The reports behind a map version, as GeoJSON: those that came in last first (of `doubtful`, the most doubtful).
    `numberMatched` says how many pass the filters; `sources` and `labels` say what there is to filter by."""
    service = service_of(request)
    info = await service.pools.reading.run(service.maps.info, situation, version)
    question = {
        "task": "reports", "situation": situation.id, "version": info.number,
        "wanted": asdict(wanted), "offset": offset, "limit": limit, "head": await head_of(service, situation),
    }  # fmt: skip
    return send(request.headers, await service.made_file(service.pools.answers, question, situation), cache=PRIVATE)


@router.get("/situations/{situation}/reports/{report}", response_class=JSONResponse)
async def one_report(
    request: Request, situation: Situated, report: ReportId, principal: TrustedOne, version: VersionQuery = None
) -> Response:
    """One report in full: what it says, how probable the map finds that (`doubt`, where it is doubtful), and whether it
    was accepted or retracted."""
    service = service_of(request)
    info = await service.pools.reading.run(service.maps.info, situation, version)
    question = {
        "task": "report", "situation": situation.id, "version": info.number, "report": report,
        "head": await head_of(service, situation),
    }  # fmt: skip
    return send(request.headers, await service.made_file(service.pools.answers, question, situation), cache=PRIVATE)


@router.delete("/situations/{situation}/reports/{report}", status_code=202)
async def retract_report(
    request: Request, situation: Situated, report: ReportId, principal: TrustedOne
) -> dict[str, bool]:
    """Take a report back. The log keeps it and the fact that it was retracted; the next map goes without it."""
    service = service_of(request)
    # By the id of the receipt, or by the one that the key itself gave.
    for name in dict.fromkeys((report, intake.own_id(report, principal))):
        if await service.pools.intake.run(service.intake_store.entry, situation.id, name) is not None:
            await service.append(situation.id, [intake.retraction(name, principal)])
            return {"retracted": True}
    raise Problem(404, "there is no such report, or it was retracted already")


@router.put("/situations/{situation}/reports/{report}/accepted", status_code=202)
async def accept_report(
    request: Request, situation: Situated, report: ReportId, principal: TrustedOne
) -> dict[str, bool]:
    """Say that a doubtful report was looked at and stands. The map stays what it is; nobody is asked about it again."""
    service = service_of(request)
    if await service.pools.intake.run(service.intake_store.entry, situation.id, report) is None:
        raise Problem(404, "there is no such report, or it was retracted already")
    await service.append(situation.id, [intake.acceptance(report, principal)])
    return {"accepted": True}


@router.get("/situations/{situation}/moderation", response_class=JSONResponse)
async def moderation(request: Request, situation: Situated, principal: TrustedOne) -> Response:
    """Reports to look at: those that the newest map finds improbable given all others (`doubtful`, with that
    probability), those that somebody has accepted, and those that were retracted."""
    service = service_of(request)
    now = await service.pools.reading.run(service.store.situation, situation.id)
    info = await service.pools.reading.run(service.maps.info, now)
    question = {"task": "moderation", "situation": now.id, "version": info.number, "head": now.head}
    return send(request.headers, await service.made_file(service.pools.answers, question, situation), cache=PRIVATE)


@router.post("/situations/{situation}/webhook/ushahidi", status_code=201)
async def ushahidi_webhook(
    request: Request,
    response: Response,
    situation: Situated,
    principal: Reporter,
    label: Annotated[
        str | None, Query(max_length=200, description="what such a post says; the last label by default")
    ] = None,
) -> Receipt:
    """A post as Ushahidi sends it when one is created. Contacts and authors are not kept.

    Webhooks that cannot set headers can give their key as the password of the address."""
    service = service_of(request)
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Problem(415, "the webhook takes application/json")
    rows = intake.ushahidi(await request.body(), label or situation.labels[-1], principal)
    trust = await service.trust(situation.id)
    taken = intake.admit(rows, situation, principal, trust, single=True, from_webhook=True)
    receipt = await store(request, situation, taken)
    if not receipt.stored:
        response.status_code = 200
    return receipt


Uploaded = Annotated[UploadFile, File(description="any layout that `crowdfield inspect` knows")]
PlanForm = Annotated[
    str | None, Form(max_length=200_000, description="how to read the file, as JSON: an ImportPlan", alias="plan")
]


def planned(text: str | None) -> ImportPlan:
    """The plan of an import, from the form of a request."""
    if text is None:
        return ImportPlan()
    try:
        return ImportPlan.model_validate_json(text)
    except ValidationError as error:
        raise Problem(422, "the plan of the import cannot be used as it is", faults=faults(error)) from error


@router.post("/situations/{situation}/import", status_code=201)
async def import_file(
    request: Request,
    situation: Situated,
    principal: Reporter,
    file: Uploaded,
    positive: Annotated[str | None, Form(max_length=200)] = None,
    plan: PlanForm = None,
) -> Receipt:
    """Read a file of reports with the readers of `crowdfield fuse`."""
    service = service_of(request)
    read = await service.pools.imports.run(service.reader.file, file.file, positive, planned(plan))
    trust = await service.trust(situation.id)
    taken = await service.pools.imports.run(admit_file, read, situation, principal, trust)
    return await store(request, situation, taken)


@router.post("/situations/{situation}/import/preview")
async def preview_import(
    request: Request, situation: Situated, principal: Reporter, file: Uploaded, plan: PlanForm = None
) -> ImportPreview | UnreadableFile:
    """What would become of a file on this map. Nothing is stored. Of a file that cannot be read as it is: why, and what
    the plan could say."""
    return await _previewed(request, file, planned(plan), lambda read, wanted: previews.of_map(read, situation, wanted))


@router.post("/import/preview")
async def preview_start(
    request: Request, principal: AdminOfAll, file: Uploaded, plan: PlanForm = None
) -> ImportPreview | UnreadableFile:
    """What map would be made of a file. Nothing is stored. Of a file that cannot be read as it is: why, and what the
    plan could say."""
    wanted = planned(plan)
    title = wanted.title or uploads.title_of(file.filename)
    return await _previewed(request, file, wanted, lambda read, wanted: previews.of_new_map(read, title, wanted))


async def _previewed(
    request: Request,
    file: UploadFile,
    wanted: ImportPlan,
    preview: Callable[[uploads.Read, ImportPlan], ImportPreview],
) -> ImportPreview | UnreadableFile:
    service = service_of(request)
    try:
        read = await service.pools.imports.run(service.reader.file, file.file, None, wanted)
    except Problem as problem:
        if problem.status_code != 422:
            raise
        return previews.unreadable(problem, file.filename)
    return await service.pools.imports.run(preview, read, wanted)


@router.post("/import", status_code=201)
async def start_from_file(
    request: Request,
    principal: AdminOfAll,
    file: Uploaded,
    id: Annotated[str | None, Form(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] = None,
    title: Annotated[str | None, Form(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")] = None,
    columns: Annotated[int | None, Form(ge=4, le=1024)] = None,
    plan: PlanForm = None,
) -> StartedFromFile:
    """Start a situation from a file: its labels become the states, its places the region, unless the plan says
    otherwise.

    A few places far from all others (2 % at most) are mostly mistakes and do not count for the region. The receipt
    says how many rows were not taken, and how many of them lie outside."""
    service = service_of(request)
    wanted = planned(plan)
    wanted = wanted.model_copy(update={"cells": wanted.cells or columns})
    name = wanted.title or title or uploads.title_of(file.filename)
    read = await service.pools.imports.run(service.reader.file, file.file, None, wanted)
    layout = await service.pools.imports.run(uploads.lay_out, read, wanted)
    slug = id if id else await service.pools.imports.run(free_slug, service.store, uploads.slug_of(name))
    situation = await service.pools.imports.run(previews.situation_of, slug, name, layout, wanted)
    await service.pools.imports.run(service.store.create, situation)
    service.forget()
    taken = await service.pools.imports.run(admit_file, read, situation, principal, {})
    receipt = await store(request, situation, taken)
    made = shown(situation, None, service.settings.minimum_count)
    return StartedFromFile(**made.model_dump() | {"reports": len(taken.entries), "waiting": True}, receipt=receipt)


def free_slug(store: Store, slug: str) -> str:
    """The slug itself, or with a number behind it where it is taken."""
    taken = {situation.id for situation in store.situations()}
    return next(name for n in itertools.count(1) if (name := slug if n == 1 else f"{slug}-{n}") not in taken)


def admit_file(
    read: uploads.Read, situation: Situation, principal: Principal, trust: dict[str, Any], key: str | None = None
) -> intake.Intake:
    """Check the rows of a file; what is rejected is told by its line in the file, whoever rejected it."""
    taken = intake.admit(read.rows, situation, principal, trust, key=key, by_content=True, lines=read.lines)
    return taken.of_file(read.rejects, read.rejected, read.note)


__all__ = ["ReportIn", "router"]
