"""Sending reports: one or many, as JSON, GeoJSON, CSV, a file or by webhook. They are acknowledged once durable."""

import itertools
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Header, Path, Query, Request, Response, UploadFile
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from crowdfield.service import intake, previews, uploads
from crowdfield.service.auth import Principal
from crowdfield.service.deps import (
    AdminOfAll,
    Reporter,
    TrustedKey,
    VersionQuery,
    service_of,
    situation_of,
    situation_to_report_to,
)
from crowdfield.service.import_schemas import ImportPlan, ImportPreview, UnreadableFile
from crowdfield.service.packing import PRIVATE, send
from crowdfield.service.problems import Problem, faults
from crowdfield.service.records import Situation
from crowdfield.service.routes.filters import ReportsWanted, head_of
from crowdfield.service.routes.situations import situation_out
from crowdfield.service.schemas import Receipt, ReportIn, StartedFromFile
from crowdfield.service.store import Store

router = APIRouter(tags=["reports"])
SituationInPath = Annotated[Situation, Depends(situation_of)]
SituationToReportTo = Annotated[Situation, Depends(situation_to_report_to)]
ReportId = Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
# The most reports whose ids are listed in the answer.
MOST_IDS_LISTED = 1000

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
    responses={200: {"model": Receipt, "description": "nothing new: all reports were stored before"}},
)
async def send_reports(
    request: Request,
    response: Response,
    situation: SituationToReportTo,
    principal: Reporter,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> Receipt:
    """Store one report or many. A report that is sent twice (with the same id, the same Idempotency-Key, or the same
    content including its time) is stored once."""
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
        raise Problem(415, "send reports as application/json, application/geo+json or text/csv; import other files")
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
        raise Problem(409, "another report is stored under this id; retract it, or choose another id")
    if taken.single and outcomes == ["retracted"]:
        raise Problem(409, "the report with this id was retracted and does not count; send it with another id")
    counted = {name: outcomes.count(name) for name in ("stored", "duplicate", "conflict", "retracted")}
    for name, count in (counted | {"rejected": taken.rejected}).items():
        service.metrics.reports.labels(name).inc(count)
    return Receipt(
        stored=counted["stored"],
        duplicate=counted["duplicate"],
        conflict=counted["conflict"],
        retracted=counted["retracted"],
        rejected=taken.rejected,
        ids=[e.id for e in taken.entries] if len(taken.entries) <= MOST_IDS_LISTED else [],
        rejects=taken.rejects[:100],
        outside=taken.outside,
        note=taken.note,
    )


@router.get("/situations/{situation}/reports", response_class=JSONResponse)
async def list_reports(
    request: Request,
    situation: SituationInPath,
    principal: TrustedKey,
    wanted: ReportsWanted,
    version: VersionQuery = None,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """The reports of a map version as GeoJSON, the last received first (in the list `doubtful`, the most doubtful).
    `numberMatched` is the number of reports that match the filters; `sources` and `labels` list possible filters."""
    service = service_of(request)
    info = await service.pools.reading.run(service.maps.info, situation, version)
    question = {
        "task": "reports", "situation": situation.id, "version": info.number,
        "wanted": asdict(wanted), "offset": offset, "limit": limit, "head": await head_of(service, situation),
    }  # fmt: skip
    return send(request.headers, await service.cached_file(service.pools.answers, question, situation), cache=PRIVATE)


@router.get("/situations/{situation}/reports/{report}", response_class=JSONResponse)
async def one_report(
    request: Request, situation: SituationInPath, report: ReportId, principal: TrustedKey, version: VersionQuery = None
) -> Response:
    """One report in full: its content, its probability given all others (`doubt`, if it is doubtful), and whether it
    was accepted or retracted."""
    service = service_of(request)
    info = await service.pools.reading.run(service.maps.info, situation, version)
    question = {
        "task": "report", "situation": situation.id, "version": info.number, "report": report,
        "head": await head_of(service, situation),
    }  # fmt: skip
    return send(request.headers, await service.cached_file(service.pools.answers, question, situation), cache=PRIVATE)


@router.delete("/situations/{situation}/reports/{report}", status_code=202)
async def retract_report(
    request: Request, situation: SituationInPath, report: ReportId, principal: TrustedKey
) -> dict[str, bool]:
    """Retract a report. The log keeps the report and its retraction; the next map does not include it."""
    service = service_of(request)
    # The id in the receipt, or the one that the sender gave.
    for name in dict.fromkeys((report, intake.own_id(report, principal))):
        if await service.pools.intake.run(service.intake_store.entry, situation.id, name) is not None:
            await service.append(situation.id, [intake.retraction(name, principal)])
            return {"retracted": True}
    raise Problem(404, "there is no such report, or it was retracted already")


@router.put("/situations/{situation}/reports/{report}/accepted", status_code=202)
async def accept_report(
    request: Request, situation: SituationInPath, report: ReportId, principal: TrustedKey
) -> dict[str, bool]:
    """Accept a doubtful report after a review. The map does not change; the report is no longer listed as doubtful."""
    service = service_of(request)
    if await service.pools.intake.run(service.intake_store.entry, situation.id, report) is None:
        raise Problem(404, "there is no such report, or it was retracted already")
    await service.append(situation.id, [intake.acceptance(report, principal)])
    return {"accepted": True}


@router.get("/situations/{situation}/moderation", response_class=JSONResponse)
async def moderation(request: Request, situation: SituationInPath, principal: TrustedKey) -> Response:
    """Reports to review: those that are improbable given all others (`doubtful`, with that probability), and those that
    were accepted or retracted."""
    service = service_of(request)
    now = await service.pools.reading.run(service.store.situation, situation.id)
    info = await service.pools.reading.run(service.maps.info, now)
    question = {"task": "moderation", "situation": now.id, "version": info.number, "head": now.head}
    return send(request.headers, await service.cached_file(service.pools.answers, question, situation), cache=PRIVATE)


@router.post("/situations/{situation}/webhook/ushahidi", status_code=201)
async def ushahidi_webhook(
    request: Request,
    response: Response,
    situation: SituationToReportTo,
    principal: Reporter,
    label: Annotated[
        str | None, Query(max_length=200, description="the label of the report; the last label by default")
    ] = None,
) -> Receipt:
    """Take a post that Ushahidi sends when it is created. Contacts and authors are not stored.

    Webhooks that cannot set headers can put their key into the URL, as the password."""
    service = service_of(request)
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Problem(415, "the webhook accepts application/json only")
    rows = intake.ushahidi(await request.body(), label or situation.labels[-1], principal)
    trust = await service.trust(situation.id)
    taken = intake.admit(rows, situation, principal, trust, single=True, from_webhook=True)
    receipt = await store(request, situation, taken)
    if not receipt.stored:
        response.status_code = 200
    return receipt


Uploaded = Annotated[UploadFile, File(description="a file that `crowdfield inspect` can read")]
PlanForm = Annotated[
    str | None, Form(max_length=200_000, description="how to read the file, as JSON: an ImportPlan", alias="plan")
]


def parse_plan(text: str | None) -> ImportPlan:
    """The plan of an import, from a form field of a request."""
    if text is None:
        return ImportPlan()
    try:
        return ImportPlan.model_validate_json(text)
    except ValidationError as error:
        raise Problem(422, "the plan of the import is not valid", faults=faults(error)) from error


@router.post("/situations/{situation}/import", status_code=201)
async def import_file(
    request: Request,
    situation: SituationToReportTo,
    principal: Reporter,
    file: Uploaded,
    positive: Annotated[str | None, Form(max_length=200)] = None,
    plan: PlanForm = None,
) -> Receipt:
    """Import a file of reports, read as `crowdfield fuse` does."""
    service = service_of(request)
    read = await service.pools.imports.run(service.reader.file, file.file, positive, parse_plan(plan))
    trust = await service.trust(situation.id)
    taken = await service.pools.imports.run(admit_file, read, situation, principal, trust)
    return await store(request, situation, taken)


@router.post("/situations/{situation}/import/preview")
async def preview_import(
    request: Request, situation: SituationToReportTo, principal: Reporter, file: Uploaded, plan: PlanForm = None
) -> ImportPreview | UnreadableFile:
    """What importing a file into this map would do. Nothing is stored. If the file cannot be read as it is, the answer
    says why, and what the plan could contain."""
    return await _previewed(
        request, file, parse_plan(plan), lambda read, wanted: previews.of_map(read, situation, wanted)
    )


@router.post("/import/preview")
async def preview_start(
    request: Request, principal: AdminOfAll, file: Uploaded, plan: PlanForm = None
) -> ImportPreview | UnreadableFile:
    """Which map would be made from a file. Nothing is stored. If the file cannot be read as it is, the answer says why,
    and what the plan could contain."""
    wanted = parse_plan(plan)
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

    A few places far from all others (at most 2 %) are mostly mistakes, and are ignored for the region. The receipt says
    how many rows were rejected, and how many of those lie outside the region."""
    service = service_of(request)
    wanted = parse_plan(plan)
    wanted = wanted.model_copy(update={"cells": wanted.cells or columns})
    name = wanted.title or title or uploads.title_of(file.filename)
    read = await service.pools.imports.run(service.reader.file, file.file, None, wanted)
    layout = await service.pools.imports.run(uploads.layout_of, read, wanted)
    slug = id if id else await service.pools.imports.run(free_slug, service.store, uploads.slug_of(name))
    situation = await service.pools.imports.run(previews.situation_of, slug, name, layout, wanted)
    await service.pools.imports.run(service.store.create, situation)
    service.forget()
    taken = await service.pools.imports.run(admit_file, read, situation, principal, {})
    receipt = await store(request, situation, taken)
    made = situation_out(situation, None, service.settings.minimum_count)
    return StartedFromFile(**made.model_dump() | {"reports": len(taken.entries), "waiting": True}, receipt=receipt)


def free_slug(store: Store, slug: str) -> str:
    """The slug itself, or with a number appended if it is taken."""
    taken = {situation.id for situation in store.situations()}
    return next(name for n in itertools.count(1) if (name := slug if n == 1 else f"{slug}-{n}") not in taken)


def admit_file(
    read: uploads.Read, situation: Situation, principal: Principal, trust: dict[str, Any], key: str | None = None
) -> intake.Intake:
    """Check the rows of a file; rejected rows are listed with their lines in the file."""
    taken = intake.admit(read.rows, situation, principal, trust, key=key, by_content=True, lines=read.lines)
    return taken.with_file_rejects(read.rejects, read.rejected, read.note)


__all__ = ["ReportIn", "router"]
