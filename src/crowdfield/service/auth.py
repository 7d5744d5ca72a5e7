"""Who may do what: keys, roles, and the keyed hashes that stand for names.

A key is 256 random bits, so one round of SHA-256 is enough to store it safely: there is nothing to guess.
"""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from enum import IntEnum

from sqlalchemy import Engine, func, insert, select, update

from crowdfield.service.database import writing
from crowdfield.service.store import Unknown
from crowdfield.service.tables import api_key, secret


class Role(IntEnum):
    """Each role may do what those before it may."""

    nobody = 0
    reader = 1
    """Reads maps; sees neither names nor exact points."""
    reporter = 2
    """Sends reports."""
    trusted = 3
    """Sends reports that count as trusted; sees reports as they are; retracts."""
    admin = 4
    """Starts situations, says who is trusted, makes keys."""


@dataclass(frozen=True)
class Principal:
    """Who is asking."""

    role: Role
    id: str | None = None
    name: str = "anonymous"


@dataclass(frozen=True)
class KeyInfo:
    id: str
    name: str
    role: str
    created: float
    revoked: bool


class Keys:
    def __init__(self, engine: Engine):
        self._engine = engine
        # A changed key counts on every server within this time; until then the database is not asked again.
        self._fresh = 2.0
        self._seen: dict[str, tuple[float, Principal | None]] = {}

    def create(self, name: str, role: Role) -> str:
        """A new key. It is shown once and stored only as a hash."""
        identity, value = secrets.token_hex(6), secrets.token_urlsafe(32)
        row = {"id": identity, "digest": _digest(value), "name": name, "role": role.name, "created": time.time()}
        with writing(self._engine) as connection:
            connection.execute(insert(api_key).values(row | {"revoked": False}))
        return f"cf_{identity}_{value}"

    def first(self) -> str | None:
        """An admin key for a workspace that has no keys at all, else None; two servers make only one."""
        with writing(self._engine) as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("LOCK TABLE api_key IN EXCLUSIVE MODE")
            if connection.execute(select(func.count()).select_from(api_key)).scalar():
                return None
            identity, value = secrets.token_hex(6), secrets.token_urlsafe(32)
            connection.execute(
                insert(api_key).values(
                    id=identity, digest=_digest(value), name="first admin", role="admin", created=time.time(),
                    revoked=False,
                )
            )  # fmt: skip
        return f"cf_{identity}_{value}"

    def revoke(self, identity: str) -> None:
        with writing(self._engine) as connection:
            done = connection.execute(update(api_key).where(api_key.c.id == identity).values(revoked=True))
            if not done.rowcount:
                raise Unknown(f"there is no key '{identity}'")
        self._seen.clear()

    def all(self) -> list[KeyInfo]:
        columns = (api_key.c.id, api_key.c.name, api_key.c.role, api_key.c.created, api_key.c.revoked)
        with self._engine.connect() as connection:
            return [KeyInfo(*row) for row in connection.execute(select(*columns).order_by(api_key.c.created))]

    def known(self, key: str) -> tuple[bool, Principal | None]:
        """Whether the answer for this key is at hand without the database, and the answer."""
        at, principal = self._seen.get(_digest(key), (0.0, None))
        return time.monotonic() - at < self._fresh and at > 0, principal

    def check(self, key: str) -> Principal | None:
        """The owner of a key, or None for a key that is malformed, forged or revoked."""
        at_hand, principal = self.known(key)
        if at_hand:
            return principal
        principal = self._look_up(key)
        if len(self._seen) > 10_000:  # forged keys must not fill the memory
            self._seen.clear()
        self._seen[_digest(key)] = (time.monotonic(), principal)
        return principal

    def _look_up(self, key: str) -> Principal | None:
        parts = key.split("_", 2)
        if len(parts) != 3 or parts[0] != "cf" or not parts[1].isalnum() or len(key) > 200 or not key.isascii():
            return None
        with self._engine.connect() as connection:
            row = connection.execute(select(api_key).where(api_key.c.id == parts[1])).first()
        # The same work for a known and an unknown id, so that time tells nothing.
        matches = hmac.compare_digest(_digest(parts[2]), row.digest if row else _digest(""))
        if row is None or not matches or row.revoked:
            return None
        return Principal(Role[row.role], row.id, row.name)


class Names:
    """Source names as readers see them: a keyed hash, the same everywhere in a workspace and in no other."""

    def __init__(self, engine: Engine):
        with writing(engine) as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("LOCK TABLE secret IN EXCLUSIVE MODE")
            value = connection.execute(select(secret.c.value).where(secret.c.name == "names")).scalar()
            if value is None:
                value = secrets.token_hex(32)
                connection.execute(insert(secret).values(name="names", value=value))
        self._key = bytes.fromhex(value)

    def hidden(self, name: str) -> str:
        digest = hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()
        return f"source-{digest[:10]}"

    def shown(self, name: str, principal: Principal) -> str:
        return name if principal.role >= Role.trusted else self.hidden(name)


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()
