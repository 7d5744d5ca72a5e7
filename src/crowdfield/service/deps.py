"""What routes depend on: the service, the caller with the required role, and the situation."""

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Depends, Path, Query, Request

from crowdfield.service.auth import PUBLIC, Principal, Role
from crowdfield.service.limits import READING
from crowdfield.service.problems import Problem
from crowdfield.service.records import Situation
from crowdfield.service.schemas import parse_time
from crowdfield.service.store import no_situation

if TYPE_CHECKING:
    from crowdfield.service.app import Service


def service_of(request: Request) -> "Service":
    """The service of a request."""
    return request.app.state.service  # type: ignore[no-any-return]


def principal_of(request: Request) -> Principal:
    """Who is asking."""
    return request.state.principal  # type: ignore[no-any-return]


Scope = Literal["map", "all maps", "any map"]
"""Where a role is required: on the map of the request, on all maps, or on at least one map."""


class RequiredRole:
    """Requires at least this role, and returns the caller with the role that counts there: on a map that a key is not
    for, it counts as no key at all."""

    def __init__(self, role: Role, scope: Scope = "map"):
        self.role, self.scope = role, scope

    async def __call__(self, request: Request) -> Principal:
        return self.check(principal_of(request), named_map(request))

    def check(self, principal: Principal, situation: str | None) -> Principal:
        """The caller with the role that counts here, or an error. Also called before the body of a request is read, by
        `access.py`."""
        here = self._here(principal, situation)
        if here.role >= self.role:
            return here
        if principal.id is None:
            raise Problem(
                401,
                f"this needs a key of the role {self.role.name}; send it as 'Authorization: Bearer …'",
                headers={"WWW-Authenticate": 'Bearer realm="crowdfield"'},
            )
        if principal.role >= self.role:
            raise Problem(403, "your key is not for all maps; /me lists those that it is for")
        raise Problem(403, f"this needs the role {self.role.name}; your key has the role {principal.role.name}")

    def _here(self, principal: Principal, situation: str | None) -> Principal:
        # A short address without a map means the newest of the maps that the key is for.
        if self.scope == "any map" or (self.scope == "map" and situation is None):
            return principal
        return principal.on(situation if self.scope == "map" else None)


def named_map(request: Request) -> str | None:
    """The id of the map in the path, or in the query of a short address."""
    return request.path_params.get("situation") or request.query_params.get("situation")


# Checked before a map is looked up: a caller who may not read it does not learn whether it exists.
_READING = RequiredRole(Role.reader)


SituationId = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", examples=["flood"])]


async def situation_of(request: Request, situation: SituationId) -> Situation:
    principal = principal_of(request)
    _READING.check(principal, situation)
    return seen_by(principal, await service_of(request).situation(situation, reporting=request.method not in READING))


async def situation_from_query(
    request: Request,
    situation: Annotated[str | None, Query(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] = None,
) -> Situation:
    """For the short addresses such as /tiles/…: the situation in the query, else the newest."""
    principal = principal_of(request)
    _READING.check(principal, situation)
    service = service_of(request)
    if situation is not None:
        return seen_by(principal, await service.situation(situation))
    return await service.situation(None, among=principal.maps, access=principal.accesses)


async def situation_to_report_to(request: Request, situation: SituationId) -> Situation:
    """For sending reports: those who have a key for it with the role reporter may report to a map that they may not
    see."""
    principal = principal_of(request)
    _READING.check(principal, situation)
    found = await service_of(request).situation(situation, reporting=True)
    may_report = principal.is_for(found.id) and principal.on(found.id).role >= Role.reporter
    return found if may_report else seen_by(principal, found)


def may_see(principal: Principal, situation: Situation) -> bool:
    """Whether a caller may see a map."""
    return situation.access in accesses(principal, situation.id)


def accesses(principal: Principal, situation: str) -> frozenset[str]:
    """The values of `access` with which this caller may see a map."""
    return principal.accesses if principal.is_for(situation) else PUBLIC


def seen_by(principal: Principal, situation: Situation) -> Situation:
    """The situation. If this caller may not see it, the error is the same as for one that does not exist."""
    if not may_see(principal, situation):
        raise no_situation(situation.id)
    return situation


Reader = Annotated[Principal, Depends(RequiredRole(Role.reader))]
Reporter = Annotated[Principal, Depends(RequiredRole(Role.reporter))]
TrustedKey = Annotated[Principal, Depends(RequiredRole(Role.trusted))]
Admin = Annotated[Principal, Depends(RequiredRole(Role.admin))]
# For requests that are not about a single map.
ReaderOfAny = Annotated[Principal, Depends(RequiredRole(Role.reader, "any map"))]
ReaderOfAll = Annotated[Principal, Depends(RequiredRole(Role.reader, "all maps"))]
AdminOfAll = Annotated[Principal, Depends(RequiredRole(Role.admin, "all maps"))]


async def _moment(
    moment: Annotated[
        str | None,
        Query(
            max_length=40,
            description="for a map whose state changes over time: when events happened (ISO 8601). The nearest of the "
            "moments of the version (`info.moments`) is used; the newest by default. Earlier moments exist of the "
            "newest version only",
            examples=["2026-11-15T21:00:00Z"],
        ),
    ] = None,
) -> float | None:
    try:
        return None if moment is None else parse_time(moment)
    except ValueError as error:
        raise Problem(422, f"moment {error}") from error


MomentQuery = Annotated[float | None, Depends(_moment)]
VersionQuery = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="a map version; the newest by default")]
