"""Keys: only admins create and revoke them."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from crowdfield import __version__
from crowdfield.service.auth import Rights, Role
from crowdfield.service.deps import AdminOfAll, principal_of, service_of
from crowdfield.service.problems import Problem
from crowdfield.service.schemas import KeyMade, KeyOut, NewKey, Rotation, Whoami

router = APIRouter(tags=["keys"])
KeyId = Annotated[str, Path(pattern=r"^[0-9a-f]{1,32}$")]


@router.get("/me")
async def whoami(request: Request) -> Whoami:
    """What your key may do."""
    principal = principal_of(request)
    return Whoami(
        role=principal.role.name,
        name=principal.name,
        maps=None if principal.maps is None else sorted(principal.maps),
        any_source=principal.any_source,
        expires=principal.expires,
        anonymous_reading=service_of(request).settings.anonymous_reading,
        version=__version__,
    )


@router.get("/keys")
async def list_keys(request: Request, _: AdminOfAll) -> list[KeyOut]:
    service = service_of(request)
    keys = await service.pools.operations.run(service.keys.all)
    return [KeyOut(**vars(key), state=key.state) for key in keys]


@router.post("/keys", status_code=201)
async def make_key(request: Request, new: NewKey, _: AdminOfAll) -> KeyMade:
    """Create a key with a role, optionally only for some maps and until some time. The source of its reports is its own
    name, unless `any_source` allows it to report as others."""
    service = service_of(request)
    rights = Rights(None if new.maps is None else tuple(new.maps), new.any_source, new.expires)
    return KeyMade(key=await service.pools.operations.run(service.keys.create, new.name, Role[new.role], rights))


@router.post("/keys/{key}/rotate", status_code=201)
async def rotate_key(request: Request, key: KeyId, principal: AdminOfAll, terms: Rotation | None = None) -> KeyMade:
    """Replace a key by a new one with the same name, rights and report ids; the old key is revoked."""
    if key == principal.id:
        raise Problem(409, "a key cannot replace itself; use another admin key")
    service = service_of(request)
    expires = terms.expires if terms is not None else None
    made = await service.pools.operations.run(lambda: service.keys.rotate(key, expires=expires))
    return KeyMade(key=made)


@router.delete("/keys/{key}", status_code=204)
async def revoke_key(request: Request, key: KeyId, principal: AdminOfAll) -> Response:
    """Revoke a key: it is invalid from now on, and its event streams end."""
    if key == principal.id:
        raise Problem(409, "a key cannot revoke itself; use another admin key")
    service = service_of(request)
    await service.pools.operations.run(service.keys.revoke, key)
    return Response(status_code=204)
