"""Who may do what: keys, roles, and the pseudonyms of sources.

A key has 256 random bits, so it cannot be guessed, and storing its SHA-256 hash is safe.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Literal

from sqlalchemy import Engine, func, insert, select, update

from crowdfield.errors import InputError
from crowdfield.service.database import writing
from crowdfield.service.store import Unknown
from crowdfield.service.tables import api_key, secret, situation

# Names of sources with this prefix are for reports of trusted keys; nobody else may use such a name.
TRUSTED = "trusted: "


class Role(IntEnum):
    """Each role may also do what those before it may."""

    nobody = 0
    reader = 1
    """Reads maps; sees neither names nor exact points."""
    reporter = 2
    """Sends reports."""
    trusted = 3
    """Sends reports that count as trusted; sees reports as they are; retracts."""
    admin = 4
    """Starts situations, sets the trust in sources, creates keys."""


# The values of `access` of the maps that a caller may see: without a key, with any key for the map, and with a key that
# may also see its reports.
PUBLIC = frozenset({"public"})
FOR_KEYS = PUBLIC | {"keys"}
FOR_TRUSTED = FOR_KEYS | {"trusted"}


@dataclass(frozen=True)
class Principal:
    """Who is asking, and what the key allows."""

    role: Role
    id: str | None = None
    name: str = "anonymous"
    maps: frozenset[str] | None = None
    """The maps that the key is for; None means all of them."""
    elsewhere: Role = Role.nobody
    """The role of the key on all other maps: that of a caller without a key."""
    any_source: bool = False
    """Whether its reports may name any source; otherwise their source is the key itself."""
    origin: str = ""
    """The prefix under which report ids of this key are stored, so that no other key can take its ids."""
    expires: float | None = None

    def is_for(self, situation: str) -> bool:
        """Whether there is a key, and it is for this map."""
        return self.id is not None and (self.maps is None or situation in self.maps)

    @property
    def accesses(self) -> frozenset[str]:
        """The values of `access` with which this caller may see the maps that the key is for."""
        if self.id is None:
            return PUBLIC
        return FOR_TRUSTED if self.role >= Role.trusted else FOR_KEYS

    def on(self, situation: str | None) -> "Principal":
        """The principal with its role on this map; None means requests that concern all maps."""
        if self.maps is None or situation in self.maps:
            return self
        return replace(self, role=min(self.role, self.elsewhere))


@dataclass(frozen=True)
class Rights:
    """What a key may do, besides its role."""

    maps: tuple[str, ...] | None = None
    any_source: bool = False
    expires: float | None = None


NO_EXTRA_RIGHTS, MAY_NAME_ANY_SOURCE = Rights(), Rights(any_source=True)


@dataclass(frozen=True)
class KeyInfo:
    id: str
    name: str
    role: str
    created: float
    revoked: bool
    expires: float | None
    maps: list[str] | None
    any_source: bool

    @property
    def state(self) -> Literal["valid", "expired", "revoked"]:
        return "revoked" if self.revoked else "expired" if _expired(self.expires) else "valid"


class Keys:
    """The keys of a workspace: created, checked, rotated and revoked."""

    def __init__(self, engine: Engine, elsewhere: Role = Role.nobody):
        self._engine, self._elsewhere = engine, elsewhere
        # How long the database is not asked again: a changed key takes effect on every server within this time.
        self._cache_seconds = 2.0
        self._cache: dict[str, tuple[float, Principal | None]] = {}

    def create(self, name: str, role: Role, rights: Rights = NO_EXTRA_RIGHTS, *, origin: str | None = None) -> str:
        """Create a key. It is returned once and stored only as a hash. It has its own report ids, unless `origin` names
        the prefix of another key."""
        if name.startswith(TRUSTED.strip()):
            raise InputError(f"the name of a key must not begin with '{TRUSTED.strip()}', which marks trusted reports")
        if _expired(rights.expires):
            raise InputError("the key would have expired already")
        key, row = _new_key(name, role, rights, origin)
        with writing(self._engine) as connection:
            known = set(connection.execute(select(situation.c.id)).scalars())
            unknown = [one for one in rights.maps or () if one not in known]
            if unknown:
                raise Unknown(f"the key cannot be for situation '{unknown[0]}': there is none with this id")
            connection.execute(insert(api_key).values(row))
        return key

    def create_first(self) -> str | None:
        """Create an admin key if the workspace has no keys yet, else None; two servers at once create only one."""
        with writing(self._engine) as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("LOCK TABLE api_key IN EXCLUSIVE MODE")
            if connection.execute(select(func.count()).select_from(api_key)).scalar():
                return None
            key, row = _new_key("first admin", Role.admin, MAY_NAME_ANY_SOURCE, None)
            connection.execute(insert(api_key).values(row))
        return key

    def rotate(self, identity: str, *, expires: float | None = None) -> str:
        """Replace a key by a new one with the same name, rights and report ids; the old key is revoked."""
        with writing(self._engine) as connection:
            old = connection.execute(select(api_key).where(api_key.c.id == identity)).first()
            if old is None or old.revoked:
                raise Unknown(f"there is no valid key '{identity}' to replace")
            maps = None if old.maps is None else tuple(old.maps)
            rights = Rights(maps, old.any_source, expires if expires is not None else old.expires)
            if _expired(rights.expires):
                raise InputError("the old key has expired; say until when the new one is valid")
            key, row = _new_key(old.name, Role[old.role], rights, old.origin)
            connection.execute(insert(api_key).values(row))
            connection.execute(update(api_key).where(api_key.c.id == identity).values(revoked=True))
        self._cache.clear()
        return key

    def revoke(self, identity: str) -> None:
        with writing(self._engine) as connection:
            done = connection.execute(update(api_key).where(api_key.c.id == identity).values(revoked=True))
            if not done.rowcount:
                raise Unknown(f"there is no key '{identity}'")
        self._cache.clear()

    def forget_map(self, name: str) -> None:
        """Remove a deleted map from all keys; a key that was for this map alone is then for no map."""
        with writing(self._engine) as connection:
            for row in connection.execute(select(api_key.c.id, api_key.c.maps)).all():
                if row.maps is not None and name in row.maps:
                    left = [one for one in row.maps if one != name]
                    connection.execute(update(api_key).where(api_key.c.id == row.id).values(maps=left))
        self._cache.clear()

    def all(self) -> list[KeyInfo]:
        columns = [api_key.c[field.name] for field in fields(KeyInfo)]
        with self._engine.connect() as connection:
            return [KeyInfo(*row) for row in connection.execute(select(*columns).order_by(api_key.c.created))]

    def valid(self, identities: Collection[str]) -> set[str]:
        """The ids of those keys that are neither revoked nor expired."""
        c, now = api_key.c, time.time()
        query = select(c.id).where(c.id.in_(identities), ~c.revoked, (c.expires.is_(None)) | (c.expires > now))
        with self._engine.connect() as connection:
            return set(connection.execute(query).scalars())

    def cached(self, key: str) -> tuple[bool, Principal | None]:
        """Whether the owner of this key is cached, and the owner."""
        at, principal = self._cache.get(_digest(key), (0.0, None))
        if principal is not None and _expired(principal.expires):
            principal = None
        return time.monotonic() - at < self._cache_seconds and at > 0, principal

    def check(self, key: str) -> Principal | None:
        """The owner of a key, or None for a key that is malformed, forged, revoked or expired."""
        is_cached, principal = self.cached(key)
        if is_cached:
            return principal
        principal = self._look_up(key)
        if len(self._cache) > 10_000:  # forged keys must not fill the memory
            self._cache.clear()
        self._cache[_digest(key)] = (time.monotonic(), principal)
        return principal

    def _look_up(self, key: str) -> Principal | None:
        """The owner of a key by the database; None if the key is unknown, revoked or expired."""
        parts = key.split("_", 2)
        if len(parts) != 3 or parts[0] != "cf" or not parts[1].isalnum() or len(key) > 200 or not key.isascii():
            return None
        with self._engine.connect() as connection:
            row = connection.execute(select(api_key).where(api_key.c.id == parts[1])).first()
        # The same work for a known and an unknown id, so that the response time reveals nothing.
        matches = hmac.compare_digest(_digest(parts[2]), row.digest if row else _digest(""))
        if row is None or not matches or row.revoked or _expired(row.expires):
            return None
        role = Role[row.role]
        return Principal(
            role, row.id, row.name, None if row.maps is None else frozenset(row.maps), self._elsewhere,
            row.any_source or role is Role.admin, row.origin, row.expires,
        )  # fmt: skip


def _new_key(name: str, role: Role, rights: Rights, origin: str | None) -> tuple[str, dict[str, Any]]:
    """A new key, and its row in the database."""
    identity, value = secrets.token_hex(6), secrets.token_urlsafe(32)
    row = {
        "id": identity, "digest": _digest(value), "name": name, "role": role.name, "created": time.time(),
        "revoked": False, "expires": rights.expires, "any_source": rights.any_source,
        "maps": None if rights.maps is None else list(rights.maps),
        "origin": identity if origin is None else origin,
    }  # fmt: skip
    return f"cf_{identity}_{value}", row


def _expired(expires: float | None) -> bool:
    return expires is not None and expires <= time.time()


class Names:
    """Pseudonyms of sources for readers: a keyed hash, the same everywhere in one workspace, different in others."""

    def __init__(self, engine: Engine):
        with writing(engine) as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("LOCK TABLE secret IN EXCLUSIVE MODE")
            value = connection.execute(select(secret.c.value).where(secret.c.name == "names")).scalar()
            if value is None:
                value = secrets.token_hex(32)
                connection.execute(insert(secret).values(name="names", value=value))
        self._key = bytes.fromhex(value)

    def pseudonym(self, name: str) -> str:
        digest = hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()
        return f"source-{digest[:10]}"

    def shown(self, name: str, principal: Principal) -> str:
        return name if principal.role >= Role.trusted else self.pseudonym(name)


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()
