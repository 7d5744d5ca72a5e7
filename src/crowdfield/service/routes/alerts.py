"""Alerts of a map: only admins see and set them."""

import time
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Depends, Path, Request, Response

from crowdfield.service import webhooks
from crowdfield.service.alert_schemas import AlertFields, AlertMade, AlertOut, AreaOver, MessageOut, NewAlert
from crowdfield.service.alerts import HYSTERESIS, Alert
from crowdfield.service.deps import Admin, service_of, situation_of
from crowdfield.service.problems import Problem
from crowdfield.service.records import Situation

router = APIRouter(tags=["alerts"])
SituationInPath = Annotated[Situation, Depends(situation_of)]
AlertId = Annotated[str, Path(pattern=r"^[0-9a-f]{1,32}$")]
# The most messages listed for each alert.
MESSAGES_LISTED = 5


@router.get("/situations/{situation}/alerts")
async def list_alerts(request: Request, situation: SituationInPath, _: Admin) -> list[AlertOut]:
    """The alerts of this map, the districts that are over their limit, and the state of the last messages."""
    service = service_of(request)

    def read() -> list[AlertOut]:
        return [
            AlertOut(
                **_shown(one),
                over=[
                    AreaOver(area=s.area, share=s.share, since=s.since)
                    for s in service.alerts.area_statuses(one.id)
                    if s.raised
                ],
                messages=[MessageOut(**message) for message in service.alerts.messages(one.id, MESSAGES_LISTED)],
            )
            for one in service.alerts.of_map(situation.id)
        ]

    return await service.pools.reading.run(read)


@router.post("/situations/{situation}/alerts", status_code=201)
async def set_alert(request: Request, situation: SituationInPath, new: NewAlert, _: Admin) -> AlertMade:
    """Set an alert: messages by webhook or e-mail when a state is more probable than `probability` in more than `share`
    of a district (of `area`, or of each of the districts), and when that is over. Every new version is compared."""
    service = service_of(request)
    settings = service.settings
    if new.state not in situation.states:
        raise Problem(422, f"this situation has no such state; it has: {', '.join(situation.states)}")
    if new.webhook is not None:
        webhooks.allowed(new.webhook, settings.alert_hosts)
    elif settings.smtp_host is None:
        raise Problem(422, "there is no mail server; the operator of the service can set CROWDFIELD_SMTP_HOST")
    areas = await service.pools.imports.run(service.districts.load, situation.id, new.districts)
    if new.area is not None and new.area not in areas.names:
        raise Problem(422, "there is no such area among these districts")
    fields = new.model_dump() | {"clear": HYSTERESIS * new.share if new.clear is None else new.clear}
    secret, now = webhooks.new_secret(), time.time()
    one = Alert(id=uuid4().hex, situation=situation.id, secret=secret, created=now, **fields)
    await service.pools.operations.run(service.alerts.create, one)
    return AlertMade(**_shown(one), secret=one.secret)


@router.post("/situations/{situation}/alerts/{alert}/test", status_code=202)
async def test_alert(request: Request, situation: SituationInPath, alert: AlertId, _: Admin) -> dict[str, str]:
    """Send a message that says that it is a test; `GET alerts` shows whether it arrived."""
    service = service_of(request)
    one = await service.pools.operations.run(service.alerts.find, situation.id, alert)
    return {"id": await service.pools.operations.run(service.alerts.test, one, situation)}


@router.delete("/situations/{situation}/alerts/{alert}", status_code=204)
async def remove_alert(request: Request, situation: SituationInPath, alert: AlertId, _: Admin) -> Response:
    """Remove an alert; messages that are still waiting are not sent."""
    service = service_of(request)
    await service.pools.operations.run(service.alerts.remove, situation.id, alert)
    return Response(status_code=204)


def _shown(one: Alert) -> dict[str, Any]:
    return one.model_dump(include=set(AlertFields.model_fields))
