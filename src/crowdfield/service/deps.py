"""What routes ask for: the service, who is asking, and which situation is meant."""

from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Path, Query, Request

from crowdfield.service.auth import Principal, Role
from crowdfield.service.limits import READING
from crowdfield.service.problems import Problem
from crowdfield.service.store import Situation

if TYPE_CHECKING:
    from crowdfield.service.app import Service


def service_of(request: Request) -> "Service":
    return request.app.state.service  # type: ignore[no-any-return]


def principal_of(request: Request) -> Principal:
    return request.state.principal  # type: ignore[no-any-return]


class Need:
    """Lets pass who has at least this role."""

    def __init__(self, role: Role):
        self._role = role

    async def __call__(self, request: Request) -> Principal:
        principal = principal_of(request)
        self.check(principal)
        return principal

    def check(self, principal: Principal) -> None:
        """Also asked before the body of a request is read: see `access.py`."""
        if principal.role >= self._role:
            return
        if principal.id is None:
            raise Problem(
                401,
                f"this needs a key of the role {self._role.name}; send it as 'Authorization: Bearer …'",
                headers={"WWW-Authenticate": 'Bearer realm="crowdfield"'},
            )
        raise Problem(403, f"this needs the role {self._role.name}; your key has the role {principal.role.name}")


async def situation_of(
    request: Request,
    situation: Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", examples=["flood"])],
) -> Situation:
    return await service_of(request).situation(situation, reporting=request.method not in READING)


async def situation_asked(
    request: Request,
    situation: Annotated[str | None, Query(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] = None,
) -> Situation:
    """For the short addresses such as /tiles/…: the situation named in the query, else the newest."""
    return await service_of(request).situation(situation)


Reader = Annotated[Principal, Depends(Need(Role.reader))]
Reporter = Annotated[Principal, Depends(Need(Role.reporter))]
TrustedOne = Annotated[Principal, Depends(Need(Role.trusted))]
Admin = Annotated[Principal, Depends(Need(Role.admin))]
VersionQuery = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="a map version; the newest by default")]
