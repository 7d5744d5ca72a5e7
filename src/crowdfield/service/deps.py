"""What routes ask for: the service, who is asking, and which situation is meant."""

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Depends, Path, Query, Request

from crowdfield.service.auth import Principal, Role
from crowdfield.service.limits import READING
from crowdfield.service.problems import Problem
from crowdfield.service.store import Situation, no_situation

if TYPE_CHECKING:
    from crowdfield.service.app import Service


def service_of(request: Request) -> "Service":
    """The service of a request."""
    return request.app.state.service  # type: ignore[no-any-return]


def principal_of(request: Request) -> Principal:
    """Who is asking."""
    return request.state.principal  # type: ignore[no-any-return]


Scope = Literal["map", "all maps", "any map"]
"""What a role is needed for: the map that a request is about, all maps at once, or at least one of them."""


class Need:
    """Lets pass who has at least this role, and says what the key counts as there: one that is limited to some maps is
    worth no more than no key at all on the others."""

    def __init__(self, role: Role, scope: Scope = "map"):
        self.role, self.scope = role, scope

    async def __call__(self, request: Request) -> Principal:
        return self.check(principal_of(request), map_named(request))

    def check(self, principal: Principal, situation: str | None) -> Principal:
        """Also asked before the body of a request is read: see `access.py`."""
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
        # A short address that names no map means the newest of those that the key is for.
        if self.scope == "any map" or (self.scope == "map" and situation is None):
            return principal
        return principal.on(situation if self.scope == "map" else None)


def map_named(request: Request) -> str | None:
    """The map that the address names; a short address does so in its query."""
    return request.path_params.get("situation") or request.query_params.get("situation")


# Asked before a map is looked up: whoever may not read it does not learn whether there is such a map.
_READING = Need(Role.reader)


async def situation_of(
    request: Request,
    situation: Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", examples=["flood"])],
) -> Situation:
    principal = principal_of(request)
    _READING.check(principal, situation)
    return seen_by(principal, await service_of(request).situation(situation, reporting=request.method not in READING))


async def situation_asked(
    request: Request,
    situation: Annotated[str | None, Query(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] = None,
) -> Situation:
    """For the short addresses such as /tiles/…: the situation named in the query, else the newest."""
    principal = principal_of(request)
    _READING.check(principal, situation)
    service = service_of(request)
    if situation is not None:
        return seen_by(principal, await service.situation(situation))
    return await service.situation(None, among=principal.maps, public=principal.id is None)


def may_see(principal: Principal, situation: Situation) -> bool:
    """Whether a caller may see a map."""
    return situation.access == "public" or principal.is_for(situation.id)


def seen_by(principal: Principal, situation: Situation) -> Situation:
    """The situation, unless it is for keys that this caller does not have: then it is as if there were none."""
    if not may_see(principal, situation):
        raise no_situation(situation.id)
    return situation


Reader = Annotated[Principal, Depends(Need(Role.reader))]
Reporter = Annotated[Principal, Depends(Need(Role.reporter))]
TrustedOne = Annotated[Principal, Depends(Need(Role.trusted))]
Admin = Annotated[Principal, Depends(Need(Role.admin))]
# For addresses that are about no single map.
ReaderOfAny = Annotated[Principal, Depends(Need(Role.reader, "any map"))]
ReaderOfAll = Annotated[Principal, Depends(Need(Role.reader, "all maps"))]
AdminOfAll = Annotated[Principal, Depends(Need(Role.admin, "all maps"))]
VersionQuery = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="a map version; the newest by default")]
