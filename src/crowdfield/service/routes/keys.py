"""Keys: only admins make and revoke them."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from crowdfield import __version__
from crowdfield.service.auth import Role
from crowdfield.service.deps import Admin, principal_of, service_of
from crowdfield.service.problems import Problem
from crowdfield.service.schemas import KeyMade, KeyOut, NewKey, Whoami

router = APIRouter(tags=["keys"])


@router.get("/me")
async def whoami(request: Request) -> Whoami:
    """What your key may do."""
    principal = principal_of(request)
    return Whoami(
        role=principal.role.name,
        name=principal.name,
        anonymous_reading=service_of(request).settings.anonymous_reading,
        version=__version__,
    )


@router.get("/keys")
async def list_keys(request: Request, _: Admin) -> list[KeyOut]:
    service = service_of(request)
    keys = await service.pools.operations.run(service.keys.all)
    return [KeyOut(**vars(key)) for key in keys]


@router.post("/keys", status_code=201)
async def make_key(request: Request, new: NewKey, _: Admin) -> KeyMade:
    service = service_of(request)
    return KeyMade(key=await service.pools.operations.run(service.keys.create, new.name, Role[new.role]))


@router.delete("/keys/{key}", status_code=204)
async def revoke_key(
    request: Request, key: Annotated[str, Path(pattern=r"^[0-9a-f]{1,32}$")], principal: Admin
) -> Response:
    if key == principal.id:
        raise Problem(409, "a key cannot revoke itself; use another admin key")
    service = service_of(request)
    await service.pools.operations.run(service.keys.revoke, key)
    return Response(status_code=204)
